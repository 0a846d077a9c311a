# SPDX-License-Identifier: Apache-2.0
"""An editing session of a robot's collision spheres: selection, edits, undo, redo and saving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, UnknownFrame
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.sphere_measure import Coverage
from motion_nodes.robot_setup.sphere_set import SphereSet

MAX_UNDO = 500
"""Max number of undo steps."""
NEW_RADIUS = 0.04
"""Radius of a sphere added to a link without geometry [m]."""


class SphereSession:
    """A sphere set with its undo history.

    Args:
        robot: the robot whose spheres are edited.
        file: file to save to.
    """

    def __init__(self, robot: Robot, file: Path) -> None:
        """Start with the loaded spheres of the robot and select the first link with spheres."""
        self.robot, self.file = robot, file
        self.spheres = self._saved = SphereSet.of_robot(robot)
        self._undo: list[SphereSet] = []
        self._redo: list[SphereSet] = []
        self._geometry: dict[str, LinkGeometry | None] = {}
        self.links = tuple(
            name
            for name, link in robot.tree.links.items()
            if link.collisions or link.visuals or name in self.spheres.links
        )
        """Links that can have spheres."""
        self.link = next((name for name in self.links if name in self.spheres.links), "")
        self.link = self.link or next(iter(self.links), "")
        self.index = 0

    @property
    def chosen(self) -> np.ndarray | None:
        """Selected sphere: centre in the link and radius [m], shape (4,); None without spheres."""
        spheres = self.spheres.of(self.link)
        return np.array(spheres[self.index]) if self.index < len(spheres) else None

    @property
    def unsaved(self) -> bool:
        """Whether there are unsaved changes."""
        return self.spheres is not self._saved

    def choose(self, link: str, index: int = 0) -> None:
        """Select a link and one of its spheres.

        Args:
            link: one of ``links``.
            index: index of the sphere, clamped to the existing ones.

        Raises:
            UnknownFrame: the link is not one of ``links``.
        """
        if link not in self.links:
            raise UnknownFrame(link, self.links, self.robot.name)
        self.link = link
        self.index = min(max(index, 0), max(len(self.spheres.of(link)) - 1, 0))

    def add(self) -> None:
        """Add a sphere at the centre of the selected link's geometry, and select it."""
        geometry = self.geometry(self.link)
        centre, radius = np.zeros(3), NEW_RADIUS
        if geometry is not None:
            centre = geometry.bounds.mean(axis=0)
            radius = max(0.25 * float(np.ptp(geometry.bounds, axis=0).max()), 1e-3)
        self._apply(self.spheres.add(self.link, centre, radius))
        self.index = len(self.spheres.of(self.link)) - 1

    def move(self, centre: ArrayLike) -> None:
        """Move the selected sphere.

        Args:
            centre: new centre in its link [m], shape (3,).

        Raises:
            InvalidCommand: not three finite numbers, or no sphere is selected.
        """
        self._apply(self.spheres.move(self.link, self.index, centre))

    def resize(self, radius: float, merge: bool = False) -> None:
        """Change the radius of the selected sphere.

        Args:
            radius: new radius [m].
            merge: whether to merge this change with the previous one into one undo step.

        Raises:
            InvalidCommand: the radius is not positive and finite, or no sphere is selected.
        """
        spheres = self.spheres.resize(self.link, self.index, radius)
        if merge and self._undo:
            self.spheres, self._redo = spheres, []
        else:
            self._apply(spheres)

    def remove(self) -> None:
        """Delete the selected sphere, and select the previous one.

        Raises:
            InvalidCommand: no sphere is selected.
        """
        self._apply(self.spheres.remove(self.link, self.index))
        self.choose(self.link, self.index - 1)

    def connect(self, other: int, count: int) -> None:
        """Interpolate spheres between the selected one and another of its link.

        Args:
            other: index of the other sphere.
            count: number of spheres to add.

        Raises:
            InvalidCommand: no such spheres, or ``count`` is out of range.
        """
        self._apply(self.spheres.connect(self.link, self.index, other, count))

    def scale(self, factor: float) -> None:
        """Scale the radii of the selected link's spheres.

        Args:
            factor: above 0.

        Raises:
            InvalidCommand: the factor is not positive and finite.
            UnknownFrame: the selected link has no spheres.
        """
        self._apply(self.spheres.scale(factor, self.link))

    def generate(self, accuracy: float) -> None:
        """Replace the selected link's spheres by ones fitted to its geometry.

        Args:
            accuracy: max protrusion beyond the geometry [m].

        Raises:
            InvalidCommand: the link has no geometry.
            InvalidConfig: ``accuracy`` is not positive.
        """
        geometry = self.geometry(self.link)
        if geometry is None:
            raise InvalidCommand(f"{self.link} has no collision geometry to fit spheres to.")
        self._apply(self.spheres.generate(self.link, geometry, accuracy=accuracy))
        self.choose(self.link)

    def undo(self) -> bool:
        """Undo the last change; return whether there was one."""
        return self._step(self._undo, self._redo)

    def redo(self) -> bool:
        """Redo the last undone change; return whether there was one."""
        return self._step(self._redo, self._undo)

    def save(self) -> Path | None:
        """Write the file; an existing file is kept as a backup.

        Returns:
            Path of the backup, or None.

        Raises:
            InvalidDescription: the file cannot be written.
        """
        backup = self.spheres.write(self.file)
        self._saved = self.spheres
        return backup

    def geometry(self, link: str) -> LinkGeometry | None:
        """Return the collision geometry of a link, cached; None if it has none."""
        if link not in self._geometry:
            self._geometry[link] = LinkGeometry.of_link(self.robot, link)
        return self._geometry[link]

    def coverage(self) -> Coverage | None:
        """Return the coverage of the selected link's geometry; None without geometry."""
        geometry = self.geometry(self.link)
        return None if geometry is None else self.spheres.coverage(self.link, geometry)

    def _apply(self, spheres: SphereSet) -> None:
        self._undo = [*self._undo, self.spheres][-MAX_UNDO:]
        self._redo = []
        self.spheres = spheres

    def _step(self, back: list[SphereSet], forth: list[SphereSet]) -> bool:
        if not back:
            return False
        forth.append(self.spheres)
        self.spheres = back.pop()
        self.choose(self.link, self.index)
        return True

# SPDX-License-Identifier: Apache-2.0
"""An editing session of a robot's collision spheres: what is chosen, done, undone and saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, UnknownFrame
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.sphere_measure import Coverage
from motion_nodes.robot_setup.sphere_set import SphereSet

MOST_STEPS = 500
"""That can be undone."""
NEW_RADIUS = 0.04
"""[m] Of a sphere that is added where the link has no geometry."""


class SphereSession:
    """One sphere set that changes, with everything it was before.

    Args:
        robot: whose spheres are edited.
        file: where they are saved.
    """

    def __init__(self, robot: Robot, file: Path) -> None:
        """Begin with the spheres that the robot was loaded with; the first link is chosen."""
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
        """That can have spheres."""
        self.link = next((name for name in self.links if name in self.spheres.links), "")
        self.link = self.link or next(iter(self.links), "")
        self.index = 0

    @property
    def chosen(self) -> np.ndarray | None:
        """The chosen sphere: centre in the link and radius [m], shape (4,); None without one."""
        spheres = self.spheres.of(self.link)
        return np.array(spheres[self.index]) if self.index < len(spheres) else None

    @property
    def unsaved(self) -> bool:
        """Whether something is another than in the file."""
        return self.spheres is not self._saved

    def choose(self, link: str, index: int = 0) -> None:
        """Choose a link and one of its spheres.

        Raises:
            UnknownFrame: there is no such link.
        """
        if link not in self.links:
            raise UnknownFrame(link, self.links, self.robot.name)
        self.link = link
        self.index = min(max(index, 0), max(len(self.spheres.of(link)) - 1, 0))

    def add(self) -> None:
        """Add a sphere to the chosen link, in its middle, and choose it."""
        geometry = self.geometry(self.link)
        centre, radius = np.zeros(3), NEW_RADIUS
        if geometry is not None:
            centre = geometry.bounds.mean(axis=0)
            radius = max(0.25 * float(np.ptp(geometry.bounds, axis=0).max()), 1e-3)
        self._take(self.spheres.add(self.link, centre, radius))
        self.index = len(self.spheres.of(self.link)) - 1

    def move(self, centre: ArrayLike) -> None:
        """Move the chosen sphere to a centre in its link [m], shape (3,)."""
        self._take(self.spheres.move(self.link, self.index, centre))

    def resize(self, radius: float, goes_on: bool = False) -> None:
        """Give the chosen sphere another radius [m].

        Args:
            radius: the new one [m].
            goes_on: whether this and the change before are one movement of a hand, which is undone
                as a whole.
        """
        spheres = self.spheres.resize(self.link, self.index, radius)
        if goes_on and self._undo:
            self.spheres, self._redo = spheres, []
        else:
            self._take(spheres)

    def remove(self) -> None:
        """Delete the chosen sphere; the one before it is chosen."""
        self._take(self.spheres.remove(self.link, self.index))
        self.choose(self.link, self.index - 1)

    def connect(self, other: int, count: int) -> None:
        """Put a row of ``count`` spheres between the chosen one and another of its link."""
        self._take(self.spheres.connect(self.link, self.index, other, count))

    def scale(self, factor: float) -> None:
        """Multiply the radii of the chosen link's spheres."""
        self._take(self.spheres.scale(factor, self.link))

    def generate(self, accuracy: float) -> None:
        """Fit the chosen link's spheres to its geometry, which they exceed by ``accuracy`` [m].

        Raises:
            InvalidCommand: the link has no geometry.
        """
        geometry = self.geometry(self.link)
        if geometry is None:
            raise InvalidCommand(f"{self.link} has no collision geometry to fit spheres to.")
        self._take(self.spheres.generate(self.link, geometry, accuracy=accuracy))
        self.choose(self.link)

    def undo(self) -> bool:
        """Take the last change back; return whether there was one."""
        return self._step(self._undo, self._redo)

    def redo(self) -> bool:
        """Do again what was taken back; return whether there was something."""
        return self._step(self._redo, self._undo)

    def save(self) -> Path | None:
        """Write the file; what stood there is kept beside it.

        Returns:
            Where the file that was there is kept now, or None.

        Raises:
            InvalidDescription: it cannot be written.
        """
        kept = self.spheres.write(self.file)
        self._saved = self.spheres
        return kept

    def geometry(self, link: str) -> LinkGeometry | None:
        """Return the collision geometry of a link, None if it has none; read once."""
        if link not in self._geometry:
            self._geometry[link] = LinkGeometry.of_link(self.robot, link)
        return self._geometry[link]

    def coverage(self) -> Coverage | None:
        """Return how well the chosen link's spheres stand for its geometry; None without one."""
        geometry = self.geometry(self.link)
        return None if geometry is None else self.spheres.coverage(self.link, geometry)

    def _take(self, spheres: SphereSet) -> None:
        self._undo = [*self._undo, self.spheres][-MOST_STEPS:]
        self._redo = []
        self.spheres = spheres

    def _step(self, back: list[SphereSet], forth: list[SphereSet]) -> bool:
        if not back:
            return False
        forth.append(self.spheres)
        self.spheres = back.pop()
        self.choose(self.link, self.index)
        return True

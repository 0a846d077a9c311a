# SPDX-License-Identifier: Apache-2.0
"""The collision spheres of a robot as an immutable value: every change returns a new set.

This allows editors to store previous sets for undo.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidDescription, UnknownFrame
from motion_nodes.model.files.yaml_file import read_yaml, yaml_text
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import frozen
from motion_nodes.model.yaml_schema import decode
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.sphere_fit import fit_count, fit_spheres
from motion_nodes.robot_setup.sphere_measure import Coverage, measure
from motion_nodes.typing import Array

SPHERES_FILE = "spheres.yaml"
_HEADING = "# Collision spheres: link -> [x, y, z, radius] in the link's frame [m].\n"


@dataclass(frozen=True, eq=False)
class SphereSet:
    """Spheres by link: centre in the link's frame and radius [m], shape (n, 4) each."""

    links: Mapping[str, Array] = field(default_factory=dict)
    """Only links that have spheres."""

    def __post_init__(self) -> None:
        """Validate and freeze all spheres.

        Raises:
            InvalidCommand: a sphere that is not four finite numbers, or a radius that is not
                positive.
        """
        checked = {link: _checked(link, spheres) for link, spheres in self.links.items()}
        kept = {link: spheres for link, spheres in checked.items() if len(spheres)}
        object.__setattr__(self, "links", MappingProxyType(kept))

    @classmethod
    def of_robot(cls, robot: Robot) -> SphereSet:
        """Return the spheres of a loaded robot."""
        return cls({link: np.array(items) for link, items in robot.spheres.items() if items})

    @property
    def count(self) -> int:
        """Number of spheres of all links."""
        return sum(map(len, self.links.values()))

    def of(self, link: str) -> Array:
        """Return the spheres of a link, shape (n, 4); n is 0 if it has none."""
        return self.links.get(link, frozen(np.empty((0, 4))))

    def with_link(self, link: str, spheres: ArrayLike) -> SphereSet:
        """Return a set with other spheres of a link.

        Args:
            link: any name; its existence is checked when the robot is loaded.
            spheres: shape (n, 4); empty: the link is removed.

        Raises:
            InvalidCommand: see the class.
        """
        return SphereSet({**self.links, link: np.asarray(spheres, np.float64).reshape(-1, 4)})

    def add(self, link: str, centre: ArrayLike, radius: float) -> SphereSet:
        """Return a set with one more sphere (centre and radius [m]), the last of its link."""
        return self.with_link(link, np.vstack((self.of(link), [*np.ravel(centre), radius])))

    def move(self, link: str, index: int, centre: ArrayLike) -> SphereSet:
        """Return a set in which a sphere has another centre [m], shape (3,)."""
        return self._with_sphere(link, index, [*np.ravel(centre), self._sphere(link, index)[3]])

    def resize(self, link: str, index: int, radius: float) -> SphereSet:
        """Return a set in which a sphere has another radius [m]."""
        return self._with_sphere(link, index, [*self._sphere(link, index)[:3], radius])

    def remove(self, link: str, indices: int | Iterable[int]) -> SphereSet:
        """Return a set without some spheres of a link."""
        desired = [indices] if isinstance(indices, int) else list(indices)
        for index in desired:
            self._sphere(link, index)
        return self.with_link(link, np.delete(self.of(link), desired, axis=0))

    def connect(self, link: str, first: int, second: int, count: int) -> SphereSet:
        """Return a set with a row of spheres between two.

        Centres and radii are interpolated linearly.

        Args:
            link: link with both spheres.
            first: index of one end.
            second: index of the other end.
            count: number of spheres in between, 1 or more.

        Raises:
            InvalidCommand: unknown or equal indices, or a count below 1.
        """
        a, b = self._sphere(link, first), self._sphere(link, second)
        if first == second:
            raise InvalidCommand(
                f"{link}: sphere {first} cannot be connected with itself.", field=link
            )
        if count < 1:
            raise InvalidCommand(f"{link}: count is {count}; it must be 1 or more.", field=link)
        share = np.linspace(0.0, 1.0, count + 2)[1:-1, None]
        return self.with_link(link, np.vstack((self.of(link), a + share * (b - a))))

    def scale(self, factor: float, link: str | None = None) -> SphereSet:
        """Return a set with the radii of one link or of all links multiplied by a factor.

        Raises:
            InvalidCommand: a factor that is not positive, or a link without spheres.
        """
        if not (np.isfinite(factor) and factor > 0.0):
            raise InvalidCommand(
                f"spheres cannot be scaled by {factor}; give a number above 0.", field="factor"
            )
        if link is not None and link not in self.links:
            raise UnknownFrame(link, self.links, "the set of spheres")
        chosen = self.links if link is None else {link: self.links[link]}
        return SphereSet({**self.links, **{k: s * (1, 1, 1, factor) for k, s in chosen.items()}})

    def generate(
        self,
        link: str,
        geometry: LinkGeometry,
        *,
        accuracy: float | None = None,
        count: int | None = None,
    ) -> SphereSet:
        """Return a set with a link's spheres fitted to its geometry.

        Args:
            link: link whose spheres are replaced.
            geometry: see :meth:`LinkGeometry.of_link`.
            accuracy: max excess of the spheres [m]; determines their number.
            count: max number of spheres, instead of the accuracy.

        Raises:
            InvalidCommand: both or neither are given.
            InvalidConfig: a value that is not positive.
        """
        if accuracy is not None and count is None:
            return self.with_link(link, fit_spheres(geometry, accuracy))
        if count is not None and accuracy is None:
            return self.with_link(link, fit_count(geometry, count))
        raise InvalidCommand(
            f"{link}: give either the accuracy or the number of the spheres.", field=link
        )

    def coverage(self, link: str, geometry: LinkGeometry) -> Coverage:
        """Return the coverage of a link's geometry by its spheres."""
        return measure(self.of(link), geometry)

    @classmethod
    def read(cls, file: str | Path) -> SphereSet:
        """Read a spheres.yaml: link -> list of [x, y, z, radius] [m].

        Args:
            file: the file, or a robot's folder that contains ``spheres.yaml``.

        Raises:
            InvalidDescription: names file, link and problem.
        """
        path = Path(file).expanduser()
        if path.is_dir():
            path = path / SPHERES_FILE
        kind = dict[str, tuple[tuple[float, float, float, float], ...]]
        read = decode(read_yaml(path), kind, str(path))
        try:
            return cls({link: np.reshape(items, (-1, 4)) for link, items in read.items()})
        except InvalidCommand as error:
            raise InvalidDescription(f"{path}: {error}") from None

    def write(self, file: str | Path, heading: str = _HEADING) -> Path | None:
        """Write a spheres.yaml atomically; an existing file is kept as a backup.

        Args:
            file: path; nothing is changed if writing fails.
            heading: header, comment lines with ``#``.

        Returns:
            Path of the backup (``spheres.yaml.1`` and so on), or None.

        Raises:
            InvalidDescription: the folder or file cannot be written.
        """
        path = Path(file).expanduser()
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            draft.write_text(f"# SPDX-License-Identifier: Apache-2.0\n{heading}{self.text()}")
            kept = None
            if path.exists():
                kept = next(k for n in range(1, 10**6) if not (k := _numbered(path, n)).exists())
                shutil.copy2(path, kept)
            os.replace(draft, path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise InvalidDescription(f"{path}: cannot be written: {error.strerror}.") from None
        return kept

    def text(self) -> str:
        """Return the set as YAML, rounded to 1e-6 m."""
        return yaml_text(
            {link: (spheres.round(6) + 0.0).tolist() for link, spheres in self.links.items()}
        )

    def _sphere(self, link: str, index: int) -> Array:
        spheres = self.of(link)
        if not 0 <= index < len(spheres):
            raise InvalidCommand(
                f"{link} has no sphere {index}; it has {len(spheres)}, counted from 0.", field=link
            )
        return np.asarray(spheres[index])

    def _with_sphere(self, link: str, index: int, sphere: ArrayLike) -> SphereSet:
        spheres = self.of(link).copy()
        spheres[index] = sphere
        return self.with_link(link, spheres)


def _checked(link: str, spheres: Array) -> Array:
    values = np.asarray(spheres, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != 4:
        raise InvalidCommand(f"{link}: a sphere is four numbers, x, y, z and radius [m].")
    if not np.isfinite(values).all():
        raise InvalidCommand(f"{link}: a sphere has a number that is not finite.", field=link)
    if len(values) and values[:, 3].min() <= 0.0:
        bad = int(values[:, 3].argmin())
        raise InvalidCommand(
            f"{link}: the radius of sphere {bad} is {values[bad, 3]:g} m; it must be positive.",
            field=link,
        )
    return frozen(values)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")

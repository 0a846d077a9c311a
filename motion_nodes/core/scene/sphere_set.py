# SPDX-License-Identifier: Apache-2.0
"""The collision spheres of a robot as an immutable value: every change returns a new set.

This allows editors to store previous sets for undo. Spheres are fitted to a link's geometry: few of
them, with a small excess, which gradient descent reduces.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.robot.yaml_schema import decode, read_yaml, yaml_text
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription, UnknownFrame
from motion_nodes.kernels.sphere_fit import DescentRules, count_within, descend, nearest
from motion_nodes.typing import Array

_ROUNDS, _STEPS = 3, 30
_STEP = 0.08
"""Initial step relative to the accuracy; steps decrease to zero."""
_HOLD = 20.0
"""Weight of uncovered points relative to excess volume."""
_WITHIN = 0.08
"""Desired depth of the surface inside spheres, relative to the accuracy."""
_EDGE = 0.25
"""Width of a sphere's edge band, relative to the accuracy."""
_CANDIDATES = 800
_TARGETS = 3000  # number of points to cover while spheres are selected
_GROWTH = 0.35
"""Max growth of spheres to cover remaining points, as a fraction of the accuracy."""
_FIRST = 1.1
"""Initial max excess of spheres relative to the accuracy; the refinement reduces it."""
_TRIES = 5
_AIM, _GOOD = 0.93, 1.02
"""Desired and sufficient excess, relative to the accuracy."""
SPHERES_FILE = "spheres.yaml"
_HEADING = "# Collision spheres: link -> [x, y, z, radius] in the link's frame [m].\n"


@dataclass(frozen=True)
class Coverage:
    """Coverage of a geometry by spheres."""

    surface: float
    """Fraction of the surface inside a sphere, 0 to 1."""
    volume: float
    """Fraction of the volume inside a sphere, 0 to 1."""
    excess_volume: float
    """Volume of the spheres outside the geometry, relative to the geometry's volume."""
    reach: float
    """Max excess of the spheres beyond the geometry [m]."""
    gap: float
    """Max excess of the geometry beyond the spheres [m]."""
    count: int
    """Number of spheres."""


def measure(spheres: Array, geometry: LinkGeometry) -> Coverage:
    """Return the coverage of a geometry by spheres.

    Args:
        spheres: centre and radius in the link's frame [m], shape (n, 4).
        geometry: geometry of that link; its spacing is the accuracy of the result.
    """
    spheres = np.asarray(spheres, dtype=np.float64).reshape(-1, 4)
    if not len(spheres):
        low, high = geometry.bounds
        return Coverage(0.0, 0.0, 0.0, 0.0, float(np.linalg.norm(high - low)), 0)
    surface = outside(spheres, geometry.surface)
    inside = outside(spheres, geometry.elements) <= 0.0
    weights = geometry._weights
    held = float((weights * inside).sum()) * geometry.spacing**3
    total = _union_volume(spheres, geometry.spacing)
    return Coverage(
        surface=float((surface <= 0.0).mean()),
        volume=float((weights * inside).sum() / weights.sum()),
        excess_volume=max(0.0, total - held) / geometry.volume,
        reach=float(reach_beyond(spheres, geometry).max()),
        gap=float(max(0.0, surface.max())),
        count=len(spheres),
    )


def reach_beyond(spheres: Array, geometry: LinkGeometry) -> Array:
    """Return the excess of each sphere beyond a geometry [m], exact up to its spacing, (n,).

    Parts inside another sphere do not count.
    """
    shells = _shells(spheres)
    free = outside(spheres, shells) > -1e-9
    reach = np.zeros(len(shells))
    reach[free] = geometry.distance_outside(shells[free])
    return np.asarray(reach.reshape(len(spheres), -1).max(axis=1))


def outside(spheres: Array, points: Array) -> Array:
    """Return the signed distance of points from all spheres, negative inside [m], shape (m,)."""
    return nearest(spheres, points)[0]


def some(points: Array, count: int, rng: np.random.Generator) -> Array:
    """Return a uniform random selection of at most ``count`` points."""
    return points[rng.permutation(len(points))[:count]]


def _spread(count: int) -> Array:
    """Return evenly distributed directions, shape (count, 3): a Fibonacci lattice."""
    k = np.arange(count) + 0.5
    polar, turn = np.arccos(1.0 - 2.0 * k / count), np.pi * (1.0 + 5.0**0.5) * k
    x, y = np.cos(turn) * np.sin(polar), np.sin(turn) * np.sin(polar)
    return np.stack((x, y, np.cos(polar)), axis=1)


def _union_volume(spheres: Array, spacing: float) -> float:
    """Return the volume of the union of spheres [m^3], on a grid."""
    low = (spheres[:, :3] - spheres[:, 3:]).min(axis=0)
    high = (spheres[:, :3] + spheres[:, 3:]).max(axis=0)
    step = max(spacing, float((high - low).max()) / 100.0)
    axes = [np.arange(a + 0.5 * step, b, step) for a, b in zip(low, high, strict=True)]
    inside = np.zeros([len(axis) for axis in axes], bool)
    for x, y, z, radius in spheres:
        squares = [(axis - c) ** 2 for axis, c in zip(axes, (x, y, z), strict=True)]
        inside |= (
            squares[0][:, None, None] + squares[1][None, :, None] + squares[2][None, None, :]
        ) <= radius**2
    return float(inside.sum()) * step**3


def _shells(spheres: Array) -> Array:
    """Return points distributed over the spheres' surfaces, shape (n * 200, 3)."""
    points = spheres[:, None, :3] + spheres[:, None, 3:] * _spread(200)
    return np.asarray(points.reshape(-1, 3))


def refine(spheres: Array, geometry: LinkGeometry, accuracy: float) -> Array:
    """Return the same number of spheres with less volume outside the geometry.

    Gradient descent minimises the sum of two losses: squared distances of points of the geometry
    outside all spheres, and the volume of the spheres' union outside the geometry, weighted by its
    distance. Both depend only on the sphere that contains a point deepest, so the gradient of the
    volume depends only on the free surface. Fitting spheres by descent on such losses:
    Nechyporenko et al., MorphIt: flexible spherical approximation of robot morphology, 2025; on the
    volume outside: Wang et al., Variational sphere set approximation for solid objects, The Visual
    Computer 22, 2006. Steps: Kingma and Ba, Adam, ICLR 2015.

    Args:
        spheres: initial spheres: centre and radius in the link's frame [m], shape (n, 4).
        geometry: geometry of the link.
        accuracy: desired max excess [m].
    """
    rng = np.random.default_rng(3)
    surface, inner = geometry.surface, geometry.elements
    held = np.concatenate(
        (
            some(surface, int(np.clip(25 * len(spheres), 1500, 5000)), rng),
            some(inner, int(np.clip(8 * len(spheres), 500, 1500)), rng),
        )
    )
    near, away = geometry.around(2.0 * accuracy)
    kept = rng.permutation(len(near))[: int(np.clip(35 * len(spheres), 3000, 6000))]
    # Volume represented by each of these elements, in units of the accuracy.
    each = (geometry.spacing / accuracy) ** 3 * len(near) / max(1, len(kept))
    weights = each * (1.0 + 4.0 * (away[kept] / accuracy) ** 8)
    found = np.array(spheres, dtype=np.float64)
    for k in range(_ROUNDS):
        points = np.concatenate((held, near[kept]))
        found = descend(found, points, weights, _rules(accuracy, k))
        # Add corners that the samples missed.
        lacking = outside(found, surface)
        held = np.concatenate((held, surface[lacking > 0.3 * _WITHIN * accuracy]))
    return found


def _rules(accuracy: float, part: int) -> DescentRules:
    """Return the parameters of one round, the ``part``-th of all."""
    return DescentRules(
        steps=_STEPS,
        begin=part / _ROUNDS,
        end=(part + 1) / _ROUNDS,
        hold=_HOLD / accuracy,
        within=_WITHIN * accuracy,
        edge=_EDGE * accuracy,
        pull=1.0 / _EDGE,
        size=_STEP * accuracy,
        least=0.2 * accuracy,
    )


def fit_spheres(geometry: LinkGeometry, accuracy: float) -> Array:
    """Return few spheres that cover a geometry with an excess of at most ``accuracy``.

    Initial spheres: a sphere about a point at depth d may have the radius ``d + accuracy``, because
    the ball of radius d is within the geometry. Of such spheres about points of the medial axis and
    of the volume, the one that covers most uncovered points is selected until all are covered (the
    greedy algorithm for set cover; Chvatal, A greedy heuristic for the set-covering problem, Math.
    of Operations Research 4, 1979). All spheres are then optimised together to reduce the excess
    volume (:func:`refine`), and enlarged to cover the
    remaining points. Spheres with a large excess are split in two, for a few rounds.

    Args:
        geometry: geometry of one link.
        accuracy: max excess [m].

    Returns:
        Centre and radius in the link's frame [m], shape (n, 4), the largest first.

    Raises:
        InvalidConfig: an accuracy that is not a positive number.
    """
    if not (np.isfinite(accuracy) and accuracy > 0.0):
        raise InvalidConfig(f"the accuracy of spheres is {accuracy} m; it must be above 0.")
    geometry = geometry.finer(accuracy / 3.0)
    spheres = _polished(_Cover(geometry).greedy(_FIRST * accuracy), geometry, accuracy)
    best, least = spheres, np.inf
    for _ in range(_TRIES):
        reach = reach_beyond(spheres, geometry)
        if reach.max() < least:
            best, least = spheres, reach.max()
        if least <= _GOOD * accuracy:
            break
        spheres = _split(spheres, reach > _GOOD * accuracy, geometry)
        spheres = _polished(spheres, geometry, accuracy)
    return frozen(best)


def fit_count(geometry: LinkGeometry, count: int) -> Array:
    """Return at most ``count`` spheres that cover a geometry, with the best accuracy.

    Raises:
        InvalidConfig: a count below 1.
    """
    if count < 1:
        raise InvalidConfig(f"the number of spheres is {count}; it must be 1 or more.")
    size = float(np.ptp(geometry.bounds, axis=0).max())
    cover = _Cover(geometry)
    low, high = size / 100.0, size
    best = np.array([[*geometry.bounds.mean(axis=0), size]])
    for _ in range(9):
        middle = float(np.sqrt(low * high))
        spheres = cover.greedy(middle)
        if len(spheres) <= count:
            best, high = spheres, middle
        else:
            low = middle
    return frozen(_polished(best, geometry.finer(high / 3.0), high))


class _Cover:
    """Selection of spheres that cover samples of a geometry."""

    def __init__(self, geometry: LinkGeometry) -> None:
        rng = np.random.default_rng(0)
        surface, inner = geometry.surface, geometry.elements
        targets = (some(surface, _TARGETS, rng), some(inner, _TARGETS // 3, rng))
        self._centres = np.concatenate(
            (
                some(geometry.middle_axes, _CANDIDATES, rng),
                some(inner, _CANDIDATES // 2, rng),
                some(surface, _CANDIDATES // 3, rng),
            )
        )
        self._depths = np.maximum(geometry.depth(self._centres), 0.0)
        self._targets = np.concatenate(targets)

    def greedy(self, accuracy: float) -> Array:
        """Return spheres selected greedily until almost all samples are covered.

        Points within ``_GROWTH`` of a sphere count as covered; otherwise the last few points would
        require as many spheres as all others.
        """
        more = (1.0 - _GROWTH) * accuracy
        left, reach = self._targets, self._depths + more
        gains = count_within(left, self._centres, reach)
        taken: list[int] = []
        while gains.max() > 0:
            taken.append(k := int(gains.argmax()))
            new = np.linalg.norm(left - self._centres[k], axis=1) <= self._depths[k] + accuracy
            gains -= count_within(left[new], self._centres, reach)
            left = left[~new]
        return np.column_stack((self._centres[taken], self._depths[taken] + more))


def _split(spheres: Array, too_far: NDArray[np.bool_], geometry: LinkGeometry) -> Array:
    """Return spheres, some of them split in two that cover half of the points each."""
    points = np.concatenate((geometry.surface, geometry.elements))
    owner = nearest(spheres, points)[1]
    halves = []
    for k in np.flatnonzero(too_far):
        own = points[owner == k]
        if not len(own):
            halves.append(spheres[k])
            continue
        own = own - (middle := own.mean(axis=0))
        longest = np.linalg.eigh(own.T @ own)[1][:, -1]
        side = own @ longest > 0.0
        if side.all() or not side.any():
            halves.append(spheres[k])
            continue
        for part in (own[side], own[~side]):
            halves.append([*(middle + part.mean(axis=0)), 0.8 * spheres[k, 3]])
    return np.vstack((spheres[~too_far], halves))


def _polished(spheres: Array, geometry: LinkGeometry, accuracy: float) -> Array:
    """Return refined spheres that cover all of the geometry, the largest first."""
    spheres = refine(spheres, geometry, _AIM * accuracy)
    grown = spheres.copy()
    used = np.zeros(len(spheres), bool)
    for points in np.array_split(geometry.dense, 1 + len(geometry.dense) // 50_000):
        beyond, owner = nearest(spheres, points)
        used[owner] = True
        np.maximum.at(grown[:, 3], owner, spheres[owner, 3] + beyond)
    used[nearest(spheres, geometry.elements)[1]] = True
    grown = grown[used]
    return grown[np.argsort(-grown[:, 3], kind="stable")]


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

# SPDX-License-Identifier: Apache-2.0
"""Objects in point clouds: support plane, clusters above it, a shape and a name for each.

Boxes, upright cylinders and spheres are fitted to points that are seen from one side: the top and
the near sides of an object on a plane (RANSAC, then least squares), whose bottom is the plane.
Points are centres of pixels; noise moves the outer ones about as far outwards as the object reaches
beyond them. Names are those of known models of that size, and numbers for others.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, QhullError, cKDTree

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.perception.settings import DetectorSettings
from motion_nodes.typing import Array

MARGIN = 0.006
"""Max distance of an object's points from its bounding box [m]; half of it is left out at the
bottom, where points are those of the plane."""
CANDIDATES = 200
"""Number of planes through three random points."""
SAMPLES = 3000
"""Max number of points by which they are compared."""
MIN_SHARE = 0.1
"""Min fraction of the points in a supporting plane."""
FINENESS = 3.0
"""Points within a cell of a grid, this much finer than the distance, count as one."""
Shape = Box | Cylinder | Sphere
TOP = 0.008
"""Points this far below the highest ones belong to the top [m]."""
ROUND_SIDES = 0.75
"""Min ratio of the sides of a rectangle around a circle."""
CORNERS, CORNER_SHARE = 1.05, 0.08
"""Where the corners of a square begin (square of the distance from its centre, of half a side), and
the fraction of points there from which it is not that of a circle."""
FRINGE = 0.5
"""Spacing of points by which the square is wider than they are."""
SPHERE_GAIN = 0.6
"""Max error of a sphere in relation to that of the other shape."""
HEADINGS = np.radians(np.arange(0.0, 90.0, 1.0))
LEVELS = 3
"""Number of heights that are tried as the top of an object with others on it."""
SHIFTS = 100
"""Max number of corrections of such a height."""
ON_TOP = 0.9
"""Fraction of the points above such a top that must be over it."""
_CHUNK = 20_000
"""Number of points whose distances from all spheres are computed at once."""
STACKED = 4
"""Max number of objects on top of each other."""


def support_plane(points: Array, settings: DetectorSettings) -> Array | None:
    """Return the frame of the nearly horizontal plane with most points.

    Args:
        points: in a frame with z upwards [m], shape (n, 3).
        settings: tolerance and tilt; a given height replaces the search.

    Returns:
        Pose of a frame in the plane with z along its normal, shape (4, 4); None without a plane.
    """
    if not math.isnan(settings.support_height):
        return _frame(np.array((0.0, 0.0, settings.support_height)))
    if len(points) < settings.min_points:
        return None
    rng = np.random.default_rng(0)
    sample = points[rng.permutation(len(points))[:SAMPLES]]
    corners = sample[rng.integers(0, len(sample), (CANDIDATES, 3))]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    level = np.abs(normals[:, 2]) >= math.cos(settings.plane_tilt) * lengths
    usable = level & (lengths > 1e-9)
    if not usable.any():
        return None
    normals, corners = normals[usable], corners[usable]
    normals = normals / normals[:, 2:]
    # z = c - a x - b y
    planes = np.column_stack((normals[:, :2], (normals * corners[:, 0]).sum(axis=1)))
    heights = sample[:, 2:] + sample[:, :2] @ planes[:, :2].T - planes[:, 2]
    counts = (np.abs(heights) <= settings.plane_tolerance).sum(axis=0)
    plane = planes[int(np.argmax(counts))]
    for _ in range(3):
        height = points[:, 2] + points[:, :2] @ plane[:2] - plane[2]
        near = np.abs(height) <= settings.plane_tolerance
        if near.sum() < max(settings.min_points, MIN_SHARE * len(points)):
            return None
        chosen = points[near]
        centre = chosen.mean(axis=0)
        local = chosen - centre
        slope = np.linalg.lstsq(local[:, :2].T @ local[:, :2], local[:, :2].T @ local[:, 2])[0]
        plane = np.array((-slope[0], -slope[1], centre[2] - slope @ centre[:2]))
    if math.hypot(plane[0], plane[1]) > math.tan(settings.plane_tilt):
        return None
    return _frame(plane)


def _frame(plane: Array) -> Array:
    """Return the frame of a plane z = c - a x - b y, given as (a, b, c), shape (4, 4)."""
    normal = np.array((plane[0], plane[1], 1.0))
    normal = normal / np.linalg.norm(normal)
    x = np.array((1.0, 0.0, -plane[0]))
    x = x / np.linalg.norm(x)
    X = np.eye(4)
    X[:3, :3] = np.column_stack((x, np.cross(normal, x), normal))
    X[2, 3] = plane[2]
    return X


def clusters(points: Array, distance: float) -> list[NDArray[np.intp]]:
    """Return the indices of the points of each cluster (Euclidean clustering), largest first.

    Args:
        points: [m], shape (n, 3).
        distance: up to which points belong to one cluster [m].
    """
    if not len(points):
        return []
    cells = np.floor(points * (FINENESS / distance)).astype(np.int64)
    _, cell_of, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    cell_of = cell_of.reshape(-1)
    means = np.empty((len(counts), 3))
    for k in range(3):
        means[:, k] = np.bincount(cell_of, points[:, k]) / counts
    pairs = cKDTree(means).query_pairs(distance, output_type="ndarray")
    links = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), 2 * (len(means),))
    count, label_of_cell = connected_components(links, directed=False)
    labels = label_of_cell[cell_of]
    order = np.argsort(labels, kind="stable")
    found = np.split(order, np.cumsum(np.bincount(labels, minlength=count))[:-1])
    return sorted(found, key=len, reverse=True)


def spacing(points: Array) -> float:
    """Return the median distance of points from their nearest ones [m]; 0 for fewer than two.

    Args:
        points: [m], shape (n, 3).
    """
    distinct = np.unique(points, axis=0)
    if len(distinct) < 2:
        return 0.0
    return float(np.median(cKDTree(distinct).query(distinct, k=2)[0][:, 1]))


@dataclass(frozen=True, eq=False)
class ShapeFit:
    """A shape and where it is."""

    shape: Shape
    X_PO: Array
    """Pose of its centre in the frame of the plane, shape (4, 4)."""
    error: float
    """Root mean square of the distances of the points from its surface [m]."""


def _fit_shape(points: Array) -> ShapeFit | None:
    """Return the shape that fits points (n, 3), z up [m], best; None if they are on a line."""
    try:
        hull = ConvexHull(points[:, :2])
    except QhullError:
        return None
    edge = points[hull.vertices, :2]
    height = _height_of_points(points)
    low, high, yaw = _rectangle(edge)
    size = high - low
    centre = _turned(0.5 * (low + high)[None], yaw)[0]
    local = _turned(points[:, :2] - centre, -yaw) / (0.5 * (size + FRINGE * spacing(points)))
    corners = float(((local**2).sum(axis=1) > CORNERS).mean())
    if size.min() > ROUND_SIDES * size.max() and corners < CORNER_SHARE:
        fit = _cylinder(points, edge, height)
    else:
        fit = _box(points, (float(size[0]), float(size[1]), height), centre, yaw)
    ball = _sphere(points)
    return ball if ball is not None and ball.error < SPHERE_GAIN * fit.error else fit


def extents(shape: Shape) -> Array:
    """Return the sizes of a shape's bounding box in its own frame [m], shape (3,)."""
    if isinstance(shape, Box):
        return np.array(shape.size, np.float64)
    if isinstance(shape, Cylinder):
        return np.array((2.0 * shape.radius, 2.0 * shape.radius, shape.length))
    return np.full(3, 2.0 * shape.radius)


def _height_of_points(points: Array) -> float:
    """Return the height of the top: the median of what is close to the highest points."""
    z = points[:, 2]
    high = float(np.percentile(z, 97.0))
    return float(np.median(z[z > high - TOP]))


def _rectangle(edge: Array) -> tuple[Array, Array, float]:
    """Return the corners of the smallest rectangle around points, and its heading [rad]."""
    c, s = np.cos(HEADINGS)[:, None], np.sin(HEADINGS)[:, None]
    u, v = c * edge[:, 0] + s * edge[:, 1], c * edge[:, 1] - s * edge[:, 0]
    low = np.column_stack((u.min(axis=1), v.min(axis=1)))
    high = np.column_stack((u.max(axis=1), v.max(axis=1)))
    best = int(np.argmin(np.prod(high - low, axis=1)))
    return low[best], high[best], float(HEADINGS[best])


def _turned(points: Array, angle: float) -> Array:
    """Return points in a plane turned about its origin, shape (n, 2)."""
    c, s = math.cos(angle), math.sin(angle)
    return np.asarray(points @ np.array(((c, s), (-s, c))))


def _box(points: Array, size: tuple[float, float, float], centre: Array, yaw: float) -> ShapeFit:
    X = from_xyz_rpy((centre[0], centre[1], 0.5 * size[2]), (0.0, 0.0, yaw))
    local = (points - X[:3, 3]) @ X[:3, :3]
    beyond = np.abs(local) - 0.5 * np.array(size)
    inside = np.minimum(beyond.max(axis=1), 0.0)
    distance = np.linalg.norm(np.maximum(beyond, 0.0), axis=1) + inside
    return ShapeFit(Box(size), X, _rms(distance))


def _cylinder(points: Array, edge: Array, height: float) -> ShapeFit:
    # The mean width of a convex outline is its circumference over pi (Cauchy).
    sides = np.roll(edge, -1, axis=0) - edge
    radius = 0.5 * float(np.linalg.norm(sides, axis=1).sum()) / math.pi
    centre = _centroid(edge)
    away = np.linalg.norm(points[:, :2] - centre, axis=1) - radius
    above = points[:, 2] - height
    outside = np.hypot(np.maximum(away, 0.0), np.maximum(above, 0.0))
    distance = outside + np.minimum(np.maximum(away, above), 0.0)
    X = from_xyz_rpy((float(centre[0]), float(centre[1]), 0.5 * height))
    return ShapeFit(Cylinder(radius, height), X, _rms(distance))


def _centroid(edge: Array) -> Array:
    """Return the centroid of a convex polygon, shape (2,)."""
    after = np.roll(edge, -1, axis=0)
    cross = edge[:, 0] * after[:, 1] - after[:, 0] * edge[:, 1]
    return np.asarray(((edge + after) * cross[:, None]).sum(axis=0) / (3.0 * cross.sum()))


def _sphere(points: Array) -> ShapeFit | None:
    """Return a sphere that rests on the plane; None if points are not on one."""
    origin = points.mean(axis=0)
    local = points - origin
    terms = np.column_stack((2.0 * local, np.ones(len(local))))
    found = np.linalg.lstsq(terms, (local**2).sum(axis=1), rcond=None)[0]
    square = float(found[3] + found[:3] @ found[:3])
    if square <= 0.0:
        return None
    radius, centre = math.sqrt(square), origin + found[:3]
    if abs(centre[2] - radius) > 0.2 * radius:
        return None
    away = np.linalg.norm(points - centre, axis=1) - radius
    return ShapeFit(Sphere(radius), from_xyz_rpy(tuple(centre.tolist())), _rms(away))


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


@dataclass(frozen=True, eq=False)
class Detection:
    """An object that was found in a cloud."""

    shape: Shape
    X_WO: Array
    """Pose of its centre in the frame of the cloud, shape (4, 4)."""
    points: int
    """Number of its points."""
    error: float
    """Root mean square of their distances from its surface [m]."""
    color: str = ""
    """Name of its color; empty if no color image shows it."""


def points_on(found: Detection, points: ArrayLike) -> NDArray[np.bool_]:
    """Return which points belong to an object.

    Args:
        found: the object.
        points: in the same frame [m], shape (n, 3); NaN belongs to none.
    """
    local = (np.asarray(points, np.float64) - found.X_WO[:3, 3]) @ found.X_WO[:3, :3]
    half = 0.5 * extents(found.shape) + MARGIN
    inside = (np.abs(local) <= half).all(axis=1)
    above = np.asarray(points, np.float64)[:, 2] - found.X_WO[2, 3]
    low = np.abs(found.X_WO[2, :3]) @ (0.5 * extents(found.shape))
    return np.asarray(inside & (above >= MARGIN - low), np.bool_)


class ObjectDetector:
    """Detects the objects on a horizontal plane."""

    def __init__(self, settings: DetectorSettings | None = None) -> None:
        self.settings = settings or DetectorSettings()
        self.reason = ""
        """Reason why no object was detected in the last cloud; empty if any was."""

    def relevant(self, points: ArrayLike, without: ArrayLike | None = None) -> Array:
        """Return the points in the region, shape (m, 3).

        Args:
            points: in a frame with z upwards [m], shape (n, 3); those that are not finite are
                ignored.
            without: spheres whose points are ignored, such as those of the robot: centre and radius
                [m], shape (s, 4).

        Raises:
            InvalidCommand: points or spheres of another shape.
        """
        cloud = np.asarray(points, np.float64)
        if cloud.ndim != 2 or cloud.shape[1] != 3:
            raise InvalidCommand(f"points have the shape {cloud.shape}; (n, 3) is needed")
        chosen = self.settings
        cloud = cloud[:: max(1, -(-len(cloud) // chosen.max_points))]
        # NaN is in no region.
        inside = (cloud >= chosen.region_min) & (cloud <= chosen.region_max)
        return _outside(cloud[inside.all(axis=1)], without)

    def detect(self, points: ArrayLike, without: ArrayLike | None = None) -> list[Detection]:
        """Return the objects in a cloud, those with most points first.

        Arguments and errors are those of :meth:`relevant`.
        """
        chosen, cloud = self.settings, self.relevant(points, without)
        if len(cloud) < chosen.min_points:
            self.reason = f"only {len(cloud)} points are within the region"
            return []
        X_WP = support_plane(cloud, chosen)
        if X_WP is None:
            self.reason = "there is no horizontal plane with enough points"
            return []
        local = (cloud - X_WP[:3, 3]) @ X_WP[:3, :3]
        above = local[local[:, 2] > chosen.min_height]
        found = sorted(self._objects(above, X_WP), key=lambda each: -each.points)
        self.reason = "" if found else "there are no points above the plane"
        return found

    # ---- inside

    def _objects(self, above: Array, X_WP: Array, depth: int = 0) -> Iterator[Detection]:
        """Yield the objects on a plane."""
        chosen = self.settings
        for index in clusters(above, chosen.cluster_distance):
            if len(index) < chosen.min_points:
                return
            part = above[index]
            top = self._top_with_more(part) if depth < STACKED else None
            if top is None:
                yield from self._fitted(part, X_WP)
                continue
            high = part[:, 2] > top + chosen.min_height
            yield from self._fitted(part[~high], X_WP)
            X_WT = np.array(X_WP)
            X_WT[:3, 3] += top * X_WP[:3, 2]
            yield from self._objects(part[high] - (0.0, 0.0, top), X_WT, depth + 1)

    def _fitted(self, points: Array, X_WP: Array) -> Iterator[Detection]:
        fit = _fit_shape(points)
        if fit is not None and extents(fit.shape).max() <= self.settings.max_size:
            yield Detection(fit.shape, X_WP @ fit.X_PO, len(points), fit.error)

    def _top_with_more(self, points: Array) -> float | None:
        """Return the height of a horizontal top in a cluster that carries other objects [m]."""
        chosen, z = self.settings, points[:, 2]
        edges = np.arange(z.min(), z.max() + chosen.plane_tolerance, chosen.plane_tolerance)
        counts, _ = np.histogram(z, edges) if len(edges) > 1 else (np.zeros(0, int), None)
        for k in np.argsort(counts)[::-1][:LEVELS].tolist():
            if counts[k] < chosen.min_points:
                break
            level = float(np.median(z[(z >= edges[k]) & (z <= edges[k + 1])]))
            # A bin may begin within the noise of a plane; its middle is used.
            for _ in range(SHIFTS):
                before = level
                level = float(np.median(z[np.abs(z - level) <= chosen.plane_tolerance]))
                if abs(level - before) < 1e-6:
                    break
            over = points[z > level + chosen.min_height, :2]
            if len(over) < chosen.min_points:
                continue
            try:
                hull = ConvexHull(points[np.abs(z - level) <= chosen.plane_tolerance, :2])
            except QhullError:
                continue
            normals, offsets = hull.equations[:, :2], hull.equations[:, 2]
            covered = (over @ normals.T + offsets <= 1e-3).all(axis=1)
            # In a plane, the volume of a hull is its area.
            if hull.volume >= chosen.min_support and covered.mean() >= ON_TOP:
                return level
        return None


def _outside(points: Array, spheres: ArrayLike | None) -> Array:
    """Return the points outside of spheres."""
    if spheres is None:
        return points
    given = np.asarray(spheres, np.float64)
    if given.ndim != 2 or given.shape[1] != 4:
        raise InvalidCommand(f"spheres have the shape {given.shape}; (s, 4) is needed")
    low, high = given[:, :3] - given[:, 3:], given[:, :3] + given[:, 3:]
    if not len(given):
        return points
    close = ((points >= low.min(axis=0)) & (points <= high.max(axis=0))).all(axis=1)
    near, kept = points[close], np.ones(len(points), bool)
    centres, beyond = given[:, :3], (given[:, :3] ** 2).sum(axis=1) - given[:, 3] ** 2
    outside = [
        ((part**2).sum(axis=1)[:, None] - 2.0 * part @ centres.T + beyond > 0.0).all(axis=1)
        for part in np.array_split(near, 1 + len(near) // _CHUNK)
    ]
    kept[close] = np.concatenate(outside)
    return points[kept]


def hidden(shape: Shape, X_WO: Array, eyes: Iterable[Array], spheres: ArrayLike) -> bool:
    """Return whether no camera sees all of an object, because of the robot.

    Args:
        shape: of the object.
        X_WO: its pose, shape (4, 4).
        eyes: positions of cameras [m], shape (3,) each.
        spheres: centre and radius of the robot's spheres [m], shape (s, 4).
    """
    centres_radii = np.asarray(spheres, np.float64).reshape(-1, 4)
    reach = centres_radii[:, 3] + 0.5 * float(np.linalg.norm(extents(shape)))
    centre = X_WO[:3, 3]
    if bool((np.linalg.norm(centres_radii[:, :3] - centre, axis=1) < reach).any()):
        return True
    return all(_crosses(np.asarray(eye), centre, centres_radii[:, :3], reach) for eye in eyes)


def _crosses(eye: Array, end: Array, centres: Array, radii: Array) -> bool:
    """Return whether a straight line comes closer to points than their radii."""
    line = end - eye
    along = np.clip((centres - eye) @ line / max(float(line @ line), 1e-12), 0.0, 1.0)
    nearest = eye + along[:, None] * line
    return bool((np.linalg.norm(centres - nearest, axis=1) < radii).any())


SIZE_TOLERANCE = 0.015
"""Max difference of each size from that of a model [m]."""
GATE = 0.1
"""Distance by which an object may have moved since it was seen last [m]."""
FORGET_AFTER = 30.0
"""Time without detections after which an object loses its number [s]."""
_OTHER_KIND = 0.5
_IMPOSSIBLE = 1e6
_WORD = re.compile(r"(?P<name>[\w -]+):=(?P<kind>box|cylinder|sphere):(?P<sizes>[^:]+)")
_COUNTS = {"box": 3, "cylinder": 2, "sphere": 1}


@dataclass(frozen=True)
class ObjectModel:
    """An object of known size."""

    name: str
    shape: Shape


def parse_models(words: Sequence[str]) -> tuple[ObjectModel, ...]:
    """Return models of words such as ``red_cube:=box:0.04,0.04,0.04``.

    Args:
        words: ``NAME:=box:X,Y,Z``, ``NAME:=cylinder:RADIUS,LENGTH`` or ``NAME:=sphere:RADIUS`` [m].

    Raises:
        InvalidConfig: names the invalid word.
    """
    models: list[ObjectModel] = []
    for word in filter(None, words):
        found = _WORD.fullmatch(word.strip())
        try:
            sizes = [float(x) for x in found["sizes"].split(",")] if found else []
        except ValueError:
            sizes = []
        good = len(sizes) > 0 and all(np.isfinite(s) and 0.0 < s <= 10.0 for s in sizes)
        if found is None or not good or len(sizes) != _COUNTS[found["kind"]]:
            raise InvalidConfig(
                f"'{word}' is no model; write NAME:=box:X,Y,Z, NAME:=cylinder:RADIUS,LENGTH or "
                "NAME:=sphere:RADIUS in m, such as red_cube:=box:0.04,0.04,0.04",
                field="models",
            )
        name = found["name"].strip()
        if any(model.name == name for model in models):
            raise InvalidConfig(f"two models are named '{name}'", field="models")
        shape: Shape = (
            Box((sizes[0], sizes[1], sizes[2])) if found["kind"] == "box"
            else Cylinder(sizes[0], sizes[1]) if found["kind"] == "cylinder"
            else Sphere(sizes[0])
        )  # fmt: skip
        models.append(ObjectModel(name, shape))
    return tuple(models)


class ObjectNames:
    """Gives the same name to the same object in successive clouds."""

    def __init__(self, models: Sequence[ObjectModel] = ()) -> None:
        """Begin without objects.

        Args:
            models: objects of known size, each of which is there at most once.
        """
        self._models = tuple(models)
        self._last: dict[str, Array] = {}
        self._seen_at: dict[str, float] = {}
        self._count = 0

    def named(
        self,
        detections: Sequence[Detection],
        now: float,
        carried: Mapping[str, Array] | None = None,
        described: Mapping[str, Detection] | None = None,
    ) -> dict[str, Detection]:
        """Return detections by their names.

        Args:
            detections: in one cloud.
            now: its time [s].
            carried: expected poses of objects that the robot holds, shape (4, 4) each.
            described: those of the detections that a description names. They keep that name where
                later images do not show them well enough to be described.
        """
        for name, X_WO in (carried or {}).items():
            if name in self._seen_at:
                self._last[name], self._seen_at[name] = np.array(X_WO), now
        found = self._of_models(detections)
        named = {name: fitted for name, (_, fitted) in found.items()}
        taken = [seen for seen, _ in found.values()]
        for name, each in (described or {}).items():
            if name not in named and all(each is not seen for seen in taken):
                named[name] = each
                taken.append(each)
        rest = [each for each in detections if all(each is not seen for seen in taken)]
        named |= self._of_numbers(rest, frozenset(named))
        for name, each in named.items():
            self._last[name], self._seen_at[name] = np.array(each.X_WO), now
        for name in [n for n, at in self._seen_at.items() if now > at + FORGET_AFTER]:
            del self._last[name], self._seen_at[name]
        return named

    def _of_models(self, detections: Sequence[Detection]) -> dict[str, tuple[Detection, Detection]]:
        """Return by name what fits a model, and the model in its place."""
        costs = np.full((len(self._models), len(detections)), _IMPOSSIBLE)
        fits: dict[tuple[int, int], Detection] = {}
        for i, model in enumerate(self._models):
            for j, each in enumerate(detections):
                fit = fitted_model(model.shape, each)
                if fit is None:
                    continue
                difference, fits[i, j] = fit
                last = self._last.get(model.name)
                away = 0.0 if last is None else float(
                    np.linalg.norm(fits[i, j].X_WO[:3, 3] - last[:3, 3])
                )  # fmt: skip
                costs[i, j] = difference / SIZE_TOLERANCE + min(away, 1.0)
        rows, columns = linear_sum_assignment(costs)
        return {
            self._models[i].name: (detections[j], fits[i, j])
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
            if costs[i, j] < _IMPOSSIBLE
        }

    def _of_numbers(
        self, detections: Sequence[Detection], taken: frozenset[str]
    ) -> dict[str, Detection]:
        """Return detections by the name of the object that was last there, or a new number."""
        models = {model.name for model in self._models}
        known = [name for name in self._last if name not in models | taken]
        costs = np.full((len(known), len(detections)), _IMPOSSIBLE)
        for i, name in enumerate(known):
            for j, each in enumerate(detections):
                away = float(np.linalg.norm(each.X_WO[:3, 3] - self._last[name][:3, 3]))
                costs[i, j] = away if away <= GATE else _IMPOSSIBLE
        rows, columns = linear_sum_assignment(costs)
        named = {
            known[i]: detections[j]
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
            if costs[i, j] < _IMPOSSIBLE
        }
        known_again = {id(each) for each in named.values()}
        for each in detections:
            if id(each) not in known_again:
                self._count += 1
                named[f"object_{self._count}"] = each
        return named


def fitted_model(shape: Shape, seen: Detection) -> tuple[float, Detection] | None:
    """Return how much the sizes of a model differ [m], and the model in place of a detection.

    It stands where the detected shape does. None if it is not of that size.
    """
    size, own = extents(seen.shape), extents(shape)
    best, order = np.inf, tuple(range(3))
    for each in itertools.permutations(range(3)):
        difference = float(np.abs(own[list(each)] - size).max())
        if difference < best - 1e-9:
            best, order = difference, each
    if best > SIZE_TOLERANCE:
        return None
    # Axis order[i] of the model lies along axis i of the detected shape.
    R = np.zeros((3, 3))
    R[range(3), order] = 1.0
    if np.linalg.det(R) < 0.0:
        R[:, 0] = -R[:, 0]
    X = np.array(seen.X_WO)
    X[:3, 3] += 0.5 * (own[order[2]] - size[2]) * X[:3, 2]
    X[:3, :3] = X[:3, :3] @ R
    cost = best + (0.0 if type(shape) is type(seen.shape) else _OTHER_KIND * SIZE_TOLERANCE)
    return cost, replace(seen, shape=shape, X_WO=X)

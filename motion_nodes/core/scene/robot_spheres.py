# SPDX-License-Identifier: Apache-2.0
"""Collision spheres of a robot: its links, and attached bodies.

A link's spheres are those of the robot's folder. A link that has only collision geometry in the
URDF is covered by spheres, so that any URDF works.

Covers of solids, such as attached bodies: the spheres together contain the solid, so a
configuration without collisions of the spheres has none of the solid; ``excess`` is the max
distance by which they exceed it.

Padding and scale of links, as in planning scenes of MoveIt, apply to distances from the world only,
not to distances between links and attached bodies. A link with a margin becomes two bodies: the
link itself, checked against the robot only, and a scaled and padded copy, checked against the world
only.
"""

from __future__ import annotations

import functools
import logging
import math
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from motion_nodes.core.robot.meshes import resolve_mesh
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, KinematicTree, Mesh, Shape, Sphere, frozen
from motion_nodes.core.scene import mesh_distance
from motion_nodes.core.scene.convex_decomposition import fills_its_hull
from motion_nodes.core.scene.mesh_cache import entry_of, stored_arrays
from motion_nodes.core.scene.mesh_distance import signed_distance, surface_of
from motion_nodes.core.scene.scene import AllowedCollisions, AttachedBody, LinkMargin, Part, pair_of
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, Solid, TriangleMesh, type_of
from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.errors import InvalidCommand, InvalidDescription
from motion_nodes.kernels.cache import in_turns
from motion_nodes.tolerances import MIN_LENGTH
from motion_nodes.typing import Array

COUNT = 48
"""Max number of spheres per solid."""
_SAMPLES = 12  # surface samples along the edge of a cell
_NO_MARGIN = LinkMargin()
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Cover:
    """Spheres that contain a solid."""

    spheres: Array
    """Centre and radius [m] in the solid's frame, shape (s, 4)."""
    excess: float
    """Max distance by which they exceed the solid [m]."""


def cover(solid: Solid) -> Cover:
    """Return at most ``COUNT`` spheres that contain a solid.

    The bounding box of the solid is divided into nearly cubic cells, and each cell gets a sphere
    that contains its part of the solid. The division with the min excess is used. Covers of meshes
    are cached on disk, because large meshes take almost 1 s.

    Raises:
        InvalidCommand: a half space cannot be covered.
    """
    if isinstance(solid, HalfSpace):
        raise InvalidCommand(
            "a half space is infinite: it can neither be attached nor be part of a link."
        )
    known = _covers.get(solid)
    if known is None:
        known = _covers[solid] = (
            _mesh_cover(solid) if isinstance(solid, TriangleMesh) else _best_cover(solid)
        )
    return known


def cover_entry(mesh: TriangleMesh) -> str:
    """Return the disk cache key of the cover of a mesh."""
    return entry_of("cover", mesh, __file__, mesh_distance.__file__)


def _mesh_cover(mesh: TriangleMesh) -> Cover:
    def compute() -> list[Array]:
        best = _best_cover(mesh)
        return [best.spheres, np.full((1, 4), best.excess)]

    spheres, excess = stored_arrays(cover_entry(mesh), compute)
    return Cover(frozen(spheres), float(excess[0, 0]))


def _best_cover(solid: Solid) -> Cover:
    return min(_covers_of(solid), key=lambda cover: cover.excess)


_covers: weakref.WeakKeyDictionary[Solid, Cover] = weakref.WeakKeyDictionary()


def _covers_of(solid: Solid) -> list[Cover]:
    if isinstance(solid, Sphere):
        return [Cover(frozen([[0.0, 0.0, 0.0, solid.radius]]), 0.0)]
    if isinstance(solid, Capsule):
        return [_row(solid)]
    covers = [_of_cells(solid, cells) for cells in _ways_to_cut(_bounds(solid))]
    few_enough = [cover for cover in covers if len(cover.spheres) <= COUNT]
    return few_enough or covers[:1]


def _ways_to_cut(bounds: Array) -> list[tuple[int, int, int]]:
    """Return numbers of cells along the axes, coarse before fine."""
    sizes = np.maximum(bounds[1] - bounds[0], 1e-6)
    ways = []
    # Cells outside round or slanted solids are empty, so up to twice as many are tested.
    for edge in np.geomspace(float(sizes.max()), float(sizes.max()) / 40.0, 60):
        cells = np.maximum(1, np.round(sizes / edge)).astype(int)
        if cells.prod() > 2 * COUNT:
            break
        ways.append((int(cells[0]), int(cells[1]), int(cells[2])))
    return list(dict.fromkeys(ways))[-6:]


def _of_cells(solid: Solid, cells: tuple[int, int, int]) -> Cover:
    """Return a sphere for each cell that contains a part of the solid."""
    low, high = _bounds(solid)
    size = (high - low) / cells
    if isinstance(solid, Box):
        grid = np.stack(np.meshgrid(*(np.arange(n) + 0.5 for n in cells), indexing="ij"), axis=-1)
        centres = low + grid.reshape(-1, 3) * size
        spheres = np.column_stack((centres, np.full(len(centres), 0.5 * np.linalg.norm(size))))
    else:
        spheres = _around_samples(solid, low, size, cells)
    # The distance of a point of a sphere exceeds that of its centre by at most the radius.
    excess = float((signed_distance(solid, spheres[:, :3])[0] + spheres[:, 3]).max())
    return Cover(frozen(spheres), max(0.0, excess))


def _around_samples(solid: Solid, low: Array, size: Array, cells: tuple[int, int, int]) -> Array:
    spacing = max(float(size.min()), float(size.max()) / 4.0, MIN_LENGTH) / _SAMPLES
    surface, inside = _samples(solid, spacing), _inside(solid, 3.0 * spacing)
    # Max distance of any point from the nearest sample.
    gaps = np.repeat([math.sqrt(0.5), 3.0 * math.sqrt(0.75)], (len(surface), len(inside)))
    samples = np.concatenate((surface, inside))
    place = np.clip(((samples - low) / np.maximum(size, 1e-12)).astype(int), 0, np.array(cells) - 1)
    order = np.lexsort(place.T)
    samples, place, gaps = samples[order], place[order], spacing * gaps[order]
    first = np.flatnonzero(np.append(True, (np.diff(place, axis=0) != 0).any(axis=1)))[1:]
    spheres = []
    for part, gap in zip(np.split(samples, first), np.split(gaps, first), strict=True):
        centre = 0.5 * (part.min(axis=0) + part.max(axis=0))
        spheres.append([*centre, (np.linalg.norm(part - centre, axis=1) + gap).max()])
    return np.array(spheres)


def _row(capsule: Capsule) -> Cover:
    """Return equal spheres along a capsule: enough for an excess of 5 % of its radius, or COUNT."""
    spacing = 2.0 * capsule.radius * math.sqrt(1.05**2 - 1.0)
    count = 1 + math.ceil(capsule.length / max(spacing, capsule.length / (COUNT - 1)))
    radius = math.hypot(capsule.radius, 0.5 * capsule.length / max(1, count - 1))
    z = np.linspace(-0.5, 0.5, count) * capsule.length
    spheres = frozen([[0.0, 0.0, float(h), radius] for h in z])
    return Cover(spheres, radius - capsule.radius)


def _bounds(solid: Solid) -> Array:
    """Return min and max corner of the bounding box of a solid, shape (2, 3)."""
    if isinstance(solid, TriangleMesh):
        corners = surface_of(solid).corners.reshape(-1, 3)
        return np.stack((corners.min(axis=0), corners.max(axis=0)))
    if isinstance(solid, Voxels):
        return np.stack((solid.boxes[:, 0].min(axis=0), solid.boxes[:, 1].max(axis=0)))
    half = type_of(solid).half_box(solid)
    return np.stack((-half, half))


def _samples(solid: Solid, spacing: float) -> Array:
    """Return surface samples; every surface point is within ``spacing / sqrt(2)`` of one."""
    if isinstance(solid, (Cylinder, Cone)):
        return _round_surface(solid, spacing)
    if isinstance(solid, TriangleMesh):
        return _triangle_surface(surface_of(solid).corners, spacing)
    # Any other shape: grid points close to its surface.
    grid = _grid(solid, math.sqrt(2.0 / 3.0) * spacing)
    return grid[np.abs(signed_distance(solid, grid)[0]) <= spacing * math.sqrt(0.5)]


def _inside(solid: Solid, spacing: float) -> Array:
    """Return the grid points that are inside."""
    grid = _grid(solid, spacing)
    if isinstance(solid, TriangleMesh):
        return grid[surface_of(solid).inside_grid(*_axes(solid, spacing)).ravel()]
    return grid[signed_distance(solid, grid)[0] <= 0.0]


def _grid(solid: Solid, spacing: float) -> Array:
    """Return the points of a grid in the bounding box of a solid, shape (g, 3)."""
    axes = np.meshgrid(*_axes(solid, spacing), indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, 3)


def _axes(solid: Solid, spacing: float) -> list[Array]:
    """Return the coordinates of a grid in the bounding box of a solid."""
    return [_ticks(a, b, spacing) for a, b in zip(*_bounds(solid), strict=True)]


def _ticks(low: float, high: float, spacing: float) -> Array:
    return np.linspace(low, high, 1 + max(1, math.ceil((high - low) / spacing)))


def _round_surface(solid: Cylinder | Cone, spacing: float) -> Array:
    """Return rings on the ends and the side of a cylinder or a cone."""
    bottom = -0.5 * (solid.length if isinstance(solid, Cylinder) else solid.height)
    rings = [(float(r), bottom) for r in _ticks(0.0, solid.radius, spacing)]
    if isinstance(solid, Cylinder):
        rings += [(r, -bottom) for r, _ in rings]
        rings += [(solid.radius, float(z)) for z in _ticks(bottom, -bottom, spacing)]
    else:
        slant = math.hypot(solid.radius, solid.height)
        along = _ticks(0.0, 1.0, spacing / slant)
        rings += [(solid.radius * (1.0 - t), bottom + t * solid.height) for t in along]
    points = []
    for radius, z in dict.fromkeys(rings):
        angles = _ticks(0.0, 2.0 * math.pi, spacing / max(radius, spacing))[:-1]
        points += [(radius * math.cos(t), radius * math.sin(t), z) for t in angles]
    return np.array(points)


def _triangle_surface(corners: Array, spacing: float) -> Array:
    """Return samples of triangle surfaces that cover every surface point, shape (m, 3)."""
    a, b, c = (corners[:, k] for k in range(3))
    edges = np.stack([np.linalg.norm(x, axis=1) for x in (b - a, c - b, a - c)])
    counts = np.maximum(1, np.ceil(edges.max(axis=0) / spacing)).astype(int)
    points = []
    for n in np.unique(counts):
        i, j = np.triu_indices(n + 1)
        weights = np.stack((i, j - i, n - j), axis=1) / n
        points.append((weights @ corners[counts == n]).reshape(-1, 3))
    joined = np.concatenate(points)
    # One point per grid cell is sufficient; removed points have a neighbour.
    cell = (joined / (0.5 * spacing)).round().astype(np.int64)
    cell -= cell.min(axis=0)
    key = cell @ np.array([1, 1 << 20, 1 << 40])  # sorting one number is faster than sorting a row
    _, kept = np.unique(key, return_index=True)
    return np.asarray(joined[kept])


@dataclass(frozen=True, eq=False)
class CollisionBody:
    """Rigidly connected spheres: those of a link, or of an attached body."""

    name: str
    link: str
    """The link, or the link to which the body is attached."""
    spheres: Array
    """Centre in the link's frame and radius [m], shape (s, 4)."""
    excess: float
    """Max excess of the spheres beyond the geometry [m]; NaN for spheres from a file."""
    carried: AttachedBody | None = None
    in_world: bool = True
    """Whether it is checked against the world."""
    among_own: bool = True
    """Whether it is checked against the robot's other bodies."""
    margin: LinkMargin = _NO_MARGIN
    """Padding and scale of the link that the body contains."""

    @functools.cached_property
    def bounding_sphere(self) -> Array:
        """Bounding sphere: centre in the link's frame and radius [m], shape (4,)."""
        return _bounding_sphere(self.spheres.tobytes())


@functools.lru_cache(maxsize=1024)
def _bounding_sphere(spheres: bytes) -> Array:
    """Return the bounding sphere of the bytes of spheres; the same links are in many robots."""
    return frozen(bounding_sphere(np.frombuffer(spheres).reshape(-1, 4)))


def link_bodies(robot: Robot) -> tuple[CollisionBody, ...]:
    """Return the links that have spheres or collision geometry, parents before children."""
    known = _links.get(robot)
    if known is None:
        covered = (name for name in robot.tree.frame_names if not robot.spheres.get(name))
        in_turns(partial(cover, part.solid) for name in covered for part in link_parts(robot, name))
        found = (_link_body(robot, name) for name in robot.tree.frame_names)
        known = _links[robot] = tuple(body for body in found if body is not None)
    return known


_links: weakref.WeakKeyDictionary[Robot, tuple[CollisionBody, ...]] = weakref.WeakKeyDictionary()


def _link_body(robot: Robot, link: str) -> CollisionBody | None:
    if robot.spheres.get(link):
        return CollisionBody(link, link, frozen(robot.spheres[link]), float("nan"))
    parts = link_parts(robot, link)
    return _covered(link, link, parts, np.eye(4)) if parts else None


def link_parts(robot: Robot, link: str) -> tuple[Part, ...]:
    """Return a link's collision geometry as shapes, without unreadable meshes."""
    known = _parts.setdefault(robot, {})
    if link not in known:
        shapes = (_part(robot, link, shape) for shape in robot.tree.links[link].collisions)
        known[link] = tuple(part for part in shapes if part is not None)
    return known[link]


_parts: weakref.WeakKeyDictionary[Robot, dict[str, tuple[Part, ...]]] = weakref.WeakKeyDictionary()


def _part(robot: Robot, link: str, shape: Shape) -> Part | None:
    """Return a link's collision geometry as a shape of the world; None for an unreadable mesh."""
    geometry = shape.geometry
    if not isinstance(geometry, Mesh):
        return Part(geometry, shape.X_LG)
    from motion_nodes.core.scene.mesh_file import read_mesh

    try:
        solid = read_mesh(resolve_mesh(geometry.filename, robot.directory), geometry.scale)
    except InvalidDescription as error:
        _LOG.warning("%s, link %s: not checked for collisions: %s", robot.name, link, error)
        return None
    # Checks of convex solids are faster.
    return Part(replace(solid, convex=True) if fills_its_hull(solid) else solid, shape.X_LG)


def carried_body(item: AttachedBody) -> CollisionBody:
    """Return an attached body, covered by spheres."""
    return _covered(item.name, item.link, item.parts, item.X_LO, item)


def _covered(
    name: str, link: str, parts: Iterable[Part], X_LO: Array, carried: AttachedBody | None = None
) -> CollisionBody:
    covers = [(cover(part.solid), X_LO @ part.X_OS) for part in parts]
    spheres = [
        np.column_stack((c.spheres[:, :3] @ X[:3, :3].T + X[:3, 3], c.spheres[:, 3]))
        for c, X in covers
    ]
    excess = max(c.excess for c, _ in covers)
    return CollisionBody(name, link, frozen(np.concatenate(spheres)), excess, carried)


_MARGINED: weakref.WeakKeyDictionary[
    CollisionBody, dict[LinkMargin, tuple[CollisionBody, CollisionBody]]
] = weakref.WeakKeyDictionary()


def with_margins(
    robot: Robot, bodies: tuple[CollisionBody, ...], margins: Mapping[str, LinkMargin]
) -> tuple[CollisionBody, ...]:
    """Return bodies, with two for each link that has a margin; the same objects for equal ones.

    Args:
        robot: the robot.
        bodies: bodies of its links.
        margins: margins by link; links without a body have no effect.
    """
    found: list[CollisionBody] = []
    for body in bodies:
        margin = margins.get(body.link)
        found += (body,) if margin is None else _margined(robot, body, margin)
    return tuple(found)


def _margined(
    robot: Robot, body: CollisionBody, margin: LinkMargin
) -> tuple[CollisionBody, CollisionBody]:
    known = _MARGINED.setdefault(body, {})
    if margin not in known:
        own = replace(body, in_world=False)
        larger = replace(
            body, spheres=_margined_spheres(robot, body, margin), among_own=False, margin=margin
        )
        known[margin] = (own, larger)
    return known[margin]


def _margined_spheres(robot: Robot, body: CollisionBody, margin: LinkMargin) -> Array:
    """Return the spheres of a scaled and padded link, shape (s, 4)."""
    spheres = np.array(body.spheres)
    if margin.scale != 1.0:
        parts = link_parts(robot, body.link)
        if parts:
            spheres = np.concatenate([_scaled_cover(part, margin.scale) for part in parts])
        else:
            centre = bounding_sphere(body.spheres)[:3]
            spheres[:, :3] = centre + margin.scale * (spheres[:, :3] - centre)
            spheres[:, 3] *= margin.scale
    spheres[:, 3] += margin.padding
    return frozen(spheres)


def _scaled_cover(part: Part, scale: float) -> Array:
    """Return the spheres of a shape, scaled about the centre of the shape."""
    spheres, X = cover(part.solid).spheres, part.X_OS
    middle = _middle(part.solid)
    centres = middle + scale * (spheres[:, :3] - middle)
    return np.column_stack((centres @ X[:3, :3].T + X[:3, 3], scale * spheres[:, 3]))


def _middle(solid: Solid) -> Array:
    """Return the point about which a shape is scaled, in its own frame [m], shape (3,)."""
    return solid.vertices.mean(axis=0) if isinstance(solid, TriangleMesh) else np.zeros(3)


def scaled(part: Part, scale: float) -> Part:
    """Return a shape scaled about its centre; a mesh about the mean of its vertices."""
    if scale == 1.0:
        return part
    solid, X_OS = part.solid, part.X_OS
    if isinstance(solid, TriangleMesh):
        middle = _middle(solid)
        vertices = frozen(middle + scale * (solid.vertices - middle))
        return Part(replace(solid, vertices=vertices), X_OS)
    return Part(_scaled_primitive(solid, scale), X_OS)


def _scaled_primitive(solid: Solid, scale: float) -> Solid:
    if isinstance(solid, Sphere):
        return Sphere(scale * solid.radius)
    if isinstance(solid, Box):
        x, y, z = solid.size
        return Box((scale * x, scale * y, scale * z))
    if isinstance(solid, Cylinder | Capsule):
        return replace(solid, radius=scale * solid.radius, length=scale * solid.length)
    if isinstance(solid, Cone):
        return Cone(scale * solid.radius, scale * solid.height)
    raise InvalidCommand(f"a link with a {type(solid).__name__} cannot be scaled")


def bounding_sphere(spheres: Array) -> Array:
    """Return a small bounding sphere of spheres, shape (4,).

    Source: Badoiu and Clarkson, Smaller core-sets for balls (SODA 2003): step towards the farthest
    sphere with decreasing step sizes. The radius is computed for the final centre, so that the
    result always contains all spheres.
    """
    centres, radii = spheres[:, :3], spheres[:, 3]
    if len(spheres) == 1:
        return np.array(spheres[0])
    centre = 0.5 * (np.min(centres - radii[:, None], 0) + np.max(centres + radii[:, None], 0))
    best, least = centre, np.inf
    for step in range(2, 400):
        offsets = centres - centre
        lengths = np.linalg.norm(offsets, axis=1)
        reach = lengths + radii
        farthest = int(reach.argmax())
        if reach[farthest] < least:
            best, least = centre, float(reach[farthest])
        if lengths[farthest] == 0.0:
            break
        outermost = offsets[farthest] * (reach[farthest] / lengths[farthest])
        centre = centre + outermost / step
    return np.append(best, least)


def checked_pairs(
    robot: Robot,
    bodies: tuple[CollisionBody, ...],
    allowed: AllowedCollisions,
    *,
    exact: bool = False,
) -> tuple[tuple[int, int], ...]:
    """Return the checked pairs of a robot's bodies, as indices, the smaller first.

    Omitted are: bodies of the same rigid group; links connected by one joint (links without
    geometry between them are skipped); pairs ignored in the robot's file; an attached body with its
    touch links; and allowed collisions.

    Args:
        robot: the robot, with its ignored pairs.
        bodies: links and attached bodies.
        allowed: allowed collisions of the scene.
        exact: return the pairs of the exact checks, which include those of ``ignore_spheres``.
    """
    rigid = rigid_links(robot.tree)
    neighbours = _neighbours(robot.tree, rigid, {body.link for body in bodies if not body.carried})
    collision = robot.description.collision
    omitted = collision.ignore if exact else (*collision.ignore, *collision.ignore_spheres)
    ignored = {pair_of(a, b) for a, b in omitted}
    pairs = []
    for i, a in enumerate(bodies):
        for j in range(i + 1, len(bodies)):
            b = bodies[j]
            apart = a.among_own and b.among_own and rigid[a.link] != rigid[b.link]
            if not a.carried and not b.carried:
                near = pair_of(rigid[a.link], rigid[b.link]) in neighbours
                apart = apart and not near and pair_of(a.name, b.name) not in ignored
            for body, other in ((a, b), (b, a)):
                apart = apart and not (body.carried and other.name in body.carried.touch_links)
            if apart and not allowed.allows(a.name, b.name):
                pairs.append((i, j))
    return tuple(pairs)


def rigid_links(tree: KinematicTree) -> Mapping[str, str]:
    """Return for each link the top link of its rigid group."""
    top: dict[str, str] = {}
    for link in tree.frame_names:
        joint = tree.parent_joint.get(link)
        top[link] = link if joint is None or joint.movable else top[joint.parent]
    return top


def _neighbours(
    tree: KinematicTree, rigid: Mapping[str, str], with_geometry: set[str]
) -> set[tuple[str, str]]:
    """Return pairs of rigid groups connected by one joint, or by several without geometry.

    Groups are named by their top links.
    """
    solid = {rigid[link] for link in with_geometry}
    pairs = set()
    for group in solid:
        joint = tree.parent_joint.get(group)
        while joint is not None and rigid[joint.parent] not in solid:
            joint = tree.parent_joint.get(rigid[joint.parent])
        if joint is not None:
            pairs.add(pair_of(group, rigid[joint.parent]))
    return pairs

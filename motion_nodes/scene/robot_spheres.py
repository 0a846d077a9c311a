# SPDX-License-Identifier: Apache-2.0
"""Collision spheres of a robot: its links, and attached bodies.

A link's spheres are those of the robot's folder. A link that has only collision geometry in the
URDF is covered by spheres (:mod:`motion_nodes.scene.body_spheres`), so that any URDF works.
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.kernels.shared_work import in_turns
from motion_nodes.model.meshes import resolve_mesh
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import KinematicTree, Mesh, Shape, frozen
from motion_nodes.scene.allowed_collisions import AllowedCollisions, pair_of
from motion_nodes.scene.body_spheres import cover
from motion_nodes.scene.convex_decomposition import fills_its_hull
from motion_nodes.scene.scene import AttachedBody, LinkMargin, Part
from motion_nodes.typing import Array

_NO_MARGIN = LinkMargin()
_LOG = logging.getLogger(__name__)


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
        return frozen(bounding_sphere(self.spheres))


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
    from motion_nodes.scene.mesh_file import read_mesh

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

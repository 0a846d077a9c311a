# SPDX-License-Identifier: Apache-2.0
"""Padding and scale of links, as in planning scenes of MoveIt.

They apply to distances from the world only, not to distances between links and attached bodies. A
link with a margin becomes two bodies: the link itself, checked against the robot only, and a scaled
and padded copy, checked against the world only.

Restriction of collision checks to pairs that a group of joints moves relative to each other. The
arm of a mobile robot cannot change contacts between base and floor, or between fingers.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.core.scene.robot_spheres import (
    CollisionBody,
    bounding_sphere,
    cover,
    link_bodies,
    link_parts,
)
from motion_nodes.core.scene.scene import LinkMargin, Pair, Part, Scene, pair_of
from motion_nodes.core.scene.shapes import Capsule, Cone, Solid, TriangleMesh
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

MAX_PADDING, MIN_SCALE, MAX_SCALE = 10.0, 0.01, 100.0
"""[m], [1], [1]"""


def checked_margin(link: str, padding: float = 0.0, scale: float = 1.0) -> LinkMargin:
    """Return a validated margin.

    Args:
        link: name of the link, for errors.
        padding: distance by which the surface moves outwards [m], not negative.
        scale: factor of the sizes of each shape about its centre.

    Raises:
        InvalidCommand: padding or scale out of range.
    """
    if not (math.isfinite(padding) and 0.0 <= padding <= MAX_PADDING):
        raise InvalidCommand(
            f"link_padding of '{link}' is {padding} m; allowed is from 0 to {MAX_PADDING:g} m"
        )
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise InvalidCommand(
            f"link_scale of '{link}' is {scale:g}; allowed is from {MIN_SCALE:g} to {MAX_SCALE:g}"
        )
    return LinkMargin(float(padding), float(scale))


def with_margins(
    robot: Robot, bodies: tuple[CollisionBody, ...], margins: Mapping[str, LinkMargin]
) -> tuple[CollisionBody, ...]:
    """Return bodies, with two for each link that has a margin; the same objects for equal ones.

    Args:
        robot: the robot.
        bodies: bodies of its links.
        margins: margins by link; links without a body have no effect.
    """
    if not margins:
        return bodies
    found: list[CollisionBody] = []
    for body in bodies:
        margin = margins.get(body.link)
        found += (body,) if margin is None else _pair(robot, body, margin)
    return tuple(found)


def _pair(
    robot: Robot, body: CollisionBody, margin: LinkMargin
) -> tuple[CollisionBody, CollisionBody]:
    known = _known.setdefault(body, {})
    if margin not in known:
        own = replace(body, in_world=False)
        larger = replace(
            body, spheres=_spheres(robot, body, margin), among_own=False, margin=margin
        )
        known[margin] = (own, larger)
    return known[margin]


_known: weakref.WeakKeyDictionary[
    CollisionBody, dict[LinkMargin, tuple[CollisionBody, CollisionBody]]
] = weakref.WeakKeyDictionary()


def _spheres(robot: Robot, body: CollisionBody, margin: LinkMargin) -> Array:
    """Return the spheres of a scaled and padded link, shape (s, 4)."""
    spheres = np.array(body.spheres)
    if margin.scale != 1.0:
        parts = link_parts(robot, body.link)
        if parts:
            spheres = np.concatenate([_covered(part, margin.scale) for part in parts])
        else:
            centre = bounding_sphere(body.spheres)[:3]
            spheres[:, :3] = centre + margin.scale * (spheres[:, :3] - centre)
            spheres[:, 3] *= margin.scale
    spheres[:, 3] += margin.padding
    return frozen(spheres)


def _covered(part: Part, scale: float) -> Array:
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


def carriers(robot: Robot, joints: Collection[str]) -> Mapping[str, str]:
    """Return for each link the top link of its rigid group when only the given joints move.

    Args:
        robot: the robot.
        joints: the moving joints, including their mimic joints.
    """
    tree = robot.tree
    found: dict[str, str] = {}
    for link in tree.frame_names:
        joint = tree.parent_joint.get(link)
        if joint is None:
            found[link] = link
            continue
        leads = joint.mimic.joint if joint.mimic is not None else joint.name
        found[link] = link if leads in joints else found[joint.parent]
    return found


def scene_for(robot: Robot, joints: Collection[str], scene: Scene) -> Scene:
    """Return a scene without pairs that some joints cannot change.

    A collision is allowed if the joints do not move the pair relative to each other; explicit
    entries of the scene are kept. Cached: the same scene yields the same object.

    Args:
        robot: the robot of the scene.
        joints: the moving joints.
        scene: the complete scene.
    """
    with _lock:
        known = _KNOWN.setdefault(scene, {})
    key = (robot, frozenset(joints))
    if key not in known:
        known[key] = _scene_for(robot, joints, scene)
    return known[key]


_KNOWN: weakref.WeakKeyDictionary[Scene, dict[Any, Scene]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _scene_for(robot: Robot, joints: Collection[str], scene: Scene) -> Scene:
    carrier = carriers(robot, joints)
    bodies = {body.name: carrier[body.name] for body in link_bodies(robot)}
    bodies |= {body.name: carrier[body.link] for body in scene.attached.values()}
    still = [name for name, on in bodies.items() if on == robot.tree.root]
    pairs: set[Pair] = {pair_of(name, item) for name in still for item in scene.objects}
    names = list(bodies)
    for i, a in enumerate(names):
        pairs.update(pair_of(a, b) for b in names[i + 1 :] if bodies[a] == bodies[b])
    return replace(scene, allowed=scene.allowed.with_pairs(pairs.difference(scene.allowed.pairs)))

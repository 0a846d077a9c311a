# SPDX-License-Identifier: Apache-2.0
"""Fixed collision objects of a robot's cell: the floor, and the fixed links of other arms.

They are in the planning scene from startup. Collisions of links that touch them by construction are
allowed: links fixed to the robot's root, wheels and casters, and links that touch them in every
configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.placement import Placement
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.robot_spheres import link_bodies, link_parts, rigid_links
from motion_nodes.core.scene.scene import (
    AllowedCollisions,
    Pair,
    Part,
    Scene,
    WorldObject,
    pair_of,
    world_object,
)
from motion_nodes.core.scene.shapes import HalfSpace
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

FLOOR = "floor"
"""Name of the floor in a planning scene."""
SCENERY = "scenery"
"""Kind of these objects, by which subscribers identify them."""
_FLOOR_RGBA = (0.6, 0.63, 0.67, 0.25)
_PART_RGBA = (0.55, 0.57, 0.6, 1.0)
_SAMPLES = 32
"""Number of sampled configurations in which a link that rests on the floor is in contact with it.
"""
_MOUNT = 0.1
"""Penetration depth of the spheres of fixed links in the floor on which they are mounted [m]."""
_CLEARANCE = 0.05
"""Distance of a lower floor from the links [m]."""


@dataclass(frozen=True, eq=False)
class Scenery:
    """Objects that persist when a client replaces the scene, and their allowed collisions."""

    objects: Mapping[str, WorldObject] = field(default_factory=lambda: MappingProxyType({}))
    allowed: frozenset[Pair] = frozenset()
    """Pairs of a link and an object that touch by construction."""

    def scene(self) -> Scene:
        """Return a scene that contains only the scenery."""
        return Scene(self.objects, allowed=AllowedCollisions().with_pairs(self.allowed))


def floor_of(robot: Robot, height: float = 0.0) -> Scenery:
    """Return the floor below a robot, in the robot's base frame.

    Args:
        robot: with an upright root link.
        height: height of the floor in the frame of the root link [m].

    Raises:
        InvalidConfig: a height that is not finite, or a base frame that joints move.
    """
    if not np.isfinite(height):
        raise InvalidConfig(
            f"the floor's height is {height} m; it must be a finite number.", field="floor_height"
        )
    X_RF = np.eye(4)
    X_RF[2, 3] = height
    item = world_object(
        FLOOR, HalfSpace(), _root_in_base(robot) @ X_RF, static=True, rgba=_FLOOR_RGBA
    )
    item = replace(item, kind=SCENERY)
    resting = _fixed_links(robot) | _rolling_links(robot) | _always_touching(robot, item)
    return Scenery(
        MappingProxyType({FLOOR: item}), frozenset(pair_of(link, FLOOR) for link in resting)
    )


def floor_below(robots: Iterable[Robot]) -> float:
    """Return the height of a floor below all links of fixed robots [m].

    It is lowered for arms mounted on a ceiling, a torso or a column of their model (Baxter).

    Args:
        robots: with upright root links at height 0.

    Returns:
        0 if at home and in all named states the collision spheres are above it, apart from the
        mounts of the fixed links; otherwise a height 0.05 m below the lowest one.
    """
    lowest = 0.0
    for robot in robots:
        tree, poses, fixed = robot.tree, LinkPoses(robot.tree), _fixed_links(robot)
        rows = {link: row for row, link in enumerate(tree.frame_names)}
        joints = robot.indices(tree.joint_names)
        for q in (robot.home, *map(robot.named_state, robot.state_names)):
            X_RL = poses.in_root(q[joints])
            for body in link_bodies(robot):
                low = float(_heights(X_RL[rows[body.name]], body.spheres).min())
                if low < (-_MOUNT if body.name in fixed else 0.0):
                    lowest = min(lowest, low)
    return round(lowest - _CLEARANCE, 3) if lowest else 0.0


def neighbours_of(
    robot: Robot, place: Placement, others: Mapping[str, tuple[Robot, Placement]]
) -> tuple[Scenery, list[str]]:
    """Return the fixed parts of other arms as obstacles, in the robot's base frame.

    Args:
        robot: an arm; mobile and floating robots have no scenery, because their base frames move.
        place: pose of its root link.
        others: robots by the prefix of their parts' names.

    Returns:
        The scenery, and descriptions of omitted parts: those in collision with the robot's home
            configuration.
    """
    if robot.kind != "arm":
        return Scenery(), []
    X_BW = _root_in_base(robot) @ inverse(place.X_WR)
    objects: dict[str, WorldObject] = {}
    for name, (other, where) in others.items():
        if other.kind == "arm":
            X_BR = X_BW @ where.X_WR
            objects |= {item.name: item for item in _fixed_parts(name, other, X_BR)}
    pairs = frozenset(pair_of(link, item) for link in _fixed_links(robot) for item in objects)
    scenery = Scenery(MappingProxyType(objects), pairs)
    inside = _touched_at_home(robot, scenery)
    kept = {name: item for name, item in objects.items() if name not in inside}
    notes = [
        f"'{name}' is not added to the planning scene: {link} collides with it at home"
        for name, link in inside.items()
    ]
    pairs = frozenset(pair for pair in pairs if inside.keys().isdisjoint(pair))
    return Scenery(MappingProxyType(kept), pairs), notes


def joined(*parts: Scenery) -> Scenery:
    """Return the union of several sceneries."""
    objects = {name: item for part in parts for name, item in part.objects.items()}
    return Scenery(MappingProxyType(objects), frozenset().union(*(p.allowed for p in parts)))


def _root_in_base(robot: Robot) -> Array:
    """Return ``X_BR`` of the root link."""
    if rigid_links(robot.tree)[robot.base_frame] != robot.tree.root:
        raise InvalidConfig(
            f"{robot.name}: joints move the base frame '{robot.base_frame}' against the root link "
            f"'{robot.tree.root}', so its planning scene cannot contain fixed objects."
        )
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    kinematics.warm_up(())
    return kinematics.pose(robot.home, robot.tree.root)


def _fixed_links(robot: Robot) -> set[str]:
    top = rigid_links(robot.tree)
    return {link for link in robot.tree.frame_names if top[link] == robot.tree.root}


def _rolling_links(robot: Robot) -> set[str]:
    """Return the links carried by wheels and passive joints."""
    rolling = {*(robot.base.wheel_names if robot.base else ()), *robot.passive_joints}
    found: set[str] = set()
    for link in robot.tree.frame_names:
        joint = robot.tree.parent_joint.get(link)
        if joint is not None and (joint.name in rolling or joint.parent in found):
            found.add(link)
    return found


def _always_touching(robot: Robot, floor: WorldObject) -> set[str]:
    """Return the links whose spheres collide with the floor in every configuration."""
    bodies = {body.name: body.spheres for body in link_bodies(robot)}
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    kinematics.warm_up(())
    limits, rng = robot.limits, np.random.default_rng(1)
    low, high = np.maximum(limits.lower, -np.pi), np.minimum(limits.upper, np.pi)
    for q in (robot.home, *rng.uniform(low, np.maximum(low, high), (_SAMPLES, len(low)))):
        X_FB = inverse(floor.X_WO)
        for name, spheres in list(bodies.items()):
            X_FL = X_FB @ kinematics.pose(q, name)
            if _heights(X_FL, spheres).min() > 0.0:
                del bodies[name]
    return set(bodies)


def _heights(X_FL: Array, spheres: Array) -> Array:
    """Return the lowest points of a link's spheres [m], shape (m,)."""
    return np.asarray(spheres[:, :3] @ X_FL[2, :3] + X_FL[2, 3] - spheres[:, 3])


def _fixed_parts(name: str, robot: Robot, X_BR: Array) -> list[WorldObject]:
    """Return the fixed links of an arm that have collision geometry."""
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.tree.root)
    kinematics.warm_up(())
    found = []
    for link in robot.tree.frame_names:
        parts: tuple[Part, ...] = link_parts(robot, link) if link in _fixed_links(robot) else ()
        if parts:
            X_BL = frozen(X_BR @ kinematics.pose(robot.home, link))
            item = world_object(
                f"{name}/{link}",
                tuple(part.solid for part in parts),
                X_BL,
                poses=tuple(part.X_OS for part in parts),
                static=True,
                rgba=_PART_RGBA,
            )
            found.append(replace(item, kind=SCENERY))
    return found


def _touched_at_home(robot: Robot, scenery: Scenery) -> dict[str, str]:
    """Return the objects in collision with the robot's home configuration, each with a link."""
    if not scenery.objects:
        return {}
    checker = CollisionChecker(robot, robot.joint_names, scene=scenery.scene())
    found: dict[str, str] = {}
    for contact in checker.explain(robot.home):
        for link, item in (contact.pair, contact.pair[::-1]):
            if item in scenery.objects:
                found[item] = link
    return found

# SPDX-License-Identifier: Apache-2.0
"""Arms in shallow collisions with themselves, a floor or boxes, or slightly outside limits."""

import numpy as np

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker, scene_for
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.typing import Array

KINDS = ("self", "floor", "boxes", "limits")
MAX_OUTSIDE = 0.05
"""Max violation of position limits [rad or m]."""
DEPTHS = (0.0005, 0.02)
"""Range of the depth that the deepest pair has at least [m]."""


def jam_scene(kind: str) -> Scene:
    """Return the scene of a kind of jam."""
    if kind in ("self", "limits"):
        return Scene()
    objects = {"floor": world_object("floor", Box((3.0, 3.0, 0.1)), from_xyz_rpy((0, 0, -0.05)))}
    rng = np.random.default_rng(5)
    for k in range(4 if kind == "boxes" else 0):
        angle, radius = rng.uniform(-np.pi, np.pi), rng.uniform(0.4, 0.7)
        at = (radius * np.cos(angle), radius * np.sin(angle), rng.uniform(0.1, 0.7))
        size = tuple(rng.uniform(0.05, 0.3, 3).tolist())
        objects[f"box{k}"] = world_object(f"box{k}", Box(size), from_xyz_rpy(at))
    return Scene(objects=objects)


def jam_checker(robot: Robot, kind: str) -> CollisionChecker:
    """Return a checker of an arm in that scene, without pairs that its joints cannot move."""
    checker = CollisionChecker(robot, "arm")
    checker.set_scene(scene_for(robot, checker.joint_names, jam_scene(kind)))
    return checker


def jammed(checker: CollisionChecker, kind: str, rng: np.random.Generator) -> Array:
    """Return a random jammed configuration, shape (n,)."""
    while True:
        q = _outside(checker, rng) if kind == "limits" else _in_collision(checker, rng)
        if q is not None:
            return q


def _drawn(checker: CollisionChecker, rng: np.random.Generator, free: bool) -> Array:
    limits = checker.limits
    low, high = np.maximum(limits.lower, -np.pi), np.minimum(limits.upper, np.pi)
    while True:
        q = rng.uniform(low, high)
        if checker.is_free(q) == free:
            return q


def _outside(checker: CollisionChecker, rng: np.random.Generator) -> Array | None:
    limits, q = checker.limits, _drawn(checker, rng, free=True)
    for joint in rng.choice(len(q), rng.integers(1, 3), replace=False):
        beyond = rng.uniform(0.0, MAX_OUTSIDE)
        above = rng.random() < 0.5
        q[joint] = limits.upper[joint] + beyond if above else limits.lower[joint] - beyond
    return q if _depth(checker, q) < DEPTHS[1] else None


def _in_collision(checker: CollisionChecker, rng: np.random.Generator) -> Array | None:
    """Move from a free configuration towards another, into the first collision."""
    a, b = _drawn(checker, rng, free=True), _drawn(checker, rng, free=False)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if checker.is_free(a + middle * (b - a)) else (low, middle)
    wanted = rng.uniform(*DEPTHS)
    for share in np.arange(high, 1.0, 0.002):
        q = np.asarray(a + share * (b - a))
        if _depth(checker, q) >= wanted:
            return q
    return None


def _depth(checker: CollisionChecker, q: Array) -> float:
    return max((c.depth for c in checker.explain(q) if c.kind != "limit"), default=0.0)

# SPDX-License-Identifier: Apache-2.0
"""A Panda between four barriers, as in Isaac Sim's tests of its planner."""

import functools
import itertools

import numpy as np

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.world import World
from motion_nodes.typing import Array

START = np.array([0.012, -0.568, 0.0, -2.811, 0.0, 3.037, 0.741])
GOAL = np.array(
    [
        -2.2235743574338285,
        1.2670535347824194,
        -1.5803078127051602,
        -2.044557783811974,
        -0.889700828512457,
        1.6705503159953106,
        0.41399271401981974,
    ]
)
TARGET_POSITION = (-0.4, 0.3, 0.5)
TARGET_XYZW = np.array([-0.5746039, 0.14875382, -0.42454764, 0.6837119])
TARGET_XYZW /= np.linalg.norm(TARGET_XYZW)
TARGET = from_xyz_quat(TARGET_POSITION, tuple(TARGET_XYZW))
WEIGHTS = (3.0, 2.0, 2.0, 1.5, 1.5, 1.0, 1.0)


def at(x: float, y: float, z: float) -> Array:
    X = np.eye(4)
    X[:3, 3] = x, y, z
    return X


BARRIERS = {
    "left": ((0.01, 0.5, 1.0), (0.0, 0.45, 0.5)),
    "right": ((0.04, 0.5, 0.5), (0.0, -0.45, 0.35)),
    "back": ((0.5, 0.01, 1.0), (-0.45, 0.0, 1.0)),
    "top": ((0.25, 0.25, 0.01), (0.0, 0.0, 1.2)),
    "ground": ((50.0, 50.0, 0.02), (0.0, 0.0, -0.0405)),
}


@functools.cache
def franka() -> Robot:
    return load_robot("franka")


@functools.cache
def barrier_scene() -> Scene:
    world = World()
    world.add(*(world_object(name, Box(size), at(*p)) for name, (size, p) in BARRIERS.items()))
    return world.scene


def barrier_checker() -> CollisionChecker:
    return CollisionChecker(franka(), "arm", scene=barrier_scene())


def fine_path(path: Array, checker: CollisionChecker, finer: float = 10.0) -> Array:
    """Return configurations along a path, ``finer`` times the checker's resolution."""
    pieces = [path[:1]]
    for a, b in itertools.pairwise(path):
        count = max(1, int(np.ceil(finer * np.linalg.norm((b - a) / checker.resolution))))
        pieces.append(a + np.linspace(0.0, 1.0, count + 1)[1:, None] * (b - a))
    return np.concatenate(pieces)


def max_depth(path: Array, checker: CollisionChecker, finer: float = 10.0) -> float:
    """Return the max penetration depth along a path, by NumPy [m]."""
    fine = fine_path(path, checker, finer)
    suspects = fine[~checker.are_free(fine)]
    return max((-checker.distance(q).value for q in suspects), default=0.0)

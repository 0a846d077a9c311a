# SPDX-License-Identifier: Apache-2.0
"""Resolution of collision checks along an edge."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import JointKind, frozen
from motion_nodes.scene.robot_spheres import CollisionBody
from motion_nodes.typing import Array

TRAVEL = 0.02
"""Approximate displacement of a sphere between two checked configurations [m]: below the radius of
typical spheres of an arm, so that undetected collisions are shallow."""
_SAMPLES = 200


def checked_steps(
    robot: Robot,
    bodies: tuple[CollisionBody, ...],
    joints: Sequence[str],
    resolution: float | ArrayLike | None,
) -> Array:
    """Return the max step of each joint, from a displacement [m], from steps, or by default.

    Args:
        robot: the robot.
        bodies: its bodies.
        joints: joints of a configuration.
        resolution: displacement, steps, or None.

    Raises:
        InvalidConfig: not finite, not above 0, or wrong length.
    """
    given = np.asarray(TRAVEL if resolution is None else resolution, dtype=np.float64)
    if not (np.isfinite(given).all() and (given > 0.0).all()):
        raise InvalidConfig(
            f"resolution is {given}; it must be finite and above 0.", field="resolution"
        )
    if given.ndim == 0:
        return joint_steps(robot, bodies, joints, float(given))
    if given.shape != (len(joints),):
        raise InvalidConfig(
            f"resolution has {given.size} steps for {len(joints)} joints: {', '.join(joints)}."
        )
    return frozen(given)


def joint_steps(
    robot: Robot, bodies: tuple[CollisionBody, ...], joints: Sequence[str], travel: float
) -> Array:
    """Return the step of each joint that moves no sphere farther than ``travel`` [m].

    The distances of spheres from a joint's axis are sampled over the joint limits, those of
    revolute joints up to pi (deterministically).

    Returns:
        Steps [rad or m], shape (n,); pi for a joint that moves no sphere.
    """
    tree = robot.tree
    kinematics = Kinematics(tree)
    rng = np.random.default_rng(0)
    lower, upper = robot.limits.lower, robot.limits.upper
    low, high = np.maximum(lower, -math.pi), np.minimum(upper, math.pi)
    kinds = [tree.joints[name].kind for name in robot.joint_names]
    sliding = np.array([kind is JointKind.PRISMATIC for kind in kinds], np.bool_)
    whole = (low > high) | (sliding & np.isfinite(upper - lower))
    low, high = np.where(whole, lower, low), np.where(whole, upper, high)
    Q = np.concatenate((rng.uniform(low, high, (_SAMPLES, len(low))), robot.home[None]))
    X = kinematics.frames_batch(Q)
    row = {name: i for i, name in enumerate(kinematics.frame_names)}
    moved_by = _moving_joints(robot)
    return frozen(
        [_step(robot, bodies, joint, X, row, moved_by, travel) for joint in joints], (len(joints),)
    )


def _step(
    robot: Robot,
    bodies: tuple[CollisionBody, ...],
    name: str,
    X: Array,
    row: dict[str, int],
    moved_by: dict[str, set[str]],
    travel: float,
) -> float:
    followers = [j for j in robot.tree.joints.values() if j.movable and _leader(j) == name]
    farthest = 0.0
    for joint in followers:
        factor = 1.0 if joint.mimic is None else abs(joint.mimic.multiplier)
        moved = [body for body in bodies if joint.name in moved_by[body.link]]
        if joint.kind is JointKind.PRISMATIC:
            farthest = max(farthest, factor if moved else 0.0)
            continue
        X_J = X[:, row[joint.child]]
        axis = X_J[:, :3, :3] @ joint.axis
        for body in moved:
            centres = X[:, row[body.link], :3, :3] @ body.spheres[:, :3].T
            offsets = (
                centres.transpose(0, 2, 1) + (X[:, row[body.link], :3, 3] - X_J[:, :3, 3])[:, None]
            )
            arms = np.linalg.norm(np.cross(axis[:, None], offsets), axis=2)
            farthest = max(farthest, factor * float(arms.max()))
    return min(math.pi, travel / farthest) if farthest > 0.0 else math.pi


def _leader(joint: object) -> str:
    mimic = joint.mimic  # type: ignore[attr-defined]
    return str(mimic.joint if mimic else joint.name)  # type: ignore[attr-defined]


def _moving_joints(robot: Robot) -> dict[str, set[str]]:
    """Return for each link the joints between it and the root."""
    above: dict[str, set[str]] = {}
    for link in robot.tree.frame_names:
        joint = robot.tree.parent_joint.get(link)
        above[link] = set() if joint is None else above[joint.parent] | {joint.name}
    return above

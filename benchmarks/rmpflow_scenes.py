# SPDX-License-Identifier: Apache-2.0
"""Random scenes for RMPflow: a table, standing boxes, balls that fly through the workspace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from judged_arm import FRAME, JudgedArm, Verdict

from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box, Sphere
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, WorldObject, world_object

DURATION = 8.0  # [s]
BALLS, BOXES = 2, 2
_COLUMN, _COLUMN_TOP = 0.3, 0.6  # about the base's axis, that balls stay out of [m]


@dataclass
class MovingScene:
    """Start, target and obstacles of one run."""

    start: np.ndarray
    target: np.ndarray
    standing: dict[str, WorldObject]
    flights: list[tuple[WorldObject, np.ndarray, np.ndarray]]
    """Balls with their starts [m] and velocities [m/s]."""

    def at(self, t: float) -> Scene:
        """Return the scene at a time [s]."""
        balls = {b.name: replace(b, X_WO=from_xyz_rpy(p + t * v)) for b, p, v in self.flights}
        return Scene(objects={**self.standing, **balls})


def draw_scene(
    policy: RmpflowPolicy, checker: CollisionChecker, rng: np.random.Generator
) -> MovingScene:
    """Return a scene whose start and target are collision-free; balls pass beside the base."""
    home = policy.default_cspace_target
    limits = policy.robot.limits.select(policy.active_joints)
    reach = float(np.linalg.norm(policy.tool_pose(home)[:3, 3]))
    while True:
        ends = [limits.clip(home + rng.uniform(-0.6, 0.6, len(home))) for _ in range(2)]
        X = policy.tool_pose(ends[1])
        if np.hypot(*X[:2, 3]) < 0.35 or X[2, 3] < 0.15:
            continue
        table = world_object("table", Box((1.6, 1.6, 0.1)), from_xyz_rpy((0.0, 0.0, -0.25)))
        standing = {"table": table}
        for k in range(BOXES):
            p, size = _around(rng, reach), rng.uniform(0.05, 0.2, 3).tolist()
            pose = from_xyz_rpy(p, (0.0, 0.0, rng.uniform(-3.0, 3.0)))
            standing[f"box{k}"] = world_object(f"box{k}", Box(tuple(size)), pose)
        scene = MovingScene(ends[0], X, standing, [_flight(rng, k, reach) for k in range(BALLS)])
        checker.set_scene(Scene(objects=standing))
        if all(_is_clear(checker, q) for q in ends):
            checker.set_scene(scene.at(0.0))
            if _is_clear(checker, ends[0]):
                return scene


def _is_clear(checker: CollisionChecker, q: np.ndarray) -> bool:
    return checker.is_free(q) and bool(checker.sphere_distances(q).distance.min() > 0.03)


def _around(rng: np.random.Generator, reach: float) -> np.ndarray:
    while True:
        p = rng.uniform((-reach, -reach, 0.0), (reach, reach, 1.2 * reach))
        if np.hypot(p[0], p[1]) > _COLUMN:
            return p


def _flight(
    rng: np.random.Generator, k: int, reach: float
) -> tuple[WorldObject, np.ndarray, np.ndarray]:
    """Return a ball that passes through the workspace but not near the base's column."""
    radius = float(rng.uniform(0.04, 0.08))
    while True:
        middle, direction = _around(rng, reach), rng.normal(size=3)
        direction *= rng.uniform(0.1, 0.3) / np.linalg.norm(direction)
        start = middle - 0.5 * DURATION * direction
        path = start + np.linspace(0.0, DURATION, 200)[:, None] * direction
        near = (np.hypot(path[:, 0], path[:, 1]) < _COLUMN + radius) & (path[:, 2] < _COLUMN_TOP)
        if not near.any():
            return world_object(f"ball{k}", Sphere(radius), np.eye(4)), start, direction


class Outcome(NamedTuple):
    """What a run came to."""

    verdict: Verdict
    error: float
    """Distance of the measured tool from its target at the end [m]."""
    passive: float
    """Least distance if the robot had stood still at its start [m]."""


def run_scene(arm: JudgedArm, scene: MovingScene) -> Outcome:
    """Let a policy's arm move through a scene; obstacles are updated 100 times a second."""
    policy, q = arm.policy, scene.start
    policy.reset()
    follower = Follower(policy)
    follower.follow_pose(scene.target, 0.0)
    arm.start(scene.start, scene.at(0.0))
    passive = min(arm.clearance_at_rest(scene.at(t)) for t in np.arange(0.0, DURATION, 5 * FRAME))
    arm.place(scene.start, scene.at(0.0))
    for k in range(round(DURATION / FRAME)):
        q, _ = arm.follow(follower, scene.at(k * FRAME), k * FRAME)
    error = np.linalg.norm(policy.tool_pose(q)[:3, 3] - scene.target[:3, 3])
    return Outcome(arm.verdict, float(error), passive)

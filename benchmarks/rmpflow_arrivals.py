# SPDX-License-Identifier: Apache-2.0
"""Runs of RMPflow from random starts to random poses, alone or with a way out where it is stuck."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.planning.pipeline import plan
from motion_nodes.planning.planning_problem import PlanRequest, PoseGoal
from motion_nodes.planning.warm_up import warm_up
from motion_nodes.rmpflow.follower_settings import FollowerSettings, Phase, RobotMotion
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.scene.checker import CollisionChecker

FRAME = 0.01  # [s]
LONGEST = 15.0  # [s] alone
ESCAPING = 45.0  # [s] with a way out
REST = 2.0  # [s] between an arrival and the look at what is left of the error
STANDING = 1.0  # [s] so long stuck and at rest, nothing more happens
PLANNING = 5.0  # [s]
WAYS = ("alone", "posture", "planner")


@dataclass
class Start:
    """What one run is about."""

    q: Array
    X_WT: Array


def draw_start(policy: RmpflowPolicy, checker: CollisionChecker, seed: int, wide: bool) -> Start:
    """Return a free start, and a pose that some free configuration near the posture has."""
    rng, limits, home = np.random.default_rng(seed), checker.limits, policy.default_cspace_target
    low, high = np.maximum(limits.lower, -np.pi), np.minimum(limits.upper, np.pi)
    while True:
        goal = limits.clip(home + rng.uniform(-0.6, 0.6, len(home)))
        spread = rng.uniform(low, high) if wide else home + rng.uniform(-1.0, 1.0, len(home))
        q, X = limits.clip(spread), policy.tool_pose(goal)
        in_reach = np.hypot(*X[:2, 3]) > 0.35 and X[2, 3] > 0.15
        if in_reach and checker.is_free(q) and checker.is_free(goal):
            return Start(q, X)


class Runs:
    """One robot's policy, run from start after start."""

    def __init__(self, policy: RmpflowPolicy, checker: CollisionChecker) -> None:
        self._policy, self._checker = policy, checker
        self._prepared = False

    def run(self, start: Start, way: str) -> dict[str, float | bool | None]:
        """Return when a run arrived [s], None for never, and what was left of the errors.

        Args:
            start: where it begins and goes.
            way: what happens where it is stuck, one of WAYS.
        """
        policy = self._policy
        policy.reset()
        follower = Follower(
            policy, FollowerSettings(retreat=way == "posture", escape=way == "planner")
        )
        follower.follow_pose(start.X_WT, 0.0)
        q, qd = start.q, np.zeros(len(start.q))
        fingers = policy.robot.home[policy.robot.indices(policy.watched_joints)]
        none = np.zeros(len(fingers))
        now, quiet = 0.0, 0.0
        while now < (LONGEST if way == "alone" else ESCAPING):
            told = follower.step(RobotMotion(q, qd, fingers, none), FRAME, now)
            now += FRAME
            q, qd = told if told is not None else (q, np.zeros(len(q)))
            if follower.escape_target is not None:
                q, took = self._way_out(q, start.X_WT)
                now += took
                follower.hand_back(now, "" if took else "no way was found")
            if follower.phase is Phase.ARRIVED:
                return {"seconds": now, "stuck": False, **self._rest(q)}
            stands = follower.phase is Phase.STUCK and float(np.abs(qd).max()) < 5e-3
            quiet = quiet + FRAME if stands else 0.0
            if quiet > STANDING:
                break
        errors = follower.errors
        return {
            "seconds": None, "stuck": policy.stuck,
            "position": errors.position, "orientation": errors.orientation,
        }  # fmt: skip

    def _way_out(self, q: Array, X_WT: Array) -> tuple[Array, float]:
        """Return where a plan ends, and its duration [s]; 0 where there is none."""
        if not self._prepared:
            warm_up(self._checker)
            self._prepared = True
        goal = PoseGoal(self._policy.tool, X_WT)
        found = plan(PlanRequest(self._checker, q, (goal,), PLANNING, 1))
        if found.trajectory is None:
            return q, 0.0
        return np.array(found.trajectory.positions[-1]), float(found.trajectory.times[-1])

    def _rest(self, q: Array) -> dict[str, float]:
        """Return what is left of the errors after a while more."""
        still = np.zeros(len(q))
        for _ in range(round(REST / FRAME)):
            self._policy.compute_joint_targets(q, still, frame_duration=FRAME)
        status = self._policy.status
        return {"position": status.position_error, "orientation": status.orientation_error}

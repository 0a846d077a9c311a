# SPDX-License-Identifier: Apache-2.0
"""Seeded trials of a policy: tasks and measured results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from motion_nodes.errors import MotionError
from motion_nodes.model.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.model.tree import Box, Sphere
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object
from motion_nodes.typing import Array

FRAME = 0.02  # [s]
NEAR, LEVEL, SETTLED = 0.005, float(np.radians(1.0)), 0.01
"""Tolerances at the target: position [m], orientation [rad]; posture [rad]."""
_LOOKS = 3  # evaluations of the RMP weights per trial
# [m] min distances of links, and of obstacles, where a task begins and ends
_APART, _CLEAR = 0.03, 0.04
_TRIES = 2000
_NOTHING = "no {} were found for {}: its posture is too close to self-collision or to its limits."
_APART_EVERY = 5  # frames between checks of link distances


@dataclass(frozen=True, eq=False)
class TrialTask:
    """Task of a policy."""

    start: Array
    """Positions of the active joints [rad or m], shape (n,)."""
    posture: Array | None = None
    """Target posture; None: the robot's own."""
    X_WT: Array | None = None
    """Target pose of the tool in the world, shape (4, 4); None: the posture alone."""
    oriented: bool = True
    scene: Scene = field(default_factory=Scene)
    duration: float = 3.0
    """Duration [s]."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Result of a task."""

    seconds: float | None
    """Time of final arrival; None if not reached [s]."""
    position_error: float
    """Final position error [m]; NaN without a target."""
    orientation_error: float
    """Final orientation error [rad]; NaN without a target."""
    posture_error: float
    """Final max joint error [rad or m]."""
    wobble: float
    """Max increase of the tool's distance after it had been close to its target [m]."""
    jerk: float
    """RMS jerk of all joints [rad/s^3]."""
    clearance: float
    """Min distance to obstacles [m]; inf without any."""
    apart: float
    """Min distance between links [m]."""
    weights: dict[str, float]
    """Trace of each RMP's metric, median over the trial; empty unless requested."""


def run_trial(
    policy: RmpflowPolicy, checker: CollisionChecker, task: TrialTask, *, weigh: bool = False
) -> Trial:
    """Run a task with the policy's own state, and return the result.

    Args:
        policy: the policy under test.
        checker: of the same joints; its scene is ignored.
        task: the task.
        weigh: whether the weights of the RMPs are recorded, which takes longer.
    """
    policy.reset()
    policy.set_ignore_state_updates(True)
    rest = np.zeros(len(task.start))
    policy.set_internal_robot_joint_states(task.start, rest)
    policy.set_scene(task.scene)
    if task.posture is not None:
        policy.set_cspace_target(task.posture)
    if task.X_WT is not None:
        orientation = to_quat_xyzw(task.X_WT) if task.oriented else None
        policy.set_end_effector_target(task.X_WT[:3, 3], orientation)
    frames = round(task.duration / FRAME)
    looks = {frames * (2 * k + 1) // (2 * _LOOKS) for k in range(_LOOKS)} if weigh else set()
    speeds, errors, arrived, found = [rest], [], [], []
    clearance = apart = np.inf
    for k in range(frames):
        q, qd = policy.compute_joint_targets(task.start, rest, frame_duration=FRAME)
        status = policy.status
        speeds.append(qd)
        errors.append(status.position_error)
        arrived.append(
            not status.position_error >= NEAR
            and not status.orientation_error >= LEVEL
            and (task.X_WT is not None or status.posture_error < SETTLED)
        )
        clearance = min(clearance, policy.clearance())
        if k % _APART_EVERY == 0:
            apart = min(apart, checker.distance(q).value)
        report = policy.report() if k in looks else None
        if report is not None:
            found.append({leaf.name: leaf.weight for leaf in report.leaves})
    names = found[0] if found else ()
    return Trial(
        _first_for_good(arrived),
        status.position_error,
        status.orientation_error,
        status.posture_error,
        _wobble(errors),
        float(np.sqrt((np.diff(np.array(speeds), 2, axis=0) ** 2).mean()) / FRAME**2),
        clearance,
        apart,
        {name: statistics.median(look[name] for look in found) for name in names},
    )


def _first_for_good(arrived: Sequence[bool]) -> float | None:
    """Return the time since which it is continuously true [s]."""
    count = 0
    for there in reversed(arrived):
        if not there:
            break
        count += 1
    return (len(arrived) - count + 1) * FRAME if count else None


def _wobble(errors: Sequence[float]) -> float:
    """Return the max increase of the error after it had been below 5 cm [m]."""
    values = np.array(errors)
    near = np.flatnonzero(values < 0.05)
    return float(np.maximum(np.diff(values[near[0] :]), 0.0).sum()) if len(near) else 0.0


class TaskDrawer:
    """Samples feasible tasks: starts and goals are collision-free and reachable."""

    def __init__(self, policy: RmpflowPolicy, checker: CollisionChecker, seed: int) -> None:
        self._policy, self._checker = policy, checker
        self._rng = np.random.default_rng(seed)
        self._limits = policy.robot.limits.select(policy.active_joints)
        self._home = policy.default_cspace_target
        # Some robots have links that are always closer than that.
        self._apart = min(_APART, 0.5 * checker.distance(self._home).value)

    def posture(self) -> TrialTask:
        """Return the task to move from one posture to another."""
        return TrialTask(self._free(0.8), posture=self._free(0.8))

    def position(self) -> TrialTask:
        """Return the task to move the tool to a position."""
        return TrialTask(self._free(0.6), X_WT=self._pose(0.6), oriented=False)

    def pose(self) -> TrialTask:
        """Return the task to move the tool to a pose."""
        return TrialTask(self._free(0.6), X_WT=self._pose(0.6))

    def near_limits(self) -> TrialTask:
        """Return the task to reach a position with some joints close to their limits."""
        limits, home = self._limits, self._home
        span = np.where(np.isfinite(limits.upper - limits.lower), limits.upper - limits.lower, 6.0)
        low, high = np.maximum(limits.lower, home - 3.0), np.minimum(limits.upper, home + 3.0)

        def drawn() -> Array:
            q = home + self._rng.uniform(-0.6, 0.6, len(home))
            joint = self._rng.integers(len(home))
            side = low if self._rng.random() < 0.5 else high
            q[joint] = side[joint] + np.sign(home[joint] - side[joint]) * 0.03 * span[joint]
            return limits.clip(q)

        goal = self._until_free(drawn)
        return TrialTask(self._free(0.6), X_WT=self._policy.tool_pose(goal), oriented=False)

    def around_obstacle(self, oriented: bool = False) -> TrialTask:
        """Return the task to move the tool around a ball and a box that block the direct path."""
        for _ in range(_TRIES):
            start, goal = self._free(0.7), self._free(0.7)
            a, X = self._policy.tool_pose(start)[:3, 3], self._policy.tool_pose(goal)
            way = float(np.linalg.norm(X[:3, 3] - a))
            radius = 0.2 * way
            middle = 0.5 * (a + X[:3, 3]) + self._rng.normal(size=3) * 0.3 * radius
            ball = world_object("ball", Sphere(radius), from_xyz_rpy(middle))
            low = from_xyz_rpy((X[0, 3], X[1, 3], X[2, 3] - 0.2))
            box = world_object("box", Box((0.15, 0.15, 0.1)), low)
            scene = Scene(objects={"ball": ball, "box": box})
            if way > 0.15 and all(self._clearance(q, scene) > _CLEAR for q in (start, goal)):
                return TrialTask(start, X_WT=X, oriented=oriented, scene=scene, duration=5.0)
        raise MotionError(_NOTHING.format("targets beyond an obstacle", self._policy.robot.name))

    def _clearance(self, q: Array, scene: Scene) -> float:
        self._policy.reset()
        self._policy.set_internal_robot_joint_states(q, np.zeros(len(q)))
        self._policy.set_scene(scene)
        return self._policy.clearance()

    def _pose(self, spread: float) -> Array:
        return self._policy.tool_pose(self._free(spread))

    def _free(self, spread: float) -> Array:
        """Return a configuration with sufficient distance between links."""
        home = self._home
        return self._until_free(
            lambda: self._limits.clip(home + self._rng.uniform(-spread, spread, len(home)))
        )

    def _until_free(self, draw: Callable[[], Array]) -> Array:
        for _ in range(_TRIES):
            q = draw()
            if self._checker.distance(q).value > self._apart:
                return q
        raise MotionError(_NOTHING.format("free configurations", self._policy.robot.name))

# SPDX-License-Identifier: Apache-2.0
"""Reactive MPC as a policy with the interface of RMPflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.mpc import tracking_law
from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.model.robot import Robot
from motion_nodes.mpc.attractor_sampling import AttractorSampler
from motion_nodes.mpc.goal_postures import GoalPostures
from motion_nodes.mpc.guide_search import GuideSearch
from motion_nodes.mpc.mpc_settings import MpcSettings
from motion_nodes.mpc.planner import JointPlan, MpcPlanner
from motion_nodes.mpc.rollouts import Rollouts
from motion_nodes.rmpflow.integration import JointMotion
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.status import error_of, watch
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array

_HARDEST = 1e6
_SOON = 1e-6
_PER_RADIAN = 0.1
"""Weight of the remaining distance in joint space in the error of the tool [m/rad]."""


class MpcPolicy(RmpflowPolicy):
    """Moves the joints of a robot to a target around obstacles, by sampled motions.

    Inputs, outputs, limits and stops are those of :class:`RmpflowPolicy`. For each plan, motions
    over a horizon are sampled and evaluated; the tracking law follows the best one until the next
    plan.
    """

    def __init__(
        self,
        robot: Robot,
        *arguments: Any,
        joints: Sequence[str] | str = "arm",
        mpc: MpcSettings | None = None,
        **options: Any,
    ) -> None:
        """Create the policy; code is compiled at the first use of a robot.

        Args:
            robot: robot with collision spheres or collision geometry.
            arguments: as for :class:`RmpflowPolicy`.
            joints: as for :class:`RmpflowPolicy`.
            mpc: horizon, samples and costs; default: those of :class:`MpcSettings`.
            options: as for :class:`RmpflowPolicy`.

        Raises:
            UnknownGroup, UnknownJoint, UnknownFrame: a name that the robot does not have.
            InvalidDescription: the robot has no settings, or they cannot be read.
            InvalidConfig: settings that do not fit the robot, or no joint moves the tool.
        """
        self._planner: MpcPlanner | None = None
        super().__init__(robot, *arguments, joints=joints, **options)
        self.mpc = mpc or MpcSettings()
        limits = self._evaluator.limits
        self._rollouts = Rollouts(robot, self.active_joints, self.tool)
        self._rollouts.set_settings(self.mpc)
        self._set_limits()
        sampler = AttractorSampler(self.mpc, limits.lower, limits.upper, self._rollouts.lanes)
        goals = GoalPostures(robot, self.active_joints, self.tool, self._rollouts.are_free)
        guides = GuideSearch(self._rollouts, *sampler.range)
        self._planner = MpcPlanner(self._rollouts, sampler, goals, guides, self.max_acceleration)
        self.reset()

    def reset(self) -> None:
        """Clear targets, obstacles, attached bodies, state and plan; keep parameters and base."""
        super().reset()
        self._since_plan = np.inf
        if self._planner is not None:
            self._planner.reset()
            self._rollouts.set_scene(self.scene)

    def set_settings(self, settings: RmpflowSettings) -> None:
        """Replace the parameters of the RMPs; their velocity limits also apply to the MPC."""
        super().set_settings(settings)
        self._set_limits()

    def _set_limits(self) -> None:
        limits = self._evaluator.limits
        self._speed = np.minimum(limits.velocity, self._evaluator.bounds.max_velocity)
        jerk = np.minimum(limits.jerk, _HARDEST)
        self._rollouts.set_limits(self._speed, self.max_acceleration, jerk)

    def set_scene(self, scene: Scene, now: float | None = None) -> None:
        """Set the obstacles and attached bodies; see :meth:`RmpflowPolicy.set_scene`."""
        before = self.scene
        super().set_scene(scene, now)
        if before.attached != scene.attached or before.allowed is not scene.allowed:
            self._rollouts.set_scene(scene)

    @property
    def plan(self) -> JointPlan | None:
        """The followed motion; None before the first plan and after a stop."""
        return None if self._planner is None else self._planner.plan

    def tool_lead(self, twist: Array) -> Array:
        """Return the lead of a target that moves with a twist; see :class:`RmpflowPolicy`."""
        return twist / tracking_law.GAIN

    def joint_lead(self, velocity: Array) -> Array:
        """Return the same for joints, shape (n,) each [rad/s or m/s; rad or m]."""
        return velocity / tracking_law.GAIN

    def _advance(self, state: JointMotion, count: int, dt: float) -> tuple[Array, Array]:
        self._turn_posture(state.q)
        if self._stopping:
            self._forget_plan()
        elif self._since_plan >= self.mpc.period - _SOON:
            self._update_plan(state)
        return super()._advance(state, count, dt)

    def _update_plan(self, state: JointMotion) -> None:
        assert self._planner is not None
        elapsed = self._since_plan if np.isfinite(self._since_plan) else 0.0
        seen = state.q + self._sag
        whole = np.concatenate((seen, self._watched_q))
        clearance = float(self._evaluator.clearances(whole).min(initial=np.inf))
        self._rollouts.set_watched(self._watched_q)
        self._planner.update(
            seen, state.qd, state.qdd, self._evaluator.goal, self._evaluator.obstacles,
            clearance, elapsed,
        )  # fmt: skip
        self._since_plan = 0.0

    def _forget_plan(self) -> None:
        assert self._planner is not None
        self._planner.forget()
        self._since_plan = np.inf

    @property
    def _rmps_alone(self) -> bool:
        return self.plan is None and super()._rmps_alone

    def _accelerations(self, state: JointMotion, dt: float) -> Callable[[Array], Array]:
        if self._stopping or self.plan is None:
            return super()._accelerations(state, dt)
        assert self._planner is not None
        offset = self._planner.attractor(self._since_plan) - state.q - self._sag
        self._since_plan += dt
        rate = tracking_law.rate(NUMPY, offset, self._speed, self.max_acceleration).min()
        response = tracking_law.response(dt)

        def law(qd: Array) -> Array:
            return np.asarray(tracking_law.acceleration(rate, offset, qd, response))

        return law

    def _watch(self, duration: float) -> None:
        plan, goal, errors = self.plan, self._evaluator.goal, self._errors()
        if plan is None:
            watch(self._progress, goal, errors, duration)
            return
        watch(
            self._progress, goal, errors, duration,
            error_of(goal, errors) + _PER_RADIAN * plan.remaining,
        )  # fmt: skip

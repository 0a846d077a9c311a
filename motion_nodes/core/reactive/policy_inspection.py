# SPDX-License-Identifier: Apache-2.0
"""Inspection of a policy: spheres, distances, and the contribution of each RMP.

A policy in a control loop has no time for this, and is not thread-safe. It provides an immutable
view, which an inspector evaluates in another thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.numpy_policy import NumpyEvaluation, resolve
from motion_nodes.core.reactive.obstacle_scene import ObstaclePacker, carried_spheres
from motion_nodes.core.reactive.policy_state import PolicyView
from motion_nodes.core.reactive.targets import FollowerCommand, JogCommand, TwistCommand
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scene import Scene
from motion_nodes.typing import Array


@dataclass(frozen=True)
class LeafFigures:
    """Contribution of one RMP in numbers."""

    name: str
    """Name as in the settings."""
    weight: float
    """Trace of its metric in joint space."""
    force: float
    """Norm of its weighted acceleration."""
    acceleration: float
    """Norm of the joint accelerations under this RMP alone [rad/s^2]."""
    tool: Array
    """Its part of the tool's acceleration, in the base frame [m/s^2], shape (3,)."""


class PolicyInspector:
    """Evaluates views of one robot's policy; not thread-safe."""

    def __init__(
        self, robot: Robot, active: tuple[str, ...], tool: str, settings: RmpflowSettings
    ) -> None:
        self._robot, self._tool = robot, tool
        self._evaluator = Evaluator(robot, active, tool, settings)
        self._packer = ObstaclePacker(self._evaluator.spheres.links)
        self._scene = Scene()
        self._view: PolicyView | None = None

    def set_view(self, view: PolicyView) -> None:
        """Set the view to evaluate."""
        evaluator = self._evaluator
        if view.settings is not evaluator.settings:
            evaluator.set_settings(view.settings)
        if view.scene.attached != self._scene.attached:
            evaluator.set_carried(carried_spheres(self._robot, self._tool, view.scene))
        self._scene = view.scene
        X_BW = inverse(view.X_WB)
        evaluator.set_obstacles(self._packer.packed(view.scene, X_BW, view.twists))
        evaluator.set_goal(view.goal)
        self._view = view

    @property
    def active_joints(self) -> tuple[str, ...]:
        """Joints moved by the policy."""
        return self._evaluator.active

    def spheres(self) -> tuple[Array, Array]:
        """Return spheres in the base frame [m], (s, 4), and their obstacle distances [m], (s,)."""
        q = self._seen.q
        return self._evaluator.sphere_positions(q), self._evaluator.clearances(q)

    def clearance(self) -> float:
        """Return the min distance of a sphere to an obstacle [m]; inf without obstacles."""
        return float(self._evaluator.clearances(self._seen.q).min(initial=np.inf))

    def tool_pose(self) -> Array:
        """Return the pose of the tool in the base frame, shape (4, 4)."""
        return self._evaluator.tool_pose(self._seen.q)

    def share_of_speed(self, command: FollowerCommand) -> float:
        """Return the ratio of actual to commanded speed; 1 without a velocity command."""
        view, n = self._seen, len(self.active_joints)
        if isinstance(command, JogCommand):
            return _share(view.qd[:n], command.velocity)
        if not isinstance(command, TwistCommand):
            return 1.0
        speed = self._evaluator.tool_jacobian(view.q) @ view.qd
        part = slice(0, 3) if command.twist[:3].any() else slice(3, 6)
        return _share(speed[part], command.twist[part])

    def evaluation(self) -> NumpyEvaluation:
        """Return the contributions of all RMPs; takes milliseconds."""
        return self._evaluator.report(self._seen.q, self._seen.qd)

    def figures(self) -> list[LeafFigures]:
        """Return the contribution of each RMP in numbers."""
        evaluation = self.evaluation()
        n = len(evaluation.qdd)
        J = self._evaluator.tool_jacobian(self._seen.q)[:3, :n]
        return [
            LeafFigures(
                leaf.name,
                leaf.weight,
                float(np.linalg.norm(leaf.force)),
                float(np.linalg.norm(leaf.acceleration)),
                J @ resolve(evaluation.M, leaf.force, np.inf),
            )
            for leaf in evaluation.leaves
        ]

    @property
    def _seen(self) -> PolicyView:
        assert self._view is not None, "no view is set"
        return self._view


def _share(speed: Array, commanded: Array) -> float:
    square = float(commanded @ commanded)
    return 1.0 if square == 0.0 else float(speed @ commanded) / square

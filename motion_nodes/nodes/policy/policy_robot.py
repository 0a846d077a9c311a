# SPDX-License-Identifier: Apache-2.0
"""Robot of the reactive policy: measured state, controller references, preemption of its stream."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import JointState

from motion_nodes.core.reactive.follower_settings import RobotMotion
from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_view import PolicyView
from motion_nodes.core.scene.scene import Scene
from motion_nodes.ros import qos
from motion_nodes.ros.current_state_monitor import ControllerReferences, Preemptions
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.node import MotionNode
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array

IDLE_PERIOD = 0.1
"""Period of state updates without a target [s]."""


class PolicyRobot:
    """Reads the state of the robot and of its joint controller; only in the loop."""

    def __init__(
        self, node: MotionNode[Any], policy: RmpflowPolicy, joints: tuple[str, ...]
    ) -> None:
        """Subscribe.

        Args:
            node: the policy node.
            policy: with the active and watched joints.
            joints: all joints of the robot.
        """
        self._node, self._policy = node, policy
        controller = node.params.controller
        self._active, self._watched = (
            [joints.index(name) for name in names]
            for names in (policy.active_joints, policy.watched_joints)
        )
        self.state = JointStateReader(
            node.poll_bytes(JointState, "joint_states", qos.STATES),
            joints,
            limits=policy.robot.limits,
        )
        reports = node.poll_bytes(JointTrajectoryControllerState, f"{controller}/controller_state")
        self._references = ControllerReferences(reports, policy.active_joints)
        self.preemptions = Preemptions(
            node.poll(DiagnosticStatus, f"{controller}/status", qos.STATUS)
        )
        self._idle_at = -np.inf
        self._seen: PolicyView | None = None
        """The last view of the robot at rest."""

    @property
    def fault(self) -> str:
        """Why the state is not available; empty if it is."""
        return self.state.fault(self._node.params.state_timeout)

    def positions(self, *, update: bool) -> Array | None:
        """Return positions of all joints [rad or m], shape (n,); None if unknown.

        Args:
            update: whether to read new messages first.
        """
        if update:
            self.state.update()
        return self.state.position if self.state.received else None

    def motion(self, now_ns: int) -> RobotMotion:
        """Return the measured state, and the controller's reference if it is known.

        Args:
            now_ns: time of the reference [ns].
        """
        state = self.state
        q = state.position[self._active]
        reference_q, reference_qd = self._references.newest(now_ns) or (None, None)
        if reference_q is not None:
            # The controller may count the turns of continuous joints differently.
            reference_q = self._policy.turns.nearest(reference_q, q)
        return RobotMotion(
            q, state.velocity[self._active],
            state.position[self._watched], state.velocity[self._watched],
            reference_q, reference_qd,
        )  # fmt: skip

    def idle_view(self, scene: Scene) -> PolicyView | None:
        """Return a view of the robot at rest, for markers; None between two updates.

        The same object while nothing changes, so that it is not evaluated again.
        """
        now = time.monotonic()
        if now - self._idle_at < IDLE_PERIOD:
            return None
        self._idle_at = now
        self.state.update()
        if not self.state.received:
            return None
        q = self.state.position[[*self._active, *self._watched]]
        posture, settings = self._policy.default_cspace_target, self._policy.settings
        last = self._seen
        if (
            last is None
            or last.scene is not scene
            or last.settings is not settings
            or np.abs(q - last.q).max() > EQUAL_POSITIONS
            or not np.array_equal(posture, last.goal.posture)
        ):
            still, X_WB = np.zeros(len(q)), np.eye(4)
            self._seen = PolicyView(q, still, Goal(posture), scene, {}, X_WB, settings)
        return self._seen

# SPDX-License-Identifier: Apache-2.0
"""Monitor of an articulation controller: frozen joint states and rival publishers of commands."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.guard_defaults import gripper_joints
from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.control.joint_reference import JointReference
from motion_nodes.control.state_plausibility import FrozenStates
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.articulation.command_rivals import CommandRivals
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.node import MotionNode


class StateMonitor:
    """Stops the joints while states are frozen or another publisher commands them."""

    def __init__(
        self, node: MotionNode[Any], robot: Robot, state: JointStateReader, runner: JointArbiter
    ) -> None:
        """Create the monitor.

        Args:
            node: the controller; its parameters are ArticulationParams.
            robot: whose joints they are.
            state: measured state of the joints.
            runner: of the joints.
        """
        joints: Sequence[str] = node.params.joints
        self._node, self._state, self._runner = node, state, runner
        self._frozen = FrozenStates(node.params.tracking_lag, gripper_joints(robot, joints))
        self._rivals = CommandRivals(node, joints)
        self._everything: NDArray[np.intp] = np.arange(len(joints))
        self.fault = ""
        """Why the joints are stopped and commands refused; empty for no fault."""

    @property
    def frozen(self) -> bool:
        """Whether the measured state may not be used."""
        return len(self._frozen.joints) > 0

    @property
    def alone(self) -> bool:
        """Whether no other node publishes commands."""
        return self._rivals.alone

    def update(self, sent: Container[int], *, fresh: bool, started: bool) -> bool:
        """Check states and publishers; return whether the joints were stopped.

        Args:
            sent: stamps of the newest own commands [ns].
            fresh: whether a state was received.
            started: whether the controller commands the joints.
        """
        state, before = self._state, self.fault
        if fresh:
            self._frozen.measure(state.position, state.velocity, state.effort, state.updated)
        self.fault = self._rivals.check(sent)
        if self.frozen:
            names = ", ".join(state.joint_names[i] for i in self._frozen.joints)
            self.fault = f"joint_states are frozen: {names} did not change in a motion"
        if not started or bool(before) == bool(self.fault):
            return False
        if not self.fault:
            self._runner.resync.request(self._everything)
            return False
        self._node.get_logger().error(f"{self.fault}; joints stopped, commands are refused")
        self._runner.stop_all(self.fault)
        # References must not follow a state that is not known.
        self._runner.resync.drop(self._everything)
        return True

    def command(self, reference: JointReference, period: float) -> None:
        """Account for a reference that was sent, one period [s] after the last one."""
        self._frozen.command(reference.positions, reference.velocities, period)

    def reset(self) -> None:
        """Reset."""
        self._frozen.reset()

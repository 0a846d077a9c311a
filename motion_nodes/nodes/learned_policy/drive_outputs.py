# SPDX-License-Identifier: Apache-2.0
"""Outputs of the policy controller: references and gains of the drives, and its mode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from control_msgs.msg import DynamicJointState
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from motion_nodes.model.robot import Robot
from motion_nodes.policies.policy_sequence import PolicyMode, SequenceOutput
from motion_nodes.policies.runner import PolicyRunner
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter, set_stamp
from motion_nodes.ros.messages.gain_messages import gains_message
from motion_nodes.ros.node import MotionNode

GAIN_STEP = 0.1
"""Smallest change of the share of trained gains that is published within a transition."""


class DriveOutputs:
    """Publishes references and gains for the drives of the policy's joints."""

    def __init__(self, node: MotionNode[Any], robot: Robot, runner: PolicyRunner) -> None:
        """Create the publishers.

        Args:
            node: the node.
            robot: the robot, with the drives' own gains.
            runner: the policy, with the gains of training.
        """
        self._columns = np.flatnonzero(runner.commanded)
        self._joints = [runner.joint_names[i] for i in self._columns]
        drives = [robot.drive(joint) for joint in self._joints]
        self._own = np.array([[d.stiffness for d in drives], [d.damping for d in drives]])
        self._trained = np.array(runner.gains())[:, self._columns]
        self._writer = JointStateWriter(
            node.advertise(JointState, "joint_command", qos.REFERENCE_STREAM),
            self._joints,
            effort=True,
        )
        self._gains_out = node.advertise(DynamicJointState, "joint_gains", qos.LATCHED)
        self._mode_out = node.advertise(String, "~/mode", qos.STATUS)
        self.forget()

    def forget(self) -> None:
        """Publish gains and mode again with the next reference."""
        self._shares = (math.inf, math.inf)
        self._mode: PolicyMode | None = None

    def send(self, output: SequenceOutput, stamp: int) -> None:
        """Publish the reference of a deadline [ns], and gains that changed."""
        shares = (output.trained_stiffness, output.trained_damping)
        changes = [abs(new - old) for new, old in zip(shares, self._shares, strict=True)]
        # Small steps of a transition are skipped; its end values are exact.
        if max(changes) >= GAIN_STEP or (max(changes) > 0.0 and {*shares} <= {0.0, 1.0}):
            self._shares = shares
            self._send_gains(np.array(shares)[:, None], stamp)
        position, velocity, effort = (values[self._columns] for values in output.targets)
        self._writer.position[:], self._writer.velocity[:] = position, velocity
        self._writer.effort[:] = effort
        self._writer.send(stamp)

    def report(self, mode: PolicyMode) -> None:
        """Publish the mode if it changed."""
        if mode is not self._mode:
            self._mode = mode
            self._mode_out.publish(String(data=mode.value))

    def hold_measured(self, state: JointStateReader, stamp: int) -> None:
        """Hold the measured positions with the drives' own gains, before the node ends."""
        self._send_gains(np.zeros((2, 1)), stamp)
        self._writer.position[:] = state.position[self._columns]
        self._writer.velocity[:] = np.nan
        self._writer.effort[:] = np.nan
        self._writer.send_last(stamp)

    def _send_gains(self, share: np.ndarray, stamp: int) -> None:
        """Publish gains with a share of those of training, shape (2, 1)."""
        mixed = self._own + share * (self._trained - self._own)
        # NaN stands for the drive's own gain.
        gains = np.where(share > 0.0, mixed, np.nan)
        message = gains_message(self._joints, *gains)
        set_stamp(message, stamp)
        self._gains_out.publish(message)

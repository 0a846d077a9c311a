# SPDX-License-Identifier: Apache-2.0
"""What a policy measures of its robot, and what it commands to the drives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from control_msgs.msg import DynamicJointState
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray, String

from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import MotionError
from motion_nodes.extras.policies.observations import PolicyInputs, source_of
from motion_nodes.extras.policies.policy_sequence import PolicyMode, SequenceOutput
from motion_nodes.extras.policies.runner import PolicyRunner
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter, set_stamp
from motion_nodes.ros.messages.joint_channels import gains_message
from motion_nodes.ros.node import MotionNode

GAIN_STEP = 0.1
"""Smallest change of the share of trained gains that is published within a transition."""


class Measurements:
    """The newest measurements as the inputs of a policy."""

    def __init__(self, node: MotionNode[Any], robot: Robot, runner: PolicyRunner) -> None:
        """Create the subscriptions that the policy needs.

        Args:
            node: the node, with LearnedPolicyParams.
            robot: the robot.
            runner: the policy.
        """
        self._node, self._robot, self._runner = node, robot, runner
        states = node.poll_bytes(JointState, "joint_states", qos.STATES)
        self.state = JointStateReader(states, runner.joint_names, limits=robot.limits)
        # Falls are detected by the IMU, also for policies that do not observe it.
        floats = robot.kind == "floating"
        self.needs_imu = floats or "imu" in runner.sources
        self.needs_odometry = "odometry" in runner.sources
        self._imu = node.poll(Imu, "imu", qos.NEWEST) if self.needs_imu else None
        self._odometry = (
            node.poll(Odometry, node.params.odometry_topic, qos.NEWEST)
            if self.needs_odometry
            else None
        )
        self._terms = {
            term.name: node.poll(Float64MultiArray, f"~/observations/{term.name}", qos.NEWEST)
            for term in runner.spec.observations
            if source_of(term.name) == "terms"
        }
        n = len(runner.joint_names)
        self.inputs = PolicyInputs(np.full(n, np.nan), np.zeros(n))
        self._mounting: dict[str, np.ndarray] = {}
        self.forget()

    def forget(self) -> None:
        """Discard the measurements, such as those from before a jump of time."""
        self._at = dict.fromkeys(("joint_states", "imu", "odometry"), -math.inf)
        self._problem = dict.fromkeys(self._at, "")
        self._term_at: dict[str, float] = {}
        self.inputs.terms = {}
        self.inputs.R_WB = self.inputs.angular_velocity = self.inputs.linear_velocity = None

    def take(self, now: float) -> None:
        """Read the newest messages at a time of the node [s]."""
        if self.state.update():
            self.inputs.position = self.state.position
            self.inputs.velocity = np.nan_to_num(self.state.velocity)
            self._at["joint_states"] = now
        imu = self._imu.newest() if self._imu is not None else None
        if imu is not None:
            self._take_imu(imu, now)
        odometry = self._odometry.newest() if self._odometry is not None else None
        if odometry is not None:
            self._take_odometry(odometry, now)
        terms = dict(self.inputs.terms)
        for name, topic in self._terms.items():
            message = topic.newest()
            if message is not None:
                terms[name], self._term_at[name] = np.array(message.data), now
        self.inputs.terms = terms

    def fault(self, now: float) -> str:
        """Return why the measurements cannot be used at a time [s], as text; empty: they can."""
        timeout = self._node.params.input_timeout
        needed = {"joint_states": True, "imu": self.needs_imu, "odometry": self.needs_odometry}
        for name, at in self._at.items():
            if not needed[name]:
                continue
            if self._problem[name]:
                return self._problem[name]
            if at == -math.inf:
                detail = self.state.fault(math.inf) if name == "joint_states" else ""
                return detail or f"waiting for {name}"
            if now - at > timeout:
                return f"no {name} for {now - at:.2f} s"
        for name in self._terms:
            if name not in self._term_at:
                return f"waiting for ~/observations/{name}"
            age = now - self._term_at[name]
            if age > self._node.params.observation_timeout:
                return f"no ~/observations/{name} for {age:.2f} s"
        return ""

    def age(self, name: str, now: float) -> float:
        """Return the age of a kind of measurement at a time [s]."""
        return now - self._at[name]

    def _take_imu(self, message: Imu, now: float) -> None:
        q, w = message.orientation, message.angular_velocity
        for what in ("orientation", "angular_velocity"):
            if getattr(message, f"{what}_covariance")[0] == -1.0:
                self._problem["imu"] = f"the IMU reports no {what} (covariance -1)"
                return
        values = (q.x, q.y, q.z, q.w, w.x, w.y, w.z)
        try:
            if not all(map(math.isfinite, values)):
                raise ValueError("values that are not finite")
            R_WI = from_xyz_quat((0.0, 0.0, 0.0), values[:4])[:3, :3]
            R_BI = self._mounted(message.header.frame_id)
        except (ValueError, MotionError) as error:
            self._problem["imu"] = f"imu ignored: {error}"
            return
        self._problem["imu"], self._at["imu"] = "", now
        self.inputs.R_WB = R_WI @ R_BI.T
        self.inputs.angular_velocity = R_BI @ np.array(values[4:])

    def _mounted(self, frame: str) -> np.ndarray:
        """Return the orientation of the IMU's frame in the base frame, which is fixed."""
        if frame not in self._mounting:
            link, base = frame.rpartition("/")[2], self._robot.base_frame
            R = np.eye(3)
            if link and link != base:
                for joint in self._robot.chain(base, link):
                    if joint.movable:
                        raise MotionError(f"the IMU's frame '{link}' moves relative to '{base}'")
                    R = R @ joint.X_PJ[:3, :3]
            if len(self._mounting) > 10:
                self._mounting.clear()
            self._mounting[frame] = R
        return self._mounting[frame]

    def _take_odometry(self, message: Odometry, now: float) -> None:
        v, z = message.twist.twist.linear, message.pose.pose.position.z
        values = (v.x, v.y, v.z, z)
        if not all(map(math.isfinite, values)):
            self._problem["odometry"] = "odometry ignored: values that are not finite"
            return
        self._problem["odometry"], self._at["odometry"] = "", now
        self.inputs.linear_velocity = np.array(values[:3])
        self.inputs.height = z


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

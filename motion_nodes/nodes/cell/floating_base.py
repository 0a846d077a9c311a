# SPDX-License-Identifier: Apache-2.0
"""Topics of a simulated floating robot: its IMU, and the gains of its drives."""

from __future__ import annotations

from typing import Any

from control_msgs.msg import DynamicJointState
from sensor_msgs.msg import Imu

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.model.poses import to_quat_xyzw
from motion_nodes.model.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.gain_messages import read_gains
from motion_nodes.ros.node import MotionNode
from motion_nodes.sim.backend import RobotBackend


class FloatingBaseTopics:
    """Publishes ``imu`` and applies ``joint_gains``."""

    def __init__(
        self, node: MotionNode[Any], cell: RobotBackend, robot: Robot, name: str, prefix: str
    ) -> None:
        """Create the topics.

        Args:
            node: the simulation.
            cell: simulated cell.
            robot: the robot.
            name: of the robot in the cell.
            prefix: of its topics.
        """
        self._cell, self._name, self._warn = cell, name, node.warn
        self._imu = Imu()
        self._imu.header.frame_id = f"{prefix}{robot.base_frame}"
        self._out = node.advertise(Imu, f"{prefix}imu")
        self._gains = node.poll(DynamicJointState, f"{prefix}joint_gains", qos.LATCHED)

    def take_gains(self) -> None:
        """Apply the newest gains; invalid ones are ignored."""
        message = self._gains.newest()
        if message is None:
            return
        try:
            gains = read_gains(message, self._cell.joint_names(self._name), self._name)
            self._cell.set_gains(self._name, *gains)
        except (InvalidCommand, UnknownJoint) as error:
            self._warn(f"gains {self._name}", f"joint_gains ignored: {error}")

    def publish(self, nanoseconds: int) -> None:
        """Publish the measurement of an IMU in the base frame, at a time [ns]."""
        quat = to_quat_xyzw(self._cell.base_pose(self._name)).tolist()
        omega = self._cell.base_twist(self._name)[3:].tolist()
        acceleration = self._cell.base_acceleration(self._name).tolist()
        q, w, a = (
            self._imu.orientation, self._imu.angular_velocity, self._imu.linear_acceleration
        )  # fmt: skip
        q.x, q.y, q.z, q.w = quat
        w.x, w.y, w.z = omega
        a.x, a.y, a.z = acceleration
        set_stamp(self._imu, nanoseconds)
        self._out.publish(self._imu)

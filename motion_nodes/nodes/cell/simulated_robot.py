# SPDX-License-Identifier: Apache-2.0
"""Topics of one simulated robot, like those of a driver.

Also here: topics of a simulated floating robot: its IMU, and the gains of its drives.
"""

from __future__ import annotations

from typing import Any

from control_msgs.msg import DynamicJointState
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu, JointState

from motion_nodes.control.stream_resampler import StreamSample
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.model.mimic_joints import follower_names
from motion_nodes.model.placement import Placement
from motion_nodes.model.poses import to_quat_xyzw
from motion_nodes.model.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import JointStateWriter, set_stamp
from motion_nodes.ros.messages.cdr import InvalidMessage, MessageTemplate
from motion_nodes.ros.messages.joint_channels import JointChannels, read_gains
from motion_nodes.ros.node import MotionNode
from motion_nodes.sim.backend import RobotBackend
from motion_nodes.sim.drive_targets import JointTargets


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


class SimulatedRobot:
    """Topics of one robot of the cell."""

    def __init__(
        self, node: MotionNode[Any], cell: RobotBackend, place: Placement, name: str
    ) -> None:
        """Create the topics.

        Args:
            node: the simulation.
            cell: simulated cell.
            place: namespace of the robot.
            name: of the robot in the cell.
        """
        self.name = name
        self._cell = cell
        self._warn = node.warn
        self._joints = cell.joint_names(name)
        robot = next(p.robot for p in cell.placements if p.name == name)
        self._channels = JointChannels(self._joints, name, robot.tree)
        self._sample: StreamSample | None = None
        self._targets = JointTargets()
        """The last command."""
        prefix = f"{place.namespace}/" if place.namespace else ""
        self._commands = node.poll_bytes(JointState, f"{prefix}joint_command", qos.REFERENCES)
        self._writer = JointStateWriter(
            node.advertise(JointState, f"{prefix}joint_states"),
            (*self._joints, *follower_names(robot.tree)),
            effort=True,
        )
        self._truth = Odometry()
        self._place = b""
        """Pose and twist in it."""
        self._still: MessageTemplate | None = None
        self._truth.header.frame_id = "world"
        self._truth.child_frame_id = "base"
        self._truth_out = node.advertise(Odometry, f"{prefix}ground_truth")
        self._fixed = robot.kind == "arm"
        self._floating: FloatingBaseTopics | None = None
        if robot.kind == "floating":
            self._floating = FloatingBaseTopics(node, cell, robot, name, prefix)

    def take_commands(self, now_ns: int, oldest: float, latest_ns: int | None = None) -> None:
        """Apply received commands; invalid ones are ignored.

        Args:
            now_ns: time of the stamps' clock [ns].
            oldest: max deviation of stamps from that time; beyond it they are ignored [s]. 0: all
                stamps are ignored.
            latest_ns: commands with a later stamp are from before a reset and dropped [ns]; None:
                all are used.
        """
        if self._floating is not None:
            self._floating.take_gains()
        for message in self._commands.all():
            try:
                stamp, sample = self._channels.read_serialized(message)
            except InvalidMessage as error:
                self._commands.refuse(str(error))
                continue
            except (InvalidCommand, UnknownJoint) as error:
                self._warn(f"command {self.name}", f"joint_command ignored: {error}")
                continue
            if latest_ns is not None and stamp > latest_ns:
                continue
            age = 1e-9 * (now_ns - stamp)
            stamped = stamp != 0 and abs(age) < oldest
            if stamp != 0 and oldest > 0.0 and not stamped:
                self._warn(
                    f"stamp {self.name}",
                    f"a joint_command's stamp is {abs(age):.1f} s {'old' if age > 0 else 'ahead'}"
                    "; it is applied at once (does its sender use another use_sim_time?)",
                )
            if sample is not self._sample:
                self._sample, self._targets = sample, JointTargets(*sample)
            try:
                if stamped:
                    self._cell.stream(self.name, self._targets, stamp)
                else:
                    self._cell.command(self.name, self._targets)
            except InvalidCommand as error:
                self._warn(f"command {self.name}", f"joint_command ignored: {error}")

    def publish(self, nanoseconds: int) -> None:
        """Publish ``joint_states``, and the IMU of a floating robot, at a time [ns]."""
        if self._floating is not None:
            self._floating.publish(nanoseconds)
        sample = self._cell.state(self.name)
        writer, count = self._writer, len(self._joints)
        writer.position[:count], writer.position[count:] = sample.position, sample.followers[0]
        writer.velocity[:count], writer.velocity[count:] = sample.velocity, sample.followers[1]
        # Without a drive, a mimic joint has no effort of its own.
        writer.effort[:count], writer.effort[count:] = sample.effort, 0.0
        self._writer.send(nanoseconds)

    def publish_truth(self, nanoseconds: int) -> None:
        """Publish ``ground_truth``: pose and twist of the base, at a time [ns]."""
        if self._still is None or not self._fixed:
            self._still = self._truth_of_base()
        self._truth_out.publish(self._still.bytes(nanoseconds))

    def _truth_of_base(self) -> MessageTemplate:
        """Return the message with the current pose and twist."""
        X_WB = self._cell.base_pose(self.name)
        twist = self._cell.base_twist(self.name)
        place = X_WB.tobytes() + twist.tobytes()
        if place == self._place and self._still is not None:
            return self._still
        self._place = place
        pose, velocity = self._truth.pose.pose, self._truth.twist.twist
        pose.position.x, pose.position.y, pose.position.z = (float(v) for v in X_WB[:3, 3])
        quat = to_quat_xyzw(X_WB)
        rotation = pose.orientation
        rotation.x, rotation.y, rotation.z, rotation.w = (float(v) for v in quat)
        velocity.linear.x, velocity.linear.y, velocity.linear.z = (float(v) for v in twist[:3])
        velocity.angular.x, velocity.angular.y, velocity.angular.z = (float(v) for v in twist[3:])
        return MessageTemplate(self._truth)

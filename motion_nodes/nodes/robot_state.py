# SPDX-License-Identifier: Apache-2.0
"""Robot state publisher: robot_description and the transforms of the links, from joint states.

Replaces robot_state_publisher, without tf2_ros.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.meshes import with_absolute_meshes
from motion_nodes.core.robot.poses import inverse
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.node import FramedParams, RobotNode
from motion_nodes.ros.parameters import param
from motion_nodes.ros.transforms import TransformSender, frame_id, frame_prefix
from motion_nodes.tolerances import EQUAL_POSITIONS

STALE = 1.0
"""Age of joint states above which they are reported [s]."""
REST_RATE = 20.0
"""Rate of the loop while the joints rest [Hz], the default of ros-robot_state_publisher."""
UNUSED_RATE = 10.0
"""[Hz] Rate at which joint states are read while nobody subscribes to /tf."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobotStateParams(FramedParams):
    """Parameters of the robot state node."""

    update_rate: float = param(
        50.0, doc="Publish rate of /tf; max. 20 Hz while the joints rest.", unit="Hz", gt=0.0,
        le=1000.0, read_only=True,
    )  # fmt: skip


class RobotStateNode(RobotNode[RobotStateParams]):
    """Publishes robot_description, /tf_static and /tf."""

    params_type = RobotStateParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("robot_state", ros_args=ros_args)

    def configure(self) -> None:
        """Compile the kinematics and create the publishers."""
        tree = self.robot.tree
        # In the base frame as elsewhere, so that the robot's code is compiled once.
        self._kinematics = Kinematics(tree, base=self.robot.base_frame)
        self._kinematics.warm_up(())
        packed = tree.packed
        moving = packed.q_index >= 0
        self._moving = np.flatnonzero(moving)
        self._parents = packed.parent[self._moving]
        self._state = JointStateReader(
            self.poll_bytes(JointState, "joint_states", qos.STATES),
            tree.joint_names,
            limits=self.robot.limits,
        )
        self._sender = TransformSender(
            self.advertise(TFMessage, "/tf", qos.TF), self._pairs(self._moving)
        )
        self._description = self.advertise(String, "robot_description", qos.LATCHED)
        static = np.flatnonzero(~moving)[1:]
        self._static = static
        self._static_sender = TransformSender(
            self.advertise(TFMessage, "/tf_static", qos.TF_STATIC), self._pairs(static)
        )

    def activate(self) -> None:
        """Publish the description and the static transforms."""
        self._sent = np.full(len(self._state.joint_names), np.inf)
        urdf = with_absolute_meshes(self.robot.urdf, self.robot.directory)
        self._description.publish(String(data=urdf))
        self._static_sender.send(self.robot.tree.packed.X_PJ[self._static], self.now_ns())

    def tick(self, dt: float) -> None:
        """Publish the transforms of all movable joints."""
        changed = self._state.update()
        if not self._sender.wanted:
            self._sent[:] = np.inf
            self.idle(UNUSED_RATE)
            return
        if not changed:
            return
        position = self._state.position
        if np.abs(position - self._sent).max(initial=0.0) <= EQUAL_POSITIONS:
            self._sender.send_last(self._state.stamp_ns)
            self.idle(REST_RATE)
            return
        self._sent = position.copy()
        X_BF = self._kinematics.frames(position)
        X_PC = inverse(X_BF[self._parents]) @ X_BF[self._moving]
        self._sender.send(X_PC, self._state.stamp_ns)

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown."""
        return "" if self._state.received else self._state.fault(STALE)

    def diagnose(self, report: Report) -> None:
        """Report missing joint states."""
        fault = self._state.fault(STALE)
        if fault:
            report.note("WARN", fault)
        report.value("age of joint_states [s]", self._state.age())

    def _pairs(self, rows: np.ndarray) -> list[tuple[str, str]]:
        prefix = frame_prefix(self, self.params.tf_frame_prefix)
        packed = self.robot.tree.packed
        return [
            (
                frame_id(prefix, packed.frame_names[packed.parent[row]]),
                frame_id(prefix, packed.frame_names[row]),
            )
            for row in rows
        ]

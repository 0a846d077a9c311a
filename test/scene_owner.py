# SPDX-License-Identifier: Apache-2.0
"""A node that only owns a planning scene; run as a separate process."""

from __future__ import annotations

import threading

import numpy as np
from sensor_msgs.msg import JointState

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.nodes.planner.planning_scene import PlanningSceneOwner
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.robot_node import RobotNode, RobotParams
from motion_nodes.ros.run import run_node
from motion_nodes.ros.transform_tree import TransformTree


class SceneOwnerNode(RobotNode[RobotParams]):
    """Holds the scene like a planner node."""

    params_type = RobotParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("scene_owner", ros_args=ros_args)

    def configure(self) -> None:
        kinematics = Kinematics(self.robot.tree, self.robot.joint_names, base=self.robot.base_frame)
        kinematics.warm_up()
        self._reader = JointStateReader(
            self.poll(JointState, "joint_states", qos.STATES), self.robot.joint_names
        )
        self._reading = threading.Lock()
        self._tree = TransformTree(self)
        self.scene = PlanningSceneOwner(
            self,
            self.robot,
            kinematics,
            RobotFrames(kinematics, self._tree, ""),
            self._newest,
            lambda: 20.0,
        )
        self._threads = ServiceThreads(self)
        self.scene.serve(self._threads)
        self._threads.start()

    def _newest(self):
        with self._reading:
            self._reader.update()
            fault = "" if self._reader.received else self._reader.fault(np.inf)
            return self._reader.position.copy(), fault

    def activate(self) -> None:
        self.scene.announce()

    def tick(self, dt: float) -> None:
        self.scene.tick()

    def diagnose(self, report) -> None:
        self.scene.diagnose(report)

    def release(self) -> None:
        self._threads.destroy()
        self.scene.destroy()
        self._tree.destroy()


if __name__ == "__main__":
    run_node(SceneOwnerNode)

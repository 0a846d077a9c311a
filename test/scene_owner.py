# SPDX-License-Identifier: Apache-2.0
"""A node that only owns a planning scene; run as a separate process."""

import dataclasses

from sensor_msgs.msg import JointState

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.nodes.planner.planning_scene import PlanningSceneOwner
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import ServiceThreads
from motion_nodes.ros.current_state import CurrentStateMonitor, RobotFrames
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.node import RobotNode, RobotParams
from motion_nodes.ros.parameters import param
from motion_nodes.ros.run import run_node
from motion_nodes.ros.transforms import TransformTree


@dataclasses.dataclass(frozen=True, kw_only=True)
class SceneOwnerParams(RobotParams):
    state_publish_rate: float = param(20.0, doc="Publish rate of the robot state.", unit="Hz")


class SceneOwnerNode(RobotNode[SceneOwnerParams]):
    """Holds the scene like a planner node."""

    params_type = SceneOwnerParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("scene_owner", ros_args=ros_args)

    def configure(self) -> None:
        kinematics = Kinematics(self.robot.tree, self.robot.joint_names, base=self.robot.base_frame)
        kinematics.warm_up()
        reader = JointStateReader(
            self.poll(JointState, "joint_states", qos.STATES), self.robot.joint_names
        )
        self._tree = TransformTree(self)
        self.scene = PlanningSceneOwner(
            self, kinematics, RobotFrames(kinematics, self._tree, ""), CurrentStateMonitor(reader)
        )
        self._threads = ServiceThreads(self)
        self.scene.serve(self._threads)
        self._threads.start()

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

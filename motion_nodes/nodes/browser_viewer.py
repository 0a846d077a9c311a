# SPDX-License-Identifier: Apache-2.0
"""Browser viewer: shows robots live in a web page and lets people move them.

What people do on the page becomes joint commands to the articulation controller's ``~/reference``
and twists to the base controller's ``~/cmd_vel``, as any other client would send them.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from typing import Any

import numpy as np
from geometry_msgs.msg import TwistStamped
from moveit_msgs.msg import DisplayTrajectory
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from motion_nodes.errors import MotionError
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.loader import load_robot
from motion_nodes.model.placement import Placement, parse_placements
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.displayed_paths import displayed_path
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp
from motion_nodes.ros.names import BASE_CONTROLLERS, JOINT_CONTROLLER, under
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.run import run_node
from motion_nodes.ros.scene_follower import SceneFollower
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.viewed_robot import ViewedRobot

PLANS = "display_planned_path"
STALE = 1.0
"""[s] A robot that sent no state for this long is shown as lost."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrowserViewerParams(NodeParams):
    """Parameters of the viewer."""

    update_rate: float = param(
        30.0, doc="Greatest rate of scene updates.", unit="Hz", gt=0.0, le=120.0, read_only=True
    )
    robots: tuple[str, ...] = param(
        doc="The robots to show, each as [NAMESPACE:=]ROBOT[@X,Y,YAW].", read_only=True
    )
    port: int = param(8080, doc="TCP port of the page; 0: any free one.", ge=0, le=65535,
                      read_only=True)  # fmt: skip
    port_search: int = param(
        10, doc="How many ports after it may be tried when it is in use.", ge=0, le=1000,
        read_only=True,
    )  # fmt: skip
    host: str = param(
        "127.0.0.1",
        doc="Address to listen on; 0.0.0.0 opens the page, and the robots, to the network.",
        read_only=True,
    )
    dark: bool = param(False, doc="Dark page.", read_only=True)


class WatchedRobot:
    """The topics of one robot on the page."""

    def __init__(self, node: MotionNode[Any], place: Placement, frames: TransformTree) -> None:
        """Create the endpoints under the robot's namespace."""
        self._node = node
        self.robot = load_robot(place.robot)
        self.viewed = ViewedRobot.of(self.robot, place.namespace or self.robot.name, place.X_WR)
        self.name = self.viewed.name
        self._X_WO = place.X_WR
        states = node.poll(JointState, under(place.namespace, "joint_states"), qos.STATES)
        self.state = JointStateReader(states, self.robot.joint_names)
        self._command = node.advertise(
            JointState, under(place.namespace, f"{JOINT_CONTROLLER}/reference")
        )
        self._drives = False
        self._twist: Any = None
        self._odom: Any = None
        self._plans: Any = None
        self._scene: SceneFollower | None = None
        if self.viewed.tool:
            self._plans = node.poll(DisplayTrajectory, under(place.namespace, PLANS), qos.NEWEST)
            self._scene = _scene_of(node, self.robot, place.namespace, frames)
        self._revision = 0
        if self.robot.base is not None:
            controller = under(place.namespace, BASE_CONTROLLERS[self.robot.kind])
            self._twist = node.advertise(TwistStamped, f"{controller}/cmd_vel")
            self._odom = node.poll(Odometry, f"{controller}/odom")

    def show(self, viewer: BrowserViewer) -> None:
        """Bring the page up to the newest state."""
        if self.state.update():
            viewer.update_joints(self.name, self.state.position)
        message = self._odom.newest() if self._odom is not None else None
        if message is not None:
            p, q = message.pose.pose.position, message.pose.pose.orientation
            values = (p.x, p.y, p.z, q.x, q.y, q.z, q.w)
            if all(map(math.isfinite, values)):
                X_OB = from_xyz_quat(values[:3], values[3:])
                viewer.update_base(self.name, self._X_WO @ X_OB)
        self._show_planning(viewer)

    def _show_planning(self, viewer: BrowserViewer) -> None:
        """Show the scene where it is another one, and the newest plan."""
        if self._scene is None:
            return
        scene = self._scene.scene
        if scene.revision != self._revision:
            self._revision = scene.revision
            viewer.update_scene(self.name, scene)
        message = self._plans.newest()
        if message is None:
            return
        known = np.where(np.isfinite(self.state.position), self.state.position, self.robot.home)
        try:
            path = displayed_path(message, self.robot.joint_names, known)
            viewer.update_plan(self.name, *path)
        except MotionError as error:
            self._node.warn(f"{self.name}: {error}", f"{self.name}: {PLANS}: {error}")

    def end(self) -> None:
        """Take down what the node does not take down by itself."""
        if self._scene is not None:
            self._scene.destroy()

    def status(self) -> str:
        """Say what is missing and where to look, or nothing."""
        trouble = self.state.trouble(STALE)
        return f"{trouble}. Is its simulation or driver running?" if trouble else ""

    def send_joint(self, joint: str, value: float) -> None:
        """Command one joint."""
        self._send([joint], [value])

    def send_state(self, name: str) -> None:
        """Command the joints that a named state speaks of; "open" leaves the arm where it is."""
        chosen = [(joint, float(value)) for joint, value in self.robot.states[name].items()
                  if joint in self.robot.arm_joints]  # fmt: skip
        self._send([joint for joint, _ in chosen], [value for _, value in chosen])

    def send_twist(self, vx: float, vy: float, wz: float) -> None:
        """Command the base."""
        if self._twist is None:
            return
        self._drives = (vx, vy, wz) != (0.0, 0.0, 0.0)
        message = TwistStamped()
        message.twist.linear.x, message.twist.linear.y, message.twist.angular.z = vx, vy, wz
        set_stamp(message, self._node.now_ns())
        self._twist.publish(message)

    def let_go(self) -> None:
        """Stop the base, where it was last driven from the page; others may be driving it."""
        if self._drives:
            self.send_twist(0.0, 0.0, 0.0)

    def _send(self, names: list[str], values: list[float]) -> None:
        message = JointState(name=names, position=values)
        set_stamp(message, self._node.now_ns())
        self._command.publish(message)


def _scene_of(
    node: MotionNode[Any], robot: Robot, namespace: str, frames: TransformTree
) -> SceneFollower:
    """Return a follower of a robot's planning scene."""
    # Without generated code: the viewer asks for few frames, and starts sooner.
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame, generic=True)
    return SceneFollower(
        node, robot, kinematics, RobotFrames(kinematics, frames, namespace), namespace
    )


class BrowserViewerNode(MotionNode[BrowserViewerParams]):
    """Serves the page."""

    params_type = BrowserViewerParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("browser_viewer", ros_args=ros_args)
        self._viewer: BrowserViewer | None = None
        self._frames: TransformTree | None = None
        self._watched: dict[str, WatchedRobot] = {}

    def configure(self) -> None:
        """Load the robots and open the page."""
        params = self.params
        places = parse_placements(params.robots)
        frames = self._frames = TransformTree(self)
        watched = [WatchedRobot(self, place, frames) for place in places]
        self._watched = {robot.name: robot for robot in watched}
        self._viewer = BrowserViewer(
            [watched.viewed for watched in self._watched.values()],
            params.port,
            host=params.host,
            port_search=params.port_search,
            rate=params.update_rate,
            dark=params.dark,
        )
        self._wishes: deque[tuple[Any, ...]] = deque(maxlen=100)
        self._viewer.on_joint_target = lambda *wish: self._wishes.append(("send_joint", *wish))
        self._viewer.on_named_state = lambda *wish: self._wishes.append(("send_state", *wish))
        self._viewer.on_twist = lambda *wish: self._wishes.append(("send_twist", *wish))
        self.get_logger().info(f"open {self._viewer.url} in a browser")

    def activate(self) -> None:
        """Forget what was clicked while nobody listened."""
        self._wishes.clear()

    def tick(self, dt: float) -> None:
        """Send what people asked for, show what is new."""
        assert self._viewer is not None
        self._send_wishes()
        for watched in self._watched.values():
            watched.show(self._viewer)
            self._viewer.set_message(watched.name, watched.status())

    def halt(self) -> None:
        """Stop what the page was driving."""
        self._wishes.clear()
        for watched in self._watched.values():
            watched.let_go()

    def release(self) -> None:
        """Close the page."""
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None
        for watched in self._watched.values():
            watched.end()
        self._watched = {}
        if self._frames is not None:
            self._frames.destroy()
            self._frames = None

    def diagnose(self, report: Report) -> None:
        """Say where the page is and who looks at it."""
        if self._viewer is not None:
            report.value("address", self._viewer.url)
            report.value("pages open", self._viewer.client_count)
        for watched in self._watched.values():
            if watched.status():
                report.note("WARN", f"{watched.name}: {watched.status()}")

    def _send_wishes(self) -> None:
        while self._wishes:
            verb, robot, *values = self._wishes.popleft()
            getattr(self._watched[robot], verb)(*values)


def main() -> None:
    """Run the node as a process of its own."""
    run_node(BrowserViewerNode)

# SPDX-License-Identifier: Apache-2.0
"""Topics of one robot on the viewer's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.placement import Placement
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.nodes.viewer.viewer_attachment import WatchedAttachment
from motion_nodes.nodes.viewer.viewer_navigation import WatchedNavigation
from motion_nodes.nodes.viewer.viewer_planning import WatchedPlanning
from motion_nodes.nodes.viewer.viewer_states import ScaledMotions
from motion_nodes.nodes.viewer.viewer_suction import WatchedSuction
from motion_nodes.nodes.viewer.viewer_target import FOLLOWERS, WatchedTarget
from motion_nodes.nodes.viewer.viewer_task import WatchedTask
from motion_nodes.nodes.viewer.viewer_validity import WatchedValidity
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp
from motion_nodes.ros.names import (
    JOINT_CONTROLLER,
    POLICY_CONTROLLER,
    base_controller,
    under,
)
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.scene.scene import WorldObject
from motion_nodes.typing import Array
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.ui_commands import PlanCommand, TargetCommand, TaskCommand
from motion_nodes.view.viewed_robot import ViewedRobot

STALE = 1.0
"""Age of the state above which a robot is displayed as lost [s]."""


class WatchedRobot:
    """Topics of one robot."""

    def __init__(
        self,
        node: MotionNode[Any],
        place: Placement,
        frames: TransformTree,
        jobs: ExecutorQueue,
        policies: Sequence[str] = (),
    ) -> None:
        """Create the endpoints in the robot's namespace.

        Args:
            node: the viewer.
            place: the robot.
            frames: transforms.
            jobs: queue of the executor.
            policies: names of robots that a policy controller moves.
        """
        self._node = node
        namespace = place.namespace
        robot = self.robot = load_description(place.robot)
        self.viewed = ViewedRobot.of(
            robot,
            namespace or robot.name,
            place.X_WR,
            followers=FOLLOWERS,
            edits_scene=True,
            tasks=True,
            navigates=True,
        )
        self.name = self.viewed.name
        by_policy = self.name in policies
        if by_policy:
            self.viewed = self.viewed.driven_by_policy()
        self._X_WO = place.X_WR
        self._X_WB: Array = place.X_WR
        self._namespace = namespace
        states = node.poll_bytes(JointState, under(namespace, "joint_states"), qos.STATES)
        self.state = JointStateReader(states, robot.joint_names, limits=robot.limits)
        self._command = node.advertise(
            JointState, under(namespace, f"{JOINT_CONTROLLER}/reference")
        )
        self._driving = False
        self._twist: Any = None
        self._odom: Any = None
        self.navigation: WatchedNavigation | None = None
        self.planning: WatchedPlanning | None = None
        self.target: WatchedTarget | None = None
        self.validity: WatchedValidity | None = None
        self.attachment: WatchedAttachment | None = None
        self._scaled: ScaledMotions | None = None
        self.suction: WatchedSuction | None = None
        self.task: WatchedTask | None = None
        if robot.kind == "arm":
            self.suction = WatchedSuction(node, self.name, namespace)
        if self.viewed.tasks:
            self.task = WatchedTask(node, self.name, namespace)
        group = next((g for g in robot.groups.values() if g.tip == self.viewed.tool), None)
        if group is not None and not by_policy:
            # The code of the robot's other nodes. Nothing may be compiled in the loop.
            kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
            kinematics.warm_up()
            own = RobotFrames(kinematics, frames, namespace)
            self.planning = WatchedPlanning(node, robot, self.name, namespace, kinematics, own)
            self.target = WatchedTarget(node, robot, group, self.name, namespace, own, jobs)
            validity = self.validity = WatchedValidity(node, robot, self.name, namespace, jobs)
            self.attachment = WatchedAttachment(robot, self.name, self.planning, validity)
            self._scaled = ScaledMotions(node, robot, namespace)
        if robot.base is not None:
            others = dict(each.rpartition("=")[::2] for each in node.params.base_controllers)
            controller = under(namespace, others.get(namespace) or base_controller(robot))
            self._twist = node.advertise(TwistStamped, f"{controller}/cmd_vel")
            self._odom = node.poll(Odometry, f"{controller}/odom")
            if self.viewed.navigates:
                odom = robot.description.frames.odom
                self.navigation = WatchedNavigation(
                    node, jobs, self.name, namespace, odom, self._X_WO
                )
        elif robot.kind == "floating":
            # The pose of a floating base is not measured; only a simulation provides it.
            self._odom = node.poll(Odometry, under(namespace, "ground_truth"))
            self._X_WO = np.eye(4)
        if by_policy:
            controller = under(namespace, POLICY_CONTROLLER)
            self._twist = node.advertise(TwistStamped, f"{controller}/cmd_vel")

    def show(self, viewer: BrowserViewer) -> None:
        """Update the page with the newest state."""
        if self.state.update():
            viewer.update_joints(self.name, self.state.position, self.state.velocity)
        message = self._odom.newest() if self._odom is not None else None
        if message is not None:
            p, r = message.pose.pose.position, message.pose.pose.orientation
            try:
                X_OB = from_xyz_quat((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))
            except ValueError as error:
                self._node.warn(f"{self.name}: odometry", f"{self.name}: odometry: {error}")
            else:
                self._X_WB = self._X_WO @ X_OB
                viewer.update_base(self.name, self._X_WB)
        q = np.where(np.isfinite(self.state.position), self.state.position, self.robot.home)
        if self.navigation is not None:
            self.navigation.show(viewer)
        if self.planning is not None:
            self.planning.show(viewer, q)
        if self.attachment is not None:
            self.attachment.show(viewer, self.state.position)
        if self.target is not None:
            self.target.show(viewer, q)
        if self.suction is not None:
            self.suction.show(viewer)
        if self.task is not None:
            self.task.show(viewer)

    def anchors(self) -> list[tuple[str, Array]]:
        """Return frames of /tf whose pose in the world is known, X_WF, the best one first."""
        root = (under(self._namespace, self.robot.tree.frame_names[0]), self._X_WB)
        if self.robot.base is None:
            return [root]
        return [(under(self._namespace, self.robot.description.frames.odom), self._X_WO), root]

    def destroy(self) -> None:
        """Destroy the endpoints."""
        for part in (self.navigation, self.planning, self.target, self.validity):
            if part is not None:
                part.destroy()

    def status(self) -> str:
        """Return a warning about missing joint states; empty for none."""
        fault = self.state.fault(STALE)
        return f"{fault}. Is its simulation or driver running?" if fault else ""

    def send_joint(self, viewer: BrowserViewer, joint: str, value: float) -> None:
        """Command the position of one joint [rad or m]."""
        self._send([joint], [value])
        # The other joints may still be moving to the positions of their sliders.
        self._check(viewer, viewer.joint_sliders(self.name) | {joint: value})

    def send_state(self, viewer: BrowserViewer, name: str) -> None:
        """Command the joints of a named state, with the scaling of the page."""
        chosen = {joint: float(value) for joint, value in self.robot.states[name].items()
                  if joint in self.robot.arm_joints}  # fmt: skip
        scaling = viewer.scaling
        if self._scaled is None or scaling.full:
            self._send(list(chosen), list(chosen.values()))
        else:
            q = self.state.position.tolist()
            current = dict(zip(self.robot.joint_names, q, strict=True))
            try:
                self._scaled.send(chosen, current, scaling)
            except InvalidCommand as error:
                viewer.notify(f"{self.name}: {name}", str(error))
                return
        self._check(viewer, chosen)

    def send_twist(self, _: BrowserViewer | None, vx: float, vy: float, wz: float) -> None:
        """Command a twist of the base [m/s, m/s, rad/s]."""
        if self._twist is None:
            return
        if self.navigation is not None:
            self.navigation.cancel()
        self._driving = (vx, vy, wz) != (0.0, 0.0, 0.0)
        message = TwistStamped()
        message.twist.linear.x, message.twist.linear.y, message.twist.angular.z = vx, vy, wz
        set_stamp(message, self._node.now_ns())
        self._twist.publish(message)

    def send_go(self, viewer: BrowserViewer, x: float, y: float, yaw: float) -> None:
        """Drive the base to a pose in the world [m, m, rad]."""
        if self.navigation is not None:
            self.navigation.send(viewer, x, y, yaw)

    def send_target(self, _: BrowserViewer, command: TargetCommand) -> None:
        """Command a target of the tool."""
        if self.target is not None:
            self.target.send(command)

    def send_plan(self, _: BrowserViewer, command: PlanCommand) -> None:
        """Command a goal of the planner."""
        if self.target is not None:
            self.target.plan(command)

    def send_object(self, viewer: BrowserViewer, name: str, item: WorldObject | None) -> None:
        """Add, move or remove (None) an object of the planning scene."""
        if self.planning is not None:
            self.planning.send_object(viewer, name, item)

    def send_attach(self, viewer: BrowserViewer, name: str, link: str) -> None:
        """Attach an object of the planning scene to a link; an empty link: detach it."""
        if self.attachment is not None:
            self.attachment.send(viewer, name, link, self.state.position)

    def send_scene(self, viewer: BrowserViewer, items: tuple[WorldObject, ...]) -> None:
        """Add objects to the planning scene."""
        if self.planning is not None:
            self.planning.send_scene(viewer, items)

    def send_recover(self, viewer: BrowserViewer) -> None:
        """Recover the arm from a collision."""
        if self.planning is not None:
            self.planning.send_recover(viewer)

    def send_suction(self, viewer: BrowserViewer, closing: bool) -> None:
        """Close or open the surface gripper."""
        if self.suction is not None:
            self.suction.send(viewer, closing)

    def send_task(self, viewer: BrowserViewer, command: TaskCommand) -> None:
        """Send a task, or cancel or confirm one."""
        if self.task is not None:
            self.task.send(viewer, command)

    def stop_base(self) -> None:
        """Stop the base if the page drives it."""
        if self._driving:
            self.send_twist(None, 0.0, 0.0, 0.0)

    def _check(self, viewer: BrowserViewer, positions: dict[str, float]) -> None:
        if self.validity is not None:
            self.validity.check(viewer, positions, self.state.position)

    def _send(self, names: list[str], values: list[float]) -> None:
        message = JointState(name=names, position=values)
        message.header.frame_id = self._node.get_name()
        set_stamp(message, self._node.now_ns())
        self._command.publish(message)

# SPDX-License-Identifier: Apache-2.0
"""Topics of one robot on the viewer's page, with its named states, surface gripper and task server.

Motions to named states have scaled velocities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.placement import Placement
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.trajectory.joint_trajectory import rest_to_rest_duration
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.extras.tasks.task_plan import TaskOrder, TaskProgress
from motion_nodes.extras.viewer.live_robot import LiveRobot
from motion_nodes.extras.viewer.ui_commands import MotionScaling, TaskCommand
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.nodes.viewer.viewer_goals import (
    FOLLOWERS,
    WatchedNavigation,
    WatchedTarget,
    on_page,
)
from motion_nodes.nodes.viewer.viewer_planning import (
    WatchedAttachment,
    WatchedPlanning,
    WatchedValidity,
)
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp
from motion_nodes.ros.messages.rotations import matrix_of
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.ros.names import (
    JOINT_CONTROLLER,
    POLICY_CONTROLLER,
    SURFACE_GRIPPER,
    TASK_SERVER,
    base_controller,
    under,
)
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.transforms import TransformTree
from motion_nodes.typing import Array

MIN_DURATION = 0.1
"""Min duration of a motion [s], for joints that are at the state already."""
STALE = 1.0
"""Age of the state above which a robot is displayed as lost [s]."""


def scaled_motion(
    robot: Robot, goal: Mapping[str, float], current: Mapping[str, float], scaling: MotionScaling
) -> JointTrajectory:
    """Return the trajectory from the controller's references to positions at rest.

    It has one point, before which the controller interpolates by a quintic. The duration is the
    shortest with which a motion from rest is within the scaled limits.

    Args:
        robot: with the limits.
        goal: by joint [rad or m].
        current: measured positions by joint [rad or m]; NaN: unknown.
        scaling: of the limits of velocity, and of those of acceleration and jerk.

    Raises:
        InvalidCommand: the position of a joint is unknown.
    """
    names = tuple(goal)
    positions = np.array([float(goal[name]) for name in names])
    start = np.array([float(current.get(name, np.nan)) for name in names])
    unknown = [name for name, q in zip(names, start, strict=True) if not np.isfinite(q)]
    if unknown:
        raise InvalidCommand(
            f"the position of {', '.join(unknown)} is not known: nothing moves.", field=unknown[0]
        )
    limits = robot.limits.select(names)
    duration = rest_to_rest_duration(
        limits.turns.distance(start, positions),
        scaling.velocity * limits.velocity,
        scaling.acceleration * limits.acceleration,
        scaling.acceleration * limits.jerk,
    )
    zeros = [0.0] * len(names)
    point = JointTrajectoryPoint(
        positions=positions.tolist(), velocities=zeros, accelerations=list(zeros)
    )
    fill_seconds(point.time_from_start, max(duration, MIN_DURATION))
    return JointTrajectory(joint_names=list(names), points=[point])


class WatchedSuction:
    """Status and service of a surface gripper, which the robot may not have."""

    def __init__(self, node: MotionNode[Any], namespace: str) -> None:
        """Create the endpoints.

        Args:
            node: the viewer.
            namespace: of the robot's topics.
        """
        self._statuses = node.poll(
            DiagnosticStatus, under(namespace, f"{SURFACE_GRIPPER}/status"), qos.STATUS
        )
        self._activate = node.create_client(
            SetBool, under(namespace, f"{SURFACE_GRIPPER}/activate"), qos_profile=qos.SERVICES
        )

    def show(self, page: LiveRobot) -> None:
        """Update the page."""
        message = self._statuses.newest()
        if message is not None:
            values = {item.key: item.value for item in message.values}
            page.set_suction(message.message, values.get("gripped objects", ""))

    def send(self, page: LiveRobot, closing: bool) -> None:
        """Close or open the gripper."""
        if not self._activate.service_is_ready():
            text = f"no service {self._activate.srv_name}: is the robot running?"
            page.set_suction(text, "")
            return
        self._activate.call_async(SetBool.Request(data=closing))


class WatchedTask:
    """Status, commands and services of a task server."""

    def __init__(self, node: MotionNode[Any], namespace: str) -> None:
        """Create the endpoints.

        Args:
            node: the viewer.
            namespace: of the robot's topics.
        """
        self._node = node
        server = self._server = under(namespace, TASK_SERVER)
        self._statuses = node.poll(String, f"{server}/status", qos.STATUS)
        self._commands = node.advertise(String, f"{server}/command", qos.COMMANDS)
        self._services = {
            verb: node.create_client(Trigger, f"{server}/{service}", qos_profile=qos.SERVICES)
            for verb, service in (("stop", "cancel"), ("confirm", "confirm"))
        }

    def show(self, page: LiveRobot) -> None:
        """Update the page."""
        message = self._statuses.newest()
        if message is None:
            return
        try:
            page.update_task(TaskProgress.of(on_page(message.data)))
        except MotionError as error:
            self._node.warn("task status", f"{page.viewed.name}: status of {self._server}: {error}")

    def send(self, page: LiveRobot, command: TaskCommand) -> None:
        """Send a task, or call the service of a button."""
        service = self._services.get(command.verb)
        there = self._commands.get_subscription_count() if service is None else (
            service.service_is_ready()
        )  # fmt: skip
        if not there:
            text = f"{self._server} is not running; start it by `motion up ROBOT --tasks`"
            page.set_task_message(text)
        elif service is not None:
            service.call_async(Trigger.Request())
        else:
            order = TaskOrder(command.task, plan_only=command.verb == "plan")
            self._commands.publish(String(data=order.as_text()))


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
            in_suite=True,
        )
        self.name = self.viewed.name
        by_policy = self.name in policies
        if by_policy:
            self.viewed = self.viewed.driven_by_policy()
        self.X_WO = place.X_WR
        """Pose of the frame of the odometry in the world, shape (4, 4)."""
        self._X_WB: Array = place.X_WR
        self._namespace = namespace
        states = node.poll_bytes(JointState, under(namespace, "joint_states"), qos.STATES)
        self.state = JointStateReader(states, robot.joint_names, limits=robot.limits)
        self._streams: list[PolledSubscription[Any]] = [states]
        self._command = node.advertise(
            JointState, under(namespace, f"{JOINT_CONTROLLER}/reference")
        )
        self._driving = False
        self._twist: Any = None
        self._odom: Any = None
        self._odometry = ""
        self.navigation: WatchedNavigation | None = None
        self.planning: WatchedPlanning | None = None
        self.target: WatchedTarget | None = None
        self.validity: WatchedValidity | None = None
        self.attachment: WatchedAttachment | None = None
        self._scaled: Any = None
        """Publisher of motions to joint positions, without avoiding obstacles."""
        self.suction: WatchedSuction | None = None
        self.task: WatchedTask | None = None
        if robot.kind == "arm":
            self.suction = WatchedSuction(node, namespace)
        if self.viewed.tasks:
            self.task = WatchedTask(node, namespace)
        group = next((g for g in robot.groups.values() if g.tip == self.viewed.tool), None)
        if group is not None and not by_policy:
            # The code of the robot's other nodes. Nothing may be compiled in the loop.
            own = RobotFrames.of_robot(robot, frames, namespace)
            frames.update()  # subscribes, for scenes and goals in other frames
            self.planning = WatchedPlanning(node, robot, namespace, own.kinematics, own)
            self.target = WatchedTarget(node, robot, group, namespace, own, jobs)
            validity = self.validity = WatchedValidity(node, robot, namespace, jobs)
            self.attachment = WatchedAttachment(robot, self.planning, validity)
            self._scaled = node.advertise(
                JointTrajectory,
                under(namespace, f"{JOINT_CONTROLLER}/joint_trajectory"),
                qos.REQUESTS,
            )
        if robot.base is not None:
            others = dict(each.rpartition("=")[::2] for each in node.params.base_controllers)
            controller = under(namespace, others.get(namespace) or base_controller(robot))
            self._twist = node.advertise(TwistStamped, f"{controller}/cmd_vel")
            self._odometry = f"{controller}/odom"
            self._odom = node.poll(Odometry, self._odometry)
            if self.viewed.navigates:
                odom = robot.description.frames.odom
                self.navigation = WatchedNavigation(node, jobs, namespace, odom, self.X_WO)
        elif robot.kind == "floating":
            # The pose of a floating base is not measured; only a simulation provides it.
            self._odometry = under(namespace, "ground_truth")
            self._odom = node.poll(Odometry, self._odometry)
            self.X_WO = np.eye(4)
        if self._odom is not None:
            self._streams.append(self._odom)
        if by_policy:
            controller = under(namespace, POLICY_CONTROLLER)
            self._twist = node.advertise(TwistStamped, f"{controller}/cmd_vel")

    def listen(self, *, wanted: bool) -> None:
        """Subscribe to the state of the robot, or unsubscribe."""
        for stream in self._streams:
            if wanted:
                stream.resume()
            else:
                stream.suspend()

    def show(self, page: LiveRobot) -> None:
        """Update the page with the newest state."""
        if self.state.update():
            page.update_joints(self.state.position, self.state.velocity)
        message = self._odom.newest() if self._odom is not None else None
        if message is not None:
            p, r = message.pose.pose.position, message.pose.pose.orientation
            try:
                X_OB = matrix_of((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))
            except ValueError as error:
                self._node.warn(f"{self.name}: odometry", f"{self.name}: odometry: {error}")
            else:
                self._X_WB = self.X_WO @ X_OB
                page.update_base(self._X_WB)
        q = np.where(np.isfinite(self.state.position), self.state.position, self.robot.home)
        if self.navigation is not None:
            self.navigation.show(page)
        if self.planning is not None:
            self.planning.show(page, q)
        if self.attachment is not None:
            self.attachment.show(page, self.state.position)
        if self.target is not None:
            self.target.show(page, q)
        if self.suction is not None:
            self.suction.show(page)
        if self.task is not None:
            self.task.show(page)

    def anchors(self) -> list[tuple[str, Array]]:
        """Return frames of /tf whose pose in the world is known, X_WF, the best one first."""
        root = (under(self._namespace, self.robot.tree.frame_names[0]), self._X_WB)
        if self.robot.base is None:
            return [root]
        return [(under(self._namespace, self.robot.description.frames.odom), self.X_WO), root]

    def recorded_topics(self) -> tuple[str, str]:
        """Return the topics of joint states and of odometry (empty: none)."""
        named = self._node.resolve_topic_name
        odometry = named(self._odometry) if self._odometry else ""
        return named(under(self._namespace, "joint_states")), odometry

    def destroy(self) -> None:
        """Destroy the endpoints."""
        for part in (self.navigation, self.planning, self.target, self.validity):
            if part is not None:
                part.destroy()

    def status(self) -> str:
        """Return a warning about missing joint states; empty for none."""
        fault = self.state.fault(STALE)
        return f"{fault}. Is its simulation or driver running?" if fault else ""

    def send_joint(self, page: LiveRobot, joint: str, value: float) -> None:
        """Command the position of one joint [rad or m]."""
        self._send([joint], [value])
        # The other joints may still be moving to the positions of their sliders.
        self._check(page, page.joint_sliders | {joint: value})

    def send_state(self, page: LiveRobot, name: str) -> None:
        """Command the joints of a named state, with the scaling of the page."""
        chosen = {joint: float(value) for joint, value in self.robot.states[name].items()
                  if joint in self.robot.arm_joints}  # fmt: skip
        scaling = page.scaling
        if self._scaled is None or scaling.full:
            self._send(list(chosen), list(chosen.values()))
        else:
            q = self.state.position.tolist()
            current = dict(zip(self.robot.joint_names, q, strict=True))
            try:
                self._scaled.publish(scaled_motion(self.robot, chosen, current, scaling))
            except InvalidCommand as error:
                page.notify(name, str(error))
                return
        self._check(page, chosen)

    def send_twist(self, _: LiveRobot | None, vx: float, vy: float, wz: float) -> None:
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

    def stop_base(self) -> None:
        """Stop the base if the page drives it."""
        if self._driving:
            self.send_twist(None, 0.0, 0.0, 0.0)

    def _check(self, page: LiveRobot, positions: dict[str, float]) -> None:
        if self.validity is not None:
            self.validity.check(page, positions, self.state.position)

    def _send(self, names: list[str], values: list[float]) -> None:
        message = JointState(name=names, position=values)
        message.header.frame_id = self._node.get_name()
        set_stamp(message, self._node.now_ns())
        self._command.publish(message)

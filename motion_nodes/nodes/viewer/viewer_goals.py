# SPDX-License-Identifier: Apache-2.0
"""Goals on the viewer's page: the target of an arm, and clicks on the floor."""

from __future__ import annotations

from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import Constraints, RobotState
from nav2_msgs.action import NavigateToPose
from std_srvs.srv import Trigger

from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.errors import MotionError
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.extras.viewer.live_robot import LiveRobot
from motion_nodes.extras.viewer.ui_commands import PlanCommand, PlannerOptions, TargetCommand
from motion_nodes.extras.viewer.viewed_robot import IK, PLANNER, RMPFLOW
from motion_nodes.nodes.task.remote_work import RemoteAction, Work, require_success
from motion_nodes.ros.clients.move_client import MoveClient, joint_constraints, pose_constraints
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.moveit_messages import pose_message, pose_of
from motion_nodes.ros.messages.planar_messages import pose2_of, stamped_pose
from motion_nodes.ros.names import under
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.stop_latch import HOW_TO_RESUME
from motion_nodes.typing import Array

FOLLOWERS = (RMPFLOW, IK, PLANNER)
TOPICS = {RMPFLOW: "rmpflow_policy/reference", IK: "ik_service/target_pose"}
NODES = {RMPFLOW: "rmpflow_policy", IK: "ik_service"}
STATUS = {RMPFLOW: "rmpflow_policy/status", IK: "ik_service/status"}
KEPT_WITHIN = 0.1
"""Tolerance of an orientation that is kept on the way [rad]."""
CLEAR = "rmpflow_policy/clear_target"


def on_page(text: str) -> str:
    """Return a status without the commands that end a stop: the page has a button for it."""
    return text.replace(f"; {HOW_TO_RESUME}", "")


class WatchedTarget:
    """Topics and action that move one arm to a target."""

    def __init__(
        self,
        node: MotionNode[Any],
        robot: Robot,
        group: Group,
        namespace: str,
        frames: RobotFrames,
        jobs: ExecutorQueue,
    ) -> None:
        self._node, self._robot, self._group = node, robot, group
        self._frames = frames
        self._topics = {
            follower: node.advertise(PoseStamped, under(namespace, topic))
            for follower, topic in TOPICS.items()
        }
        self._targets = node.poll(PoseStamped, under(namespace, TOPICS[RMPFLOW]))
        self._status = {
            follower: node.poll(DiagnosticStatus, under(namespace, topic))
            for follower, topic in STATUS.items()
        }
        self._clear = node.create_client(Trigger, under(namespace, CLEAR))
        self._planner = MoveClient(node, jobs, under(namespace, "move_action"))
        self._texts = dict.fromkeys(FOLLOWERS, "")
        self._notified = ""
        self._q = robot.home

    def show(self, page: LiveRobot, q: Array) -> None:
        """Update the page: targets of any client, and the status of the followers.

        Args:
            page: the robot on the page.
            q: positions of all joints [rad or m], shape (n,).
        """
        self._q = q
        message = self._targets.newest()
        if message is not None:
            try:
                X_FT, _ = pose_of(message.pose, "the target")
                X_BF = self._frames.pose(message.header.frame_id, q)
                page.update_target(X_BF @ X_FT)
            except MotionError as error:
                topic = f"{page.viewed.name}: target"
                self._node.warn(topic, f"{topic}: {error}")
        for follower, subscription in self._status.items():
            status = subscription.newest()
            if status is not None:
                self._texts[follower] = on_page(status.message)
        self._texts[PLANNER] = on_page(self._planner.words)
        page.set_plan_message(self._texts[PLANNER])
        if self._planner.failure != self._notified:
            self._notified = self._planner.failure
            if self._notified:
                page.notify("planner", on_page(self._notified))
        for follower, text in self._texts.items():
            page.set_target_message(text, follower)

    def send(self, _: LiveRobot, command: TargetCommand) -> None:
        """Send a target to the follower that it selects, or stop."""
        if command.verb == "stop":
            self.stop()
            return
        publisher = self._topics[command.follower]
        if not publisher.get_subscription_count():
            self._texts[command.follower] = (
                f"no subscriber of {publisher.topic_name}: is {NODES[command.follower]} running?"
            )
            return
        self._texts[command.follower] = ""
        message = PoseStamped(pose=pose_message(command.X_BT))
        message.header.frame_id = self._robot.base_frame
        set_stamp(message, self._node.now_ns())
        publisher.publish(message)

    def stop(self) -> None:
        """Stop the motion to a goal or target, whichever controller is selected by now."""
        self._planner.stop()
        if self._clear.service_is_ready():
            self._clear.call_async(Trigger.Request())

    def destroy(self) -> None:
        """Destroy the clients."""
        self._node.destroy_client(self._clear)
        self._planner.destroy()

    def plan(self, page: LiveRobot, command: PlanCommand) -> None:
        """Plan or execute with the options of the page, or stop."""
        if command.verb == "stop":
            self.stop()
            return
        self._planner.move(
            self._group.name,
            self._constraints(command),
            plan_only=command.verb == "plan",
            max_velocity_scaling_factor=command.scaling.velocity,
            max_acceleration_scaling_factor=command.scaling.acceleration,
            **self._fields(page.planner_options),
        )

    def _fields(self, options: PlannerOptions) -> dict[str, Any]:
        """Return the fields of a request with the options."""
        fields: dict[str, Any] = {
            "planner_id": options.planner,
            "num_planning_attempts": options.attempts,
            "allowed_planning_time": options.time,
        }
        if options.start:
            start = RobotState(is_diff=True)
            state = self._robot.states[options.start]
            start.joint_state.name = list(state)
            start.joint_state.position = [float(x) for x in state.values()]
            fields["start_state"] = start
        if options.keep_orientation and self._group.tip is not None:
            tip, base = self._group.tip, self._robot.base_frame
            kept = pose_constraints(
                tip, base, self._frames.pose(tip, self._q), orientation=KEPT_WITHIN
            )
            kept.position_constraints = []
            fields["path_constraints"] = kept
        return fields

    def _constraints(self, command: PlanCommand) -> Constraints:
        if command.X_BT is not None:
            assert self._group.tip is not None
            return pose_constraints(self._group.tip, self._robot.base_frame, command.X_BT)
        given = command.joints or self._robot.states[command.state]
        return joint_constraints(
            {name: float(given[name]) for name in self._group.joints if name in given}
        )


class WatchedNavigation:
    """Client of a base navigator; a new goal replaces the previous one."""

    def __init__(
        self, node: MotionNode[Any], jobs: ExecutorQueue, namespace: str, odom: str, X_WO: Array
    ) -> None:
        """Create the client.

        Args:
            node: the viewer.
            jobs: queue of its executor.
            namespace: of the robot's topics.
            odom: its odometry frame, without the namespace.
            X_WO: pose of that frame in the world, shape (4, 4).
        """
        self._frame = under(namespace, odom)
        self._X_OW = inverse(np.asarray(X_WO))
        action = under(namespace, "navigate_to_pose")
        self._action = RemoteAction(node, jobs, NavigateToPose, action)
        self._work: Work | None = None

    def send(self, page: LiveRobot, x: float, y: float, yaw: float) -> None:
        """Drive to a pose in the world [m, m, rad]."""
        # Otherwise the base would follow the previous goal on if the navigator refuses this one.
        self.cancel()
        goal = pose2_of(self._X_OW).compose(Pose2(x, y, yaw))
        self._work = self._drive(NavigateToPose.Goal(pose=stamped_pose(goal, self._frame, 0)))
        page.set_drive_message(f"driving to {x:.2f}, {y:.2f} m", driving=True)

    def cancel(self) -> None:
        """Cancel the active goal, if any."""
        if self._work is not None:
            self._action.cancel()

    def show(self, page: LiveRobot) -> None:
        """Advance the goal, and show its result."""
        if self._work is None:
            return
        try:
            next(self._work)
            return
        except StopIteration:
            text = "arrived"
        except SkillFailed as failure:
            text = on_page(str(failure))
        self._work = None
        page.set_drive_message(text)

    def destroy(self) -> None:
        """Destroy the client."""
        self._action.destroy()

    def _drive(self, goal: NavigateToPose.Goal) -> Work:
        require_success((yield from self._action.execute(goal)), "goal not reached")

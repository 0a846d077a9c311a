# SPDX-License-Identifier: Apache-2.0
"""Work of a suite during a fault: trajectory, planned motion, grip, following, driving."""

import random
import time
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory, GripperCommand
from geometry_msgs.msg import PoseStamped, TwistStamped
from joint_client import smooth
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import Constraints, JointConstraint
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionClient
from ros_client import RosClient
from std_srvs.srv import Trigger

from motion_nodes.core.robot.robot import Robot

SERVER = 10.0
"""[s] Timeout of an action server to appear."""


class Work:
    """A task of robots, ended by :meth:`end`."""

    server = ""
    """Node that reports the result; empty where there is none."""

    def __init__(self, client: RosClient, robots: dict[str, Robot], rng: random.Random) -> None:
        """Prepare it.

        Args:
            client: node of the test.
            robots: by namespace.
            rng: source of the goals.
        """
        self.client, self.rng = client, rng
        self._robots = robots

    def begin(self) -> bool:
        """Begin; False without a response."""
        return True

    def tick(self) -> None:
        """Send the messages that are due."""

    def end(self) -> None:
        """Stop sending; a goal under way ends by itself."""

    @property
    def outcome(self) -> str | None:
        """The result as text; None before. Streams have no result."""
        return "no goal"

    @property
    def succeeded(self) -> bool:
        """Whether the result is a success."""
        return False

    def robot(self, kind: str) -> tuple[str, Robot]:
        """Return namespace and model of the first arm or base."""
        return next(
            (space, robot) for space, robot in self._robots.items()
            if (robot.base is None) == (kind == "arm")
        )  # fmt: skip


class Idle(Work):
    """Nothing is commanded."""


class GoalWork(Work):
    """A goal of an action."""

    def goal(self) -> tuple[type[Any], str, Any]:
        """Return type of the action, its name, and the goal."""
        raise NotImplementedError

    def begin(self) -> bool:
        """Send the goal; False without a response of a server."""
        kind, name, goal = self.goal()
        self._sent = self._answer = None
        client = _client(self.client, kind, name)
        end = time.monotonic() + SERVER
        while not client.server_is_ready() and time.monotonic() < end:
            self.client.spin(0.02)
        if not client.server_is_ready():
            return False
        self.began = time.monotonic()
        self._sent = client.send_goal_async(goal)
        return True

    @property
    def outcome(self) -> str | None:
        """The result as text."""
        if self._sent is None or not self._sent.done():
            return None
        handle = self._sent.result()
        if handle is None or not handle.accepted:
            return "rejected"
        if self._answer is None:
            self._answer = handle.get_result_async()
        if not self._answer.done():
            return None
        wrapped = self._answer.result()
        result = wrapped.result
        error = getattr(result, "error_code", "")
        text = getattr(result, "error_string", "") or getattr(result, "error_msg", "")
        text = text or getattr(error, "message", "")
        return f"status {wrapped.status}: {getattr(error, 'val', error)} {text}"

    @property
    def succeeded(self) -> bool:
        """Whether the result is a success."""
        return self.outcome is not None and self.outcome.startswith(
            f"status {GoalStatus.STATUS_SUCCEEDED}:"
        )


class Trajectory(GoalWork):
    """A trajectory of the arm to a random configuration near home."""

    server = "joint_trajectory_controller"
    spread, seconds = 0.4, (1.5, 3.0)

    def goal(self) -> tuple[type[Any], str, Any]:
        """Return it."""
        space, robot = self.robot("arm")
        home = dict(zip(robot.joint_names, robot.home.tolist(), strict=True))
        goal = {
            name: home[name] + self.rng.uniform(-self.spread, self.spread)
            for name in robot.groups["arm"].joints
        }
        message = FollowJointTrajectory.Goal(
            trajectory=smooth(goal, self.rng.uniform(*self.seconds))
        )
        return FollowJointTrajectory, f"/{space}/{ARM_CONTROLLER}/follow_joint_trajectory", message


class ShortTrajectory(Trajectory):
    """A short trajectory, to check that the arm follows."""

    seconds = (1.0, 1.0)
    spread = 0.2


class Plan(GoalWork):
    """A planned and executed motion of the arm."""

    server = "move_group"

    def goal(self) -> tuple[type[Any], str, Any]:
        """Return it."""
        space, robot = self.robot("arm")
        home = dict(zip(robot.joint_names, robot.home.tolist(), strict=True))
        message = MoveGroup.Goal()
        message.request.allowed_planning_time = 2.0
        goal = Constraints()
        for name in robot.groups["arm"].joints:
            goal.joint_constraints.append(JointConstraint(
                joint_name=name, position=home[name] + self.rng.uniform(-0.4, 0.4),
                tolerance_above=0.01, tolerance_below=0.01, weight=1.0))  # fmt: skip
        message.request.goal_constraints.append(goal)
        return MoveGroup, f"/{space}/move_action", message


class Grip(GoalWork):
    """The gripper opens or closes."""

    server = "joint_trajectory_controller"

    def goal(self) -> tuple[type[Any], str, Any]:
        """Return it."""
        space, _ = self.robot("arm")
        message = GripperCommand.Goal()
        message.command.position = self.rng.choice((0.0, 0.01, 0.02, 0.04))
        message.command.max_effort = self.rng.choice((0.0, 10.0, 40.0))
        return GripperCommand, f"/{space}/gripper_action_controller/gripper_cmd", message


class Navigate(GoalWork):
    """The base drives to a pose nearby."""

    server = "base_navigator"

    def goal(self) -> tuple[type[Any], str, Any]:
        """Return it."""
        space, robot = self.robot("base")
        message = NavigateToPose.Goal()
        message.pose.header.frame_id = f"{space}/{robot.base_frame}"
        message.pose.pose.position.x = self.rng.uniform(0.05, 0.3)
        message.pose.pose.orientation.w = 1.0
        return NavigateToPose, f"/{space}/navigate_to_pose", message


class Stream(Work):
    """Messages at a rate."""

    period = 0.05

    def stream(self) -> tuple[type[Any], str, Callable[[], Any]]:
        """Return type and name of the topic, and a function that makes a message."""
        raise NotImplementedError

    def begin(self) -> bool:
        """Create the publisher."""
        kind, topic, self._make = self.stream()
        self._publisher = _publisher(self.client, kind, topic)
        self._due = time.monotonic()
        self._on = True
        return True

    def tick(self) -> None:
        """Send the messages that are due."""
        if self._on and time.monotonic() >= self._due:
            self._due = time.monotonic() + self.period
            self._publisher.publish(self._make())

    def end(self) -> None:
        """Stop sending."""
        self._on = False


class Follow(Stream):
    """The tool follows a moving target."""

    def stream(self) -> tuple[type[Any], str, Callable[[], Any]]:
        """Return it."""
        space, _ = self.robot("arm")
        target = PoseStamped()
        p = target.pose.position
        p.x, p.y, p.z = (self.rng.uniform(*b) for b in ((0.35, 0.55), (-0.25, 0.25), (0.3, 0.55)))
        target.pose.orientation.x, target.pose.orientation.w = 1.0, 0.0
        speed = self.rng.uniform(-0.1, 0.1)

        def moved() -> PoseStamped:
            p.y = max(-0.3, min(0.3, p.y + speed * self.period))
            return target

        return PoseStamped, f"/{space}/rmpflow_policy/reference", moved

    def end(self) -> None:
        """Stop sending, and bring the arm to rest."""
        super().end()
        space, _ = self.robot("arm")
        name = f"/{space}/rmpflow_policy/clear_target"
        client = _kept(self.client, name, lambda: self.client.node.create_client(Trigger, name))
        client.call_async(Trigger.Request())


class Drive(Stream):
    """The base drives by a stream of twists."""

    def stream(self) -> tuple[type[Any], str, Callable[[], Any]]:
        """Return it."""
        space, _ = self.robot("base")
        message = TwistStamped()
        message.twist.linear.x = self.rng.uniform(-0.3, 0.3)
        message.twist.angular.z = self.rng.uniform(-1.0, 1.0)
        return TwistStamped, f"/{space}/diff_drive_controller/cmd_vel", lambda: message


ARM_CONTROLLER = "joint_trajectory_controller"

PHASES: dict[str, tuple[type[Work], ...]] = {
    "idle": (Idle,),
    "trajectory": (Trajectory,),
    "planning": (Plan,),
    "grip": (Grip,),
    "following": (Follow,),
    "driving": (Drive, Navigate),
}


def _kept(client: RosClient, key: str, make: Callable[[], Any]) -> Any:
    """Return an object that a node has once per key, made at the first call."""
    kept = client.__dict__.setdefault("kept_endpoints", {})
    if key not in kept:
        kept[key] = make()
    return kept[key]


def _client(client: RosClient, kind: type[Any], name: str) -> Any:
    return _kept(client, name, lambda: ActionClient(client.node, kind, name))


def _publisher(client: RosClient, kind: type[Any], topic: str) -> Any:
    def make() -> Any:
        publisher = client.node.create_publisher(kind, topic, 10)
        client.spin(0.5)
        return publisher

    return _kept(client, topic, make)

# SPDX-License-Identifier: Apache-2.0
"""A client of the joint trajectory controller: its topics and actions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance, JointTrajectoryControllerState
from patience import LIMIT
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_client import RosClient, values_of
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.robot.loader import load_robot

CONTROLLER = "/joint_trajectory_controller"
FRANKA = load_robot("franka")
HOME = dict(zip(FRANKA.joint_names, FRANKA.home.tolist(), strict=True))
ARM = [name for name in FRANKA.joint_names if "finger" not in name]
FINGERS = [name for name in FRANKA.joint_names if "finger" in name]
Codes = FollowJointTrajectory.Result

SUCCEEDED = GoalStatus.STATUS_SUCCEEDED
ABORTED = GoalStatus.STATUS_ABORTED
CANCELED = GoalStatus.STATUS_CANCELED

MANY = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
"""Quality of service of an action client with many goals at once, or much feedback."""
EVERY = QoSProfile(depth=300, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Keeps the states and commands of a second, in which this process may pause."""


def duration(seconds: float) -> Duration:
    """Return a duration [s], which may be negative."""
    whole = int(np.floor(seconds))
    return Duration(sec=whole, nanosec=round((seconds - whole) * 1e9))


def trajectory(
    names: Sequence[str],
    rows: Sequence[Sequence[float]],
    times: Sequence[float],
    velocities: Sequence[Sequence[float]] | None = None,
    accelerations: Sequence[Sequence[float]] | None = None,
    stamp: float = 0.0,
) -> JointTrajectory:
    """Return a trajectory message."""
    message = JointTrajectory(joint_names=list(names))
    for i, (row, time) in enumerate(zip(rows, times, strict=True)):
        point = JointTrajectoryPoint(positions=list(row), time_from_start=duration(time))
        if velocities is not None:
            point.velocities = list(velocities[i])
        if accelerations is not None:
            point.accelerations = list(accelerations[i])
        message.points.append(point)
    time = duration(stamp)
    message.header.stamp.sec, message.header.stamp.nanosec = time.sec, time.nanosec
    return message


def smooth(goal: Mapping[str, float], seconds: float, **more: Any) -> JointTrajectory:
    """Return a cubic trajectory of joints from their present positions to a goal."""
    return trajectory(list(goal), [list(goal.values())], [seconds], [[0.0] * len(goal)], **more)


def tolerances(
    names: Sequence[str], position: float = 0.0, velocity: float = 0.0
) -> list[JointTolerance]:
    """Return the same tolerance for some joints."""
    return [JointTolerance(name=name, position=position, velocity=velocity) for name in names]


@dataclasses.dataclass
class Call:
    """One goal of an action."""

    client: RosClient
    sent: Any
    feedback: list[Any]
    handle: Any = None
    answer: Any = None

    def accepted(self) -> bool:
        """Wait for the response to the goal; return whether it is accepted."""
        self.client.wait(self.sent.done, "the goal to be accepted or rejected")
        self.handle = self.sent.result()
        if self.handle.accepted and self.answer is None:
            self.answer = self.handle.get_result_async()
        return bool(self.handle.accepted)

    @property
    def done(self) -> bool:
        """Whether the result has arrived."""
        return self.answer is not None and bool(self.answer.done())

    def result(self, within: float = LIMIT) -> tuple[int, Any]:
        """Wait for status and result."""
        assert self.accepted()
        self.client.wait(self.answer.done, "the goal's result", within)
        wrapped = self.answer.result()
        return wrapped.status, wrapped.result

    def cancel(self) -> bool:
        """Request a cancellation; return whether it was accepted."""
        future = self.handle.cancel_goal_async()
        self.client.wait(future.done, "the answer to the cancel request")
        return bool(future.result().goals_canceling)


class JointClient:
    """A client of one robot's controller; by default, of a Franka's."""

    def __init__(
        self, client: RosClient, controller: str = CONTROLLER, namespace: str = ""
    ) -> None:
        self.client = client
        self.controller = f"{namespace}{controller}"
        self.states = client.listen(JointState, f"{namespace}/joint_states", EVERY)
        self.commands = client.listen(JointState, f"{namespace}/joint_command", EVERY)
        self.reports = client.listen(
            JointTrajectoryControllerState, f"{self.controller}/controller_state"
        )
        self._actions: dict[str, Any] = {}
        self._publishers: dict[str, Any] = {}

    def close(self) -> None:
        """Destroy the action clients."""
        for action in self._actions.values():
            action.destroy()

    def wait_for(self, diagnosis: str = "holding") -> None:
        """Wait until the controller commands the robot."""
        self.client.wait_for_diagnosis(self.controller, diagnosis)
        # Actions are served when all nodes of its process have started.
        self.client.state(self.controller)
        self.clear()
        self.client.wait(lambda: self.states and self.reports, "the robot's state")

    @property
    def joints(self) -> dict[str, float]:
        """Measured positions, by joint [rad or m]."""
        message = self.states.newest
        return dict(zip(message.name, message.position, strict=True))

    @property
    def now(self) -> float:
        """Time of the newest state [s]."""
        stamp = self.states.newest.header.stamp
        return float(stamp.sec + 1e-9 * stamp.nanosec)

    def speed(self, joints: Sequence[str] | None = None) -> float:
        """Return the max measured speed of joints [rad/s or m/s]."""
        message = self.states.newest
        pairs = zip(message.name, message.velocity, strict=True)
        return max(abs(v) for name, v in pairs if joints is None or name in joints)

    def away(self, goal: Mapping[str, float]) -> float:
        """Return the max distance of measured joints from a goal [rad or m]."""
        joints = self.joints
        return max(abs(joints[name] - value) for name, value in goal.items())

    def arrives(self, goal: Mapping[str, float], within: float = 0.01) -> None:
        """Wait until measured joints are at a goal, which may be later than the result."""
        self.client.wait(lambda: self.away(goal) < within, f"the joints within {within} of {goal}")

    def reference(self) -> dict[str, float]:
        """Return the next reference that the controller reports, by joint."""
        self.reports.clear()
        self.client.wait(lambda: len(self.reports) > 1, "the controller's reports")
        message = self.reports.newest
        return dict(zip(message.joint_names, message.reference.positions, strict=True))

    def clear(self) -> None:
        """Discard received messages."""
        for heard in (self.states, self.commands, self.reports):
            heard.clear()

    def rest(self, below: float = 1e-3) -> dict[str, float]:
        """Wait until all joints are at rest; return their positions."""
        self.clear()
        self.client.wait(
            lambda: (
                len(self.states) > 2
                and len(self.reports) > 2
                and self.speed() < below
                and max(map(abs, np.nan_to_num(self.reports.newest.reference.velocities))) < 1e-9
            ),
            "the joints to rest",
        )
        self.client.spin(0.1)  # the simulation follows its references with a latency
        return self.joints

    def moving(self, above: float = 0.05, joints: Sequence[str] | None = None) -> None:
        """Wait until a joint moves."""
        self.clear()
        self.client.wait(lambda: self.states and self.speed(joints) > above, "motion")

    def action(self, kind: Any = FollowJointTrajectory, name: str | None = None) -> Any:
        """Return an action client that is connected to its server."""
        full = name or f"{self.controller}/follow_joint_trajectory"
        if full not in self._actions:
            # Many goals at once have many responses at once.
            self._actions[full] = ActionClient(
                self.client.node,
                kind,
                full,
                goal_service_qos_profile=MANY,
                result_service_qos_profile=MANY,
                feedback_sub_qos_profile=MANY,
            )
        action = self._actions[full]
        self.client.wait(action.server_is_ready, f"the action {full}")
        return action

    def send(self, goal: Any, kind: Any = FollowJointTrajectory, name: str | None = None) -> Call:
        """Send a goal of any action."""
        feedback: list[Any] = []
        action = self.action(kind, name)
        return Call(self.client, action.send_goal_async(goal, feedback.append), feedback)

    def follow(self, message: JointTrajectory, **options: Any) -> Call:
        """Send a trajectory as a goal."""
        return self.send(FollowJointTrajectory.Goal(trajectory=message, **options))

    def go_home(self) -> None:
        """Move to the home state at a moderate speed."""
        # After a start or a contact, the reference is the measured position.
        both = self.reference(), self.joints
        arm = max(abs(joints[name] - HOME[name]) for name in ARM for joints in both)
        fingers = max(abs(joints[name] - HOME[name]) for name in FINGERS for joints in both)
        status, result = self.follow(smooth(HOME, max(0.2, arm, 32.0 * fingers))).result()
        assert status == SUCCEEDED, f"{result.error_string}; measured: {self.joints}"

    def rest_at_home(self) -> None:
        """Move to the home state if necessary, and wait for rest."""
        if self.away(HOME) > 1e-6:
            self.go_home()
        self.rest(1e-6)

    def publisher(self, kind: Any, topic: str) -> Any:
        """Return a publisher to one of the controller's topics."""
        if topic not in self._publishers:
            self._publishers[topic] = self.client.publisher(kind, f"{self.controller}/{topic}")
        return self._publishers[topic]

    def last_warning(self) -> str:
        """Return the newest warning in the diagnostics."""
        status = self.client.diagnostics(self.controller)
        return "" if status is None else values_of(status).get("last warning", "")

    def wait_for_warning(self, text: str) -> None:
        """Wait until the diagnostics show a warning."""
        try:
            self.client.wait(lambda: text in self.last_warning(), f"the warning '{text}'")
        except AssertionError as error:
            raise AssertionError(f"{error}; the last is '{self.last_warning()}'") from None

    def pause(self, simulation: str, paused: bool) -> None:
        """Pause or continue simulated time."""
        answer = self.client.call(SetBool, f"{simulation}/pause", SetBool.Request(data=paused))
        assert answer.success, answer.message

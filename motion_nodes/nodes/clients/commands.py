# SPDX-License-Identifier: Apache-2.0
"""Clients of ``motion go``, ``task``, ``recover``, ``record``, ``stop`` and ``resume``.

Each sends its goal, task or request to a running suite and waits for the result; ``record`` writes
topics to a file, ``stop`` and ``resume`` take part in the latched stop for a moment.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import Constraints
from nav2_msgs.action import NavigateToPose
from rclpy.action import get_action_names_and_types
from rclpy.duration import Duration
from rclpy.exceptions import InvalidTopicNameException
from rclpy.logging import LoggingSeverity
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.tasks.task_plan import TaskOrder
from motion_nodes.ros import qos, signals
from motion_nodes.ros.clients.client_node import action_client, client_node
from motion_nodes.ros.clients.move_client import TOLERANCE, joint_constraints, pose_constraints
from motion_nodes.ros.clients.task_client import TaskClient, TaskNotDone
from motion_nodes.ros.messages.planar_messages import stamped_pose
from motion_nodes.ros.names import PLANNER, STOP_STATE_TOPIC
from motion_nodes.ros.recording import Recorder, message_type, read_mcap, recording_file
from motion_nodes.ros.stop_latch import (
    AT_REST,
    INACTIVE,
    MOTION,
    RESUMED,
    SECONDS,
    STOPPED,
    StopLatch,
)
from motion_nodes.typing import Array

JOINT_TOLERANCE = 1e-4
"""Tolerance of joint goals [rad or m]."""
NOTICE_AFTER = 2.0
"""Waiting time after which the user is informed [s]."""
RETRY_DELAY = 0.3
"""Delay before a goal is sent again to a server that is not active yet [s]."""
LOST_AFTER = 5.0
"""Period of checks whether the server still exists [s]."""
CANCEL_TIMEOUT = 5.0
"""Timeout of a cancellation [s]."""
RECOVERY_TIMEOUT = 120.0
"""Max duration of a recovery, which is slow [s]."""
KINDS = {"moveit_msgs/action/MoveGroup": "arm", "nav2_msgs/action/NavigateToPose": "base"}
"""What the actions of a robot move."""
_RECORD_PERIOD = 0.02
"""Period in which messages are recorded [s]."""
_DISCOVERY_PERIOD = 0.25
"""Period of the search for new topics [s]."""
_MAX_PAUSE = 1e6
"""Longest pause of a recording that is played [s]."""
_SUBSCRIBERS_TIME = 1.0
"""Time in which subscriptions discover the publishers of a recording [s]."""
_FIRST_MESSAGE_TIMEOUT = 10.0
"""Time without a message after which the recording time starts [s]."""
Report = Callable[[str], None]
"""Receives lines for the user."""
DISCOVERY_TIME = 1.0
"""Time in which running nodes are discovered [s]."""
POLL_PERIOD = 0.02
"""Period of polling [s]."""


@dataclass(frozen=True)
class GoalRequest:
    """A goal and its action."""

    kind: Any
    """Type of the action."""
    action: str
    """Full name of the action."""
    goal: Any
    """Goal message."""


def arm_to_joints(prefix: str, group: str, joints: Mapping[str, float]) -> GoalRequest:
    """Return a goal of joint positions.

    Args:
        prefix: namespace of the action, empty or beginning with a slash.
        group: planning group.
        joints: positions by name [rad or m].
    """
    return _move(prefix, group, joint_constraints(joints, JOINT_TOLERANCE))


def arm_to_pose(
    prefix: str, group: str, link: str, frame: str, X_FL: Array, *, oriented: bool
) -> GoalRequest:
    """Return a goal of a link's pose.

    Args:
        prefix: namespace of the action, empty or beginning with a slash.
        group: planning group.
        link: to move.
        frame: reference frame of the pose.
        X_FL: target, shape (4, 4).
        oriented: whether to include the orientation.
    """
    orientation = TOLERANCE if oriented else None
    return _move(prefix, group, pose_constraints(link, frame, X_FL, orientation=orientation))


def base_to_pose(prefix: str, frame: str, pose: Pose2) -> GoalRequest:
    """Return a goal of a base's pose in a frame; see :func:`arm_to_pose`."""
    goal = NavigateToPose.Goal(pose=stamped_pose(pose, frame, 0))
    return GoalRequest(NavigateToPose, f"{prefix}/navigate_to_pose", goal)


def _move(prefix: str, group: str, constraints: Constraints) -> GoalRequest:
    goal = MoveGroup.Goal()
    goal.request.group_name = group
    goal.request.goal_constraints = [constraints]
    goal.request.allowed_planning_time = 10.0
    goal.planning_options.planning_scene_diff.is_diff = True
    goal.planning_options.planning_scene_diff.robot_state.is_diff = True
    return GoalRequest(MoveGroup, f"{prefix}/move_action", goal)


def execute(request: GoalRequest, timeout: float, report: Callable[[str], None]) -> str:
    """Execute a goal; Ctrl-C cancels it.

    Args:
        request: the goal.
        timeout: of its acceptance [s].
        report: receives lines about the progress.

    Returns:
        Why it failed; empty on success.
    """
    with client_node("motion_go") as node:
        client = _Client(node, request, report)
        handle = client.accepted_goal(time.monotonic() + timeout)
        return handle if isinstance(handle, str) else client.result_of(handle)


def running_robots(node: Node, timeout: float = 1.0) -> str:
    """Return which robots run in this ROS domain, as text.

    Args:
        node: asks for their descriptions.
        timeout: max time to wait for them [s].
    """
    found = {
        (action.rpartition("/")[0], KINDS[types[0]])
        for action, types in get_action_names_and_types(node)
        # Only servers publish it: the list contains clients, too.
        if types and types[0] in KINDS and node.count_publishers(f"{action}/_action/status")
    }
    names: dict[str, str] = {}

    def told(space: str, message: String) -> None:
        match = re.search(r'<robot[^>]*\sname="([^"]+)"', message.data[:5000])
        names[space] = match[1] if match else ""

    spaces = sorted({space for space, _ in found})
    subscriptions = [
        node.create_subscription(
            String, f"{space}/robot_description", partial(told, space), qos.LATCHED
        )
        for space in spaces
    ]
    end = time.monotonic() + timeout
    while len(names) < len(spaces) and time.monotonic() < end and not signals.STOP.is_set():
        rclpy.spin_once(node, timeout_sec=0.05)
    for subscription in subscriptions:
        node.destroy_subscription(subscription)
    robots = [
        f"{space.strip('/')}{':=' if space else ''}{names.get(space) or 'robot'} ({kind})"
        for space, kind in sorted(found)
    ]
    domain = os.environ.get("ROS_DOMAIN_ID", "0") or "0"
    return (
        f"these robots run: {', '.join(robots)}"
        if robots
        else f"no robot runs in ROS domain {domain}"
    )


def _absent(
    node: Node, ready: Callable[[], bool], what: str, end: float, report: Callable[[str], None]
) -> str:
    """Wait for a server until a time; return why it is not there, empty if it is."""
    notice: float | None = time.monotonic() + NOTICE_AFTER
    while not ready():
        if signals.STOP.is_set():
            return "stopped"
        if time.monotonic() > end:
            return f"there is no {what}; {running_robots(node)}"
        if notice is not None and time.monotonic() > notice:
            notice = None
            report(f"waiting for {what.partition(' ')[2]}; {running_robots(node)}")
        rclpy.spin_once(node, timeout_sec=0.05)
    return ""


class _Client:
    """Sends one goal and waits for its result."""

    def __init__(self, node: Node, request: GoalRequest, report: Callable[[str], None]) -> None:
        self._node = node
        self._request = request
        self._action = request.action
        self._report = report
        self._client = action_client(node, request.kind, request.action)
        self._reported = ""

    def accepted_goal(self, end: float) -> Any:
        """Return the handle of the accepted goal, or the reason of its rejection."""
        ready = self._client.server_is_ready
        if why := _absent(self._node, ready, f"action {self._action}", end, self._report_once):
            return why
        while True:
            sent = self._client.send_goal_async(self._request.goal, self._on_feedback)
            if not self._spin(sent, end):
                self._cancel_late(sent)
                return "stopped" if signals.STOP.is_set() else f"no response of {self._action}"
            handle = sent.result()
            if handle.accepted:
                return handle
            if time.monotonic() > end:
                return f"{self._action} rejects goals; is its node active?"
            self._report_once(f"{self._action} rejects goals; retrying")
            signals.STOP.wait(RETRY_DELAY)

    def result_of(self, handle: Any) -> str:
        """Wait for the result of a goal; return why it failed, empty on success."""
        done = handle.get_result_async()
        while not self._spin(done, time.monotonic() + LOST_AFTER) and not signals.STOP.is_set():
            if not self._client.server_is_ready():
                return f"{self._action} is no longer available"
        if not done.done():
            self._spin(handle.cancel_goal_async(), time.monotonic() + CANCEL_TIMEOUT, stop=False)
            if self._spin(done, time.monotonic() + CANCEL_TIMEOUT, stop=False):
                return "stopped; the motion was cancelled"
            return f"stopped; {self._action} did not confirm that the motion was cancelled"
        wrapped = done.result()
        if wrapped.status == GoalStatus.STATUS_SUCCEEDED:
            return ""
        result = wrapped.result
        if isinstance(result, MoveGroup.Result):
            return result.error_code.message or f"MoveIt error code {result.error_code.val}"
        return result.error_msg or f"Nav2 error code {result.error_code}"

    def _cancel_late(self, sent: Future[Any]) -> None:
        """Cancel a goal that is accepted after the client has given up."""
        end = time.monotonic() + CANCEL_TIMEOUT
        if self._spin(sent, end, stop=False) and sent.result().accepted:
            self._spin(sent.result().cancel_goal_async(), end, stop=False)

    def _spin(self, future: Future[Any], end: float, *, stop: bool = True) -> bool:
        """Spin until a future is done; return False on a timeout or stop signal."""
        while not future.done():
            if time.monotonic() > end or (stop and signals.STOP.is_set()):
                return False
            rclpy.spin_once(self._node, timeout_sec=0.05)
        return True

    def _on_feedback(self, message: Any) -> None:
        state = getattr(message.feedback, "state", "").lower().replace("monitor", "moving")
        if state and state != "idle":
            self._report_once(state)

    def _report_once(self, text: str) -> None:
        if text != self._reported:
            self._reported = text
            self._report(text)


def run_task(prefix: str, order: TaskOrder, timeout: float, report: Callable[[str], None]) -> str:
    """Execute or plan a task; Ctrl-C cancels it.

    Args:
        prefix: namespace of the robot, empty or beginning with a slash.
        order: the task.
        timeout: max time to wait for the task server [s].
        report: receives lines about the progress.

    Returns:
        Why it failed; empty on success.
    """
    with client_node("motion_task") as node:
        client = TaskClient(node, f"{prefix}/task_server", report)
        try:
            client.find(timeout)
            client.run(order)
        except TaskNotDone as failure:
            return str(failure)
    return ""


def recover(prefix: str, timeout: float, report: Callable[[str], None]) -> tuple[bool, str]:
    """Recover an arm from a collision.

    Args:
        prefix: namespace of the robot, empty or beginning with a slash.
        timeout: max time to wait for the service [s].
        report: receives lines about the progress.

    Returns:
        Whether it succeeded, and the planner's message.
    """
    name = f"{prefix}/{PLANNER}/recover"
    with client_node("motion_recover") as node:
        client = node.create_client(Trigger, name, qos_profile=qos.SERVICES)
        end = time.monotonic() + timeout
        if why := _absent(node, client.service_is_ready, f"service {name}", end, report):
            return False, why
        answer = client.call_async(Trigger.Request())
        end = time.monotonic() + timeout + RECOVERY_TIMEOUT
        while not answer.done():
            if signals.STOP.is_set():
                return False, "stopped waiting; the recovery continues"
            if time.monotonic() > end:
                return False, f"{name} did not respond"
            rclpy.spin_once(node, timeout_sec=0.05)
        response = answer.result()
        return bool(response.success), str(response.message)


def record(
    file: Path,
    seconds: float,
    patterns: Sequence[str],
    report: Callable[[str], None],
    images: bool = False,
) -> dict[str, int]:
    """Record topics.

    Args:
        file: to create, ``.mcap``, ``.jsonl`` or ``.csv``.
        seconds: recording time from the first message on [s]; 0: until Ctrl-C.
        patterns: topic names with ``*`` as wildcard; none: joints, commands, odometry, plans.
        report: receives a line for each topic found, also for those that cannot be recorded.
        images: also record images.

    Returns:
        Number of messages by topic.

    Raises:
        InvalidConfig: the file exists or cannot be written.
    """
    sink = recording_file(file)
    with _written(file), contextlib.closing(sink), client_node("motion_record") as node:
        recorder = Recorder(node, sink, patterns, images)
        reported: set[str] = set()
        began = discovered = time.monotonic()
        end = began + seconds
        recorder.discover()
        while not signals.STOP.is_set():
            now = time.monotonic()
            if seconds and not any(recorder.counts.values()):
                end = min(now, began + _FIRST_MESSAGE_TIMEOUT) + seconds
            if seconds and now >= end:
                break
            if now - discovered >= _DISCOVERY_PERIOD:
                discovered = now
                recorder.discover()
            for topic in sorted({*recorder.counts, *recorder.skipped} - reported):
                reason = recorder.skipped.get(topic)
                report(f"{topic}: not recorded: {reason}" if reason else f"{topic}")
                reported.add(topic)
            recorder.poll()
            signals.STOP.wait(_RECORD_PERIOD)
        recorder.poll(last=True)
    return dict(recorder.counts)


@contextlib.contextmanager
def _written(file: Path) -> Iterator[None]:
    """Context manager in which a file is written: a full disk is an error of the user's."""
    try:
        yield
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be written: {error.strerror}.") from None


def play(
    file: Path, rate: float, patterns: Sequence[str], report: Callable[[str], None]
) -> dict[str, int]:
    """Publish the messages of an MCAP file, as they were received.

    Args:
        file: to read.
        rate: factor of the speed.
        patterns: topic names with ``*`` as wildcard; none: all.
        report: receives a line for each topic, also for those that cannot be played.

    Returns:
        Number of messages by topic.

    Raises:
        InvalidConfig: the file cannot be read.
    """
    counts: dict[str, int] = {}
    publishers: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    with client_node("motion_play") as node:
        for each in read_mcap(file, patterns):
            if each.topic in kinds:
                continue
            kinds[each.topic] = each.kind
            profile = qos.STATUS if each.latched else qos.STREAM
            try:
                kind = message_type(each.kind)
                publishers[each.topic] = node.create_publisher(kind, each.topic, profile)
            except (ImportError, AttributeError, ValueError):
                report(f"{each.topic}: not played: the type {each.kind} is not installed")
            except InvalidTopicNameException:
                report(f"{each.topic}: not played: it is no name of a topic")
            else:
                counts[each.topic] = 0
                report(each.topic)
        signals.STOP.wait(_SUBSCRIBERS_TIME)
        began, first = time.monotonic(), None
        for each in read_mcap(file, patterns):
            if each.topic not in publishers or each.kind != kinds[each.topic]:
                continue
            first = each.arrived if first is None else first
            due = began + (each.arrived - first) * 1e-9 / rate
            if signals.STOP.wait(min(max(due - time.monotonic(), 0.0), _MAX_PAUSE)):
                break
            publishers[each.topic].publish(each.data)
            counts[each.topic] += 1
        for publisher in publishers.values():
            publisher.wait_for_all_acked(Duration(seconds=1))
    return counts


def stop(timeout: float, report: Report) -> bool:
    """Stop all robots and wait until they are at rest.

    Args:
        timeout: max time to wait [s].
        report: receives a line for each robot, and for each node that does not respond.

    Returns:
        Whether there are robots, and all of them are at rest.
    """
    with _quiet_node("motion_stop") as node:
        latch = StopLatch(node)
        try:
            at_rest = stop_all(node, latch, "motion stop", timeout, report)
        finally:
            latch.end()
    if at_rest:
        report("commands are rejected; `motion resume` ends that")
    return at_rest


def stop_all(node: Node, latch: StopLatch, who: str, timeout: float, report: Report) -> bool:
    """Stop all robots by a node's latch; see :func:`stop`.

    Args:
        node: the node.
        latch: its copy of the stop.
        who: the sender, for status texts.
        timeout: max time to wait [s].
        report: receives lines for the user.
    """
    # The topic is transient local: nodes that are discovered later receive it, too.
    latch.stop(who)
    reported: set[str] = set()
    waiting: dict[str, str] = {}
    for _ in _poll(latch, timeout):
        waiting = _not_at_rest(node, latch, reported, report)
        # Without any robot: discovery may take long on a loaded machine.
        if reported and not waiting:
            break
    for name, reason in waiting.items():
        report(f"{name}: {reason}")
    if not reported and not waiting:
        report("no controller of a robot was found")
    return bool(reported) and not waiting


def resume(timeout: float, report: Report) -> bool:
    """Resume all nodes after a stop.

    Args:
        timeout: max time to wait for their responses [s].
        report: receives lines for the user.

    Returns:
        Whether all nodes accept commands.
    """
    with _quiet_node("motion_resume") as node:
        latch = StopLatch(node)
        try:
            return resume_all(node, latch, timeout, report)
        finally:
            latch.end()


def resume_all(node: Node, latch: StopLatch, timeout: float, report: Report) -> bool:
    """Resume all nodes by a node's latch; see :func:`resume` and :func:`stop_all`."""
    for _ in _poll(latch, timeout):
        # Only a stop that was received can be resumed.
        if latch.received.keys() - {_name(node)} and not _unreported(node, latch):
            break
    if not latch.received.keys() - {_name(node)}:
        report("no node was found")
        return False
    stopped = latch.resume()
    waiting: dict[str, str] = {}
    for _ in _poll(latch, timeout):
        waiting = _still_stopped(node, latch)
        if not waiting:
            break
    for name, reason in waiting.items():
        report(f"{name}: {reason}")
    if not waiting:
        report("resumed: commands are accepted" if stopped else "nothing was stopped")
    return not waiting


@contextmanager
def _quiet_node(name: str) -> Iterator[Node]:
    """Context manager of a node whose latch does not log: the user sees the reports."""
    with client_node(name) as node:
        node.get_logger().set_level(LoggingSeverity.ERROR)
        yield node


def _poll(latch: StopLatch, timeout: float) -> Iterator[None]:
    """Poll the latch until the timeout; yields after the discovery time."""
    began = time.monotonic()
    while not signals.STOP.wait(POLL_PERIOD):
        latch.poll()
        elapsed = time.monotonic() - began
        if elapsed >= min(DISCOVERY_TIME, timeout):
            yield
        if elapsed > timeout:
            return


def _name(node: Node) -> str:
    return str(node.get_fully_qualified_name()).lstrip("/")


def _unreported(node: Node, latch: StopLatch) -> dict[str, str]:
    """Return the participants of the stop whose state was not received yet."""
    return dict.fromkeys(_present(node) - latch.received.keys(), "no state was received")


def _present(node: Node) -> set[str]:
    """Return the names of the participants of the stop in the ROS graph."""
    known = node.get_publishers_info_by_topic(STOP_STATE_TOPIC)
    return {f"{info.node_namespace}/{info.node_name}".strip("/") for info in known}


def _values(latch: StopLatch, node: Node) -> Iterator[tuple[str, dict[str, str]]]:
    present = _present(node)
    for name, status in list(latch.received.items()):
        if name in present and name != _name(node):
            yield name, {pair.key: pair.value for pair in status.values}


def _not_at_rest(
    node: Node, latch: StopLatch, reported: set[str], report: Report
) -> dict[str, str]:
    """Return nodes that are not stopped or whose robots move; report robots at rest once."""
    waiting = _unreported(node, latch)
    for name, values in _values(latch, node):
        if int(values[STOPPED]) <= int(values[RESUMED]):
            waiting[name] = "not stopped"
        elif values.get(MOTION, AT_REST) not in (AT_REST, INACTIVE):
            waiting[name] = values[MOTION]
        elif MOTION in values and name not in reported:
            reported.add(name)
            after = f" after {values[SECONDS]} s" if SECONDS in values else ""
            report(f"{name}: {values[MOTION]}{after}")
    return waiting


def _still_stopped(node: Node, latch: StopLatch) -> dict[str, str]:
    return _unreported(node, latch) | {
        name: "still stopped"
        for name, values in _values(latch, node)
        if int(values[STOPPED]) > int(values[RESUMED])
    }

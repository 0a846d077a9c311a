# SPDX-License-Identifier: Apache-2.0
"""Clients of actions that move a robot: a goal that is stopped, or lost, is canceled."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from control_msgs.action import FollowJointTrajectory
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import MoveItErrorCodes
from rclpy.task import Future
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.clients import move_client, trajectory_execution
from motion_nodes.ros.clients.controller_set import ControllerSet, joints_by_controller
from motion_nodes.ros.clients.move_client import MoveClient, joint_constraints
from motion_nodes.ros.clients.task_client import TaskClient
from motion_nodes.ros.clients.trajectory_execution import TrajectoryClient, TrajectoryExecution


class Jobs:
    """The queue of an executor that runs when the test says so."""

    def __init__(self) -> None:
        self._waiting: list[Any] = []

    def submit(self, job: Any) -> None:
        self._waiting.append(job)

    def run(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()


class GoalHandle:
    """One goal at a server that accepts it."""

    accepted = True

    def __init__(self) -> None:
        self.cancellations = 0
        self.result = Future()

    def cancel_goal_async(self) -> None:
        self.cancellations += 1

    def get_result_async(self) -> Future:
        return self.result


class ActionServer:
    """Stands for rclpy's action client, and the server behind it."""

    def __init__(self) -> None:
        self.responses: list[Future] = []

    def server_is_ready(self) -> bool:
        return True

    def send_goal_async(self, _goal: Any, _on_feedback: Any) -> Future:
        self.responses.append(Future())
        return self.responses[-1]

    def respond(self) -> GoalHandle:
        """Accept the newest goal."""
        handle = GoalHandle()
        self.responses[-1].set_result(handle)
        return handle


@pytest.fixture
def server(monkeypatch):
    found = ActionServer()
    for module in (move_client, trajectory_execution):
        monkeypatch.setattr(module, "action_client", lambda *_: found)
    return found


@pytest.fixture
def clock(monkeypatch):
    """The time of the trajectory client, which the test advances."""
    found = SimpleNamespace(now=0.0)
    monkeypatch.setattr(trajectory_execution, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


NODE = SimpleNamespace(
    time_stands=False, now_ns=lambda: 0, create_client=lambda *_, **__: None
)  # fmt: skip


def a_trajectory() -> JointTrajectory:
    message = JointTrajectory(joint_names=["a"], points=[JointTrajectoryPoint(positions=[0.0])])
    message.points[0].time_from_start.sec = 1
    return message


def test_a_controller_that_is_silent_is_told_to_stop(server, clock):
    jobs = Jobs()
    client = TrajectoryClient(NODE, jobs, "controller")
    sent = client.send(a_trajectory())
    jobs.run()
    controller = server.respond()
    clock.now += 2.0 * trajectory_execution.ANSWER_TIMEOUT
    assert client.poll(sent)
    assert sent.lost
    jobs.run()
    assert controller.cancellations == 1


def test_a_goal_that_is_accepted_too_late_is_canceled(server, clock):
    jobs = Jobs()
    client = TrajectoryClient(NODE, jobs, "controller")
    sent = client.send(a_trajectory())
    jobs.run()
    clock.now += 2.0 * trajectory_execution.ANSWER_TIMEOUT
    assert client.poll(sent)
    jobs.run()
    controller = server.respond()
    jobs.run()
    assert controller.cancellations >= 1


def test_a_trajectory_that_was_stopped_before_it_was_sent_stays_here(server, clock):
    jobs = Jobs()
    client = TrajectoryClient(NODE, jobs, "controller")
    sent = client.send(a_trajectory())
    client.cancel(sent)
    jobs.run()
    assert not server.responses
    assert client.poll(sent)


def test_a_trajectory_that_has_ended_is_not_canceled(server, clock):
    jobs = Jobs()
    client = TrajectoryClient(NODE, jobs, "controller")
    sent = client.send(a_trajectory())
    jobs.run()
    controller = server.respond()
    result = FollowJointTrajectory.Result()
    controller.result.set_result(SimpleNamespace(status=4, result=result))
    assert sent.succeeded
    client.cancel(sent)
    jobs.run()
    assert controller.cancellations == 0


def test_a_motion_whose_monitor_fails_is_stopped(server, clock):
    jobs = Jobs()
    state = SimpleNamespace(joint_names=("a",), fresh=lambda: [0.0])
    node = SimpleNamespace(params=SimpleNamespace(start_tolerance=0.01), stop_reason="")
    execution = TrajectoryExecution(node, TrajectoryClient(NODE, jobs, "controller"), state)
    motion = execution.add("test")

    def fails() -> str:
        jobs.run()
        controllers.append(server.respond())
        raise ZeroDivisionError

    controllers: list[GoalHandle] = []
    with pytest.raises(ZeroDivisionError):
        execution.execute(motion, a_trajectory(), fails)
    execution.remove(motion)
    jobs.run()
    assert [handle.cancellations for handle in controllers] == [1]


def planned(jobs: Jobs) -> MoveClient:
    client = MoveClient(NODE, jobs, "move_action")
    client.move("arm", joint_constraints({"a": 0.0}), plan_only=False)
    jobs.run()
    return client


def test_a_stop_before_the_planner_has_responded_cancels_the_goal(server):
    jobs = Jobs()
    client = planned(jobs)
    client.stop()
    jobs.run()
    assert server.respond().cancellations == 1
    client.move("arm", joint_constraints({"a": 0.0}), plan_only=False)
    jobs.run()
    assert server.respond().cancellations == 0, "a later goal"


def test_a_stop_cancels_an_accepted_goal(server):
    jobs = Jobs()
    client = planned(jobs)
    planner = server.respond()
    assert planner.cancellations == 0
    client.stop()
    jobs.run()
    assert planner.cancellations == 1
    result = MoveGroup.Result()
    planner.result.set_result(SimpleNamespace(status=5, result=result))
    assert client.words == "stopped"


def outcome(status: int, code: int = MoveItErrorCodes.SUCCESS) -> SimpleNamespace:
    result = MoveGroup.Result()
    result.error_code.val = code
    return SimpleNamespace(status=status, result=result)


@pytest.mark.parametrize("planned_meanwhile", [False, True])
def test_a_stop_cancels_the_motion_during_which_another_was_planned(server, planned_meanwhile):
    jobs = Jobs()
    client = planned(jobs)
    motion = server.respond()
    client.move("arm", joint_constraints({"a": 1.0}), plan_only=True)
    jobs.run()
    plan = server.respond()
    assert client.words == "moving; planning"
    if planned_meanwhile:
        plan.result.set_result(outcome(4))
        assert client.words.startswith("moving; planned")
    client.stop()
    jobs.run()
    assert (motion.cancellations, plan.cancellations) == (1, 0 if planned_meanwhile else 1)
    motion.result.set_result(outcome(5))
    assert client.words == "stopped"


def test_a_motion_that_fails_after_another_was_planned_is_reported(server):
    jobs = Jobs()
    client = planned(jobs)
    motion = server.respond()
    client.move("arm", joint_constraints({"a": 1.0}), plan_only=True)
    jobs.run()
    server.respond().result.set_result(outcome(4))
    motion.result.set_result(outcome(6, MoveItErrorCodes.CONTROL_FAILED))
    assert client.failure == client.words == f"failed with code {MoveItErrorCodes.CONTROL_FAILED}"


def test_a_motion_that_another_replaced_reports_nothing(server):
    jobs = Jobs()
    client = planned(jobs)
    motion = server.respond()
    client.move("arm", joint_constraints({"a": 1.0}), plan_only=False)
    jobs.run()
    motion.result.set_result(outcome(6, MoveItErrorCodes.PREEMPTED))
    assert (client.words, client.failure) == ("planning", "")


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '"running"', '{"state": "running"}', "9" * 5000]
)
def test_a_status_of_a_task_that_cannot_be_read_is_ignored(text):
    warnings: list[str] = []
    node = SimpleNamespace(
        create_subscription=lambda *_: None, create_publisher=lambda *_: None,
        create_client=lambda *_, **__: None,
        get_logger=lambda: SimpleNamespace(warning=lambda text, **_: warnings.append(text)),
    )  # fmt: skip
    client = TaskClient(node, "/task_server", lambda _: None)
    known = {"state": "idle", "number": 0, "task": "", "plan": [], "reason": ""}
    client._on_status(String(data=json.dumps(known)))
    client._on_status(String(data=text))
    assert client._status == known
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("plan_only", "text"),
    [
        (True, "planned in 0.25 s by RRT: 1.50 s long, from the present state"),
        (False, "executed; planned in 0.25 s by RRT: 1.50 s long"),
    ],
)
def test_the_outcome_tells_a_plan_from_a_motion(server, plan_only, text):
    jobs = Jobs()
    client = MoveClient(NODE, jobs, "move_action")
    client.move("arm", joint_constraints({"a": 0.0}), plan_only=plan_only, planner_id="RRT")
    jobs.run()
    planner, result = server.respond(), MoveGroup.Result(planning_time=0.25)
    result.error_code.val = MoveItErrorCodes.SUCCESS
    point = JointTrajectoryPoint()
    point.time_from_start.sec, point.time_from_start.nanosec = 1, 500_000_000
    result.planned_trajectory.joint_trajectory.points = [point]
    planner.result.set_result(SimpleNamespace(status=4, result=result))
    assert client.words == text


HAND = ("finger_a", "finger_b")


@pytest.fixture
def cell(monkeypatch):
    """An arm of two joints and a hand with a controller each."""
    servers: dict[str, ActionServer] = {}

    def server(_node: Any, _kind: Any, name: str) -> ActionServer:
        return servers.setdefault(name.partition("/")[0], ActionServer())

    monkeypatch.setattr(trajectory_execution, "action_client", server)
    params = SimpleNamespace(controller="arm", other_controllers=[f"hand={','.join(HAND)}"])
    jobs = Jobs()
    client = ControllerSet(NODE, jobs, params)
    return SimpleNamespace(client=client, jobs=jobs, **servers)


def joints_trajectory(*names: str) -> JointTrajectory:
    point = JointTrajectoryPoint(positions=[float(k) for k in range(len(names))])
    point.time_from_start.sec = 1
    return JointTrajectory(joint_names=names, points=[point])


def ends(handle: GoalHandle, status: int = 4, code: int = 0, text: str = "") -> None:
    result = FollowJointTrajectory.Result(error_code=code, error_string=text)
    handle.result.set_result(SimpleNamespace(status=status, result=result))


def test_each_controller_gets_its_joints(cell, clock):
    message = joints_trajectory("finger_b", "a", "finger_a", "b")
    message.points[0].velocities = [0.0, 0.1, 0.2, 0.3]
    sent = cell.client.send(message)
    parts = {part.joints: part.message.points[0] for part in sent.parts}
    assert list(parts["a", "b"].positions) == [1.0, 3.0]
    assert list(parts["finger_b", "finger_a"].velocities) == [0.0, 0.2]
    assert not len(parts["a", "b"].effort)
    for names in (("a", "b"), HAND, ("b",), ("finger_a",), ("unknown", "a"), ()):
        alone = cell.client.send(joints_trajectory(*names))
        assert not alone.parts
        assert alone.client.action.startswith("hand" if names and names[0] in HAND else "arm")


def test_a_trajectory_of_two_controllers_ends_with_the_last(cell, clock):
    sent = cell.client.send(joints_trajectory("a", "finger_a"))
    cell.jobs.run()
    arm, hand = cell.arm.respond(), cell.hand.respond()
    ends(hand)
    assert not cell.client.poll(sent)
    for stamp, part in enumerate(sent.parts):
        part.measured.append((float(stamp), [5.0 + stamp]))
    assert not cell.client.poll(sent)
    assert sent.measured == [(1.0, [5.0, 6.0])]
    ends(arm)
    assert cell.client.poll(sent)
    assert sent.succeeded
    assert arm.cancellations == hand.cancellations == 0


@pytest.mark.parametrize("fails", ["arm", "hand"])
def test_a_part_that_fails_ends_the_other(cell, clock, fails):
    sent = cell.client.send(joints_trajectory("a", "finger_a"))
    cell.jobs.run()
    handles = {"arm": cell.arm.respond(), "hand": cell.hand.respond()}
    ends(handles.pop(fails), 6, FollowJointTrajectory.Result.PATH_TOLERANCE_VIOLATED, "stuck")
    (other,) = handles.values()
    for _ in range(2):
        assert not cell.client.poll(sent)
        cell.jobs.run()
    assert other.cancellations == 1
    ends(other, 5, text="canceled by its client")
    assert cell.client.poll(sent)
    assert (sent.status, sent.text, sent.succeeded) == (6, "stuck", False)


def test_a_silent_controller_ends_the_other(cell, clock):
    sent = cell.client.send(joints_trajectory("a", "finger_a"))
    cell.jobs.run()
    arm = cell.arm.respond()
    clock.now += 0.9 * trajectory_execution.ANSWER_TIMEOUT
    sent.parts[0].last_reply = clock.now
    clock.now += 0.2 * trajectory_execution.ANSWER_TIMEOUT
    assert not cell.client.poll(sent)
    cell.jobs.run()
    assert arm.cancellations == 1
    ends(arm, 5)
    assert cell.client.poll(sent)
    assert "hand" in sent.lost


def test_a_cancellation_reaches_all_controllers(cell, clock):
    sent = cell.client.send(joints_trajectory("a", "finger_a"))
    cell.jobs.run()
    arm, hand = cell.arm.respond(), cell.hand.respond()
    cell.client.cancel(sent)
    cell.jobs.run()
    assert (arm.cancellations, hand.cancellations) == (1, 1)
    ends(arm, 5)
    ends(hand, 5)
    assert cell.client.poll(sent)
    assert sent.status == 5


@pytest.mark.parametrize(
    "entries", [["hand"], ["=a"], ["hand="], ["hand=a", "hand=b"], ["hand=a", "other=b,a"]]
)
def test_wrong_controllers_are_refused(entries):
    with pytest.raises(InvalidConfig, match="other_controllers"):
        joints_by_controller(entries)

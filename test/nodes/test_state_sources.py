# SPDX-License-Identifier: Apache-2.0
"""Frozen or doubled joint states, checks that compile, cycles at rest."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from joint_client import ABORTED, ARM, CONTROLLER, HOME, SUCCEEDED, Call, JointClient, smooth
from ros_client import BEST_EFFORT, RosClient
from scripted_robot import ScriptedRobot
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene import exact_warm_up
from motion_nodes.core.scene.scene import Scene
from motion_nodes.nodes.articulation.joint_outputs import COMPLETE_PERIOD, REST_TIME, RestCycles
from motion_nodes.nodes.kinematics.solution_checks import StateChecks
from motion_nodes.nodes.rmpflow_policy import RmpflowPolicyNode

AWAY = {name: HOME[name] + 0.4 for name in ARM[:3]}


@pytest.fixture(scope="module")
def robot(ros):
    """A driver that can repeat its last measurement."""
    robot = ScriptedRobot(HOME)
    yield robot
    robot.close()


@pytest.fixture(scope="module")
def cell(robot, module_suite, module_client):
    """The controller of that robot."""
    # The driver may be late under load; lost states are tested elsewhere.
    module_suite.node("articulation_controller", robot="franka", state_timeout=3.0)
    arm = JointClient(module_client)
    arm.wait_for()
    yield arm
    arm.close()


@pytest.fixture
def arm(cell, robot):
    """The arm at home."""
    robot.frozen = False
    cell.client.spin(0.2)
    holds(cell.client)
    cell.client.wait(lambda: ARM[0] in cell.joints, "a state of the arm")
    if cell.away(HOME) > 1e-6:
        cell.go_home()
    cell.rest()
    return cell


def holds(client: RosClient, *, again: bool = False) -> None:
    """Wait until the controller holds the arm without error; ``again``: by a new report."""

    def fine() -> bool:
        status = client.diagnostics(CONTROLLER)
        if status is None or status.level == DiagnosticStatus.ERROR:
            return False
        return "holding" in status.message

    if again:
        client.forget_diagnoses()
    client.wait(fine, "the controller to hold the arm")


def begin(arm: JointClient, seconds: float = 4.0) -> Call:
    """Begin a motion of three joints, and wait until it is under way."""
    call = arm.follow(smooth(AWAY, seconds))
    assert call.accepted()
    arm.moving()
    return call


def aborted(call: Call, text: str) -> None:
    status, result = call.result()
    assert status == ABORTED
    assert text in result.error_string


def is_refused(arm: JointClient, text: str) -> None:
    aborted(arm.follow(smooth(AWAY, 4.0)), text)


def reports(arm: JointClient, text: str) -> None:
    arm.client.wait_for_diagnosis(CONTROLLER, text, DiagnosticStatus.ERROR)


def works_again(arm: JointClient) -> None:
    holds(arm.client, again=True)
    status, result = arm.follow(smooth(AWAY, 2.0)).result()
    assert status == SUCCEEDED, result.error_string


def commands_rest(arm: JointClient) -> None:
    """What is commanded last is a place at rest, near where the motion was interrupted."""

    def rests() -> bool:
        return np.nanmax(np.abs(arm.commands.newest.velocity)) < 1e-6

    arm.client.wait(rests, "commands at rest")
    arm.client.spin(0.3)
    assert rests()
    last = arm.commands.newest
    for name, position in zip(last.name, last.position, strict=True):
        assert HOME[name] - 1e-6 <= position <= HOME[name] + 0.4 * (name in AWAY) + 1e-6


@pytest.mark.timeout(900)
def test_frozen_states_stop_the_arm(arm, robot):
    call = begin(arm)
    robot.frozen = True
    aborted(call, "joint_states are frozen: " + ", ".join(AWAY))
    commands_rest(arm)
    is_refused(arm, "joint_states are frozen")
    reports(arm, "joint_states are frozen")
    robot.frozen = False
    works_again(arm)


def longest_step(arm: JointClient) -> float:
    """Return the largest change of a joint between two commands, in velocity limits and periods."""
    sent = [(m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec, m) for m in arm.commands.messages]
    rows = np.array([message.position for _, message in sent])
    passed = np.maximum(np.diff([stamp for stamp, _ in sent]), 0.004)
    limits = load_robot("franka").limits.select(tuple(sent[0][1].name)).velocity
    return float((np.abs(np.diff(rows, axis=0)) / passed[:, None] / limits).max())


@pytest.mark.timeout(900)
def test_states_that_arrive_late_and_all_at_once_do_not_move_the_arm(arm, robot):
    assert arm.client.set_parameters(CONTROLLER, state_timeout=0.5).successful
    try:
        call = begin(arm, 2.0)
        arm.commands.clear()
        robot.held = True
        aborted(call, "the robot was lost")
        arm.client.spin(0.8)
        robot.held = False
        holds(arm.client, again=True)
        commands_rest(arm)
        # A gap of the commands counts as the time that has passed.
        assert longest_step(arm) < 1.01
        assert arm.away(dict(zip(arm.commands.newest.name, arm.commands.newest.position,
                                 strict=True))) < 0.01  # fmt: skip
    finally:
        assert arm.client.set_parameters(CONTROLLER, state_timeout=3.0).successful
    works_again(arm)


@pytest.mark.timeout(900)
def test_states_that_are_late_by_more_than_the_lag_are_told(arm, robot):
    robot.delay = 0.6
    try:
        arm.client.spin(0.8)
        call = arm.follow(smooth(AWAY, 1.0))
        status, result = call.result()
        assert status == ABORTED
        assert "s late, tracking_lag is 0.25 s" in result.error_string
    finally:
        robot.delay = 0.0
    works_again(arm)


@pytest.mark.timeout(900)
@pytest.mark.long
def test_frozen_from_rest_on(arm, robot):
    robot.frozen = True
    call = arm.follow(smooth(AWAY, 4.0))
    aborted(call, "joint_states are frozen")
    commands_rest(arm)
    robot.frozen = False
    works_again(arm)


@pytest.mark.timeout(900)
@pytest.mark.long
def test_a_second_driver_of_the_same_joints(arm):
    rival = arm.client.publisher(JointState, "/joint_states")
    call = begin(arm)
    stale = JointState(name=ARM, position=[HOME[name] for name in ARM])
    arm.client.repeat(lambda: rival.publish(stale), lambda: call.done, "the end", rate=50.0)
    aborted(call, "several publishers on /joint_states report")
    commands_rest(arm)
    arm.client.node.destroy_publisher(rival)
    works_again(arm)


@pytest.mark.timeout(900)
@pytest.mark.long
def test_a_rival_of_the_commands(arm):
    rival = arm.client.publisher(JointState, "/joint_command")
    call = begin(arm)
    message = JointState(name=[ARM[0]], position=[HOME[ARM[0]]])
    arm.client.repeat(lambda: rival.publish(message), lambda: call.done, "the end")
    aborted(call, f"another publisher on /joint_command commands {ARM[0]}: /test_module_client")
    arm.client.repeat_for(lambda: rival.publish(message), 0.5)
    is_refused(arm, "another publisher on /joint_command")
    reports(arm, "another publisher on /joint_command")
    arm.client.node.destroy_publisher(rival)
    works_again(arm)


def test_requests_wait_for_the_compilation_and_the_start_does_not(monkeypatch):
    compiled, robot = threading.Event(), load_robot("franka")
    monkeypatch.setattr(exact_warm_up, "needs_compilation", lambda: True)
    monkeypatch.setattr(exact_warm_up, "compile_exact_checks", compiled.wait)
    checks, answers = StateChecks(robot), list[bool]()
    checks.warm_up()
    assert not checks.compiled

    def ask() -> None:
        checker = checks.checker((), robot.home, Scene())
        answers.append(checker.exact.is_free(robot.home))

    request = threading.Thread(target=ask)
    request.start()
    request.join(0.2)
    assert request.is_alive()
    compiled.set()
    request.join(30.0)
    assert checks.compiled
    assert answers == [True]


def test_nothing_waits_where_the_checks_are_compiled(monkeypatch):
    monkeypatch.setattr(exact_warm_up, "needs_compilation", lambda: False)
    checks = StateChecks(load_robot("franka"))
    checks.warm_up()
    assert checks.compiled


def test_targets_of_the_policy_wait_for_the_compilation(client, monkeypatch):
    compiled, robot = threading.Event(), load_robot("franka")
    monkeypatch.setattr(exact_warm_up, "needs_compilation", lambda: True)
    monkeypatch.setattr(exact_warm_up, "compile_exact_checks", compiled.wait)
    sent = client.listen(JointState, "/joint_trajectory_controller/reference", BEST_EFFORT)
    node = RmpflowPolicyNode(
        ros_args=["--ros-args", "-p", "robot:=franka", "-p", "autostart:=false"]
    )
    target = PoseStamped()
    target.header.frame_id = robot.base_frame
    target.pose.position.x, target.pose.position.z = 0.5, 0.5
    target.pose.orientation.x = 1.0

    def tell() -> None:
        states.publish(JointState(name=list(robot.joint_names), position=robot.home.tolist()))
        targets.publish(target)

    try:
        assert node.trigger_configure().name == node.trigger_activate().name == "SUCCESS"
        assert node.notice()
        states = client.publisher(JointState, "/joint_states")
        targets = client.publisher(PoseStamped, "/rmpflow_policy/reference")
        client.repeat(tell, lambda: not node._follower.silent, "the target")
        client.repeat_for(tell, 0.5)
        assert not len(sent)
        compiled.set()
        client.repeat(tell, lambda: len(sent), "references")
        assert not node.notice()
    finally:
        node.destroy_node()


PERIOD = 0.004


class Outputs:
    """The last command, and the stamps it was sent with."""

    def __init__(self) -> None:
        self.last: object = object()
        self.stamps: list[int] = []

    def sent_last(self, reference: object) -> bool:
        return reference is self.last

    def send_again(self, stamp: int) -> None:
        self.stamps.append(stamp)


class Arm:
    """A controller at rest."""

    def __init__(self) -> None:
        self.outputs = Outputs()
        self.state = SimpleNamespace(unchanged=True)
        self.runner = SimpleNamespace(
            controller=SimpleNamespace(still=self.outputs.last),
            runs=[], claims=[], fault="", compliance=SimpleNamespace(law=None),
        )  # fmt: skip
        self.cycles = RestCycles(self.state, self.runner, self.outputs, PERIOD)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Rest until the next cycle repeats."""
        for _ in range(2 * round(REST_TIME / PERIOD)):
            if self.cycles.begin():
                return
        raise AssertionError("no cycle was repeated")


@pytest.fixture
def arm_of_rest_cycles():
    return Arm()


def test_commands_are_repeated_after_the_rest_time_between_complete_cycles(arm_of_rest_cycles):
    cycles = [arm_of_rest_cycles.cycles.begin() for _ in range(1000)]
    settled = round(REST_TIME / PERIOD)
    assert not any(cycles[:settled])
    assert cycles[settled:].count(False) == pytest.approx(
        (1000 - settled) * PERIOD / COMPLETE_PERIOD, abs=1
    )


def moves(arm: Arm) -> None:
    arm.state.unchanged = False


def is_commanded(arm: Arm) -> None:
    arm.runner.controller.still = None


def has_other_settings(arm: Arm) -> None:
    arm.outputs.last = None


def follows_a_trajectory(arm: Arm) -> None:
    arm.runner.runs = [object()]


def grips(arm: Arm) -> None:
    arm.runner.claims = [object()]


def is_blocked(arm: Arm) -> None:
    arm.runner.fault = "blocked"


def complies(arm: Arm) -> None:
    arm.runner.compliance.law = object()


@pytest.mark.parametrize(
    "change",
    [
        moves,
        is_commanded,
        has_other_settings,
        follows_a_trajectory,
        grips,
        is_blocked,
        complies,
    ],
)
def test_any_change_makes_the_next_cycles_complete(arm_of_rest_cycles, change):
    arm_of_rest_cycles.settle()
    change(arm_of_rest_cycles)
    assert not any(arm_of_rest_cycles.cycles.begin() for _ in range(1000))


def test_one_change_makes_the_cycles_of_the_rest_time_complete(arm_of_rest_cycles):
    arm_of_rest_cycles.settle()
    arm_of_rest_cycles.state.unchanged = False
    assert not arm_of_rest_cycles.cycles.begin()
    arm_of_rest_cycles.state.unchanged = True
    assert not any(arm_of_rest_cycles.cycles.begin() for _ in range(round(REST_TIME / PERIOD)))
    arm_of_rest_cycles.settle()


def test_each_deadline_is_served_unless_a_message_changed_the_command(arm_of_rest_cycles):
    arm_of_rest_cycles.settle()
    assert arm_of_rest_cycles.cycles.repeat((4, 8))
    assert arm_of_rest_cycles.cycles.repeat(())
    assert arm_of_rest_cycles.outputs.stamps == [4, 8]
    arm_of_rest_cycles.runner.controller.still = None
    assert not arm_of_rest_cycles.cycles.repeat((12,))
    assert arm_of_rest_cycles.outputs.stamps == [4, 8]

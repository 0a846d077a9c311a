# SPDX-License-Identifier: Apache-2.0
"""joint_trajectory_controller of ros2_controllers, as a client sees it.

Four controllers, each with a robot without physics: with the suite's defaults, with those of
ros2_controllers, and with the command interfaces velocity and effort.
"""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from control_msgs.msg import SpeedScalingFactor
from control_msgs.srv import QueryTrajectoryState
from joint_client import (
    ABORTED,
    ARM,
    CANCELED,
    HOME,
    SUCCEEDED,
    Codes,
    JointClient,
    duration,
    smooth,
    tolerances,
    trajectory,
)
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory as CoreTrajectory
from motion_nodes.core.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.messages.trajectory_messages import TrajectoryRules, trajectory_from

pytestmark = pytest.mark.timeout(900)
J1, J2, J7 = ARM[0], ARM[1], ARM[6]

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"speed_scaling.initial_scaling_factor": 0.5},
    "peer": {
        "peer_defaults": True,
        "joints": ARM,
        "command_interfaces": ["position"],
        "state_interfaces": ["position", "velocity"],
        "allow_partial_joints_goal": True,
        "constraints.decelerate_on_cancel": True,
        f"constraints.{J1}.max_deceleration_on_cancel": 0.5,
    },
    "velocity": {
        "command_interfaces": ["velocity"],
        "joints": ARM,
        "allow_partial_joints_goal": False,
        "allow_integration_in_goal_trajectories": True,
        "positions_upsampling.enable": True,
        "positions_upsampling.policy_frequency": 4.0,
    },
    "effort": {
        "joints": ARM,
        "command_interfaces": ["effort"],
        "gravity_compensation": False,
        "inertia_compensation": False,
        "interpolation_method": "none",
        "constraints.goal_time": 0.4,
        "allow_nonzero_velocity_at_trajectory_end": True,
        "contact_detection": False,
        "constraints.trajectory": 0.0,
        **{f"gains.{joint}.p": 7.0 for joint in ARM},
        **{f"gains.{joint}.d": 0.5 for joint in ARM},
        f"gains.{J7}.u_clamp_max": 0.2,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def cell(module_suite, module_client):
    """The controllers, by variant."""
    robots = [f"{name}:=franka" for name in VARIANTS]
    module_suite.node("mock_sim", robots=robots, update_rate=100.0)
    arms: dict[str, Any] = {}
    for name, parameters in VARIANTS.items():
        module_suite.node(
            "articulation_controller", namespace=name, robot="franka", use_sim_time=True,
            update_rate=100.0, **parameters,
        )  # fmt: skip
        arms[name] = JointClient(module_client, namespace=f"/{name}")
    for name, arm in arms.items():
        module_client.wait_for_diagnosis(arm.controller, "holding")
        module_client.wait(lambda a=arm: a.reports, f"a report of {name}")
    factor = arms["plain"].reports.newest.speed_scaling_factor
    yield SimpleNamespace(**arms, client=module_client, first_factor=factor)
    for arm in arms.values():
        arm.close()


def ready(arm: JointClient) -> JointClient:
    """Return an arm at rest, with a fresh state."""
    arm.clear()
    arm.rest(1e-4)
    return arm


def scaled(arm: JointClient, factor: float) -> None:
    """Set the speed scaling factor, and wait for it."""
    publisher = arm.publisher(SpeedScalingFactor, "speed_scaling_input")
    arm.client.repeat(
        lambda: publisher.publish(SpeedScalingFactor(factor=factor)),
        lambda: arm.reports and arm.reports.newest.speed_scaling_factor == factor, "the factor",
    )  # fmt: skip


@pytest.fixture
def plain(cell):
    """The controller with the suite's defaults, at full speed."""
    arm = ready(cell.plain)
    scaled(arm, 1.0)
    return arm


@pytest.fixture
def peer(cell):
    """The controller with the defaults of ros2_controllers."""
    return ready(cell.peer)


def by(arm: JointClient, offset: float, *joints: str) -> dict[str, float]:
    """Return the present positions of joints plus an offset."""
    return {name: arm.joints[name] + offset for name in joints or ARM}


def seconds(time: Any) -> float:
    return float(time.sec + 1e-9 * time.nanosec)


def refused(arm: JointClient, message: JointTrajectory, **options: Any) -> str:
    """Return the reason of a goal that is accepted and aborted."""
    status, result = arm.follow(message, **options).result()
    assert status == ABORTED
    assert result.error_code in (Codes.INVALID_GOAL, Codes.INVALID_JOINTS, -2, -3)
    return str(result.error_string)


# ---- goals


@pytest.mark.parametrize("velocities", [None, [[0.0] * 7]])
def test_one_point(peer, velocities):
    goal = by(peer, 0.1 if velocities else -0.1)
    message = trajectory(ARM, [list(goal.values())], [0.5], velocities)
    call = peer.follow(message, goal_tolerance=tolerances(ARM, 0.1))
    status, result = call.result()
    assert (status, result.error_code) == (SUCCEEDED, Codes.SUCCESSFUL)
    peer.arrives(goal)
    feedback = call.feedback[-1].feedback
    assert feedback.joint_names == ARM
    assert {len(feedback.desired.positions), len(feedback.actual.positions)} == {7}
    assert len(feedback.error.positions) == 7


def test_several_points(peer):
    start, names = peer.joints, ARM[::-1]
    rows = [[start[j] + d for j in names] for d in (0.05, 0.1)]
    message = trajectory(names, rows, [0.4, 0.8], [[0.05] * 7, [0.0] * 7])
    call = peer.follow(message, goal_tolerance=tolerances(names, 0.1))
    assert call.result()[0] == SUCCEEDED
    peer.arrives(dict(zip(names, rows[1], strict=True)))
    passed = [m.feedback.desired for m in call.feedback]
    near = min(passed, key=lambda p: abs(seconds(p.time_from_start) - 0.4))
    away = abs(near.positions[0] - rows[0][0])
    assert away < 0.15 * abs(seconds(near.time_from_start) - 0.4) + 1e-6


def test_path_tolerance(peer):
    goal = by(peer, 0.3)
    call = peer.follow(smooth(goal, 2.0), path_tolerance=tolerances(ARM, 1e-7))
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.PATH_TOLERANCE_VIOLATED)
    peer.rest()
    assert peer.away(goal) > 0.2


@pytest.mark.parametrize(
    ("given", "code"),
    [(0.0, Codes.PATH_TOLERANCE_VIOLATED), (-1.0, Codes.SUCCESSFUL),
     (-0.5, Codes.PATH_TOLERANCE_VIOLATED), (0.5, Codes.SUCCESSFUL)],
)  # fmt: skip
def test_tolerances_of_goals(peer, given, code):
    own = {f"constraints__{J1}__trajectory": 1e-7}
    assert peer.client.set_parameters(peer.controller, **own).successful
    goal = by(peer, 0.05 if peer.joints[J1] < HOME[J1] else -0.05, J1)
    call = peer.follow(smooth(goal, 0.5), path_tolerance=tolerances([J1], given))
    assert call.result()[1].error_code == code
    back = {f"constraints__{J1}__trajectory": math.nan}
    assert peer.client.set_parameters(peer.controller, **back).successful


def test_a_tolerance_of_an_unknown_joint(plain, peer):
    text = refused(plain, smooth(by(plain, 0.1), 1.0), goal_tolerance=tolerances(["joint_x"], 0.1))
    assert "joint_x" in text
    goal = by(peer, 0.05 if peer.joints[J1] < HOME[J1] else -0.05)
    unknown = tolerances(["joint_x"], 1e-9)
    call = peer.follow(smooth(goal, 0.5), path_tolerance=unknown, goal_tolerance=unknown)
    assert call.result()[0] == SUCCEEDED
    peer.arrives(goal)


def test_replacement(peer):
    start = peer.joints
    first = {j: start[j] + (0.3 if start[j] < HOME[j] else -0.3) for j in (J1, J2, J7)}
    old = peer.follow(smooth(first, 1.5))
    assert old.accepted()
    peer.moving(joints=[J7])
    new = {J1: peer.joints[J1]}
    short = peer.follow(smooth(new, 0.3))
    assert short.accepted()
    longer = {J2: start[J2]}
    third = peer.follow(smooth(longer, 2.0))
    status, result = old.result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert "preempted" in result.error_string
    assert short.result()[0] == SUCCEEDED
    assert third.result()[0] == SUCCEEDED
    peer.arrives({J7: first[J7], **longer})


def test_omitted_joints_hold(peer):
    before = peer.rest()
    goal = by(peer, -0.1 if peer.joints[J1] > HOME[J1] else 0.1, J1)
    assert peer.follow(smooth(goal, 0.4)).result()[0] == SUCCEEDED
    after = peer.rest()
    for joint in ARM[1:]:
        assert after[joint] == pytest.approx(before[joint], abs=1e-6)


def test_a_future_trajectory(peer):
    start = peer.joints[J1]
    away = 0.4 if start < HOME[J1] else -0.4
    old = peer.follow(smooth({J1: start + away}, 2.0))
    assert old.accepted()
    peer.moving(joints=[J1])
    stamp = peer.now + 0.6
    new = peer.follow(smooth({J1: start}, 1.0, stamp=stamp))
    assert new.accepted()
    peer.client.wait(lambda: peer.now > stamp - 0.1, "the start")
    peer.reports.clear()
    peer.client.wait(lambda: peer.reports, "a report")
    k = peer.reports.newest.joint_names.index(J1)
    assert peer.reports.newest.reference.velocities[k] * away > 0.0, "it follows the old one"
    assert old.result()[0] == ABORTED
    assert new.result()[0] == SUCCEEDED
    peer.arrives({J1: start})


def test_a_future_trajectory_waits(plain):
    before = plain.rest()
    goal = by(plain, 0.1, J1)
    stamp = plain.now + 0.6
    call = plain.follow(smooth(goal, 0.4, stamp=stamp))
    assert call.accepted()
    plain.states.clear()
    plain.client.wait(lambda: plain.states, "a state")
    message = next(m for m in plain.states.messages)
    if seconds(message.header.stamp) < stamp:  # this process may have paused
        at = message.position[message.name.index(J1)]
        assert at == pytest.approx(before[J1], abs=1e-6)
    assert call.result()[0] == SUCCEEDED


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cancel_decelerates(peer, sign):
    goal = {J1: peer.joints[J1] + 1.2 * sign}
    call = peer.follow(smooth(goal, 4.0))
    assert call.accepted()
    peer.moving(0.35, joints=[J1])
    peer.reports.clear()
    assert call.cancel()
    assert call.result()[0] == CANCELED
    peer.rest()
    k = peer.reports.messages[0].joint_names.index(J1)
    speeds = np.abs([m.reference.velocities[k] for m in peer.reports.messages])
    stamps = np.array([seconds(m.header.stamp) for m in peer.reports.messages])
    # Until the request arrives, which takes a while on a busy machine, the joint accelerates.
    first = int(np.argmax(speeds))
    assert speeds[first] > 0.2
    assert 0.2 < np.max(-np.diff(speeds[first:]) / np.diff(stamps[first:])) < 0.6
    places = [m.reference.positions[k] for m in peer.reports.messages]
    way = sign * (places[-1] - places[first])
    assert way == pytest.approx(speeds[first] ** 2 / (2.0 * 0.5), rel=0.25)


def test_cancel_along_the_path(plain):
    start = plain.joints
    goal = {J1: start[J1] + 0.5, J7: start[J7] - 0.5}
    call = plain.follow(smooth(goal, 1.5))
    assert call.accepted()
    plain.moving(0.3, joints=[J1])
    assert call.cancel()
    assert call.result()[0] == CANCELED
    stopped = plain.rest()
    assert stopped[J1] - start[J1] == pytest.approx(start[J7] - stopped[J7], abs=1e-4)


@pytest.mark.parametrize("last", [True, False])
def test_deactivation(plain, last):
    name = "set_last_command_interface_value_as_state_on_activation"
    assert plain.client.set_parameters(plain.controller, **{name: last}).successful
    call = plain.follow(smooth(by(plain, 0.3 if last else -0.3, J1), 1.5))
    assert call.accepted()
    plain.moving(joints=[J1])
    assert plain.client.change_state(plain.controller, "deactivate")
    assert call.result()[0] == ABORTED
    assert not plain.follow(smooth(HOME, 3.0)).accepted()
    answer = plain.client.call(QueryTrajectoryState, f"{plain.controller}/query_state")
    assert not answer.success
    held = plain.joints[J1]
    assert plain.client.change_state(plain.controller, "activate")
    plain.client.wait_for_diagnosis(plain.controller, "holding")
    assert plain.rest()[J1] == pytest.approx(held, abs=0.02)


def test_an_end_with_velocity(plain):
    names = [J1]
    message = trajectory(names, [[plain.joints[J1] + 0.05]], [0.5], [[0.1]])
    assert J1 in refused(plain, message)
    own = "allow_nonzero_velocity_at_trajectory_end"
    assert plain.client.set_parameters(plain.controller, **{own: True}).successful
    message = trajectory(names, [[plain.joints[J1] + 0.05]], [0.5], [[0.1]])
    assert plain.follow(message).result()[0] == SUCCEEDED
    assert plain.client.set_parameters(plain.controller, **{own: False}).successful


# ---- refused trajectories


GOOD = [HOME[j] for j in ARM]
WRONG = {
    "no joints": trajectory([], [[]], [1.0]),
    "no points": JointTrajectory(joint_names=ARM),
    "an unknown joint": trajectory(["joint_x"], [[0.0]], [1.0]),
    "too few positions": trajectory(ARM, [GOOD[:3]], [1.0]),
    "too many positions": trajectory(ARM, [[*GOOD, 0.0]], [1.0]),
    "too few velocities": trajectory(ARM, [GOOD], [1.0], [[0.0]]),
    "too few accelerations": trajectory(ARM, [GOOD], [1.0], [[0.0] * 7], [[0.0]]),
    "times that do not increase": trajectory(ARM, [GOOD, GOOD], [1.0, 1.0]),
    "no positions": trajectory(ARM, [[]], [1.0], [[0.0] * 7]),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_trajectories(cell, case):
    assert not cell.peer.follow(WRONG[case]).accepted()
    assert refused(cell.plain, WRONG[case])


def test_reasons(cell):
    velocity, plain = cell.velocity, ready(cell.plain)
    ready(velocity)
    assert J7 in refused(velocity, smooth(by(velocity, 0.1, J1), 1.0))
    message = smooth(by(plain, 0.1), 1.0)
    message.points[0].effort = [0.0] * 7
    assert "effort" in refused(plain, message)
    old = smooth(by(plain, 0.1), 1.0, stamp=plain.now - 5.0)
    status, result = plain.follow(old).result()
    assert (status, result.error_code) == (ABORTED, Codes.OLD_HEADER_TIMESTAMP)


def test_a_trajectory_that_has_begun(plain):
    here = plain.joints[J1]
    message = trajectory([J1], [[here], [here + 0.1]], [0.5, 2.5], stamp=plain.now - 1.0)
    call = plain.follow(message)
    assert call.result()[0] == SUCCEEDED
    first = seconds(call.feedback[0].feedback.desired.time_from_start)
    assert 0.9 < first < 2.5


def test_velocities_at_some_points(plain):
    here = plain.joints[J1]
    message = trajectory([J1], [[here], [here + 0.1]], [1.0, 2.0], [[0.0], []])
    assert "velocities" in refused(plain, message)


# ---- the topic and the state


def publish(arm: JointClient, message: JointTrajectory) -> None:
    publisher = arm.publisher(JointTrajectory, "joint_trajectory")
    arm.client.wait(lambda: publisher.get_subscription_count() > 0, "the subscription")
    publisher.publish(message)


def test_the_state(peer):
    goal = by(peer, 0.05 if peer.joints[J1] < HOME[J1] else -0.05)
    publish(peer, smooth(goal, 0.4))
    peer.moving(0.02)
    peer.arrives(goal, 1e-3)
    peer.reports.clear()
    peer.client.wait(lambda: len(peer.reports) > 20, "reports")
    first, last = peer.reports.messages[0], peer.reports.newest
    passed = seconds(last.header.stamp) - seconds(first.header.stamp)
    for part in ("reference", "feedback"):
        times = [seconds(getattr(m, part).time_from_start) for m in (first, last)]
        assert times[0] > 0.3
        assert times[1] - times[0] == pytest.approx(passed, abs=1e-6)
    assert last.joint_names == ARM
    for part, channels in (
        ("reference", ("positions", "velocities", "accelerations")),
        ("feedback", ("positions", "velocities")),
        ("error", ("positions", "velocities")),
        ("output", ("positions",)),
    ):
        assert {len(getattr(getattr(last, part), channel)) for channel in channels} == {7}
    error = np.subtract(last.reference.positions, last.feedback.positions)
    np.testing.assert_allclose(error, last.error.positions, atol=1e-12)


def test_speed_scaling(cell):
    assert cell.first_factor == 0.5
    plain = ready(cell.plain)
    scaled(plain, 0.5)
    publisher = plain.publisher(SpeedScalingFactor, "speed_scaling_input")
    plain.client.repeat_for(lambda: publisher.publish(SpeedScalingFactor(factor=-1.0)), 0.2)
    assert plain.client.get_parameter(
        plain.controller, "speed_scaling.initial_scaling_factor"
    ) == pytest.approx(0.5)
    goal = by(plain, -0.2 if plain.joints[J1] > HOME[J1] else 0.2)
    call = plain.follow(smooth(goal, 0.8))
    assert call.result()[0] == SUCCEEDED
    assert plain.reports.newest.speed_scaling_factor == 0.5
    last = call.feedback[-1].feedback
    actual, desired = (seconds(p.time_from_start) for p in (last.actual, last.desired))
    assert actual == pytest.approx(2.0 * desired, abs=0.05)
    back = by(plain, 0.2 if plain.joints[J1] < HOME[J1] else -0.2)
    assert plain.follow(smooth(back, 0.8)).accepted()
    plain.moving(joints=[J1])
    plain.reports.clear()
    assert plain.follow(smooth(goal, 0.8)).result()[0] == SUCCEEDED
    k = plain.reports.newest.joint_names.index(J1)
    positions = [m.reference.positions[k] for m in plain.reports.messages]
    assert np.abs(np.diff(positions)).max() < 0.05


def test_no_factor_above_1(plain):
    publisher = plain.publisher(SpeedScalingFactor, "speed_scaling_input")
    plain.client.repeat_for(lambda: publisher.publish(SpeedScalingFactor(factor=2.0)), 0.3)
    plain.reports.clear()
    plain.client.wait(lambda: plain.reports, "a report")
    assert plain.reports.newest.speed_scaling_factor == 1.0


def test_query_state(plain, peer):
    start = plain.joints[J1]
    call = plain.follow(smooth({J1: start + 0.2}, 1.0))
    assert call.accepted()
    plain.moving(0.02, joints=[J1])
    for ahead, low, high in ((0.1, 0.0, 0.2), (5.0, 0.2 - 1e-6, 0.2 + 1e-6)):
        answer = sampled(plain, ahead)
        assert answer.success
        moved = answer.position[answer.name.index(J1)] - start
        assert low < moved < high
    assert call.result()[0] == SUCCEEDED
    assert sampled(plain, 0.1).success
    assert not sampled(peer, 0.1).success
    goal = by(peer, 0.3 if peer.joints[J1] < HOME[J1] else -0.3)
    call = peer.follow(smooth(goal, 3.0))
    assert call.accepted()
    peer.moving(0.02, joints=[J1])
    answer, after = sampled(peer, 0.1), sampled(peer, 9.0)
    assert answer.success
    assert abs(answer.position[answer.name.index(J1)] - goal[J1]) < 0.3
    assert not after.success
    assert after.message
    assert call.result()[0] == SUCCEEDED
    assert not sampled(peer, 0.0).success


def sampled(arm: JointClient, ahead: float) -> Any:
    """Call query_state for a time from now [s]."""
    request = QueryTrajectoryState.Request()
    time = duration(arm.now + ahead)
    request.time.sec, request.time.nanosec = time.sec, time.nanosec
    return arm.client.call(QueryTrajectoryState, f"{arm.controller}/query_state", request)


# ---- velocity and effort interfaces


def test_the_velocity_interface(cell):
    arm = ready(cell.velocity)
    start = arm.rest()
    rows = [[0.2 if j == J1 else 0.0 for j in ARM], [0.0] * 7]
    message = trajectory(ARM, [[], []], [0.5, 1.0], rows)
    arm.commands.clear()
    assert arm.follow(message).result()[0] == SUCCEEDED
    sent = list(arm.commands.messages)
    assert arm.rest()[J1] - start[J1] == pytest.approx(0.1, abs=0.01)
    assert all(np.isnan(m.position).all() for m in sent)
    assert max(m.velocity[m.name.index(J1)] for m in sent) == pytest.approx(0.2, abs=0.05)


def test_upsampling(cell):
    arm = ready(cell.velocity)
    start = arm.rest()
    accelerations = [[a if j == J2 else 0.0 for j in ARM] for a in (0.0, 0.4, -0.4, 0.0)]
    message = trajectory(ARM, [[]] * 4, [0.2, 0.6, 1.0, 1.4], None, accelerations)
    assert arm.follow(message).result()[0] == SUCCEEDED
    arm.rest()
    rows = [[start[j] + d for j in ARM] for d in (0.02, 0.06, 0.08)]
    untimed = trajectory(ARM, rows, [0.0] * 3)
    arm.reports.clear()
    publish(arm, untimed)
    arm.arrives(dict(zip(ARM, rows[-1], strict=True)))
    arm.client.wait(lambda: reported(arm) > 0.75, "the report of its end")
    accelerated = [m.reference.accelerations[6] for m in arm.reports.messages]
    # It jumps where the motion begins and where the spline does.
    assert np.sort(np.abs(np.diff(accelerated)))[-3] < 1.0
    for k, time in enumerate((0.25, 0.5, 0.75)):
        assert referenced(arm, time) == pytest.approx(rows[k], abs=1e-3)
    for time, least in ((0.25, 0.0), (0.5, 0.1), (0.75, 0.0)):
        speed = referenced(arm, time, "velocities")[0]
        assert speed > least if least else abs(speed) < 0.05
    timed = trajectory(ARM, rows[::-1], [0.3, 0.5, 1.1])
    arm.reports.clear()
    publish(arm, timed)
    arm.arrives(dict(zip(ARM, rows[0], strict=True)))
    arm.client.wait(lambda: reported(arm) > 1.1, "the report of its end")
    for k, time in enumerate((0.3, 0.5, 1.1)):
        assert referenced(arm, time) == pytest.approx(rows[2 - k], abs=1e-3)
    assert "time of point" in refused(ready(cell.plain), trajectory([J1], [[0.0], [0.0]], [0, 0]))


def reported(arm: JointClient) -> float:
    """Return the time in its trajectory that a controller reported last [s]."""
    return seconds(arm.reports.newest.reference.time_from_start)


def referenced(arm: JointClient, time: float, channel: str = "positions") -> list[float]:
    """Return the references that were reported at a time of a trajectory, by joint."""
    found = {seconds(m.reference.time_from_start): m.reference for m in arm.reports.messages}
    times = sorted(found)
    rows = np.array([getattr(found[t], channel) for t in times])
    return [float(np.interp(time, times, column)) for column in rows.T]


def test_the_effort_interface(cell):
    arm = cell.effort
    arm.clear()
    arm.client.wait(lambda: arm.states and arm.reports and arm.commands, "the arm")
    here = arm.joints  # the robot without physics ignores efforts
    k = arm.commands.newest.name.index(J2)
    message = trajectory(ARM, [[here[j] + 0.01 for j in ARM]], [1.0])
    message.points[0].effort = [0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.5]
    arm.commands.clear()
    arm.reports.clear()
    call = arm.follow(message)
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.GOAL_TOLERANCE_VIOLATED)
    sent = np.array([m.effort for m in arm.commands.messages])
    early = [m.reference for m in arm.reports.messages if seconds(m.reference.time_from_start) < 1]
    holds(arm)
    assert all(np.isnan(m.position).all() for m in arm.commands.messages)
    assert any(0.5 < seconds(reference.time_from_start) for reference in early)
    for reference in early:
        assert reference.positions == pytest.approx([here[j] for j in ARM], abs=1e-9)
    assert np.nanmax(sent[:, k]) == pytest.approx(2.0 + 7.0 * 0.01, abs=0.2)
    assert np.nanmax(np.abs(sent[:, 6])) <= 0.2 + 1e-12
    assert arm.client.set_parameters(arm.controller, **{f"gains__{J2}__p": 100.0}).successful
    arm.commands.clear()
    message.points[0].effort = []
    arm.follow(message).result()
    sent = np.array([m.effort for m in arm.commands.messages])
    assert np.nanmax(sent[:, k]) == pytest.approx(1.0, abs=0.2)


def holds(arm: JointClient) -> None:
    """Check that the references come to rest and stay there."""
    arm.client.wait(lambda: not any(arm.reports.newest.reference.velocities), "rest")
    arm.reports.clear()
    arm.client.wait(lambda: len(arm.reports) > 10, "reports")
    rows = np.array([m.reference.positions for m in arm.reports.messages])
    assert np.abs(rows - rows[0]).max() < 1e-9


def test_cmd_timeout(cell):
    arm = cell.effort
    arm.clear()
    arm.client.wait(lambda: arm.states and arm.reports, "the arm")
    for goal_time, timeout, words in ((0.3, 0.6, "after the end"), (0.3, 0.2, "goal tolerance")):
        values = {"constraints__goal_time": goal_time, "cmd_timeout": timeout}
        assert arm.client.set_parameters(arm.controller, **values).successful
        message = trajectory(ARM, [[arm.joints[j] + 0.02 for j in ARM]], [0.3])
        goal_time_tolerance = duration(-1.0) if timeout > goal_time else duration(0.0)
        call = arm.follow(message, goal_time_tolerance=goal_time_tolerance)
        status, result = call.result()
        assert (status, result.error_code) == (ABORTED, Codes.GOAL_TOLERANCE_VIOLATED)
        assert words in result.error_string
        holds(arm)
    values = {"constraints__goal_time": 0.3, "cmd_timeout": 0.0}
    assert arm.client.set_parameters(arm.controller, **values).successful
    message = trajectory(ARM, [[arm.joints[j] + 0.02 for j in ARM]], [0.3])
    call = arm.follow(message, goal_time_tolerance=duration(-1.0))
    assert call.accepted()
    arm.client.spin(1.5)
    assert not call.done, "neither goal_time nor cmd_timeout ends it"
    assert call.cancel()
    assert call.result()[0] == CANCELED


# ---- parameters at the start


INVALID: dict[str, dict[str, Any]] = {
    "acceleration alone": {"command_interfaces": ["acceleration"]},
    "velocity and effort": {"command_interfaces": ["velocity", "effort"]},
    "an unknown interface": {"command_interfaces": ["torque"]},
    "an interface twice": {"command_interfaces": ["position", "position"]},
    "an unknown joint": {"joints": ["joint_x"]},
    "a negative factor": {"speed_scaling.initial_scaling_factor": -1.0},
    "an unknown interpolation": {"interpolation_method": "cubic"},
}


def test_parameters_that_prevent_the_start(module_suite):
    processes = {
        case: module_suite.node(
            "articulation_controller", namespace=f"bad{i}", robot="franka", **parameters
        )
        for i, (case, parameters) in enumerate(INVALID.items())
    }
    for case, process in processes.items():
        assert process.exit_code() == 1, case
        assert "cannot" in process.output


def test_lifecycle(cell):
    arm = cell.velocity
    for verb in ("deactivate", "cleanup", "configure", "activate"):
        assert arm.client.change_state(arm.controller, verb)
    assert arm.client.state(arm.controller) == "active"
    assert arm.client.get_parameter(arm.controller, "joints") == ARM
    for name in ("control_modes", "max_velocity", "max_effort", "kp"):
        assert len(arm.client.get_parameter(arm.controller, name)) == len(ARM)


# ---- interpolation, on the objects of the core


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_interpolation(degree):
    rng = np.random.default_rng(degree)
    coefficients = rng.uniform(-1.0, 1.0, (degree + 1, 2))

    def at(t: float) -> tuple[np.ndarray, ...]:
        powers = [np.array([math.perm(k, d) * t ** max(k - d, 0) for k in range(degree + 1)])
                  for d in range(3)]  # fmt: skip
        return tuple(row @ coefficients for row in powers)

    times = np.array([1.0, 1.7, 3.0])
    q, v, a = (np.array(rows) for rows in zip(*map(at, times), strict=True))
    path = CoreTrajectory(
        ("a", "b"), times, q, v if degree > 1 else None, a if degree > 3 else None
    )
    path = path.starting_from(TrajectorySample(*at(0.0)))
    for t in np.linspace(0.05, 2.95, 20):
        np.testing.assert_allclose(path.sample(float(t)).position, at(t)[0], atol=1e-9)


def test_no_interpolation():
    times, rows = np.array([1.0, 2.0, 3.0]), np.array([[0.5, -1.0], [2.0, -3.0], [4.0, 0.0]])
    path = CoreTrajectory(("a", "b"), times, rows, np.full((3, 2), 0.7), stepped=True)
    before = np.array([0.1, 0.2])
    path = path.starting_from(TrajectorySample(before, np.ones(2), np.zeros(2)))
    for t, target in (
        (0.0, before), (0.5, before), (0.999, before), (1.0, rows[1]), (1.5, rows[1]),
        (2.0, rows[2]), (2.5, rows[2]), (3.0, rows[2]), (9.0, rows[2]),
    ):  # fmt: skip
        np.testing.assert_array_equal(path.sample(t).position, target)


def test_what_is_not_upsampled():
    rows, times = [[0.0], [0.1], [0.2]], [0.05, 0.1, 0.15]
    own = trajectory([J1], rows, times, [[0.0], [0.5], [0.0]])
    upsampling = TrajectoryRules(upsampling=30.0)
    np.testing.assert_array_equal(
        trajectory_from(own, [J1], upsampling).velocities, [[0.0], [0.5], [0.0]]
    )
    plain = trajectory([J1], rows, times)
    assert trajectory_from(plain, [J1], upsampling).velocities is not None
    assert trajectory_from(plain, [J1], TrajectoryRules()).velocities is None
    untimed = trajectory([J1], rows, [0.0] * 3)
    np.testing.assert_allclose(
        trajectory_from(untimed, [J1], upsampling).times, np.arange(1, 4) / 30.0
    )
    with pytest.raises(InvalidCommand, match="time of point"):
        trajectory_from(untimed, [J1], TrajectoryRules(upsampling=0.0))

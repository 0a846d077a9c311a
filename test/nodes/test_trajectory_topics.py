# SPDX-License-Identifier: Apache-2.0
"""Topics and services of the joint trajectory controller over DDS, on the mock robot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from control_msgs.srv import QueryTrajectoryState
from joint_client import (
    ABORTED,
    ARM,
    CONTROLLER,
    FRANKA,
    HOME,
    SUCCEEDED,
    JointClient,
    duration,
    smooth,
    trajectory,
)
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
J1, J2, J7 = ARM[0], ARM[1], ARM[6]
JOINTS = list(FRANKA.joint_names)


@pytest.fixture
def arm(controlled_arm: JointClient) -> JointClient:
    """The arm at home and at rest."""
    controlled_arm.rest_at_home()
    return controlled_arm


def send(
    arm: JointClient, kind: Any, topic: str, message: Any, until: Callable[[], Any], what: str
) -> None:
    """Send until a condition holds: the first message may precede discovery."""
    publisher = arm.publisher(kind, topic)
    arm.client.repeat(lambda: publisher.publish(message), until, what, rate=2.0)


def refused(arm: JointClient, kind: Any, topic: str, message: Any, text: str) -> None:
    """Send a message that must be refused, and check that nothing moves."""
    before = arm.reference()
    send(arm, kind, topic, message, lambda: text in arm.last_warning(), f"'{text}'")
    assert arm.reference() == before


@pytest.mark.long
def test_a_trajectory_on_the_topic(arm):
    goal = {J1: 0.3, J7: HOME[J7] - 0.2}
    send(arm, JointTrajectory, "joint_trajectory", smooth(goal, 0.8),
         lambda: arm.away(goal) < 1e-4, "the goal")  # fmt: skip
    assert arm.away({n: q for n, q in HOME.items() if n not in goal}) < 1e-6


def test_bad_trajectories_on_the_topic(arm):
    for message, text in (
        (trajectory(["panda_jiont1"], [[0.1]], [1.0]), "Did you mean 'panda_joint1'?"),
        (trajectory([J1], [[0.1], [0.2]], [1.0, 0.5]), "is not after that of point 0"),
        (trajectory([J1], [], []), "the trajectory has no points"),
        (smooth({J1: 0.1}, 0.5, stamp=0.001), "it has ended"),
    ):
        refused(arm, JointTrajectory, "joint_trajectory", message, text)
    assert arm.last_warning().startswith("trajectory refused, nothing moves: ")


@pytest.mark.long
def test_as_rqt_joint_trajectory_controller_sends_and_reads(arm):
    """One point for all joints every 0.1 s, timed by the measured distance at max velocity."""
    limit = dict(zip(JOINTS, FRANKA.limits.velocity, strict=True))
    sliders = {name: HOME[name] + (1.2 if name == J1 else -0.2) for name in ARM}
    publisher = arm.publisher(JointTrajectory, "joint_trajectory")
    arm.clear()
    arm.client.wait(lambda: arm.reports, "controller_state")

    def at() -> dict[str, float]:
        message = arm.reports.newest
        return dict(zip(message.joint_names, message.feedback.positions, strict=True))

    def command() -> None:
        now = at()
        seconds = max(max(abs(q - now[n]) / limit[n], 0.5) for n, q in sliders.items())
        publisher.publish(trajectory(list(sliders), [list(sliders.values())], [seconds]))

    arm.client.repeat(
        command,
        lambda: max(abs(at()[n] - q) for n, q in sliders.items()) < 1e-3,
        "the sliders' positions",
        rate=10.0,
    )
    assert "refused" not in arm.last_warning() or "would have to move" not in arm.last_warning()
    for message in arm.reports.messages:
        speeds = np.abs(message.reference.velocities)
        assert (speeds <= FRANKA.limits.velocity * (1 + 1e-6)).all()


def test_commands_are_one_value_per_joint(arm):
    values = [HOME[name] for name in JOINTS]
    values[0], values[6] = 0.3, math.nan
    send(arm, Float64MultiArray, "commands", Float64MultiArray(data=values),
         lambda: arm.away({J1: 0.3}) < 1e-4, "the command")  # fmt: skip
    assert arm.away({name: q for name, q in HOME.items() if name != J1}) < 1e-6


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.1] * 7, "7 values on ~/commands for 9 joints (panda_joint1, "),
        ([], "0 values on ~/commands for 9 joints"),
        ([0.0, 9.0] + [math.nan] * 7, "position 9 of joint panda_joint2 is outside its limits"),
        ([math.inf] + [math.nan] * 8, "positions of joint panda_joint1 is inf"),
    ],
)
def test_bad_commands(arm, values, text):
    refused(arm, Float64MultiArray, "commands", Float64MultiArray(data=values), text)


def test_commands_go_to_the_channel_of_each_mode(arm):
    client = arm.client
    modes = ["velocity" if n == J7 else "effort" if n == J2 else "position" for n in JOINTS]
    assert client.set_parameters(CONTROLLER, control_modes=modes).successful
    try:
        values = [math.nan] * 9
        values[0], values[1], values[6] = 0.2, 7.5, 0.25
        client.wait(lambda: arm.commands, "commands")
        out = {n: i for i, n in enumerate(arm.commands.newest.name)}
        seen = []

        def done() -> bool:
            # Velocities and efforts end soon after the last command: look for both at once.
            newest = arm.commands.newest
            both = newest.velocity[out[J7]], newest.effort[out[J2]]
            if both == pytest.approx((0.25, 7.5)) and abs(arm.speed([J7]) - 0.25) < 1e-6:
                seen.append(newest)
            return bool(seen) and arm.away({J1: 0.2}) < 1e-4

        send(
            arm, Float64MultiArray, "commands", Float64MultiArray(data=values), done, "the command"
        )
        message = seen[-1]
        for name in (J2, J7):
            assert math.isnan(message.position[out[name]])
        assert math.isnan(message.velocity[out[J2]])
        call = arm.follow(smooth({J7: HOME[J7]}, 1.0))
        status, result = call.result()
        assert status == ABORTED
        assert result.error_string == (
            f"joint {J7} is under velocity control; trajectories need position control"
        )
    finally:
        assert client.set_parameters(CONTROLLER, control_modes=["position"]).successful
    # Back in position mode, joints hold their positions.
    rested = arm.rest(1e-6)
    client.spin(0.2)
    assert arm.away(rested) < 1e-6


def query(arm: JointClient, at: float) -> Any:
    time = duration(at)
    request = QueryTrajectoryState.Request()
    request.time.sec, request.time.nanosec = time.sec, time.nanosec
    return arm.client.call(QueryTrajectoryState, f"{CONTROLLER}/query_state", request)


def test_query_state(arm):
    answer = query(arm, 0.0)
    assert answer.success
    assert list(answer.name) == JOINTS
    assert list(answer.position) == pytest.approx([HOME[n] for n in JOINTS], abs=1e-9)
    assert list(answer.velocity) == [0.0] * 9
    assert list(answer.acceleration) == [0.0] * 9
    arm.pause("/mock_sim", True)  # so that the trajectory begins in the future, whatever the delay
    try:
        begin = arm.now + 0.5
        call = arm.follow(smooth({J1: 0.8}, 2.0, stamp=begin))
        assert call.accepted()
        for ahead in (0.5, 1.0, 1.5):
            answer = query(arm, begin + ahead)
            s = ahead / 2.0
            assert answer.success
            assert answer.position[0] == pytest.approx(0.8 * (3 - 2 * s) * s**2, abs=0.02)
            assert answer.velocity[0] == pytest.approx(0.8 * 6 * s * (1 - s) / 2.0, abs=0.03)
            assert answer.position[1] == pytest.approx(HOME[J2], abs=1e-9)
    finally:
        arm.pause("/mock_sim", False)
    assert call.result()[0] == SUCCEEDED


def test_query_of_an_inactive_node(arm):
    assert arm.client.change_state(CONTROLLER, "deactivate")
    answer = query(arm, 0.0)
    assert (answer.success, answer.message) == (False, "the controller is not active")
    answer = arm.client.call(Trigger, f"{CONTROLLER}/reset")
    assert (answer.success, answer.message) == (False, "the controller is not active")
    publisher = arm.publisher(JointTrajectory, "joint_trajectory")
    publisher.publish(smooth({J1: 0.3}, 0.3))
    assert arm.client.change_state(CONTROLLER, "activate")
    arm.wait_for()
    arm.client.spin(0.3)
    assert arm.away(HOME) < 1e-6, "commands to an inactive node are dropped"


def test_reset_forgets_everything(arm):
    call = arm.follow(smooth({J1: 0.8}, 2.0))
    assert call.accepted()
    arm.moving(0.1)
    answer = arm.client.call(Trigger, f"{CONTROLLER}/reset")
    assert (answer.success, answer.message) == (True, "holding the measured positions")
    status, result = call.result()
    assert (status, result.error_string) == (ABORTED, "the controller was reset")
    # The simulation follows the stream with a delay of a few milliseconds.
    arm.client.spin(0.2)
    rested = arm.rest()
    arm.client.spin(0.2)
    assert arm.away(rested) < 1e-6
    assert rested[J1] < 0.7


def test_controller_state(arm):
    goal = {J1: 0.5}
    call = arm.follow(smooth(goal, 0.8))
    arm.clear()
    assert call.result()[0] == SUCCEEDED
    arm.client.wait(lambda: len(arm.reports) > 20, "reports")
    stamps = []
    for message in arm.reports.messages:
        assert list(message.joint_names) == JOINTS
        reference, feedback, error = (
            np.array([p.positions, p.velocities])
            for p in (message.reference, message.feedback, message.error)
        )
        assert reference.shape == (2, 9)
        np.testing.assert_allclose(reference - feedback, error, atol=1e-12)
        np.testing.assert_allclose(message.output.positions, message.reference.positions)
        assert message.speed_scaling_factor == 1.0
        stamps.append(message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec)
    assert stamps == sorted(stamps)
    periods = np.diff(stamps)
    # At most every 20 ms; any number may be lost under load.
    assert np.median(periods) > 0.015


def test_a_stream_from_sliders_moves_smoothly(arm):
    """As from joint_state_publisher_gui: all joints in each message, at a fixed rate."""
    publisher = arm.publisher(JointState, "reference")
    goal = HOME | {J1: 0.4, J2: HOME[J2] - 0.2}
    message = JointState(name=JOINTS, position=[goal[n] for n in JOINTS])
    arm.clear()
    arm.client.wait(lambda: arm.states, "states")
    arm.client.repeat(lambda: publisher.publish(message), lambda: arm.away(goal) < 1e-4,
                      "the sliders' positions", rate=30.0)  # fmt: skip
    positions = np.array([m.reference.positions for m in arm.reports.messages])
    assert np.abs(np.diff(positions, axis=0)).max() < 0.02 * 2.2 * 3

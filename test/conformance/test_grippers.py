# SPDX-License-Identifier: Apache-2.0
"""gripper_controllers and parallel_gripper_controller of ros2_controllers, as a client sees them.

A hand of its own node, as a user's controllers.yaml names it, on a robot without physics, and the
criteria of a stall on the object of the core.
"""

import math
from typing import Any

import numpy as np
import pytest
from control_msgs.action import GripperCommand, ParallelGripperCommand
from joint_client import ABORTED, CANCELED, FINGERS, SUCCEEDED, JointClient

from motion_nodes.core.control.gripper import GripperConfig, GripperMove, GripStatus

pytestmark = pytest.mark.timeout(900)
HAND = "/panda_hand_controller"
COMMAND = f"{HAND}/gripper_cmd"
PARALLEL_COMMAND = "/parallel_gripper_action_controller/gripper_cmd"


@pytest.fixture(scope="module")
def hand(module_suite, module_client):
    """A hand with a node of its own, with the defaults of ros2_controllers."""
    robots = ["franka", "ours:=franka", "strong:=franka"]
    module_suite.node("mock_sim", robots=robots, update_rate=100.0)
    module_suite.node(
        "articulation_controller", name=HAND.strip("/"), robot="franka", use_sim_time=True,
        update_rate=100.0, joints=FINGERS, peer_defaults=True,
        **{"gripper.aliases": [HAND.strip("/")], "gripper.parallel_aliases": ["jaws"]},
    )  # fmt: skip
    hand = JointClient(module_client, HAND)
    hand.wait_for()
    yield hand
    hand.close()


@pytest.fixture(scope="module")
def ours(hand, module_suite, module_client):
    """A hand with the suite's defaults."""
    module_suite.node(
        "articulation_controller", namespace="ours", robot="franka", use_sim_time=True,
        update_rate=100.0, joints=FINGERS,
    )  # fmt: skip
    made = JointClient(module_client, namespace="/ours")
    made.wait_for()
    yield made
    made.close()


def parallel(*positions: float, **more: Any) -> ParallelGripperCommand.Goal:
    goal = ParallelGripperCommand.Goal()
    goal.command.position = list(positions)
    for name, value in more.items():
        setattr(goal.command, name, value)
    return goal


def single(position: float, max_effort: float = 0.0) -> GripperCommand.Goal:
    goal = GripperCommand.Goal()
    goal.command.position, goal.command.max_effort = position, max_effort
    return goal


def test_a_goal_is_reached(hand):
    for position in (0.01, 0.035):
        status, result = hand.send(single(position), GripperCommand, COMMAND).result()
        assert (status, result.reached_goal, result.stalled) == (SUCCEEDED, True, False)
        assert result.position == pytest.approx(position, abs=0.01)
        hand.arrives(dict.fromkeys(FINGERS, position))


def test_a_parallel_goal_is_reached(hand):
    for position, name in ((0.02, PARALLEL_COMMAND), (0.03, "/jaws/gripper_cmd")):
        call = hand.send(parallel(position), ParallelGripperCommand, name)
        status, result = call.result()
        assert (status, result.reached_goal, result.stalled) == (SUCCEEDED, True, False)
        assert result.state.position[0] == pytest.approx(position, abs=0.01)
        assert len(result.state.effort) == len(result.state.position)


@pytest.mark.parametrize("positions", [(), (0.01, 0.02, 0.03), (math.nan,)])
def test_wrong_numbers_of_positions(hand, positions):
    goal = parallel(*positions)
    assert not hand.send(goal, ParallelGripperCommand, PARALLEL_COMMAND).accepted()


def test_positions_beyond_the_limits(hand):
    assert not hand.send(single(0.5), GripperCommand, COMMAND).accepted()


@pytest.mark.parametrize("kind", ["single", "parallel"])
def test_cancel(hand, kind):
    assert hand.send(single(0.039), GripperCommand, COMMAND).result()[0] == SUCCEEDED
    slow = {"max_velocity": [0.01]}
    assert hand.client.set_parameters(hand.controller, **slow).successful
    if kind == "single":
        call = hand.send(single(0.0), GripperCommand, COMMAND)
    else:
        call = hand.send(parallel(0.0), ParallelGripperCommand, PARALLEL_COMMAND)
    assert call.accepted()
    hand.moving(0.004)
    assert call.cancel()
    assert call.result()[0] == CANCELED
    assert hand.rest()[FINGERS[0]] > 0.01
    back = {"max_velocity": [0.05]}
    assert hand.client.set_parameters(hand.controller, **back).successful


def test_preemption(hand, ours):
    for each, command, status in (
        (hand, COMMAND, CANCELED),
        (ours, "/ours/gripper_action_controller/gripper_cmd", ABORTED),
    ):
        assert each.send(single(0.035), GripperCommand, command).result()[0] == SUCCEEDED
        first = each.send(single(0.0), GripperCommand, command)
        assert first.accepted()
        second = each.send(single(0.03), GripperCommand, command)
        assert second.result()[0] == SUCCEEDED
        assert first.result()[0] == status
        each.arrives(dict.fromkeys(FINGERS, 0.03))


def test_lifecycle_and_parameters(hand):
    for verb in ("deactivate", "activate"):
        assert hand.client.change_state(hand.controller, verb)
        if verb == "deactivate":
            assert not hand.send(single(0.01), GripperCommand, COMMAND).accepted()
    hand.rest()  # reports begin with the first state after the activation
    for name, value in (
        ("goal_tolerance", 0.01), ("stall_timeout", 1.0), ("stall_velocity_threshold", 0.001),
        ("allow_stalling", False),
    ):  # fmt: skip
        assert hand.client.get_parameter(hand.controller, f"gripper.{name}") == value
    assert hand.client.get_parameter(hand.controller, "joints") == FINGERS
    assert hand.send(single(0.02), GripperCommand, COMMAND).result()[0] == SUCCEEDED


def test_the_effort_of_a_goal(hand, module_suite, module_client):
    module_suite.node(
        "articulation_controller", namespace="strong", robot="franka", use_sim_time=True,
        update_rate=100.0, joints=FINGERS, command_interface="effort",
        gravity_compensation=False, inertia_compensation=False,
        **{f"gains.{finger}.p": 2000.0 for finger in FINGERS},
    )  # fmt: skip
    strong = JointClient(module_client, namespace="/strong")
    strong.wait_for()
    # The robot without physics ignores efforts, so the error remains.
    to = 0.0 if strong.joints[FINGERS[0]] > 0.02 else 0.04
    for effort in (3.0, 7.0):
        strong.commands.clear()
        goal = parallel(to, effort=[effort])
        strong.send(goal, ParallelGripperCommand, f"/strong{PARALLEL_COMMAND}").result()
        sent = np.array([m.effort for m in strong.commands.messages])
        assert np.nanmax(np.abs(sent)) == pytest.approx(effort)
    strong.close()


def test_efforts(hand, ours):
    goal = parallel(0.03, effort=[5.0])
    assert hand.send(goal, ParallelGripperCommand, PARALLEL_COMMAND).result()[0] == SUCCEEDED
    goal = parallel(0.02, effort=[-5.0])
    assert hand.send(goal, ParallelGripperCommand, PARALLEL_COMMAND).result()[0] == SUCCEEDED
    hand.arrives(dict.fromkeys(FINGERS, 0.02))
    before = ours.rest()
    call = ours.send(goal, ParallelGripperCommand, f"/ours{PARALLEL_COMMAND}")
    assert call.result()[0] == ABORTED
    assert ours.away(before) < 1e-3
    nan = parallel(0.03, effort=[math.nan])
    assert not hand.send(nan, ParallelGripperCommand, PARALLEL_COMMAND).accepted()


def test_stall():
    config = GripperConfig(lower=0.0, upper=0.04, stall_timeout=1.0, goal_tolerance=0.01)

    def after(seconds: float, position: float, speed: float) -> GripStatus:
        move = GripperMove(0.0, config)
        for _ in range(round(seconds / 0.01)):
            move.evaluate(position, speed, 0.01, reference=0.0)
        return move.status

    assert after(0.9, 0.02, 0.0) is GripStatus.MOVING
    assert after(1.1, 0.02, 0.0) is GripStatus.STALLED
    assert after(2.0, 0.02, -0.01) is GripStatus.MOVING
    assert after(0.1, 0.009, 0.0) is GripStatus.REACHED

# SPDX-License-Identifier: Apache-2.0
"""The Franka's hand in MuJoCo: opens and closes by its actions while the arm moves."""

import itertools

import pytest
from control_msgs.action import GripperCommand
from joint_client import ARM, FINGERS, HOME, SUCCEEDED, Call, JointClient, smooth
from sensor_msgs.msg import JointState

from motion_nodes.bringup.node_specs import ALONE
from motion_nodes.nodes.articulation.gripper_actions import COMMAND_NAMES

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def arm(module_suite, module_client):
    """The arm at home under the bring-up's composition."""
    module_suite.bring_up("franka", without=ALONE)
    arm = JointClient(module_client)
    arm.wait_for()
    yield arm
    arm.close()


def fingers_at(arm: JointClient, position: float) -> None:
    """Wait for a position of the fingers [m]: states may arrive after the result."""
    goal = dict.fromkeys(FINGERS, position)
    arm.client.wait(lambda: arm.away(goal) < 0.004, f"fingers at {position}")


def grip(arm: JointClient, position: float, name: str) -> Call:
    goal = GripperCommand.Goal()
    goal.command.position = position
    return arm.send(goal, GripperCommand, f"/{name}")


def test_arm_and_gripper_at_the_same_time(arm):
    goal = {name: HOME[name] + 0.3 for name in ARM}
    move = arm.follow(smooth(goal, 2.5))
    assert move.accepted()
    arm.moving(0.1, ARM)
    status, result = grip(arm, 0.03, COMMAND_NAMES[0]).result()
    assert (status, result.reached_goal) == (SUCCEEDED, True)
    assert not move.done
    assert move.result()[0] == SUCCEEDED
    arm.arrives(goal)
    fingers_at(arm, 0.03)


def test_a_weak_grip_arrives_and_never_pushes_harder(arm):
    goal = GripperCommand.Goal()
    goal.command.position, goal.command.max_effort = 0.01, 4.0
    arm.clear()
    status, result = arm.send(goal, GripperCommand, f"/{COMMAND_NAMES[0]}").result()
    assert (status, result.reached_goal) == (SUCCEEDED, True)
    arm.client.spin(0.2)

    def moves(message: JointState) -> bool:
        pairs = zip(message.name, message.velocity, strict=True)
        return max(abs(v) for name, v in pairs if name in FINGERS) > 0.005

    # Before the motion the previous bound applies.
    since = list(itertools.dropwhile(lambda message: not moves(message), arm.states.messages))
    assert len(since) > 20
    efforts = [
        abs(effort)
        for message in since
        for name, effort in zip(message.name, message.effort, strict=True)
        if name in FINGERS
    ]
    # A late state, under load, permits a greater effort until the next one.
    efforts.sort()
    assert 0.0 < efforts[int(0.95 * len(efforts))] < 4.5
    assert efforts[-1] < 6.0

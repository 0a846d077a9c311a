# SPDX-License-Identifier: Apache-2.0
"""Goals of the FollowJointTrajectory action that are refused, each with its own reason."""

from __future__ import annotations

import math

import pytest
from control_msgs.action import FollowJointTrajectory
from joint_client import (
    ABORTED,
    ARM,
    CANCELED,
    HOME,
    Codes,
    JointClient,
    smooth,
    tolerances,
    trajectory,
)
from trajectory_msgs.msg import MultiDOFJointTrajectoryPoint

pytestmark = pytest.mark.timeout(900)
J1, J2 = ARM[:2]


@pytest.fixture
def arm(controlled_arm: JointClient) -> JointClient:
    """The arm at home and at rest."""
    return controlled_arm


NAN = math.nan
START = [HOME[J1], HOME[J2]]
BAD = {
    "unsorted times": (
        trajectory([J1], [[0.1], [0.2]], [1.0, 0.5]),
        "time of point 1 (0.5 s) is not after that of point 0 (1 s)",
    ),
    "equal times": (
        trajectory([J1], [[0.1], [0.2]], [1.0, 1.0]),
        "time of point 1 (1 s) is not after that of point 0 (1 s)",
    ),
    "negative time": (trajectory([J1], [[0.1]], [-1.0]), "times of a trajectory must be"),
    "missing positions": (
        trajectory([J1, J2], [[0.1, -0.7], []], [1.0, 2.0]),
        "point 1 has no positions for 2 joints",
    ),
    "velocities alone": (
        trajectory([J1], [[]], [1.0], [[0.1]]),
        "point 0 has no positions; velocities alone are integrated with allow_integration",
    ),
    "too few positions": (
        trajectory([J1, J2], [[0.1]], [1.0]), "point 0 has 1 positions for 2 joints"
    ),
    "too many velocities": (
        trajectory([J1], [[0.1]], [1.0], [[0.0, 0.0]]), "point 0 has 2 velocities for 1 joints"
    ),
    "velocities at some points": (
        trajectory([J1], [[0.1], [0.2]], [1.0, 2.0], [[0.0], []]),
        "point 1 has no velocities for 1 joints",
    ),
    "accelerations without velocities": (
        trajectory([J1], [[0.1]], [1.0], None, [[0.0]]), "needs velocities too"
    ),
    "no joints": (trajectory([], [[]], [1.0]), "the trajectory names no joints"),
    "no points": (trajectory([J1], [], []), "the trajectory has no points"),
    "a joint twice": (
        trajectory([J1, J1], [[0.1, 0.1]], [1.0]), f"names joint {J1} more than once"
    ),
    "NaN": (
        trajectory([J1, J2], [[0.1, -0.7], [0.1, NAN]], [1.0, 2.0]),
        f"positions of joint {J2} at point 1 are nan",
    ),
    "NaN velocity": (
        trajectory([J1], [[0.1]], [1.0], [[NAN]]), f"velocities of joint {J1} at point 0 are nan"
    ),
    "starts elsewhere": (
        trajectory([J1, J2], [[START[0], START[1] + 0.2], [0.1, -0.7]], [0.0, 1.0]),
        f"the trajectory starts with joint {J2} at -0.5850, but it is at -0.7850; they may differ "
        "by 0.1",
    ),
    "outside position limits": (
        trajectory([J1, J2], [[0.1, -0.7], [3.5, -0.7]], [4.0, 8.0]),
        f"position 3.5 of joint {J1} at point 1 is outside its limits",
    ),
    "too fast": (
        trajectory([J1], [[1.0]], [0.1]),
        f"joint {J1} would have to move at",
    ),
    "velocity beyond limits": (
        trajectory([J1], [[0.1], [0.2]], [1.0, 2.0], [[9.0], [0.0]]),
        f"velocity 9 of joint {J1} at point 0 exceeds its limit",
    ),
    "acceleration beyond limits": (
        trajectory([J1], [[0.1], [0.2]], [1.0, 2.0], [[0.1], [0.0]], [[99.0], [0.0]]),
        f"acceleration 99 of joint {J1} at point 0 exceeds its limit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_goals_say_what_is_wrong(arm, case):
    message, text = BAD[case]
    status, result = arm.follow(message).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert text in result.error_string
    assert arm.reference() == pytest.approx(HOME, abs=1e-9)


def test_an_unknown_joint_has_a_code_of_its_own(arm):
    status, result = arm.follow(trajectory(["panda_jiont1"], [[0.1]], [1.0])).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_JOINTS)
    assert "Did you mean 'panda_joint1'?" in result.error_string
    message = smooth({J1: 0.1}, 1.0)
    status, result = arm.follow(message, goal_tolerance=tolerances([J2], 0.1)).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_JOINTS)
    assert f"joint '{J2}' is not known in the goal's tolerances" in result.error_string


def test_other_wishes_that_make_no_sense(arm):
    message = smooth({J1: 0.1}, 1.0)
    status, result = arm.follow(message, path_tolerance=tolerances([J1], math.inf)).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert f"a tolerance of joint {J1} is inf" in result.error_string
    goal = FollowJointTrajectory.Goal(trajectory=message)
    goal.multi_dof_trajectory.points = [MultiDOFJointTrajectoryPoint()]
    status, result = arm.send(goal).result()
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert "multi_dof_trajectory" in result.error_string


@pytest.mark.long
def test_huge_trajectories_are_refused(arm):
    """Refused by their length alone, while the motion under way continues."""
    count = 200_000
    message = trajectory([J1], [[0.0]], [1.0])
    message.points = message.points * count
    goal = arm.follow(smooth({J1: 2.0, J2: HOME[J2] + 0.8}, 30.0))
    assert goal.accepted()
    arm.moving()
    huge = arm.follow(message)
    status, result = huge.result(within=30.0)
    assert (status, result.error_code) == (ABORTED, Codes.INVALID_GOAL)
    assert "points has 200000 entries; allowed are 100000" in result.error_string
    assert not goal.done
    assert goal.cancel()
    assert goal.result()[0] == CANCELED

# SPDX-License-Identifier: Apache-2.0
"""Goals on the other side of the floor: the reason names the joint and the same angle this side."""

import math
import re

import numpy as np
import pytest

from motion_nodes.core.planning.pipeline import plan
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.planning.separation import separation
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scenery import floor_of


@pytest.fixture(scope="module", params=["ur10e"])
def arm(request):
    robot = load_robot(request.param)
    group = robot.group("arm")
    checker = CollisionChecker(robot, group.joints, scene=floor_of(robot).scene())
    return checker, robot.home[group.indices]


def free(checker: CollisionChecker, rng: np.random.Generator) -> np.ndarray:
    """Return a random collision-free configuration."""
    while True:
        q = rng.uniform(checker.limits.lower, checker.limits.upper)
        if checker.exact.is_free(q):
            return q


def test_the_reason_names_a_joint_and_the_same_angle_on_this_side(arm):
    checker, home = arm
    lift = checker.joint_names.index("shoulder_lift_joint")
    goal = home.copy()
    goal[lift] += math.tau if home[lift] < 0.0 else -math.tau
    found = plan(PlanRequest(checker, home, (JointGoal(goal),), timeout=0.3)).result
    assert found.path is None
    assert "shoulder_lift_joint would have to pass" in found.reason
    assert "floor" in found.reason
    (same,) = re.findall(r"; (\S+) is the same angle", found.reason)
    assert float(same) == pytest.approx(home[lift], abs=1e-3)


def test_goals_that_are_reached_are_not_separated(arm):
    checker, home = arm
    rng, reached = np.random.default_rng(3), 0
    for _ in range(6):
        goal = free(checker, rng)
        text = separation(checker, home, goal)
        found = plan(PlanRequest(checker, home, (JointGoal(goal),), timeout=0.5)).result
        assert not (text and found.path is not None), text
        reached += found.path is not None
    assert reached >= 2

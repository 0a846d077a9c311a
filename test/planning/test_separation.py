# SPDX-License-Identifier: Apache-2.0
"""Goals on the other side of the floor: the reason names the joint and the same angle this side."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from motion_nodes.core.planning import pipeline
from motion_nodes.core.planning.pipeline import plan
from motion_nodes.core.planning.plan_run import PlanOptions
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest, PlanStatus
from motion_nodes.core.planning.rrt_connect import RrtConnectSettings
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


def beyond_the_floor(arm) -> PlanRequest:
    """Return a request to the same pose with the shoulder turned once, through the floor."""
    checker, home = arm
    lift = checker.joint_names.index("shoulder_lift_joint")
    goal = home.copy()
    goal[lift] += math.tau if home[lift] < 0.0 else -math.tau
    return PlanRequest(checker, home, (JointGoal(goal),), timeout=0.3)


@pytest.mark.parametrize("max_iterations", [0, 1000])
def test_the_reason_names_a_joint_and_the_same_angle_on_this_side(arm, max_iterations):
    """Whether the time or the number of iterations ends the search."""
    checker, home = arm
    lift = checker.joint_names.index("shoulder_lift_joint")
    options = PlanOptions(settings=RrtConnectSettings(max_iterations=max_iterations))
    found = plan(beyond_the_floor(arm), options).result
    assert found.path is None
    bounded = PlanStatus.ITERATION_LIMIT if max_iterations else PlanStatus.TIMED_OUT
    assert found.status is bounded
    assert "shoulder_lift_joint would have to pass" in found.reason
    assert "floor" in found.reason
    (same,) = re.findall(r"; (\S+) is the same angle", found.reason)
    assert float(same) == pytest.approx(home[lift], abs=1e-3)


def test_the_bound_of_the_first_search_is_not_told(arm, monkeypatch):
    monkeypatch.setattr(pipeline, "SOON", 100)
    request = replace(beyond_the_floor(arm), timeout=1e-3)
    found = plan(request).result
    assert (found.path, found.status) == (None, PlanStatus.TIMED_OUT)
    assert "iterations" not in found.reason


def test_a_plan_that_is_cancelled_between_searches_is_cancelled(arm, monkeypatch):
    monkeypatch.setattr(pipeline, "SOON", 100)
    searches = []

    def search(run, request, first):
        found = pipeline.search(run, request, first)
        searches.append(found.result.status)
        return found

    monkeypatch.setattr(pipeline, "DEFAULT", pipeline.DEFAULT._replace(search=search))
    request = replace(beyond_the_floor(arm), cancelled=lambda: bool(searches))
    found = plan(request).result
    assert searches[0] is PlanStatus.ITERATION_LIMIT
    assert found.status is PlanStatus.CANCELLED


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

# SPDX-License-Identifier: Apache-2.0
"""Self-collision avoidance: generated code against formulas, and its effect."""

import dataclasses

import numpy as np
import pytest
from rmpflow import rmp_cases

from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.files.rmpflow_file import read_rmpflow
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings, SelfCollision
from motion_nodes.core.scene.checker import CollisionChecker

ON = SelfCollision(metric_scalar=1e3, metric_modulation_radius=0.1)
ROBOTS = ("franka", "ur10e")
INSIDE = (-0.1613, -0.0029, 0.1003)  # near the foot of the Panda


def evaluator(name, leaf=ON):
    robot = load_robot(name)
    settings = dataclasses.replace(rmp_cases.case(name).settings, self_collision_rmp=leaf)
    return Evaluator(robot, robot.group("arm").joints, rmp_cases.TOOLS[name], settings)


@pytest.mark.parametrize("name", ROBOTS)
def test_generated_code_is_the_formulas(name):
    made, case, rng = evaluator(name), rmp_cases.case(name), np.random.default_rng(11)
    apart = evaluator(name, SelfCollision())
    felt = 0
    for _ in range(12):
        q, qd = rmp_cases.state(rng, case)
        made.set_goal(rmp_cases.goal(rng, case))
        apart.set_goal(made.goal)
        got, expected = made.acceleration(q, qd), made.report(q, qd)
        n, at = case.model.active, made._at
        M = made._memory[at["M"] : at["M"] + n * n].reshape(n, n)
        assert pytest.approx(expected.M, rel=1e-7, abs=1e-8 * np.abs(expected.M).max()) == M
        assert got == pytest.approx(expected.qdd, rel=1e-5, abs=1e-5)
        felt += not np.allclose(got, apart.acceleration(q, qd), atol=1e-3)
    assert felt >= 4


@pytest.mark.parametrize("name", ROBOTS)
def test_distances_are_those_of_the_collision_checker(name):
    made, case, rng = evaluator(name), rmp_cases.case(name), np.random.default_rng(5)
    checker = CollisionChecker(load_robot(name), made.active)
    for _ in range(10):
        q, _ = rmp_cases.state(rng, case)
        q[case.model.active :] = load_robot(name).home[case.model.active :]
        assert least_distance(made, q) == pytest.approx(
            checker.distance(q[: case.model.active]).value, abs=1e-9
        )


def least_distance(made, q):
    made._evaluate(q, 0.0 * q)
    return made._memory[made._at["nearest_links"]]


def test_off_in_files_without_it_on_in_ours():
    assert RmpflowSettings().self_collision_rmp.metric_scalar == 0.0
    for name in ROBOTS:
        assert read_rmpflow(load_robot(name).directory).self_collision_rmp.metric_scalar > 0.0


@pytest.mark.long
def test_targets_at_the_own_body_are_left_alone():
    """Without the RMP the hand moves into the arm; with it, it does not."""
    robot = load_robot("franka")
    checker = CollisionChecker(robot, "arm")
    least = {}
    for weight in (0.0, 1e3):
        policy = RmpflowPolicy(robot, ignore_robot_state_updates=True)
        policy.set_parameters({"self_collision_rmp.metric_scalar": weight})
        rest = np.zeros(7)
        policy.set_internal_robot_joint_states(policy.default_cspace_target, rest)
        policy.set_end_effector_target(INSIDE)
        least[weight] = np.inf
        for _ in range(150):
            q, _ = policy.compute_joint_targets(rest, rest, frame_duration=0.03)
            least[weight] = min(least[weight], checker.distance(q).value)
    assert least[0.0] < 0.0
    assert least[1e3] > 0.005

# SPDX-License-Identifier: Apache-2.0
"""Trials, and the tuning order on few tasks."""

import dataclasses
import re

import numpy as np
import pytest
from rmpflow.rmp_cases import packed
from typer.testing import CliRunner

from motion_nodes.cli.app import app
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.tuning import (
    STAGES,
    Knob,
    TaskDrawer,
    Tuner,
    run_trial,
    starting_settings,
)
from motion_nodes.core.robot.files.rmpflow_file import read_rmpflow, rmpflow_text
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot_builder import assemble
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.errors import InvalidConfig


@pytest.fixture(scope="module")
def franka():
    return load_robot("franka")


@pytest.fixture(scope="module")
def policy(franka):
    return RmpflowPolicy(franka)


@pytest.fixture(scope="module")
def checker(franka):
    return CollisionChecker(franka, "arm")


@pytest.mark.long
def test_a_trial_tells_what_happened(policy, checker):
    task = TaskDrawer(policy, checker, 3).around_obstacle(oriented=True)
    trial = run_trial(policy, checker, task, weigh=True)
    assert trial.seconds is not None
    assert 0.0 < trial.seconds < task.duration
    assert trial.position_error < 0.005
    assert trial.orientation_error < np.radians(1.0)
    assert trial.clearance > 0.0
    assert trial.apart > 0.0
    assert trial.jerk > 0.0
    assert trial.weights["target_rmp"] > trial.weights["cspace_target_rmp"] > 0.0
    again = run_trial(policy, checker, task)
    assert (again.seconds, again.jerk) == (trial.seconds, trial.jerk)


def test_a_target_behind_glass_is_not_said_to_be_reached(policy, checker):
    task = TaskDrawer(policy, checker, 3).position()
    beyond = task.X_WT.copy()
    beyond[:3, 3] *= 3.0 / np.linalg.norm(beyond[:3, 3])
    trial = run_trial(policy, checker, dataclasses.replace(task, X_WT=beyond, duration=1.0))
    assert trial.seconds is None
    assert trial.position_error > 1.0


@pytest.mark.long
def test_drawn_tasks_can_be_done_and_are_the_same_again(policy, checker):
    """Starts are free, and some free configuration is at the goal."""
    robot, joints = policy.robot, policy.active_joints
    limits = robot.limits.select(joints)
    solver = LeastSquaresIk(
        IkChain(robot.tree, robot.base_frame, policy.tool, joints, limits=limits)
    )
    for stage in STAGES:
        first, second = (stage.draw(TaskDrawer(policy, checker, 5)) for _ in range(2))
        np.testing.assert_array_equal(first.start, second.start)
        around = checker.snapshot()
        around.set_scene(first.scene)
        ends = [first.start]
        if first.X_WT is None:
            np.testing.assert_array_equal(first.posture, second.posture)
            ends.append(first.posture)
        else:
            np.testing.assert_array_equal(first.X_WT, second.X_WT)
            settings = IkSettings(timeout=10.0)
            request = IkRequest(first.X_WT, validity=around.is_free, settings=settings)
            result = solver.solve(request)
            assert result.success, (stage.title, result.reason)
            ends.append(result.q)
        for q in ends:
            assert limits.within(q)
            assert around.is_free(q)
        for name, item in first.scene.objects.items():
            np.testing.assert_array_equal(item.X_WO, second.scene.objects[name].X_WO)


def test_the_order_turns_on_one_leaf_after_the_other(policy):
    leaves = [leaf for stage in STAGES for leaf in stage.leaves]
    groups = {name.partition(".")[0] for name in policy.settings.parameters()}
    assert sorted(leaves) == sorted(groups - {"canonical_resolve"})
    for stage in STAGES:
        for knob in stage.knobs:
            assert knob.name in policy.settings.parameters()


def test_a_bad_number_is_found_and_mended(franka):
    bad = read_rmpflow(franka.directory).with_parameters({"target_rmp.accel_d_gain": 700.0})
    tuner = Tuner(franka, bad, trials=2, seed=1)
    knob = Knob("target_rmp.accel_d_gain", (0.1,))
    stages = [STAGES[0], dataclasses.replace(STAGES[1], knobs=(knob,))]
    stages[0] = dataclasses.replace(stages[0], knobs=())
    _, report = tuner.walk(stages)
    assert [(c.name, c.before, c.after) for c in report.changes] == [
        ("target_rmp.accel_d_gain", 700.0, pytest.approx(70.0))
    ]
    assert report.before.arrived < report.after.arrived
    assert tuner.settings.target_rmp.accel_d_gain == pytest.approx(70.0)
    assert report.after.weights["collision_rmp"] == 0.0


def test_a_robot_without_settings_begins_in_proportion():
    robot = load_robot("ur10e")
    settings = starting_settings(robot)
    franka = starting_settings(load_robot("franka"))
    ratio = settings.target_rmp.accel_norm_eps / franka.target_rmp.accel_norm_eps
    assert 1.1 < ratio < 1.7  # a reach of 1.3 m beside 0.855 m
    fastest = robot.limits.select(robot.group("arm").joints).velocity.max()
    assert settings.joint_velocity_cap_rmp.max_velocity == fastest
    assert franka.target_rmp.accel_norm_eps == pytest.approx(0.0375, rel=1e-3)
    policy = RmpflowPolicy(robot, settings)
    checker = CollisionChecker(robot, "arm")
    task = TaskDrawer(policy, checker, 1).pose()
    trial = run_trial(policy, checker, dataclasses.replace(task, duration=6.0))
    assert trial.position_error < 0.005


def test_written_settings_are_read_again(franka, tmp_path):
    settings = read_rmpflow(franka.directory).with_parameters({"target_rmp.accel_p_gain": 31.25})
    file = tmp_path / "rmpflow.yaml"
    file.write_text(rmpflow_text(settings, "found by trials"))
    assert read_rmpflow(file) == settings
    assert file.read_text().startswith("# found by trials\n")


def test_the_command_writes_over_no_file(tmp_path):
    file = tmp_path / "rmpflow.yaml"
    file.write_text("mine")
    with pytest.raises(InvalidConfig):
        CliRunner().invoke(
            app, ["tune", "franka", "--apply", "--output", str(file)], catch_exceptions=False
        )
    assert file.read_text() == "mine"


def test_joints_move_alike_whatever_the_size(franka):
    scale = 0.5

    def resized(match: re.Match[str]) -> str:
        return " ".join([match[1], *(str(scale * float(x)) for x in match[2].split())])

    text = re.sub(r'(<origin xyz=")([^"]*)', resized, franka.urdf)
    spheres = {
        link: tuple(tuple(scale * x for x in sphere) for sphere in row)
        for link, row in franka.spheres.items()
    }
    file = franka.directory / "robot.yaml"
    robot = assemble(file, franka.description, read_urdf(text, "small"), text, spheres)
    found = []
    for size, each in ((1.0, franka), (scale, robot)):
        rng = np.random.default_rng(4)
        joints, home = each.group("arm").joints, each.home
        evaluator = Evaluator(each, joints, each.tool_frame, starting_settings(each))
        evaluator.set_obstacles(packed([_ball(size)], np.eye(4), {}))
        position = size * np.array([0.4, 0.2, 0.5])
        evaluator.set_goal(Goal(home[:7], position, np.diag([1.0, -1.0, -1.0])))
        fingers = np.full(2, 0.02 * size)
        for _ in range(5):
            q, qd = home[:7] + rng.uniform(-0.4, 0.4, 7), rng.uniform(-0.5, 0.5, 7)
            state = np.concatenate((q, fingers)), np.concatenate((qd, 0.0 * fingers))
            found.append(evaluator.acceleration(*state))
    assert np.abs(found[:5]).max() > 5.0
    np.testing.assert_allclose(found[5:], found[:5], rtol=1e-3, atol=1e-3)


def _ball(size):
    return world_object("ball", Sphere(0.1 * size), from_xyz_rpy((0.45 * size, 0.0, 0.5 * size)))

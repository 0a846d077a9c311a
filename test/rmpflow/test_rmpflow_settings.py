# SPDX-License-Identifier: Apache-2.0
"""Configuration files, trials and tuning."""

import copy
import dataclasses
import logging
import re

import numpy as np
import pytest
import yaml
from raised_errors import about
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
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings, read_rmpflow, rmpflow_text
from motion_nodes.core.robot.robot_builder import assemble
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.errors import InvalidConfig, InvalidDescription

FRANKA = {
    "joint_limit_buffers": [0.01, 0.03, 0.01, 0.01, 0.01, 0.01, 0.01],
    "rmp_params": {
        "cspace_target_rmp": {
            "metric_scalar": 50.0,
            "position_gain": 100.0,
            "damping_gain": 50.0,
            "robust_position_term_thresh": 0.5,
            "inertia": 1.0,
        },
        "cspace_trajectory_rmp": {"p_gain": 100, "d_gain": 10, "ff_gain": 0.25, "weight": 50},
        "cspace_affine_rmp": {"final_handover_time_std_dev": 0.25, "weight": 2000.0},
        "joint_limit_rmp": {
            "metric_scalar": 1000.0,
            "metric_length_scale": 0.01,
            "metric_exploder_eps": 1e-3,
            "metric_velocity_gate_length_scale": 0.01,
            "accel_damper_gain": 200.0,
            "accel_potential_gain": 1.0,
            "accel_potential_exploder_length_scale": 0.1,
            "accel_potential_exploder_eps": 1e-2,
        },
        "joint_velocity_cap_rmp": {
            "max_velocity": 4.0,
            "velocity_damping_region": 1.5,
            "damping_gain": 1000.0,
            "metric_weight": 100.0,
        },
        "target_rmp": {
            "accel_p_gain": 30.0,
            "accel_d_gain": 85.0,
            "accel_norm_eps": 0.075,
            "metric_alpha_length_scale": 0.05,
            "min_metric_alpha": 0.01,
            "max_metric_scalar": 10000,
            "min_metric_scalar": 2500,
            "proximity_metric_boost_scalar": 20.0,
            "proximity_metric_boost_length_scale": 0.02,
            "xi_estimator_gate_std_dev": 20000.0,
            "accept_user_weights": False,
        },
        "axis_target_rmp": {
            "accel_p_gain": 210.0,
            "accel_d_gain": 60.0,
            "metric_scalar": 10,
            "proximity_metric_boost_scalar": 3000.0,
            "proximity_metric_boost_length_scale": 0.08,
            "xi_estimator_gate_std_dev": 20000.0,
            "accept_user_weights": False,
        },
        "collision_rmp": {
            "damping_gain": 50.0,
            "damping_std_dev": 0.04,
            "damping_robustness_eps": 1e-2,
            "damping_velocity_gate_length_scale": 0.01,
            "repulsion_gain": 800.0,
            "repulsion_std_dev": 0.01,
            "metric_modulation_radius": 0.5,
            "metric_scalar": 10000.0,
            "metric_exploder_std_dev": 0.02,
            "metric_exploder_eps": 0.001,
        },
        "damping_rmp": {"accel_d_gain": 30.0, "metric_scalar": 50.0, "inertia": 100.0},
    },
    "canonical_resolve": {
        "max_acceleration_norm": 50.0,
        "projection_tolerance": 0.01,
        "verbose": False,
    },
    "body_cylinders": [
        {"name": "base_stem", "pt1": [0, 0, 0.333], "pt2": [0.0, 0.0, 0.0], "radius": 0.05},
        {"name": "base_tee", "pt1": [0, 0, 0.333], "pt2": [0.0, 0.0, 0.333], "radius": 0.15},
    ],
    "body_collision_controllers": [
        {"name": "panda_link7", "radius": 0.05},
        {"name": "panda_leftfingertip", "radius": 0.075},
    ],
}


def written(folder, change=lambda data: None):
    data = copy.deepcopy(FRANKA)
    change(data)
    file = folder / "franka_rmpflow_common.yaml"
    file.write_text(yaml.safe_dump(data))
    return file


def test_a_file_of_isaac_sim_is_read_unchanged(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        settings = read_rmpflow(written(tmp_path))
    assert not caplog.records
    assert settings.parameters() == RmpflowSettings().parameters()
    assert settings.joint_limit_buffers == tuple(FRANKA["joint_limit_buffers"])
    assert [item.radius for item in settings.body_cylinders] == [0.05, 0.15]
    assert settings.body_collision_controllers[1].name == "panda_leftfingertip"


@pytest.mark.parametrize("name", ["franka", "ur10e"])
def test_shipped_robots_have_settings(name, caplog):
    robot = load_robot(name)
    settings = read_rmpflow(robot.directory)
    assert not caplog.records
    assert len(settings.joint_limit_buffers) == len(robot.group("arm").joints)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("rmp_params", "target_rmp"), "accel_q_gain"),
        (("rmp_params",), "targt_rmp"),
        ((), "bodies"),
    ],
)
def test_unknown_names_are_told_and_have_no_effect(path, key, tmp_path, caplog):
    def change(data):
        for step in path:
            data = data[step]
        data[key] = {"x": 1.0}

    settings = read_rmpflow(written(tmp_path, change))
    assert settings.parameters() == RmpflowSettings().parameters()
    assert key in caplog.text


BAD_GAINS = (-1.0, float("nan"), float("inf"), "fast", None, True)


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        *(("target_rmp", "accel_p_gain", value) for value in BAD_GAINS),
        ("collision_rmp", "repulsion_std_dev", 0.0),  # it divides
    ],
)
def test_bad_numbers_are_refused_by_name(section, name, value, tmp_path):
    def change(data):
        data["rmp_params"][section][name] = value

    with pytest.raises(InvalidDescription, check=about(f"{section}.{name}")):
        read_rmpflow(written(tmp_path, change))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("body_cylinders",), "body_cylinders"),
        (("body_collision_controllers",), "body_collision_controllers"),
        (("joint_limit_buffers",), "joint_limit_buffers"),
        (("canonical_resolve",), "canonical_resolve"),
        (("rmp_params", "damping_rmp"), "damping_rmp"),
        (("rmp_params", "damping_rmp", "inertia"), "damping_rmp"),
    ],
)
def test_what_is_missing_is_named(path, words, tmp_path):
    def change(data):
        for step in path[:-1]:
            data = data[step]
        del data[path[-1]]

    with pytest.raises(InvalidDescription, check=about(words)):
        read_rmpflow(written(tmp_path, change))


def test_empty_lists_of_the_body_are_fine(tmp_path):
    def change(data):
        data["body_cylinders"], data["body_collision_controllers"] = [], []

    assert read_rmpflow(written(tmp_path, change)).body_cylinders == ()


def test_missing_file_is_told(tmp_path):
    with pytest.raises(InvalidDescription):
        read_rmpflow(tmp_path)


def test_parameters_change_by_name_all_or_none():
    settings = RmpflowSettings()
    other = settings.with_parameters({"target_rmp.accel_p_gain": 12, "damping_rmp.inertia": 0.0})
    assert other.target_rmp.accel_p_gain == 12.0
    assert other.damping_rmp.inertia == 0.0
    assert settings.target_rmp.accel_p_gain == 30.0
    for name in settings.parameters():
        with pytest.raises(InvalidConfig, check=about(name)):
            settings.with_parameters({name: -1.0})


def test_contradictions_are_refused():
    with pytest.raises(
        InvalidConfig, check=about("joint_velocity_cap_rmp.velocity_damping_region")
    ):
        RmpflowSettings().with_parameters({"joint_velocity_cap_rmp.max_velocity": 1.0})
    with pytest.raises(InvalidConfig):
        RmpflowSettings().with_parameters({"target_rmp.min_metric_alpha": 1.5})


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

# SPDX-License-Identifier: Apache-2.0
"""Task-space planner: tolerances, paths, settings and their files."""

import math
from dataclasses import replace

import numpy as np
import pytest
from barrier_scene import START, TARGET, WEIGHTS, at, barrier_checker, franka, max_depth

from motion_nodes.core.ik.problem import IkTolerance, pose_error
from motion_nodes.core.planning.planners import connecting, make_planner
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    PlanRequest,
    PlanResult,
    PlanStatus,
    PoseGoal,
)
from motion_nodes.core.planning.task_space_rrt import (
    RrtConfig,
    TaskSpacePlanning,
    TaskSpaceRrt,
    param_names,
    read_rrt_config,
    rrt_config,
)
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.typing import Array

TIP = "panda_rightfinger"
CONFIG = RrtConfig(
    distance_metric_weights=WEIGHTS, task_space_limits=((0, 0.7), (-0.6, 0.6), (0, 0.8))
)
POSITION = IkTolerance(1e-4, math.inf)
POSE = IkTolerance(1e-4, 0.005)


def reached(result: PlanResult, link: str = TIP) -> Array:
    assert result.path is not None, result.reason
    fingers = {"panda_finger_joint1": 0.04, "panda_finger_joint2": 0.04}
    kinematics = Kinematics(franka().tree, franka().group("arm").joints, fixed=fingers)
    return np.asarray(kinematics.pose(result.path[-1], link))


def free_checker() -> CollisionChecker:
    return CollisionChecker(franka(), "arm")


@pytest.mark.parametrize("tolerance", [POSITION, POSE, IkTolerance(math.inf, 0.005)])
def test_target_between_barriers_is_reached_to_the_final_tolerance(tolerance):
    checker = barrier_checker()
    goals = (PoseGoal(TIP, TARGET, tolerance),)
    request = PlanRequest(checker, START, goals, timeout=100.0, random_seed=2)
    result = TaskSpaceRrt(CONFIG).plan(request)
    assert result.status is PlanStatus.SOLVED, result.reason
    error = pose_error(reached(result), TARGET)
    if math.isfinite(tolerance.max_position):
        assert np.linalg.norm(error[:3]) <= 1e-4
    if tolerance.orientation != math.inf:
        assert np.linalg.norm(error[3:]) <= 0.005
    assert result.path is not None
    assert (result.path[0] == START).all()
    assert max_depth(result.path, checker) < 3e-3
    assert checker.limits.within(result.path, 1e-12)


def test_equal_seeds_give_equal_paths_and_others_do_not():
    request = PlanRequest(free_checker(), START, (PoseGoal(TIP, TARGET, POSITION),), timeout=30.0)
    first, again = (TaskSpaceRrt(CONFIG).plan(request).path for _ in range(2))
    other = TaskSpaceRrt(CONFIG).plan(replace(request, random_seed=5)).path
    np.testing.assert_array_equal(first, again)
    assert first is not None
    assert other is not None
    assert first.shape != other.shape or (first != other).any()


@pytest.mark.long
def test_behind_a_wall_both_ends_are_searched_and_equal_seeds_give_equal_paths():
    """If the tree alone finds no path in a bounded number of iterations, RRT-Connect is used."""
    checker = barrier_checker()
    counts = []
    for seed in range(4):
        goals = (PoseGoal(TIP, at(3.0, 0.0, 0.0), POSITION), PoseGoal(TIP, TARGET, POSE))
        request = PlanRequest(checker, START, goals, timeout=100.0, random_seed=seed)
        first, again = (TaskSpaceRrt(CONFIG).plan(request) for _ in range(2))
        assert first.status is PlanStatus.SOLVED, first.reason
        assert first.goal_index == 1
        np.testing.assert_array_equal(first.path, again.path)
        error = pose_error(reached(first), TARGET)
        assert np.linalg.norm(error[:3]) <= 1e-4
        assert np.linalg.norm(error[3:]) <= 0.005
        assert first.path is not None
        assert (first.path[0] == START).all()
        assert max_depth(first.path, checker) < 3e-3
        counts.append(first.iterations)
    assert max(counts) <= 1500


def test_point_beside_the_link_is_what_is_led():
    X_LT = at(0.0, 0.02, 0.1)
    goal = PoseGoal("panda_hand", at(0.45, 0.2, 0.4), POSITION, X_LT)
    result = TaskSpaceRrt(CONFIG).plan(PlanRequest(free_checker(), START, (goal,), timeout=30.0))
    tip = reached(result, "panda_hand") @ X_LT
    assert np.linalg.norm(tip[:3, 3] - [0.45, 0.2, 0.4]) <= 1e-4


def test_region_is_reached_anywhere_inside():
    box = IkTolerance((0.1, 0.02, 0.05), math.inf)
    goal = PoseGoal(TIP, at(0.5, 0.3, 0.5), box)
    result = TaskSpaceRrt(CONFIG).plan(PlanRequest(free_checker(), START, (goal,), timeout=30.0))
    away = np.abs(reached(result)[:3, 3] - [0.5, 0.3, 0.5])
    assert (away <= np.array([0.1, 0.02, 0.05]) + 1e-9).all()


def test_one_of_several_poses_is_reached_and_named():
    far = PoseGoal(TIP, at(3.0, 0.0, 0.0), POSITION)
    near = PoseGoal(TIP, at(0.4, 0.2, 0.4), POSITION)
    request = PlanRequest(free_checker(), START, (far, near), timeout=30.0)
    result = TaskSpaceRrt(CONFIG).plan(request)
    assert result.success
    assert result.goal_index == 1


def test_target_out_of_reach_ends_in_words():
    goal = PoseGoal(TIP, at(3.0, 0.0, 0.0), POSITION)
    few = replace(CONFIG, max_iterations=500)
    result = TaskSpaceRrt(few).plan(PlanRequest(free_checker(), START, (goal,), timeout=30.0))
    assert result.status is PlanStatus.ITERATION_LIMIT
    assert "500 iterations" in result.reason
    assert "came to" in result.reason


def test_tip_that_is_there_already_needs_no_tree():
    X = Kinematics(franka().tree, franka().group("arm").joints).pose(START, "panda_hand")
    request = PlanRequest(free_checker(), START, (PoseGoal("panda_hand", X, POSE),))
    result = TaskSpaceRrt(CONFIG).plan(request)
    assert result.success
    assert result.iterations == 0


def with_task(**values: float) -> RrtConfig:
    task = replace(TaskSpacePlanning(), **values)  # type: ignore[arg-type]
    return replace(CONFIG, task_space_planning_params=task)


@pytest.mark.long
@pytest.mark.parametrize(
    "other",
    [
        replace(CONFIG, step_size=0.1),
        replace(CONFIG, distance_metric_weights=()),
        replace(CONFIG, task_space_limits=((-0.5, 0.0), (-0.6, 0.6), (0.0, 0.8))),
        with_task(translation_target_zone_tolerance=1e-5),
        with_task(orientation_target_zone_tolerance=0.02),
        with_task(translation_gradient_weight=0.2),
        with_task(orientation_gradient_weight=1.0),
        with_task(nn_translation_distance_weight=0.1),
        with_task(nn_orientation_distance_weight=2.0),
        with_task(task_space_exploitation_fraction=0.1),
        with_task(task_space_exploration_fraction=0.5),
        with_task(max_extension_substeps_away_from_target=2),
        with_task(max_extension_substeps_near_target=2),
        with_task(extension_substep_target_region_scale_factor=10.0),
        with_task(unexploited_nodes_culling_scalar=30.0),
        with_task(gradient_substep_size=0.1),
    ],
)
def test_each_setting_acts(other):
    # A far target makes the tree spread; a near one ends the search at it.
    near = Kinematics(franka().tree, franka().group("arm").joints).pose(START, TIP)
    near = at(0.1, 0.3, -0.1) @ near @ from_xyz_rpy((0.0, 0.0, 0.0), (0.3, 0.5, 0.8))
    nodes: list[list[Array]] = [[], []]
    for found, config in zip(nodes, (CONFIG, other), strict=True):
        for X_BT in (TARGET, near):
            planner = TaskSpaceRrt(replace(config, max_iterations=1500))
            goal = PoseGoal(TIP, X_BT, POSE)
            planner.plan(PlanRequest(free_checker(), START, (goal,), timeout=60.0))
            tree = planner.tree()
            assert tree is not None
            found.append(tree.nodes)
    assert any(not np.array_equal(a, b) for a, b in zip(*nodes, strict=True))


def test_wider_zone_ends_the_search_earlier_and_as_exactly():
    goal = PoseGoal(TIP, TARGET, POSITION)
    request = PlanRequest(free_checker(), START, (goal,), timeout=30.0)
    iterations = []
    for zone in (0.3, 0.001):
        result = TaskSpaceRrt(with_task(translation_target_zone_tolerance=zone)).plan(request)
        assert np.linalg.norm(reached(result)[:3, 3] - TARGET[:3, 3]) <= 1e-4
        iterations.append(result.iterations)
    assert iterations[0] <= iterations[1]


def test_joint_goals_of_its_name_go_to_rrt_connect():
    planner = make_planner("JacobianTransposeRRT", CONFIG)
    request = PlanRequest(free_checker(), START, (JointGoal(START + 0.1),))
    assert planner.plan(request).planner == "RRTConnect"
    alone = TaskSpaceRrt(CONFIG).plan(request)
    assert alone.status is PlanStatus.NO_GOAL
    assert "poses" in alone.reason


FRANKA = """
seed: 654321
step_size: 0.1
max_iterations: 40000
max_sampling: 9000
distance_metric_weights: [3.0, 2.0, 2.0, 1.5, 1.5, 1.0, 1.0]
task_space_frame_name: panda_rightfinger
task_space_limits: [[0.0, 0.7], [-0.6, 0.6], [0.0, 0.8]]
cuda_tree_params:
    max_num_nodes: 10000
    max_buffer_size: 30
    num_nodes_cpu_gpu_crossover: 3000
c_space_planning_params:
    exploration_fraction: 0.25
task_space_planning_params:
    x_target_zone_tolerance: 0.06
    orientation_target_zone_tolerance: 0.08
    x_target_final_tolerance: 1e-5
    orientation_target_final_tolerance: 0.004
    translation_gradient_weight: 2.0
    orientation_gradient_weight: 0.25
    nn_translation_distance_weight: 3.0
    nn_orientation_distance_weight: 0.5
    task_space_exploitation_fraction: 0.7
    task_space_exploration_fraction: 0.2
    max_extension_substeps_away_from_target: 7
    max_extension_substeps_near_target: 40
    extension_substep_target_region_scale_factor: 3
    unexploited_nodes_culling_scalar: 0.5
    gradient_substep_size: 0.03
enable_self_collision_checking: false
"""


def test_every_key_of_a_file_is_taken(tmp_path):
    file = tmp_path / "rrt.yaml"
    file.write_text(FRANKA)
    config, notes = read_rrt_config(file)
    assert config.seed == 654321
    assert config.step_size == 0.1
    assert config.max_iterations == 40000
    assert config.max_sampling == 9000
    assert config.distance_metric_weights == (3.0, 2.0, 2.0, 1.5, 1.5, 1.0, 1.0)
    assert config.task_space_frame_name == "panda_rightfinger"
    assert config.task_space_limits == ((0.0, 0.7), (-0.6, 0.6), (0.0, 0.8))
    assert config.c_space_planning_params.exploration_fraction == 0.25
    assert not config.enable_self_collision_checking
    task = config.task_space_planning_params
    assert task.translation_target_zone_tolerance == 0.06
    assert task.translation_target_final_tolerance == 1e-5
    assert task.extension_substep_target_region_scale_factor == 3.0
    assert task.max_extension_substeps_near_target == 40
    # No value is left at its default: each key has an effect.
    default = RrtConfig()
    for name in param_names():
        block, _, leaf = name.rpartition("/")
        owner, other = (getattr(c, block) if block else c for c in (config, default))
        assert getattr(owner, leaf) != getattr(other, leaf), name
    assert len(notes) == 1
    assert "cuda_tree_params" in notes[0]


def test_settings_for_joint_targets_come_along():
    config, _ = rrt_config(
        {"step_size": 0.2, "cspace_planning_params": {"exploration_fraction": 0.9}}, "x"
    )
    chosen = connecting(config)
    assert (chosen.step_size, chosen.exploration_fraction) == (0.2, 0.9)
    assert chosen.max_iterations == 50_000


def test_unknown_keys_are_noted_with_the_nearest_word():
    config, notes = rrt_config({"step_sise": 0.2, "other": {"x": 1}}, "my.yaml")
    assert config == RrtConfig()
    assert len(notes) == 2
    assert "my.yaml: step_sise" in notes[0]
    assert "'step_size'" in notes[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("step_size", 0.0),
        ("step_size", float("nan")),
        ("step_size", "fast"),
        ("step_size", True),
        ("max_iterations", 0),
        ("max_iterations", 1.5),
        ("max_sampling", 0),
        ("distance_metric_weights", [1.0, -1.0]),
        ("task_space_frame_name", 3),
        ("task_space_limits", [[0, 1], [0, 1]]),
        ("task_space_limits", [[1, 0], [0, 1], [0, 1]]),
        ("enable_self_collision_checking", "maybe"),
        ("c_space_planning_params/exploration_fraction", 1.1),
        ("task_space_planning_params/task_space_exploitation_fraction", 0.95),
        ("task_space_planning_params/max_extension_substeps_near_target", -1),
        ("task_space_planning_params/extension_substep_target_region_scale_factor", 0.9),
        ("task_space_planning_params/unexploited_nodes_culling_scalar", -1.0),
        ("task_space_planning_params/gradient_substep_size", 0.0),
        ("task_space_planning_params/x_target_zone_tolerance", 0.0),
        ("task_space_planning_params", 1),
        ("no_such/step_size", 1),
    ],
)
def test_values_that_are_not_allowed_are_refused_by_name(name, value):
    with pytest.raises(InvalidConfig, match=name.rpartition("/")[2].replace("x_target", "target")):
        RrtConfig().with_param(name, value)


def test_a_file_that_is_none_is_told(tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("step_size: [")
    with pytest.raises(InvalidDescription, match=r"broken\.yaml"):
        read_rrt_config(broken)
    with pytest.raises(InvalidDescription, match=r"none\.yaml"):
        read_rrt_config(tmp_path / "none.yaml")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("step_size: -1")
    with pytest.raises(InvalidConfig):
        read_rrt_config(wrong)

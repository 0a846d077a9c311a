# SPDX-License-Identifier: Apache-2.0
"""The planner with Isaac Sim's calls: targets, base, watched joints, settings, obstacles."""

import logging
import math

import numpy as np
import pytest
from barrier_scene import (
    BARRIERS,
    GOAL,
    START,
    TARGET_POSITION,
    TARGET_XYZW,
    WEIGHTS,
    at,
    barrier_checker,
    franka,
    max_depth,
)
from raised_errors import about

from motion_nodes.core.planning.planning_problem import PlanStatus
from motion_nodes.core.planning.task_space_rrt import RrtConfig
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame
from motion_nodes.extras.compat.path_planner import PathPlanner, PathPlannerVisualizer
from motion_nodes.typing import Array

CONFIG = RrtConfig(
    distance_metric_weights=WEIGHTS, task_space_limits=((0, 0.7), (-0.6, 0.6), (0, 0.8))
)


def planner(barriers: bool = True, **values: object) -> PathPlanner:
    made = PathPlanner(franka(), "arm", CONFIG, end_effector_frame_name="panda_hand", **values)  # type: ignore[arg-type]
    for name, (size, place) in BARRIERS.items() if barriers else ():
        assert made.add_cuboid(name, size, at(*place))
    return made


def hand(q: Array) -> Array:
    return np.asarray(Kinematics(franka().tree, franka().group("arm").joints).pose(q, "panda_hand"))


def test_orientation_example_between_barriers_is_reached():
    made = planner()
    made.set_random_seed(1)
    made.set_end_effector_target(TARGET_POSITION, TARGET_XYZW)
    path = made.compute_path(START, [0.04, 0.04])
    assert path is not None, made.last
    X = hand(path[-1])
    assert np.linalg.norm(X[:3, 3] - TARGET_POSITION) < 1e-4
    assert abs(float(to_quat_xyzw(X) @ TARGET_XYZW)) > math.cos(0.5 * 0.005)
    assert (path[0] == START).all()
    assert path.shape[1] == 7
    assert max_depth(path, barrier_checker()) < 1e-4


def test_joint_target_is_reached_to_the_bit_and_again_after_reset():
    made = planner()
    made.set_cspace_target(GOAL)
    first, again = made.compute_path(START), made.compute_path(START)
    assert first is not None
    assert (first[-1] == GOAL).all()
    np.testing.assert_array_equal(first, again)
    made.set_random_seed(99)
    other = made.compute_path(START)
    assert other is not None
    assert other.shape != first.shape or (other != first).any()


def test_targets_exclude_each_other_and_none_gives_none():
    made = planner(barriers=False)
    assert made.compute_path(START) is None
    made.set_cspace_target(GOAL)
    made.set_end_effector_target((0.4, 0.2, 0.4))
    path = made.compute_path(START)
    assert path is not None
    assert np.linalg.norm(hand(path[-1])[:3, 3] - (0.4, 0.2, 0.4)) < 1e-4
    made.set_cspace_target(GOAL)
    path = made.compute_path(START)
    assert path is not None
    assert (path[-1] == GOAL).all()
    made.set_end_effector_target(None, None)
    assert made.compute_path(START) is None


def test_base_and_world_shifted_together_give_the_same_path():
    X_WB = from_xyz_rpy((1.0, -0.5, 0.2), (0.1, 0.0, 0.3))
    here, there = planner(), planner(barriers=False)
    for name, (size, place) in BARRIERS.items():
        assert there.add_cuboid(name, size, X_WB @ at(*place))
    there.set_robot_base_pose(X_WB[:3, 3], to_quat_xyzw(X_WB))
    here.set_cspace_target(GOAL)
    there.set_cspace_target(GOAL)
    first, second = here.compute_path(START), there.compute_path(START)
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first[[0, -1]], second[[0, -1]])
    # A pose in the world is reached wherever the base is.
    place = X_WB @ at(0.4, 0.2, 0.4)
    there.set_end_effector_target(place[:3, 3], place[:3, :3])
    path = there.compute_path(START)
    assert path is not None
    np.testing.assert_allclose(X_WB @ hand(path[-1]), place, atol=6e-3)
    np.testing.assert_allclose((X_WB @ hand(path[-1]))[:3, 3], place[:3, 3], atol=1e-4)


def test_watched_joints_are_in_the_way_where_they_stand():
    made = planner(barriers=False)
    assert made.get_active_joints() == list(franka().group("arm").joints)
    assert made.get_watched_joints() == ["panda_finger_joint1", "panda_finger_joint2"]
    # A box beside the closed gripper, with which open fingers collide.
    X_WH = hand(START)
    made.add_cuboid("block", (0.03, 0.02, 0.03), X_WH @ at(0.0, 0.055, 0.1))
    made.set_cspace_target(START + 0.05 * np.array([1, 0, 0, 1, 0, -1, 0]))
    assert made.compute_path(START, [0.04, 0.04]) is None
    assert made.last is not None
    assert made.last.status is PlanStatus.START_IN_COLLISION
    assert "panda_leftfinger" in made.last.reason
    closed = made.compute_path(START, [0.0, 0.0])
    assert closed is not None, made.last.reason
    assert closed.shape[1] == 7
    # They stay where they were last told to be.
    assert made.compute_path(START) is not None
    with pytest.raises(InvalidCommand):
        made.compute_path(START, [0.0])


def test_moving_obstacle_counts_where_it_was_last_read():
    made, place = planner(barriers=False), [at(2.0, 0.0, 0.5)]
    assert made.add_sphere("ball", 0.15, lambda: place[0])
    made.set_cspace_target(GOAL)
    assert made.compute_path(START) is not None
    place[0] = hand(GOAL)
    assert made.compute_path(START) is not None
    assert made.update_world()
    assert made.compute_path(START) is None
    assert made.last is not None
    assert "ball" in made.last.reason
    assert made.disable_obstacle("ball")
    assert made.compute_path(START) is not None


def test_parameters_are_set_by_name_or_refused(caplog):
    made = planner(barriers=False)
    assert made.set_param("step_size", 0.1)
    assert made.set_param("task_space_planning_params/x_target_zone_tolerance", 0.1)
    assert made.config.task_space_planning_params.translation_target_zone_tolerance == 0.1
    assert made.set_max_iterations(3)
    with caplog.at_level(logging.WARNING):
        for name, value in (
            ("not a real parameter", 5),
            ("step_size", -1.0),
            ("distance_metric_weights", [1.0, 2.0]),
            ("seed", "x"),
        ):
            assert not made.set_param(name, value)
    assert "not a real parameter" in caplog.text
    assert made.config.step_size == 0.1
    made.set_end_effector_target((-0.4, 0.3, 0.5))
    assert made.compute_path(START) is None
    assert made.last is not None
    assert "3 iterations" in made.last.reason
    made.reset()
    assert made.config == CONFIG
    assert made.compute_path(START) is None


def test_self_collision_checking_can_be_switched_off():
    made = planner(barriers=False)
    folded = np.array([0.0, 0.0, 0.0, -0.0698, 0.0, 0.0, 0.0])
    made.set_cspace_target(folded)
    assert made.compute_path(START) is None
    assert made.set_param("enable_self_collision_checking", False)
    assert made.compute_path(START) is not None


def test_settings_come_from_a_file(tmp_path, caplog):
    file = tmp_path / "rrt.yaml"
    file.write_text("seed: 7\ntask_space_frame_name: panda_link7\nstep_syze: 1\n")
    with caplog.at_level(logging.WARNING):
        made = PathPlanner(franka(), "arm", file)
    assert made.config.seed == 7
    assert made.end_effector_frame == "panda_link7"
    assert "step_syze" in caplog.text
    file.write_text("task_space_frame_name: panda_lnk7\n")
    with pytest.raises(UnknownFrame, check=about("panda_lnk7")):
        PathPlanner(franka(), "arm", file)
    file.write_text("distance_metric_weights: [1, 1]\n")
    with pytest.raises(InvalidConfig):
        PathPlanner(franka(), "arm", file)


def test_targets_that_are_none_are_refused_and_the_one_before_stays():
    made = planner(barriers=False)
    made.set_cspace_target(GOAL)
    for position, orientation in (((0, 0), None), ((0, 0, np.nan), None), (None, (0, 0, 0, 0))):
        with pytest.raises(InvalidCommand, check=about("pose")):
            made.set_end_effector_target(position, orientation)
    with pytest.raises(InvalidCommand, check=about("the target")):
        made.set_cspace_target(GOAL[:5])
    path = made.compute_path(START)
    assert path is not None
    assert (path[-1] == GOAL).all()


def test_actions_follow_the_path_in_small_steps():
    made = planner()
    now = np.concatenate([START, [0.04, 0.04]])
    visualizer = PathPlannerVisualizer(made, lambda: now)
    assert visualizer.compute_plan_as_articulation_actions() == []
    made.set_cspace_target(GOAL)
    path = made.compute_path(START, now[7:])
    actions = visualizer.compute_plan_as_articulation_actions(max_cspace_dist=0.03)
    positions = np.array([action.joint_positions for action in actions])
    assert path is not None
    assert np.abs(np.diff(positions, axis=0)).max() <= 0.03 + 1e-9
    rows = {tuple(q) for q in positions}
    assert all(tuple(q) in rows for q in path)
    assert actions[0].joint_names == franka().group("arm").joints
    assert np.isnan(actions[0].joint_velocities).all()
    coarse = visualizer.interpolate_path(path, max_c_space_dist=0.5)
    assert len(path) <= len(coarse) < len(positions)
    assert visualizer.interpolate_path(None).shape == (0, 7)

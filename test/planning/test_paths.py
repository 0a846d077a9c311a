# SPDX-License-Identifier: Apache-2.0
"""Paths: tools for them, shortening, verification."""

import itertools
import math

import numpy as np
import pytest
from barrier_scene import GOAL, START, barrier_checker, barrier_scene, fine_path
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes import load_robot
from motion_nodes.core.planning import path_tools
from motion_nodes.core.planning.path_verification import PathVerifier
from motion_nodes.core.planning.planar_world import PlanarWorld, Wall, maze
from motion_nodes.core.planning.planning_problem import JointGoal, JointSpace, PlanRequest
from motion_nodes.core.planning.rrt_connect import RrtConnect
from motion_nodes.core.planning.shortcut import ShorteningSettings, shorten_path
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidConfig


def generic_space(lower, upper, weights=()) -> JointSpace:
    """Return a space of bounded coordinates, such as the positions of a point robot."""
    n, low, high = len(lower), np.array(lower, float), np.array(upper, float)
    names = tuple(f"x{k + 1}" for k in range(n))
    bounded = np.ones(n, bool)
    return JointSpace(names, low, high, ~bounded, bounded, np.array(weights, float))


PLANE = generic_space([-5.0, -5.0], [5.0, 5.0])
ALL_FREE = lambda Q: np.ones(len(Q), bool)  # noqa: E731


def wheel_space() -> JointSpace:
    """Return a space of two joints, the first of which is continuous."""
    return JointSpace(
        ("wheel", "slide"),
        np.array([-np.inf, -1.0]),
        np.array([np.inf, 1.0]),
        np.array([True, False]),
        np.array([False, True]),
        np.array([1.0, 2.0]),
    )


def test_difference_goes_the_shorter_way_round_where_a_joint_wraps():
    space = wheel_space()
    np.testing.assert_allclose(space.difference([3.0, 0.5], [-3.0, -0.5]), [2 * np.pi - 6, -1.0])
    np.testing.assert_allclose(space.difference([0.0, 0.0], [7.0, 0.0]), [7 - 2 * np.pi, 0.0])
    np.testing.assert_allclose(space.difference([0.0, 0.0], [np.pi, 0.0])[0], np.pi)


def test_distance_is_the_norm_of_the_weighted_difference():
    space = wheel_space()
    assert space.distance([0, 0], [0.3, 0.2]) == pytest.approx(0.5)
    assert space.distance([0, 0], [0.3, 0.2], norm=1) == pytest.approx(0.7)
    assert space.distance([0, 0], [0.3, 0.2], norm=math.inf) == pytest.approx(0.4)
    assert space.length([[0, 0], [0.3, 0.2], [0.0, 0.0]]) == pytest.approx(1.0)


def test_weights_must_fit_and_be_positive():
    for weights in ([1.0], [1.0, 0.0], [1.0, np.nan]):
        with pytest.raises(InvalidConfig, check=about("weights")):
            generic_space([0, 0], [1, 1], weights)


def test_unwrapped_path_has_no_step_of_more_than_half_a_turn():
    path = wheel_space().unwrapped([[3.0, 0.0], [-3.0, 0.0], [2.9, 0.0], [0.0, 0.0]])
    assert np.abs(np.diff(path[:, 0])).max() <= np.pi
    np.testing.assert_allclose(np.cos(path[:, 0]), np.cos([3.0, -3.0, 2.9, 0.0]))
    straight = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert (PLANE.unwrapped(straight) == straight).all()


def test_steps_are_three_degrees_and_two_centimetres_unless_told():
    space = wheel_space()
    turned = path_tools.interpolate(space, [[0, 0], [math.radians(30), 0.0]])
    assert len(turned) == 11
    slid = path_tools.interpolate(space, [[0, 0], [0.0, 0.1]])
    assert len(slid) == 6
    assert (slid[-1] == [0.0, 0.1]).all()
    assert len(path_tools.interpolate(space, [[0, 0], [0.0, 0.1]], resolutions=0.05)) == 3
    assert len(path_tools.interpolate(space, [[0, 0], [0.0, 0.0]])) == 2


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-1, 1)), min_size=1, max_size=6),
    st.floats(0.01, 1.0),
)
def test_interpolation_keeps_waypoints_and_no_joint_steps_too_far(points, step):
    path = np.array(points)
    dense = path_tools.interpolate(PLANE, path, step)
    assert np.abs(np.diff(dense, axis=0)).max(initial=0.0) <= step * (1 + 1e-6)
    rows = {tuple(row) for row in dense}
    assert all(tuple(row) in rows for row in path)


@pytest.mark.parametrize("bad", [[[0.0]], [[0.0, np.nan]], [], "path", [[0.0, np.inf]]])
def test_paths_that_are_none_are_refused_in_words(bad):
    with pytest.raises(InvalidCommand, check=about("the path")):
        path_tools.interpolate(PLANE, bad)  # type: ignore[arg-type]


def test_redundant_waypoints_go_and_both_ends_stay():
    path = np.array([[0, 0], [0.0005, 0], [0.5, 0], [0.5, 0.0009], [1, 1], [1.0004, 1]])
    kept = path_tools.waypoints_from_path(PLANE, path)
    assert len(kept) == 3
    np.testing.assert_array_equal(kept[[0, -1]], path[[0, -1]])
    np.testing.assert_array_equal(path_tools.waypoints_from_path(PLANE, path[:2]), path[:2])


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=2, max_size=6))
def test_waypoints_of_a_dense_path_are_where_it_bends(points):
    path = np.array(points)
    dense = path_tools.interpolate(PLANE, path, 0.3)
    kept = path_tools.waypoints_from_path(PLANE, dense)
    assert len(kept) <= len(path)
    assert (kept[0] == path[0]).all()
    assert (kept[-1] == path[-1]).all()
    # Each point of the dense path is within the tolerance of the simplified path.
    for point in dense:
        assert _away(point, kept) <= 1e-3 + 1e-9


def _away(point: np.ndarray, path: np.ndarray) -> float:  # type: ignore[type-arg]
    best = math.inf
    for a, b in itertools.pairwise(path):
        square = float((b - a) @ (b - a))
        share = min(1.0, max(0.0, float((point - a) @ (b - a)) / square)) if square else 0.0
        best = min(best, float(np.linalg.norm(a + share * (b - a) - point)))
    return best


def test_collision_between_waypoints_gives_no_path():
    wall = lambda Q: ~((Q[:, 0] > 0.49) & (Q[:, 0] < 0.51))  # noqa: E731
    ends = [[0.0, 0.0], [1.0, 0.0]]
    assert path_tools.interpolate_joint_waypoints(PLANE, ends, wall, 0.01) is None
    around = [[0.0, 0.0], [0.4, 0.0]]
    dense = path_tools.interpolate_joint_waypoints(PLANE, around, wall, 0.01)
    assert dense is not None
    assert len(dense) == 41
    outside = [[0.0, 0.0], [6.0, 0.0]]
    assert path_tools.interpolate_joint_waypoints(PLANE, outside, ALL_FREE) is None


def test_paths_of_an_arm_are_checked_between_waypoints_and_simplified():
    arm, world = load_robot("franka")["arm"], World(barrier_scene())
    assert arm.collision_free_batch([START, GOAL], world).all()
    assert arm.interpolate([START, GOAL], world) is None
    near = START + 0.05
    near[5] = START[5]
    dense = arm.interpolate([START, near], world, resolutions=0.01)
    assert dense is not None
    assert len(dense) == 6
    np.testing.assert_array_equal(arm.simplify(dense), [START, near])


def test_poses_along_a_line_step_by_a_centimetre_and_a_sixteenth_of_pi():
    A, B = from_xyz_rpy((0, 0, 0), (0.1, 0, 0)), from_xyz_rpy((0.3, -0.1, 0.2), (0.4, 1.0, 2.0))
    poses = path_tools.interpolate_poses(A, B)
    assert (poses[0] == A).all()
    assert (poses[-1] == B).all()
    steps = np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1)
    assert steps.max() <= 0.01 + 1e-12
    np.testing.assert_allclose(steps, steps[0])
    for X, Y in itertools.pairwise(poses):
        cosine = 0.5 * (np.trace(X[:3, :3].T @ Y[:3, :3]) - 1.0)
        assert math.acos(min(1.0, cosine)) <= math.pi / 16 + 1e-9
    turn = path_tools.interpolate_poses(A, from_xyz_rpy((0, 0, 0), (0.1 + math.pi / 2, 0, 0)))
    assert len(turn) == 9
    assert len(path_tools.interpolate_poses(A, A)) == 1


START_SHORTCUT, GOAL_SHORTCUT = (0.7, 0.7), (9.3, 9.3)
THOROUGH = ShorteningSettings(rounds=20, jumps=20, corner_tries=3, least_gain=1e-5)


def length(path, weights=(1.0, 1.0)):
    return float(np.linalg.norm(np.diff(path, axis=0) * weights, axis=1).sum())


@pytest.fixture(scope="module")
def world():
    return maze()


@pytest.fixture(scope="module")
def paths(world):
    requests = (
        world.request(START_SHORTCUT, GOAL_SHORTCUT, random_seed=k, timeout=100.0)
        for k in range(12)
    )
    return [RrtConnect().plan(request).path for request in requests]


@pytest.mark.parametrize("settings", [ShorteningSettings(), THOROUGH])
def test_shorter_free_and_with_the_same_ends(world, paths, settings):
    for path in paths:
        kept = path.copy()
        shorter = shorten_path(world.checker, path, settings)
        np.testing.assert_array_equal(path, kept)  # the input does not change
        assert tuple(shorter[0]) == START_SHORTCUT
        assert tuple(shorter[-1]) == GOAL_SHORTCUT
        assert length(shorter) < 0.98 * length(path)
        for a, b in itertools.pairwise(shorter):
            assert world.checker.edge_free(a, b)


def test_more_rounds_come_nearer_to_the_shortest(world, paths):
    usual = [length(shorten_path(world.checker, path)) for path in paths]
    thorough = [length(shorten_path(world.checker, path, THOROUGH)) for path in paths]
    assert np.mean(thorough) < np.mean(usual)


def test_round_one_corner_the_shortest_path_is_found():
    """The shortest path around the end of a wall touches it; its length is known."""
    world = PlanarWorld([Wall((5.0, 3.0), (0.02, 6.0))], radius=0.01, resolution=0.01)
    path = [(2.0, 3.0), (2.0, 9.5), (8.0, 9.5), (8.0, 3.0)]
    least = 2.0 * math.hypot(3.0, 3.0)
    assert length(shorten_path(world.checker, path, THOROUGH)) == pytest.approx(least, rel=0.02)
    assert length(shorten_path(world.checker, path)) < 1.12 * least


def test_equal_seeds_give_equal_paths(world, paths):
    one, same = (shorten_path(world.checker, paths[0], THOROUGH, random_seed=3) for _ in "ab")
    np.testing.assert_array_equal(one, same)


def test_weights_say_what_is_short(world, paths):
    weights = (5.0, 1.0)
    settings = ShorteningSettings(rounds=8, jumps=20, distance_metric_weights=weights)
    for path in paths:
        assert length(shorten_path(world.checker, path, settings), weights) <= length(path, weights)


@pytest.mark.parametrize(
    "path", [[START_SHORTCUT], [START_SHORTCUT, START_SHORTCUT], [START_SHORTCUT, (1.2, 3.0)]]
)
def test_paths_that_cannot_get_shorter_stay(world, path):
    np.testing.assert_array_equal(shorten_path(world.checker, path), path)


def test_repeated_waypoints_do_no_harm(world, paths):
    path = np.repeat(paths[0], 3, axis=0)
    shorter = shorten_path(world.checker, path, THOROUGH)
    assert np.isfinite(shorter).all()
    assert length(shorter) < length(path)


def test_a_path_of_thousands_of_waypoints_is_shortened_soon(world, paths):
    shares = np.linspace(0.0, 1.0, 400, endpoint=False)[:, np.newaxis]
    pieces = [a + shares * (b - a) for a, b in zip(paths[0][:-1], paths[0][1:], strict=True)]
    path = np.concatenate([*pieces, paths[0][-1:]])
    assert len(path) > 2000
    shorter = shorten_path(world.checker, path)
    assert len(shorter) < 40
    assert length(shorter) <= length(path)


def test_nothing_is_done_in_no_rounds(world, paths):
    none = ShorteningSettings(rounds=0)
    np.testing.assert_array_equal(shorten_path(world.checker, paths[0], none), paths[0])


@pytest.mark.parametrize("path", [[], [0.7, 0.7], [(0.7, 0.7, 0.7)], [(math.nan, 0.7), (1.0, 1.0)]])
def test_what_is_no_path_is_refused(world, path):
    with pytest.raises(InvalidCommand):
        shorten_path(world.checker, path)


def test_wrong_settings_are_refused_by_name(world):
    with pytest.raises(InvalidConfig, check=about("rounds")):
        ShorteningSettings(rounds=-1)
    with pytest.raises(InvalidConfig, check=about("distance_metric_weights")):
        shorten_path(
            world.checker,
            [START_SHORTCUT, GOAL_SHORTCUT],
            ShorteningSettings(distance_metric_weights=(1.0,)),
        )


def test_free_path_passes_and_is_certain_between_samples():
    checker = barrier_checker()
    result = RrtConnect().plan(PlanRequest(checker, START, (JointGoal(GOAL),), timeout=60.0))
    assert result.path is not None
    fine = fine_path(result.path, checker)
    assert checker.are_free(fine).all()
    looked = PathVerifier(checker).verify(result.path)
    assert looked.free
    assert looked.reason == ""
    assert looked.certain > 0.9
    assert 0 < looked.configurations < len(fine)


def test_way_through_an_obstacle_is_refused_in_words():
    looked = PathVerifier(barrier_checker()).verify(np.stack([START, GOAL]))
    assert not looked.free
    assert "deep in" in looked.reason
    assert "% of the path" in looked.reason


def test_wall_between_two_configurations_that_are_checked_is_found():
    # The checker's own steps are far longer than the wall is thick.
    world = PlanarWorld([Wall((5.03, 5.0), (0.002, 10.0))], radius=0.001, resolution=0.1)
    path = np.array([[4.0, 5.0], [6.0, 5.0]])
    assert world.checker.edge_free(path[0], path[1])
    looked = PathVerifier(world.checker).verify(path)
    assert not looked.free
    assert "wall_1" in looked.reason


def test_path_that_slides_along_a_wall_is_checked_to_the_end():
    # 0.1 mm beside the wall, samples prove little between them; the path is free nevertheless.
    world = PlanarWorld([Wall((5.0, 2.0), (10.0, 1.0))], radius=0.05, resolution=0.01)
    beside = np.array([[1.0, 2.5501], [2.0, 2.5501]])
    looked = PathVerifier(world.checker).verify(beside)
    assert looked.free
    assert looked.certain < 0.5
    assert looked.configurations >= 1000


def test_outside_the_limits_or_not_finite_is_refused():
    checker = barrier_checker()
    outside = GOAL.copy()
    outside[3] = 0.5
    looked = PathVerifier(checker).verify(np.stack([START, outside]))
    assert not looked.free
    assert "panda_joint4" in looked.reason
    assert not PathVerifier(checker).verify(np.stack([START, START * np.nan])).free


@pytest.mark.parametrize("path", [START[None], np.stack([START, START])])
def test_path_without_a_way_is_looked_at(path):  # type: ignore[type-arg]
    assert PathVerifier(barrier_checker()).verify(path).free

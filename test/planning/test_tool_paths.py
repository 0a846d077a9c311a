# SPDX-License-Identifier: Apache-2.0
"""Paths of the tool: geometry, files, conversion to joint trajectories."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.planning.task_space_conversion import PathConversionConfig, PathConverter
from motion_nodes.core.planning.task_space_generator import (
    CompositePathSpec,
    CSpacePathSpec,
    TaskSpaceTrajectoryGenerator,
    TransitionMode,
    load_path_spec,
)
from motion_nodes.core.planning.task_space_path_spec import Arc, TaskSpacePathSpec
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription, UnknownFrame


def beside(point, x, y, z):
    """Return a displaced point."""
    return point + np.array((x, y, z))


START = from_xyz_rpy((0.4, 0.1, 0.5), (math.pi, 0.1, 0.2))
P0 = START[:3, 3]


def sampled(path, count=400):
    return np.array([path.pose(s) for s in np.linspace(0.0, path.length, count)])


def angle_between(A, B):
    return math.acos(np.clip(0.5 * (np.trace(A[:3, :3].T @ B[:3, :3]) - 1.0), -1.0, 1.0))


def test_line_is_straight_and_turns_evenly():
    goal = from_xyz_rpy(beside(P0, 0.1, -0.2, 0.2), (math.pi, 0.5, 1.0))
    spec = TaskSpacePathSpec(START)
    spec.add_linear_path(goal)
    path = spec.path()
    assert path.length == pytest.approx(0.3)
    poses = sampled(path)
    shares = np.linspace(0.0, 1.0, len(poses))
    np.testing.assert_allclose(poses[:, :3, 3], P0 + shares[:, None] * (goal[:3, 3] - P0))
    whole = angle_between(START, goal)
    for share, pose in zip(shares, poses, strict=True):
        assert angle_between(START, pose) == pytest.approx(share * whole, abs=1e-6)
    np.testing.assert_allclose(poses[-1], goal, atol=1e-12)


def test_translation_and_rotation_keep_the_other():
    spec = TaskSpacePathSpec(START)
    spec.add_translation(beside(P0, 0.0, 0.2, 0.0))
    turned = from_xyz_rpy((0, 0, 0), (0.3, 0.4, 0.5))[:3, :3]
    spec.add_rotation(turned)
    path = spec.path()
    for pose in sampled(path):
        same_turn = np.allclose(pose[:3, :3], START[:3, :3], atol=1e-9)
        same_place = np.allclose(pose[:3, 3], beside(P0, 0.0, 0.2, 0.0), atol=1e-9)
        assert same_turn or same_place
    np.testing.assert_allclose(spec.final_pose[:3, :3], turned, atol=1e-12)
    np.testing.assert_allclose(path.corners, [0.2])


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(["kept", "tangent", "target"]))
def test_three_point_arcs_are_circles_through_their_points(seed, orientation):
    rng = np.random.default_rng(seed)
    mid, end = rng.uniform(-1.0, 1.0, (2, 3))
    goal = from_xyz_rpy(end, rng.uniform(-1.0, 1.0, 3))
    spec = TaskSpacePathSpec(START)
    if orientation == "target":
        spec.add_three_point_arc_with_orientation_target(goal, mid)
    else:
        spec.add_three_point_arc(end, mid, constant_orientation=orientation == "kept")
    path = spec.path()
    poses = sampled(path, 300)
    (arc,) = path.segments
    assert isinstance(arc, Arc)
    radii = np.linalg.norm(poses[:, :3, 3] - arc.center, axis=1)
    np.testing.assert_allclose(radii, arc.radius, rtol=1e-9)
    assert np.linalg.norm(poses[:, :3, 3] - mid, axis=1).min() < path.length / 250
    np.testing.assert_allclose(poses[-1][:3, 3], end, atol=1e-9)
    chords = np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1)
    assert chords.sum() == pytest.approx(path.length, rel=1e-3)
    if orientation == "kept":
        np.testing.assert_allclose(poses[:, :3, :3], np.tile(START[:3, :3], (300, 1, 1)))
    elif orientation == "target":
        np.testing.assert_allclose(poses[-1], goal, atol=1e-9)
    else:
        for share in (0.0, 0.3, 1.0):  # the direction is always the same in the tool's frame
            in_tool = arc.pose(share)[:3, :3].T @ arc.direction(share)
            np.testing.assert_allclose(in_tool, START[:3, :3].T @ arc.direction(0.0), atol=1e-9)


def test_tangent_arcs_go_on_in_the_same_direction():
    spec = TaskSpacePathSpec(START)
    spec.add_translation(beside(P0, 0.0, 0.1, 0.0))
    spec.add_tangent_arc(beside(P0, 0.0, 0.1, 0.2))
    spec.add_tangent_arc_with_orientation_target(
        from_xyz_rpy(beside(P0, 0.2, 0.0, 0.2), (math.pi, 0.0, 0.0))
    )
    path = spec.path()
    assert len(path.corners) == 0
    for before, after in itertools.pairwise(path.segments):
        np.testing.assert_allclose(before.direction(1.0), after.direction(0.0), atol=1e-9)
        np.testing.assert_allclose(before.pose(1.0), after.pose(0.0), atol=1e-9)
    # A half circle of radius 0.1: the chord is perpendicular to the tangent.
    assert path.segments[1].length == pytest.approx(0.1 * math.pi)


@pytest.mark.long
@pytest.mark.parametrize("radius", [0.01, 0.05, 10.0])
def test_blends_touch_both_lines_and_take_at_most_half_of_the_shorter(radius):
    spec = TaskSpacePathSpec(START)
    spec.add_translation(beside(P0, 0.0, 0.3, 0.0))
    spec.add_linear_path(from_xyz_rpy(beside(P0, 0.2, 0.3, 0.0), (math.pi, 0.4, 0.6)), radius)
    path = spec.path()
    assert len(path.corners) == 0
    corner = beside(P0, 0.0, 0.3, 0.0)
    (blend,) = [s for s in path.segments if isinstance(s, Arc)]
    used = min(radius, 0.1)
    for pose in (blend.pose(0.0), blend.pose(1.0)):
        assert np.linalg.norm(pose[:3, 3] - corner) == pytest.approx(used)
    assert blend.radius == pytest.approx(used)  # of a right angle
    poses = sampled(path, 3000)
    nearest = np.linalg.norm(poses[:, :3, 3] - corner, axis=1).min()
    assert nearest == pytest.approx(used * (math.sqrt(2.0) - 1.0), rel=1e-3)
    turns = [angle_between(a, b) for a, b in itertools.pairwise(poses)]
    assert max(turns) < 0.01


def test_without_blend_or_between_other_pieces_there_is_a_corner():
    spec = TaskSpacePathSpec(START)
    spec.add_translation(beside(P0, 0.0, 0.3, 0.0))
    spec.add_translation(beside(P0, 0.2, 0.3, 0.0))
    spec.add_three_point_arc(beside(P0, 0.2, 0.3, 0.2), beside(P0, 0.3, 0.3, 0.1))
    spec.add_translation(beside(P0, 0.2, 0.5, 0.2), blend_radius=0.1)
    spec.add_translation(beside(P0, 0.2, 0.3, 0.2), blend_radius=0.1)  # back: cannot be blended
    spec.add_translation(beside(P0, 0.2, 0.1, 0.2), blend_radius=0.1)  # straight on: need not be
    path = spec.path()
    np.testing.assert_allclose(path.corners, path.breaks[[1, 3, 4]])
    assert len(path.segments) == 6


NAN = float("nan")


@pytest.mark.parametrize(
    ("add", "words"),
    [
        (lambda s: s.add_linear_path(START), "pieces[0]"),
        (lambda s: s.add_translation(P0), "pieces[0]"),
        (lambda s: s.add_rotation(START[:3, :3]), "pieces[0]"),
        (lambda s: s.add_rotation(np.ones((3, 3))), "rotation"),
        (lambda s: s.add_linear_path(np.full((4, 4), NAN)), "pose"),
        (lambda s: s.add_translation([0.0, NAN, 0.0]), "position"),
        (lambda s: s.add_translation([0.0, 1.0]), "position"),
        (lambda s: s.add_translation(P0 + 1.0, -0.1), "blend_radius"),
        (lambda s: s.add_three_point_arc(beside(P0, 0.2, 0, 0), beside(P0, 0.1, 0, 0)), "arc"),
        (lambda s: s.add_three_point_arc(P0, beside(P0, 0.1, 0, 0)), "arc"),
        (lambda s: s.add_three_point_arc(beside(P0, 0.1, 0, 0), P0), "arc"),
        (lambda s: s.add_tangent_arc(P0 + 0.1), "arc"),
    ],
)
def test_pieces_that_are_none_are_refused_and_nothing_is_added(add, words):
    spec = TaskSpacePathSpec(START)
    with pytest.raises(InvalidCommand, check=about(words)):
        add(spec)
    assert len(spec) == 0
    np.testing.assert_array_equal(spec.final_pose, START)
    with pytest.raises(InvalidCommand):
        spec.path()


def test_tangent_arcs_need_a_direction():
    spec = TaskSpacePathSpec(START)
    spec.add_rotation(from_xyz_rpy((0, 0, 0), (0.3, 0.4, 0.5))[:3, :3])
    with pytest.raises(InvalidCommand):
        spec.add_tangent_arc(P0 + 0.1)
    spec.add_translation(beside(P0, 0.0, 0.1, 0.0))
    for target in (beside(P0, 0.0, 0.3, 0.0), P0 - [0.0, 0.3, 0.0]):
        with pytest.raises(InvalidCommand):
            spec.add_tangent_arc(target)
    assert len(spec) == 2


def test_beginning_elsewhere_changes_only_the_first_piece():
    spec = TaskSpacePathSpec(START)
    spec.add_translation(beside(P0, 0.0, 0.3, 0.0))
    spec.add_translation(beside(P0, 0.2, 0.3, 0.0), 0.05)
    other = from_xyz_rpy(beside(P0, 0.0, 0.0, 0.3), (math.pi, 0.1, 0.2))
    moved = spec.starting_at(other)
    np.testing.assert_allclose(moved.path().pose(0.0), other)
    np.testing.assert_allclose(moved.final_pose[:3, 3], spec.final_pose[:3, 3])
    led = spec.led_to_from(other).path()
    assert led.length == pytest.approx(spec.path().length + 0.3)
    assert spec.led_to_from(START).path().length == pytest.approx(spec.path().length)


FILE = """
composite:
  start: [0, 0, 0]
  parts:
    - mode: skip
      c_space: {start: [0, 0, 0], waypoints: [[0.1, 0, 0], [0.2, 0, 0.3]]}
    - mode: free
      task_space:
        start: {position: [0.4, 0.0, 0.5], quat_xyzw: [1, 0, 0, 0]}
        pieces:
          - linear: {position: [0.4, 0.2, 0.5], quat_xyzw: [1, 0, 0, 0]}
          - translation: {position: [0.4, 0.2, 0.3], blend_radius: 0.05}
          - rotation: {quat_xyzw: [0, 1, 0, 0]}
          - three_point_arc: {mid: [0.4, 0.1, 0.2], target: [0.4, 0.0, 0.3]}
          - tangent_arc: {target: [0.4, -0.1, 0.4], orientation: tangent}
          - three_point_arc: {mid: [0.4, 0.1, 0.6], target: [0.4, 0.2, 0.5],
                              orientation: target, quat_xyzw: [1, 0, 0, 0]}
          - tangent_arc: {target: [0.5, 0.2, 0.3], orientation: target, quat_xyzw: [0, 1, 0, 0]}
"""


def test_paths_from_a_file(tmp_path):
    file = tmp_path / "path.yaml"
    file.write_text(FILE)
    spec = load_path_spec(file)
    assert isinstance(spec, CompositePathSpec)
    (joints, skip), (tool, free) = spec.parts
    assert (skip, free) == (TransitionMode.SKIP, TransitionMode.FREE)
    np.testing.assert_array_equal(joints.waypoints, [[0, 0, 0], [0.1, 0, 0], [0.2, 0, 0.3]])
    by_hand = TaskSpacePathSpec(from_xyz_rpy((0.4, 0.0, 0.5), (math.pi, 0, 0)))
    by_hand.add_translation((0.4, 0.2, 0.5))
    by_hand.add_translation((0.4, 0.2, 0.3), 0.05)
    assert len(tool) == 7
    for s in np.linspace(0.0, by_hand.path().length, 20):
        np.testing.assert_allclose(tool.path().pose(s), by_hand.path().pose(s), atol=1e-9)
    np.testing.assert_allclose(tool.final_pose[:3, 3], (0.5, 0.2, 0.3))
    file.write_text("c_space: {start: [0, 1], waypoints: [[2, 3]]}")
    assert isinstance(load_path_spec(file), CSpacePathSpec)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("quat_xyzw: [1, 0, 0, 0]}\n", "quat: [1, 0, 0, 0]}\n"), "quat.*field"),
        (("mode: free", "mode: flee"), "'free'"),
        (("mode: skip", "mode: linear_task_space"), "path.*tool"),
        (("orientation: tangent", "orientation: target"), "quat_xyzw.*orientation: target"),
        (("[0.4, 0.2, 0.3]", "[0.4, 0.2]"), "position"),
        (("[0.4, 0.2, 0.3]", "[0.4, 0.2, 0.5]"), "ends.*where"),
        (
            ("rotation: {quat_xyzw: [0, 1, 0, 0]}", "rotation: {quat_xyzw: [0, 0, 0, 0]}"),
            "rotation",
        ),
        (("composite:", "composit:"), "'composite'"),
        (("[[0.1, 0, 0]", "[[0.1, 0]"), r"\b2\b.*values"),
        (("- rotation:", "- translation: {position: [0, 0, 0]}\n            rotation:"), "one of"),
    ],
)
def test_files_of_a_wrong_form_are_refused_with_file_and_place(tmp_path, change, words):
    file = tmp_path / "path.yaml"
    assert change[0] in FILE
    file.write_text(FILE.replace(*change, 1))
    with pytest.raises(InvalidDescription, match=words) as caught:
        load_path_spec(file)
    assert "path.yaml" in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(InvalidDescription):
        load_path_spec(tmp_path / "none.yaml")
    (tmp_path / "empty.yaml").write_text("{}")
    with pytest.raises(InvalidDescription):
        load_path_spec(tmp_path / "empty.yaml")


READY = {
    "franka": np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8]),
    "ur10e": np.array([0.0, -1.2, 1.5, -1.8, -1.57, 0.0]),
}


@functools.cache
def generator_of(robot):
    return TaskSpaceTrajectoryGenerator(load_robot(robot), "arm")


@functools.cache
def chain_of(robot):
    return IkChain.of_group(load_robot(robot), "arm")


def start_of(robot):
    chain = chain_of(robot)
    return chain.kinematics.pose(READY[robot], chain.tip)


def line(spec, P):
    spec.add_translation(beside(P, 0.0, 0.2, 0.0))


def rectangle(spec, P):
    for way in ([0, 0.2, 0], [0, 0.2, -0.2], [0, 0, -0.2], [0, 0, 0]):
        spec.add_translation(P + np.array(way, float))


def blended_rectangle(spec, P):
    for way in ([0, 0.2, 0], [0, 0.2, -0.2], [0, 0, -0.2], [0, 0, 0]):
        spec.add_translation(P + np.array(way, float), 0.04)


def circle(spec, P):
    spec.add_three_point_arc(beside(P, 0, 0.2, 0), beside(P, 0, 0.1, -0.1))
    spec.add_three_point_arc(P, beside(P, 0, 0.1, 0.1))


def turning(spec, P):
    spec.add_rotation(spec.final_pose[:3, :3] @ from_xyz_rpy((0, 0, 0), (0.2, 0.3, 0.5))[:3, :3])


def hook(spec, P):
    spec.add_translation(beside(P, 0.0, 0.1, 0.0))
    spec.add_tangent_arc(beside(P, 0.05, 0.1, -0.15), constant_orientation=True)


SHAPES = [line, rectangle, blended_rectangle, circle, turning, hook]


def spec_of(robot, shape):
    start = start_of(robot)
    spec = TaskSpacePathSpec(start)
    shape(spec, start[:3, 3])
    return spec


def deviation(robot, trajectory, path):
    """Return the max distance of the tool from the path at 500 Hz [m]."""
    chain = chain_of(robot)
    times = np.arange(0.0, trajectory.end_time, 2e-3)
    tools = chain.kinematics.pose_batch(trajectory.states(times)[0], chain.tip)[:, :3, 3]
    ideal = np.array([path.pose(s)[:3, 3] for s in np.linspace(0.0, path.length, 2000)])
    return max(np.linalg.norm(ideal - tool, axis=1).min() for tool in tools)


@pytest.mark.long
@pytest.mark.parametrize("robot", ["franka", "ur10e"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_tool_stays_near_its_path_and_the_joints_within_limits(robot, shape):
    generator, spec = generator_of(robot), spec_of(robot, shape)
    trajectory = generator.compute_task_space_trajectory_from_path_spec(spec, seed=READY[robot])
    assert trajectory is not None, generator.failure
    path = spec.path()
    assert deviation(robot, trajectory, path) < 0.003
    chain = chain_of(robot)
    for time, s in ((0.0, 0.0), (trajectory.end_time, path.length)):
        sample = trajectory.sample(time)
        np.testing.assert_allclose(
            chain.kinematics.pose(sample.position, chain.tip), path.pose(s), atol=2e-5
        )
        np.testing.assert_allclose(sample.velocity, 0.0, atol=1e-9)
    q, v, a, j = trajectory.states(np.arange(0.0, trajectory.end_time, 1e-3))
    limits = generator.limits
    assert limits.within(q, 1e-9)
    for values, bound in ((v, limits.velocity), (a, limits.acceleration), (j, limits.jerk)):
        assert np.all(np.abs(values) <= bound + 1e-6)
    assert np.abs(np.diff(generator.last.waypoints, axis=0)).max() <= 0.5
    assert generator.last.fraction == 1.0


@pytest.mark.long
def test_a_joint_that_reaches_its_limit_on_the_way_stays_there():
    """The joint path has a kink there, which a spline overshoots."""
    chain, rng, config = (
        chain_of("franka"),
        np.random.default_rng(3),
        PathConversionConfig(min_position_deviation=2e-5, max_position_deviation=5e-5),
    )
    at_limits = 0
    for _ in range(40):
        q = rng.uniform(chain.lower, chain.upper)
        joint = rng.integers(7)
        q[joint] = rng.choice((chain.lower[joint] + 0.02, chain.upper[joint] - 0.02))
        X = chain.kinematics.pose(q, chain.tip)
        goal = X.copy()
        goal[:3, 3] += rng.normal(0.0, 0.15, 3)
        spec = TaskSpacePathSpec(X)
        spec.add_linear_path(goal)
        found = PathConverter(chain, config).convert(spec.path(), q)
        assert found.fraction > 0.0, found.reason
        Q = found.path.evaluate(np.linspace(0.0, found.path.length, 2000))
        assert (Q >= chain.lower).all()
        assert (Q <= chain.upper).all()
        at_limits += bool(np.minimum(Q - chain.lower, chain.upper - Q).min() < 2e-3)
    assert at_limits > 10


@pytest.mark.long
def test_a_narrower_window_gives_more_waypoints():
    spec = spec_of("franka", circle)
    chain, counts = chain_of("franka"), []
    for window in ((1e-3, 3e-3), (1e-5, 3e-5)):
        config = PathConversionConfig(
            min_position_deviation=window[0], max_position_deviation=window[1]
        )
        converted = PathConverter(chain, config).convert(spec.path(), READY["franka"])
        places = np.linspace(0.0, converted.path.length, 3000)
        tools = chain.kinematics.pose_batch(converted.path.evaluate(places), chain.tip)
        ideal = np.array([spec.path().pose(s)[:3, 3] for s in places])
        assert np.linalg.norm(tools[:, :3, 3] - ideal, axis=1).max() <= window[1]
        counts.append(len(converted.waypoints))
    assert counts[1] > 3 * counts[0]


def test_points_are_joined_by_straight_lines():
    generator, start = generator_of("franka"), start_of("franka")
    positions = start[:3, 3] + np.array([[0, 0, 0], [0, 0.1, 0], [0, 0.1, 0], [0, 0.1, -0.1]])
    quats = np.tile(to_quat_xyzw(start), (4, 1))
    trajectory = generator.compute_task_space_trajectory_from_points(
        positions, quats, seed=READY["franka"]
    )
    assert trajectory is not None, generator.failure
    assert len(trajectory.path.stops) == 1
    spec = TaskSpacePathSpec(start)
    spec.add_translation(positions[1])
    spec.add_translation(positions[3])
    assert deviation("franka", trajectory, spec.path()) < 0.003


def test_a_path_out_of_reach_says_how_far_and_why():
    generator, start = generator_of("franka"), start_of("franka")
    spec = TaskSpacePathSpec(start)
    spec.add_translation(start[:3, 3] + [2.0, 0.0, 0.0])
    assert (
        generator.compute_task_space_trajectory_from_path_spec(spec, seed=READY["franka"]) is None
    )
    assert 0.05 < generator.last.fraction < 0.3
    assert "the tool's path was followed for" in generator.failure
    assert "of 2 " in generator.failure
    assert "no inverse kinematics solution continues the path" in generator.failure
    # The part that was followed is near the path up to its end.
    chain = chain_of("franka")
    tool = chain.kinematics.pose(generator.last.waypoints[-1], chain.tip)
    reached = start[0, 3] + 2.0 * generator.last.fraction
    np.testing.assert_allclose(tool[:3, 3], [reached, *start[1:3, 3]], atol=1e-4)


def test_a_start_out_of_reach_says_so():
    generator = generator_of("franka")
    spec = TaskSpacePathSpec(from_xyz_rpy((3.0, 0.0, 0.5)))
    spec.add_translation((2.0, 0.0, 0.5))
    assert generator.compute_task_space_trajectory_from_path_spec(spec) is None
    assert "the start of the tool's path cannot be reached" in generator.failure
    assert generator.last.path is None


def test_an_obstacle_ends_the_path_before_it():
    chain, spec = chain_of("franka"), spec_of("franka", line)
    wall = start_of("franka")[1, 3] + 0.12

    def is_free(Q):
        return chain.kinematics.pose_batch(Q, chain.tip)[:, 1, 3] < wall

    converted = PathConverter(chain, is_free=is_free).convert(spec.path(), READY["franka"])
    assert "collide" in converted.reason
    assert 0.1 < converted.fraction < 0.6
    dense = converted.path.evaluate(np.linspace(0.0, converted.path.length, 500))
    assert is_free(dense).all()


@pytest.mark.parametrize("mode", list(TransitionMode))
def test_composite_paths_join_without_gaps(mode):
    robot = "franka"
    chain, start = chain_of(robot), start_of(robot)
    P = start[:3, 3]
    tool = TaskSpacePathSpec(from_xyz_rpy(beside(P, 0.05, 0.1, 0.0), (math.pi, 0.0, 0.1)))
    tool.add_translation(beside(P, 0.05, 0.2, -0.1))
    joints = CSpacePathSpec(READY[robot])
    near = READY[robot] + 0.1
    joints.add_c_space_waypoint(near)
    composite = CompositePathSpec(READY[robot])
    composite.add_c_space_path_spec(joints, TransitionMode.SKIP)
    composite.add_task_space_path_spec(tool, mode)
    back = TransitionMode.FREE if mode is TransitionMode.LINEAR_TASK_SPACE else mode
    composite.add_c_space_path_spec(CSpacePathSpec(READY[robot]), TransitionMode.FREE)
    joints_again = CSpacePathSpec(near)
    joints_again.add_c_space_waypoint(READY[robot])
    composite.add_c_space_path_spec(joints_again, back)
    generator = generator_of(robot)
    trajectory = generator.compute_task_space_trajectory_from_path_spec(composite)
    assert trajectory is not None, generator.failure
    times = np.arange(0.0, trajectory.end_time, 1e-3)
    q, v, a, _ = trajectory.states(times)
    assert np.all(np.abs(v) <= generator.limits.velocity + 1e-6)
    assert np.all(np.abs(a) <= generator.limits.acceleration + 1e-6)
    assert np.all(np.abs(np.diff(q, axis=0)) <= generator.limits.velocity * 1e-3 + 1e-6)
    np.testing.assert_allclose(q[0], READY[robot], atol=1e-9)
    np.testing.assert_allclose(
        trajectory.sample(trajectory.end_time).position, READY[robot], atol=1e-9
    )
    assert np.linalg.norm(q - near, axis=1).min() < 1e-2
    tools = chain.kinematics.pose_batch(q, chain.tip)[:, :3, 3]
    assert np.linalg.norm(tools - tool.final_pose[:3, 3], axis=1).min() < 1e-3
    to_start = np.linalg.norm(tools - tool.initial_pose[:3, 3], axis=1).min()
    assert (to_start < 1e-3) == (mode is not TransitionMode.SKIP)


def test_composite_paths_of_no_use_are_refused():
    composite = CompositePathSpec(np.zeros(7))
    with pytest.raises(InvalidCommand):
        composite.add_c_space_path_spec(
            CSpacePathSpec(np.zeros(7)), TransitionMode.LINEAR_TASK_SPACE
        )
    with pytest.raises(InvalidCommand):
        composite.add_c_space_path_spec(CSpacePathSpec(np.zeros(6)), TransitionMode.FREE)
    with pytest.raises(InvalidCommand):
        composite.add_task_space_path_spec(TaskSpacePathSpec(np.eye(4)), TransitionMode.FREE)
    with pytest.raises(InvalidCommand, check=about("q")):
        CSpacePathSpec([0.0, float("nan")])
    with pytest.raises(InvalidCommand):
        generator_of("franka").compute_task_space_trajectory_from_path_spec(composite)


def test_settings_frames_and_bad_requests():
    generator = TaskSpaceTrajectoryGenerator(load_robot("franka"), "arm")
    links = {f"panda_link{k}" for k in range(9)}
    hand = {"panda_hand", "panda_hand_tcp", "panda_leftfinger", "panda_rightfinger"}
    names = generator.get_all_frame_names()
    assert len(names) == len(set(names))
    assert set(names) == links | hand
    assert generator.set_path_conversion_param("alpha", 2.0)
    assert generator.get_path_conversion_config().alpha == 2.0
    for name, value in (("alpha", 1.0), ("alpha", math.nan), ("beta", 1.0), ("alpha", "x")):
        assert not generator.set_path_conversion_param(name, value)
    assert not generator.set_path_conversion_param("min_position_deviation", 0.5)
    with pytest.raises(InvalidConfig):
        PathConversionConfig(max_iterations=0)
    spec = spec_of("franka", line)
    with pytest.raises(UnknownFrame):
        generator.compute_task_space_trajectory_from_path_spec(spec, "no_such_frame")
    for positions, quats in (
        ([[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 1.0]]),
        ([[0.0, 0.0, 0.0]] * 2, [[0.0, 0.0, 0.0, 1.0]]),
        ([[0.0, 0.0, 0.0]] * 2, [[0.0, 0.0, 0.0, 0.0]] * 2),
        ([[0.0, 0.0, math.nan]] * 2, [[0.0, 0.0, 0.0, 1.0]] * 2),
    ):
        with pytest.raises(InvalidCommand):
            generator.compute_task_space_trajectory_from_points(positions, quats)

# SPDX-License-Identifier: Apache-2.0
"""Geometry of tool paths: lines, arcs, blends, corners, errors, files."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.planning.composite_path import (
    CompositePathSpec,
    CSpacePathSpec,
    TransitionMode,
)
from motion_nodes.core.planning.task_space_generator import load_path_spec
from motion_nodes.core.planning.task_space_path_spec import Arc, TaskSpacePathSpec
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand, InvalidDescription


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
        (
            lambda s: s.add_three_point_arc(beside(P0, 0.2, 0, 0), beside(P0, 0.1, 0, 0)),
            "arc",
        ),
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

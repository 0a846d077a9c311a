# SPDX-License-Identifier: Apache-2.0
"""The collision checker: generated code against plain NumPy and coal."""

import ctypes
import itertools
import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from raised_errors import about
from scene.checkers import NEAR, configurations, pair
from scene.motion_bench_maker import FINGERS, scene_of
from scene.numpy_checker import edge_step_count
from scene.random_scenes import KINDS, coal_collides, coal_distance, random_pose, random_scene

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.collision_arrays import FILLING
from motion_nodes.core.scene.contacts import KernelChecker
from motion_nodes.core.scene.robot_spheres import link_parts
from motion_nodes.core.scene.scene import AllowedCollisions, AttachedBody, Part, Scene, world_object
from motion_nodes.errors import (
    InvalidCommand,
    InvalidConfig,
    UnknownFrame,
    UnknownGroup,
    UnknownJoint,
)
from motion_nodes.typing import Array

PROBLEMS = Path(__file__).with_name("motion_bench_maker.json")


@pytest.fixture(scope="module")
def franka():
    return load_robot("franka")


def assert_same_verdicts(fast: CollisionChecker, slow: CollisionChecker, Q: Array) -> int:
    """Compare verdicts away from the boundary; return the number of free configurations."""
    verdicts = fast.are_free(Q)
    for q, free in zip(Q, verdicts, strict=True):
        gap = slow.distance(q).value
        if abs(gap) > NEAR:
            assert free == (gap > 0.0)
    return int(verdicts.sum())


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["franka", "ur10e", "jetbot", "kaya", "nova_carter", "leatherback"]
)
def test_generated_code_agrees_with_plain_numpy(name):
    robot = load_robot(name)
    fast, slow = pair(robot, None)
    assert fast.kernel().memory != 0
    span = 1.0 if robot.kind == "arm" else 0.4
    for seed in range(2):
        rng = np.random.default_rng(seed)
        scene = random_scene(rng, 14, low=0.35 * span, high=span)
        for checker in (fast, slow):
            checker.set_scene(scene)
        assert_same_verdicts(fast, slow, configurations(fast, 16, seed))


def test_every_kind_of_shape_is_met_and_missed(franka):
    fast, slow = pair(franka)
    for index, kind in enumerate(KINDS):
        scene = random_scene(np.random.default_rng(index), 5, (kind,), size=0.035, high=0.7)
        for checker in (fast, slow):
            checker.set_scene(scene)
        free = assert_same_verdicts(fast, slow, configurations(fast, 60, index))
        assert 0 < free < 60, kind


def test_distances_of_spheres_are_those_of_coal(franka):
    _, slow = pair(franka)
    scene = random_scene(np.random.default_rng(3), 7, size=0.05)
    slow.set_scene(scene)
    for q in configurations(slow, 6, 3):
        distances = slow.sphere_distances(q)
        for s, sphere in enumerate(slow.sphere_positions(q)):
            at = from_xyz_rpy(sphere[:3])
            gaps = [
                coal_distance(Sphere(sphere[3]), at, part.solid, item.X_WO @ part.X_OS)
                for item in scene.objects.values()
                for part in item.parts
            ]
            if distances.distance[s] > -sphere[3]:  # in coal a mesh has no inside
                assert distances.distance[s] == pytest.approx(min(gaps), abs=5e-6)


@pytest.mark.parametrize("name", ["franka", "ur10e", "covered_franka"])
def test_nothing_that_touches_the_geometry_is_called_free(name, franka):
    """The shapes of the URDF against the world by coal: no misses, no false alarms.

    Spheres that cover the shapes of a link without spheres of its own miss nothing either.
    """
    covered = name == "covered_franka"
    robot = replace(franka, spheres={}) if covered else load_robot(name)
    checker = CollisionChecker(robot)
    kinematics = Kinematics(robot.tree)
    kinds = ("sphere", "box", "cylinder", "capsule", "cone", "hull")
    hits = misses = cautious = missed_by_spheres = 0
    for seed in range(3):
        scene = random_scene(np.random.default_rng(seed), 6, kinds, size=0.05, low=0.2, high=0.65)
        checker.set_scene(scene)
        for q in configurations(checker, 30, seed):
            poses = dict(zip(kinematics.frame_names, kinematics.frames(q), strict=True))
            touching = any(
                coal_collides(own.solid, poses[link] @ own.X_OS, part.solid, item.X_WO)
                for link in robot.tree.links
                for own in link_parts(robot, link)
                for item in scene.objects.values()
                for part in item.parts
            )
            in_world = any(c.kind == "world" for c in checker.exact.explain(q))
            hits += touching
            misses += touching and not in_world
            cautious += in_world and not touching
            if covered and touching:
                missed_by_spheres += not any(c.kind == "world" for c in checker.explain(q))
    assert hits >= 5
    assert (misses, cautious, missed_by_spheres) == (0, 0, 0)


def test_generated_distances_are_the_plain_ones(franka):
    """Distance, direction and name of the nearest object of each sphere, also of carried bodies."""
    kinds = (*(kind for kind in KINDS if kind != "mesh"), "ground")
    tool = AttachedBody(
        "tool", "panda_hand", from_xyz_rpy((0, 0, 0.2)), (Part(Sphere(0.03), np.eye(4)),)
    )
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scene = random_scene(rng, 14, kinds, size=0.05, low=0.2)
        allowed = AllowedCollisions().with_pairs([("panda_link0", name) for name in scene.objects])
        scene = replace(scene, attached={"tool": tool}, allowed=allowed)
        fast, slow = pair(franka, scene=scene, X_WB=random_pose(rng))
        for q in configurations(fast, 5, seed):
            found, wanted = fast.sphere_distances(q), slow.sphere_distances(q)
            np.testing.assert_allclose(found.distance, wanted.distance, atol=3e-6)
            np.testing.assert_allclose(found.position, wanted.position, atol=1e-6)
            assert np.isinf(found.distance[0])  # the link that may touch everything
            assert found.obstacle[0] == ""
            clear = np.abs(wanted.distance + slow.sphere_positions(q)[:, 3]) > 1e-3
            same = np.array(found.obstacle) == np.array(wanted.obstacle)
            assert same.mean() > 0.95  # of two equally near objects either may be named
            agree = np.abs(found.direction - wanted.direction).max(axis=1) < 1e-3
            assert (agree | ~same | ~clear).mean() > 0.97  # either way near edges
        assert len(fast.sphere_bodies) == len(found.distance)


def test_generated_distances_to_a_mesh_have_the_right_sign(franka):
    scene = random_scene(np.random.default_rng(5), 9, ("mesh",), size=0.2, low=0.35, high=0.6)
    cell = FILLING * 0.4
    fast, slow = pair(franka, scene=scene)
    depths = 0
    for q in configurations(fast, 8, 4):
        found, wanted = fast.sphere_distances(q).distance, slow.sphere_distances(q).distance
        radii = slow.sphere_positions(q)[:, 3]
        outside = wanted > -radii
        np.testing.assert_allclose(found[outside], wanted[outside], atol=3e-6)
        promised = ~outside & (radii > np.sqrt(3.0) * cell)
        assert (found[promised] < 0.0).all()
        depths += int(promised.sum())
    assert depths > 0


def test_problems_of_motion_bench_maker(franka):
    """Starts and goals of published problems are free if and only if the problem is valid.

    The reference model has its fingers at 65 mm, so the verdicts are for fingers there.
    """
    fast, slow = pair(franka)
    problems = json.loads(PROBLEMS.read_text())["problems"]
    for checker in (fast, slow):
        checker.set_positions(FINGERS)
    for problem in problems:
        scene = scene_of(problem)
        for checker in (fast, slow):
            checker.set_scene(scene)
            free = checker.is_free(problem["start"]) and any(
                checker.is_free(q) for q in problem["goals"]
            )
            assert free == problem["valid"]


def test_one_by_one_is_as_many_at_once(franka):
    checker = CollisionChecker(franka, "arm", scene=random_scene(np.random.default_rng(5), 10))
    Q = configurations(checker, 37, 5)
    together = checker.are_free(Q)
    assert together.shape == (37,)
    assert 0 < together.sum() < 37
    assert list(together) == [checker.is_free(q) for q in Q]
    assert checker.are_free(np.empty((0, 7))).shape == (0,)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_no_number_is_not_free(franka, value):
    for checker in pair(franka):
        q = franka.home[:7].copy()
        assert checker.is_free(q)
        Q = np.tile(q, (20, 1))
        Q[3, 2] = value
        if np.isfinite(value):
            continue  # finite but absurd: any verdict but a crash
        assert not checker.is_free(Q[3])
        assert not checker.edge_free(q, Q[3])
        assert not checker.edge_free(Q[3], q)
        assert list(np.flatnonzero(~checker.are_free(Q))) == [3]
        assert np.isnan(checker.distance(Q[3]).value)
        assert checker.problems(Q[3])


def test_whole_turns_change_nothing(franka):
    checker = CollisionChecker(franka, "arm", scene=random_scene(np.random.default_rng(6), 12))
    Q = configurations(checker, 60, 6)
    np.testing.assert_array_equal(
        checker.are_free(Q), checker.are_free(Q + 2000.0 * np.pi * np.arange(-3, 4))
    )


def test_wrong_input_is_told(franka):
    checker = CollisionChecker(franka, "arm")
    with pytest.raises(InvalidCommand):
        checker.is_free(np.zeros(6))
    with pytest.raises(InvalidCommand):
        checker.are_free(np.zeros(7))
    with pytest.raises(InvalidCommand):
        checker.set_positions({"panda_finger_joint1": np.nan})
    with pytest.raises(UnknownJoint, check=about("panda_joint_1")):
        checker.set_positions({"panda_joint_1": 0.0})
    with pytest.raises(UnknownGroup, check=about("arms")):
        CollisionChecker(franka, "arms")
    with pytest.raises(InvalidConfig):
        checker.set_clearance(-1.0)
    with pytest.raises(InvalidConfig, check=about("resolution")):
        CollisionChecker(franka, "arm", resolution=0.0)
    with pytest.raises(InvalidCommand):
        checker.set_base_pose(np.full((4, 4), np.nan))
    body = AttachedBody("tool", "no_link", np.eye(4), (Part(Sphere(0.1), np.eye(4)),))
    before = checker.scene
    with pytest.raises(UnknownFrame, check=about("no_link")):
        checker.set_scene(Scene(attached={"tool": body}))
    assert checker.scene is before
    assert checker.is_free(franka.home[:7])


def test_edges_include_their_end_and_not_their_start(franka):
    inside = franka.home[:7]
    tip = Kinematics(franka.tree).pose(franka.home, "panda_hand_tcp")[:3, 3]
    ball = Scene({"ball": world_object("ball", Sphere(0.03), from_xyz_rpy(tip))})
    for checker in pair(franka, scene=ball):
        away = inside + np.eye(7)[0]
        count = edge_step_count(away - inside, checker.resolution)
        assert count is not None
        way = inside + np.arange(count + 1)[:, None] / count * (away - inside)
        last = int(np.flatnonzero(~checker.are_free(way)).max())
        assert 0 < last < count
        assert checker.edge_free(way[last], away)
        assert not checker.edge_free(way[last - 1], away)
        assert not checker.edge_free(away, way[last])
        assert checker.edge_free(away, way[last + 1])
        assert not checker.edge_free(2.0 * inside - away, away)  # through the ball


def test_edges_agree_with_their_configurations(franka):
    fast, slow = pair(franka, scene=random_scene(np.random.default_rng(8), 7, size=0.04))
    Q = configurations(fast, 160, 8)
    verdicts = []
    for a, b in itertools.pairwise(Q):
        end = a + 0.4 * (b - a)
        count = edge_step_count(end - a, fast.resolution)
        assert count is not None
        way = a + np.arange(1, count + 1)[:, None] / count * (end - a)
        free = fast.edge_free(a, end)
        if free != fast.are_free(way).all():
            # The configurations differ by rounding: only grazing ones may differ.
            assert min(abs(slow.distance(q).value) for q in way) < NEAR
        verdicts.append(free)
    assert 10 < sum(verdicts) < len(verdicts) - 10
    for k in (*np.flatnonzero(verdicts)[:3], *np.flatnonzero(~np.array(verdicts))[:3]):
        assert slow.edge_free(Q[k], Q[k] + 0.4 * (Q[k + 1] - Q[k])) == verdicts[k]
    for a, b in itertools.pairwise(Q):
        line = a + np.linspace(0.0, 0.4, 5)[:, None] * (b - a)
        each = [fast.edge_free(*edge) for edge in itertools.pairwise(line)]
        assert fast.line_free(line) == all(each)


def test_an_edge_too_long_to_check_is_not_free(franka):
    for checker in pair(franka):
        far = franka.home[:7] + 1e9
        assert not checker.edge_free(franka.home[:7], far)


def call_state(kernel: KernelChecker, q: Array) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(kernel.state)
    return int(function(np.ascontiguousarray(q).ctypes.data, kernel.memory))


def test_kernels_answer_for_the_world_they_were_made_in(franka):
    q = np.ascontiguousarray(franka.home[:7])
    hand = Kinematics(franka.tree).pose(franka.home, "panda_hand")[:3, 3]
    ball = Scene({"ball": world_object("ball", Sphere(0.05), from_xyz_rpy(hand))})
    checker = CollisionChecker(franka, "arm")
    before = checker.kernel()
    checker.set_scene(ball)
    after = checker.kernel()
    other = checker.snapshot()
    checker.set_scene(Scene())
    assert [call_state(k, q) for k in (before, after, checker.kernel())] == [1, 0, 1]
    assert not other.is_free(q)
    assert checker.is_free(q)
    edge = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(after.edge)
    turned = q + np.array([1.2, 0, 0, 0, 0, 0, 0])
    further = q + np.array([1.7, 0, 0, 0, 0, 0, 0])
    assert edge(turned.ctypes.data, further.ctypes.data, after.memory) == 1
    assert edge(turned.ctypes.data, q.ctypes.data, after.memory) == 0


def test_kept_tables_are_those_of_their_world_and_margin(franka):
    """As for requests in turn: with a margin and without, in changing scenes."""
    scenes = [Scene({"ball": world_object("ball", Sphere(0.1), from_xyz_rpy((x, 0.2, 0.5)))})
              for x in (0.3, 0.5)]  # fmt: skip
    base, Q = CollisionChecker(franka, "arm"), franka.home[np.newaxis, :7]
    for scene, margin in itertools.product(scenes + scenes, (0.02, 0.0, 0.02)):
        base.set_scene(scene)
        base.kernel()
        copies = [base.snapshot(), base.snapshot()]
        fresh = CollisionChecker(franka, "arm", scene=scene)
        for checker in (*copies, fresh):
            checker.set_sphere_margin(margin)
        assert copies[0].kernel().memory == copies[1].kernel().memory
        for found, wanted in zip(
            copies[1].world_distances(Q), fresh.world_distances(Q), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)


def test_threads_agree(franka):
    checker = CollisionChecker(franka, "arm", scene=random_scene(np.random.default_rng(12), 10))
    Q = configurations(checker, 2000, 12)
    expected = checker.are_free(Q)
    found: list[np.ndarray] = []

    def work() -> None:
        found.extend(checker.are_free(Q) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 15
    for verdicts in found:
        np.testing.assert_array_equal(verdicts, expected)


def test_resolution_may_be_a_travel_or_a_step_for_each_joint(franka):
    by_default = CollisionChecker(franka, "arm")
    kinematics = Kinematics(franka.tree)
    # No sphere moves farther than 2 cm when one joint makes its step.
    for q in configurations(by_default, 10, 13):
        here = by_default.sphere_positions(q)[:, :3]
        for k in range(7):
            there = q.copy()
            there[k] += by_default.resolution[k]
            moved = np.linalg.norm(by_default.sphere_positions(there)[:, :3] - here, axis=1)
            assert moved.max() < 0.0203
    assert by_default.resolution[0] < by_default.resolution[6]
    finer = CollisionChecker(franka, "arm", resolution=0.002)
    np.testing.assert_allclose(finer.resolution, 0.1 * by_default.resolution)
    steps = np.full(7, np.deg2rad(3.0))
    np.testing.assert_allclose(CollisionChecker(franka, "arm", resolution=steps).resolution, steps)
    with pytest.raises(InvalidConfig):
        CollisionChecker(franka, "arm", resolution=[0.1, 0.1, 0.1])
    assert edge_step_count(np.array([0.3, 0.4]), np.array([0.1, 0.1])) == 5
    assert edge_step_count(np.zeros(2), np.array([0.1, 0.1])) == 1
    assert kinematics.joint_names[:7] == by_default.joint_names

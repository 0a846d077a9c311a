# SPDX-License-Identifier: Apache-2.0
"""Exact collision checks against coal: robots, paths, carried bodies, meshes, reports."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scene.coal_robot import NEAR, CoalRobot
from scene.random_scenes import (
    KINDS,
    coal_distance,
    l_shaped_mesh,
    random_pose,
    random_scene,
    random_solid,
)
from scene.slider_robot import slider_robot, sliding_robot
from scipy.spatial import ConvexHull

from motion_nodes.core.planning.path_verification import PathVerifier
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.convex_decomposition import convex_parts
from motion_nodes.core.scene.convex_pieces import boxes_around, chosen, pieces_of, placed, shrunk
from motion_nodes.core.scene.exact_checks import SELF_CLEARANCE, overlap
from motion_nodes.core.scene.robot_spheres import link_parts
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.shapes import HalfSpace
from motion_nodes.core.scene.world import World
from motion_nodes.tolerances import RESTING_DEPTH
from motion_nodes.typing import Array

DEEP = 1e-4
"""Max penetration depth of states that pass [m]."""


def checker_of(name: str, objects: int, seed: int, clearance: float = 0.0) -> CollisionChecker:
    rng = np.random.default_rng(seed)
    kinds = tuple(kind for kind in KINDS if kind != "mesh")
    scene = random_scene(rng, objects, kinds, size=0.05, low=0.4, high=1.0)
    return CollisionChecker(load_robot(name), "arm", scene=scene, clearance=clearance)


def random_configurations(checker: CollisionChecker, count: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    low, high = (np.clip(x, -np.pi, np.pi) for x in (checker.limits.lower, checker.limits.upper))
    return rng.uniform(low, high, (count, len(low)))


@pytest.mark.parametrize(("name", "clearance"), [("franka", 0.0), ("ur10e", 0.005)])
def test_verdicts_are_those_of_coal(name, clearance):
    checker = checker_of(name, 10, 3, clearance)
    oracle, Q = CoalRobot(checker), random_configurations(checker, 150)
    distances = np.array([oracle.distance(q) for q in Q])
    free = checker.exact.are_free(Q)
    assert 10 < free.sum() < len(Q) - 10
    assert not free[distances < -DEEP].any()
    assert free[distances > SELF_CLEARANCE].all()
    assert (distances < NEAR).sum() > 20


def test_copies_share_the_checks_until_they_change():
    checker = checker_of("franka", 10, 3)
    Q = random_configurations(checker, 100)
    wanted, words = checker.exact.are_free(Q), [checker.exact.problems(q) for q in Q[:3]]
    copy = checker.snapshot()
    copy.set_sphere_margin(0.01)
    assert copy.exact is checker.exact
    with ThreadPoolExecutor(3) as pool:
        copies = [checker.snapshot() for _ in range(6)]
        for free in pool.map(lambda own: own.exact.are_free(Q), copies):
            assert (free == wanted).all()
    shared = copy.exact
    copy.set_scene(World().scene)
    assert copy.exact is not shared
    assert copy.exact.are_free(Q).sum() > wanted.sum()
    checker.set_scene(World().scene)
    assert [shared.problems(q) for q in Q[:3]] == words  # of the scene for which it was created


def test_scenes_clearances_and_threads_share_memory_without_confusion():
    robot, raised = load_robot("franka"), np.eye(4)
    raised[2, 3] = 0.3
    scenes = [checker_of("franka", 10, seed).scene for seed in (3, 4)]
    cases = [
        CollisionChecker(robot, "arm", scene=scene, clearance=clearance, X_WB=pose)
        for scene in scenes
        for clearance in (0.0, 0.1)
        for pose in (np.eye(4), raised)
    ]
    Q = random_configurations(cases[0], 100)

    def verdicts(checker: CollisionChecker) -> Array:
        return np.array([checker.exact.is_free(q) for q in Q])

    alone = [verdicts(checker) for checker in cases]
    assert len({found.tobytes() for found in alone}) == len(cases)
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(verdicts, 2 * cases), 2 * alone, strict=True):
            assert (found == wanted).all()
    for q in Q:  # alternately, by one thread
        assert [checker.exact.is_free(q) for checker in cases] == [w[0] for w in alone]
        alone = [w[1:] for w in alone]


@pytest.mark.parametrize(("name", "objects"), [("franka", 8), ("ur10e", 8)])
def test_a_path_that_passes_touches_nothing_by_coal(name, objects):
    checker = checker_of(name, objects, 5)
    oracle, verifier = CoalRobot(checker), PathVerifier(checker)
    Q = random_configurations(checker, 400, 1)
    Q = Q[checker.exact.are_free(Q)]
    passed = refused = 0
    for a, b in itertools.pairwise(Q):
        b = a + 0.35 * (b - a)
        found = verifier.verify(np.stack([a, b]))
        line = a + np.linspace(0.0, 1.0, 12)[:, None] * (b - a)
        depth = min(oracle.distance(q) for q in line)
        assert depth > -DEEP or not found.free
        passed, refused = passed + found.free, refused + (not found.free)
        if not found.free:
            assert found.reason
        if min(passed, refused) >= 5 and passed + refused >= 20:
            return
    pytest.fail(f"{passed} paths passed, {refused} were refused: too few to tell")


def test_thin_plates_between_configurations_are_found():
    """Sphere checks at the steps of an edge miss a plate of 0.1 mm."""
    robot = load_robot("franka")
    world = World()
    X = np.eye(4)
    X[:3, 3] = 0.55, 0.0, 0.5
    world.add(world_object("plate", Box((0.5, 1e-4, 0.5)), X))
    checker = CollisionChecker(robot, "arm", scene=world.scene)
    a = robot.home[robot.indices(checker.joint_names)].copy()
    b = a.copy()
    a[0], b[0] = -0.7, 0.7
    assert checker.exact.is_free(a)
    assert checker.exact.is_free(b)
    found = PathVerifier(checker).verify(np.stack([a, b]))
    assert not found.free
    assert "plate" in found.reason


def test_far_from_everything_few_configurations_prove_a_path():
    robot = load_robot("franka")
    checker = CollisionChecker(robot, "arm")
    a = robot.home[robot.indices(checker.joint_names)].copy()
    b = a.copy()
    b[0] += 1.5
    found = PathVerifier(checker).verify(np.stack([a, b]))
    assert found.free
    assert found.certain == 1.0
    assert found.configurations < 60


def test_reports_name_the_pair_the_depth_and_the_direction():
    robot = load_robot("franka")
    checker = CollisionChecker(robot, "arm")
    q = robot.home[robot.indices(checker.joint_names)]
    X_WH = Kinematics(robot.tree, base=robot.base_frame).pose(robot.home, "panda_link0")
    low = float(shapes_low(robot, "panda_link0") + X_WH[2, 3])
    world = World()
    world.add(world_object("floor", HalfSpace(), from_xyz_quat((0, 0, low + 0.01), (0, 0, 0, 1))))
    checker.set_scene(world.scene)
    contact = checker.exact.explain(q)[0]
    assert contact.pair == ("panda_link0", "floor")
    assert contact.kind == "world"
    assert contact.depth == pytest.approx(0.01, abs=2 * RESTING_DEPTH)
    np.testing.assert_allclose(contact.normal, [0.0, 0.0, 1.0], atol=1e-9)
    assert "10.0 mm deep in floor" in checker.exact.problems(q)[0]
    assert not checker.exact.is_free(q * np.nan)
    assert not checker.exact.is_free(q + 1e300)


def shapes_low(robot, link: str) -> float:
    parts = link_parts(robot, link)
    pieces, owner = pieces_of([part.solid for part in parts], moving=True)
    X = np.stack([part.X_OS for part in parts])[owner]
    return float(boxes_around(placed(pieces, X))[:, 2].min())


def test_depths_are_those_of_coal():
    rng = np.random.default_rng(4)
    kinds = ("sphere", "box", "capsule", "hull")
    compared = 0
    for k in range(60):
        a, b = (random_solid(rng, kinds[n], 0.1) for n in (k % 4, (k // 4) % 4))
        X = np.stack([random_pose(rng, 0.0, 0.1), random_pose(rng, 0.0, 0.1)])
        pieces, owner = pieces_of([a, b])
        order = np.argsort(owner)
        pieces = placed(pieces, X[owner])
        found, expected = overlap(chosen(pieces, order)), -coal_distance(a, X[0], b, X[1])
        if expected > 1e-3:
            compared += 1
            assert found.depth == pytest.approx(expected, abs=2e-3)
            # Moved along the normal by the depth, the shapes just touch.
            X[0, :3, 3] += (found.depth + 1e-5) * found.normal
            assert coal_distance(a, X[0], b, X[1]) > -1e-4
    assert compared > 30


def test_what_rests_on_something_is_not_in_collision():
    robot, world = load_robot("franka"), World()
    home = robot.home[robot.indices(robot.group("arm").joints)]
    X_WH = Kinematics(robot.tree, base=robot.base_frame).pose(robot.home, "panda_hand")
    X = np.eye(4)
    X[:3, 3] = X_WH[:3, 3] + (0.0, 0.0, -0.3)
    touching = ("panda_leftfinger", "panda_rightfinger", "panda_hand")
    world.add(world_object("cube", Box((0.05, 0.05, 0.05)), X))
    below = X.copy()
    below[2, 3] -= 0.075
    world.add(world_object("table", Box((1.0, 1.0, 0.1)), below))
    world.attach_object("cube", "panda_hand", X_WH, touching)
    checker = CollisionChecker(robot, "arm", scene=world.scene)
    contacts = [c for c in checker.exact.explain(home) if "cube" in c.pair]
    assert not contacts
    below[2, 3] += 3e-4
    world.move({"table": below})
    checker.set_scene(world.scene)
    assert ("cube", "table") in [c.pair for c in checker.exact.explain(home)]


def test_convex_parts_contain_the_mesh_and_little_else():
    mesh = l_shaped_mesh(0.3)
    parts = convex_parts(mesh)
    assert len(parts) == 2
    volume = sum(ConvexHull(part).volume for part in parts)
    assert volume == pytest.approx(0.75 * 0.3**3, rel=1e-6)
    inside = mesh.vertices.mean(axis=0) * 0.0 - 0.05
    assert any((ConvexHull(p).equations @ np.append(inside, 1.0) <= 1e-9).all() for p in parts)


def test_shrinking_moves_no_surface_farther_than_asked():
    rng = np.random.default_rng(9)
    solids = [random_solid(rng, kind, 0.1) for kind in KINDS for _ in range(5) if kind != "mesh"]
    pieces, _ = pieces_of(solids)
    depth = 1e-3
    smaller = shrunk(pieces, depth)
    before, after = boxes_around(pieces), boxes_around(smaller)
    assert (after[:, :3] >= before[:, :3] - 1e-12).all()
    assert (after[:, 3:] <= before[:, 3:] + 1e-12).all()
    assert np.abs(after - before).max() <= depth + 1e-12
    assert np.abs(after - before).max(axis=1).min() > 0.1 * depth


def test_a_robot_with_a_mesh_that_is_not_convex_is_its_mesh(tmp_path):
    """The notch of an L is free, unlike that of its hull or coarse spheres."""
    mesh = l_shaped_mesh(0.3)
    lines = [f"v {x} {y} {z}" for x, y, z in mesh.vertices]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in mesh.triangles]
    (tmp_path / "l.obj").write_text("\n".join(lines))
    robot = slider_robot(tmp_path, '<mesh filename="l.obj"/>')
    world = World()
    # The L spans -0.09 to 0.21; its notch is beyond 0.06 in x and y.
    world.add(
        world_object("ball", Sphere(0.04), from_xyz_quat((0.14, 0.14, 0.06), (0.0, 0.0, 0.0, 1.0)))
    )
    checker = CollisionChecker(robot, ["x"], scene=world.scene)
    assert checker.exact.is_free([0.0])
    assert not checker.exact.is_free([0.06])
    assert not checker.exact.is_free([0.2])
    verifier = PathVerifier(checker)
    assert verifier.verify([[0.0], [0.03]]).free
    refused = verifier.verify([[-1.0], [1.0]])
    assert not refused.free
    assert "point" in refused.reason


def two_plates(folder: Path, gap: float, home: float) -> Robot:
    """Return a robot with a plate that is ``gap`` [m] above another where its joints are at 0."""
    plate = '<collision><geometry><box size="0.2 0.2 0.02"/></geometry></collision>'
    knob = plate.replace("<geometry>", '<origin xyz="0 0 0.5"/><geometry>')
    joints = "".join(
        f'<joint name="{name}" type="prismatic"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0 0 {height}"/><axis xyz="{axis}"/>'
        '<limit lower="-1" upper="1" velocity="1" effort="1"/></joint>'
        for name, parent, child, axis, height in (
            ("across", "base", "rail", "1 0 0", 0.0),
            ("up", "rail", "lid", "0 0 1", 0.02 + gap),
        )
    )
    urdf = (
        f'<robot name="slider"><link name="base">{plate}</link><link name="rail">{knob}</link>'
        f'<link name="lid">{plate}</link>{joints}</robot>'
    )
    return sliding_robot(folder, urdf, {"across": 0.0, "up": home}, ("base", "lid"))


@pytest.mark.parametrize(("gap", "free"), [(1e-4, False), (3e-4, True), (-2e-4, False)])
def test_links_keep_a_small_distance(tmp_path, gap, free):
    checker = CollisionChecker(two_plates(tmp_path, gap, 0.05))
    assert checker.exact.is_free([0.0, 0.0]) == free
    contacts = checker.exact.explain([0.0, 0.0])
    assert bool(contacts) != free
    assert checker.exact.touching([0.0, 0.0]) == {contact.pair for contact in contacts}
    for contact in contacts:
        assert contact.depth == pytest.approx(SELF_CLEARANCE - gap, abs=2 * RESTING_DEPTH)


def test_links_that_are_closer_in_a_named_state_may_be_so(tmp_path):
    checker = CollisionChecker(two_plates(tmp_path, 1e-4, 0.0))
    assert checker.exact.is_free([0.0, 0.0])
    assert not checker.exact.is_free([0.0, -2e-4])

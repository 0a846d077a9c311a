# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/extending.md: a shape, an RMP and a planner from outside the package."""

import os
import re
import subprocess
import sys
from dataclasses import fields, make_dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from raised_errors import about
from scipy.spatial import Delaunay

import motion_nodes as mn
from motion_nodes.core.planning import planners
from motion_nodes.core.planning.planning_problem import PlanStatus
from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.numpy_policy import Goal, distances
from motion_nodes.core.reactive.rmp_inputs import pack_parts
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.convex_pieces import pieces_of
from motion_nodes.core.scene.mesh_distance import signed_distance
from motion_nodes.core.scene.robot_spheres import cover
from motion_nodes.core.scene.scene import Part, Scene, world_object
from motion_nodes.core.scene.shapes import TYPES, hull_meshes, register_solid, unregister_solid
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.viewer.scene_view import surface_of
from motion_nodes.kernels.collision import collision_memory
from motion_nodes.kernels.collision.collision_memory import added_digest
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.formulas.rmps import ToolState
from motion_nodes.kernels.formulas.shapes import ALIGNED_BOX, ShapeFormula, box
from motion_nodes.kernels.rmp.rmp_leaves import Leaf, add_leaf, remove_leaf
from motion_nodes.kernels.rmp.rmp_memory import obstacle_shapes

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def example(number: int) -> SimpleNamespace:
    """Run an example of the page; return what it defines."""
    names: dict[str, object] = {"__name__": "example"}
    source = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[number]
    exec(compile(source, PAGE.name, "exec", dont_inherit=True), names)
    return SimpleNamespace(**names)


@pytest.fixture(scope="module")
def shape():
    page = example(0)
    yield page
    unregister_solid(page.Torus)


@pytest.fixture(scope="module")
def rounded_box():
    """A shape with three sizes and a rounding radius."""
    kind = make_dataclass("RoundedBox", [(name, float) for name in "xyzr"], frozen=True)
    half = lambda s: (0.5 * s.x, 0.5 * s.y, 0.5 * s.z)  # noqa: E731
    register_solid(
        kind,
        ShapeFormula("rounded_box", box, rounding=3),
        sizes=lambda s: (*half(s), s.r),
        half=half,
        hulls=lambda s: [(np.array([*product(*((-h, h) for h in half(s)))]), s.r)],
    )
    yield kind
    unregister_solid(kind)


@pytest.fixture
def leaf():
    yield example(1)
    remove_leaf("floor_rmp")


def oracle(torus, points: np.ndarray) -> np.ndarray:
    """Return the distance from points of a fine circle, less the tube."""
    angles = np.linspace(0.0, 2.0 * np.pi, 20_001)
    circle = torus.ring * np.column_stack((np.cos(angles), np.sin(angles), 0.0 * angles))
    gaps = [np.linalg.norm(circle - point, axis=1).min() for point in points]
    return np.array(gaps) - torus.tube


def test_a_torus_has_a_surface_for_page_messages_and_simulation(shape):
    torus = shape.Torus(0.03, 0.12)
    meshes = hull_meshes(torus)
    angles = np.linspace(0.0, 2.0 * np.pi, 60)
    ring = 0.15 * np.column_stack((np.cos(angles), np.sin(angles), 0.0 * angles))
    for mesh in meshes:
        a, b, c = (mesh.vertices[mesh.triangles[:, k]] for k in range(3))
        normal = np.cross(b - a, c - a)
        middle = mesh.vertices.mean(axis=0)
        assert (np.einsum("ij,ij->i", normal, a - middle) > 0.0).all(), "triangles face outward"
    inside = [
        any((Delaunay(mesh.vertices).find_simplex(p[None]) >= 0).all() for mesh in meshes)
        for p in ring * 0.999
    ]
    assert all(inside), "the meshes contain the torus"
    vertices, triangles = surface_of(torus)
    assert np.abs(vertices[:, :2]).max() < 0.16
    assert triangles.max() == len(vertices) - 1


def test_a_torus_has_distances_and_a_cover(shape):
    torus, rng = shape.Torus(0.03, 0.12), np.random.default_rng(0)
    points = rng.uniform(-0.2, 0.2, (60, 3)) * (1.0, 1.0, 0.2)
    value, direction = signed_distance(torus, points)
    np.testing.assert_allclose(value, oracle(torus, points), atol=1e-6)
    assert (value < 0.0).sum() > 2
    step = 1e-6
    ahead, behind = (signed_distance(torus, points + s * direction)[0] for s in (step, -step))
    np.testing.assert_allclose((ahead - behind) / (2.0 * step), 1.0, atol=1e-6)
    inside = points[value <= 0.0]
    spheres = cover(torus).spheres
    gaps = np.linalg.norm(inside[:, None] - spheres[None, :, :3], axis=2)
    assert (gaps <= spheres[:, 3]).any(axis=1).all()


def test_a_torus_is_checked_for_collisions(shape):
    checks_are_those_of_the_distance(shape.Torus(0.04, 0.2))


def test_a_rounded_box_has_distances_and_is_checked_for_collisions(rounded_box):
    solid, rng = rounded_box(0.1, 0.2, 0.3, 0.1), np.random.default_rng(5)
    points = rng.uniform(-0.4, 0.4, (200, 3))
    beyond = np.abs(points) - (0.05, 0.1, 0.15)
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
    known = outside + np.minimum(beyond.max(axis=1), 0.0) - 0.1
    np.testing.assert_allclose(signed_distance(solid, points)[0], known, atol=1e-12)
    assert pack_parts([Part(solid, np.eye(4))]).rows["rounded_box"][0, 12:16].tolist() == [
        *(0.05, 0.1, 0.15, 0.1)
    ]
    checks_are_those_of_the_distance(solid)


def checks_are_those_of_the_distance(solid):
    robot, X = load_robot("franka"), from_xyz_rpy((0.4, 0.1, 0.5), (0.4, 0.9, -0.3))
    checker = CollisionChecker(robot, "arm", scene=Scene({"it": world_object("it", solid, X)}))
    alone = CollisionChecker(robot, "arm")
    limits, rng = checker.limits, np.random.default_rng(1)
    Q = rng.uniform(limits.lower, limits.upper, (300, 7))
    Q = Q[alone.are_free(Q)]
    gaps = []
    for q in Q:
        spheres = checker.sphere_positions(q)
        kept = [k for k, name in enumerate(checker.sphere_bodies) if name != robot.base_frame]
        local = (spheres[kept, :3] - X[:3, 3]) @ X[:3, :3]
        gaps.append((signed_distance(solid, local)[0] - spheres[kept, 3]).min())
    clear = np.abs(gaps) > 1e-5  # generated code is float32
    assert 20 < sum(np.array(gaps) < 0.0) < len(Q) - 20
    np.testing.assert_array_equal(checker.are_free(Q)[clear], np.array(gaps)[clear] > 0.0)
    nearest = checker.sphere_distances(Q[0])
    spheres = checker.sphere_positions(Q[0])
    local = (spheres[:, :3] - X[:3, 3]) @ X[:3, :3]
    value, direction = signed_distance(solid, local)
    near = nearest.distance < 1.0
    np.testing.assert_allclose(nearest.distance[near], (value - spheres[:, 3])[near], atol=1e-6)
    np.testing.assert_allclose(nearest.direction[near], (direction @ X[:3, :3].T)[near], atol=1e-4)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_each_solid_consists_of_obstacles_of_rmpflow(kind):
    sizes = (0.5, 0.4, 0.3, 0.1)
    solid = kind(sizes[:3]) if kind is Box else kind(*sizes[: len(fields(kind))])
    rows = pack_parts([Part(solid, np.eye(4))]).rows
    assert sum(map(len, rows.values())) == 1
    assert list(rows) == list(obstacle_shapes())


def test_a_shipped_shape_needs_no_registration_to_be_an_obstacle(shape, monkeypatch):
    # As if it had its own number in the table of the package.
    monkeypatch.setattr(collision_memory, "_OWN", len(collision_memory.KINDS))
    assert added_digest() == ""
    assert len(pack_parts([Part(shape.Torus(0.03, 0.12), np.eye(4))]).rows["torus"]) == 1


def test_rmpflow_knows_rate_and_curvature_of_a_torus(shape):
    torus, rng = shape.Torus(0.03, 0.12), np.random.default_rng(2)
    packed = pack_parts([Part(torus, np.eye(4))])
    assert len(packed.rows["torus"]) == 1
    h = 1e-4
    for p in rng.uniform(-0.3, 0.3, (20, 3)):
        v = rng.normal(size=3)
        before, here, after = (distances(packed, p + t * v, v) for t in (-h, 0.0, h))
        assert here.value[0] == pytest.approx(oracle(torus, p[None])[0], abs=1e-6)
        assert here.rate[0] == pytest.approx((after.value - before.value)[0] / (2 * h), abs=1e-4)
        second = (after.value - 2.0 * here.value + before.value)[0] / h**2
        assert here.curvature[0] == pytest.approx(second, rel=1e-3, abs=1e-3)


def test_rmpflow_avoids_a_torus_in_generated_code(shape):
    robot = load_robot("franka")
    made = policy(robot)
    ring = pack_parts(
        [Part(shape.Torus(0.05, 0.2), from_xyz_rpy((0.5, 0.0, 0.4), (1.0, 0.3, 0.2)))]
    )
    made.set_obstacles(ring)
    q, qd = state(robot)
    assert made.acceleration(q, qd) == pytest.approx(made.report(q, qd).qdd, rel=1e-6, abs=1e-6)
    with_ring = {part.name: part.weight for part in made.report(q, qd).leaves}
    assert made.clearances(q).min() < 0.3
    assert with_ring["collision_rmp"] > 0.0


def test_exact_pieces_contain_a_torus(shape):
    torus, rng = shape.Torus(0.03, 0.12), np.random.default_rng(3)
    points = rng.uniform(-0.16, 0.16, (4000, 3)) * (1.0, 1.0, 0.25)
    inside = points[signed_distance(torus, points)[0] < 0.0]
    assert len(inside) > 200
    pieces, owner = pieces_of([Sphere(0.1), torus, Sphere(0.2)])
    assert owner.tolist() == [0, 2] + [1] * 24
    np.testing.assert_array_equal(pieces.size[2:, 3], shape.capsules(torus)[0][1])
    best = np.full(len(inside), np.inf)
    for (a, b), radius in shape.capsules(torus):
        along = np.clip((inside - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
        best = np.minimum(
            best, np.linalg.norm(inside - a - along[:, None] * (b - a), axis=1) - radius
        )
    assert best.max() <= 0.0


def test_a_name_is_registered_once(shape):
    class Other:
        pass

    with pytest.raises(InvalidConfig, check=about("aligned_box")):
        register_solid(
            Other,
            type(ALIGNED_BOX)("aligned_box", shape.torus),
            sizes=lambda s: (),
            half=lambda s: (0.0, 0.0, 0.0),
            hulls=lambda s: [],
        )
    assert "torus" in added_digest()


def test_sizes_that_a_formula_would_not_receive_are_rejected(rounded_box):
    class Other:
        pass

    half = hulls = lambda s: ()
    for rounding in (-1, 4):
        with pytest.raises(InvalidConfig):
            register_solid(
                Other, ShapeFormula("other", box, rounding=rounding),
                sizes=lambda s: (), half=half, hulls=hulls,
            )  # fmt: skip
    register_solid(
        Other, ShapeFormula("other", box), sizes=lambda s: (1,) * 4, half=half, hulls=hulls
    )
    try:
        with pytest.raises(InvalidConfig):
            TYPES[Other].padded_sizes(Other())
    finally:
        unregister_solid(Other)


def test_a_planner_is_selected_by_its_name():
    detour = example(2)
    try:
        arm, world = mn.load_robot("franka")["arm"], mn.World()
        world.add("wall", mn.Box(0.4, 0.02, 0.8), mn.pose(xyz=(0.5, 0.0, 0.4)))
        ends = [[side, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8] for side in (-0.8, 0.8)]
        plan = arm.plan(*ends, world, options=mn.PlanOptions(planner="detour"))
        assert plan.success
        assert plan.result.planner == detour.Detour.name
        assert planners.default_settings()["Detour"] == detour.DetourSettings()
        inside = arm.plan(ends[0], [0.0, 1.0, 0.0, -1.8, 0.0, 2.1, 0.8], world,
                          options=mn.PlanOptions(planner="Detour"))  # fmt: skip
        assert inside.status is PlanStatus.GOAL_IN_COLLISION
    finally:
        planners._MAKERS.pop("Detour")


def test_a_planner_of_another_package_is_found_by_its_entry_point(tmp_path):
    package, info = tmp_path / "my_package", tmp_path / "my_package-1.0.dist-info"
    for folder in (package, info):
        folder.mkdir()
    (package / "__init__.py").touch()
    source = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[2]
    (package / "detour.py").write_text(source)
    (package / "broken.py").write_text("import a_module_that_does_not_exist")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[motion_nodes.planners]\ndetour = my_package.detour\nother = my_package.broken\n"
    )
    words = "franka --from ready --to 0.3,-0.6,0.0,-2.2,0.0,1.7,0.8 --planner"
    done = subprocess.run(
        [sys.executable, "-m", "motion_nodes.cli.main", "plan", *words.split(), "detour", "--json"],
        capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # an unknown planner is refused
    assert "planner 'other' (my_package.broken) cannot be loaded" in done.stderr


def policy(robot) -> Evaluator:
    return Evaluator(robot, robot.group("arm").joints, "panda_hand_tcp", RmpflowSettings())


def state(robot):
    rng = np.random.default_rng(4)
    q = robot.home[robot.indices([*robot.group("arm").joints])]
    others = len(robot.joint_names) - len(q)
    return np.append(q + 0.1, np.zeros(others)), np.append(
        rng.uniform(-0.3, 0.3, len(q)), np.zeros(others)
    )


def test_an_rmp_of_the_tool_is_in_code_and_reports(leaf):
    robot = load_robot("franka")
    made = policy(robot)
    q, qd = state(robot)
    made.set_goal(Goal(q[:7]))
    report = made.report(q, qd)
    by_name = {part.name: part for part in report.leaves}
    n, at = 7, made._at
    made.acceleration(q, qd)
    M = made._memory[at["M"] : at["M"] + n * n].reshape(n, n)
    assert pytest.approx(report.M, rel=1e-9, abs=1e-9 * np.abs(report.M).max()) == M
    # Its metric in joint space is that of the height, whose gradient comes from differences.
    z = lambda q: made.tool_pose(q)[2, 3]  # noqa: E731
    h = 1e-6
    J = np.array([(z(q + h * e) - z(q - h * e)) / (2 * h) for e in np.eye(len(q))[:n]])
    near = 0.05 / (z(q) - 0.1 + 0.05)
    weight = 1e4 * near * near
    np.testing.assert_allclose(by_name["floor_rmp"].M, weight * np.outer(J, J), atol=1e-5 * weight)


def test_the_force_of_an_rmp_falls_with_the_height(leaf):
    p = {"height": 0.1, "scale": 0.05, "metric": 1e4, "gain": 20.0, "damping": 30.0}

    def lift(z, rate):
        M, force = leaf.floor(NUMPY, ToolState([0, 0, z], [0, 0, rate], [0, 0, 0]), p)
        return force[2] / M[2][2]

    heights = np.linspace(0.1, 0.6, 11)
    lifts = np.array([lift(z, 0.0) for z in heights])
    assert lifts[0] == pytest.approx(20.0)
    assert (np.diff(lifts) < 0.0).all()
    slope = (lift(0.3, -0.2) - lift(0.3, -0.1)) / -0.1
    assert slope == pytest.approx(-30.0)
    assert lift(0.3, 0.5) == lift(0.3, 0.0)


def test_an_rmp_needs_one_formula(leaf):
    with pytest.raises(InvalidConfig):
        add_leaf(Leaf("nothing", lambda s: {}))
    with pytest.raises(InvalidConfig, check=about("floor_rmp")):
        add_leaf(Leaf("floor_rmp", lambda s: {}, tool=lambda ops, s, p: ([], [])))

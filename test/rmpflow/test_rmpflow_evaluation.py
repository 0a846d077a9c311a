# SPDX-License-Identifier: Apache-2.0
"""Evaluation: generated code against NumPy, NumPy against closed forms and differences."""

import dataclasses

import numpy as np
import pytest
from long_params import shortened
from rmpflow import rmp_cases

from motion_nodes.core.reactive import rmp_inputs
from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.numpy_policy import Goal, PointMotion, distances
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.robot_spheres import cover
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.shapes import Capsule
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays, empty_obstacles, obstacle_bounds

ROBOTS = ("franka", "ur10e")
SINGLE = 1e-6
"""Accuracy of sums with balls, which are computed in float32, relative to the largest term."""
WORLD = from_xyz_rpy((0.02, -0.01, 0.03), (0.1, -0.2, 0.7))


def evaluator(name, **changes):
    robot = load_robot(name)
    settings = dataclasses.replace(rmp_cases.case(name).settings, **changes)
    active = robot.group("arm").joints
    return Evaluator(robot, active, rmp_cases.TOOLS[name], settings)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("seed", shortened(range(6), 2))
@pytest.mark.parametrize("balls", [True, False])
def test_generated_code_is_the_formulas(name, seed, balls):
    rng, case, made = np.random.default_rng(seed), rmp_cases.case(name), evaluator(name)
    objects = [
        item
        for item in rmp_cases.scene(rng, 17)
        if balls or not isinstance(item.parts[0].solid, Sphere)
    ]
    twists = {item.name: 0.2 * rng.normal(size=6) for item in objects}
    made.set_obstacles(rmp_cases.packed(objects, WORLD, twists))
    made.set_goal(rmp_cases.goal(rng, case, seed % 3 != 1, seed % 3 != 2))
    if seed % 2:
        made.set_carried(cover(Box((0.05, 0.04, 0.1))).spheres)
    q, qd = rmp_cases.state(rng, case)
    got, expected = made.acceleration(q, qd), made.report(q, qd)
    n, at = case.model.active, made._at
    M = made._memory[at["M"] : at["M"] + n * n].reshape(n, n)
    accuracy = SINGLE if balls else 1e-9
    assert pytest.approx(expected.M, abs=accuracy * np.abs(expected.M).max()) == M
    assert got == pytest.approx(expected.qdd, rel=1e3 * accuracy, abs=1e3 * accuracy)


def test_any_number_of_obstacles_at_rest_and_moving():
    """They are processed in pairs; moving obstacles and those at rest are separate lists."""
    rng, made, case = np.random.default_rng(12), evaluator("franka"), rmp_cases.case("franka")
    for count in (1, 2, 3, 7, 8, 9, 40):
        q, qd = rmp_cases.state(rng, case)
        places = rng.uniform(-0.9, 0.9, (count, 3))
        objects = [
            world_object(f"{k}", Sphere(0.02 + 0.01 * (k % 5)), from_xyz_rpy(p))
            for k, p in enumerate(places)
        ]
        twists = {f"{k}": 0.3 * rng.normal(size=6) for k in range(0, count, 3)}
        made.set_obstacles(rmp_cases.packed(objects, WORLD, twists))
        got, expected = made.acceleration(q, qd), made.report(q, qd)
        n, at = case.model.active, made._at
        M = made._memory[at["M"] : at["M"] + n * n].reshape(n, n)
        assert pytest.approx(expected.M, abs=SINGLE * np.abs(expected.M).max()) == M
        assert got == pytest.approx(expected.qdd, rel=1e3 * SINGLE, abs=1e3 * SINGLE)


def test_level_with_the_middle_of_an_obstacle():
    """The Panda at home is in one plane with its base; a ball may lie exactly in it."""
    made, case = evaluator("franka"), rmp_cases.case("franka")
    balls = [Sphere(0.05), Capsule(0.05, 0.1)]
    objects = [
        world_object(f"{k}", ball, from_xyz_rpy((0.6, 0.0, 0.4 + 0.3 * k)))
        for k, ball in enumerate(balls)
    ]
    made.set_obstacles(rmp_cases.packed(objects, np.eye(4), {}))
    q, qd = np.zeros(9), 0.3 * np.random.default_rng(1).normal(size=9)
    q[:7] = case.home
    assert made.acceleration(q, qd) == pytest.approx(made.report(q, qd).qdd, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ROBOTS)
def test_j_dot_is_the_derivative_of_the_jacobian(name):
    case, rng = rmp_cases.case(name), np.random.default_rng(3)
    model, h = case.model, 1e-6
    for row, centre in zip(model.sphere_rows[::5], model.sphere_centres[::5], strict=True):
        q, qd = rmp_cases.state(rng, case)
        qd[model.active :] = 0.0

        def jacobian(q, row=row, centre=centre, qd=qd):
            motion = PointMotion(model.arrays, model.active, q, qd)
            return motion.jacobian(row, motion.point(row, centre)[0])[0]

        _, v, bias = PointMotion(model.arrays, model.active, q, qd).point(row, centre)
        rate = (jacobian(q + h * qd) - jacobian(q - h * qd)) / (2.0 * h)
        assert bias == pytest.approx(rate @ qd[: model.active], abs=1e-6)
        assert v == pytest.approx(jacobian(q) @ qd[: model.active], abs=1e-12)


def test_distances_are_those_of_the_scene():
    rng = np.random.default_rng(6)
    objects = rmp_cases.scene(rng, 17)
    twists = {item.name: 0.2 * rng.normal(size=6) for item in objects}
    packed = rmp_cases.packed(objects, WORLD, twists)
    for _ in range(60):
        p, v = rng.uniform(-1.0, 1.0, 3), rng.normal(size=3)
        got, expected = distances(packed, p, v), rmp_cases.distances_by_differences(packed, p, v)
        assert got.value == pytest.approx(expected.value, abs=1e-9)
        assert got.direction == pytest.approx(expected.direction, abs=1e-7)
        assert got.rate == pytest.approx(expected.rate, abs=1e-7)
        assert got.curvature == pytest.approx(expected.curvature, rel=1e-4, abs=1e-4)


def test_curvature_is_the_second_derivative_of_the_distance():
    rng = np.random.default_rng(5)
    packed = rmp_cases.packed(rmp_cases.scene(rng, 12), WORLD, {})
    h = 1e-4
    for _ in range(20):
        p, v = rng.uniform(-1.0, 1.0, 3), rng.normal(size=3)
        before, here, after = (distances(packed, p + t * v, v) for t in (-h, 0.0, h))
        second = (after.value - 2.0 * here.value + before.value) / h**2
        smooth = np.abs(after.curvature - before.curvature) < 0.05 * (1 + np.abs(here.curvature))
        outside = smooth & (here.value > 0.02)
        assert outside.sum() > 5
        assert here.curvature[outside] == pytest.approx(second[outside], rel=0.02, abs=1e-3)


def test_sum_of_leaves_is_a_dense_least_squares_problem():
    made, case = evaluator("franka"), rmp_cases.case("franka")
    rng = np.random.default_rng(7)
    made.set_obstacles(rmp_cases.packed(rmp_cases.scene(rng, 5), WORLD, {}))
    made.set_goal(rmp_cases.goal(rng, case))
    q, qd = rmp_cases.state(rng, case)
    report = made.report(q, qd)
    roots, sides = [], []
    for leaf in report.leaves:
        values, vectors = np.linalg.eigh(leaf.M)
        kept = values > 1e-9 * max(values.max(), 1e-30)
        root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        roots.append(root)
        sides.append(np.linalg.pinv(root.T) @ leaf.force)
    dense, *_ = np.linalg.lstsq(np.concatenate(roots), np.concatenate(sides), rcond=None)
    norm = np.linalg.norm(dense)
    assert report.qdd == pytest.approx(dense * min(1.0, 50.0 / norm), rel=1e-5, abs=1e-5)


def test_cap_holds_and_keeps_the_direction():
    made = evaluator("franka")
    q, qd = np.zeros(9), np.zeros(9)
    q[:7] = rmp_cases.case("franka").home
    posture = q[:7] + np.array([3.0, -3.0, 3.0, -3.0, 3.0, -3.0, 3.0])
    made.set_goal(Goal(posture))
    wide = made.settings.with_parameters({"canonical_resolve.max_acceleration_norm": 1e9})
    tight = made.settings.with_parameters({"canonical_resolve.max_acceleration_norm": 5.0})
    made.set_settings(wide)
    wish = made.acceleration(q, qd)
    made.set_settings(tight)
    capped = made.acceleration(q, qd)
    assert np.linalg.norm(capped) == pytest.approx(5.0)
    assert capped / 5.0 == pytest.approx(wish / np.linalg.norm(wish))


def test_every_parameter_has_an_effect():
    """Each parameter but the projection tolerance changes the acceleration in some state."""
    made, case = evaluator("franka"), rmp_cases.case("franka")
    rng = np.random.default_rng(11)
    lower, upper = case.bounds.lower, case.bounds.upper
    states = []
    for k in range(12):
        q, qd = rmp_cases.state(rng, case)
        edge = k % 2
        q[:7] = np.where(rng.random(7) < 0.3, (upper - 0.02, lower + 0.02)[edge], q[:7])
        qd[:7] = rng.uniform(-2.5, 2.5, 7)
        states.append((q, qd))
    objects = rmp_cases.scene(rng, 12)
    packed = rmp_cases.packed(objects, WORLD, {})

    def behaviour(settings):
        made.set_settings(settings)
        made.set_obstacles(packed)
        results = []
        for k, (q, qd) in enumerate(states):
            X = made.tool_pose(q)
            offset = 0.03 * (k + 1) * np.array([0.3, -0.5, 0.6])
            made.set_goal(Goal(case.home, X[:3, 3] + offset, WORLD[:3, :3]))
            results.append(made.acceleration(q, qd))
        return np.array(results)

    plain = made.settings.with_parameters(
        {"canonical_resolve.max_acceleration_norm": 1e7, "self_collision_rmp.metric_scalar": 1e4}
    )
    reference = behaviour(plain)
    for name, value in plain.parameters().items():
        if name in ("canonical_resolve.projection_tolerance",):
            continue
        other = value * 1.3 if name != "canonical_resolve.max_acceleration_norm" else 1.0
        changed = behaviour(plain.with_parameters({name: other}))
        assert np.abs(changed - reference).max() > 1e-7 * np.abs(reference).max(), name


def test_without_any_metric_nothing_moves():
    made, case = evaluator("franka"), rmp_cases.case("franka")
    off = {
        name: 0.0
        for name in made.settings.parameters()
        if name.endswith(("metric_scalar", "metric_weight", "inertia"))
    }
    made.set_settings(made.settings.with_parameters(off))
    made.set_goal(Goal(case.home + 1.0))
    q, qd = rmp_cases.state(np.random.default_rng(1), case)
    assert made.acceleration(q, qd) == pytest.approx(np.zeros(7))


def test_near_singular_system_falls_back_to_the_pseudo_inverse():
    """With the metric of a position only, the system is nearly singular."""
    made, case = evaluator("franka"), rmp_cases.case("franka")
    off = {
        name: 0.0
        for name in made.settings.parameters()
        if name.endswith(("metric_scalar", "metric_weight", "inertia"))
    }
    off["target_rmp.max_metric_scalar"] = 1e4
    made.set_settings(made.settings.with_parameters(off))
    q, qd = rmp_cases.state(np.random.default_rng(2), case)
    qd[:] = 0.0
    made.set_goal(Goal(case.home, made.tool_pose(q)[:3, 3] + 0.1))
    got = made.acceleration(q, qd)
    assert 0.0 < np.linalg.norm(got) <= 50.0 * (1.0 + 1e-12)
    assert got == pytest.approx(made.report(q, qd).qdd, rel=1e-5)


def test_obstacle_inside_the_robot_pushes_out():
    made = evaluator("franka")
    q, qd = np.zeros(9), np.zeros(9)
    q[:7] = rmp_cases.case("franka").home
    sphere = made.spheres.links.index("panda_hand")
    inside = made.sphere_positions(q)[sphere, :3] + (0.0, 0.01, 0.0)
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy(inside))
    made.set_obstacles(rmp_cases.packed([ball], np.eye(4), {}))
    before = made.clearances(q).min()
    assert before < 0.0
    qdd = made.acceleration(q, qd)
    assert np.isfinite(qdd).all()
    q[:7] += 1e-3 * qdd / np.linalg.norm(qdd)
    assert made.clearances(q).min() > before


def test_limits_that_are_missing_are_not_felt():
    names = ("a",)
    one = np.array([np.inf])
    limits = JointLimits(names, -one, one, one, one, one, one)
    low, high = rmp_inputs.buffered_limits(
        limits.lower, limits.upper, rmp_cases.case("franka").settings, names
    )
    assert np.isfinite([low, high]).all()
    assert high - low > 1e3


def test_no_obstacles_are_infinitely_far():
    made = evaluator("franka")
    made.set_obstacles(empty_obstacles())
    assert np.isinf(made.clearances(np.zeros(9))).all()


@pytest.mark.parametrize("spread", [1.0, 5.0])
def test_clearances_are_those_of_all_obstacles(spread):
    rng, made = np.random.default_rng(9), evaluator("franka")
    objects = []
    for item in rmp_cases.scene(rng, 60)[1:]:
        X = item.X_WO.copy()
        X[:3, 3] *= spread
        objects.append(dataclasses.replace(item, X_WO=X))
    packed = rmp_cases.packed(objects, WORLD, {})
    made.set_obstacles(packed)
    q, _ = rmp_cases.state(rng, rmp_cases.case("franka"))
    found = [
        (distances(packed, sphere[:3], np.zeros(3)).value - sphere[3]).min()
        for sphere in made.sphere_positions(q)
    ]
    assert made.clearances(q) == pytest.approx(np.array(found), abs=1e-7)


def test_a_ball_of_any_size_and_distance_keeps_its_surface():
    """Large balls, far from their centers, would be coarse in float32."""
    made = evaluator("franka")
    q, qd = np.zeros(9), np.zeros(9)
    q[:7] = rmp_cases.case("franka").home
    for radius in (0.01, 1.0, 9.0, 11.0, 1e3, 1e5):
        ball = world_object("ball", Sphere(radius), from_xyz_rpy((0.7 + radius, 0.0, 0.4)))
        made.set_obstacles(rmp_cases.packed([ball], np.eye(4), {}))
        spheres = made.sphere_positions(q)
        away = np.linalg.norm(spheres[:, :3] - ball.X_WO[:3, 3], axis=1) - radius - spheres[:, 3]
        assert made.clearances(q) == pytest.approx(away, abs=2e-6)
        assert made.acceleration(q, qd) == pytest.approx(made.report(q, qd).qdd, rel=1e-3, abs=1e-3)


def test_obstacles_are_within_their_bounds():
    rng = np.random.default_rng(10)
    packed = rmp_cases.packed(rmp_cases.scene(rng, 17)[1:], WORLD, {})
    for p in rng.uniform(-2.0, 2.0, (50, 3)):
        for name, rows in packed.rows.items():
            bounds = obstacle_bounds(name, rows)[:4, : len(rows)]
            least = np.linalg.norm(bounds[:3].T - p, axis=1) - bounds[3]
            found = distances(ObstacleArrays({name: rows}), p, np.zeros(3)).value
            assert (found >= least - 1e-9).all()

# SPDX-License-Identifier: Apache-2.0
"""Recovery from shallow collisions and limit violations: depths decrease monotonically."""

import itertools

import numpy as np
import pytest
from jammed_states import KINDS, jam_checker, jammed
from scene.random_scenes import coal_distance

from motion_nodes.core.planning.pipeline import RECOVERABLE, PlanOptions, plan
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest, PlanStatus
from motion_nodes.core.planning.recovery import RecoverySettings, check_recovery, recover
from motion_nodes.core.planning.warm_up import warm_up
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.trajectory.trajectory_checks import limit_excess
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.typing import Array

STATES = 5
"""Number of states of each kind and robot."""
ROUNDING = 1e-6


def between(path: Array, step: float = 0.005) -> Array:
    """Return dense samples of a path."""
    rows = [path[:1]]
    for a, b in itertools.pairwise(path):
        count = int(np.ceil(np.abs(b - a).max() / step)) + 1
        rows.append(a + np.linspace(0.0, 1.0, count + 1)[1:, None] * (b - a))
    return np.concatenate(rows)


def depths(checker: CollisionChecker, Q: Array) -> list[dict[tuple[str, str], float]]:
    return [{c.pair: c.depth for c in checker.explain(q)} for q in Q]


def coal_depths(checker: CollisionChecker, q: Array) -> dict[tuple[str, str], float]:
    """Return the depths of spheres in boxes, by coal."""
    found: dict[tuple[str, str], float] = {}
    names = checker.sphere_bodies
    for name, (x, y, z, radius) in zip(names, checker.sphere_positions(q).tolist(), strict=True):
        for item in checker.scene.objects.values():
            if checker.scene.allowed.allows(name, item.name):
                continue
            solid, X_WS = item.parts[0].solid, item.X_WO @ item.parts[0].X_OS
            apart = coal_distance(Sphere(radius), from_xyz_rpy((x, y, z)), solid, X_WS)
            depth = max(-apart, found.get((name, item.name), 0.0))
            if depth > 0.0:
                found[name, item.name] = depth
    return found


def assert_only_decreasing(found: list[dict[tuple[str, str], float]], tolerance: float) -> None:
    least = found[0]
    for there in found[1:]:
        for pair, depth in there.items():
            assert depth <= least.get(pair, 0.0) + tolerance, pair
        least = {pair: min(depth, least.get(pair, 0.0)) for pair, depth in there.items()}
    assert not found[-1]


@pytest.mark.long
@pytest.mark.parametrize("name", ["franka", "ur10e"])
@pytest.mark.parametrize("kind", KINDS)
def test_jammed_arms_get_out_with_depths_that_only_decrease(name, kind):
    checker = jam_checker(load_robot(name), kind)
    rng = np.random.default_rng(0)
    recovered = 0
    for number in range(STATES):
        q = jammed(checker, kind, rng)
        out = recover(checker, q)
        assert (out.path[0] == q).all()
        if not out.success:
            # Other pairs may be deeper in collision than allowed.
            assert out.reason
            continue
        recovered += 1
        assert checker.is_free(out.path[-1])
        assert checker.limits.within(out.path[-1])
        Q = between(out.path)
        assert_only_decreasing(depths(checker, Q), 1.1e-5)
        excess = limit_excess(checker.limits, Q)
        assert np.diff(excess, axis=0).max() <= 1e-9
        if number < 3 and kind in ("floor", "boxes"):
            assert_only_decreasing([coal_depths(checker, q) for q in Q], 1e-4)
    assert recovered >= STATES - 1


def test_a_valid_start_needs_nothing():
    robot = load_robot("franka")
    checker = jam_checker(robot, "floor")
    home = robot.home[robot.indices(checker.joint_names)]
    out = recover(checker, home)
    assert out.success
    assert not out.needed
    assert out.path.shape == (1, len(home))


def test_deep_collisions_far_limits_and_nonsense_are_refused():
    robot = load_robot("franka")
    checker = jam_checker(robot, "self")
    home = robot.home[robot.indices(checker.joint_names)]
    box = world_object("box", Box((0.3, 0.3, 0.3)), from_xyz_rpy((0.4, 0.0, 0.4)))
    checker.set_scene(Scene(objects={"box": box}))
    deep = recover(checker, home)
    assert not deep.success
    assert "box" in deep.reason
    checker.set_scene(Scene())
    far = home.copy()
    far[0] = checker.limits.upper[0] + 0.2
    assert checker.joint_names[0] in recover(checker, far).reason
    assert recover(checker, far, RecoverySettings(max_limit_violation=0.3)).success
    assert not recover(checker, np.full(len(home), np.nan)).success
    with pytest.raises(InvalidCommand):
        recover(checker, home[:3])
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidConfig):
            RecoverySettings(max_depth=bad)
    with pytest.raises(InvalidConfig):
        RecoverySettings(velocity_scaling=1.5)


def test_an_arm_between_two_walls_that_touch_it_is_refused_in_bounded_time():
    robot = load_robot("franka")
    checker = jam_checker(robot, "self")
    home = robot.home[robot.indices(checker.joint_names)]
    first = checker.sphere_bodies.index("panda_link4")
    x, y, z, radius = checker.sphere_positions(home)[first].tolist()
    # Plates on all sides of one of its spheres, slightly too close to each other.
    half = radius + 0.05 - 0.005
    walls = {}
    for k, (dx, dy, dz) in enumerate(np.concatenate([np.eye(3), -np.eye(3)]) * half):
        size = tuple(0.1 if abs(d) > 0.0 else 2.0 for d in (dx, dy, dz))
        walls[f"wall{k}"] = world_object(
            f"wall{k}", Box(size), from_xyz_rpy((x + dx, y + dy, z + dz))
        )
    checker.set_scene(Scene(objects=walls))
    out = recover(checker, home, RecoverySettings(max_depth=0.2, timeout=0.2))
    assert not out.success
    assert out.reason.startswith("no path")
    assert out.time < 5.0


def test_cancelling_ends_the_search():
    checker = jam_checker(load_robot("franka"), "boxes")
    q = jammed(checker, "boxes", np.random.default_rng(0))
    out = recover(checker, q, cancelled=lambda: True)
    assert not out.success
    assert "cancelled" in out.reason


def test_the_check_refuses_paths_that_get_deeper_or_end_in_collision():
    checker = jam_checker(load_robot("franka"), "floor")
    rng = np.random.default_rng(2)
    q = jammed(checker, "floor", rng)
    out = recover(checker, q)
    assert check_recovery(checker, out.path) == ""
    assert "deeper" in check_recovery(checker, out.path[::-1])
    assert "ends in collision" in check_recovery(checker, out.path[:1])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["boxes", "limits"])
def test_a_plan_from_a_jammed_start_leaves_it_slowly_first(kind):
    robot = load_robot("franka")
    checker = jam_checker(robot, kind)
    warm_up(checker)
    home = robot.home[robot.indices(checker.joint_names)]
    rng = np.random.default_rng(4)
    settings = RecoverySettings()
    tried = 0
    while tried < 3:
        q = jammed(checker, kind, rng)
        request = PlanRequest(checker, q, (JointGoal(home),))
        refused = plan(request)
        if refused.status not in RECOVERABLE:
            continue  # within the tolerance of limits
        tried += 1
        assert refused.recovery is None
        found = plan(request, PlanOptions(recovery=settings))
        assert found.success, found.reason
        slow, whole = found.recovery, found.trajectory
        assert slow is not None
        assert whole is not None
        assert slow.velocities is not None
        share = np.abs(slow.velocities) / checker.limits.velocity
        assert share.max() <= settings.velocity_scaling + ROUNDING
        assert np.abs(slow.velocities[[0, -1]]).max() < ROUNDING
        np.testing.assert_array_equal(whole.positions[: len(slow.times)], slow.positions)
        np.testing.assert_allclose(whole.positions[-1], home, atol=1e-9)
        assert_only_decreasing(depths(checker, slow.positions), 1.1e-5)
        assert checker.are_free(whole.positions[len(slow.times) :]).all()
        assert found.path is not None
        assert (found.path[0] == q).all()
        assert any("recovery" in note for note in found.notes)


def test_what_cannot_be_recovered_keeps_its_status_and_says_why():
    robot = load_robot("franka")
    checker = jam_checker(robot, "self")
    home = robot.home[robot.indices(checker.joint_names)]
    block = world_object("block", Box((0.3, 0.3, 0.3)), from_xyz_rpy((0.4, 0.0, 0.4)))
    checker.set_scene(Scene(objects={"block": block}))
    request = PlanRequest(checker, home, (JointGoal(home + 0.1),))
    found = plan(request, PlanOptions(recovery=RecoverySettings()))
    assert found.status is PlanStatus.START_IN_COLLISION
    assert found.trajectory is None
    assert "no recovery" in found.reason


@pytest.mark.long
def test_a_goal_that_cannot_be_reached_after_a_recovery_is_reported_as_such():
    robot = load_robot("franka")
    checker = jam_checker(robot, "boxes")
    warm_up(checker)
    q = jammed(checker, "boxes", np.random.default_rng(4))
    outside = JointGoal(checker.limits.upper + 0.5)
    found = plan(PlanRequest(checker, q, (outside,)), PlanOptions(recovery=RecoverySettings()))
    assert not found.success
    assert found.trajectory is None
    assert found.status is PlanStatus.GOAL_OUTSIDE_LIMITS

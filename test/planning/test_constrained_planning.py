# SPDX-License-Identifier: Apache-2.0
"""Paths under constraints: a cup stays upright around a shelf; errors name the constraint."""

import math

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.planning.constraint_set import ConstraintSet
from motion_nodes.core.planning.planning_problem import PlanStatus
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint

DOWN = np.diag([1.0, -1.0, -1.0])
TILT = 0.1
pytestmark = pytest.mark.timeout(900)  # compiles on a new machine
ARMS = {"franka": "arm", "ur10e": "ur_manipulator"}


def shelf() -> mn.World:
    """Return a wall between start and goal, with a board above it."""
    world = mn.World()
    world.add("wall", mn.Box(0.3, 0.02, 0.6), mn.pose(xyz=(0.55, 0.0, 0.3)))
    world.add("board", mn.Box(0.3, 0.5, 0.02), mn.pose(xyz=(0.55, 0.0, 0.85)))
    return world


def place(y: float) -> np.ndarray:
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = DOWN, (0.5, y, 0.35)
    return X


def upright(link: str, tilt: float = TILT) -> mn.TaskSpaceRegion:
    return mn.TaskSpaceRegion.rotation_within(link, DOWN, (tilt, tilt, math.inf), name="upright")


def holding(arm: mn.JointGroup, X: np.ndarray, world: mn.World) -> np.ndarray:
    """Return a configuration at a pose whose collision spheres are free, too."""
    checker = arm.checker(world)
    found = arm.ik(X, "home", world=world, validity=lambda q: checker.is_free(q))
    assert found.success, found.reason
    return found.q


@pytest.mark.parametrize("robot", ARMS)
def test_a_cup_stays_upright_around_a_shelf(robot):
    arm, world = mn.load_robot(robot)[ARMS[robot]], shelf()
    start = holding(arm, place(0.3), world)
    goal = mn.PoseGoal(arm.tip, place(-0.3))
    plan = arm.plan(start, goal, world, constraints=[upright(arm.tip)])
    assert plan.success, plan.reason
    motion = plan.motion
    Q = motion.states(np.linspace(0.0, motion.duration, 10_000))[0]
    X = arm.fk_batch(Q)
    assert np.linalg.norm(np.diff(X[:, :3, 3], axis=0), axis=1).max() < 1e-3
    # Two Euler angles within the tolerance each tilt the axis by at most this.
    assert np.arccos(np.clip(-X[:, 2, 2], -1.0, 1.0)).max() <= math.hypot(TILT, TILT)
    assert arm.collision_free_batch(Q[::50], world).all()
    assert X[-1, :3, 3] == pytest.approx(place(-0.3)[:3, 3], abs=2e-3)
    assert motion.limit_use(arm.limits).stretch <= 1.0 + 1e-6


def test_start_and_goal_may_be_within_collision_spheres():
    """As without constraints: the exact geometry decides."""
    arm, world = mn.load_robot("franka")["arm"], shelf()
    checker, ends = arm.checker(world), []
    for y in (0.2, -0.2):
        rng = np.random.default_rng(5)
        while len(ends) < (1 if y > 0.0 else 2):
            X = place(y + rng.uniform(-0.08, 0.08))
            X[2, 3] = rng.uniform(0.15, 0.5)
            seed = rng.uniform(arm.limits.lower, arm.limits.upper)
            found = arm.ik(X, seed, world=world, validity=lambda q: not checker.is_free(q))
            ends += [found.q] if found.success else []
    plan = arm.plan(ends[0], ends[1], world, constraints=[upright(arm.tip)])
    assert plan.success, plan.reason
    Q = plan.motion.states(np.linspace(0.0, plan.motion.duration, 2000))[0]
    assert np.allclose(Q[[0, -1]], ends, atol=1e-6)
    assert np.arccos(np.clip(-arm.fk_batch(Q)[:, 2, 2], -1.0, 1.0)).max() <= math.hypot(TILT, TILT)
    assert arm.collision_free_batch(Q, world).all()


def test_equalities_are_kept_to_their_precision():
    """A tolerance of zero: the tool stays in a plane and keeps its orientation."""
    arm = mn.load_robot("franka")["arm"]
    start = holding(arm, place(0.3), mn.World())
    bounds = (math.inf, math.inf, 0.0, 0.0, 0.0, 0.0)
    plane = mn.TaskSpaceRegion(arm.tip, place(0.0), tuple(-x for x in bounds), bounds)
    goal = mn.PoseGoal(arm.tip, place(-0.2))
    plan = arm.plan(start, goal, constraints=[plane])
    assert plan.success, plan.reason
    assert any("precision" in note for note in plan.notes)
    Q = plan.motion.states(np.linspace(0.0, plan.motion.duration, 1000))[0]
    assert np.abs(arm.fk_batch(Q)[:, 2, 3] - 0.35).max() <= 1.001e-3


def test_joints_stay_within_their_bands():
    arm = mn.load_robot("franka")["arm"]
    start = arm.state("ready")
    goal = start + np.array([0.6, 0.2, 0.0, 0.3, 0.0, 0.2, 0.0])
    band = mn.JointBand("panda_joint3", -0.05, 0.05)
    plan = arm.plan(start, goal, shelf(), constraints=[band])
    assert plan.success, plan.reason
    assert np.abs(plan.trajectory.positions[:, 2]).max() <= 0.05


def test_the_start_is_refused_with_constraint_and_amount():
    arm = mn.load_robot("franka")["arm"]
    start = holding(arm, place(0.3), mn.World())
    tilted = mn.TaskSpaceRegion.rotation_within(arm.tip, np.eye(3), (0.2,) * 3, name="level tray")
    plan = arm.plan(start, mn.PoseGoal(arm.tip, place(-0.2)), constraints=[tilted])
    assert plan.status is PlanStatus.START_VIOLATES_CONSTRAINTS
    assert "level tray" in plan.reason
    worst = max(v.excess for v in ConstraintSet(arm.checker(), [tilted]).violations(start))
    assert worst == pytest.approx(math.pi - 0.2, abs=0.02)


def test_goals_are_refused_with_constraint_and_amount():
    arm = mn.load_robot("franka")["arm"]
    start = holding(arm, place(0.3), mn.World())
    constraint = upright(arm.tip)
    tilted = place(-0.2)
    tilted[:3, :3] = DOWN @ mn.pose(rpy=(0.5, 0.0, 0.0))[:3, :3]
    plan = arm.plan(start, mn.PoseGoal(arm.tip, tilted), constraints=[constraint], timeout=1.0)
    assert plan.status is PlanStatus.GOAL_VIOLATES_CONSTRAINTS
    assert "upright" in plan.reason
    q = arm.ik(tilted, start).q
    plan = arm.plan(start, q, constraints=[constraint])
    assert plan.status is PlanStatus.GOAL_VIOLATES_CONSTRAINTS
    far = place(-0.2)
    far[:3, 3] = (5.0, 0.0, 0.0)
    plan = arm.plan(start, mn.PoseGoal(arm.tip, far), constraints=[constraint], timeout=1.0)
    assert plan.status is PlanStatus.GOAL_UNREACHABLE


def test_invalid_constraints_name_what_is_wrong():
    arm = mn.load_robot("franka")["arm"]
    q = arm.state("ready")
    empty = (0.0,) * 6
    for error, build in (
        (InvalidCommand, lambda: mn.TaskSpaceRegion("panda_hand", np.eye(4), (1.0,) * 6, empty)),
        (InvalidCommand, lambda: mn.TaskSpaceRegion("panda_hand", np.full((4, 4), np.nan))),
        (InvalidCommand, lambda: mn.TaskSpaceRegion("panda_hand", np.eye(4), empty, (np.nan,) * 6)),
        (InvalidCommand, lambda: mn.TaskSpaceRegion("panda_hand", np.eye(4), (0.0,) * 3)),
        (InvalidConfig, lambda: mn.TaskSpaceRegion("panda_hand", np.eye(4), shape="cone")),
        (InvalidCommand, lambda: mn.TaskSpaceRegion("hand", np.eye(4), reference_link="hand")),
        (InvalidCommand, lambda: mn.TaskSpaceRegion("panda_hand", np.diag([1.0, 1.0, -1.0, 1.0]))),
        (InvalidCommand, lambda: mn.TaskSpaceRegion("panda_hand", np.ones((4, 4)) * np.eye(4)[0])),
        (InvalidCommand, lambda: mn.RegionUnion(())),
        (InvalidCommand, lambda: mn.JointBand("panda_joint1", 1.0, -1.0)),
        (InvalidCommand, lambda: mn.JointBand("panda_joint1", math.nan, 1.0)),
        (InvalidCommand, lambda: mn.LineOfSight("panda_hand", np.eye(4), np.eye(4), True, 0.0)),
    ):
        with pytest.raises(error):
            build()
    bands = [mn.JointBand("panda_joint1", -1.0, -0.5), mn.JointBand("panda_joint1", 0.5, 1.0)]
    for error, constraints in (
        (InvalidCommand, bands),
        (UnknownJoint, [mn.JointBand("elbow", 0.0, 1.0)]),
        (UnknownFrame, [mn.TaskSpaceRegion("cup", np.eye(4), empty, empty)]),
        (UnknownFrame, [mn.TaskSpaceRegion("panda_hand", np.eye(4), reference_link="cup")]),
        (InvalidConfig, [mn.TaskSpaceRegion("panda_link0", np.eye(4), empty, empty)]),
    ):
        with pytest.raises(error):
            arm.plan(q, q, constraints=constraints)


@pytest.mark.long
def test_a_band_at_a_limit_is_widened_inwards_only():
    arm = mn.load_robot("franka")["arm"]
    start = arm.state("ready").copy()
    start[0] = arm.limits.upper[0]
    goal = start.copy()
    goal[5] += 0.3
    band = mn.JointBand("panda_joint1", start[0], start[0])
    plan = arm.plan(start, goal, constraints=[band])
    assert plan.success, plan.reason
    assert plan.path[:, 0].max() <= arm.limits.upper[0]
    bounds = ConstraintSet(arm.checker(), [band]).joint_bounds
    assert bounds[1][0] == arm.limits.upper[0]

# SPDX-License-Identifier: Apache-2.0
"""Generated rollouts against NumPy: control law, distances to moving obstacles, lines to goals."""

import numpy as np
import pytest

from motion_nodes.core.reactive.mpc.mpc_settings import MpcSettings
from motion_nodes.core.reactive.mpc.policy import sampling_range
from motion_nodes.core.reactive.mpc.rollouts import TAIL, Rollouts
from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.kernels import mpc
from motion_nodes.kernels.formulas.ops import NUMPY

TWIST = np.array([0.0, -0.3, 0.1, 0.0, 0.0, 0.8])
OBJECTS = {
    "ball": world_object("ball", Sphere(0.12), from_xyz_rpy((0.5, 0.3, 0.5))),
    "bar": world_object("bar", Box((0.05, 0.4, 0.05)), from_xyz_rpy((0.5, -0.55, 0.7))),
    "post": world_object("post", Cylinder(0.05, 0.5), from_xyz_rpy((-0.1, 0.55, 0.4))),
}
SELF_OFF = {"self_margin": 1e-6}


class Case:
    """A policy in a scene, and rollouts of the same robot."""

    def __init__(self, name):
        robot = load_robot(name)
        self.policy = RmpflowPolicy(robot, ignore_robot_state_updates=True)
        limits = robot.limits.select(self.policy.active_joints)
        self.speed, self.acceleration = limits.velocity, self.policy.max_acceleration
        self.jerk = np.minimum(limits.jerk, 1e6)
        self.rollouts = Rollouts(robot, self.policy.active_joints, self.policy.tool)
        self.rollouts.set_settings(MpcSettings(**SELF_OFF))
        self.rollouts.set_limits(self.speed, self.acceleration, self.jerk)
        self.q = self.policy.default_cspace_target
        self.rest = np.zeros(len(self.q))
        self.rollouts.set_goal(Goal(self.q), np.ones(len(self.q)), free=True)

    def place(self, seconds=0.0):
        """Move the objects to their poses after a time [s]."""
        moved = dict(OBJECTS)
        turn = from_xyz_rpy(seconds * TWIST[:3], (0.0, 0.0, seconds * TWIST[5]))
        X = OBJECTS["bar"].X_WO
        after = np.eye(4)
        after[:3, :3], after[:3, 3] = turn[:3, :3] @ X[:3, :3], X[:3, 3] + turn[:3, 3]
        moved["bar"] = world_object("bar", OBJECTS["bar"].parts[0].solid, after)
        self.policy.set_scene(Scene(objects=moved))
        self.policy.set_obstacle_twists({"bar": TWIST})

    def clearance(self, q):
        self.policy.set_internal_robot_joint_states(q, self.rest)
        return self.policy.clearance()

    def simulated(self, knots):
        """Return the configurations of a rollout by NumPy, shape (t, n)."""
        dt, q, v, last, path = self.rollouts.dt, self.q.copy(), self.rest, self.rest, []
        for t in dt * np.arange(self.rollouts.settings.steps):
            offset = self.rollouts.basis(np.array([t]))[0] @ knots - q
            rate = mpc.tracking_rate(NUMPY, offset, self.speed, self.acceleration).min()
            a = mpc.acceleration(rate, offset, v, mpc.response(dt))
            a = a / max(1.0, np.abs(a / self.acceleration).max())
            a = np.clip(a, last - self.jerk * dt, last + self.jerk * dt)
            q, v, last = q + dt * (v + 0.5 * dt * a), v + dt * a, a
            path.append(q)
        return np.array(path)


@pytest.fixture(scope="module", params=["franka", "ur10e"])
def case(request):
    return Case(request.param)


@pytest.mark.long
def test_rollouts_end_and_keep_distances_as_numpy_says(case):
    rng = np.random.default_rng(4)
    knots = case.q + rng.normal(0.0, 0.5, (32, 4, len(case.q)))
    goals = case.q + rng.normal(0.0, 0.5, (32, len(case.q)))
    case.place()
    case.rollouts.set_obstacles(case.policy._evaluator.obstacles)
    found = case.rollouts.run(case.q, case.rest, case.rest, knots, goals)
    margin, times = case.rollouts.settings.margin, case.rollouts.times
    paths = [case.simulated(k) for k in knots]
    for path, goal, distance in zip(paths, goals, found.distance, strict=True):
        assert distance == pytest.approx(np.linalg.norm(path[-1] - goal), abs=2e-3)
    least = np.full(len(paths), margin)
    for k, t in enumerate(times):
        case.place(t)
        least = np.minimum(least, [case.clearance(path[k]) for path in paths])
    checker = CollisionChecker(case.policy.robot, case.policy.active_joints)
    apart = [min(checker.distance(q).value for q in path) for path in paths]
    assert (found.clearance < least + 3e-4).all()
    assert (found.clearance > np.minimum(least, apart) - 3e-4).all()
    assert (np.abs(found.clearance - least) < 3e-4).sum() > 8
    assert (least < 0.0).any()
    assert (least == margin).any()
    assert (found.cost[least < 0.0].min() > np.median(found.cost[least == margin])).all()


def test_lines_are_free_as_far_as_the_checker_says(case):
    rng = np.random.default_rng(5)
    checker = CollisionChecker(case.policy.robot, case.policy.active_joints)
    case.rollouts.set_settings(MpcSettings(clearance=0.0, **SELF_OFF))
    case.place()
    case.rollouts.set_obstacles(case.policy._evaluator.obstacles)
    case.place(case.rollouts.times[0])
    checker.set_scene(case.policy.scene)
    ends = checker.limits.clip(case.q + rng.uniform(-2.0, 2.0, (50, len(case.q))))
    shares = case.rollouts.free_along(np.tile(case.q, (50, 1)), ends, 20)
    differing = 0
    for end, share in zip(ends, shares, strict=True):
        line = case.q + np.linspace(0.0, 1.0, 21)[1:, None] * (end - case.q)
        free = checker.are_free(line)
        exact = 20 if free.all() else int(free.argmin())
        differing += abs(20.0 * share - exact) > 0.5
    # Single precision, at configurations within micrometres of a contact.
    assert differing <= 1
    assert 0.0 < shares.min() < shares.max() == 1.0
    assert case.rollouts.are_free(ends).any()
    case.rollouts.set_settings(MpcSettings(**SELF_OFF))


def test_a_goal_seen_from_the_end_is_free_and_one_behind_a_wall_is_not(case):
    case.policy.set_scene(Scene())
    case.rollouts.set_obstacles(case.policy._evaluator.obstacles)
    n = len(case.q)
    knots, goals = np.tile(case.q, (16, 4, 1)), np.tile(case.q, (16, 1))
    goals[:, 0] += 1.8
    found = case.rollouts.run(case.q, case.rest, case.rest, knots, goals)
    assert found.free == pytest.approx(np.full(16, TAIL))
    tool = case.policy.tool_pose(case.q + 0.9 * np.eye(n)[0])[:3, 3]
    wall = world_object("wall", Sphere(0.1), from_xyz_rpy(tool))
    case.policy.set_scene(Scene(objects={"wall": wall}))
    case.rollouts.set_obstacles(case.policy._evaluator.obstacles)
    found = case.rollouts.run(case.q, case.rest, case.rest, knots, goals)
    assert (found.free < TAIL).all()
    assert (found.blocked > 0.0).all()
    assert (found.clearance > 0.0).all()


def test_configurations_are_drawn_within_limits():
    lower = np.array([-np.inf, -6.3, 3.5, 3.0, -9.0, 0.0])
    upper = np.array([np.inf, 6.3, 6.0, 12.0, -4.0, 1.0])
    low, high = sampling_range(lower, upper)
    assert np.all((lower <= low) & (low < high) & (high <= upper))
    assert low == pytest.approx([-np.pi, -np.pi, 3.5, 3.0, -4.0 - np.pi, 0.0])
    assert high == pytest.approx([np.pi, np.pi, 6.0, 3.0 + np.pi, -4.0, 1.0])

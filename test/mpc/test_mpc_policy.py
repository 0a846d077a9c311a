# SPDX-License-Identifier: Apache-2.0
"""The MPC policy, and its rollouts against NumPy."""

import numpy as np
import pytest
from long_params import shortened
from raised_errors import about
from u_trap import BEYOND_U, U_WALLS

from motion_nodes.core.reactive.mpc_policy import MpcPolicy, sampling_range
from motion_nodes.core.reactive.mpc_rollouts import TAIL, Rollouts
from motion_nodes.core.reactive.mpc_settings import MpcSettings
from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import FollowerSettings, Phase, RobotMotion
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import AttachedBody, Part, Scene, world_object
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels import mpc
from motion_nodes.kernels.formulas.ops import NUMPY

DT = 0.02
DOWN = (1.0, 0.0, 0.0, 0.0)
POSE = (0.45, 0.15, 0.4)
FINGERS = ("panda_hand", "panda_leftfinger", "panda_rightfinger")
FRANKA = load_robot("franka")


def policy_of(kind=MpcPolicy, robot=FRANKA, **options):
    return kind(robot, **{"ignore_robot_state_updates": True, **options})


@pytest.fixture(scope="module")
def shared():
    return policy_of()


@pytest.fixture
def policy(shared):
    shared.reset()
    return shared


def around(*objects):
    return World(Scene(objects={item.name: item for item in objects})).scene


def open_u():
    """Return the walls of the trap."""
    return around(
        *(world_object(n, Box(size), from_xyz_rpy(at)) for n, (size, at) in U_WALLS.items())
    )


def run(policy, seconds, watch=None, dt=DT):
    """Integrate the policy's own state; return all references, shape (k, n)."""
    q = policy.default_cspace_target
    sent = []
    for _ in range(round(seconds / dt)):
        sent.append(policy.compute_joint_targets(q, np.zeros(len(q)), frame_duration=dt)[0])
        if watch is not None:
            watch()
    return np.array(sent)


def least_clearance(policy):
    found = [np.inf]

    def watch():
        found[0] = min(found[0], policy.clearance())

    return found, watch


def test_rmpflow_alone_is_stuck_in_the_trap():
    policy = policy_of(RmpflowPolicy)
    policy.set_scene(open_u())
    policy.set_end_effector_target(BEYOND_U)
    run(policy, 6.0)
    assert policy.status.stuck
    assert policy.status.position_error > 0.1


@pytest.mark.long
@pytest.mark.parametrize("seed", shortened([1, 0, 2]))
def test_it_leaves_the_trap(seed):
    policy = policy_of(mpc=MpcSettings(seed=seed))
    policy.set_scene(open_u())
    policy.set_end_effector_target(BEYOND_U)
    least, watch = least_clearance(policy)
    run(policy, 7.0, watch)
    assert policy.status.position_error < 0.005
    assert not policy.status.stuck
    assert least[0] > 0.0


@pytest.mark.long
@pytest.mark.parametrize("name", ["franka", "ur10e"])
def test_references_keep_all_limits_among_moving_obstacles(name):
    policy = policy_of(robot=load_robot(name), bounded_jerk=True)
    limits = policy.robot.limits.select(policy.active_joints)
    reach = policy.tool_pose(policy.default_cspace_target)[:3, 3]
    side = reach * (1.0, -1.0, 1.0) + (0.0, 0.25, 0.0)
    sent = []
    for k in range(60):
        at = reach + np.array((0.0, 0.6 - 0.02 * k, 0.0))
        ball = world_object("ball", Sphere(0.08), from_xyz_rpy(at))
        policy.set_scene(around(ball))
        policy.set_end_effector_target(side if k < 30 else reach)
        # One step per period: differences of references are those of the integration.
        sent.append(run(policy, 0.04, dt=0.002))
    q = np.concatenate(sent)
    qd = np.diff(q, axis=0) / 0.002
    qdd = np.diff(qd, axis=0) / 0.002
    assert (q >= limits.lower).all()
    assert (q <= limits.upper).all()
    assert (np.abs(qd) <= limits.velocity * (1.0 + 1e-6)).all()
    assert (np.abs(qdd) <= policy.max_acceleration * (1.0 + 1e-6)).all()
    jerk = np.abs(np.diff(qdd, axis=0)) / 0.002
    assert (jerk <= np.minimum(limits.jerk, 1e6) * (1.0 + 1e-4)).all()
    assert np.abs(qd).max() > 0.5


@pytest.mark.long
def test_a_ball_that_flies_at_the_hand_is_avoided(policy):
    policy.set_end_effector_target(POSE, DOWN)
    run(policy, 1.5)
    least = np.inf
    for k in range(150):
        at = np.array((0.45, 0.75 - 0.008 * k, 0.45))
        policy.set_scene(around(world_object("ball", Sphere(0.06), from_xyz_rpy(at))))
        run(policy, DT)
        spheres = policy.sphere_positions()
        apart = np.linalg.norm(spheres[:, :3] - at, axis=1) - spheres[:, 3] - 0.06
        least = min(least, apart.min())
    assert least > 0.0
    policy.set_scene(Scene())
    run(policy, 1.5)
    assert policy.status.position_error < 0.005


@pytest.mark.long
def test_what_is_carried_keeps_clear_of_a_table():
    ends = {}
    for length in (0.0, 0.2):
        policy = policy_of()
        table = world_object("table", Box((0.8, 0.8, 0.1)), from_xyz_rpy((0.5, 0.0, 0.05)))
        item = AttachedBody(
            "rod", "panda_hand", from_xyz_rpy((0.0, 0.0, 0.1 + 0.5 * length)),
            (Part(Box((0.02, 0.02, max(length, 0.01))), np.eye(4)),), FINGERS,
        )  # fmt: skip
        policy.set_scene(Scene(objects={"table": table}, attached={"rod": item}))
        policy.set_end_effector_target((0.5, 0.0, 0.2), DOWN)
        least, watch = least_clearance(policy)
        run(policy, 3.0, watch)
        assert least[0] > 0.0
        ends[length] = policy.status.position_error
    assert ends[0.0] < 0.005
    assert ends[0.2] > 0.03


def test_a_reset_policy_repeats_itself(policy):
    found = []
    for _ in range(2):
        policy.reset()
        policy.set_scene(open_u())
        policy.set_end_effector_target(BEYOND_U)
        found.append(run(policy, 0.5))
    assert (found[0] == found[1]).all()


@pytest.mark.long
def test_position_orientation_and_posture_alone(policy):
    policy.set_end_effector_target(position=POSE)
    run(policy, 2.0)
    assert policy.status.position_error < 0.005
    policy.set_end_effector_target(orientation=to_quat_xyzw(from_xyz_rpy((0, 0, 0), (3.1, 0.3, 0))))
    run(policy, 2.0)
    assert policy.status.orientation_error < 0.01
    policy.set_cspace_target(policy.default_cspace_target + 0.3)
    policy.set_end_effector_target()
    run(policy, 2.0)
    assert policy.status.posture_error < 0.01


def test_a_stop_ends_at_rest_and_a_new_target_moves_again(policy):
    policy.set_end_effector_target(POSE, DOWN)
    run(policy, 0.3)
    policy.stop()
    run(policy, 1.0)
    q, qd = policy.get_internal_robot_joint_states()[:2]
    assert np.abs(qd).max() < 0.02
    assert policy.plan is None
    assert policy.status.stopping
    # The stop clears the target, which was not reached.
    assert np.isnan(policy.status.position_error)
    assert np.linalg.norm(policy.tool_pose(q)[:3, 3] - POSE) > 0.01
    np.testing.assert_allclose(run(policy, 0.2), np.tile(q, (10, 1)), atol=1e-3)
    policy.set_end_effector_target(POSE, DOWN)
    run(policy, 1.5)
    assert not policy.status.stopping
    assert policy.plan is not None
    assert policy.status.position_error < 0.005


class Robot:
    """An ideal robot, commanded by a follower."""

    def __init__(self, policy, **settings):
        self.follower = Follower(policy, FollowerSettings(**settings))
        self.q, self.qd, self.now = policy.default_cspace_target, np.zeros(7), 0.0
        self._fingers = np.zeros(len(policy.watched_joints))

    def step(self):
        state = RobotMotion(self.q, self.qd, self._fingers, self._fingers)
        sent = self.follower.step(state, DT, self.now + DT)
        self.q, self.qd = sent if sent is not None else (self.q, np.zeros(7))
        self.now += DT

    @property
    def tool(self):
        return self.follower.policy.tool_pose(self.q)


def test_a_follower_lags_millimetres_behind_a_moving_target(policy):
    robot, lag = Robot(policy), []
    for k in range(250):
        angle = 0.8 * robot.now
        X = from_xyz_rpy((0.45, 0.2 * np.sin(angle), 0.4 + 0.1 * np.cos(angle)), (np.pi, 0.0, 0.0))
        robot.follower.follow_pose(X, robot.now)
        if k > 120:
            lag.append(np.linalg.norm(robot.tool[:3, 3] - X[:3, 3]))
        robot.step()
    assert max(lag) < 0.01


def test_a_follower_moves_the_tool_and_the_joints_at_velocities(policy):
    robot = Robot(policy)
    start = robot.tool
    for _ in range(50):
        robot.follower.follow_twist((0.0, 0.1, 0.0, 0.0, 0.0, 0.0), robot.now)
        robot.step()
    moved = robot.tool[:3, 3] - start[:3, 3]
    assert moved == pytest.approx((0.0, 0.1, 0.0), abs=0.02)
    for _ in range(60):
        robot.step()
    assert np.abs(robot.qd).max() < 1e-3
    before = robot.q
    for _ in range(50):
        robot.follower.follow_jog(0.3 * np.eye(7)[0], robot.now)
        robot.step()
    assert (robot.q - before)[0] == pytest.approx(0.3, abs=0.08)


def test_a_follower_arrives_and_rests(policy):
    robot = Robot(policy)
    robot.follower.follow_pose(from_xyz_rpy(POSE, (np.pi, 0.0, 0.0)), 0.0)
    for _ in range(100):
        robot.step()
    assert robot.follower.phase is Phase.ARRIVED
    assert np.abs(robot.qd).max() < 1e-3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.set_end_effector_target((np.nan, 0, 0)), "position"),
        (lambda p: p.set_end_effector_target((0.4, 0, 0.4), (0, 0, 0, 0)), "orientation"),
        (lambda p: p.set_cspace_target(np.full(7, np.inf)), "posture"),
        (lambda p: p.compute_joint_targets(np.zeros(3), np.zeros(7)), "active_q"),
        (lambda p: p.compute_joint_targets(np.full(7, np.nan), np.zeros(7)), "active_q"),
    ],
)
def test_bad_input_is_rejected_and_changes_nothing(policy, call, words):
    policy.set_end_effector_target(POSE, DOWN)
    policy.set_ignore_state_updates(False)
    with pytest.raises(InvalidCommand, check=about(words)):
        call(policy)
    policy.set_ignore_state_updates(True)
    run(policy, 2.0)
    assert policy.status.position_error < 0.005


@pytest.mark.parametrize("place", [(1e6, 0.0, 0.5), (0.0, 0.0, -9e3), (2.0, 0.5, 0.5)])
def test_targets_out_of_reach_harm_nothing(policy, place):
    policy.set_end_effector_target(place, DOWN)
    sent = run(policy, 1.0)
    assert np.isfinite(sent).all()
    policy.set_end_effector_target(POSE, DOWN)
    run(policy, 2.5)
    assert policy.status.position_error < 0.005


@pytest.mark.long
def test_an_obstacle_that_appears_on_the_arm_is_left(policy):
    policy.set_end_effector_target(POSE, DOWN)
    run(policy, 1.5)
    at = policy.tool_pose(policy.get_internal_robot_joint_states()[0])[:3, 3]
    policy.set_scene(around(world_object("ball", Sphere(0.05), from_xyz_rpy(at))))
    assert policy.clearance() < 0.0
    sent = run(policy, 2.0)
    assert np.isfinite(sent).all()
    assert policy.clearance() > 0.0


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

# SPDX-License-Identifier: Apache-2.0
"""Timing of planner paths, also within effort limits."""

import dataclasses
import itertools

import numpy as np
import pinocchio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about
from trajectory.retime_limits import JERK, arm_limits, excess, limits_of, without_jerk

from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.online_trajectory import OnlineLimiter
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.core.trajectory.timed_path import MIN_SPACING, PathEfforts, spaced
from motion_nodes.errors import InvalidCommand, InvalidConfig

STOPS = CornerBlending(deviation=0.0)


def distance_to_lines(points, waypoints):
    """Return the distance of each point to the nearest segment between waypoints."""
    best = np.full(len(points), np.inf)
    for a, b in itertools.pairwise(waypoints):
        along = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
        best = np.minimum(best, np.linalg.norm(points - a - along[:, None] * (b - a), axis=1))
    return best


@pytest.mark.parametrize("way", [0.001, 0.1, 0.5, 3.0])
def test_one_line_takes_the_time_of_a_trapezoid(way):
    v, a = 1.5, 4.0
    trajectory = retime([[0.0], [way]], limits_of(v, a))
    expected = 2.0 * np.sqrt(way / a) if way < v * v / a else way / v + v / a
    assert trajectory.duration == pytest.approx(expected, rel=2e-3)
    assert trajectory.duration >= expected * (1.0 - 1e-9)


def test_the_slowest_joint_sets_the_time_and_the_others_stay_on_the_line():
    limits = limits_of([1.0, 2.0, 0.1], [2.0, 2.0, 2.0])
    start, goal = np.zeros(3), np.array([0.5, -1.0, 0.2])
    trajectory = retime([start, goal], limits)
    # Joint 3 needs 2 s at max velocity, which joint 2 lets it reach in 0.25 s.
    assert trajectory.duration == pytest.approx(2.0 + 0.25, rel=1e-6)
    q, *_ = trajectory.states(np.linspace(0.0, trajectory.end_time, 500))
    np.testing.assert_allclose(q, q[:, :1] / 0.5 * goal, atol=1e-12)


@pytest.mark.parametrize("deviation", [0.0, 1e-4, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_no_limit_is_exceeded_and_one_is_used_up(seed, deviation):
    waypoints = np.random.default_rng(seed).uniform(-2.5, 2.5, (8, 7))
    limits = arm_limits()
    trajectory = retime(waypoints, limits, blending=CornerBlending(deviation))
    assert excess(trajectory, limits) <= 1e-6
    use = trajectory.limit_use(limits)
    assert max(use.velocity, use.acceleration) > 0.98
    q, v, _, _ = trajectory.states([0.0, trajectory.end_time])
    np.testing.assert_allclose(q, waypoints[[0, -1]], atol=1e-9)
    np.testing.assert_allclose(v, 0.0, atol=1e-9)
    off = distance_to_lines(
        trajectory.states(np.linspace(0.0, trajectory.end_time, 3000))[0], waypoints
    )
    assert off.max() <= deviation + 1e-9


@pytest.mark.parametrize("deviation", [0.0, 0.05])
def test_velocity_and_acceleration_are_the_derivatives(deviation):
    waypoints = np.random.default_rng(1).uniform(-2.0, 2.0, (5, 7))
    trajectory = retime(waypoints, arm_limits(), blending=CornerBlending(deviation))
    h = 1e-6
    times = np.linspace(0.01, trajectory.end_time - 0.01, 300)
    times = times[np.abs(times[:, None] - trajectory.times).min(axis=1) > 2.0 * h]
    q, v, a, j = zip(*(trajectory.states(times + d) for d in (-h, 0.0, h)), strict=True)
    np.testing.assert_allclose(v[1], (q[2] - q[0]) / (2 * h), atol=1e-5)
    np.testing.assert_allclose(a[1], (v[2] - v[0]) / (2 * h), atol=1e-3)
    np.testing.assert_allclose(j[1], (a[2] - a[0]) / (2 * h), rtol=1e-3, atol=1e-1)


def test_more_room_at_corners_and_higher_limits_make_it_faster():
    waypoints = np.random.default_rng(2).uniform(-2.0, 2.0, (8, 7))
    limits = arm_limits()
    durations = [
        retime(waypoints, limits, blending=CornerBlending(d)).duration
        for d in (0.0, 0.01, 0.1, 1.0)
    ]
    assert durations == sorted(durations, reverse=True)
    full = retime(waypoints, limits).duration
    slow = retime(waypoints, limits, velocity_scaling=0.5)
    gentle = retime(waypoints, limits, acceleration_scaling=0.25)
    assert slow.duration > full
    assert gentle.duration > full
    both = retime(waypoints, limits, velocity_scaling=0.5, acceleration_scaling=0.25)
    assert both.duration == pytest.approx(2.0 * full, rel=1e-2)
    assert retime(waypoints, limits, velocity_scaling=0.0).duration == full


def test_a_blend_that_is_not_free_shrinks_and_then_becomes_a_stop():
    waypoints = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    limits = limits_of([1.0, 1.0], 2.0)

    def outside_disc(radius):
        # An obstacle on the inner side of the corner, clear of both segments.
        return lambda q: np.linalg.norm(q - [0.75, 0.25], axis=1) > radius

    def nearest(trajectory):
        q, *_ = trajectory.states(np.linspace(0.0, trajectory.end_time, 4000))
        return np.linalg.norm(q - [0.75, 0.25], axis=1).min()

    free = retime(waypoints, limits, blending=CornerBlending(0.2, resolution=0.005))
    assert nearest(free) < 0.24
    avoiding = CornerBlending(0.2, outside_disc(0.24), resolution=0.005)
    around = retime(waypoints, limits, blending=avoiding)
    assert nearest(around) >= 0.24
    assert len(around.path.stops) == 0
    assert around.duration > free.duration
    nowhere = retime(
        waypoints, limits, blending=CornerBlending(0.2, lambda q: np.zeros(len(q), dtype=bool))
    )
    assert len(nowhere.path.stops) == 1
    assert nowhere.duration == pytest.approx(retime(waypoints, limits, blending=STOPS).duration)


def test_turning_back_keeps_the_limits():
    limits = limits_of([1.0, 1.0], 2.0)
    waypoints = [[0.0, 0.0], [1.0, 0.5], [0.0, 0.0], [1.0, 0.5]]
    for blending in (CornerBlending(0.01), STOPS):
        assert excess(retime(waypoints, limits, blending=blending), limits) <= 1e-6


def test_points_carry_everything_and_their_times_rise():
    waypoints = np.random.default_rng(3).uniform(-2.0, 2.0, (5, 7))
    trajectory = retime(waypoints, arm_limits())
    points = trajectory.points(0.01)
    assert list(points.joint_names) == trajectory.get_active_joints()
    assert np.all(np.diff(points.times) > 0.0)
    assert points.start_time == 0.0
    assert points.end_time == trajectory.end_time
    np.testing.assert_array_equal(points.velocities[[0, -1]], 0.0)
    np.testing.assert_allclose(points.positions[-1], waypoints[-1], atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("jerk", [np.inf, JERK], ids=["no jerk limit", "jerk limit"])
@pytest.mark.parametrize("deviation", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(10))
def test_a_controller_follows_the_points_exactly_at_any_phase(seed, deviation, jerk):
    rng = np.random.default_rng(seed)
    limits, waypoints = arm_limits(jerk), rng.uniform(-2.5, 2.5, (rng.integers(2, 6), 7))
    motion = retime(waypoints, limits, blending=CornerBlending(deviation))
    points, everyone, dt = motion.points(0.01), np.ones(7, dtype=np.bool_), 0.004
    limiter = OnlineLimiter(limits)
    limiter.reset(waypoints[0])
    for time in np.arange(rng.uniform(0.0, dt), points.end_time + dt, dt):
        sample = points.sample(min(time, points.end_time))
        assert limiter.reachable(everyone, sample, dt).all()
        limiter.set_state(everyone, sample)
    np.testing.assert_allclose(limiter.position, waypoints[-1], atol=1e-9)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.integers(2, 30), st.integers(1, 9), st.integers(0, 10_000), st.floats(-7.0, 0.5))
def test_any_path_is_timed_within_limits(count, n, seed, size):
    rng = np.random.default_rng(seed)
    waypoints = 10.0**size * rng.normal(size=(count, n)).clip(-3.0, 3.0)
    waypoints[rng.random(count) < 0.2] = waypoints[0]
    if np.ptp(waypoints, axis=0).max() < 1e-8:
        return
    limits = limits_of(rng.uniform(0.1, 5.0, n), rng.uniform(0.5, 30.0, n))
    trajectory = retime(waypoints, limits, blending=CornerBlending(rng.choice([0.0, 0.01, 0.3])))
    assert trajectory.duration > 0.0
    assert np.all(np.diff(trajectory.times) > 0.0)
    assert excess(trajectory, limits) <= 1e-6


def test_a_hundred_thousand_waypoints():
    waypoints = np.cumsum(np.random.default_rng(4).normal(size=(100_000, 2)) * 1e-3, axis=0)
    limits = limits_of([1.0, 1.0], 5.0)
    trajectory = retime(waypoints, limits)
    np.testing.assert_allclose(trajectory.sample(trajectory.end_time).position, waypoints[-1])
    assert excess(trajectory, limits, rate=100.0) <= 1e-6


NAN = float("nan")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ([[0.0, 0.0]], "waypoints"),
        ([], "waypoints"),
        ([[0.0, 0.0], [0.0, 0.0]], "waypoints"),
        ([[0.0, 0.0], [NAN, 1.0]], "joint1"),
        ([[0.0, 0.0], [1.0, np.inf]], "joint2"),
        ([[0.0, 0.0], [1.0]], "waypoints"),
        ([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], "waypoints"),
        ([[0.0, 0.0], [0.0, 11.0]], "joint2"),
    ],
)
def test_paths_that_are_none_are_refused_in_words(path, words):
    with pytest.raises(InvalidCommand, check=about(words)):
        retime(path, limits_of([1.0, 1.0], 2.0))


@pytest.mark.parametrize(
    ("limits", "arguments", "words"),
    [
        (limits_of([1.0, np.inf], 2.0), {}, "joint2"),
        (limits_of([1.0, 1.0], [2.0, np.inf]), {}, "joint2"),
        (limits_of([0.0, 1.0], 2.0), {}, "joint1"),
        (limits_of([1.0, 1.0], -1.0), {}, "joint1"),
        (limits_of([1.0, 1.0], 2.0, NAN), {}, "joint1"),
        (limits_of([1.0, 1.0], 2.0), {"velocity_scaling": 1.1}, "velocity_scaling"),
        (limits_of([1.0, 1.0], 2.0), {"acceleration_scaling": -0.1}, "acceleration_scaling"),
        (limits_of([1.0, 1.0], 2.0), {"acceleration_scaling": NAN}, "acceleration_scaling"),
    ],
)
def test_limits_of_no_use_are_refused_in_words(limits, arguments, words):
    with pytest.raises(InvalidConfig, check=about(words)):
        retime([[0.0, 0.0], [1.0, 1.0]], limits, **arguments)


@pytest.mark.parametrize("arguments", [{"deviation": -1.0}, {"deviation": NAN}, {"resolution": 0}])
def test_blending_of_no_use_is_refused(arguments):
    with pytest.raises(InvalidConfig):
        CornerBlending(**arguments)


@pytest.mark.parametrize("count", [3, 12])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_jerk_limit_never_makes_a_motion_faster(count, seed):
    points = np.cumsum(np.random.default_rng(seed).normal(size=(count, 5)), axis=0)
    limits = limits_of([2.0] * 5, [8.0, 5.0, 10.0, 6.0, 9.0], [4000.0] * 5)
    jerky, smooth = (retime(points, each) for each in (without_jerk(limits), limits))
    assert jerky.duration <= smooth.duration


def test_close_times_are_thinned_but_a_change_between_them_is_kept():
    close = MIN_SPACING / 4.0
    groups = [0.0, 1.0 + close * np.arange(9), 2.0 + close * np.arange(3), 3.0]
    times = np.hstack(groups)
    kept = spaced(times)
    assert set(kept) <= set(times)
    assert np.diff(kept).min() >= MIN_SPACING * (1.0 - 1e-9)
    assert kept[:2].tolist() == [0.0, 1.0]
    assert times[9] in kept, "the end of a group"
    assert kept[-2:].tolist() == [times[12], 3.0], "of a short group the end"
    np.testing.assert_array_equal(spaced(kept), kept)


SHARE = 0.9
BOTH = pytest.mark.parametrize("jerk", [False, True], ids=["acceleration", "jerk"])


class Oracle:
    """Efforts of the Franka's arm with its fingers at home, by Pinocchio."""

    def __init__(self):
        self.robot = load_robot("franka")
        self.joints = self.robot.group("arm").joints
        self.limits = self.robot.limits.select(self.joints)
        self._model = pinocchio.buildModelFromXML(self.robot.urdf)
        self._model.gravity.linear = np.array(STANDARD_GRAVITY)
        self._data = self._model.createData()
        names = [self._model.names[k] for k in range(1, self._model.njoints)]
        self._order = [names.index(name) for name in self.robot.joint_names]
        drives = [self.robot.drive(name) for name in self.joints]
        self.max_effort = np.array([drive.max_effort for drive in drives])
        self._model.armature[:] = 0.0
        for name in self.joints:
            self._model.armature[names.index(name)] = self.robot.drive(name).armature

    def efforts(self, q, v, a):
        full = [np.zeros(self._model.nv) for _ in range(3)]
        full[0][self._order] = self.robot.home
        for whole, part in zip(full, (q, v, a), strict=True):
            whole[self._order[: len(part)]] = part
        tau = pinocchio.rnea(self._model, self._data, *full)
        return tau[self._order[: len(q)]]

    def path_efforts(self):
        return PathEfforts(self.robot, self.joints, self.robot.home, SHARE)

    def use(self, motion):
        """Return the max ratio of effort to effort limit along a motion."""
        Q, V, A, _ = motion.states(np.arange(0.0, motion.duration, 5e-4))
        efforts = np.array([self.efforts(*row) for row in zip(Q, V, A, strict=True)])
        return float((np.abs(efforts) / self.max_effort).max())


@pytest.fixture(scope="module")
def oracle():
    return Oracle()


def test_strips_are_those_of_the_equations_of_motion(oracle):
    """tau = A u + B x + g for any squared speed x and acceleration u along the path."""
    rng = np.random.default_rng(3)
    efforts = oracle.path_efforts()
    for _ in range(20):
        q = rng.uniform(oracle.limits.lower, oracle.limits.upper)
        q1, q2 = rng.normal(size=(2, 7))
        x, u = rng.uniform(0.0, 2.0), rng.normal()
        A, B = efforts.strips_at(q[None], q1[None], q2[None])[0]
        still = oracle.efforts(q, np.zeros(7), np.zeros(7))
        room = np.maximum(SHARE * oracle.max_effort - np.abs(still), 0.1 * oracle.max_effort)
        expected = oracle.efforts(q, q1 * np.sqrt(x), q1 * u + q2 * x) - still
        np.testing.assert_allclose((A * u + B * x) * room, expected, atol=1e-8)


def test_joints_may_be_in_any_order(oracle):
    q, v, a = np.random.default_rng(4).uniform(-1.0, 1.0, (3, 7, 7))  # as many states as joints
    other = PathEfforts(oracle.robot, oracle.joints[::-1], oracle.robot.home, SHARE)
    use = other.usage(q[:, ::-1], v[:, ::-1], a[:, ::-1])
    assert use == pytest.approx(oracle.path_efforts().usage(q, v, a))


def test_viscous_friction_is_left_out(oracle):
    tree = oracle.robot.tree
    joints = {n: dataclasses.replace(j, damping=0.7) for n, j in tree.joints.items()}
    tree = dataclasses.replace(tree, joints=joints)
    robot = dataclasses.replace(oracle.robot, tree=tree)
    viscous = PathEfforts(robot, oracle.joints, robot.home, SHARE)
    q, q1, q2 = np.random.default_rng(1).normal(size=(3, 5, 7))
    expected = oracle.path_efforts().strips_at(q, q1, q2)
    np.testing.assert_allclose(viscous.strips_at(q, q1, q2), expected, atol=1e-9)


@pytest.mark.long
@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_motions_respect_effort_limits(oracle, seed, jerk):
    """Some motions exceed them if only velocity and acceleration are limited; stretching the whole
    motion would take longer."""
    rng = np.random.default_rng(seed)
    path = rng.uniform(oracle.limits.lower, oracle.limits.upper, (2 + seed % 3, 7))
    limits = dataclasses.replace(oracle.limits, jerk=np.full(7, 7500.0 if jerk else np.inf))
    efforts, blending = oracle.path_efforts(), CornerBlending(0.05)
    free = retime(path, limits, blending=blending)
    motion = retime(path, limits, blending=blending, efforts=efforts)
    excess = efforts.stretch(free)
    assert (oracle.use(free) > SHARE + 1e-3) == (excess > 1.0 + 1e-3)
    assert oracle.use(motion) <= SHARE + 0.01
    assert free.duration * (1.0 - 1e-3) <= motion.duration <= free.duration * excess * (1.0 + 1e-3)
    assert (motion.interval_use(limits) <= 1.0 + 1e-4).all()


def test_a_motion_within_them_is_unchanged(oracle):
    path = np.array([oracle.robot.home[:7], oracle.robot.home[:7] + 0.05])
    slow = {"velocity_scaling": 0.1, "acceleration_scaling": 0.1}
    free = retime(path, oracle.limits, **slow)
    motion = retime(path, oracle.limits, **slow, efforts=oracle.path_efforts())
    np.testing.assert_array_equal(free.clock, motion.clock)


def test_heavier_than_its_drives_permit(oracle):
    """Gravity alone exceeds the limits: a tenth of them remains for the motion, which is slow."""
    weak = tuple(
        dataclasses.replace(d, max_effort=0.05 * d.max_effort) for d in oracle.robot.drives
    )
    robot = dataclasses.replace(oracle.robot, drives=weak)
    path = np.array([oracle.robot.home[:7], oracle.robot.home[:7] + 0.3])
    motion = retime(
        path, oracle.limits, efforts=PathEfforts(robot, oracle.joints, robot.home, SHARE)
    )
    assert retime(path, oracle.limits).duration < motion.duration < 60.0

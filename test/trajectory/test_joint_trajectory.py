# SPDX-License-Identifier: Apache-2.0
"""Joint trajectories: sampling, validation, splices, playback rate."""

from dataclasses import replace

import numpy as np
import pytest
from raised_errors import about
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicHermiteSpline, CubicSpline
from trajectory.retime_limits import ACCELERATION, JERK, VELOCITY, arm_limits, limits_of

from motion_nodes.core.control.active_trajectories import FollowGoal, FollowStatus, Tolerances
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.joint_trajectory import (
    Infeasible,
    JointTrajectory,
    TrajectorySample,
    integrated,
    rest_to_rest_duration,
    spline_velocities,
)
from motion_nodes.core.trajectory.splice import point_to_point, replacement, splice
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.core.trajectory.trajectory_checks import (
    MAX_POINTS,
    MIN_RATE,
    check_point_count,
    joint_order,
    playback_rate,
    validate,
    validate_start,
)
from motion_nodes.errors import InvalidCommand, UnknownJoint

JOINTS = ("a", "b", "c")


def random_trajectory(order, seed=0, points=6):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.2, 1.0, points)) - 0.1
    return JointTrajectory(
        JOINTS,
        times,
        rng.normal(size=(points, 3)),
        rng.normal(size=(points, 3)) if order >= 3 else None,
        rng.normal(size=(points, 3)) if order == 5 else None,
    )


@pytest.mark.parametrize("order", [1, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_points_are_met_and_derivatives_agree(order, seed):
    trajectory = random_trajectory(order, seed)
    for i, time in enumerate(trajectory.times[:-1]):
        sample = trajectory.sample(time)
        np.testing.assert_allclose(sample.position, trajectory.positions[i], atol=1e-9)
        if order >= 3:
            np.testing.assert_allclose(sample.velocity, trajectory.velocities[i], atol=1e-9)
        if order == 5:
            np.testing.assert_allclose(sample.acceleration, trajectory.accelerations[i], atol=1e-8)
    rng = np.random.default_rng(seed)
    h = 1e-6
    for time in rng.uniform(trajectory.start_time, trajectory.end_time, 50):
        if np.abs(trajectory.times - time).min() < 2 * h:
            continue
        before, here, after = (trajectory.sample(time + d) for d in (-h, 0.0, h))
        np.testing.assert_allclose(
            here.velocity, (after.position - before.position) / (2 * h), atol=1e-4
        )
        np.testing.assert_allclose(
            here.acceleration, (after.velocity - before.velocity) / (2 * h), atol=1e-3
        )


def test_cubic_equals_scipys_hermite_spline():
    trajectory = random_trajectory(3)
    oracle = CubicHermiteSpline(trajectory.times, trajectory.positions, trajectory.velocities)
    for time in np.linspace(trajectory.start_time, trajectory.end_time, 40)[:-1]:
        sample = trajectory.sample(time)
        np.testing.assert_allclose(sample.position, oracle(time), atol=1e-9)
        np.testing.assert_allclose(sample.velocity, oracle(time, 1), atol=1e-8)


def test_outside_its_time_the_joints_stand_at_its_ends():
    trajectory = random_trajectory(5)
    for time, i in ((-1.0, 0), (trajectory.end_time + 1.0, -1)):
        sample = trajectory.sample(time)
        np.testing.assert_array_equal(sample.position, trajectory.positions[i])
        np.testing.assert_array_equal(sample.velocity, np.zeros(3))


def test_splicing_begins_at_the_present_reference():
    trajectory = random_trajectory(5)
    start = TrajectorySample(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3]), np.zeros(3))
    spliced = trajectory.starting_from(start)
    sample = spliced.sample(0.0)
    np.testing.assert_allclose(sample.position, start.position)
    np.testing.assert_allclose(sample.velocity, start.velocity)
    assert spliced.end_time == trajectory.end_time
    at_zero = JointTrajectory(JOINTS, [0.0, 1.0], np.zeros((2, 3)))
    assert at_zero.starting_from(start) is at_zero


def test_a_sequence_includes_the_end():
    trajectory = JointTrajectory(JOINTS, [0.0, 1.0], np.array([[0.0] * 3, [1.0] * 3]))
    times = [time for time, _ in trajectory.sequence(0.3)]
    np.testing.assert_allclose(times, [0.0, 0.3, 0.6, 0.9, 1.0])
    assert len(trajectory.sequence(0.25)) == 5
    np.testing.assert_array_equal(trajectory.sequence(0.3)[-1][1].position, [1.0] * 3)
    with pytest.raises(InvalidCommand):
        trajectory.sequence(0)


def test_a_single_point_is_a_trajectory():
    trajectory = JointTrajectory(JOINTS, [0.0], np.ones((1, 3)))
    np.testing.assert_array_equal(trajectory.sample(0.5).position, np.ones(3))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"times": []}, "points"),
        ({"times": [0.0, 0.0]}, "times"),
        ({"times": [1.0, 0.5]}, "times"),
        ({"times": [-1.0, 0.5]}, "times"),
        ({"times": [0.0, np.nan]}, "times"),
        ({"positions": np.zeros((2, 2))}, "positions"),
        ({"positions": np.array([[0, 0, 0], [0, np.nan, 0]])}, "b"),
        ({"velocities": np.zeros((3, 3))}, "velocities"),
        ({"accelerations": np.zeros((2, 3))}, "velocities"),
    ],
)
def test_ill_formed_trajectories_are_refused(change, text):
    good = {"joint_names": JOINTS, "times": [0.0, 1.0], "positions": np.zeros((2, 3))}
    with pytest.raises(InvalidCommand, check=about(text)):
        JointTrajectory(**(good | change))


def limits():
    ones = np.ones(3)
    return JointLimits(JOINTS, -ones, ones, 2 * ones, 10 * ones, 5 * ones, 100 * ones)


@pytest.mark.parametrize(
    ("positions", "velocities", "accelerations", "check", "text"),
    [
        ([0.5, 0.5, 0.5], None, None, None, None),
        ([0.5, 1.5, 0.5], None, None, "positions", "1.5 of joint b at point 1 is outside its"),
        ([0.5, 0.5, 0.5], [0, 0, 2.5], None, "velocities", "velocity 2.5 of joint c at point 1"),
        ([0.5, 0.5, 0.5], [0, 0, 0], [6, 0, 0], "accelerations", "acceleration 6 of joint a"),
    ],
)
def test_limits_are_checked_with_joint_and_point(positions, velocities, accelerations, check, text):
    def rows(last):
        return None if last is None else np.array([[0.0] * 3, last])

    trajectory = JointTrajectory(
        JOINTS, [0.0, 1.0], rows(positions), rows(velocities), rows(accelerations)
    )
    problem = validate(trajectory, limits())
    if text is None:
        assert problem is None
    else:
        assert problem.check == check
        assert text in problem.text


def test_a_segment_that_is_too_fast_is_told():
    trajectory = JointTrajectory(JOINTS, [0.0, 0.1], np.array([[0.0] * 3, [0.0, 0.9, 0.0]]))
    problem = validate(trajectory, limits())
    assert problem.check == "segment_speeds"
    assert "joint b would have to move at 9 between points 0 and 1" in problem.text


def test_a_start_too_far_away_is_told_only_where_it_counts():
    here = np.array([0.0, 0.0, 0.3])
    at_zero = JointTrajectory(JOINTS, [0.0, 1.0], np.zeros((2, 3)))
    assert (
        "joint c at 0.0000, but it is at 0.3000"
        in validate_start(at_zero, at_zero.positions[0], here, 0.1).text
    )
    assert validate_start(at_zero, at_zero.positions[0], here, 0.5) is None
    assert validate_start(at_zero, at_zero.positions[0], here, 0.0) is None
    later = JointTrajectory(JOINTS, [0.5, 1.0], np.zeros((2, 3)))
    assert validate_start(later, later.positions[0], here, 0.1) is None


def test_counts_and_names_are_checked_first():
    check_point_count(MAX_POINTS)
    with pytest.raises(InvalidCommand):
        check_point_count(0)
    with pytest.raises(InvalidCommand):
        check_point_count(1_000_000)
    assert joint_order(["c", "a"], JOINTS) == [2, 0]
    with pytest.raises(UnknownJoint, check=about("aa")):
        joint_order(["aa"], JOINTS)
    with pytest.raises(InvalidCommand):
        joint_order(["a", "a"], JOINTS)
    with pytest.raises(InvalidCommand):
        joint_order([], JOINTS)


@pytest.mark.parametrize(
    "limits", [(0.5, 99.0, 999.0), (9.0, 0.7, 999.0), (9.0, 99.0, 3.0)], ids=["v", "a", "j"]
)
def test_a_motion_from_rest_to_rest_uses_up_its_tightest_limit(limits):
    distance = np.array([0.4, 1.3])
    T = rest_to_rest_duration(distance, *(value * np.ones(2) for value in limits))
    still = np.zeros((2, 2))
    motion = JointTrajectory(
        ("a", "b"), np.array([0.0, T]), np.array([0.0 * distance, distance]), still, still
    )
    times = np.linspace(0.0, T, 2001)
    samples = [motion.sample(t) for t in times]
    v = max(np.abs(sample.velocity).max() for sample in samples)
    accelerations = np.array([sample.acceleration for sample in samples])
    j = np.abs(np.diff(accelerations, axis=0)).max() / (times[1] - times[0])
    shares = np.array([v, np.abs(accelerations).max(), j]) / limits
    assert shares.max() == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize("points", [1, 2, 3, 4, 9])
def test_spline_velocities_are_those_of_a_clamped_cubic_spline(points):
    made = random_trajectory(0, seed=points, points=points)
    found = spline_velocities(made.times, made.positions)
    if points < 3:
        assert not found.any()
        return
    oracle = CubicSpline(made.times, made.positions, bc_type="clamped")(made.times, 1)
    np.testing.assert_allclose(found, oracle, atol=1e-12)


def test_points_of_derivatives_alone_are_integrated():
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.uniform(0.1, 0.5, 7))
    start = TrajectorySample(*rng.normal(size=(3, 2)))
    a = rng.normal(size=(7, 2))
    q, v = integrated(times, start, None, a)
    grid = np.append(0.0, times)

    def integral(first, rates):
        return first + cumulative_trapezoid(rates, grid, axis=0, initial=0.0)

    speeds = integral(start.velocity, np.vstack([start.acceleration, a]))
    np.testing.assert_allclose(v, speeds[1:], atol=1e-12)
    np.testing.assert_allclose(q, integral(start.position, speeds)[1:], atol=1e-12)
    again, same = integrated(times, start, v, a)
    np.testing.assert_allclose(again, q, atol=1e-12)
    assert same is v


def test_without_interpolation_each_point_is_the_target_from_the_one_before():
    made = random_trajectory(1)
    stepped = JointTrajectory(JOINTS, made.times, made.positions, made.velocities, stepped=True)
    start = TrajectorySample(*np.zeros((3, 3)))
    joined = stepped.starting_from(start)
    np.testing.assert_array_equal(joined.sample(made.times[0] - 1e-6).position, start.position)
    for i in range(len(made.times) - 1):
        for time in (made.times[i], made.times[i + 1] - 1e-9):
            sample = joined.sample(float(time))
            np.testing.assert_array_equal(sample.position, made.positions[i + 1])
            assert not sample.velocity.any()
    np.testing.assert_array_equal(joined.sample(1e3).position, made.positions[-1])


def test_a_trajectory_of_some_joints_is_that_part_of_all():
    made = random_trajectory(2)
    made = JointTrajectory(
        JOINTS, made.times, made.positions, made.velocities, None, np.ones((6, 3)) * [1, 2, 3]
    ).starting_from(TrajectorySample(*np.ones((3, 3))))
    part = made.of_joints(np.array([2, 0]))
    assert part.joint_names == ("c", "a")
    for time in np.linspace(-0.1, made.end_time + 0.1, 30):
        for whole, some in zip(made.sample(time), part.sample(time), strict=True):
            np.testing.assert_array_equal(whole[[2, 0]], some)
        np.testing.assert_array_equal(made.effort(time)[[2, 0]], part.effort(time))


LIMITS = arm_limits(JERK * 0.05)
N = len(LIMITS.names)


def motions(seed):
    """Return a running motion, the time of the splice [s], and a motion to another goal."""
    rng = np.random.default_rng(seed)
    low, high = 0.6 * np.maximum(LIMITS.lower, -2.0), 0.6 * np.minimum(LIMITS.upper, 2.0)
    waypoints = rng.uniform(low, high, (3, N))
    running = retime(waypoints, LIMITS)
    time = float(rng.uniform(0.15, 0.7)) * running.end_time
    here, goal = running.sample(time).position, waypoints[-1] + rng.uniform(-0.3, 0.3, N)
    goal = np.clip(goal, LIMITS.lower, LIMITS.upper)
    return running, time, retime([here, goal], LIMITS), goal


@pytest.mark.parametrize("seed", range(12))
def test_it_is_continuous_and_within_all_limits(seed):
    running, time, following, goal = motions(seed)
    motion = splice(running, time, following, LIMITS)
    for before, after in (
        (running.sample(time), motion.sample(0.0)),
        (motion.bridge.sample(motion.bridge.end_time), following.sample(motion.join)),
    ):
        assert np.allclose(before.position, after.position, atol=1e-8)
        assert np.allclose(before.velocity, after.velocity, atol=2e-3 * LIMITS.velocity.max())
        assert np.allclose(before.acceleration, after.acceleration, atol=1e-3 * 20.0)
    step = 1e-3
    q, v, a = map(np.array, zip(*(s for _, s in motion.sequence(step)), strict=True))
    assert np.allclose(q[-1], goal, atol=1e-9)
    assert max(np.abs(v[-1]).max(), np.abs(a[-1]).max()) < 1e-9
    assert (np.abs(v) <= 1.001 * LIMITS.velocity).all()
    assert (np.abs(a) <= 1.001 * LIMITS.acceleration).all()
    assert (np.abs(np.diff(a[:-1], axis=0)) <= 1.01 * step * LIMITS.jerk).all()
    # Velocities are the derivatives of positions.
    assert np.abs(np.diff(q, axis=0) / step - 0.5 * (v[1:] + v[:-1])).max() < 1e-3
    assert (q >= LIMITS.lower - 1e-6).all() and (q <= LIMITS.upper + 1e-6).all()  # noqa: PT018


@pytest.mark.parametrize("seed", range(6))
def test_it_arrives_earlier_than_after_a_stop(seed):
    running, time, following, _ = motions(seed)
    motion = splice(running, time, following, LIMITS)
    state = running.sample(time)
    # Lower bound of a stopping time: velocity by acceleration limit, per joint.
    stop = float(np.max(np.abs(state.velocity) / LIMITS.acceleration))
    assert motion.end_time < stop + following.end_time
    speeds = [np.abs(s.velocity).max() for t, s in motion.sequence(0.01) if t < motion.end_time / 2]
    assert min(speeds) > 0.02


@pytest.mark.parametrize("seed", range(4))
def test_its_points_are_the_motion_for_a_controller_that_interpolates(seed):
    running, time, following, _ = motions(seed)
    motion = splice(running, time, following, LIMITS)
    points = motion.points(0.01)
    assert points.start_time == 0.0
    assert np.allclose(points.velocities[0], running.sample(time).velocity, atol=5e-3)
    for t in np.linspace(0.0, motion.bridge.end_time, 41)[:-1]:
        assert np.allclose(points.sample(t).position, motion.sample(t).position, atol=1e-6)
    for t in np.linspace(0.0, motion.end_time, 101)[:-1]:
        assert np.allclose(points.sample(t).position, motion.sample(t).position, atol=2e-5)


def test_a_motion_that_turns_round_and_one_to_the_position_reached():
    limits = limits_of(1.0, 2.0, 50.0)
    running = point_to_point([0.0], [1.0], limits)
    back = point_to_point([0.5], [0.0], limits)
    motion = splice(running, running.end_time / 2, back, limits)
    assert motion.sample(motion.end_time).position[0] == pytest.approx(0.0)
    positions = [s.position[0] for _, s in motion.sequence(0.01)]
    assert max(positions) > 0.55, "it turned back at once"


def test_bridges_in_collision_are_not_used():
    running, time, following, _ = motions(1)
    best = splice(running, time, following, LIMITS)
    seen = []

    def only_late(path):
        seen.append(len(path))
        return len(seen) > 2

    other = splice(running, time, following, LIMITS, is_free=only_late)
    assert len(seen) == 3
    assert other.join != best.join
    assert other.end_time >= best.end_time
    with pytest.raises(Infeasible, check=about("collision")):
        splice(running, time, following, LIMITS, is_free=lambda path: False)


class Efforts:
    """Stand-in for a robot's efforts: proportional to accelerations."""

    def __init__(self, most):
        self.most, self.used = most, []

    def usage(self, q, v, a):
        self.used.append(float(np.abs(a).max() / self.most))
        return self.used[-1]


def test_bridges_respect_efforts():
    running, time, following, _ = motions(5)
    fast = splice(running, time, following, LIMITS)
    accelerations = [np.abs(s.acceleration).max() for _, s in fast.bridge.sequence(0.01)]
    efforts = Efforts(0.7 * max(accelerations))
    slow = splice(running, time, following, LIMITS, efforts=efforts)
    assert min(efforts.used) <= 1.05 < max(efforts.used)
    assert slow.end_time > fast.end_time
    with pytest.raises(Infeasible, check=about("efforts")):
        splice(running, time, following, LIMITS, efforts=Efforts(1e-3))


@pytest.mark.parametrize("seed", range(4))
def test_a_replacement_is_the_running_motion_and_then_the_spliced_one(seed):
    running, time, following, goal = motions(seed)
    points = running.points(0.01)
    motion = splice(points, time, following, LIMITS)
    now = time - 0.12
    changed = replacement(points, now, time, motion, 0.01)
    assert np.allclose(changed.positions[-1], goal, atol=1e-9)
    assert changed.end_time == pytest.approx(time - now + motion.end_time)
    for t in np.linspace(0.0, time - now, 30):
        for a, b in zip(changed.sample(t), points.sample(now + t), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-7)
    for t in np.linspace(time - now, changed.end_time, 60)[:-1]:
        wanted = motion.sample(t - (time - now)).position
        np.testing.assert_allclose(changed.sample(t).position, wanted, atol=2e-5)
    for bad in ((time, now), (-0.1, time), (now, points.end_time + 1.0)):
        with pytest.raises(InvalidCommand):
            replacement(points, *bad, motion, 0.01)


def test_invalid_input_is_refused():
    running, time, following, _ = motions(0)
    for bad in (np.nan, -0.1, running.end_time + 0.1):
        with pytest.raises(InvalidCommand):
            splice(running, bad, following, LIMITS)
    other = limits_of(1.0, 2.0, 50.0)
    with pytest.raises(InvalidCommand):
        splice(running, time, point_to_point([0.0], [1.0], other), LIMITS)
    # A position limit that is too close to brake.
    tight = point_to_point([0.0], [0.9], limits_of(1.0, 2.0, 50.0))
    walls = replace(other, lower=np.array([-1.0]), upper=np.array([0.5]))
    with pytest.raises(Infeasible):
        splice(tight, tight.end_time / 2, point_to_point([0.45], [0.4], other), walls)


DT = 0.004


def rest_to_rest(distance: float, time: float, **more: np.ndarray) -> JointTrajectory:
    still = np.zeros((2, 1))
    return JointTrajectory(("joint1",), np.array([0.0, time]), np.array([[0.0], [distance]]),
                           still, **more)  # fmt: skip


@pytest.mark.parametrize("use", [0.5, 1.02, 1.2, 3.0])
def test_a_cubic_has_its_peaks_at_its_ends_and_in_its_middle(use):
    distance, time = 0.4, 0.8
    # Accelerations of +-6 d / T^2 at the ends, a velocity of 1.5 d / T in the middle.
    by_acceleration = limits_of(100.0, 6.0 * distance / time**2 / use)
    by_velocity = limits_of(1.5 * distance / time / use, np.inf)
    slow = use if use > 1.03 else 1.0
    trajectory = rest_to_rest(distance, time)
    expected = slow**-0.5
    assert playback_rate(trajectory, by_acceleration) == pytest.approx(expected, rel=1e-9)
    expected = 1.0 / use if 1.0 < use <= 1.0 / MIN_RATE else 1.0
    assert playback_rate(trajectory, by_velocity) == pytest.approx(expected, rel=1e-9)


def test_a_quintic_has_its_peak_of_acceleration_inside():
    distance, time = 0.4, 0.8
    trajectory = rest_to_rest(distance, time, accelerations=np.zeros((2, 1)))
    peak = 10.0 / np.sqrt(3.0) * distance / time**2
    assert playback_rate(trajectory, limits_of(9.0, peak / 1.5)) == pytest.approx(
        1.5**-0.5, rel=0.01
    )


def test_what_does_not_begin_at_rest_or_has_no_velocities_is_not_slowed_down():
    limits = limits_of(1.0, 1.0)
    moving = JointTrajectory(("joint1",), [0.0, 0.1], [[0.0], [0.1]], [[1.0], [0.0]])
    lines = JointTrajectory(("joint1",), [0.0, 0.1], [[0.0], [0.1]])
    for trajectory in (moving, lines, rest_to_rest(0.1, 0.01)):
        assert playback_rate(trajectory, limits) == 1.0


@pytest.mark.long
@pytest.mark.parametrize("step", [0.1, 0.02])
@pytest.mark.parametrize("seed", range(6))
def test_time_optimal_trajectories_sampled_coarsely_are_executed_along_their_path(seed, step):
    """As from MoveIt at full velocity: bang-bang accelerations, points every 0.1 s."""
    rng = np.random.default_rng(seed)
    waypoints, limits = rng.uniform(-2.0, 2.0, (rng.integers(2, 6), 7)), arm_limits(JERK)
    blending = CornerBlending(0.05)
    motion = retime(waypoints, limits_of(VELOCITY, ACCELERATION), blending=blending)
    times = motion.sample_times(step)
    q, v, a, _ = motion.states(times)
    v[0] = v[-1] = a[-1] = 0.0
    trajectory = JointTrajectory(motion.joint_names, times, q, v, a)
    rate = playback_rate(trajectory, limits)
    assert MIN_RATE <= rate < 1.0
    controller = ArticulationController(limits)
    controller.reset(waypoints[0])
    arbiter = JointArbiter(controller)
    none = Tolerances.uniform(7, 0.0)
    run = arbiter.start(FollowGoal(trajectory=trajectory, path=none, goal=none, rate=rate), "")
    steps = 0
    while run.status is not FollowStatus.SUCCEEDED:
        reference = arbiter.step(DT, controller.reference(np.arange(7)).position, np.zeros(7))
        assert run.sample is not None
        np.testing.assert_allclose(reference.positions, run.sample.position, atol=1e-6)
        steps += 1
    assert steps * DT == pytest.approx(trajectory.end_time / rate, abs=2 * DT)


def test_predicted_references_are_played_at_the_rate():
    trajectory, rate = rest_to_rest(0.4, 0.8), 0.75
    controller = ArticulationController(limits_of(9.0, 9.0))
    controller.reset(np.zeros(1))
    arbiter, none = JointArbiter(controller), Tolerances.uniform(1, 0.0)
    arbiter.start(FollowGoal(trajectory=trajectory, path=none, goal=none, rate=rate), "")
    ahead, there = arbiter.reference_in(0.4), trajectory.sample(0.4 * rate)
    np.testing.assert_allclose(ahead.position, there.position)
    np.testing.assert_allclose(ahead.velocity, rate * there.velocity)
    np.testing.assert_allclose(ahead.acceleration, rate**2 * there.acceleration)

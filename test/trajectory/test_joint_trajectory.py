# SPDX-License-Identifier: Apache-2.0
"""Joint trajectories: sampling, continuity, derivatives, splicing, validation."""

import numpy as np
import pytest
from raised_errors import about
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicHermiteSpline, CubicSpline

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import (
    JointTrajectory,
    TrajectorySample,
    integrated,
    rest_to_rest_duration,
    spline_velocities,
)
from motion_nodes.core.trajectory.trajectory_checks import (
    MAX_POINTS,
    check_point_count,
    joint_order,
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

# SPDX-License-Identifier: Apache-2.0
"""References of the articulation controller: limits, arrival, stops, modes, reset, streams."""

import math

import numpy as np
import pytest
from long_params import shortened

from motion_nodes.core.control.joint_command import ControlMode, JointCommand
from motion_nodes.core.control.joint_controller import STREAM_GAP, ArticulationController
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.errors import InvalidCommand

nan, inf = math.nan, math.inf
FRANKA = load_robot("franka")
DT = 0.004


def limits_of(n: int = 1, **changes: float) -> JointLimits:
    values = {"lower": -1.0, "upper": 1.0, "velocity": 2.0, "effort": 5.0, "acceleration": 10.0,
              "jerk": 200.0} | changes  # fmt: skip
    arrays = {name: np.full(n, value) for name, value in values.items()}
    return JointLimits(tuple(f"j{i}" for i in range(n)), **arrays)


def started(limits: JointLimits, at=0.0, **modes: ControlMode) -> ArticulationController:
    controller = ArticulationController(limits, modes)
    controller.reset(np.broadcast_to(np.asarray(at, float), len(limits.names)))
    return controller


def go(controller, seconds: float, dt: float = DT):
    for _ in range(round(seconds / dt)):
        reference = controller.step(dt)
    return reference


def check_limits(limits: JointLimits, q: np.ndarray, dt: float) -> None:
    """Assert limits on a sampled motion, by finite differences."""
    assert np.all(q >= limits.lower - 1e-9)
    assert np.all(q <= limits.upper + 1e-9)
    # Mean rates over steps cannot exceed the max rate; rounding grows with each division.
    v, a, j = (np.diff(q, n, axis=0) / dt**n for n in (1, 2, 3))
    assert np.all(np.abs(v) <= limits.velocity * (1 + 1e-9) + 1e-9)
    assert np.all(np.abs(a) <= limits.acceleration * (1 + 1e-6) + 1e-6)
    assert np.all(np.abs(j) <= limits.jerk * (1 + 1e-4) + 1e-3)


@pytest.mark.parametrize("seed", shortened(range(6), 2))
def test_random_commands_never_leave_the_limits(seed):
    rng = np.random.default_rng(seed)
    limits = FRANKA.limits
    controller = started(limits, FRANKA.home)
    n = len(limits.names)
    seen, acceleration = [], np.zeros(n)
    for _ in range(40):
        positions = rng.uniform(limits.lower, limits.upper)
        positions[rng.random(n) < 0.3] = nan
        speeds = rng.uniform(-2, 2, n) if rng.random() < 0.5 else None
        controller.apply(JointCommand(positions=positions, velocities=speeds))
        if rng.random() < 0.15:
            controller.stop()
        for _ in range(int(rng.integers(1, 60))):
            reference = controller.step(DT)
            seen.append(reference.positions)
            limiter = controller.limiter
            assert np.all(np.abs(reference.velocities) <= limits.velocity + 1e-12)
            assert np.all(np.abs(limiter.acceleration) <= limits.acceleration + 1e-9)
            change = np.abs(limiter.acceleration - acceleration) / DT
            assert np.all(change <= limits.jerk * (1 + 1e-9) + 1e-6)
            acceleration = limiter.acceleration.copy()
    check_limits(limits, np.array(seen), DT)


@pytest.mark.long
@pytest.mark.parametrize("seed", shortened(range(8), 2))
@pytest.mark.parametrize("unlimited", ["neither", "jerk", "acceleration", "both"])
def test_speeds_at_the_goal_and_velocity_drives_stay_within_position_limits(seed, unlimited):
    rng = np.random.default_rng([seed, len(unlimited)])
    n = 3
    lower = rng.uniform(-3.0, -0.1, n)
    limits = JointLimits(
        ("a", "b", "c"), lower, lower + rng.uniform(0.05, 5.0, n), rng.uniform(0.1, 3.0, n),
        np.ones(n),
        np.full(n, inf) if unlimited in ("acceleration", "both") else rng.uniform(0.5, 20.0, n),
        np.full(n, inf) if unlimited in ("jerk", "both") else 10 ** rng.uniform(0.5, 4.0, n),
    )  # fmt: skip
    controller = started(limits, rng.uniform(lower, limits.upper), a=ControlMode.VELOCITY)
    for _ in range(60):
        positions = rng.uniform(lower, limits.upper)
        positions[0] = nan
        controller.apply(JointCommand(positions=positions, velocities=rng.uniform(-4, 4, n)))
        if rng.random() < 0.1:
            controller.stop()
        for dt in rng.choice((0.001, 0.004, 0.02), int(rng.integers(1, 40))):
            controller.step(float(dt))
            assert limits.within(controller.limiter.position, 1e-9)
            assert np.all(np.abs(controller.limiter.velocity) <= limits.velocity + 1e-9)


def test_targets_are_reached_exactly_and_held_without_creep():
    controller = started(FRANKA.limits, FRANKA.home)
    rng = np.random.default_rng(7)
    for _ in range(5):
        goal = rng.uniform(FRANKA.limits.lower, FRANKA.limits.upper)
        controller.apply(JointCommand(positions=goal))
        reference = controller.step(DT)
        assert controller.moving
        go(controller, 5.0)
        reference = controller.step(DT)
        assert not controller.moving
        assert reference.positions.tobytes() == goal.tobytes()
        np.testing.assert_array_equal(reference.velocities, 0.0)


def test_a_move_takes_the_time_that_its_limits_allow():
    # Closed form of the seven-phase profile: d/v + v/a + a/j.
    controller = started(limits_of(), -0.9)
    controller.apply(JointCommand(positions=[0.9]))
    duration = 1.8 / 2.0 + 2.0 / 10.0 + 10.0 / 200.0
    go(controller, duration - 0.004, 0.001)
    assert controller.moving
    go(controller, 0.006, 0.001)
    assert not controller.moving
    assert controller.step(0.001).positions[0] == 0.9


def test_each_channel_of_the_reference_belongs_to_the_mode():
    controller = started(limits_of(3), j1=ControlMode.VELOCITY, j2=ControlMode.EFFORT)
    reference = controller.step(DT)
    assert np.isnan(reference.positions).tolist() == [False, True, True]
    assert np.isnan(reference.velocities).tolist() == [False, False, True]
    assert np.isnan(reference.efforts).tolist() == [True, True, False]


def test_velocity_targets_are_ramped_cut_and_kept():
    controller = started(limits_of(lower=-inf, upper=inf), j0=ControlMode.VELOCITY)
    controller.apply(JointCommand(velocities=[50.0]))
    speeds = [controller.step(0.01).velocities[0] for _ in range(60)]
    assert np.all(np.diff(speeds) >= -1e-12)
    assert max(np.diff(speeds)) <= 10.0 * 0.01 + 1e-9
    assert speeds[-1] == pytest.approx(2.0, abs=1e-12)
    assert controller.targets.velocities[0] == 50.0
    controller.apply(JointCommand(velocities=[-0.25]))
    assert go(controller, 1.0).velocities[0] == pytest.approx(-0.25, abs=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_velocity_drive_stops_at_its_position_limit_and_comes_away_again(sign):
    controller = started(limits_of(), 0.5, j0=ControlMode.VELOCITY)
    controller.apply(JointCommand(velocities=[sign * 1.5]))
    go(controller, 3.0)
    assert controller.limiter.position[0] == pytest.approx(sign)
    assert not controller.moving
    controller.apply(JointCommand(velocities=[-sign * 0.1]))
    go(controller, 1.0)
    assert controller.limiter.velocity[0] == pytest.approx(-sign * 0.1)


def test_a_velocity_drive_stops_where_the_joint_is_measured_at_its_limit():
    controller = started(limits_of(), 0.0, j0=ControlMode.VELOCITY)
    controller.apply(JointCommand(velocities=[1.0]))
    for _ in range(100):
        reference = controller.step(DT, np.array([0.0]))
    assert reference.velocities[0] == pytest.approx(1.0)  # the joint is stuck far from its limit
    for _ in range(100):
        reference = controller.step(DT, np.array([1.0]))
    assert reference.velocities[0] == 0.0


def test_efforts_are_cut_to_their_limit():
    controller = started(limits_of(), j0=ControlMode.EFFORT)
    for given, expected in ((3.0, 3.0), (7.0, 5.0), (-1e5, -5.0), (0.0, 0.0)):
        controller.apply(JointCommand(efforts=[given]))
        assert controller.step(DT).efforts[0] == expected
        assert controller.targets.efforts[0] == given


def test_a_single_position_with_velocity_comes_to_rest_there():
    controller = started(limits_of())
    controller.apply(JointCommand(positions=[0.5], velocities=[1.0]))
    positions = [controller.step(DT).positions[0] for _ in range(1000)]
    assert positions[-1] == 0.5
    assert not controller.moving
    assert max(positions) <= 0.5 + 1.0 * STREAM_GAP + 1e-9
    assert controller.targets.velocities[0] == 0.0


@pytest.mark.parametrize("period", [1, 4])
def test_a_streamed_sinusoid_is_followed(period):
    controller = started(limits_of(), 0.0)
    error = []
    for i in range(1500):
        t = i * DT
        if i % period == 0:
            controller.apply(
                JointCommand(positions=[0.8 * math.sin(t)], velocities=[0.8 * math.cos(t)])
            )
        q = controller.step(DT).positions[0]
        error.append(abs(q - 0.8 * math.sin(t + DT)))
    assert max(error[250:]) < 2e-3 * period
    go(controller, 1.0)
    assert not controller.moving


def test_stop_brakes_within_the_limits_and_holds():
    limits = FRANKA.limits
    controller = started(limits, FRANKA.home)
    controller.apply(JointCommand(positions=np.clip(np.zeros(9), limits.lower, limits.upper)))
    seen = [controller.step(DT).positions for _ in range(100)]
    speed = controller.limiter.velocity.copy()
    assert np.abs(speed).max() > 0.5
    controller.stop()
    # Braking from v takes at most v/a + a/j, and the current acceleration adds to it.
    longest = (np.abs(speed) / limits.acceleration + 3 * limits.acceleration / limits.jerk).max()
    for _ in range(int(longest / DT) + 2):
        seen.append(controller.step(DT).positions)
    assert not controller.moving
    check_limits(limits, np.array(seen), DT)
    held = seen[-1]
    np.testing.assert_array_equal(controller.targets.positions, held)
    np.testing.assert_array_equal(go(controller, 1.0).positions, held)


def test_a_command_to_one_joint_leaves_the_others_stopping():
    controller = started(limits_of(2), -0.9)
    controller.apply(JointCommand(positions=[0.9, 0.9]))
    go(controller, 0.5)
    controller.stop()
    controller.apply(JointCommand())
    controller.step(DT)
    controller.apply(JointCommand(positions=[0.9], indices=[0]))
    reference = go(controller, 3.0)
    assert reference.positions[0] == 0.9
    assert reference.positions[1] < 0.8
    assert controller.targets.positions[1] == reference.positions[1]


def test_stop_clears_speeds_and_efforts():
    controller = started(limits_of(2), j0=ControlMode.VELOCITY, j1=ControlMode.EFFORT)
    controller.apply(JointCommand(velocities=[0.5, nan], efforts=[nan, 2.0]))
    go(controller, 0.5)
    controller.stop()
    assert controller.step(DT).efforts[1] == 0.0
    assert go(controller, 1.0).velocities[0] == 0.0


@pytest.mark.parametrize("mode", list(ControlMode))
def test_switching_modes_keeps_a_resting_joint_still(mode):
    controller = started(limits_of(2), 0.3)
    controller.switch_mode(mode, ["j0"])
    assert controller.modes == {"j0": mode, "j1": ControlMode.POSITION}
    controller.step(DT, np.array([0.3, 0.3]))
    controller.switch_mode(ControlMode.POSITION)
    reference = go(controller, 1.0)
    np.testing.assert_array_equal(reference.positions, 0.3)
    np.testing.assert_array_equal(reference.velocities, 0.0)


def test_switching_a_moving_joint_brakes_it_without_turning_back():
    for before, after in (
        (ControlMode.POSITION, ControlMode.VELOCITY),
        (ControlMode.VELOCITY, ControlMode.POSITION),
        (ControlMode.POSITION, ControlMode.POSITION),
    ):
        controller = started(limits_of(), -0.9, j0=before)
        given = "positions" if before is ControlMode.POSITION else "velocities"
        controller.apply(JointCommand(**{given: [0.9]}))
        go(controller, 0.4)
        controller.switch_mode(after)
        speeds = []
        for _ in range(250):
            controller.step(DT)
            speeds.append(controller.limiter.velocity[0])
        assert min(speeds) >= 0.0
        assert speeds[-1] == 0.0
        assert controller.limiter.position[0] < 0.5


def test_an_effort_joint_is_held_where_it_went():
    controller = started(limits_of(), 0.0, j0=ControlMode.EFFORT)
    for q in (0.1, 0.2, nan):
        controller.step(DT, np.array([q]))
    controller.switch_mode(ControlMode.POSITION)
    assert controller.step(DT).positions[0] == 0.2


def test_reset_equals_a_fresh_start():
    used = started(limits_of(2), 0.1, j1=ControlMode.VELOCITY)
    used.apply(JointCommand(positions=[0.9, nan], velocities=[0.3, 0.5]))
    go(used, 0.3)
    used.stop()
    used.reset(np.array([0.2, 0.3]))
    fresh = ArticulationController(limits_of(2), {"j1": ControlMode.VELOCITY})
    fresh.reset(np.array([0.2, 0.3]))
    command = JointCommand(positions=[-0.5, nan], velocities=[nan, -0.4])
    for controller in (used, fresh):
        np.testing.assert_array_equal(controller.step(DT).positions, [0.2, nan])
        controller.apply(command)
    for _ in range(200):
        a, b = used.step(DT), fresh.step(DT)
        np.testing.assert_array_equal(a.positions, b.positions)
        np.testing.assert_array_equal(a.velocities, b.velocities)


def test_a_refused_reset_changes_nothing():
    controller = started(limits_of(2), 0.1)
    controller.apply(JointCommand(positions=[0.9, 0.9]))
    controller.step(DT)
    before = controller.step(0.0)
    with pytest.raises(InvalidCommand):
        controller.reset(np.array([0.0, nan]))
    after = controller.step(0.0)
    np.testing.assert_array_equal(after.positions, before.positions)
    np.testing.assert_array_equal(controller.targets.positions, [0.9, 0.9])


@pytest.mark.parametrize("outside", [1.01, 1.3, 1.3 + 2.0 * np.pi])
def test_a_joint_found_outside_its_limits_comes_back_by_a_command_only(outside):
    controller = started(limits_of(), outside)
    assert controller.step(0.0).positions[0] == outside
    assert all(controller.step(DT).positions[0] == outside for _ in range(100))
    controller.stop()
    assert all(controller.step(DT).positions[0] == outside for _ in range(100))
    controller.apply(JointCommand(positions=[0.9]))
    positions = [controller.step(DT).positions[0] for _ in range(3000)]
    assert np.all(np.diff(positions) <= 0.0)
    assert positions[-1] == 0.9


@pytest.mark.parametrize("dt", [0.0, -0.01, nan, inf])
def test_without_time_nothing_moves(dt):
    controller = started(limits_of())
    controller.apply(JointCommand(positions=[0.5], velocities=[0.1]))
    go(controller, 0.2)
    before = controller.step(0.0)
    after = controller.step(dt)
    assert after.positions.tobytes() == before.positions.tobytes()
    assert after.velocities.tobytes() == before.velocities.tobytes()
    assert go(controller, 3.0).positions[0] == 0.5


def test_what_is_handed_out_can_be_changed_without_harm():
    controller = started(limits_of())
    controller.step(DT).positions[:] = 9.0
    controller.targets.positions[:] = 9.0
    assert controller.step(DT).positions[0] == 0.0
    assert controller.targets.positions[0] == 0.0


@pytest.mark.long
def test_streams_of_moving_targets_never_leave_it_without_a_way():
    """A solver failure in a state exactly at its limits must not end the stream."""
    robot = load_robot("franka")
    joints = robot.group("arm").joints
    controller = ArticulationController(robot.limits.select(joints))
    home = robot.home[robot.indices(joints)]
    rng, dt = np.random.default_rng(0), 0.01
    for _ in range(30):
        controller.reset(home)
        goal, count = home + rng.uniform(-0.3, 0.3, 7), int(rng.uniform(5, 200))
        for k in range(1, count + 1):
            speed = (goal - home) / (count * dt) if k < count else np.zeros(7)
            way = home + (goal - home) * k / count
            controller.apply(JointCommand(positions=way, velocities=speed))
            controller.step(dt)
        for _ in range(200):
            controller.step(dt)
        assert not controller.moving
        assert np.allclose(controller.step(dt).positions, goal, atol=1e-9)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_narrower_limits_move_no_joint_at_rest(sign):
    """They are no command: a joint outside of them stays until it is commanded."""
    controller = started(limits_of(2), [0.8 * sign, 0.1])
    go(controller, 0.1)
    controller.set_limits(limits_of(2, lower=-0.5, upper=0.5))
    reference = go(controller, 1.0)
    np.testing.assert_array_equal(reference.positions, [0.8 * sign, 0.1])
    controller.apply(JointCommand(positions=[0.4 * sign, 0.1]))
    np.testing.assert_allclose(go(controller, 2.0).positions, [0.4 * sign, 0.1])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("moved", [0.05, 0.3])
def test_narrower_limits_bound_the_motion_to_a_target(sign, moved):
    """A motion ends at the new limit, or close to where it is beyond the limit already."""
    controller = started(limits_of())
    controller.apply(JointCommand(positions=[0.9 * sign]))
    while abs(controller.reference_position[0]) < moved:
        controller.step(DT)
    here = controller.reference_position[0]
    controller.set_limits(limits_of(lower=-0.2, upper=0.2))
    end = go(controller, 2.0).positions[0]
    assert end == pytest.approx(sign * max(0.2, abs(here)), abs=1e-6)


def test_a_reference_at_rest_is_one_object_until_something_changes():
    controller = started(limits_of(2))
    still = controller.advance(DT)
    assert controller.advance(DT) is still
    assert not any(channel.flags.writeable for channel in still.channels)
    for change in (
        lambda: controller.apply(JointCommand(positions=[0.1, 0.0])),
        lambda: controller.stop(np.array([0])),
        lambda: controller.move_reference_to(np.array([1]), np.array([0.0, 0.2])),
        lambda: controller.track(np.array([0]), TrajectorySample(*np.zeros((3, 1)))),
        lambda: controller.switch_mode(ControlMode.EFFORT, ["j0"]),
        lambda: controller.switch_mode(ControlMode.POSITION, ["j0"]),
        lambda: controller.set_limits(limits_of(2, velocity=1.0)),
        lambda: controller.reset(np.array([0.3, 0.3])),
    ):
        change()
        assert controller.advance(DT) is not still
        for _ in range(300):
            still = controller.advance(DT)
    np.testing.assert_allclose(still.positions, 0.3)

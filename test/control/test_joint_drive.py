# SPDX-License-Identifier: Apache-2.0
"""Drives computed by the suite, and PID: golden vectors, closed forms, bad input."""

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.control.joint_command import ControlMode, JointReference
from motion_nodes.core.control.joint_drive import (
    DriveGains,
    DriveLaw,
    Pid,
    PidConfig,
    motion_load,
    one_step_back,
    per_degree,
    per_radian,
)
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint

DT = 0.001
NAN = np.nan


def law(**settings):
    return DriveLaw(("a", "b"), DriveGains([100.0, 200.0], [10.0, 20.0]), [50.0, 50.0], **settings)


def reference(positions=(NAN, NAN), velocities=(NAN, NAN), efforts=(NAN, NAN)):
    return JointReference(
        np.array(positions), np.array(velocities), np.array(efforts), np.full(2, NAN)
    )


def acting(drive):
    """Return the kp and kd in effect: slopes of the efforts over errors of position and speed."""
    rest, none, small = reference((0.0, 0.0), (0.0, 0.0)), np.zeros(2), np.full(2, -1e-3)
    return [drive.efforts(rest, *error, DT) * 1e3 for error in ((small, none), (none, small))]


def test_position_mode_is_the_pd_law_with_effort_added():
    tau = law().efforts(
        reference((0.1, 0.0), (0.5, 0.0), (1.0, 0.0)), np.zeros(2), np.array([0.2, 0.0]), DT
    )
    assert tau[0] == pytest.approx(100.0 * 0.1 + 10.0 * (0.5 - 0.2) + 1.0)
    assert tau[1] == 0.0


@pytest.mark.long
def test_velocity_mode_holds_a_speed_without_kp():
    drive = law()
    drive.switch_mode("velocity")
    q = v = 0.0
    for _ in range(4000):
        tau = drive.efforts(
            reference(velocities=(2.0, 0.0)), np.array([q, 0.0]), np.array([v, 0.0]), DT
        )
        v += tau[0] / 1.5 * DT
        q += v * DT
    assert v == pytest.approx(2.0, abs=1e-6)
    np.testing.assert_allclose(acting(drive), [[0.0, 0.0], [10.0, 20.0]])


def test_effort_mode_accelerates_an_inertia_by_tau_over_i():
    drive = law()
    drive.switch_mode(ControlMode.EFFORT, ["a"])
    tau = drive.efforts(
        reference((NAN, 0.0), (NAN, 0.0), (3.0, NAN)), np.array([1.0, 0.0]), np.ones(2) * 4.0, DT
    )
    assert tau[0] == 3.0
    np.testing.assert_allclose(acting(drive)[1], [0.0, 20.0])


def test_efforts_saturate_and_limits_can_be_set():
    drive = law()
    far = reference((10.0, 10.0), (0.0, 0.0))
    np.testing.assert_array_equal(drive.efforts(far, np.zeros(2), np.zeros(2), DT), [50.0, 50.0])
    drive.set_max_efforts([12.0], ["b"])
    np.testing.assert_array_equal(drive.max_efforts, [50.0, 12.0])
    np.testing.assert_array_equal(drive.efforts(far, np.zeros(2), np.zeros(2), DT), [50.0, 12.0])
    drive.set_max_efforts(0.0)
    np.testing.assert_allclose(drive.efforts(far, np.zeros(2), np.zeros(2), DT), 0.0, atol=1e-300)


def test_modes_restore_the_stored_gains():
    drive = law()
    drive.switch_mode("velocity")
    drive.set_gains(kp=[300.0, 400.0])
    np.testing.assert_array_equal(acting(drive)[0], [0.0, 0.0])
    drive.switch_mode("position")
    np.testing.assert_allclose(acting(drive)[0], [300.0, 400.0])
    np.testing.assert_array_equal(drive.gains.kd, [10.0, 20.0])


def test_none_leaves_an_array_and_bad_gains_change_nothing():
    drive = law()
    drive.set_gains(kd=5.0)
    np.testing.assert_array_equal(drive.gains.kp, [100.0, 200.0])
    for bad in ([1.0, -1.0], [1.0], [np.nan, 1.0], np.inf):
        with pytest.raises(InvalidCommand):
            drive.set_gains(kp=1.0, kd=bad)
    np.testing.assert_array_equal(drive.gains.kp, [100.0, 200.0])
    np.testing.assert_array_equal(drive.gains.kd, [5.0, 5.0])


def test_unknown_words_are_answered_with_the_known_ones():
    drive = law()
    modes = ", ".join(mode.value for mode in ControlMode)
    with pytest.raises(InvalidCommand, match=modes, check=about("torque")):
        drive.switch_mode("torque")
    with pytest.raises(UnknownJoint, check=about("c")) as caught:
        drive.switch_mode("effort", ["a", "c"])
    assert caught.value.allowed == ("a", "b")
    assert set(drive.modes) == {ControlMode.POSITION}


@pytest.mark.long
def test_the_integral_takes_away_a_constant_load():
    drive = DriveLaw(("a",), DriveGains([400.0], [40.0], [800.0]), [100.0])
    q = v = 0.0
    for _ in range(8000):
        ref = JointReference(np.array([0.5]), np.zeros(1), np.array([NAN]), np.zeros(1))
        tau = drive.efforts(ref, np.array([q]), np.array([v]), DT)
        v += (tau[0] - 9.81) * DT
        q += v * DT
    assert q == pytest.approx(0.5, abs=1e-4)


def test_gains_per_degree_and_per_radian():
    assert per_degree(1.0, revolute=True) == pytest.approx(np.pi / 180.0)
    assert per_degree(3.0, revolute=False) == 3.0
    for revolute in (True, False):
        gain = per_radian(per_degree(7.0, revolute=revolute), revolute=revolute)
        assert gain == pytest.approx(7.0)


def test_the_load_is_added_but_in_effort_mode_and_saturates_with_the_rest():
    drive = law()
    drive.switch_mode("effort", ["b"])
    still = reference((0.0, NAN), (0.0, NAN), (NAN, 1.0))
    tau = drive.efforts(still, np.zeros(2), np.zeros(2), DT, load=np.array([7.0, 9.0]))
    np.testing.assert_array_equal(tau, [7.0, 1.0])
    tau = drive.efforts(still, np.zeros(2), np.zeros(2), DT, load=np.array([70.0, 9.0]))
    np.testing.assert_array_equal(tau, [50.0, 1.0])


class OneJoint:
    """Inertia 2, damping 3, gravity effort 5."""

    def efforts(self, q, v, a):
        return 2.0 * a + 3.0 * v + 5.0

    def gravity(self, q):
        return np.full(1, 5.0)


@pytest.mark.parametrize(
    ("gravity", "inertia", "expected"),
    [(True, True, 14.2), (True, False, 5.0), (False, True, 9.2), (False, False, 0.0)],
)
def test_the_load_of_a_motion(gravity, inertia, expected):
    led = JointReference(*(np.array([x]) for x in (0.3, 0.4, NAN, 4.0)))
    load = motion_load(
        OneJoint(), led, np.zeros(1), np.full(1, 9.0), gravity=gravity, inertia=inertia
    )
    assert load[0] == pytest.approx(expected)


def test_a_joint_without_reference_is_taken_to_go_on():
    free = JointReference(*(np.array([x]) for x in (NAN, NAN, 1.0, NAN)))
    load = motion_load(OneJoint(), free, np.zeros(1), np.full(1, 0.5), gravity=True, inertia=True)
    assert load[0] == pytest.approx(3.0 * 0.5 + 5.0)


def test_one_step_back_along_a_motion_of_constant_acceleration():
    def at(t):
        return np.array([1.0 + 2.0 * t + 1.5 * t * t]), np.array([2.0 + 3.0 * t])

    (q0, v0), (q1, v1) = at(0.0), at(0.004)
    blank, acceleration = np.full(1, NAN), np.full(1, 3.0)
    back = one_step_back(JointReference(q1, v1, blank, acceleration), 0.004)
    np.testing.assert_allclose([back.positions, back.velocities], [q0, v0], atol=1e-15)
    speed = one_step_back(JointReference(blank, v1, blank, acceleration), 0.004)
    assert np.isnan(speed.positions).all()
    np.testing.assert_allclose(speed.velocities, v0)
    effort = one_step_back(JointReference(blank, blank, np.ones(1), blank), 0.004)
    assert np.isnan([effort.positions, effort.velocities]).all()
    assert effort.efforts[0] == 1.0


def unit_inertia(pid, steps=5000, reference=1.0):
    """Positions of a unit inertia under a PID from rest at 0."""
    q = v = 0.0
    path = []
    for _ in range(steps):
        v += pid.step([reference], [q], DT)[0] * DT
        q += v * DT
        path.append(q)
    return np.array(path)


def test_golden_vector_of_a_saturated_start():
    pid = Pid(PidConfig(100.0, 10.0, 20.0, 50.0, 10.0))
    assert [pid.step([1.0], [0.0], DT)[0] for _ in range(3)] == [50.0, 50.0, 50.0]


@pytest.mark.parametrize("corner", [10.0, 1000.0])
def test_the_first_sample_has_no_derivative_kick(corner):
    pid = Pid(PidConfig(100.0, 10.0, 20.0, np.inf, corner))
    assert pid.step([1.0], [1.0], DT)[0] == 0.0


def test_a_step_of_the_reference_has_no_derivative_kick():
    pid = Pid(PidConfig(100.0, 0.0, 20.0, np.inf, 1000.0))
    pid.step([0.0], [0.0], DT)
    assert pid.step([1.0], [0.0], DT)[0] == pytest.approx(100.0)


@pytest.mark.parametrize("corner", [10.0, 100.0, 1000.0])
def test_a_filter_of_usual_corner_settles_and_a_slow_one_does_not(corner):
    settled = unit_inertia(Pid(PidConfig(100.0, 10.0, 20.0, 50.0, corner)))
    assert settled.max() < 1.02
    assert settled[-1] == pytest.approx(1.0, abs=0.01)
    slow = unit_inertia(Pid(PidConfig(100.0, 10.0, 20.0, 50.0, 0.1)))
    assert slow.max() > 1.5


def test_the_filter_is_the_one_it_says():
    """A ramp of the measurement: derivative -> -kd * slope, by 1 - (1 + N dt)^-k."""
    kd, corner, slope = 2.0, 50.0, 3.0
    pid = Pid(PidConfig(0.0, 0.0, kd, np.inf, corner))
    outputs = [pid.step([0.0], [slope * DT * k], DT)[0] for k in range(200)]
    expected = [-kd * slope * (1.0 - (1.0 + corner * DT) ** -k) for k in range(200)]
    np.testing.assert_allclose(outputs, expected, atol=1e-9)


def test_a_measured_velocity_takes_the_place_of_the_filter():
    pid = Pid(PidConfig(0.0, 0.0, 2.0))
    assert pid.step([0.0], [0.0], DT, velocity=[3.0])[0] == -6.0


def test_the_integral_is_the_rectangle_sum():
    pid = Pid(PidConfig(0.0, 5.0))
    for _ in range(100):
        pid.step([1.0], [0.0], DT)
    assert pid.integral[0] == pytest.approx(5.0 * 100 * DT)


@pytest.mark.long
def test_anti_windup_recovers_sooner_and_does_not_depend_on_ki_alone():
    def overshoot(tracking_time):
        config = PidConfig(100.0, 200.0, 20.0, 20.0, 100.0, tracking_time)
        return unit_inertia(Pid(config), 8000, reference=5.0).max() - 5.0

    assert overshoot(0.0) < 0.5 * overshoot(1e6)
    assert overshoot(0.05) < overshoot(5.0)


def test_the_usual_tracking_time_is_the_root_of_ti_and_td():
    config = PidConfig([100.0, 100.0, 0.0], [10.0, 10.0, 1.0], [20.0, 0.0, 0.0])
    np.testing.assert_allclose(config.anti_windup_time(), [np.sqrt(10.0 * 0.2), 0.5 * 10.0, 1.0])


def test_without_ki_nothing_winds_up():
    pid = Pid(PidConfig(100.0, 0.0, 0.0, 1.0))
    for _ in range(1000):
        pid.step([10.0], [0.0], DT)
    assert pid.integral[0] == 0.0
    assert pid.step([0.0], [0.0], DT)[0] == 0.0


def test_joints_do_not_feel_one_another():
    kp, ki, kd = (
        [600.0] * 4 + [250.0, 150.0, 50.0],
        [5.0] * 4 + [2.0, 2.0, 1.0],
        [50.0] * 4 + [15.0, 10.0, 5.0],
    )
    limit = [87.0] * 4 + [12.0] * 3
    together = Pid(PidConfig(kp, ki, kd, limit))
    alone = [Pid(PidConfig(*gains)) for gains in zip(kp, ki, kd, limit, strict=True)]
    rng = np.random.default_rng(0)
    for _ in range(200):
        r, y = rng.normal(size=7) * 0.2, rng.normal(size=7) * 0.2
        output = together.step(r, y, DT)
        assert (np.abs(output) <= limit).all()
        np.testing.assert_allclose(
            output, [p.step([a], [b], DT)[0] for p, a, b in zip(alone, r, y, strict=True)]
        )


def test_reset_equals_a_fresh_controller():
    config = PidConfig([10.0, 20.0], 1.0, 0.5)
    used, fresh = Pid(config), Pid(config)
    for k in range(10):
        used.step([1.0, 2.0], [0.1 * k, 0.0], DT)
    used.reset()
    for k in range(5):
        np.testing.assert_array_equal(
            used.step([1.0, 1.0], [0.0, 0.1 * k], DT), fresh.step([1.0, 1.0], [0.0, 0.1 * k], DT)
        )


def test_new_gains_keep_the_integral():
    pid = Pid(PidConfig(1.0, 5.0))
    for _ in range(50):
        pid.step([1.0], [0.0], DT)
    kept = pid.integral[0]
    pid.set_config(PidConfig(2.0, 5.0))
    assert pid.integral[0] == kept
    with pytest.raises(InvalidConfig):
        pid.set_config(PidConfig([1.0, 2.0]))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"kp": [1.0, 2.0], "ki": [1.0, 2.0, 3.0]}, "gains"),
        ({"kp": -1.0}, "kp"),
        ({"kp": [1.0, np.nan]}, "kp"),
        ({"kp": 1.0, "limit": 0.0}, "limit"),
        ({"kp": 1.0, "derivative_corner": 0.0}, "derivative_corner"),
        ({"kp": 1.0, "tracking_time": -1.0}, "tracking_time"),
        ({"kp": "much"}, "kp"),
        ({"kp": []}, "gains"),
    ],
)
def test_bad_gains_are_refused(settings, text):
    with pytest.raises(InvalidConfig, check=about(text)):
        PidConfig(**settings)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([1.0, 2.0], [0.0], DT), "reference"),
        (([np.nan], [0.0], DT), "samples"),
        (([1.0], [np.inf], DT), "samples"),
        (([1.0], [0.0], 0.0), "dt"),
        (([1.0], [0.0], -DT), "dt"),
        (([1.0], [0.0], np.nan), "dt"),
        (([1.0], [0.0], DT, np.nan), "samples"),
        (([1.0], [0.0], DT, 0.0, [1.0, 2.0]), "velocity"),
    ],
)
def test_bad_samples_change_nothing(arguments, text):
    config = PidConfig(10.0, 1.0, 0.5)
    pid, twin = Pid(config), Pid(config)
    pid.step([1.0], [0.2], DT)
    twin.step([1.0], [0.2], DT)
    with pytest.raises(InvalidCommand, check=about(text)):
        pid.step(*arguments)
    assert pid.step([1.0], [0.3], DT) == twin.step([1.0], [0.3], DT)

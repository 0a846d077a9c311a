# SPDX-License-Identifier: Apache-2.0
"""Drives computed by the suite: modes as gain switches, saturation, units of gains."""

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.control.joint_command import ControlMode, JointReference
from motion_nodes.core.control.joint_drive import (
    EFFORT_MODES,
    DriveGains,
    DriveLaw,
    motion_load,
    one_step_back,
    per_degree,
    per_radian,
)
from motion_nodes.errors import InvalidCommand, UnknownJoint

DT = 0.001
NAN = np.nan


def law(**settings):
    return DriveLaw(("a", "b"), DriveGains([100.0, 200.0], [10.0, 20.0]), [50.0, 50.0], **settings)


def reference(positions=(NAN, NAN), velocities=(NAN, NAN), efforts=(NAN, NAN)):
    return JointReference(
        np.array(positions), np.array(velocities), np.array(efforts), np.full(2, NAN)
    )


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
    np.testing.assert_array_equal(drive.acting_gains.kp, [0.0, 0.0])
    np.testing.assert_array_equal(drive.acting_gains.kd, [10.0, 20.0])


def test_effort_mode_accelerates_an_inertia_by_tau_over_i():
    drive = law()
    drive.switch_mode(ControlMode.EFFORT, ["a"])
    tau = drive.efforts(
        reference((NAN, 0.0), (NAN, 0.0), (3.0, NAN)), np.array([1.0, 0.0]), np.ones(2) * 4.0, DT
    )
    assert tau[0] == 3.0
    np.testing.assert_array_equal(drive.acting_gains.kd, [0.0, 20.0])


def test_acceleration_efforts_are_scaled_by_the_inertia():
    drive = law()
    drive.switch_mode("effort")
    drive.set_effort_mode("acceleration", ["b"])
    tau = drive.efforts(reference(efforts=(2.0, 2.0)), np.zeros(2), np.zeros(2), DT, inertia=7.0)
    np.testing.assert_array_equal(tau, [2.0, 14.0])
    assert drive.effort_modes == ("force", "acceleration")


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
    np.testing.assert_array_equal(drive.acting_gains.kp, [0.0, 0.0])
    drive.switch_mode("position")
    np.testing.assert_array_equal(drive.acting_gains.kp, [300.0, 400.0])
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
    with pytest.raises(InvalidCommand, match=", ".join(EFFORT_MODES)):
        drive.set_effort_mode("power")
    with pytest.raises(UnknownJoint, check=about("c")) as caught:
        drive.switch_mode("effort", ["a", "c"])
    assert caught.value.allowed == ("a", "b")
    assert set(drive.modes) == {ControlMode.POSITION}
    assert set(drive.effort_modes) == {"force"}


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

# SPDX-License-Identifier: Apache-2.0
"""PID: golden vectors, known defects, closed forms, bad input."""

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.control.joint_drive import Pid, PidConfig
from motion_nodes.errors import InvalidCommand, InvalidConfig

DT = 0.001


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

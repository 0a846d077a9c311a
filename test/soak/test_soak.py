# SPDX-License-Identifier: Apache-2.0
"""Line fits through samples, and a short soak; ``make soak`` runs long ones."""

import numpy as np
import pytest
from chaos.running_suite import RunningSuite

from soak.campaign import Soak, drifts, exceeded
from soak.drift import Drift, drift_of

pytestmark = pytest.mark.real_time
SEED, SECONDS = 5, 12.0


def test_the_slope_of_a_line_after_the_warm_up():
    times = np.arange(0.0, 7200.0, 10.0)
    values = 100.0 + 3.0 * times / 3600.0 + 50.0 * (times < 1000.0)
    drift = drift_of(times, values)
    assert drift.per_hour == pytest.approx(3.0)
    assert drift.error == pytest.approx(0.0, abs=1e-9)
    assert drift.in_a_day == pytest.approx(106.0 + 72.0, abs=0.5)


def test_noise_is_within_its_error():
    rng = np.random.default_rng(2)
    times = np.arange(0.0, 3600.0, 5.0)
    slopes = [drift_of(times, rng.standard_normal(len(times))) for _ in range(200)]
    inside = np.mean([abs(d.per_hour) < 2.0 * d.error for d in slopes])
    assert 0.9 < inside < 0.99


def test_too_few_samples():
    with pytest.raises(ValueError, match="samples"):
        drift_of([0.0, 1.0, 2.0], [1.0, 1.0, 1.0])


def test_what_gains_too_much():
    steady, leaking = Drift(100, 100, 1.0, 2.0), Drift(100, 400, 100.0, 2.0)
    found = {("a", "memory [MB]"): steady, ("b", "memory [MB]"): leaking,
             ("b", "CPU [cores]"): leaking}  # fmt: skip
    assert [text.partition(":")[0] for text in exceeded(found)] == ["b"]


@pytest.mark.timeout(900)
def test_a_short_soak(suite, client):
    running = RunningSuite(
        suite, ["arm:=franka", "base:=jetbot@3,0,0"], "mock",
        without=("rrt_planner", "rmpflow_policy", "trajectory_generator"),
    )  # fmt: skip
    soak = Soak(running, client, SEED)
    samples = soak.run(SECONDS, 0.5)
    assert not samples.failures
    assert sum(samples.done.values()) > 3
    assert {process for process, _ in drifts(samples)} == set(running.commands)

# SPDX-License-Identifier: Apache-2.0
"""Streams whose messages are late all the time: how long they are waited for, and followed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from control.sine_stream import NAN, A, T, message, ns

from motion_nodes.core.control.stream_resampler import (
    SLOWER,
    ResamplerSettings,
    StreamResampler,
    StreamSample,
)


@pytest.mark.long
@pytest.mark.parametrize("late", [T, 2 * T, 4.5 * T])
@pytest.mark.parametrize("velocity", [0.0, math.nan, 0.05])
def test_a_stream_that_is_always_late_is_followed_with_a_bounded_delay(velocity, late):
    """At its velocity limit; the velocity channel may contain 0 or nothing."""
    settings, speed = ResamplerSettings(latency=2 * T), np.array([0.05])
    resampler = StreamResampler(settings, max_velocity=speed)
    delay = late + settings.latency + settings.blending
    positions, count = [], 500
    for k in range(count):
        now = k * T + 2 * T + late  # after the time at which it should have been used
        for part in (0.0, 0.5):
            sample = resampler.sample(ns(now - T + part * T))
            if sample is not None:
                position = float(sample.position[0])
                positions.append(position)
                assert speed[0] * (now - T - delay) - 1e-6 <= position <= speed[0] * now + 1e-6
        values = np.array([[speed[0] * k * T], [velocity], [math.nan]])
        resampler.push(ns(k * T), StreamSample(*values))
    assert len(positions) > count
    rates = np.diff(positions[20:]) / (0.5 * T)
    assert 0.5 * speed[0] < rates.min() <= rates.max() < 1.1 * speed[0]


def test_positions_with_velocities_of_zero_move_evenly():
    """The velocity is that of the damping of a drive, as for fingers with an effort limit."""
    resampler = StreamResampler(ResamplerSettings(latency=2 * T))
    for k in range(5):
        resampler.push(ns(k * T), StreamSample(np.array([0.001 * k]), np.zeros(1), np.zeros(1)))
    for k in np.arange(0.0, 4.0, 0.25):
        sample = resampler.sample(ns(k * T + 2 * T))
        assert sample is not None
        assert sample.position[0] == pytest.approx(0.001 * k, abs=1e-12)
        assert sample.velocity[0] == 0.0


def test_the_covered_time_is_that_of_a_moving_reference():
    resampler = StreamResampler(ResamplerSettings(latency=2 * T, extrapolation=5 * T))
    assert resampler.covered_ns is None
    resampler.push(0, message(0.0))
    assert resampler.covered_ns is None, "its period is unknown"
    resampler.push(ns(T), message(T))
    assert resampler.covered_ns == ns(4 * T)
    assert resampler.moving
    resampler.push(ns(2 * T), StreamSample(A, np.zeros(2), NAN))
    assert resampler.covered_ns == ns(5 * T)
    assert not resampler.moving
    resampler.end()
    assert resampler.covered_ns is None
    resampler.push(ns(5 * T), message(5 * T))
    assert resampler.covered_ns == ns(8 * T), "a single gap is not its period"


def test_a_stream_is_waited_for_on_a_busy_machine_until_it_is_slow():
    resampler = StreamResampler(ResamplerSettings(latency=2 * T, extrapolation=5 * T))
    resampler.push(0, message(0.0))
    resampler.push(ns(T), message(T))
    count = 0
    while (covered := resampler.covered_ns) is not None:
        # The simulation waited there for a late controller.
        resampler.push(covered, message(covered * 1e-9))
        count += 1
    assert SLOWER <= count <= SLOWER + 2
    resampler.push(newest := resampler.newest_ns + ns(3 * T), message(0.0))
    assert resampler.covered_ns is None, "its period exceeds the latency"
    resampler.push(newest + ns(T), message(0.0))
    assert resampler.covered_ns == newest + ns(4 * T)


def test_a_slow_stream_is_soon_not_waited_for_after_a_short_gap():
    """Its sender may send by simulated time, which waits meanwhile."""
    resampler, stamp = StreamResampler(ResamplerSettings(latency=2 * T)), 0
    for count, gap in enumerate([T, *[5 * T] * 9]):
        stamp += ns(gap)
        resampler.push(stamp, message(stamp * 1e-9))
        assert count < 3 or resampler.covered_ns is None


@pytest.mark.parametrize("seed", range(4))
def test_a_joint_follows_a_starved_controller_where_time_waits_for_it(seed):
    """The controller runs after a third of the cycles of a simulation that catches up."""
    random, resampler = np.random.default_rng(seed), StreamResampler(ResamplerSettings(2 * T))
    step, now = T / 2, 0.0

    def angle(time):
        return 0.65 * (1.0 - math.cos(2.0 * max(time - 1.0, 0.0)))

    while now < 10.0:
        due = T if now < 1.0 or random.random() < 0.1 else 0.1
        if resampler.covered_ns is not None:
            due = min(due, resampler.covered_ns * 1e-9 - now)
        for _ in range(round(due / step)):
            now += step
            sample = resampler.sample(ns(now))
            if sample is not None:
                recent = [angle(t) for t in np.arange(now - 4 * T, now + step, step)]
                assert min(recent) - 1e-4 < sample.position[0] < max(recent) + 1e-4
        if now < 1.0 or random.random() < 1 / 3:
            velocity = 1.3 * math.sin(2.0 * max(now - 1.0, 0.0))
            values = np.array([[angle(now)], [velocity], [math.nan]])
            resampler.push(ns(now), StreamSample(*values))

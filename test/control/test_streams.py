# SPDX-License-Identifier: Apache-2.0
"""Stamped streams: smooth playback of messages that come late."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from control.sine_stream import FINE, NAN, A, T, W, message, ns, sine
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.control.stream_resampler import (
    CATCH_UP,
    SLOWER,
    ResamplerSettings,
    StreamResampler,
    StreamSample,
)
from motion_nodes.errors import InvalidConfig


def play(
    resampler: StreamResampler,
    arrivals: Sequence[tuple[float, int]],
    times: Sequence[float],
    made: Callable[[float], StreamSample] = message,
) -> list[StreamSample | None]:
    """Return the samples of a driver at ``times`` [s]; arrivals: (time [s], message number)."""
    waiting, found = sorted(arrivals), []
    for now in times:
        while waiting and waiting[0][0] <= now + 1e-12:
            k = waiting.pop(0)[1]
            resampler.push(ns(k * T), made(k * T))
        found.append(resampler.sample(ns(now)))
    return found


def punctual(count: int) -> list[tuple[float, int]]:
    return [(k * T, k) for k in range(count)]


def grid(begin: float, end: float) -> np.ndarray:
    return np.arange(round(begin / FINE), round(end / FINE)) * FINE


@given(st.lists(st.floats(0.0, T), min_size=60, max_size=60))
@settings(max_examples=15)
def test_a_smooth_reference_is_met_whatever_the_delays_below_the_latency(delays):
    resampler = StreamResampler(ResamplerSettings(latency=2 * T))
    arrivals = [(k * T + delays[k], k) for k in range(60)]
    times = grid(2 * T, 59 * T)
    bound = T**4 / 384 * float((A * W**4).max()) + 1e-12
    for now, sample in zip(times, play(resampler, arrivals, times), strict=True):
        q, v = sine(now - 2 * T)
        assert sample is not None
        np.testing.assert_allclose(sample.position, q, atol=bound)
        np.testing.assert_allclose(sample.velocity, v, atol=T**3 / 24 * float((A * W**4).max()))
    assert resampler.extrapolated == 0


def test_more_latency_only_shifts_a_complete_stream():
    times = grid(6 * T, 50 * T)
    early = play(StreamResampler(ResamplerSettings(latency=2 * T)), punctual(60), times - T)
    late = play(StreamResampler(ResamplerSettings(latency=3 * T)), punctual(60), times)
    for one, other in zip(early, late, strict=True):
        assert one is not None
        assert other is not None
        np.testing.assert_allclose(one.position, other.position, atol=1e-9)


@pytest.mark.long
@given(st.lists(st.floats(0.0, 6 * T), min_size=40, max_size=40))
@settings(max_examples=10)
def test_more_latency_never_extrapolates_more(delays):
    arrivals = [(k * T + delays[k], k) for k in range(40)]
    counts = []
    for latency in (1.0, 2.0, 4.0, 8.0):
        resampler = StreamResampler(ResamplerSettings(latency=latency * T))
        # Stream times are the same for all latencies.
        play(resampler, arrivals, grid(2 * T, 39 * T) + latency * T)
        counts.append(resampler.extrapolated)
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


@pytest.mark.long
@given(st.lists(st.one_of(st.floats(0.0, T), st.floats(0.0, 25 * T)), min_size=80, max_size=80))
@settings(max_examples=20)
def test_nothing_jumps_however_late_messages_are(delays):
    resampler = StreamResampler()
    # One connection: a late message delays the following ones.
    moments = np.maximum.accumulate([k * T + delays[k] for k in range(80)])
    times = grid(10 * T, 120 * T)
    found = play(resampler, [(m, k) for k, m in enumerate(moments.tolist())], times)
    samples = [s for s in found if s is not None]
    q, v = (np.array([getattr(s, name) for s in samples]) for name in ("position", "velocity"))
    # The playback rate bounds the speed, and blending of the extrapolation error adds 5 %.
    most = (1.0 + CATCH_UP) * float((A * W).max()) * 1.05
    assert np.abs(np.diff(q, axis=0)).max() <= most * FINE
    assert np.abs(v).max() <= most
    # Velocities are consistent with positions.
    means = 0.5 * (v[1:] + v[:-1])
    np.testing.assert_allclose(np.diff(q, axis=0) / FINE, means, atol=0.02 * most)


def stalled(stalls: Sequence[tuple[float, float]], count: int) -> list[tuple[float, int]]:
    """Return the arrivals of a stream that is not received during stalls (begin, end) [s]."""
    moments = [k * T for k in range(count)]
    for begin, end in stalls:
        moments = [max(m, end) if m >= begin else m for m in moments]
    return [(m, k) for k, m in enumerate(moments)]


@pytest.mark.long
@pytest.mark.parametrize("room", [1.0, 1.3])
def test_a_catch_up_respects_the_velocity_limits(room):
    limits = A * W * room
    resampler = StreamResampler(ResamplerSettings(), limits)
    arrivals = stalled([(0.4, 0.6), (1.1, 1.15), (1.2, 1.5)], 800)
    samples = [s for s in play(resampler, arrivals, grid(0.1, 3.1)) if s is not None]
    speed = np.abs([s.velocity for s in samples]) / limits
    # The excess blends out the extrapolation error.
    assert speed.max() <= 1.06
    steps = np.abs(np.diff([s.position for s in samples], axis=0)) / FINE / limits
    assert steps.max() <= 1.06


@pytest.mark.long
@pytest.mark.parametrize("beyond", [0.0, 0.2])
def test_a_late_stream_leads_beyond_no_position_limit(beyond):
    """Joint 0 turns at its limit, or beyond it if the stream itself exceeds it."""
    upper, fastest = A * np.array([1.0 - beyond, 2.0]), 1.3 * A * W
    turn = 0.5 * math.pi / W[0]
    for begin in (turn - 0.05, turn - 0.04, turn - 0.03):
        stalls, times = stalled([(begin, begin + 0.15)], 300), grid(0.05, 1.1)
        farthest = []
        for limits in (None, (-upper, upper)):
            resampler = StreamResampler(None, fastest, limits)
            found = [s.position for s in play(resampler, stalls, times) if s]
            farthest.append(max(position[0] for position in found))
            steps = np.abs(np.diff(found, axis=0)).max(axis=0)
            assert (steps <= 1.06 * fastest * FINE).all()
        assert farthest[0] <= A[0] + 1e-3, "extrapolated with its deceleration"
        assert farthest[1] <= A[0] + 1e-12


@pytest.mark.parametrize("limit", [0.2, math.inf])
def test_a_stream_that_ends_at_full_speed_stops_at_a_position_limit(limit):
    bound = np.full(2, limit)
    resampler = StreamResampler(None, None, (-bound, bound))
    speed, none = np.full(2, 1.9), np.full(2, np.nan)
    for k in range(26):
        resampler.push(ns(k * T), StreamSample(speed * k * T, speed, none))
    found = [resampler.sample(ns(t)) for t in grid(0.0, 0.4)]
    farthest = max(float(s.position.max()) for s in found if s)
    assert farthest == pytest.approx(0.2) if math.isfinite(limit) else farthest > 0.21


def test_a_stream_that_was_late_passes_the_same_positions():
    resampler = StreamResampler(ResamplerSettings())
    found = play(resampler, stalled([(0.4, 0.6)], 500), grid(0.1, 1.5))
    # Joint 0 over joint 1, of the stream and of the playback, before it turns.
    path = np.array([sine(t)[0] for t in np.arange(0.35, 0.75, 1e-4)])
    played = [
        s.position for s, t in zip(found, grid(0.1, 1.5), strict=True) if s and 0.36 < t < 0.7
    ]
    away = [float(np.linalg.norm(path - q, axis=1).min()) for q in played]
    # Error of 30 ms of extrapolation at constant velocity.
    assert max(away) <= 0.5 * float(np.linalg.norm(A * W**2)) * 0.03**2 + 1e-4


def test_regular_short_extrapolation_does_not_filter_the_stream():
    """A controller behind simulated time is late by one message permanently."""
    resampler = StreamResampler(ResamplerSettings(latency=2 * T))
    # Each message differs by A W^2 T^2 / 2 from the extrapolation, which decays within some
    # periods. Blended over 50 ms, the reference error exceeded 20 A W^2 T^2.
    bound = 10.0 * float((A * W**2).max()) * T**2
    for k in range(200):
        resampler.push(ns(k * T), message(k * T))
        for now in (k + 3) * T + np.arange(4) * FINE:
            sample = resampler.sample(ns(now))
            assert sample is not None
            if k >= 50:  # it begins late, and catches up
                np.testing.assert_allclose(sample.position, sine(now - 2 * T)[0], atol=bound)
    assert resampler.extrapolated > 500


@pytest.mark.long
def test_delays_do_not_add_up():
    """Stalls of 40 ms every 0.1 s, for four seconds."""
    stalls = [(0.1 * k, 0.1 * k + 0.04) for k in range(1, 40)]
    resampler = StreamResampler(ResamplerSettings(), A * W * 1.5)
    lags = []
    waiting = stalled(stalls, 1200)
    for now in grid(0.0, 4.4):
        while waiting and waiting[0][0] <= now + 1e-12:
            k = waiting.pop(0)[1]
            resampler.push(ns(k * T), message(k * T))
        resampler.sample(ns(now))
        lags.append(resampler.lag)
    assert 0.0 < max(lags) < 0.04
    assert lags[-1] == 0.0


def test_beyond_the_longest_lag_the_newest_sample_is_blended_to():
    resampler = StreamResampler(ResamplerSettings(max_lag=0.2), np.full(2, 10.0))
    arrivals = stalled([(0.4, 1.0)], 600)
    times = grid(0.1, 1.6)
    found = play(resampler, arrivals, times)
    assert resampler.lag == 0.0
    for now, sample in zip(times, found, strict=True):
        if sample is not None and now > 1.2:
            np.testing.assert_allclose(sample.position, sine(now - 0.008)[0], atol=1e-6)


def test_a_velocity_alone_is_not_hurried():
    resampler = StreamResampler(ResamplerSettings())
    wheel = StreamSample(np.full(1, np.nan), np.full(1, 3.0), np.full(1, np.nan))
    found = play(resampler, stalled([(0.2, 0.35)], 200), grid(0.1, 0.7), lambda t: wheel)
    assert {float(s.velocity[0]) for s in found if s is not None} == {3.0}


def test_a_stream_that_ends_is_braked_and_held():
    settings = ResamplerSettings(latency=0.0, extrapolation=0.02)
    resampler = StreamResampler(settings)
    resampler.push(0, StreamSample(np.array([1.0]), np.array([2.0]), np.array([3.0])))
    assert resampler.sample(0) is not None
    on = resampler.sample(ns(0.02))
    braked = resampler.sample(ns(0.03))
    held = resampler.sample(ns(1.0))
    assert on is not None
    assert braked is not None
    assert held is not None
    assert (on.position, on.velocity) == (pytest.approx(1.04), 2.0)
    assert (braked.position, braked.velocity) == (pytest.approx(1.055), pytest.approx(1.0))
    assert (held.position, held.velocity) == (pytest.approx(1.06), 0.0)
    assert held.effort == 3.0


def test_before_its_first_moment_a_stream_leads_nothing():
    resampler = StreamResampler(ResamplerSettings(latency=0.01))
    assert resampler.sample(0) is None
    resampler.push(ns(1.0), message(1.0))
    assert resampler.sample(ns(1.0099)) is None
    assert resampler.sample(ns(1.01)) is not None


def test_a_gap_is_not_bridged_by_a_cubic_but_blended():
    resampler = StreamResampler(ResamplerSettings(latency=0.0, longest_gap=0.05))
    still = np.zeros(1)
    resampler.push(0, StreamSample(np.zeros(1), still, still))
    resampler.push(ns(1.0), StreamSample(np.ones(1), still, still))
    resampler.push(ns(1.01), StreamSample(np.ones(1), still, still))
    resampler.push(ns(1.05), StreamSample(np.ones(1), still, still))
    resampler.push(ns(1.1), StreamSample(np.ones(1), still, still))
    found = [resampler.sample(ns(t)) for t in (0.5, 0.999, 1.0, 1.025, 1.05, 1.08)]
    assert [float(s.position[0]) for s in found if s] == pytest.approx([0, 0, 0, 0.5, 1, 1])


def test_channels_without_a_value_stay_so():
    resampler = StreamResampler(ResamplerSettings(latency=0.0))
    nan = math.nan
    # Commanded by position only, by velocity only, not at all.
    for t, value in ((0.0, 0.0), (0.01, 1.0)):
        position, velocity = np.array([value, nan, nan]), np.array([nan, value, nan])
        resampler.push(ns(t), StreamSample(position, velocity, np.full(3, nan)))
    sample = resampler.sample(ns(0.005))
    assert sample is not None
    np.testing.assert_allclose(sample.position, [0.5, nan, nan])
    np.testing.assert_allclose(sample.velocity, [nan, 0.5, nan])
    assert np.isnan(sample.effort).all()


def test_a_joint_changes_its_channel_at_the_stamp():
    resampler = StreamResampler(ResamplerSettings(latency=0.0))
    nan = np.full(1, np.nan)
    resampler.push(0, StreamSample(np.ones(1), np.zeros(1), nan))
    resampler.push(ns(0.01), StreamSample(nan, np.full(1, 0.3), nan))
    before, after = resampler.sample(ns(0.0099)), resampler.sample(ns(0.01))
    assert before is not None
    assert after is not None
    assert (before.position, before.velocity) == (1.0, 0.0)
    assert np.isnan(after.position).all()
    assert after.velocity == 0.3


def test_of_one_stamp_the_last_counts_and_older_ones_do_not():
    resampler = StreamResampler(ResamplerSettings(latency=0.0))
    still = np.zeros(1)
    assert resampler.push(ns(1.0), StreamSample(np.zeros(1), np.ones(1), still))
    assert resampler.push(ns(1.0), StreamSample(np.zeros(1), still, still))
    assert not resampler.push(ns(0.9), StreamSample(np.ones(1), still, still))
    held = resampler.sample(ns(2.0))
    assert held is not None
    assert held.position == 0.0


@pytest.mark.parametrize("bad", [-0.001, math.nan, math.inf])
@pytest.mark.parametrize("name", ["latency", "extrapolation", "longest_gap", "blending", "max_lag"])
def test_bad_times_are_refused(name, bad):
    with pytest.raises(InvalidConfig, check=about(name)):
        ResamplerSettings(**{name: bad})


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(1, 40), st.booleans(), st.floats(0.0, 3 * T)), max_size=8),
       st.integers(0, 10**6))  # fmt: skip
@settings(max_examples=25)
def test_the_same_object_again_is_the_same_reference_again(parts, seed):
    random, messages, q = np.random.default_rng(seed), [], np.zeros(2)
    for count, rests, late in parts:
        speed = np.zeros(2) if rests else random.uniform(-0.5, 0.5, 2)
        sample = StreamSample(q, speed, np.full(2, np.nan))
        for _ in range(count):
            if not rests:
                q = q + speed * T
                sample = StreamSample(q, speed, np.full(2, np.nan))
            messages.append((late, sample))
    shared, apart = StreamResampler(), StreamResampler()
    arrivals = sorted((k * T + late, k) for k, (late, _) in enumerate(messages))
    for now in grid(0.0, (len(messages) + 30) * T):
        while arrivals and arrivals[0][0] <= now:
            k = arrivals.pop(0)[1]
            sample = messages[k][1]
            shared.push(ns(k * T), sample)
            apart.push(ns(k * T), StreamSample(*(channel.copy() for channel in sample)))
        found, expected = shared.sample(ns(now)), apart.sample(ns(now))
        assert (found is None) == (expected is None)
        for got, value in zip(found or (), expected or (), strict=True):
            np.testing.assert_allclose(got, value, atol=1e-12)
    assert shared.extrapolated == apart.extrapolated
    assert shared.lag == pytest.approx(apart.lag)


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

# SPDX-License-Identifier: Apache-2.0
"""Time steps, jumps and stalls; time stamps of commands."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock

from motion_nodes.ros import ros_time
from motion_nodes.ros.ros_time import (
    MAX_CATCH_UP,
    MAX_SIMULATED_STEP,
    MAX_STEP,
    STALL_TIMEOUT,
    ClockReader,
    Deadlines,
    RosTime,
    StepClock,
    command_time,
)

PERIOD = 0.01


class World:
    """A ROS clock and a wall clock, both set by the test."""

    def __init__(self, monkeypatch, simulated: bool) -> None:
        self.ros = 100.0
        self.wall = 5000.0
        told = {"monotonic": lambda: self.wall, "time_ns": lambda: round(self.ros * 1e9)}
        monkeypatch.setattr(ros_time, "time", SimpleNamespace(**told))
        clock = SimpleNamespace(
            now=lambda: SimpleNamespace(nanoseconds=round(self.ros * 1e9)),
            ros_time_is_active=simulated,
        )
        self.time = RosTime(SimpleNamespace(get_clock=lambda: clock))
        if simulated:
            clock_topic = SimpleNamespace(newest_raw=self.clock)
            self.time.follow(ClockReader(clock_topic), lambda message: None)
        self.late = 0.0
        self.steps = StepClock(self.time, PERIOD, lambda: self.wall - self.late)

    def clock(self) -> bytes:
        """Return the message on /clock."""
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(round(self.ros * 1e9), 10**9)
        return serialize_message(message)

    def step(self, ros: float, wall: float | None = None):
        self.ros += ros
        self.wall += ros if wall is None else wall
        return self.steps.step()


@pytest.fixture
def wall_world(monkeypatch):
    return World(monkeypatch, simulated=False)


@pytest.fixture
def sim_world(monkeypatch):
    return World(monkeypatch, simulated=True)


def test_the_first_step_has_no_length(wall_world):
    first = wall_world.step(PERIOD)
    assert first.dt == 0.0
    assert first.jump is None
    assert wall_world.step(PERIOD).dt == pytest.approx(PERIOD)


def test_a_delay_is_not_made_up_for_in_one_leap(wall_world):
    wall_world.step(PERIOD)
    late = wall_world.step(5 * PERIOD)
    assert late.dt == pytest.approx(MAX_STEP * PERIOD)
    assert late.jump is None
    assert len(late.stamps) == 5, "but each of its deadlines can be served"
    assert wall_world.steps.take_skipped() == 0


def test_a_long_delay_is_given_up(wall_world):
    first = wall_world.step(PERIOD)
    late = wall_world.step(0.7)
    assert late.stamps == (first.next_ns + 69 * 10_000_000,)
    assert late.dt == pytest.approx(PERIOD)
    assert wall_world.steps.take_skipped() == 69
    assert wall_world.steps.take_skipped() == 0


def test_stamps_are_the_deadlines_of_the_loop_whenever_it_wakes(wall_world):
    wall_world.late = 0.003
    first = wall_world.step(PERIOD)
    assert first.stamps == ()
    assert first.next_ns == round((wall_world.ros - 0.003 + PERIOD) * 1e9)
    wall_world.late = 0.001
    second = wall_world.step(PERIOD - 0.002)
    assert second.stamps == (first.next_ns,)
    third = wall_world.step(2 * PERIOD + 0.0005)
    assert third.stamps == (first.next_ns + 10_000_000, first.next_ns + 20_000_000)
    assert third.dt == pytest.approx(2 * PERIOD)


def test_a_system_clock_that_is_set_back_a_little_is_waited_for(wall_world):
    wall_world.step(PERIOD)
    before = wall_world.step(PERIOD)
    back = wall_world.step(-0.4 * PERIOD, PERIOD)
    assert (back.jump, back.stamps) == (None, ())
    assert wall_world.step(PERIOD).stamps == ()
    assert wall_world.step(PERIOD).stamps == (before.stamps[-1] + 10_000_000,)


def test_simulated_time_has_its_own_deadlines(sim_world):
    """With bursts of /clock or none between ticks: each multiple of the period once."""
    sim_world.ros = 3.001
    sim_world.step(0.0, PERIOD)
    stamps = [sim_world.step(ros, PERIOD).stamps for ros in (0.004, 0.006, 0.0, 0.024, 0.002)]
    assert stamps == [(), (3_010_000_000,), (), (3_020_000_000, 3_030_000_000), ()]


def test_simulated_time_may_run_ten_times_as_fast(sim_world):
    sim_world.step(PERIOD)
    step = sim_world.step(10 * PERIOD, PERIOD)
    assert step.dt == pytest.approx(10 * PERIOD)
    late = sim_world.step(1.0, 0.1)
    assert late.dt == pytest.approx(MAX_SIMULATED_STEP * PERIOD)
    assert len(late.stamps) == 100
    assert len(sim_world.step(1.0, 0.5).stamps) == 1, "a stall"


def test_time_that_goes_back_is_a_jump(sim_world):
    sim_world.step(PERIOD)
    step = sim_world.step(-50.0, PERIOD)
    assert step.dt == 0.0
    assert step.jump == (pytest.approx(100.01), pytest.approx(50.01))
    assert sim_world.step(PERIOD).jump is None


def test_time_that_leaps_ahead_is_a_jump(wall_world):
    wall_world.step(PERIOD)
    step = wall_world.step(3600.0, PERIOD)
    assert step.dt == 0.0
    assert step.jump is not None


def test_the_first_clock_message_is_no_jump(sim_world):
    sim_world.ros = 0.0
    for _ in range(3):
        assert sim_world.step(0.0, PERIOD).dt == 0.0
    begun = sim_world.step(1234.0, PERIOD)
    assert begun.dt == 0.0
    assert begun.jump is None
    assert sim_world.step(PERIOD).dt == pytest.approx(PERIOD)


def test_time_that_stands_is_seen(sim_world):
    sim_world.step(PERIOD)
    sim_world.step(0.0, 0.9 * STALL_TIMEOUT)
    assert not sim_world.time.stalled
    sim_world.step(0.0, 0.2 * STALL_TIMEOUT)
    assert sim_world.time.stalled
    sim_world.step(PERIOD)
    assert not sim_world.time.stalled


def test_a_slow_loop_does_not_make_time_stand(sim_world):
    sim_world.step(PERIOD)
    for _ in range(3):
        # Between two cycles of a 1 Hz loop, when only the report reads the time.
        sim_world.ros += 0.9
        sim_world.wall += 0.9
        assert not sim_world.time.stalled
    sim_world.wall += STALL_TIMEOUT + 0.01
    assert sim_world.time.stalled


def test_the_wall_clock_never_stands(wall_world):
    wall_world.step(PERIOD)
    wall_world.step(0.0, 10.0)
    assert not wall_world.time.stalled


TIMES = st.floats(0.0, 1e9)


def test_no_stamp_means_now():
    assert command_time(0.0, 12.0, 0.5) == (12.0, None)


def test_a_recent_stamp_is_the_time_given():
    assert command_time(11.7, 12.0, 0.5) == (11.7, None)


def test_an_old_stamp_is_refused_with_the_reason():
    given_at, warning = command_time(11.0, 12.0, 0.5)
    assert given_at is None
    assert "1.0 s old" in warning
    assert "timeout of 0.5 s" in warning
    assert "use_sim_time" in warning


def test_a_slightly_future_stamp_counts_from_now():
    assert command_time(12.2, 12.0, 0.5) == (12.0, None)


def test_a_far_future_stamp_counts_from_now_with_a_warning():
    given_at, warning = command_time(20.0, 12.0, 0.5)
    assert given_at == 12.0
    assert "8.0 s ahead" in warning


@given(stamp=TIMES, now=TIMES, timeout=st.floats(1e-3, 60.0))
def test_no_command_ever_counts_longer_than_the_timeout(stamp, now, timeout):
    given_at, warning = command_time(stamp, now, timeout)
    if given_at is None:
        assert warning
        assert stamp < now
    else:
        assert given_at <= now
        assert now - given_at <= timeout * (1.0 + 1e-9) + 1e-6


@pytest.mark.parametrize("now", [0.0, 5.0])
def test_boundaries(now):
    assert command_time(now, now, 0.5)[0] == now


PERIODS = st.sampled_from([1 / 250, 1 / 300, 1 / 1000, 1 / 30, 0.01])

STARTS = st.integers(0, 4_000_000_000_000_000_000)
"""[ns] Of simulated time near 0, and of the system's clock."""


def wake_ups(longest: float) -> st.SearchStrategy[list[float]]:
    """Return the periods between wake-ups: early, on time, in bursts, late by many."""
    usual = st.floats(0.0, 2.5)
    return st.lists(st.one_of(usual, st.just(0.0), st.floats(0.0, longest)), min_size=1)


def served(deadlines: Deadlines, start: int, period: float, apart: list[float]) -> list[int]:
    """Return all stamps, and check that none lies in the future of its wake-up."""
    now, stamps = float(start), []
    for share in apart:
        now += share * period * 1e9
        due = deadlines.due(round(now))
        assert all(stamp <= round(now) for stamp in due.stamps)
        stamps += due.stamps
        assert deadlines.next_ns > round(now)
    return stamps


@given(PERIODS, STARTS, wake_ups(9.9))
def test_every_deadline_is_served_once_however_late(period, start, apart):
    deadlines = Deadlines(period)
    deadlines.begin(start, start)
    stamps = served(deadlines, start, period, apart)
    expected = [start + round(k * period * 1e9) for k in range(1, len(stamps) + 1)]
    assert stamps == expected
    # The next one is in the future: none is missing at the end.
    assert deadlines.next_ns == start + round((len(stamps) + 1) * period * 1e9)


@given(PERIODS, STARTS, wake_ups(80.0))
def test_stamps_stay_on_the_grid_after_any_stall(period, start, apart):
    deadlines = Deadlines(period)
    deadlines.begin(start, start)
    stamps = served(deadlines, start, period, apart)
    numbers = [round((stamp - start) / (period * 1e9)) for stamp in stamps]
    assert all(
        abs(start + k * period * 1e9 - s) < 1e4 for k, s in zip(numbers, stamps, strict=True)
    )
    assert all(b > a for a, b in itertools.pairwise(numbers))


@given(PERIODS, wake_ups(9.9), st.integers(2, 40))
def test_a_sampled_motion_is_even_by_order_and_by_stamps(period, apart, bunch):
    """With a clock in coarse steps, samples equal those of a punctual sampler."""
    deadlines = Deadlines(period)
    deadlines.begin(0, 0)
    grain = period / bunch
    now, stamps = 0.0, []
    for share in apart:
        now += share * period
        stamps += deadlines.due(round(round(now / grain) * grain * 1e9)).stamps
    reference = np.sin(3.0 * period * np.arange(1, len(stamps) + 1))
    by_stamp = np.sin(3.0 * 1e-9 * np.array(stamps))
    np.testing.assert_allclose(reference, by_stamp, atol=1e-8)


def test_a_long_stall_is_not_made_up_for():
    deadlines = Deadlines(0.004)
    deadlines.begin(0, 0)
    assert deadlines.due(4_000_000).stamps == (4_000_000,)
    most = round(MAX_CATCH_UP / 0.004)
    due = deadlines.due(4_000_000 * (1 + most))
    assert (len(due.stamps), due.skipped, due.next_ns) == (most, 0, 8_000_000)
    late = deadlines.due(4_000_000 * (2 + 2 * most) + 123)
    assert late.stamps == (4_000_000 * (2 + 2 * most),)
    assert late.skipped == most
    assert late.next_ns == late.stamps[0]
    assert deadlines.next_ns == 4_000_000 * (3 + 2 * most)


def test_slow_streams_are_made_up_for_by_ten_periods():
    deadlines = Deadlines(0.1)
    deadlines.begin(0, 0)
    assert len(deadlines.due(1_000_000_000).stamps) == 10


def test_time_that_goes_back_serves_nothing_twice():
    deadlines = Deadlines(0.01)
    deadlines.begin(0, 5_000_000)
    assert deadlines.due(20_000_000).stamps == (10_000_000, 20_000_000)
    assert deadlines.due(12_000_000).stamps == ()
    assert deadlines.due(29_999_999).stamps == ()
    assert deadlines.due(30_000_000).stamps == (30_000_000,)


def test_begins_anew_after_a_jump():
    deadlines = Deadlines(0.01)
    deadlines.begin(0, 50_000_000)
    assert deadlines.next_ns == 60_000_000
    deadlines.begin(0, 0)
    assert deadlines.due(0).stamps == ()
    assert deadlines.due(10_000_000).stamps == (10_000_000,)


def test_deadlines_taken_while_time_stands_are_not_due_again():
    deadlines = Deadlines(0.01)
    deadlines.begin(0, 0)
    assert [deadlines.take() for _ in range(3)] == [10_000_000, 20_000_000, 30_000_000]
    assert deadlines.due(35_000_000).stamps == ()
    assert deadlines.due(40_000_000).stamps == (40_000_000,)


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_periods_are_refused(period):
    with pytest.raises(ValueError, match="finite"):
        Deadlines(period)

# SPDX-License-Identifier: Apache-2.0
"""Time steps, jumps and stalls; time stamps of commands."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock

from motion_nodes.ros import ros_time
from motion_nodes.ros.ros_time import (
    MAX_SIMULATED_STEP,
    MAX_STEP,
    STALL_TIMEOUT,
    ClockReader,
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

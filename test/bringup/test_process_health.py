# SPDX-License-Identifier: Apache-2.0
"""Classification and accounting of processes."""

import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import wait_until
from raised_errors import about

from motion_nodes.bringup.process_health import (
    Activity,
    Condition,
    HealthLimits,
    Heartbeat,
    MissedStream,
    ProcessHealth,
    read_activity,
)
from motion_nodes.errors import InvalidConfig

LIMITS = HealthLimits()


class Process:
    """A simulated process with heartbeats and given use of processor time."""

    def __init__(self, *, state="S", computes=0.0, waits=0.0, runnable=False, pressure=0.0):
        self.health = ProcessHealth(LIMITS, 0.0)
        self.now, self.state, self.computes, self.waits = 0.0, state, computes, waits
        self.asked, self.runnable, self.pressure = 0, runnable, pressure

    def activity(self):
        self.asked += 1
        used, waited = 5.0 + self.computes * self.now, 3.0 + self.waits * self.now
        return Activity(self.state, used, waited, self.runnable, self.pressure)

    def beat(self, **fields):
        self.health.heartbeat(Heartbeat(**fields), self.now)

    def finding(self):
        return self.health.finding(self.activity, self.now)

    def run(self, seconds, *, beats=None, step=0.1):
        """Let ``seconds`` pass; return the time until the first finding [s], None without one."""
        found, begin = None, self.now
        for _ in range(round(seconds / step)):
            self.now += step
            if beats is not None:
                self.beat(**beats)
            if self.finding() is not None and found is None:
                found = self.now - begin
        return found


def test_a_process_that_beats_is_alive_and_its_accounting_is_not_read():
    process = Process(computes=1.0)
    assert process.run(100.0, beats={}) is None
    assert process.asked == 0  # which takes hundreds of file reads


def test_a_process_that_is_stopped_while_it_starts_is_found():
    process = Process(state="T")
    assert process.run(20.0) == pytest.approx(LIMITS.overload, abs=0.2)
    assert process.finding().condition is Condition.STOPPED


def test_a_process_may_take_long_to_its_first_heartbeat():
    process = Process()
    assert process.run(LIMITS.start - 0.5) is None
    process.run(1.0)
    finding = process.finding()
    assert finding.condition is Condition.WEDGED
    assert finding.replace


@pytest.mark.parametrize(
    ("behaviour", "condition"),
    [
        ({"state": "T"}, Condition.STOPPED),
        ({"state": "t", "computes": 1.0}, Condition.STOPPED),
        ({}, Condition.WEDGED),
        ({"state": "D"}, Condition.WEDGED),
        ({"computes": 1.0, "state": "R"}, Condition.BUSY),
        ({"computes": 0.1, "waits": 3.0, "state": "R"}, Condition.STARVED),
        ({"runnable": True}, Condition.STARVED),
        ({"pressure": 1.0}, Condition.WEDGED),
    ],
)
def test_what_a_silence_means_is_found_within_three_seconds(behaviour, condition):
    process = Process(**behaviour)
    process.beat()
    assert process.run(3.0) <= LIMITS.silence + 0.2
    assert process.finding().condition is condition


@pytest.mark.parametrize(
    "behaviour", [{"computes": 1.0}, {"waits": 1.0}, {"runnable": True}, {"pressure": 0.9}]
)
def test_a_process_that_wants_processor_time_is_replaced_only_after_a_long_silence(behaviour):
    process = Process(**behaviour)
    process.beat()
    process.run(LIMITS.overload - 0.5)
    assert not process.finding().replace
    process.run(1.0)
    assert process.finding().replace


def test_a_process_that_used_processor_time_before_its_silence_is_wedged():
    health = ProcessHealth(LIMITS, 0.0)
    health.heartbeat(Heartbeat(), 10.0)
    used = Activity("S", 1000.0, 1000.0)
    for now in (11.5, 12.5):
        finding = health.finding(lambda: used, now)
    assert finding.condition is Condition.WEDGED


def test_a_heartbeat_ends_a_silence():
    process = Process()
    process.beat()
    process.run(5.0)
    assert process.finding() is not None
    process.beat()
    assert process.finding() is None


def test_a_loop_that_no_longer_ticks_is_named():
    process = Process()
    process.beat(overdue=LIMITS.stall, node="a/controller")
    assert process.finding() is None
    process.beat(overdue=LIMITS.stall + 0.1, node="a/controller")
    finding = process.finding()
    assert finding.condition is Condition.STALLED
    assert finding.replace
    assert "a/controller" in finding.text


@pytest.mark.parametrize("late", [2.5, 11.0])
def test_lateness_on_an_overloaded_machine_is_found_at_once_and_replaced_later(late):
    process = Process(pressure=1.0)
    process.beat(overdue=late, node="a/controller")
    assert process.finding().condition is Condition.STALLED
    assert process.finding().replace is (late > LIMITS.overload)
    process.beat()
    process.health.echo(late)
    assert process.finding().condition is Condition.UNREACHABLE
    assert process.finding().replace is (late > LIMITS.overload)


def test_a_process_that_starved_has_time_to_catch_up():
    process = Process(waits=1.0)
    process.beat()
    assert process.run(4.0) is not None
    process.waits = 0.0
    process.beat(overdue=3.0, node="a/controller")
    assert process.finding().condition is Condition.STALLED
    assert not process.finding().replace
    process.run(LIMITS.overload + 0.5, beats={})
    process.beat(overdue=3.0, node="a/controller")
    assert process.finding().replace


def test_an_executor_may_take_long_but_not_for_ever():
    process = Process()
    process.beat(executor=LIMITS.executor - 1.0)
    assert process.finding() is None
    process.beat(executor=LIMITS.executor + 1.0)
    assert process.finding().condition is Condition.STALLED


def test_a_process_that_runs_and_does_not_answer_over_dds_is_unreachable():
    process = Process()
    process.beat()
    process.health.echo(LIMITS.reach)
    assert process.finding() is None
    process.health.echo(LIMITS.reach + 0.1)
    assert process.finding().condition is Condition.UNREACHABLE
    process.health.echo(0.0)
    assert process.finding() is None


@pytest.mark.parametrize(("pressure", "late"), [(0.0, 0.1), (0.9, LIMITS.overload + 0.1)])
def test_a_process_that_misses_a_stream_is_deaf_and_replaced(pressure, late):
    process = Process(pressure=pressure)
    process.beat()
    process.health.missed(MissedStream("/clock", LIMITS.deaf, "planner"))
    assert process.finding() is None
    process.health.missed(MissedStream("/clock", LIMITS.deaf + 0.1, "planner"))
    finding = process.finding()
    assert finding.condition is Condition.DEAF
    assert finding.replace == (pressure < 0.5)
    process.health.missed(MissedStream("/clock", LIMITS.deaf + late, "planner"))
    assert process.finding().replace
    process.health.missed(None)
    assert process.finding() is None


def test_a_silent_probe_says_nothing_of_the_processes():
    process = Process()
    process.beat()
    process.health.echo(0.5)
    assert process.run(60.0, beats={}) is None


@given(
    st.lists(st.floats(0.0, 1.9), min_size=1, max_size=50), st.floats(0.0, 1.0), st.floats(0.0, 4.0)
)
def test_heartbeats_within_the_timeout_are_never_a_finding(gaps, computes, waits):
    process = Process(computes=computes, waits=waits)
    for gap in gaps:
        process.beat()
        process.now += gap
        assert process.finding() is None


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6), st.floats(2.001, 1e5), st.sampled_from("RSDTtZX"))
def test_a_silence_is_always_a_finding(computed, waited, silence, state):
    process = Process(state=state)
    process.beat()
    process.health.finding(lambda: Activity("S", 0.0, 0.0), 1.5)
    finding = process.health.finding(lambda: Activity(state, computed, waited), silence)
    assert finding is not None
    assert finding.replace or silence <= LIMITS.overload


@pytest.mark.parametrize("name", list(vars(LIMITS)))
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_timeouts_are_above_zero(name, value):
    with pytest.raises(InvalidConfig, check=about(name)):
        HealthLimits(**{name: value})


@pytest.fixture
def child():
    made = []

    def start(code):
        process = subprocess.Popen([sys.executable, "-c", code])
        made.append(process)
        return process

    yield start
    for process in made:
        process.kill()
        process.wait()


def test_one_that_computes_uses_processor_time(child):
    pid = child("while True: pass").pid
    before = read_activity(pid)
    wait_until(lambda: read_activity(pid).computed > before.computed + 0.2, "it computes")


def test_one_that_is_stopped_shows_it(child):
    pid = child("import time; time.sleep(60)").pid
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: read_activity(pid).state == "T", "it is stopped")
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: read_activity(pid).state == "S", "it sleeps")


def test_two_on_one_processor_wait_for_it(child):
    pids = [child("while True: pass").pid for _ in range(2)]
    for pid in pids:
        os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
    before = read_activity(pids[0])
    wait_until(lambda: read_activity(pids[0]).waited > before.waited + 0.2, "it waits")


def test_one_that_does_not_exist_has_an_empty_record(tmp_path):
    assert read_activity(1, tmp_path) == Activity()


def test_names_may_hold_anything(tmp_path):
    folder = tmp_path / "7" / "task" / "7"
    folder.mkdir(parents=True)
    fields = ["T", *["0"] * 10, "300", "200", *["0"] * 20]
    (tmp_path / "7" / "stat").write_text(f"7 (a) S 1 2) {' '.join(fields)}")
    (folder / "schedstat").write_text("1 2500000000 3")
    (folder / "stat").write_text("7 (a) S 1 2) R 1")
    (tmp_path / "pressure").mkdir()
    pressure = tmp_path / "pressure" / "cpu"
    pressure.write_text("some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00")
    ticks = os.sysconf("SC_CLK_TCK")
    assert read_activity(7, tmp_path) == Activity("T", 500 / ticks, 2.5, True, 0.125)
    pressure.unlink()
    assert read_activity(7, tmp_path).pressure == 0.0

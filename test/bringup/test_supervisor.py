# SPDX-License-Identifier: Apache-2.0
"""Processes that end, stop or stall are replaced a bounded number of times."""

import errno
import json
import os
import signal
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.bringup.node_specs import NodeSpec
from motion_nodes.bringup.process_health import (
    FRESH,
    HealthLimits,
    RestartBudget,
    RestartLimits,
    StreamComparison,
)
from motion_nodes.bringup.supervisor import PROBE, Supervision, Supervisor
from motion_nodes.core.control.stop_state import StopState
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.process_reports import (
    STOP_VARIABLE,
    Beat,
    Echo,
    StopReport,
    inherited_stop,
    read_record,
    stop_text,
)

QUICK = HealthLimits(silence=1.0, stall=0.5, overload=2.0)
BUDGET = RestartLimits(burst=2, window=60.0, delays=(0.05,))

PROCESS = """
import json, os, sys, threading, time
from motion_nodes.ros.process_reports import READY, report_state
from motion_nodes.ros.process_reports import Beat, StopReport, report

node, ends, stall, out = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
hears = float(sys.argv[5])
log = open(out, "a")
print(json.dumps({k: os.environ.get(f"MOTION_NODES_{k}") for k in ("STOP_STATE", "REPLACES")}),
      file=log, flush=True)

def hear():
    control = os.fdopen(int(os.environ["MOTION_NODES_CONTROL_FD"]))
    for line in control:
        print(line, end="", file=log, flush=True)

threading.Thread(target=hear, daemon=True).start()
report(StopReport(os.getpid(), 7, 3, "a test"))
report_state(READY, node)
began = time.monotonic()
while (age := time.monotonic() - began) < ends:
    report(Beat(os.getpid(), stall, node, received={"/clock": int(100.0 * min(age, hears))}))
    time.sleep(0.05)
os._exit(4)
"""
"""A process as its supervisor sees it."""


class Suite:
    """Supervised processes of one node each."""

    def __init__(self, folder, *, ends=None, stall=None, hears=None, **settings):
        self.said, self.folder = [], folder
        names = ("planner", "controller")
        self.specs = {
            "planner": NodeSpec("rrt_planner", "planner", "arm"),
            "controller": NodeSpec("articulation_controller", "controller", "arm"),
        }
        ends, stall, hears = ends or {}, stall or {}, hears or {}
        commands = {
            name: [sys.executable, "-c", PROCESS, f"/arm/{name}", str(ends.get(name, 60.0)),
                   str(stall.get(name, 0.0)), str(self._log(name)), str(hears.get(name, 60.0))]
            for name in names
        }  # fmt: skip
        self.supervisor = Supervisor(
            {name: [spec] for name, spec in self.specs.items()},
            commands,
            self.said.append,
            Supervision(**{"health": QUICK, "budget": BUDGET} | settings),
        )

    def _log(self, name):
        return self.folder / f"{name}.jsonl"

    def received(self, name):
        if not self._log(name).exists():
            return []
        return [json.loads(line) for line in self._log(name).read_text().splitlines()]

    def until(self, condition, limit=30.0):
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, self.said
            self.supervisor.watch(settled=False)
            time.sleep(0.02)

    def said_of(self, name, text):
        return [line for line in self.said if line.startswith(name) and text in line]

    def starts(self, name):
        return sum("STOP_STATE" in line for line in self.received(name))


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setattr("motion_nodes.bringup.supervisor.PROBE_AFTER", float("inf"))
    entered = []

    def start(**settings):
        suite = Suite(tmp_path, **settings)
        entered.append(suite.supervisor.group.__enter__())
        watched = suite.supervisor._watched.values()
        if not {"ends", "stall"} & settings.keys():
            suite.until(lambda: all(w.health is not None and w.health.responded for w in watched))
        return suite

    yield start
    for group in entered:
        group.__exit__()


def test_a_killed_process_is_replaced_and_the_other_holds(make):
    suite = make()
    pid = suite.supervisor.group.pid("planner")
    suite.until(lambda: suite.supervisor._stop.stopped)
    os.kill(pid, signal.SIGKILL)
    suite.until(lambda: suite.said_of("planner", "is back"))
    assert suite.said_of("planner", "ended with signal 9; restart 1 of 2")
    assert suite.supervisor.group.pid("planner") != pid

    def holds():
        return [line for line in suite.received("controller") if "hold" in line]

    suite.until(holds)  # it may read its messages later
    assert [line["nodes"] for line in holds()] == [["/arm/controller"]]
    assert "ended with signal 9" in holds()[0]["hold"]
    assert not any("hold" in line for line in suite.received("planner"))
    # The new process inherits the stop; the first one did not.
    first, second = (line for line in suite.received("planner") if "STOP_STATE" in line)
    assert first["STOP_STATE"] is None
    assert json.loads(second["STOP_STATE"]) == [7, 3, "a test"]
    assert "signal 9" in second["REPLACES"]
    assert not suite.supervisor.failed


def test_a_stopped_process_is_killed_and_replaced(make):
    suite = make()
    pid = suite.supervisor.group.pid("controller")
    os.kill(pid, signal.SIGSTOP)
    suite.until(lambda: suite.said_of("controller", "is back"))
    assert suite.said_of("controller", "stopped")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_restart_that_cannot_begin_is_tried_again_and_the_rest_goes_on(make, monkeypatch):
    suite = make(ends={"planner": 0.3})
    group, failures = suite.supervisor.group, []
    start = group.start

    def without_memory(name, environment=None):
        if not failures:
            failures.append(name)
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        start(name, environment)

    monkeypatch.setattr(group, "start", without_memory)
    suite.until(lambda: failures and group.runs("planner"))
    assert suite.said_of("planner", "cannot be started: Cannot allocate memory; restart 2 of 2")
    assert group.runs("controller")


@pytest.mark.long
def test_a_stalled_loop_is_bounded_too_and_the_rest_goes_on(make):
    suite = make(stall={"planner": 3.0})
    suite.until(lambda: suite.said_of("planner", "it stays down after 2 restarts"))
    assert suite.starts("planner") == 3
    assert suite.supervisor.failed == {"planner": -9}
    assert suite.said_of("planner", "Not available: arm/planner")
    assert suite.supervisor.watch(settled=False)
    assert suite.supervisor.group.runs("controller")
    assert not suite.supervisor.group.runs("planner")


@pytest.mark.long
def test_a_process_that_misses_what_another_receives_is_replaced(make):
    suite = make(hears={"planner": 0.5}, health=HealthLimits(deaf=2.0))
    pid = suite.supervisor.group.pid("planner")
    suite.until(lambda: suite.said_of("planner", "is back"))
    assert suite.said_of("planner", "deaf")
    assert suite.supervisor.group.pid("planner") != pid
    assert not suite.said_of("controller", "deaf")


@pytest.mark.long
def test_nobody_is_replaced_while_nobody_receives(make):
    suite = make(hears={"planner": 0.0, "controller": 0.0}, health=HealthLimits(deaf=0.5))
    end = time.monotonic() + 3.0
    suite.until(lambda: time.monotonic() > end)
    assert suite.said == []


@pytest.mark.long
def test_one_that_always_ends_is_restarted_a_bounded_number_of_times(make):
    suite = make(ends={"planner": 0.1})
    suite.until(lambda: suite.supervisor.failed)
    assert suite.starts("planner") == 3
    assert suite.supervisor.failed == {"planner": 4}
    suite.until(lambda: suite.supervisor.watch(settled=False))


@pytest.mark.long
def test_without_respawn_it_is_only_said(make):
    suite = make(respawn=False)
    pid = suite.supervisor.group.pid("planner")
    os.kill(pid, signal.SIGSTOP)
    suite.until(lambda: suite.said_of("planner", "stopped"))
    assert suite.said_of("planner", "respawn is off")
    os.kill(pid, signal.SIGCONT)
    suite.until(lambda: suite.said_of("planner", "responds again"))
    os.kill(pid, signal.SIGKILL)
    suite.until(lambda: suite.supervisor.failed)
    assert suite.supervisor.failed == {"planner": -9}
    assert suite.starts("planner") == 1


def test_a_delay_of_the_supervisor_itself_is_no_silence(make):
    suite = make(health=HealthLimits())
    ahead = 0.0
    rules = suite.supervisor._rules
    for _ in range(5):
        ahead += 1000.0
        suite.supervisor._rules = replace(rules, clock=lambda at=ahead: rules.clock() + at)
        suite.until(lambda: suite.supervisor.watch(settled=False))
        end = time.monotonic() + 0.2
        suite.until(lambda end=end: time.monotonic() > end)
    assert suite.said == []


def test_a_probe_that_reaches_nobody_is_replaced_first_and_then_the_network_is_named(
    make, monkeypatch
):
    probe = [sys.executable, "-c", PROCESS, "probe", "60", "0", os.devnull, "0"]
    monkeypatch.setattr("motion_nodes.bringup.supervisor.PROBE_COMMAND", probe)
    suite = make(health=HealthLimits())
    monkeypatch.setattr("motion_nodes.bringup.supervisor.PROBE_AFTER", 0.0)
    group = suite.supervisor.group
    suite.until(lambda: group.runs(PROBE))
    first = group.pid(PROBE)

    def silent(seconds, *names):
        for name in names:
            suite.supervisor._read(PROBE, Echo(1, group.pid(name), seconds))

    silent(0.1, *suite.specs)
    suite.supervisor.watch(settled=True)
    assert suite.said == []
    silent(3.0, *suite.specs)
    suite.until(lambda: group.runs(PROBE) and group.pid(PROBE) != first)
    assert len(suite.said) == 1
    assert suite.said_of(PROBE, "reached no process over DDS")
    silent(3.0, *suite.specs)
    suite.until(lambda: len(suite.said) == 3)
    assert all(suite.said_of(name, "check the network") for name in suite.specs)
    # If one is reached again, the others are at fault.
    pid = group.pid("planner")
    silent(0.1, "controller")
    monkeypatch.setattr("motion_nodes.bringup.process_health.cpu_pressure", lambda _: 0.0)
    suite.until(lambda: suite.said_of("planner", "is back"))
    assert group.pid("planner") != pid


@pytest.mark.parametrize(
    "record",
    [Beat(3, 0.5, "/a", 1.0, {"/clock": 7}), Echo(1, 3, 0.5, 0.1), StopReport(5, 9, 2, "somebody")],
)
def test_records_come_back_from_their_lines(record, monkeypatch):
    from motion_nodes.ros.process_reports import NEWS_VARIABLE, read_news, report

    reader, writer = os.pipe()
    monkeypatch.setenv(NEWS_VARIABLE, str(writer))
    report(record)
    line = os.read(reader, 1 << 12)
    assert read_record(line) == record
    assert read_news(line) is None
    os.close(reader)
    report(record)
    os.close(writer)


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"{}", b'{"record": "beat"}', b'{"record": "x", "pid": 1}', b"\xff", b"3"]
)
def test_what_is_no_record_is_left_out(line):
    assert read_record(line) is None


@pytest.mark.parametrize("text", ["", "{", "[1, 2, 3, 4]", '["a", "b", "c"]', "[1, 5, 'x']"])
def test_a_wrong_inherited_stop_is_none(monkeypatch, text):
    monkeypatch.setenv(STOP_VARIABLE, text)
    assert inherited_stop() == StopState()


def test_a_stop_is_inherited(monkeypatch):
    state = StopState(20, 10, 'somebody "else"')
    monkeypatch.setenv(STOP_VARIABLE, stop_text(state))
    assert inherited_stop() == state


def test_a_robot_is_left_out_and_processes_that_it_shares_start_again(make):
    suite = make()
    supervisor = suite.supervisor
    shared = NodeSpec("articulation_controller", "controller", "other")
    supervisor._watched["controller"].nodes += (shared,)
    before = supervisor.group.pid("controller")
    supervisor.leave_out({"arm": "it has no wheels"})
    assert not supervisor.group.runs("planner")
    assert supervisor.nodes_of("controller") == ["/other/controller"]
    assert supervisor.group.pid("controller") != before
    assert set(supervisor._left_out) == {"/arm/planner", "/arm/controller"}
    assert supervisor.watch(settled=False)
    assert supervisor.failed == {}


def test_the_delays_grow_and_then_the_budget_is_used_up():
    budget = RestartBudget(RestartLimits(burst=4, window=60.0, delays=(0.5, 1.0)))
    assert [budget.take(float(i)) for i in range(6)] == [0.5, 1.0, 1.0, 1.0, None, None]
    assert budget.total == 4


def test_restarts_count_for_the_window_only():
    budget = RestartBudget(RestartLimits(burst=2, window=10.0, delays=(1.0, 2.0)))
    assert budget.take(0.0) == 1.0
    assert budget.take(6.0) == 2.0
    assert budget.take(10.0) is None
    assert budget.take(10.5) == 2.0
    assert budget.take(100.0) == 1.0
    assert budget.used(100.0) == 1


def test_a_budget_of_nothing_restarts_nothing():
    assert RestartBudget(RestartLimits(burst=0)).take(0.0) is None


@given(
    st.integers(0, 5),
    st.floats(0.1, 100.0),
    st.lists(st.floats(0.0, 50.0), min_size=1, max_size=100),
)
def test_no_window_holds_more_restarts_than_the_burst(burst, window, gaps):
    budget = RestartBudget(RestartLimits(burst=burst, window=window))
    now, taken = 0.0, []
    for gap in gaps:
        now += gap
        if budget.take(now) is not None:
            taken.append(now)
    for begin in taken:
        assert sum(0.0 <= t - begin <= window for t in taken) <= burst
    assert budget.total == len(taken)


@pytest.mark.parametrize(
    "fields",
    [{"burst": -1}, {"window": 0.0}, {"window": float("nan")}, {"delays": ()}, {"delays": (-1.0,)},
     {"delays": (float("nan"),)}],
)  # fmt: skip
def test_wrong_numbers_are_refused(fields):
    with pytest.raises(InvalidConfig, check=about(next(iter(fields)))):
        RestartLimits(**fields)


STATES = "/arm/joint_states"


@pytest.fixture
def streams():
    """Two processes that have received both topics until 1 s."""
    streams = StreamComparison()
    for tick in range(11):
        for name in ("container", "planner"):
            streams.update(name, {"/clock": tick, STATES: 5 * tick}, 0.1 * tick)
    return streams


def test_a_topic_that_only_one_process_misses_is_found(streams):
    for tick in range(11, 60):
        streams.update("container", {"/clock": 10, STATES: 50}, 0.1 * tick)
        streams.update("planner", {"/clock": tick, STATES: 50}, 0.1 * tick)
    found = streams.missed("container", 5.9)
    assert (found.topic, found.receiver) == ("/clock", "planner")
    assert found.seconds == pytest.approx(4.9)  # since 1 s, of the container
    assert streams.missed("planner", 5.9) is None, "nobody receives joint states"
    streams.update("container", {"/clock": 11, STATES: 50}, 6.0)
    assert streams.missed("container", 6.0) is None


def test_a_topic_that_a_process_does_not_read_is_not_missed(streams):
    for tick in range(11, 60):
        streams.update("container", {}, 0.1 * tick)
        streams.update("planner", {"/clock": tick}, 0.1 * tick)
    assert streams.missed("container", 5.9) is None
    # Its time begins when it reads the topic again.
    streams.update("container", {"/clock": 10}, 6.0)
    streams.update("planner", {"/clock": 60}, 6.0)
    assert streams.missed("container", 6.0) is None


def test_the_longest_missed_topic_is_named(streams):
    for tick in range(11, 40):
        streams.update("container", {"/clock": min(tick, 20), STATES: 50}, 0.1 * tick)
        streams.update("planner", {"/clock": tick, STATES: 5 * tick}, 0.1 * tick)
    assert streams.missed("container", 3.9).topic == STATES


def test_a_process_that_has_ended_receives_nothing(streams):
    for tick in range(11, 51):
        streams.update("container", {"/clock": 10}, 0.1 * tick)
        streams.update("planner", {"/clock": tick}, 0.1 * tick)
    assert streams.missed("container", 5.0) is not None
    streams.forget("planner")
    assert streams.missed("container", 5.0) is None
    streams.forget("nobody")
    assert streams.missed("nobody", 5.0 + FRESH) is None


def test_after_a_pause_nobody_has_missed_anything(streams):
    for tick in range(11, 600):  # the publisher is paused for a minute
        for name in ("container", "planner"):
            streams.update(name, {"/clock": 10}, 0.1 * tick)
    streams.update("planner", {"/clock": 11}, 60.0)
    assert streams.missed("container", 60.3) is None
    streams.update("container", {"/clock": 12}, 60.4)
    for tick in range(605, 640):
        for name in ("container", "planner"):
            streams.update(name, {"/clock": tick}, 0.1 * tick)
            assert streams.missed(name, 0.1 * tick) is None


def test_the_first_report_of_a_process_is_no_message(streams):
    for tick in range(11, 600):
        streams.update("container", {"/clock": 10}, 0.1 * tick)
    streams.update("new", {"/clock": 0}, 60.0)
    assert streams.missed("container", 60.0) is None
    streams.update("new", {"/clock": 1}, 60.4)  # one message alone, of a paused simulation
    assert streams.missed("container", 60.5) is None

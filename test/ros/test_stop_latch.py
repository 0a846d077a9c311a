# SPDX-License-Identifier: Apache-2.0
"""Stops and brakes in the cycle of a loop, from other threads."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from patience import wait_until
from ros.probe import Probe, active, make
from std_msgs.msg import Empty

from motion_nodes.core.control.stop_state import StopState
from motion_nodes.ros.stop_latch import MAX_AHEAD_NS

TEXT = "sent before the resume"


class StoppableProbe(Probe):
    """Records the calls of the latch."""

    obeys_stop = drives_robot = True

    def stopped(self, why: str) -> None:
        self.note("stopped")

    def resumed(self) -> None:
        self.note(f"resumed: {self.stop_reason}")


@pytest.fixture
def node(ros):
    made = StoppableProbe()
    yield made
    made.destroy_node()


def in_one_cycle(node: StoppableProbe, act: Callable[[], None]) -> None:
    """Call a function in the tick of one cycle."""
    done = threading.Event()

    def once() -> None:
        node.in_tick = lambda: None
        act()
        done.set()

    node.in_tick = once
    assert done.wait(10.0)


def elsewhere(act: Callable[[], Any]) -> Any:
    """Return the result of a function that another thread calls."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(act()))
    thread.start()
    thread.join(10.0)
    return results[0]


def test_a_cycle_refuses_commands_until_the_resume_is_applied(node):
    active(node).stop_latch.stop("a test")
    wait_until(lambda: "stopped" in node.happened(), "the stop")
    seen: list[str] = []

    def resume() -> None:
        assert elsewhere(node.stop_latch.resume)
        seen.extend((node.stop_reason, elsewhere(lambda: node.stop_reason)))

    in_one_cycle(node, resume)
    wait_until(lambda: f"resumed: it was {TEXT}" in node.happened(), "the resume")
    assert TEXT in seen[0], "polled commands may be older"
    assert seen[1] == "", "new requests are accepted"
    in_one_cycle(node, lambda: seen.append(node.stop_reason))
    assert seen[2] == ""


def test_a_stop_and_its_resume_in_one_cycle_are_both_applied(node):
    active(node)
    seen: list[str] = []

    def stop_and_resume() -> None:
        elsewhere(lambda: node.stop_latch.stop("a test"))
        elsewhere(node.stop_latch.resume)
        seen.append(node.stop_reason)

    in_one_cycle(node, stop_and_resume)
    wait_until(lambda: node.happened()[-1].startswith("resumed"), "the resume")
    assert TEXT in seen[0]
    assert node.happened()[-2:] == ["stopped", f"resumed: it was {TEXT}"]


def test_a_request_after_the_resume_is_not_discarded_by_it(node, monkeypatch):
    """The request arrives between the latch and the jobs of one cycle."""
    active(node).stop_latch.stop("a test")
    wait_until(lambda: "stopped" in node.happened(), "the stop")
    obey, requests = node.obey_stop_latch, []

    def and_a_request() -> None:
        obey()
        if not requests:
            elsewhere(node.stop_latch.resume)
            job = lambda: node.note("request")  # noqa: E731
            requests.append(threading.Thread(target=lambda: node.in_loop(job, 10.0)))
            requests[0].start()
            wait_until(lambda: len(node._jobs) == 1, "the request")

    monkeypatch.setattr(node, "obey_stop_latch", and_a_request)
    wait_until(lambda: "request" in node.happened(), "the request")
    requests[0].join(10.0)
    assert node.happened()[-2:] == [f"resumed: it was {TEXT}", "request"]


def test_a_stop_of_a_clock_in_the_future_reaches_other_nodes_and_can_be_resumed(node, monkeypatch):
    latch = node.stop_latch
    later = time.time() + 10.0 * MAX_AHEAD_NS * 1e-9
    sent = [[(Empty(), 1, later)]]
    monkeypatch.setattr(latch._stops, "traced", lambda: sent.pop() if sent else [])
    latch.poll()
    assert latch.state.stopped
    told: list[DiagnosticStatus] = []
    monkeypatch.setattr(latch._publisher, "publish", told.append)
    latch._publish()
    latch._state = StopState()
    latch._merge(told[0])
    assert latch.state.stopped, "as in a node that starts later"
    assert latch.resume()
    assert not latch.state.stopped


__all__ = ["make"]


def moving(node: Probe, monkeypatch: Any, stopped: Any) -> Probe:
    """Return the node, active and in motion, with its reaction to a stop replaced."""
    active(node)
    node.motion = True
    monkeypatch.setattr(node, "in_motion", lambda: node.motion)
    monkeypatch.setattr(node, "stopped", stopped)
    return node


def test_commands_are_refused_while_it_brakes_and_not_afterwards(make, monkeypatch):
    seen: list[tuple[str, str]] = []

    def stopped(why: str) -> None:
        node.note("brake")
        seen.append((why, node.stop_reason))
        node.motion = False

    node = moving(make(), monkeypatch, stopped)
    node.trigger_deactivate()
    assert node.calls[-2][0] == "brake"
    assert node.calls[-2][1] == "probe", "in the loop"
    assert node.happened()[-1] == "halt"
    assert len(seen) == 1
    assert seen[0][0] == seen[0][1] != ""
    assert node.stop_reason == ""


def test_a_node_that_fails_to_brake_is_halted(make, monkeypatch):
    def stopped(why: str) -> None:
        raise ZeroDivisionError("on purpose")

    node = moving(make(), monkeypatch, stopped)
    node.trigger_deactivate()
    assert not node.active
    assert node.happened()[-1] == "halt"
    assert (node.failure, node.stop_reason) == (None, "")


def test_a_robot_that_does_not_come_to_rest_is_halted(make, monkeypatch):
    monkeypatch.setattr("motion_nodes.ros.node.BRAKE_TIMEOUT", 0.05)
    node = moving(make(), monkeypatch, lambda why: None)
    node.trigger_deactivate()
    assert not node.active
    assert node.happened()[-1] == "halt"

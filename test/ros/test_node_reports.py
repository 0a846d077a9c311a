# SPDX-License-Identifier: Apache-2.0
"""Reports of a node: diagnostics and warnings; parameters restored after faults."""

from types import SimpleNamespace
from typing import Any

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from patience import wait_until
from rclpy.parameter import Parameter
from ros.probe import make, served
from ros_client import values_of
from std_msgs.msg import Int64, String

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros import diagnostics
from motion_nodes.ros.concurrency.fault_recovery import FaultRecovery
from motion_nodes.ros.diagnostics import Warnings

__all__ = ["make", "served"]


def test_diagnostics_tell_rate_and_figures(served, client):
    node = served()
    status = client.wait_for_diagnosis("/probe", "")
    wait_until(lambda: node.ticks > 100, "ticks")
    client.wait(
        lambda: (
            values_of(client.diagnostics("/probe")).get("lifecycle state") == "active"
            and float(values_of(client.diagnostics("/probe")).get("rate [Hz]", 0)) > 20
        ),
        "a report of the active node",
    )
    status = client.diagnostics("/probe")
    figures = values_of(status)
    assert status.hardware_id == "probe"
    assert figures["nominal rate [Hz]"] == "200"
    assert figures["gain"] == "1"
    assert {"late ticks", "worst lateness [ms]", "busy"} <= set(figures)


def test_diagnostics_tell_the_state_and_why_it_failed(served, client):
    node = served("autostart:=false")
    client.wait_for_diagnosis("/probe", "unconfigured", DiagnosticStatus.OK)

    def refuse() -> None:
        raise InvalidConfig("no such thing")

    node.in_configure = refuse
    assert not client.change_state("/probe", "configure")
    client.wait_for_diagnosis("/probe", "no such thing", DiagnosticStatus.ERROR)


def test_a_report_that_fails_does_not_end_the_node(served, client, capfd):
    node = served()
    node.diagnose = lambda report: 1 / 0  # type: ignore[method-assign]
    wait_until(lambda: "diagnostics failed" in capfd.readouterr().err, "the complaint")
    assert client.state("/probe") == "active"


@pytest.fixture
def stranger():
    """A node of another context: one context has one type per topic."""
    context = rclpy.Context()
    rclpy.init(args=[], context=context)
    yield rclpy.create_node("stranger", context=context)
    rclpy.shutdown(context=context)


def test_publishers_of_another_type_are_named(served, client, stranger):
    """Their messages do not arrive, and the middleware reports no error to either side."""
    served("diagnostic_updater.period:=0.2")
    client.publisher(Int64, "/numbers")
    wrong = stranger.create_publisher(String, "/numbers", 10)
    status = client.wait_for_diagnosis(
        "/probe", "/stranger publishes std_msgs/msg/String on /numbers", DiagnosticStatus.WARN
    )
    assert "publish std_msgs/msg/Int64" in status.message
    assert "/numbers" in values_of(status)["last warning"]
    stranger.destroy_publisher(wrong)
    client.wait(lambda: client.diagnostics("/probe").level == DiagnosticStatus.OK, "no fault")


class Log:
    """A node's logger and clock, both set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        self.now = 100.0
        monkeypatch.setattr(diagnostics.time, "monotonic", lambda: self.now)
        logger = SimpleNamespace(warning=self.lines.append)
        self.warn = Warnings(SimpleNamespace(get_logger=lambda: logger), pause=10.0)  # type: ignore[arg-type]


@pytest.fixture
def log(monkeypatch):
    return Log(monkeypatch)


BAD = [
    "2 positions given for 3 joints",
    "joint 'panda_jiont2' is not known",
    "joint 'panda_jiont3' is not known",
    "position 9 of joint panda_joint2 is outside -1.76..1.76",
    "position 9 of joint panda_joint3 is outside -1.76..1.76",
    "position of joint panda_joint2 is nan",
    "velocity of joint panda_joint2 is inf",
]


def test_different_problems_of_one_kind_are_each_logged(log):
    for text in BAD:
        log.warn("command", text)
    assert log.lines == BAD


def test_the_same_problem_with_other_numbers_is_a_repeat(log):
    for number in (9.0, -9.5, 1e300, 12, 0.25):
        log.warn("command", f"position {number} of joint panda_joint2 is outside")
    for length in range(1, 5):
        log.warn("command", f"values {[0.5] * length} do not fit")
    assert len(log.lines) == 2
    log.now += 10.1
    log.warn("command", "position 7 of joint panda_joint2 is outside")
    assert log.lines[-1] == "position 7 of joint panda_joint2 is outside (4 more like this)"
    assert (log.warn.total, log.warn.last) == (10, "position 7 of joint panda_joint2 is outside")


def test_problems_of_one_kind_leave_room_for_those_of_another(log):
    log.warn("command", "no state")
    log.warn("reference", "no state")
    assert log.lines == ["no state", "no state"]


def test_a_stream_of_new_names_is_limited_in_log_and_memory(log):
    words = [f"joint '{chr(97 + i % 26) * (1 + i // 26)}' is not known" for i in range(5000)]
    for i, text in enumerate(words):
        log.now = 100.0 + i * 0.004  # 20 s
        log.warn("command", text)
    pauses = 3
    assert len(log.lines) <= pauses * (Warnings.MAX_PROBLEMS + 1)
    assert len(log.lines) > Warnings.MAX_PROBLEMS
    assert log.warn.total == 5000
    log.now += 20.0
    for i in range(2000):
        log.now += 20.0
        log.warn(f"kind {i % 400} {'x' * (i % 400)}", "text")
    assert len(log.warn._logged) <= Warnings.MAX_REMEMBERED


LIMIT = Parameter("max_velocity", Parameter.Type.DOUBLE, 0.1)
"""A limit that a client has lowered."""


class Node:
    """A node whose configuration fails some times, and that loses its parameters at a cleanup."""

    active = leaving = False

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.failure: str | None = None
        self.state_label = "inactive"
        self.parameters = [LIMIT]
        self.activations: list[list[Parameter]] = []
        """The parameters with which the node was activated."""

    def changed_parameters(self) -> list[Parameter]:
        return self.parameters

    def set_parameters_atomically(self, parameters: list[Parameter]) -> Any:
        self.parameters = parameters
        return SimpleNamespace(successful=True)

    def abort_goals(self, text: str) -> None:
        pass

    def report_fault(self, text: str) -> None:
        pass

    def trigger_cleanup(self) -> None:
        self.failure, self.state_label, self.parameters = None, "unconfigured", []

    def trigger_configure(self) -> None:
        self.failure = None
        if self._failures:
            self._failures -= 1
            self.failure = "a camera does not answer"
        else:
            self.state_label = "inactive"

    def trigger_activate(self) -> None:
        self.activations.append(self.parameters)

    def get_logger(self) -> Any:
        return SimpleNamespace(**dict.fromkeys(("warning", "error", "fatal"), lambda _text: None))


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_parameters_of_clients_survive_restarts_that_fail(failures, monkeypatch):
    node = Node(failures)
    recovery = FaultRecovery(node, SimpleNamespace(submit=lambda job: job()))
    monkeypatch.setattr(recovery, "_after", lambda _seconds, job: job())
    recovery.begin("the loop stopped")
    assert node.activations == [[LIMIT]]


def test_parameters_of_an_earlier_fault_are_not_restored_again(monkeypatch):
    node = Node(0)
    recovery = FaultRecovery(node, SimpleNamespace(submit=lambda job: job()))
    monkeypatch.setattr(recovery, "_after", lambda _seconds, job: job())
    recovery.begin("the loop stopped")
    recovery.settle()
    node.trigger_cleanup()
    recovery.begin("the loop stopped again")
    assert node.activations[1] == []

# SPDX-License-Identifier: Apache-2.0
"""Reports of a node on /diagnostics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from patience import wait_until
from ros.probe import make, served
from ros_client import values_of
from std_msgs.msg import Int64, String

from motion_nodes.errors import InvalidConfig

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
def stranger() -> Iterator[rclpy.node.Node]:
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

# SPDX-License-Identifier: Apache-2.0
"""Restarts after faults, without a node: parameters are restored even if a restart fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rclpy.parameter import Parameter

from motion_nodes.ros.concurrency.fault_recovery import FaultRecovery

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

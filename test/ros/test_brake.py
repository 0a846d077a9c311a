# SPDX-License-Identifier: Apache-2.0
"""Braking before the loop of a node ends: in the loop, once, and never instead of the halt."""

from __future__ import annotations

from typing import Any

from ros.probe import Probe, active, make

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

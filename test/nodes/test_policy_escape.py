# SPDX-License-Identifier: Apache-2.0
"""The reactive policy's client of the planner: responses, silence, planners that disappear."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from rclpy.task import Future

from motion_nodes.nodes import rmpflow_policy
from motion_nodes.nodes.rmpflow_policy import ANSWER_TIMEOUT, PRESENCE_PERIOD, Escape

PARAMS = SimpleNamespace(group="arm", escape_planning_time=1.0)


class ScriptedPlanner:
    """An action client of a planner that accepts goals and never sends a result."""

    def __init__(self) -> None:
        self.present, self.canceled = True, 0
        self.response: Future = Future()

    def server_is_ready(self) -> bool:
        return self.present

    def send_goal_async(self, goal: object) -> Future:
        return self.response

    def accept(self) -> None:
        handle = SimpleNamespace(
            accepted=True, get_result_async=Future, cancel_goal_async=self._cancel
        )
        self.response.set_result(handle)

    def _cancel(self) -> None:
        self.canceled += 1


class ScriptedFollower:
    """A follower that waits for an escape."""

    def __init__(self) -> None:
        self.policy = SimpleNamespace(tool="panda_hand_tcp")
        self.escape_target = SimpleNamespace(X_WT=np.eye(4), oriented=True)
        self.faults: list[str] = []

    def hand_back(self, now: float, fault: str, *, impossible: bool) -> None:
        self.faults.append(fault)
        self.escape_target = None


@pytest.fixture
def cell(monkeypatch):
    """An escape with a scripted planner, follower and clock."""
    made = SimpleNamespace(planner=ScriptedPlanner(), follower=ScriptedFollower(), now=0.0)
    monkeypatch.setattr(rmpflow_policy, "action_client", lambda *_: made.planner)
    monkeypatch.setattr(rmpflow_policy, "time", SimpleNamespace(monotonic=lambda: made.now))
    node = SimpleNamespace(warn=lambda *_: None)
    escape = Escape(node, SimpleNamespace(submit=lambda job: job()), "move_action")

    def step(dt: float) -> None:
        made.now += dt
        escape.update(made.follower, PARAMS, "panda_link0", made.now)

    made.step = step
    step(0.0)
    return made


def test_a_planner_that_does_not_respond_is_given_up(cell):
    cell.step(ANSWER_TIMEOUT - 0.1)
    assert not cell.follower.faults
    cell.step(0.2)
    assert cell.follower.faults == ["no response of a planner at move_action"]


def test_a_planner_that_ends_during_an_escape_is_given_up(cell):
    cell.planner.accept()
    for _ in range(100):
        cell.step(PRESENCE_PERIOD)
    assert not cell.follower.faults, "an escape may take long"
    cell.planner.present = False
    cell.step(ANSWER_TIMEOUT - PRESENCE_PERIOD)
    assert not cell.follower.faults, "discovery may have gaps"
    cell.step(2.0 * PRESENCE_PERIOD)
    assert cell.follower.faults == ["no response of a planner at move_action"]
    assert cell.planner.canceled == 1

# SPDX-License-Identifier: Apache-2.0
"""Goals at a server of another process: accepted late, canceled, replaced."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.nodes.task import remote_work
from motion_nodes.nodes.task.remote_work import RemoteAction
from motion_nodes.nodes.viewer.viewer_goals import WatchedNavigation


class Future:
    """A future whose result the test sets."""

    def __init__(self) -> None:
        self._callback: Any = None
        self._value: Any = None

    def add_done_callback(self, callback: Any) -> None:
        self._callback = callback

    def result(self) -> Any:
        return self._value

    def finish(self, value: Any) -> None:
        self._value = value
        self._callback(self)


class Server:
    """A server that accepts goals when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Future] = []
        self.canceled: list[int] = []
        self.results: list[Future] = []
        client = SimpleNamespace(server_is_ready=lambda: True, send_goal_async=self._send)
        monkeypatch.setattr(remote_work, "action_client", lambda *_: client)
        node: Any = SimpleNamespace()
        jobs: Any = SimpleNamespace(submit=lambda job: job())
        self.action = RemoteAction(node, jobs, None, "move", timeout=0.05)

    def _send(self, _goal: Any) -> Future:
        self.sent.append(Future())
        return self.sent[-1]

    def accept(self, number: int) -> None:
        self.results.append(Future())
        handle = SimpleNamespace(
            accepted=True,
            get_result_async=lambda: self.results[-1],
            cancel_goal_async=lambda: self.canceled.append(number),
        )
        self.sent[number].finish(handle)


@pytest.fixture
def server(monkeypatch):
    return Server(monkeypatch)


def test_a_goal_is_canceled_and_its_result_returned(server):
    work = server.action.execute("goal")
    next(work)
    server.accept(0)
    next(work)
    server.action.cancel()
    assert server.canceled == [0]
    server.results[0].finish(SimpleNamespace(status=5, result="stopped"))
    with pytest.raises(StopIteration) as end:
        next(work)
    assert end.value.value == (5, "stopped")


def test_a_goal_that_is_canceled_before_its_acceptance_does_not_run(server):
    work = server.action.execute("goal")
    next(work)
    work.close()
    server.action.cancel()
    server.accept(0)
    assert server.canceled == [0]


def test_a_goal_that_is_accepted_after_the_timeout_does_not_run(server):
    with pytest.raises(SkillFailed, match="no response of move"):
        for _ in server.action.execute("late"):
            pass
    following = server.action.execute("next")
    next(following)
    server.accept(0)
    server.accept(1)
    assert server.canceled == [0]


def test_the_page_cancels_a_goal_before_it_sends_the_next_one(server):
    """If the navigator refused the next one, the base would follow the first one on."""
    page: Any = SimpleNamespace(set_drive_message=lambda *_, **__: None)
    node: Any = SimpleNamespace()
    jobs: Any = SimpleNamespace(submit=lambda job: job())
    navigation = WatchedNavigation(node, jobs, "", "odom", np.eye(4))
    navigation.send(page, 1.0, 0.0, 0.0)
    navigation.show(page)
    server.accept(0)
    navigation.show(page)
    navigation.send(page, 2.0, 0.0, 0.0)
    assert server.canceled == [0]
    navigation.show(page)
    server.accept(1)
    navigation.cancel()
    assert server.canceled == [0, 1]

# SPDX-License-Identifier: Apache-2.0
"""Commands of policies as arrays: timeout, rest, and streams from before a stop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from std_msgs.msg import Float64MultiArray

from motion_nodes.nodes.policy_controller import PolicyCommands

TIMEOUT = 0.5


class Arrays:
    """A polled topic with at most one message."""

    topic = "~/command"

    def __init__(self) -> None:
        self.message: Any = None
        self.sent = self.polled = 0.0

    def send(self, values: list[float], now: float) -> None:
        self.message = Float64MultiArray(data=values)
        self.sent = self.polled = now

    def newest(self) -> Any:
        message, self.message = self.message, None
        return message


def made(*, balances: bool) -> tuple[PolicyCommands, Arrays]:
    """Return the commands of a policy with four values, and their topic."""
    topic = Arrays()
    params = SimpleNamespace(
        cmd_vel_timeout=TIMEOUT, max_command=(1.0, 1.0, 1.0), max_command_rate=(1.0, 1.0, 1.0)
    )
    node: Any = SimpleNamespace(
        params=params, poll=lambda *_: topic, warn=lambda *_: None,
    )  # fmt: skip
    runner: Any = SimpleNamespace(spec=SimpleNamespace(command_width=4, balances=balances))
    return PolicyCommands(node, runner), topic


@pytest.mark.parametrize("balances", [False, True])
def test_an_array_that_is_not_renewed_ends_the_run(balances):
    commands, topic = made(balances=balances)
    assert "cmd_vel_timeout" in commands.missing(0.0)
    topic.send([0.1, 0.2, 0.3, 0.4], 1.0)
    commands.take(1.0, "")
    commands.run_requested = True
    commands.take(1.0 + 0.9 * TIMEOUT, "")
    assert commands.moving
    assert commands.missing(1.0 + 0.9 * TIMEOUT) == ""
    commands.take(1.0 + 1.1 * TIMEOUT, "")
    assert not commands.moving
    assert commands.missing(1.0 + 1.1 * TIMEOUT)
    # A robot that the policy balances gets a command of zero; else zeros may be another place.
    last = [0.0] * 4 if balances else [0.1, 0.2, 0.3, 0.4]
    np.testing.assert_array_equal(commands.step(0.01), last)


def test_arrays_from_before_a_stop_are_refused_until_they_pause():
    commands, topic = made(balances=True)
    now = 1.0
    topic.send([1.0] * 4, now)
    commands.take(now, "")
    commands.suspend()
    np.testing.assert_array_equal(commands.step(0.01), 0.0)
    for _ in range(20):
        now += 0.1
        topic.send([1.0] * 4, now)
        commands.take(now, "")
        np.testing.assert_array_equal(commands.step(0.01), 0.0)
    now += 1.0
    topic.send([1.0] * 4, now)
    commands.take(now, "")
    np.testing.assert_array_equal(commands.step(0.01), 1.0)

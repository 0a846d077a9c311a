# SPDX-License-Identifier: Apache-2.0
"""Counts of the results of goals, for tests that each goal gets exactly one.

Goals are reached already, are preempted by the next one, or are canceled as soon as they are
accepted. ``ROUNDS`` in the environment multiplies their number: 250 are 1000 goals of each kind.
"""

import os
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile

GOALS = 4 * int(os.environ.get("ROUNDS", "1"))
AT_ONCE = 4
"""Number of goals that wait for their result at the same time."""
ENDED = (GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED)
MANY = QoSProfile(depth=1000)
Make = Callable[[int], Any]
Goals = tuple[Any, Make, Make]
"""Type of an action, goals that are reached, and goals that move."""


class Server:
    """Client of one action server that counts results."""

    def __init__(self, client: Any, kind: Any, name: str) -> None:
        self.client, self.name = client, name
        profiles = dict.fromkeys(
            (f"{part}_qos_profile" for part in ("goal_service", "result_service", "feedback_sub")),
            MANY,
        )
        self.action = ActionClient(client.node, kind, name, **profiles)
        client.wait(self.action.server_is_ready, name)

    def run(self, goal: Callable[[int], Any], *, cancel: bool, at_once: int) -> dict[int, int]:
        """Send goals; return how many results had each status."""
        results: dict[int, int] = {}
        for first in range(0, GOALS, at_once):
            count = min(at_once, GOALS - first)
            sent = [self.action.send_goal_async(goal(first + k)) for k in range(count)]
            answers, canceled = [], []
            for future in sent:
                self.client.wait(future.done, f"the response to a goal of {self.name}")
                handle = future.result()
                assert handle.accepted
                if cancel:
                    canceled.append(handle.cancel_goal_async())
                answers.append(handle.get_result_async())
            for future in [*canceled, *answers]:
                self.client.wait(future.done, f"a response of {self.name}")
            for future in answers:
                status = future.result().status
                results[status] = results.get(status, 0) + 1
        assert sum(results.values()) == GOALS
        assert set(results) <= set(ENDED), results
        return results

    def close(self) -> None:
        self.action.destroy()


def count(client: Any, name: str, goals: Goals) -> dict[str, dict[int, int]]:
    """Return how many results had each status, by the way in which goals end."""
    kind, reached, moving = goals
    server = Server(client, kind, name)
    found = {}
    for way, goal, cancel, at_once in (
        ("reached", reached, False, 1),
        ("reached, preempting", reached, False, AT_ONCE),
        ("canceled at once", moving, True, 1),
        ("preempted", moving, True, AT_ONCE),
    ):
        found[way] = server.run(goal, cancel=cancel, at_once=at_once)
        print(f"{name}: {way}: {found[way]}", flush=True)
    server.close()
    return found

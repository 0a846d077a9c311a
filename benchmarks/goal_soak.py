# SPDX-License-Identifier: Apache-2.0
"""Goals in disorder: completed, preempted, canceled, bad, in bursts; each must end properly."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from arm_motions import ARM, HOME, move, trajectory_message
from control_msgs.action import GripperCommand
from goal_client import Goal, GoalClient

SHORT, LONG = 0.1, 10.0
"""[s] Durations of moves that shall end and of moves that shall be ended."""
REACH = 0.008
"""[rad] How far from home the moves go, so that short ones stay within the limits."""
GRIPPER = "gripper_action_controller/gripper_cmd"
CANCELED, ABORTED, SUCCEEDED = 5, 6, 4
"""Values of action_msgs/GoalStatus."""


class WrongEnd(RuntimeError):
    """A goal ended in another way than it had to."""


class Soak:
    """Sends goals, one kind after the other by chance, and checks how each ends."""

    def __init__(self, client: GoalClient, seed: int, *, gripper: bool) -> None:
        """Begin.

        Args:
            client: of the trajectory action.
            seed: of the order and the numbers.
            gripper: whether the controller has gripper actions.
        """
        self._client = client
        self._random = random.Random(seed)
        self.sent: collections.Counter[str] = collections.Counter()
        """How many goals of each kind."""
        self._kinds: list[tuple[Callable[[], None], int]] = [
            (self._complete, 4), (self._preempt, 4), (self._cancel, 4), (self._bad, 4),
            (self._burst, 1),
        ]  # fmt: skip
        if gripper:
            client.add(GRIPPER, GripperCommand)
            self._kinds.append((self._grip, 1))

    @property
    def count(self) -> int:
        """Goals sent so far."""
        return self.sent.total()

    def run_to(self, count: int) -> None:
        """Send goals until so many were sent in all."""
        kinds, weights = zip(*self._kinds, strict=True)
        while self.count < count:
            self._random.choices(kinds, weights)[0]()

    def _target(self) -> Any:
        return HOME + np.array([self._random.uniform(-REACH, REACH) for _ in ARM])

    def _pause(self) -> None:
        self._client.spin(self._random.uniform(0.0, 0.04))

    def _send(self, kind: str, seconds: float) -> Goal:
        self.sent[kind] += 1
        return self._client.send(move(self._target(), seconds))

    def _expect(self, goal: Goal, *statuses: int) -> None:
        self._client.finish(goal)
        if goal.result is None or goal.result.status not in statuses:
            said = "rejected" if goal.result is None else f"{goal.result.status}: {goal.result}"
            raise WrongEnd(f"a goal had to end with status {statuses}, but {said}")

    def _complete(self) -> None:
        self._expect(self._send("completed", SHORT), SUCCEEDED)

    def _preempt(self) -> None:
        loser = self._send("preempted", LONG)
        self._pause()
        winner = self._send("completed", SHORT)
        self._expect(loser, ABORTED)
        self._expect(winner, SUCCEEDED)

    def _cancel(self) -> None:
        goal = self._send("canceled", LONG)
        self._client.wait(lambda: goal.handle is not None, "an answer")
        self._pause()
        self._client.wait(goal.handle.cancel_goal_async().done, "a cancellation's answer")
        self._expect(goal, CANCELED)

    def _burst(self) -> None:
        """Each goal overtakes the one before, none waits for an answer."""
        goals = [self._send("in bursts", SHORT) for _ in range(6)]
        for goal in goals[:-1]:
            self._expect(goal, ABORTED, SUCCEEDED)
        self._expect(goals[-1], SUCCEEDED)

    def _grip(self) -> None:
        self.sent["gripper"] += 1
        goal = GripperCommand.Goal()
        goal.command.position = self._random.uniform(0.036, 0.04)
        self._expect(self._client.send_goal(goal, GRIPPER), SUCCEEDED)

    def _bad(self) -> None:
        self.sent["bad"] += 1
        self._expect(self._client.send(self._random.choice(BAD)()), ABORTED)


def _unknown_joint() -> Any:
    return trajectory_message([1.0], np.zeros((1, 7)), joints=[*ARM[:-1], "no_such_joint"])


def _not_finite() -> Any:
    return trajectory_message([1.0], np.full((1, 7), np.nan))


def _unsorted() -> Any:
    return trajectory_message([1.0, 0.5], np.array([HOME, HOME]))


def _empty() -> Any:
    return trajectory_message([], np.zeros((0, 7)))


def _too_fast() -> Any:
    return trajectory_message([0.01], (HOME + 1.0)[None])


def _starts_far_away() -> Any:
    return trajectory_message([0.0, 5.0], np.array([HOME + 0.5, HOME]))


def _wrong_length() -> Any:
    return trajectory_message([1.0], np.zeros((1, 5)))


BAD = (_unknown_joint, _not_finite, _unsorted, _empty, _too_fast, _starts_far_away, _wrong_length)

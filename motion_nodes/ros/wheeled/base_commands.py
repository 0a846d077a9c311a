# SPDX-License-Identifier: Apache-2.0
"""Twists for a base, from all the topics on which they may come."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped

from motion_nodes.bases.base import Twist2
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.stamps import command_time
from motion_nodes.ros.node import MotionNode

STREAM_PAUSE = 0.5
"""[s] After a stop, a topic that was silent for so long begins anew with its next message."""


class SenderWatch:
    """Finds out that several senders command one base in turns.

    Each publisher numbers its messages, so a number that does not grow, like another topic, means
    another sender. One such change is a handover, several in a short time are a fight.
    """

    SPAN = 2.0
    """[s] Changes of sender are counted for so long."""
    FIGHT = 3
    """So many of them are a fight."""

    def __init__(self) -> None:
        """Begin without a sender."""
        self._last: tuple[str, int | None] | None = None
        self._changes: deque[tuple[float, str]] = deque(maxlen=self.FIGHT)

    def heard(self, topic: str, number: int | None, now: float) -> None:
        """Note a message.

        Args:
            topic: where it came.
            number: its sender's count of messages; None where the middleware gives none.
            now: time [s].
        """
        last, self._last = self._last, (topic, number)
        if last is None:
            return
        grown = number is None or last[1] is None or number > last[1]
        if topic != last[0] or not grown:
            self._changes.append((now, topic))

    def fighting(self, now: float) -> tuple[str, ...]:
        """Return the topics of the senders that fight, or nothing."""
        if len(self._changes) < self.FIGHT or not 0.0 <= now - self._changes[0][0] <= self.SPAN:
            return ()
        return tuple(sorted({topic for _, topic in self._changes}))


class TwistInputs:
    """Everything on which a base takes commands: with a stamp or without, newest first served."""

    def __init__(self, node: MotionNode[Any], *, stamped_cmd_vel: bool) -> None:
        """Subscribe.

        Args:
            node: whose topics they are.
            stamped_cmd_vel: the topic ``cmd_vel`` carries TwistStamped, else Twist.
        """
        self._node = node
        self._topics: tuple[PolledSubscription[Any], ...] = (
            node.poll(TwistStamped, "~/cmd_vel", qos.COMMANDS),
            node.poll(TwistStamped, "~/reference", qos.COMMANDS),
            node.poll(Twist, "~/cmd_vel_unstamped", qos.COMMANDS),
            node.poll(TwistStamped if stamped_cmd_vel else Twist, "cmd_vel", qos.COMMANDS),
        )
        self.senders = SenderWatch()
        self._sent: dict[PolledSubscription[Any], float] = {}
        self._anew: set[PolledSubscription[Any]] | None = None
        """Topics whose streams began anew after a stop; None before the first stop."""

    def hold_off(self) -> None:
        """Refuse what is streamed now, on each topic until it pauses: the suite was stopped."""
        self._anew = set()

    def take(self, now: float, timeout: float, hindrance: str) -> list[tuple[Twist2, float]]:
        """Return what came, and when each was given, oldest first.

        Args:
            now: this node's time [s].
            timeout: commands older than this [s] are left out, with a warning.
            hindrance: why commands are refused now, or nothing.
        """
        commands = []
        for topic in self._topics:
            # The queue is short, so a flood costs no more than what fits into it.
            for message, number, sent in topic.traced():
                self.senders.heard(topic.topic, number, now)
                goes_on = self.goes_on(topic, sent, timeout)
                refused = hindrance or goes_on
                if refused:
                    self._node.warn("refused", f"command refused: {refused}")
                    continue
                stamped = isinstance(message, TwistStamped)
                given = self._time_of(message, now, timeout) if stamped else now
                if given is not None:
                    t = message.twist if stamped else message
                    commands.append((Twist2(t.linear.x, t.linear.y, t.angular.z), given))
        return sorted(commands, key=lambda command: command[1])

    def goes_on(self, topic: PolledSubscription[Any], sent: float, timeout: float) -> str:
        """Say why a message is left out that goes on with a stream from before, or nothing.

        Args:
            topic: where it came.
            sent: when it was sent [s], by the sender's clock.
            timeout: how long a command counts [s]; a stream may pause for so long.
        """
        pause = max(timeout, STREAM_PAUSE)
        paused = sent - self._sent.get(topic, -math.inf) > pause
        self._sent[topic] = sent
        if self._anew is None:
            return ""
        if paused:
            self._anew.add(topic)
        if topic in self._anew:
            return ""
        return f"it goes on with a stream from before the resume; it must pause for {pause:g} s"

    def _time_of(self, message: TwistStamped, now: float, timeout: float) -> float | None:
        given, warning = command_time(stamp_ns(message) * 1e-9, now, timeout)
        if warning:
            self._node.warn("stale" if given is None else "ahead", warning)
        return given

# SPDX-License-Identifier: Apache-2.0
"""Twist commands of a base, from all topics on which it accepts them."""

from __future__ import annotations

import math
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.control.state_plausibility import SenderWatch
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.ros_time import command_time

RESTART_PAUSE = 0.5
"""[s] After a stop, a stream must pause for this long before it is accepted again."""


class StreamPauses:
    """Refuses streams from before a stop until they pause."""

    def __init__(self) -> None:
        """Accept all streams."""
        self._newest: dict[PolledSubscription[Any], tuple[float, float]] = {}
        """Source time stamp and time of arrival of each topic's newest message [s]."""
        self._restarted: set[PolledSubscription[Any]] | None = None
        """Topics that paused since the last stop; None before the first stop."""

    def suspend(self) -> None:
        """Refuse current streams until they pause: the suite was stopped or resumed."""
        self._restarted = set()

    def admit(self) -> None:
        """Accept all streams: the node was activated."""
        self._restarted = None

    def continues(self, topic: PolledSubscription[Any], sent: float, timeout: float) -> str:
        """Return why a message continues a stream from before a stop; empty if it does not.

        Args:
            topic: its topic.
            sent: source time stamp [s].
            timeout: timeout of commands [s], which a stream must exceed to pause; infinite: none.
        """
        pause = RESTART_PAUSE if math.isinf(timeout) else max(timeout, RESTART_PAUSE)
        never = (-math.inf, -math.inf)
        before = self._newest.get(topic, never)
        # By both clocks: this node may stall, and clocks of publishers may differ.
        paused = min(sent - before[0], topic.polled - before[1]) > pause
        self._newest[topic] = sent, topic.polled
        if self._restarted is None:
            return ""
        if paused:
            self._restarted.add(topic)
        if topic in self._restarted:
            return ""
        return f"its stream started before the resume; it must pause for {pause:g} s"


class TwistInputs:
    """The command topics of a base, stamped and unstamped."""

    def __init__(
        self, node: MotionNode[Any], *, stamped_cmd_vel: bool, unstamped_reference: bool = False
    ) -> None:
        """Create the subscriptions.

        Args:
            node: the node.
            stamped_cmd_vel: message type of ``cmd_vel``: TwistStamped, else Twist.
            unstamped_reference: subscribe to ``~/reference_unstamped``, too.
        """
        self.pauses = StreamPauses()
        """Of all its topics."""
        self._node = node
        self._topics: tuple[PolledSubscription[Any], ...] = (
            node.poll(TwistStamped, "~/cmd_vel", qos.COMMANDS),
            node.poll(TwistStamped, "~/reference", qos.COMMANDS),
            node.poll(Twist, "~/cmd_vel_unstamped", qos.COMMANDS),
            node.poll(TwistStamped if stamped_cmd_vel else Twist, "cmd_vel", qos.COMMANDS),
        )
        if unstamped_reference:
            self._topics += (node.poll(Twist, "~/reference_unstamped", qos.COMMANDS),)
        self.senders = SenderWatch()

    def take(self, now: float, timeout: float, refusal: str) -> list[tuple[Twist2, float]]:
        """Return pending commands, each with its time [s], oldest first.

        Args:
            now: current time of this node [s].
            timeout: max age of a command; older ones are dropped with a warning [s].
            refusal: why commands are refused now, as text; empty if they are not.
        """
        commands = []
        for topic in self._topics:
            # The depth of the queue bounds the work of a cycle.
            for message, number, sent in topic.traced():
                self.senders.received(topic.topic, number, now)
                continues = self.pauses.continues(topic, sent, timeout)
                refused = refusal or continues
                if refused:
                    self._node.warn("refused", f"command refused: {refused}")
                    continue
                stamped = isinstance(message, TwistStamped)
                given = self._time_of(message, now, timeout) if stamped else now
                if given is not None:
                    t = message.twist if stamped else message
                    commands.append((Twist2(t.linear.x, t.linear.y, t.angular.z), given))
        return sorted(commands, key=lambda command: command[1])

    def _time_of(self, message: TwistStamped, now: float, timeout: float) -> float | None:
        if math.isinf(timeout):
            return now  # the last one that arrives is valid, of any age
        given, warning = command_time(stamp_ns(message) * 1e-9, now, timeout)
        if warning:
            self._node.warn("stale" if given is None else "ahead", warning)
        return given

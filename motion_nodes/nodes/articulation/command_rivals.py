# SPDX-License-Identifier: Apache-2.0
"""Other publishers of ``joint_command`` that command the joints of an articulation controller."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState

from motion_nodes.model.bounds import JOINT_STATE
from motion_nodes.ros import qos
from motion_nodes.ros.messages.cdr import InvalidMessage
from motion_nodes.ros.messages.joint_samples import JointSample, JointSampleReader
from motion_nodes.ros.node import MotionNode

PERIOD = 0.25
"""Interval at which publishers are counted [s]."""
QUIET = 1.0
"""Time without a rival's message after which commands are accepted again [s]."""


class CommandRivals:
    """Reads ``joint_command`` while another node publishes on it.

    Own messages are identified by their stamps. A message without a finite value within the bounds
    of joint states moves no joint and is ignored.
    """

    def __init__(self, node: MotionNode[Any], joints: Sequence[str]) -> None:
        """Subscribe ``node``, which publishes commands of ``joints``."""
        self._node = node
        self._joints = frozenset(joints)
        self._commands = node.poll_bytes(JointState, "joint_command", qos.STATES)
        self._reader = JointSampleReader()
        self._due = 0.0
        self.alone = True
        """Whether no other node publishes commands; its messages are not read then."""
        self._at = -np.inf
        self._text = ""

    def check(self, sent: Container[int]) -> str:
        """Return which joint another publisher commands, or nothing; called in the loop.

        Args:
            sent: stamps of the node's newest messages [ns].
        """
        now = time.monotonic()
        if now >= self._due:
            self._due = now + PERIOD
            self.alone = self._commands.publishers < 2
        if not self.alone:
            for message in self._commands.all():
                joint = self._commanded(message, sent)
                if joint:
                    self._text = self._text or self._describe(joint)
                    self._at = now
        if now - self._at > QUIET:
            self._text = ""
        return self._text

    def _commanded(self, message: bytes, sent: Container[int]) -> str:
        """Return a joint that a message of another publisher commands, or nothing."""
        try:
            sample = self._reader.read(message)
            names = () if sample.stamp_ns in sent else sample.joint_names()
        except InvalidMessage:
            return ""
        moves = _moves(sample, len(names)) if not self._joints.isdisjoint(names) else ()
        return next((n for n, m in zip(names, moves, strict=False) if m and n in self._joints), "")

    def _describe(self, joint: str) -> str:
        topic, own = self._commands.topic, self._node.get_fully_qualified_name()
        infos = self._node.get_publishers_info_by_topic(topic)
        names = {f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in infos} - {own}
        others = ", ".join(sorted(names)) or "a second node of the same name"
        return f"another publisher on {topic} commands {joint}: {others}"


def _moves(sample: JointSample, count: int) -> list[bool]:
    """Return for each name of a message whether a drive can act on its values."""
    moves = np.zeros(count, np.bool_)
    for values in (sample.position, sample.velocity, sample.effort):
        if len(values) == count:
            moves |= np.abs(values) <= JOINT_STATE.max
    return moves.tolist()

# SPDX-License-Identifier: Apache-2.0
"""Messages of several topics in the order in which they arrived, and those that came too early.

A client that adds an object on one topic and attaches it on another has no say in which of the two
gets here first: a reader that its writer has just found gets its first messages once more, later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from moveit_msgs.msg import AttachedCollisionObject

from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.scene.collision_objects import ADD, REMOVE
from motion_nodes.ros.scene.scene_update import SceneDraft

PATIENCE = 1.0
"""[s] How long an attachment waits for its object."""


class Arrivals:
    """Takes the messages of several polled topics as one stream."""

    def __init__(self, topics: Sequence[PolledSubscription[Any]]) -> None:
        """Take from ``topics``, which stay their owner's."""
        self._topics = topics
        self._held: list[tuple[Any, int]] = []

    def take(self) -> list[Any]:
        """Return what has come, oldest first.

        Topics are looked at one after the other. What arrives meanwhile is held back until the next
        time: something older may have come to a topic that had been looked at already.
        """
        begin = time.time_ns()
        came, self._held = self._held, []
        for topic in self._topics:
            for message, arrived in topic.timed():
                (came if arrived <= begin else self._held).append((message, arrived))
        came.sort(key=lambda pair: pair[1])
        return [message for message, _ in came]


class EarlyAttachments:
    """Messages that attach an object by its id before that object is known."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Wait by ``clock`` [s]."""
        self._clock = clock
        self._waiting: dict[str, tuple[AttachedCollisionObject, float]] = {}

    def take(self, draft: SceneDraft, message: AttachedCollisionObject) -> bool:
        """Keep a message whose object is not there; return whether it was kept.

        One that detaches takes back what waits.
        """
        item = message.object
        if item.operation == REMOVE:
            self._waiting = {
                name: (kept, since)
                for name, (kept, since) in self._waiting.items()
                if item.id not in ("", name) or message.link_name not in ("", kept.link_name)
            }
            return False
        has_shapes = item.primitives or item.meshes or item.planes
        if item.operation != ADD or not item.id or has_shapes or self._known(draft, item.id):
            return False
        self._waiting[item.id] = (message, self._clock())
        return True

    def due(self, draft: SceneDraft) -> list[AttachedCollisionObject]:
        """Return those whose object has come; they wait no longer."""
        names = [name for name in self._waiting if self._known(draft, name)]
        return [self._waiting.pop(name)[0] for name in names]

    def given_up(self) -> list[AttachedCollisionObject]:
        """Return those that have waited long enough; they wait no longer."""
        end = self._clock() - PATIENCE
        names = [name for name, (_, since) in self._waiting.items() if since < end]
        return [self._waiting.pop(name)[0] for name in names]

    def clear(self) -> None:
        """Forget all: the whole scene was told anew."""
        self._waiting.clear()

    @staticmethod
    def _known(draft: SceneDraft, name: str) -> bool:
        return name in draft.objects or name in draft.attached

# SPDX-License-Identifier: Apache-2.0
"""Messages of several topics in order of arrival, and attachments that arrive too early.

A client that adds an object on one topic and attaches it on another cannot control which message
arrives first: during discovery, the first messages are sent again later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from moveit_msgs.msg import AttachedCollisionObject

from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.scene.collision_objects import ADD, REMOVE
from motion_nodes.ros.scene.scene_update import SceneDraft

OBJECT_TIMEOUT = 1.0
"""[s] How long an attachment waits for its object."""


class Arrivals:
    """Merges the messages of several polled topics into one stream."""

    def __init__(self, topics: Sequence[PolledSubscription[Any]]) -> None:
        """Merge ``topics``, which their owner destroys."""
        self._topics = topics
        self._held: list[tuple[Any, int]] = []

    def take(self) -> list[Any]:
        """Return pending messages, oldest first.

        Topics are read one after another. Messages that arrive during the call are deferred to the
        next one, since older ones may have arrived on a topic that was already read.
        """
        begin = time.time_ns()
        pending, self._held = self._held, []
        for topic in self._topics:
            for message, arrived in topic.timed():
                (pending if arrived <= begin else self._held).append((message, arrived))
        pending.sort(key=lambda pair: pair[1])
        return [message for message, _ in pending]


class EarlyAttachments:
    """Messages that attach an object by its id before that object is added."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty queue; ``clock`` returns the time for timeouts [s]."""
        self._clock = clock
        self._waiting: dict[str, tuple[AttachedCollisionObject, float]] = {}

    def take(self, draft: SceneDraft, message: AttachedCollisionObject) -> bool:
        """Queue a message whose object does not exist; return whether it was queued.

        A message that detaches removes the ones it applies to from the queue.
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
        """Remove and return the messages whose objects now exist."""
        names = [name for name in self._waiting if self._known(draft, name)]
        return [self._waiting.pop(name)[0] for name in names]

    def given_up(self) -> list[AttachedCollisionObject]:
        """Remove and return the messages that have timed out."""
        end = self._clock() - OBJECT_TIMEOUT
        names = [name for name, (_, since) in self._waiting.items() if since < end]
        return [self._waiting.pop(name)[0] for name in names]

    def clear(self) -> None:
        """Clear the queue: the complete scene was replaced."""
        self._waiting.clear()

    @staticmethod
    def _known(draft: SceneDraft, name: str) -> bool:
        return name in draft.objects or name in draft.attached

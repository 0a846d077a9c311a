# SPDX-License-Identifier: Apache-2.0
"""Transform tree of /tf and /tf_static, polled on demand, without tf2_ros."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from tf2_msgs.msg import TFMessage

from motion_nodes.errors import InvalidCommand, MotionError, UnknownFrame
from motion_nodes.model.bounds import OBJECTS
from motion_nodes.model.poses import inverse
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.cdr import (
    LITTLE_ENDIAN,
    InvalidMessage,
    child_frames,
    message_in,
)
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.transforms import transform_pose
from motion_nodes.typing import Array


class TransformLink(NamedTuple):
    """A frame in its parent."""

    parent: str
    X_PC: Array
    """Shape (4, 4)."""
    stamp_ns: int | None
    """None for a static transform."""


class TransformTree:
    """Newest transforms between frames; thread-safe.

    Messages are read in :meth:`update` only. Until then they wait in the middleware, where newer
    ones replace older ones at no cost in Python.
    """

    def __init__(self, node: MotionNode[Any]) -> None:
        """Subscribe ``node`` to both topics."""
        # Not by node.poll: transforms received before the node was active are valid.
        self._static = PolledSubscription[bytes](
            node, TFMessage, "/tf_static", qos.TF_STATIC, raw=True
        )
        self._dynamic = PolledSubscription[bytes](node, TFMessage, "/tf", qos.TF_READER, raw=True)
        self._links: dict[str, TransformLink] = {}
        self._lock = threading.Lock()

    def destroy(self) -> None:
        """Unsubscribe."""
        self._static.destroy()
        self._dynamic.destroy()

    def update(self) -> None:
        """Process received transforms."""
        with self._lock:
            for topic, static in ((self._static, True), (self._dynamic, False)):
                fault = self._read(topic.all(), static=static)
                if fault:
                    topic.refuse(fault)

    def links(self) -> dict[str, TransformLink]:
        """Return the newest transform of each child frame, as of the last :meth:`update`."""
        with self._lock:
            return dict(self._links)

    def pose(self, parent: str, child: str) -> tuple[Array, int | None]:
        """Return the pose ``X_PC`` of a frame in another, shape (4, 4), and its oldest stamp [ns].

        Args:
            parent: the frame P.
            child: the frame C.

        Returns:
            The pose, and the stamp; None if all transforms are static.

        Raises:
            UnknownFrame: no transform names the frame; lists the known ones.
            MotionError: the frames are not connected.
        """
        links = self.links()
        known = {*links, *(link.parent for link in links.values())}
        of_child = _ancestors(links, child)
        of_parent = _ancestors(links, parent)
        for frame, other in ((parent, of_child), (child, of_parent)):
            if frame not in known:
                # Frames of other robots' trees would be refused, too.
                reachable = [name for name in known if _ancestors(links, name)[-1] == other[-1]]
                raise UnknownFrame(frame, sorted(reachable), "/tf")
        above_parent = set(of_parent)
        common = next((frame for frame in of_child if frame in above_parent), None)
        if common is None:
            raise MotionError(f"no transform connects frame '{child}' with frame '{parent}'")
        X_RP, X_RC = (_pose_in(links, frame, common) for frame in (parent, child))
        used = [*_until(of_child, common), *_until(of_parent, common)]
        stamps = [stamp for frame in used if (stamp := links[frame].stamp_ns) is not None]
        return inverse(X_RP) @ X_RC, min(stamps, default=None)

    def fixed_to(self, frame: str, selected: Callable[[str], bool]) -> tuple[str, Array] | None:
        """Return the first ancestor that is selected, if static transforms alone lead to it.

        Args:
            frame: the frame F.
            selected: whether a frame is selected; the frame itself may be.

        Returns:
            The ancestor A and ``X_AF``, shape (4, 4); None if there is none.
        """
        with self._lock:
            X = np.eye(4)
            for name in _ancestors(self._links, frame):
                if selected(name):
                    return name, X
                link = self._links.get(name)
                if link is None or link.stamp_ns is not None:
                    return None
                X = link.X_PC @ X
        return None

    def is_below(self, frame: str, ancestor: str) -> bool:
        """Return whether a frame is ``ancestor`` or a descendant of it."""
        with self._lock:
            return ancestor in _ancestors(self._links, frame)

    def _read(self, messages: Sequence[bytes], *, static: bool) -> str:
        """Keep the newest valid transform of each child frame.

        Most messages are superseded by newer ones of the same frames: they are not deserialized.

        Returns:
            Fault of one of the refused transforms; empty if there is none.
        """
        done: set[str] = set()
        seen: set[bytes] = set()
        fault = ""
        for data in reversed(messages):
            try:
                if data.startswith(LITTLE_ENDIAN) and child_frames(data) <= seen:
                    continue
                message = message_in(data, TFMessage)
            except (InvalidMessage, struct.error) as error:
                fault = str(error)
                continue
            for entry in reversed(message.transforms):
                child = entry.child_frame_id.lstrip("/")
                if child in done:
                    continue
                try:
                    if child not in self._links and len(self._links) >= OBJECTS:
                        raise InvalidCommand(f"frame '{child}' is one of more than {OBJECTS}")
                    X_PC = transform_pose(entry)
                except InvalidCommand as error:
                    fault = str(error)
                    continue
                parent, stamp = entry.header.frame_id.lstrip("/"), stamp_ns(entry)
                self._links[child] = TransformLink(parent, X_PC, None if static else stamp)
                done.add(child)
                seen.add(entry.child_frame_id.encode())
        return fault


def _ancestors(links: dict[str, TransformLink], frame: str) -> list[str]:
    """Return the frame and its ancestors, nearest first."""
    chain, seen = [frame], {frame}
    while (link := links.get(chain[-1])) is not None and link.parent not in seen:
        chain.append(link.parent)
        seen.add(link.parent)
    return chain


def _until(chain: list[str], end: str) -> list[str]:
    return chain[: chain.index(end)]


def _pose_in(links: dict[str, TransformLink], frame: str, ancestor: str) -> Array:
    """Return the pose of a frame in an ancestor, shape (4, 4)."""
    X = np.eye(4)
    while frame != ancestor:
        link = links[frame]
        X = link.X_PC @ X
        frame = link.parent
    return X

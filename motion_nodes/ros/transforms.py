# SPDX-License-Identifier: Apache-2.0
"""Poses as transform messages and on /tf, without tf2_ros.

Stamps and poses of a serialized TFMessage of fixed frames are written in place. rclpy takes half a
millisecond to fill and serialize the transforms of an arm; this takes a twentieth of it. The tree
of /tf and /tf_static is polled on demand.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rclpy.node import Node
from tf2_msgs.msg import TFMessage

from motion_nodes.core.robot.bounds import OBJECTS
from motion_nodes.core.robot.poses import inverse, to_quat_xyzw
from motion_nodes.errors import InvalidCommand, MotionError, UnknownFrame
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import PeriodicCall
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.cdr import (
    HEADER,
    LITTLE_ENDIAN,
    InvalidMessage,
    add_count,
    add_text,
    child_frames,
    message_in,
)
from motion_nodes.ros.messages.message_bounds import check_bounds
from motion_nodes.ros.messages.rotations import matrix_of
from motion_nodes.ros.node import MotionNode
from motion_nodes.typing import Array

DISCOVERY_TIME = 0.4
"""[s] Max time from a subscription to the first transforms of running publishers; requests wait
longer for a frame (``TRANSFORM_WAIT`` of the navigator)."""
READ_PERIOD = 0.5
"""[s] Max time for which messages wait; within it, 1000 of them fit into the queue."""
_VALUES = 7
"""Numbers of a transform: translation (3), quaternion (4)."""


class TransformBuffer:
    """The message; its stamps and poses are 0 at first."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Create the message.

        Args:
            pairs: parent and child of each transform, as full frame names.
        """
        data = bytearray(LITTLE_ENDIAN + b"\x00\x00")
        add_count(data, len(pairs))
        stamps, poses = [], []
        for parent, child in pairs:
            data += bytes(-len(data) % 4)
            stamps.append(len(data))
            data += bytes(8)
            add_text(data, parent)
            add_text(data, child)
            data += bytes(-(len(data) - HEADER) % 8)
            poses.append(len(data))
            data += bytes(8 * _VALUES)
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        self._stamps = np.array(stamps, np.intp)[:, None] + np.arange(8)
        self._poses = np.array(poses, np.intp)[:, None] + np.arange(8 * _VALUES)
        self._values = np.zeros((len(pairs), _VALUES))

    def restamped(self, nanoseconds: int) -> bytes:
        """Return the serialized message with the last poses.

        Args:
            nanoseconds: time stamp of all transforms [ns].
        """
        stamp = np.array(divmod(nanoseconds, 1_000_000_000), np.int64).astype(np.uint32)
        self._bytes[self._stamps] = stamp.view(np.uint8)
        return bytes(self._data)

    def bytes(self, positions: Array, quats_xyzw: Array, nanoseconds: int) -> bytes:
        """Return the serialized message.

        Args:
            positions: of each child in its parent [m], shape (pairs, 3).
            quats_xyzw: its orientations, shape (pairs, 4).
            nanoseconds: time stamp of all transforms [ns].
        """
        self._values[:, :3], self._values[:, 3:] = positions, quats_xyzw
        self._bytes[self._poses] = self._values.view(np.uint8)
        return self.restamped(nanoseconds)


def frame_id(prefix: str, frame: str) -> str:
    """Return a frame name with its prefix, such as ``robot_1/base_link``."""
    prefix = prefix.strip("/")
    return f"{prefix}/{frame}" if prefix else frame


def frame_prefix(node: Node, desired: str) -> str:
    """Return the prefix of a node's frames for a value of its parameter ``tf_frame_prefix``.

    Args:
        node: the node.
        desired: the parameter; each ``~`` in it stands for the node's namespace.
    """
    return desired.replace("~", node.get_namespace()).replace("//", "/")


def transform_pose(stamped: Any) -> Array:
    """Return the pose ``X_PC`` of a TransformStamped, shape (4, 4).

    Raises:
        InvalidCommand: values that are not finite or beyond their bounds, or no rotation.
    """
    check_bounds(stamped)
    t, q = stamped.transform.translation, stamped.transform.rotation
    try:
        X_PC = matrix_of((t.x, t.y, t.z), (q.x, q.y, q.z, q.w))
    except ValueError as error:
        raise InvalidCommand(str(error)) from None
    if not np.isfinite(X_PC).all():
        raise InvalidCommand(f"the transform of '{stamped.child_frame_id}' is not finite")
    return X_PC


class TransformSender:
    """Publisher of the poses of a fixed list of frames, with a preallocated message."""

    def __init__(self, publisher: Any, pairs: Sequence[tuple[str, str]]) -> None:
        """Create the message.

        Args:
            publisher: publisher of TFMessage.
            pairs: parent and child of each transform, as full frame names.
        """
        self._publisher = publisher
        self._message = TransformBuffer(pairs) if pairs else None

    @property
    def wanted(self) -> bool:
        """Whether there are frames, and somebody subscribes."""
        return self._message is not None and bool(self._publisher.get_subscription_count())

    def send(self, X_PC: Array, nanoseconds: int) -> None:
        """Publish poses.

        Args:
            X_PC: pose of each child in its parent, shape (pairs, 4, 4).
            nanoseconds: time stamp [ns].
        """
        if self._message is not None:
            quats = to_quat_xyzw(X_PC)
            data = self._message.bytes(X_PC[:, :3, 3], quats, nanoseconds)
            self._publisher.publish(data)

    def send_last(self, nanoseconds: int) -> None:
        """Publish the last poses with another time stamp [ns]."""
        if self._message is not None:
            self._publisher.publish(self._message.restamped(nanoseconds))


class TransformLink(NamedTuple):
    """A frame in its parent."""

    parent: str
    X_PC: Array
    """Shape (4, 4)."""
    stamp_ns: int | None
    """None for a static transform."""


class TransformTree:
    """Newest transforms between frames; thread-safe.

    Messages are read in :meth:`update`, and each :data:`READ_PERIOD`: until then they wait in the
    middleware, where those of fast publishers push out a transform that was published once.
    """

    def __init__(self, node: MotionNode[Any], *, on_demand: bool = False) -> None:
        """Subscribe ``node`` to both topics.

        Args:
            node: the node.
            on_demand: whether to subscribe in the first :meth:`update` only; transforms are known
                some time after it.
        """
        self._node = node
        self._topics: list[tuple[PolledSubscription[bytes], bool]] = []
        self._links: dict[str, TransformLink] = {}
        self._lock = threading.Lock()
        self._begun = -math.inf
        self._reading: PeriodicCall | None = None
        if not on_demand:
            self._subscribe()

    def _subscribe(self) -> None:
        self._begun = time.monotonic()
        # Not by node.poll: transforms received before the node was active are valid.
        self._topics = [
            (PolledSubscription[bytes](self._node, TFMessage, topic, profile, raw=True), static)
            for topic, profile, static in (
                ("/tf_static", qos.TF_STATIC, True),
                ("/tf", qos.TF_READER, False),
            )
        ]
        self._reading = PeriodicCall(self.update, READ_PERIOD)

    @property
    def young(self) -> bool:
        """Whether transforms may be unknown because the subscriptions are new."""
        return time.monotonic() - self._begun < DISCOVERY_TIME

    def destroy(self) -> None:
        """Unsubscribe."""
        if self._reading is not None:
            self._reading.end()
        for topic, _ in self._topics:
            topic.destroy()

    def update(self) -> None:
        """Process received transforms."""
        with self._lock:
            if not self._topics:
                self._subscribe()
            for topic, static in self._topics:
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

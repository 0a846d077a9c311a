# SPDX-License-Identifier: Apache-2.0
"""The transform tree of /tf and /tf_static, read when it is needed, without tf2_ros."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from tf2_msgs.msg import TFMessage

from motion_nodes.errors import MotionError, UnknownFrame
from motion_nodes.model.poses import from_xyz_quat, inverse
from motion_nodes.model.tree import Array
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.message_bounds import fault_of
from motion_nodes.ros.node import MotionNode


class _Link(NamedTuple):
    parent: str
    X_PC: Array
    stamp_ns: int | None
    """None for one that is fixed."""


class TransformTree:
    """Newest transforms between frames; safe between threads.

    Nothing is taken from the topics until :meth:`update`; what nobody asks for waits in the
    middleware, where newer messages push older ones out, and costs no Python.
    """

    def __init__(self, node: MotionNode[Any]) -> None:
        """Subscribe ``node`` to both topics."""
        # Not by node.poll: what came before the node was active counts here.
        self._fixed = PolledSubscription(node, TFMessage, "/tf_static", qos.TF_STATIC)
        self._moving = PolledSubscription(node, TFMessage, "/tf", qos.TF_READER)
        self._links: dict[str, _Link] = {}
        self._lock = threading.Lock()

    def destroy(self) -> None:
        """Unsubscribe."""
        self._fixed.destroy()
        self._moving.destroy()

    def update(self) -> None:
        """Take what has come."""
        with self._lock:
            for message in self._fixed.all():
                self._take(message.transforms, fixed=True)
            for message in self._moving.all():
                self._take(message.transforms, fixed=False)

    def pose(self, parent: str, child: str) -> tuple[Array, int | None]:
        """Return ``X_PC``, shape (4, 4), and the stamp of its oldest part [ns].

        The stamp is None where all parts are fixed.

        Raises:
            UnknownFrame: a frame that no transform names; lists those that there are.
            MotionError: both are there and nothing connects them.
        """
        with self._lock:
            links = dict(self._links)
        known = sorted({*links, *(link.parent for link in links.values())})
        for frame in (parent, child):
            if frame not in known:
                raise UnknownFrame(frame, known, "/tf")
        above_child = _way_up(links, child)
        above_parent = _way_up(links, parent)
        common = next((frame for frame in above_child if frame in above_parent), None)
        if common is None:
            raise MotionError(f"no transform connects frame '{child}' with frame '{parent}'")
        X_RP, X_RC = (_from_above(links, frame, common) for frame in (parent, child))
        used = [*_until(above_child, common), *_until(above_parent, common)]
        stamps = [stamp for frame in used if (stamp := links[frame].stamp_ns) is not None]
        return inverse(X_RP) @ X_RC, min(stamps, default=None)

    def is_below(self, frame: str, ancestor: str) -> bool:
        """Return whether a frame is carried along by another one, or is it."""
        with self._lock:
            return ancestor in _way_up(self._links, frame)

    def _take(self, transforms: Iterable[Any], *, fixed: bool) -> None:
        for entry in transforms:
            if fault_of(entry):
                continue
            t, q = entry.transform.translation, entry.transform.rotation
            values = (t.x, t.y, t.z)
            try:
                X = from_xyz_quat(values, (q.x, q.y, q.z, q.w))
            except ValueError:
                continue
            if np.isfinite(X).all():
                child = entry.child_frame_id.lstrip("/")
                parent = entry.header.frame_id.lstrip("/")
                self._links[child] = _Link(parent, X, None if fixed else stamp_ns(entry))


def _way_up(links: dict[str, _Link], frame: str) -> list[str]:
    """Return the frame and those above it, nearest first."""
    way = [frame]
    while way[-1] in links and links[way[-1]].parent not in way:
        way.append(links[way[-1]].parent)
    return way


def _until(way: list[str], end: str) -> list[str]:
    return way[: way.index(end)]


def _from_above(links: dict[str, _Link], frame: str, above: str) -> Array:
    """Return the pose of a frame in one above it."""
    X = np.eye(4)
    while frame != above:
        link = links[frame]
        X = link.X_PC @ X
        frame = link.parent
    return X

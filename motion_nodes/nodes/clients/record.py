# SPDX-License-Identifier: Apache-2.0
"""What ``motion record`` does: a client that listens to a running suite and writes a file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import rclpy

from motion_nodes.ros import signals
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.recording import Recorder, RecordingFile

_LOOK = 0.25
"""Between two looks for new topics [s]."""
_PATIENCE = 10.0
"""So long nothing may come before the time runs [s]."""


def record(
    file: Path, seconds: float, patterns: Sequence[str], news: Callable[[str], None]
) -> dict[str, int]:
    """Record until the time is over or a stop is asked for; return the messages by topic.

    Args:
        file: to be made, ``.jsonl`` or ``.csv``.
        seconds: how long from the first message on; 0: until Ctrl-C.
        patterns: names of topics, with ``*`` for anything; none: joints, commands, odometry, plans.
        news: told of each topic that is found, and of those that cannot be recorded.

    Raises:
        InvalidConfig: the file exists or cannot be written.
    """
    sink = RecordingFile(file)
    with contextlib.closing(sink), client_node("motion_record") as node:
        recorder = Recorder(node, sink.write, patterns)
        told: set[str] = set()
        began = looked = time.monotonic()
        end = began + seconds
        recorder.look_around()
        while not signals.STOP.is_set():
            now = time.monotonic()
            if seconds and not any(recorder.counts.values()):
                # Until somebody is found the time does not run, but not for ever.
                end = min(now, began + _PATIENCE) + seconds
            if seconds and now >= end:
                break
            if now - looked >= _LOOK:
                looked = now
                recorder.look_around()
            for topic in sorted({*recorder.counts, *recorder.skipped} - told):
                why = recorder.skipped.get(topic)
                news(f"{topic}: not recorded: {why}" if why else f"{topic}")
                told.add(topic)
            rclpy.spin_once(node, timeout_sec=0.05)
    return dict(recorder.counts)

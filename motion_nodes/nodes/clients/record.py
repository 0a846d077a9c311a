# SPDX-License-Identifier: Apache-2.0
"""Client of ``motion record``: records topics of a running suite to a file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import rclpy

from motion_nodes.ros import signals
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.recording import Recorder, RecordingFile

_DISCOVERY_PERIOD = 0.25
"""Period of the search for new topics [s]."""
_FIRST_MESSAGE_TIMEOUT = 10.0
"""Time without a message after which the recording time starts [s]."""


def record(
    file: Path, seconds: float, patterns: Sequence[str], report: Callable[[str], None]
) -> dict[str, int]:
    """Record topics.

    Args:
        file: to create, ``.jsonl`` or ``.csv``.
        seconds: recording time from the first message on [s]; 0: until Ctrl-C.
        patterns: topic names with ``*`` as wildcard; none: joints, commands, odometry, plans.
        report: receives a line for each topic found, also for those that cannot be recorded.

    Returns:
        Number of messages by topic.

    Raises:
        InvalidConfig: the file exists or cannot be written.
    """
    sink = RecordingFile(file)
    with contextlib.closing(sink), client_node("motion_record") as node:
        recorder = Recorder(node, sink.write, patterns)
        reported: set[str] = set()
        began = discovered = time.monotonic()
        end = began + seconds
        recorder.discover()
        while not signals.STOP.is_set():
            now = time.monotonic()
            if seconds and not any(recorder.counts.values()):
                end = min(now, began + _FIRST_MESSAGE_TIMEOUT) + seconds
            if seconds and now >= end:
                break
            if now - discovered >= _DISCOVERY_PERIOD:
                discovered = now
                recorder.discover()
            for topic in sorted({*recorder.counts, *recorder.skipped} - reported):
                reason = recorder.skipped.get(topic)
                report(f"{topic}: not recorded: {reason}" if reason else f"{topic}")
                reported.add(topic)
            rclpy.spin_once(node, timeout_sec=0.05)
    return dict(recorder.counts)

# SPDX-License-Identifier: Apache-2.0
"""Rate, bandwidth and delay of a topic, printed each second until Ctrl-C."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time

from motion_nodes.errors import InvalidCommand
from motion_nodes.ros import signals

_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)


def _watch(
    node: Node, kind: Any, topic: str, window: int, raw: bool,
    sample: Callable[[Any], float], report: Callable[[np.ndarray, np.ndarray], str],
) -> int:  # fmt: skip
    """Print a report of the newest samples each second; exit code 1 without samples."""
    times: deque[float] = deque(maxlen=window)
    values: deque[float] = deque(maxlen=window)

    def receive(message: Any) -> None:
        times.append(time.monotonic())
        values.append(sample(message))

    node.create_subscription(kind, topic, receive, _QOS, raw=raw)
    due = time.monotonic() + 1.0
    while not signals.STOP.is_set():
        rclpy.spin_once(node, timeout_sec=0.1)
        if time.monotonic() < due:
            continue
        due += 1.0
        if len(times) < 2:
            print(f"no message of {topic} yet", flush=True)
        else:
            print(report(np.array(times), np.array(values)), flush=True)
    return 0 if times else 1


def hz(node: Node, kind: Any, topic: str, window: int) -> int:
    """Print the rate of a topic and its periods."""

    def report(times: np.ndarray, _values: np.ndarray) -> str:
        periods = np.diff(times)
        return (
            f"average rate: {1.0 / max(periods.mean(), 1e-9):.3f}\n\tmin: {periods.min():.3f}s "
            f"max: {periods.max():.3f}s std dev: {periods.std():.5f}s window: {len(times)}"
        )

    return _watch(node, kind, topic, window, True, lambda _: 0.0, report)


def measure_bandwidth(node: Node, kind: Any, topic: str, window: int) -> int:
    """Print bytes per second of a topic, as serialized."""

    def report(times: np.ndarray, sizes: np.ndarray) -> str:
        rate = sizes[1:].sum() / max(times[-1] - times[0], 1e-9)
        return (
            f"{rate / 1e3:.2f} KB/s from {len(times)} messages\n\tmessage size mean: "
            f"{sizes.mean():.0f} B min: {sizes.min():.0f} B max: {sizes.max():.0f} B"
        )

    return _watch(node, kind, topic, window, True, lambda data: float(len(data)), report)


def measure_delay(node: Node, kind: Any, topic: str, window: int) -> int:
    """Print the age of the stamps in a topic's headers by this machine's clock.

    Raises:
        InvalidCommand: its messages have no header.
    """
    if not hasattr(kind(), "header"):
        raise InvalidCommand(f"messages of {topic} have no header with a stamp")

    def age(message: Any) -> float:
        stamp = Time.from_msg(message.header.stamp)
        return float(node.get_clock().now().nanoseconds - stamp.nanoseconds) * 1e-9

    def report(_times: np.ndarray, ages: np.ndarray) -> str:
        return (
            f"average delay: {ages.mean():.3f}\n\tmin: {ages.min():.3f}s max: {ages.max():.3f}s "
            f"std dev: {ages.std():.5f}s window: {len(ages)}"
        )

    return _watch(node, kind, topic, window, False, age, report)

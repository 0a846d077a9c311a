# SPDX-License-Identifier: Apache-2.0
"""Topics of joint states, recorded by a process of its own."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.processes import HERE, Child

Array = NDArray[np.float64]
PAUSE = 0.05  # [s] Between two reads; the queue holds much more
CODE = f"import sys; sys.path.insert(0, {str(HERE)!r}); from harness.recording import main; main()"


@dataclass(frozen=True)
class Record:
    """Messages of one topic in the order of their arrival."""

    names: tuple[str, ...]
    arrived: NDArray[np.int64]
    """[ns of ``time.monotonic_ns``], shape (k,), to within PAUSE."""
    stamps: NDArray[np.int64]
    """Of the headers [ns], shape (k,)."""
    q: Array
    """Positions [rad or m], shape (k, n); NaN where a message has none."""
    v: Array
    """Velocities, likewise."""

    def between(self, begin_ns: int, end_ns: int) -> Record:
        """Return what arrived in a span of time."""
        inside = (self.arrived > begin_ns) & (self.arrived < end_ns)
        rows = (self.arrived, self.stamps, self.q, self.v)
        return Record(self.names, *(values[inside] for values in rows))

    def moved(self) -> float:
        """Return how far the joint that moved farthest was between its extremes."""
        return float(np.ptp(self.q, axis=0).max()) if len(self.q) else 0.0


class Recorder:
    """Records topics of sensor_msgs/JointState from entering the context to :meth:`stop`."""

    def __init__(self, *topics: str) -> None:
        """Choose the topics."""
        self._topics = topics
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "record.npz"

    def __enter__(self) -> Recorder:
        """Start recording."""
        self._child = Child([sys.executable, "-c", CODE, str(self._file), *self._topics])
        self._child.wait_for("recording")
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        self._child.stop()
        self._folder.cleanup()

    def stop(self) -> dict[str, Record]:
        """End recording; return what came on each topic."""
        self._child.stop()
        with np.load(self._file) as kept:
            found = {
                topic: [kept[f"{topic}:{part}"] for part in range(5)] for topic in self._topics
            }
        return {topic: Record(tuple(names.tolist()), *rows)
                for topic, (names, *rows) in found.items()}  # fmt: skip


class _Topic:
    """One topic and what came, in the recording process."""

    def __init__(self, node: Any, name: str) -> None:
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState

        from motion_nodes.ros.concurrency.polled_subscription import PolledGroup, take_all
        from motion_nodes.ros.messages.joint_samples import JointSampleReader

        self._reader, self._take, self._names = JointSampleReader(), take_all, ()
        self._rows: list[tuple[Any, ...]] = []
        self._subscription = node.create_subscription(
            JointState, name, lambda _: None, QoSProfile(depth=5000), callback_group=PolledGroup()
        )

    def take(self) -> None:
        now = time.monotonic_ns()
        for data in self._take(self._subscription, raw=True):
            sample = self._reader.read(data)
            self._names = self._names or tuple(sample.joint_names())
            none = np.full(len(self._names), np.nan)
            channels = (np.array(x) if len(x) == len(none) else none
                        for x in (sample.position, sample.velocity))  # fmt: skip
            self._rows.append((now, sample.stamp_ns, *channels))

    def parts(self) -> list[Any]:
        return [self._names, *(zip(*self._rows, strict=True) if self._rows else [()] * 4)]


def main() -> None:
    """Record the topics of the command line, ``FILE.npz TOPIC...``, until interrupted."""
    import rclpy

    ended: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _: ended.append(caught))
    rclpy.init(args=[], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    node = rclpy.create_node("bench_recorder")
    topics = {name: _Topic(node, name) for name in sys.argv[2:]}
    print("recording", flush=True)
    while not ended:
        time.sleep(PAUSE)
        for topic in topics.values():
            topic.take()
    np.savez(sys.argv[1], **{f"{name}:{i}": np.array(part) for name, topic in topics.items()
                             for i, part in enumerate(topic.parts())})  # fmt: skip
    node.destroy_node()
    rclpy.shutdown()

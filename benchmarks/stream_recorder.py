# SPDX-License-Identifier: Apache-2.0
"""Records every joint_command until it is interrupted; a process of bench_command_stream.py.

Run: ``python stream_recorder.py FILE.npz``. Keeps the moment of arrival, the stamp, and positions
and velocities of the joints of the first message, as they came.
"""

from __future__ import annotations

import signal
import sys
import time

import numpy as np
import rclpy
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from motion_nodes.ros.concurrency.polled_subscription import PolledGroup, take_all
from motion_nodes.ros.messages.joint_samples import JointSampleReader

DEEP = QoSProfile(
    history=HistoryPolicy.KEEP_LAST, depth=5000, reliability=ReliabilityPolicy.RELIABLE
)
PAUSE = 0.05
"""[s] Between two looks; the queue holds much more."""


def main() -> None:
    """Record."""
    stop = False

    def end(_number: int, _frame: object) -> None:
        nonlocal stop
        stop = True

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    rclpy.init(signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    node = rclpy.create_node("stream_recorder")
    subscription = node.create_subscription(
        JointState, "joint_command", lambda _: None, DEEP, callback_group=PolledGroup()
    )
    reader, names = JointSampleReader(), ()
    arrived, stamps, positions, velocities = [], [], [], []
    print("ready", flush=True)
    while not stop:
        time.sleep(PAUSE)
        now = time.monotonic_ns()
        for data in take_all(subscription, raw=True):
            sample = reader.read(data)
            names = names or tuple(sample.joint_names())
            if len(sample.velocity) != len(names):
                continue
            arrived.append(now)
            stamps.append(sample.stamp_ns)
            without = np.full(len(names), np.nan)
            positions.append(np.array(sample.position) if len(sample.position) else without)
            velocities.append(np.array(sample.velocity))
    np.savez(
        sys.argv[1], names=np.array(names), arrived=np.array(arrived), stamps=np.array(stamps),
        positions=np.array(positions), velocities=np.array(velocities),
    )  # fmt: skip
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Messages of a stream whose two joints follow sines."""

import numpy as np

from motion_nodes.core.control.stream_resampler import StreamSample

T = 0.004  # [s] between two messages
FINE = 0.001  # [s] between two samples of the driver
W = np.array([3.0, 7.0])
A = np.array([0.8, 0.1])
NAN = np.full(2, np.nan)


def sine(t: float) -> tuple[np.ndarray, np.ndarray]:
    return A * np.sin(W * t), A * W * np.cos(W * t)


def message(t: float) -> StreamSample:
    return StreamSample(*sine(t), NAN)


def ns(t: float) -> int:
    return round(t * 1e9)

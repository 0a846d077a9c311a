# SPDX-License-Identifier: Apache-2.0
"""A driver session of a scripted arm, and the controller that streams to it."""

import numpy as np
from hardware.scripted_driver import ScriptedDriver

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionConfig

ROBOT = load_robot("so101")
N = len(ROBOT.joint_names)
NONE = np.full(N, np.nan)
MS = 1_000_000
BEGIN = 10_000 * MS


class Rig:
    """A session, and a controller that streams at 250 Hz."""

    def __init__(self, config: SessionConfig | None = None, rate: float = 100.0) -> None:
        self.driver = ScriptedDriver(ROBOT.joint_names, ROBOT.home, rate)
        self.session = DriverSession(self.driver, ROBOT.limits, config)
        self.now, self.stamp = BEGIN, BEGIN
        self.offset = np.zeros(N)
        self.amplitude = 0.0
        self.times: list[float] = []

    def reference(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        # Amplitude 0.3 rad, angular frequency 2 rad/s: far below the limits.
        angle = 2.0 * t
        q = ROBOT.home + self.offset + self.amplitude * (1.0 - np.cos(angle))
        return q, np.full(N, self.amplitude * 2.0 * np.sin(angle))

    def run(self, seconds: float, *, silent: bool = False, jitter: float = 0.0) -> None:
        rng = np.random.default_rng(3)
        end = self.now + round(seconds * 1e9)
        while self.now < end:
            while not silent and self.stamp <= self.now:
                q, v = self.reference((self.stamp - BEGIN) * 1e-9)
                self.session.command(self.now, self.stamp, StreamSample(q, v, NONE))
                self.stamp += 4 * MS
            self.session.step(self.now)
            self.times.append(self.now * 1e-9)
            self.now += round((1.0 + jitter * rng.uniform(-1.0, 1.0)) / self.driver.rate * 1e9)
        if silent:
            self.stamp = self.now

    def sent(self) -> np.ndarray:
        return np.array([sample.position for sample in self.driver.sent])

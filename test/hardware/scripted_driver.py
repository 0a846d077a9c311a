# SPDX-License-Identifier: Apache-2.0
"""A driver whose robot follows at once, with faults on request."""

from __future__ import annotations

import numpy as np

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.robot import Robot
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    DriverOptions,
    LinkLost,
    RobotDriver,
    RobotReading,
)


class ScriptedDriver(RobotDriver):
    """Records what it is sent."""

    modes = frozenset({"position", "velocity"})

    def __init__(self, joints: tuple[str, ...], position: np.ndarray, rate: float = 100.0) -> None:
        self.joint_names, self.rate = joints, rate
        self.position = np.array(position, dtype=float)
        self.sent: list[StreamSample] = []
        self.enabled = self.connected = False
        self.faults: tuple[str, ...] = ()
        self.broken: type[DriverFault] | None = None
        self.held = self.cleared = 0

    @classmethod
    def create(cls, robot: Robot, options: DriverOptions) -> ScriptedDriver:
        return cls(robot.joint_names, robot.home)

    def connect(self) -> None:
        self._fail()
        self.connected = True

    def read(self) -> RobotReading:
        self._fail()
        zero = np.zeros(len(self.joint_names))
        return RobotReading(self.position.copy(), zero, zero, self.faults)

    def enable(self, position: np.ndarray) -> None:
        self.enabled = True

    def write(self, reference: StreamSample) -> None:
        if self.broken is LinkLost:
            raise LinkLost("unplugged")
        self.sent.append(reference)
        np.copyto(self.position, reference.position, where=np.isfinite(reference.position))

    def hold(self) -> None:
        self.held += 1

    def disable(self) -> None:
        self.enabled = False

    def clear_faults(self) -> None:
        self.cleared += 1

    def close(self) -> None:
        self.connected = False

    def _fail(self) -> None:
        if self.broken is not None:
            raise self.broken("broken by the test")

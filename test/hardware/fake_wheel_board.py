# SPDX-License-Identifier: Apache-2.0
"""The board of a two-wheeled base on a pseudo terminal, as the firmware of the docs."""

import math

from hardware.serial_fake import SerialFake

from motion_nodes.extras.hardware.two_wheels import line, take_line

WATCHDOG_TIME = 0.2


class FakeWheelBoard(SerialFake):
    """Wheels that turn as commanded until the watchdog stops them."""

    def __init__(self) -> None:
        self.positions, self.velocities = [0.0, 0.0], [0.0, 0.0]
        self.flags = 0
        self.commands: list[float] = []
        """Velocities of the left wheel that were received [counts/s]."""
        self.enabled = self.damaged = False
        self._heard = -math.inf
        super().__init__()

    def advance(self, dt: float) -> None:
        if self.clock - self._heard > WATCHDOG_TIME:
            self.velocities = [0.0, 0.0]
            self.flags |= 1
        for i in range(2):
            self.positions[i] += self.enabled * self.velocities[i] * dt

    def take(self, buffer: bytearray) -> None:
        while (found := take_line(buffer)) is not None:
            self._handle(found.split(b"*")[0].split())

    def _handle(self, words: list[bytes]) -> None:
        if words[0] == b"W":
            self.velocities = [float(word) for word in words[1:]]
            self.commands.append(self.velocities[0])
            self._heard = self.clock
            self.flags &= ~1
        elif words[0] == b"E":
            self.enabled = words[1] == b"1"
        state = [*map(round, self.positions), *map(round, self.velocities), self.flags]
        text = line("S " + " ".join(map(str, state)))
        self.send(text.replace(b"S", b"X") if self.damaged else text)

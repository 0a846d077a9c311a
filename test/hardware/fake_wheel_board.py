# SPDX-License-Identifier: Apache-2.0
"""The board of a two-wheeled base on a pseudo terminal, as the firmware of the docs."""

from __future__ import annotations

import os
import pty
import threading
import time
import tty

from motion_nodes.hardware.two_wheels.line_protocol import line, take_line

WATCHDOG_TIME = 0.2


class FakeWheelBoard:
    """Wheels that turn as commanded until the watchdog stops them."""

    def __init__(self) -> None:
        self.positions, self.velocities = [0.0, 0.0], [0.0, 0.0]
        self.flags = 0
        self.enabled = self.damaged = False
        self._heard = 0.0
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self.device = os.ttyname(self._slave)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            os.close(self._slave)
            os.close(self._master)

    def _run(self) -> None:
        buffer, last = bytearray(), time.monotonic()
        os.set_blocking(self._master, False)
        while not self._stop.is_set():
            try:
                buffer += os.read(self._master, 4096)
            except OSError:
                time.sleep(5e-4)
            now = time.monotonic()
            if now - self._heard > WATCHDOG_TIME:
                self.velocities = [0.0, 0.0]
                self.flags |= 1
            for i in range(2):
                self.positions[i] += self.velocities[i] * (now - last)
            last = now
            while (found := take_line(buffer)) is not None:
                self._handle(found.split(b"*")[0].split())

    def _handle(self, words: list[bytes]) -> None:
        if words[0] == b"W" and self.enabled:
            self.velocities = [float(word) for word in words[1:]]
            self._heard = time.monotonic()
            self.flags &= ~1
        elif words[0] == b"E":
            self.enabled = words[1] == b"1"
        state = [*map(round, self.positions), *map(round, self.velocities), self.flags]
        text = line("S " + " ".join(map(str, state)))
        os.write(self._master, text.replace(b"S", b"X") if self.damaged else text)

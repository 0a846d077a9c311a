# SPDX-License-Identifier: Apache-2.0
"""A device on a pseudo terminal, as the far side of a serial cable."""

import os
import pty
import threading
import time
import tty

PERIOD = 1e-3
"""Min step of the device's time [s]."""
LONGEST_STEP = 0.1
"""Max step [s]: longer pauses of the process do not count."""


class SerialFake:
    """Reads bytes and advances its own time in a thread; ``device`` is the port."""

    def __init__(self) -> None:
        self.clock = 0.0
        """The device's time [s]."""
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self.device = os.ttyname(self._slave)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the device's side of the cable."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            os.close(self._slave)
            os.close(self._master)

    unplug = close

    def advance(self, dt: float) -> None:
        """Advance the device's time [s]."""

    def take(self, buffer: bytearray) -> None:
        """Remove whole messages from the received bytes and answer them."""
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        os.write(self._master, data)

    def _run(self) -> None:
        buffer, last = bytearray(), time.monotonic()
        os.set_blocking(self._master, False)
        while not self._stop.is_set():
            try:
                buffer += os.read(self._master, 4096)
            except OSError:  # Nothing to read, or nobody has opened the port.
                time.sleep(2e-4)
            now = time.monotonic()
            if now - last > PERIOD:
                dt, last = min(now - last, LONGEST_STEP), now
                self.clock += dt
                self.advance(dt)
            self.take(buffer)

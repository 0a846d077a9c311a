# SPDX-License-Identifier: Apache-2.0
"""Serial port of a servo bus, opened exclusively; errors contain a remedy."""

from __future__ import annotations

import errno
import os
import termios
import time
from typing import Any

from motion_nodes.hardware.robot_driver import DriverFault, LinkLost

WRITE_TIMEOUT = 0.1
"""[s] After this time, a port that accepts no more bytes counts as disconnected."""
PAUSE = 2e-4
"""Time between two attempts to read or write [s]."""


class SerialPort:
    """A serial port."""

    def __init__(self, device: str, baud_rate: int) -> None:
        """Create it, closed.

        Args:
            device: path of the port.
            baud_rate: [bit/s].
        """
        self._device, self._baud_rate = device, baud_rate
        self._port: Any = None

    def open(self) -> None:
        """Open the port.

        Raises:
            DriverFault: with the reason and a remedy.
        """
        try:
            import serial
        except ImportError:
            raise DriverFault(
                "pyserial is not installed: pip install 'motion-nodes[so101]'"
            ) from None
        if not self._device:
            raise DriverFault("no serial port was given; name one, such as --device /dev/ttyACM0")
        self.close()
        try:
            self._port = serial.Serial(self._device, self._baud_rate, timeout=0.0, exclusive=True)
            self._port.reset_input_buffer()
        except (OSError, ValueError, termios.error) as error:
            raise DriverFault(f"{self._device} cannot be opened: {_advice(error)}") from None

    def write(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            LinkLost: the port is disconnected.
        """
        try:
            # Not pyserial's: it fails if this process paused after the last byte was sent.
            fd, left, end = self._opened().fileno(), memoryview(data), time.monotonic()
            end += WRITE_TIMEOUT
            while True:
                late = time.monotonic() > end
                try:
                    left = left[os.write(fd, left) :]
                except BlockingIOError:
                    pass
                if not left:
                    return
                if late:
                    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
                time.sleep(PAUSE)
        except OSError as error:
            raise LinkLost(
                f"{self._device} is disconnected ({error}); is the cable plugged in?"
            ) from None

    def read(self, timeout: float) -> bytes:
        """Wait for bytes and return them; empty after a timeout [s].

        Raises:
            LinkLost: the port is disconnected.
        """
        port, end = self._opened(), time.monotonic() + timeout
        try:
            while True:
                late = time.monotonic() >= end  # before it reads: what has arrived counts
                data: bytes = port.read(4096)
                if data or late:
                    return data
                time.sleep(PAUSE)
        except OSError as error:
            raise LinkLost(
                f"{self._device} is disconnected ({error}); is the cable plugged in?"
            ) from None

    def discard_input(self) -> None:
        """Discard received bytes.

        Raises:
            LinkLost: the port is disconnected.
        """
        while self.read(0.0):
            pass

    def close(self) -> None:
        """Close the port; never raises."""
        port, self._port = self._port, None
        if port is not None:
            try:
                port.close()
            except OSError:
                pass

    def _opened(self) -> Any:
        if self._port is None:
            raise LinkLost(f"{self._device} is not open")
        return self._port


def _advice(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if number == errno.EACCES:
        return (
            "no permission. Add yourself to the group of the port, log out and in again: "
            "sudo usermod -aG dialout $USER"
        )
    if number == errno.ENOENT:
        return "it does not exist. Is the cable plugged in? List the ports: ls /dev/tty[AU]*"
    if number in (errno.EAGAIN, errno.EBUSY) or "exclusively lock" in str(error):
        return "another program has opened it; only one may drive a robot"
    return str(error)

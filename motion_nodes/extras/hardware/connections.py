# SPDX-License-Identifier: Apache-2.0
"""Connections to controllers of robots: serial ports and TCP; errors contain a remedy.

A serial port is opened exclusively.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import termios
import time
from typing import Any

from motion_nodes.extras.hardware.robot_driver import DriverFault, LinkLost

WRITE_TIMEOUT = 0.1
"""[s] After this time, a port that accepts no more bytes counts as disconnected."""
PAUSE = 2e-4
"""Time between two attempts to read or write [s]."""
CONNECT_TIMEOUT = 1.0
"""[s]"""
SEND_TIMEOUT = 0.1
"""Timeout of writes to a controller that does not read, which delays a cycle [s]."""


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


class TcpLink:
    """A connection to one port."""

    def __init__(self, host: str, port: int, service: str) -> None:
        """Create it, closed.

        Args:
            host: name or address.
            port: TCP port.
            service: name of the server, for error texts.
        """
        self._host, self._port, self._service = host, port, service
        self._socket: socket.socket | None = None

    def open(self) -> None:
        """Connect.

        Raises:
            DriverFault: with the reason and a remedy.
        """
        if not self._host:
            raise DriverFault("no address was given; name one, such as --device 192.168.0.10")
        self.close()
        try:
            made = socket.create_connection((self._host, self._port), CONNECT_TIMEOUT)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.settimeout(SEND_TIMEOUT)
        except (OSError, UnicodeError) as error:
            raise DriverFault(f"{self._where} cannot be reached: {_tcp_advice(error)}") from None
        self._socket = made

    @property
    def is_open(self) -> bool:
        """Whether the connection is open."""
        return self._socket is not None

    def write(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            LinkLost: the connection is lost.
        """
        try:
            self._opened().sendall(data)
        except OSError as error:
            raise self._lost(error) from None

    def read(self, timeout: float) -> bytes:
        """Wait for bytes and return them; empty after a timeout [s].

        Raises:
            LinkLost: the connection is lost.
        """
        opened = self._opened()
        try:
            if not select.select([opened], [], [], max(timeout, 0.0))[0]:
                return b""
            data = opened.recv(65536)
        except (OSError, ValueError) as error:
            raise self._lost(error) from None
        if not data:
            raise self._lost("closed by the controller")
        return data

    def read_line(self, buffer: bytearray, timeout: float) -> str:
        """Return one line, without its end.

        Args:
            buffer: bytes received after the previous line.
            timeout: max time to wait [s].

        Raises:
            LinkLost: the connection is lost.
            DriverFault: timeout.
        """
        end = time.monotonic() + timeout
        while (found := buffer.find(b"\n")) < 0:
            received = self.read(end - time.monotonic())
            if not received or len(buffer) > 1 << 16:
                raise DriverFault(f"{self._where} does not answer")
            buffer += received
        text = bytes(buffer[:found]).decode("utf-8", "replace").strip()
        del buffer[: found + 1]
        return text

    def close(self) -> None:
        """Close the connection; never raises."""
        made, self._socket = self._socket, None
        if made is not None:
            try:
                made.close()
            except OSError:
                pass

    @property
    def _where(self) -> str:
        return f"{self._service} at {self._host}:{self._port}"

    def _opened(self) -> socket.socket:
        if self._socket is None:
            raise LinkLost(f"{self._where} is not connected")
        return self._socket

    def _lost(self, why: object) -> LinkLost:
        return LinkLost(f"the connection to {self._where} is lost ({why}); check cable and power")


def _tcp_advice(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if isinstance(error, TimeoutError):
        return "no answer. Is the address right, and is the robot switched on?"
    if number == errno.ECONNREFUSED:
        return "connection refused. Is the service enabled on the controller?"
    if number in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "no route. Are computer and robot in one network?"
    return str(error)

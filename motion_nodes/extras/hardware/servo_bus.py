# SPDX-License-Identifier: Apache-2.0
"""Reads and writes registers of the servos on a bus, independent of the packet format."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.hardware.connections import SerialPort
from motion_nodes.extras.hardware.robot_driver import CheckResult, DriverFault, LinkLost
from motion_nodes.typing import Array

REPLY_TIMEOUT = 0.02
"""Max time to wait for the next bytes of an answer [s]; USB adapters buffer for up to 16 ms. The
timeout of a request with all its answers is five times as long."""
MAX_ID = 252
MAX_FIRST_STEP = 0.05
"""Max step of a servo to its first goal [rad of the servo]."""


def check_servo_ids(ids: Mapping[str, int]) -> None:
    """Check the ids of servos by joint.

    Raises:
        InvalidConfig: no servo, an id out of range, or two joints with the same servo.
    """
    if not ids or len(set(ids.values())) < len(ids):
        raise InvalidConfig("each joint needs a servo id of its own", field="ids")
    for joint, servo in ids.items():
        if not 0 <= servo <= MAX_ID:
            raise InvalidConfig(f"the id of {joint} is {servo}; allowed are 0 to {MAX_ID}")


def check_first_goals(joints: Sequence[str], measured: Array, goals: Array) -> None:
    """Check that servos remain where they are when their torque is switched on.

    Args:
        joints: names.
        measured: measured positions [rad of the servo], shape (n,).
        goals: first goals, within the range of each servo [rad of the servo], shape (n,).

    Raises:
        DriverFault: a servo is outside its range; it would move to the end at full speed.
    """
    beyond = np.abs(measured - goals)
    i = int(np.argmax(beyond))
    if not beyond[i] <= MAX_FIRST_STEP:
        raise DriverFault(
            f"{joints[i]} is {beyond[i]:.2f} rad of its servo outside the servo's position range; "
            "move it inside by hand, or calibrate it"
        )


def supply_results(joint: str, volts: float, celsius: float, hot: float) -> list[CheckResult]:
    """Return the findings about supply and temperature of a joint's servo.

    Args:
        joint: name.
        volts: supply [V].
        celsius: temperature [degrees C].
        hot: temperature at which the check fails [degrees C].
    """
    return [
        CheckResult(f"{joint}: supply", volts > 4.0, f"{volts:.1f} V"),
        CheckResult(f"{joint}: temperature", celsius < hot, f"{celsius:g} deg C"),
    ]


class ServoPackets(Protocol):
    """Functions that a module for a packet format provides."""

    def ping(self, servo: int, /) -> bytes:
        """Return a packet that a servo answers."""

    def read(self, servo: int, address: int, length: int, /) -> bytes:
        """Return a packet that reads consecutive registers of a servo."""

    def write(self, servo: int, address: int, data: bytes, /) -> bytes:
        """Return a packet that writes registers of a servo."""

    def sync_read(self, address: int, length: int, servos: Sequence[int], /) -> bytes:
        """Return a packet that reads the same registers of several servos."""

    def sync_write(self, address: int, values: Mapping[int, bytes], /) -> bytes:
        """Return a packet that writes registers of several servos; none answers."""

    def take_status(self, buffer: bytearray, /) -> tuple[int, int, bytes] | None:
        """Remove the first status packet: servo, error byte, parameters."""


class ServoAnswer:
    """Registers and error byte of one servo."""

    def __init__(self, error: int, data: bytes) -> None:
        self.error, self.data = error, data

    def number(self, offset: int, length: int = 2) -> int:
        """Return an unsigned register, by its offset from the first read one."""
        return int.from_bytes(self.data[offset : offset + length], "little")

    def signed(self, offset: int, length: int) -> int:
        """Return a register in two's complement."""
        return int.from_bytes(self.data[offset : offset + length], "little", signed=True)


class ServoBus:
    """Half-duplex bus with one master."""

    def __init__(
        self, port: SerialPort, packets: ServoPackets, reply_timeout: float = REPLY_TIMEOUT
    ) -> None:
        """Use a port, which is opened by :meth:`open`.

        Args:
            port: closed.
            packets: module of the bus's packets.
            reply_timeout: max time without bytes of an answer [s].
        """
        self._port, self._packets, self._reply_timeout = port, packets, reply_timeout
        self._buffer = bytearray()

    def open(self) -> None:
        """Open the port.

        Raises:
            DriverFault: with a remedy.
        """
        self._port.open()
        self._buffer.clear()

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def ping(self, servo: int) -> bool:
        """Return whether a servo answers.

        Raises:
            LinkLost: the port is disconnected.
        """
        try:
            self._request(self._packets.ping(servo), [servo], None)
        except LinkLost:
            raise
        except DriverFault:
            return False
        return True

    def require(self, servos: Iterable[tuple[str, int]], advice: str) -> None:
        """Check that the servos of joints answer.

        Args:
            servos: joint and id of each.
            advice: remedy if one does not.

        Raises:
            DriverFault: names unresponsive servos; or the port is disconnected.
        """
        missing = [f"{joint} (servo {servo})" for joint, servo in servos if not self.ping(servo)]
        if missing:
            raise DriverFault(f"no answer from {', '.join(missing)}; {advice}")

    def read(self, servo: int, address: int, length: int) -> ServoAnswer:
        """Read consecutive registers of a servo.

        Raises:
            LinkLost: the port is disconnected.
            DriverFault: no answer, or a damaged one.
        """
        return self._request(self._packets.read(servo, address, length), [servo], length)[servo]

    def read_all(self, servos: Sequence[int], address: int, length: int) -> dict[int, ServoAnswer]:
        """Read the same registers of several servos by one request.

        Raises:
            LinkLost: the port is disconnected.
            DriverFault: a servo does not answer, or its answer is damaged.
        """
        return self._request(self._packets.sync_read(address, length, servos), servos, length)

    def write(self, servo: int, address: int, data: bytes) -> int:
        """Write registers of a servo; return its error byte.

        Raises:
            LinkLost: the port is disconnected.
            DriverFault: no answer, or a damaged one.
        """
        return self._request(self._packets.write(servo, address, data), [servo])[servo].error

    def write_all(self, address: int, values: Mapping[int, bytes]) -> None:
        """Write registers of several servos by one packet, which is not acknowledged.

        Raises:
            LinkLost: the port is disconnected.
        """
        self._port.write(self._packets.sync_write(address, values))

    def send(self, packet: bytes) -> None:
        """Send a packet without waiting for an answer.

        Raises:
            LinkLost: the port is disconnected.
        """
        self._port.write(packet)

    def _request(
        self, request: bytes, servos: Sequence[int], length: int | None = 0
    ) -> dict[int, ServoAnswer]:
        self._port.discard_input()
        self._buffer.clear()
        self._port.write(request)
        answers: dict[int, ServoAnswer] = {}
        last = time.monotonic() + 5.0 * self._reply_timeout
        while len(answers) < len(servos):
            received = self._port.read(self._reply_timeout)
            self._buffer += received
            # Answers that have arrived count, even if this process paused meanwhile.
            while (status := self._packets.take_status(self._buffer)) is not None:
                servo, error, data = status
                if servo in servos and (length is None or len(data) == length):
                    answers[servo] = ServoAnswer(error, data)
            silent = [servo for servo in servos if servo not in answers]
            if silent and (not received or time.monotonic() > last):
                raise DriverFault(
                    f"servo {', '.join(map(str, silent))} does not answer; check cable and power"
                )
        return answers

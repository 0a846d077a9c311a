# SPDX-License-Identifier: Apache-2.0
"""Packets of the Feetech bus (protocol 1 of the STS and SMS series).

    FF FF id length instruction parameters... checksum       length = number of parameters + 2
    FF FF id length error parameters... checksum             checksum = ~(sum from id) & FF

Numbers are little-endian; signed ones are a magnitude with a sign bit.
Source: Feetech, "Communication Protocol User Manual".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from motion_nodes.extras.hardware.robot_driver import DriverFault

HEADER = b"\xff\xff"
BROADCAST = 0xFE
PING, READ, WRITE, SYNC_READ, SYNC_WRITE = 0x01, 0x02, 0x03, 0x82, 0x83

STATUS_BITS = {
    0x01: "voltage out of range",
    0x02: "position sensor failed",
    0x04: "overheated",
    0x08: "overcurrent",
    0x20: "overload",
}
"""Meaning of the bits of a servo's error byte."""


def checksum(data: bytes) -> int:
    """Return the checksum of the bytes from the id to the last parameter."""
    return ~sum(data) & 0xFF


def packet(servo: int, instruction: int, parameters: bytes = b"") -> bytes:
    """Return an instruction packet."""
    body = bytes([servo, len(parameters) + 2, instruction]) + parameters
    return HEADER + body + bytes([checksum(body)])


def ping(servo: int) -> bytes:
    """Return a packet that a servo answers."""
    return packet(servo, PING)


def read(servo: int, address: int, length: int) -> bytes:
    """Return a packet that reads consecutive registers of a servo."""
    return packet(servo, READ, bytes([address, length]))


def write(servo: int, address: int, data: bytes) -> bytes:
    """Return a packet that writes registers of a servo."""
    return packet(servo, WRITE, bytes([address]) + data)


def sync_write(address: int, values: Mapping[int, bytes]) -> bytes:
    """Return a packet that writes registers of several servos; no servo answers it.

    Args:
        address: of the first register.
        values: bytes by servo, of equal length.
    """
    length = len(next(iter(values.values())))
    parameters = bytes([address, length])
    parameters += b"".join(bytes([servo]) + data for servo, data in values.items())
    return packet(BROADCAST, SYNC_WRITE, parameters)


def sync_read(address: int, length: int, servos: Sequence[int]) -> bytes:
    """Return a packet that reads registers of several servos, which answer one after the other."""
    return packet(BROADCAST, SYNC_READ, bytes([address, length, *servos]))


def take_status(buffer: bytearray) -> tuple[int, int, bytes] | None:
    """Remove the first status packet, and bytes before it, from received bytes.

    Args:
        buffer: received bytes; incomplete packets remain.

    Returns:
        Servo, error byte and parameters; None if no packet is complete.

    Raises:
        DriverFault: a wrong checksum; the packet is removed.
    """
    while True:
        begin = buffer.find(HEADER)
        if begin < 0:
            # The last byte may be the start of a header.
            del buffer[: max(len(buffer) - 1, 0)]
            return None
        del buffer[:begin]
        if len(buffer) < 4:
            return None
        servo, length = buffer[2], buffer[3]
        if servo == 0xFF or length < 2:
            del buffer[0]
            continue
        if len(buffer) < length + 4:
            return None
        body, given = bytes(buffer[2 : length + 3]), buffer[length + 3]
        if checksum(body) != given:
            del buffer[:2]
            raise DriverFault(f"wrong checksum in an answer of servo {servo}")
        del buffer[: length + 4]
        return servo, body[2], body[3:]


def signed(value: int, sign_bit: int) -> int:
    """Return a number that is encoded as magnitude and sign."""
    magnitude = value & ((1 << sign_bit) - 1)
    return -magnitude if value >> sign_bit & 1 else magnitude


def status_words(error: int) -> tuple[str, ...]:
    """Return the meaning of a servo's error byte; empty if it is 0."""
    known = tuple(text for bit, text in STATUS_BITS.items() if error & bit)
    return known if known or not error else (f"error byte 0x{error:02x}",)

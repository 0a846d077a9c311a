# SPDX-License-Identifier: Apache-2.0
"""Packets of the Dynamixel protocol 2.0.

    FF FF FD 00 id length(2) instruction parameters... crc(2)     length = parameters + 3
    FF FF FD 00 id length(2) 55 error parameters... crc(2)        length = parameters + 4

Numbers are little-endian, signed ones in two's complement. From the instruction on, FD follows each
FF FF FD, so that no header occurs within a packet. Source: ROBOTIS e-Manual, "DYNAMIXEL Protocol
2.0".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from motion_nodes.extras.hardware.robot_driver import DriverFault

HEADER = b"\xff\xff\xfd\x00"
BROADCAST = 0xFE
PING, READ, WRITE, REBOOT, STATUS = 0x01, 0x02, 0x03, 0x08, 0x55
SYNC_READ, SYNC_WRITE = 0x82, 0x83
MAX_LENGTH = 512
"""Max length of a packet; longer ones are corrupt."""
ALERT = 0x80
"""Bit of the error byte: the register of hardware errors is not 0."""

HARDWARE_ERRORS = {
    0x01: "input voltage out of range",
    0x04: "overheated",
    0x08: "motor encoder failed",
    0x10: "electrical shock",
    0x20: "overload",
}
"""Meaning of the bits of the register of hardware errors."""

_ERRORS = {
    1: "the instruction failed", 2: "unknown instruction", 3: "wrong CRC in the request",
    4: "value out of range", 5: "wrong length", 6: "value beyond its limit", 7: "not writable now",
}  # fmt: skip
_STUFFED = b"\xff\xff\xfd"


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte << 8
        for _ in range(8):
            value = (value << 1) ^ 0x8005 if value & 0x8000 else value << 1
        table.append(value & 0xFFFF)
    return tuple(table)


_CRC = _crc_table()


def crc16(data: bytes) -> int:
    """Return the CRC-16 (polynomial 0x8005, start 0, not reflected) of bytes."""
    value = 0
    for byte in data:
        value = (value << 8 & 0xFFFF) ^ _CRC[value >> 8 ^ byte]
    return value


def packet(servo: int, instruction: int, parameters: bytes = b"") -> bytes:
    """Return a packet."""
    body = (bytes([instruction]) + parameters).replace(_STUFFED, _STUFFED + b"\xfd")
    head = HEADER + bytes([servo]) + _word(len(body) + 2)
    return head + body + _word(crc16(head + body))


def ping(servo: int) -> bytes:
    """Return a packet that a servo answers with its model and firmware (3 bytes)."""
    return packet(servo, PING)


def read(servo: int, address: int, length: int) -> bytes:
    """Return a packet that reads consecutive registers of a servo."""
    return packet(servo, READ, _word(address) + _word(length))


def write(servo: int, address: int, data: bytes) -> bytes:
    """Return a packet that writes registers of a servo."""
    return packet(servo, WRITE, _word(address) + data)


def reboot(servo: int) -> bytes:
    """Return a packet that restarts a servo: without hardware errors, with its torque off."""
    return packet(servo, REBOOT)


def sync_read(address: int, length: int, servos: Sequence[int]) -> bytes:
    """Return a packet that reads registers of several servos, which answer one after the other."""
    return packet(BROADCAST, SYNC_READ, _word(address) + _word(length) + bytes(servos))


def sync_write(address: int, values: Mapping[int, bytes]) -> bytes:
    """Return a packet that writes registers of several servos; no servo answers it.

    Args:
        address: of the first register.
        values: bytes by servo, of equal length.
    """
    length = len(next(iter(values.values())))
    rows = b"".join(bytes([servo]) + data for servo, data in values.items())
    return packet(BROADCAST, SYNC_WRITE, _word(address) + _word(length) + rows)


def take_status(buffer: bytearray) -> tuple[int, int, bytes] | None:
    """Remove the first status packet, and bytes before it, from received bytes.

    Args:
        buffer: received bytes; incomplete packets remain.

    Returns:
        Servo, error byte and parameters; None if no packet is complete.

    Raises:
        DriverFault: a wrong CRC; the packet is removed.
    """
    while True:
        begin = buffer.find(HEADER)
        if begin < 0:
            # The last bytes may be the start of a header.
            del buffer[: max(len(buffer) - len(HEADER) + 1, 0)]
            return None
        del buffer[:begin]
        if len(buffer) < 7:
            return None
        servo, length = buffer[4], int.from_bytes(buffer[5:7], "little")
        if not 4 <= length <= MAX_LENGTH:
            del buffer[: len(HEADER)]
            continue
        if len(buffer) < length + 7:
            return None
        whole = bytes(buffer[: length + 7])
        if crc16(whole[:-2]) != int.from_bytes(whole[-2:], "little"):
            del buffer[: len(HEADER)]
            raise DriverFault(f"wrong CRC in an answer of servo {servo}")
        del buffer[: length + 7]
        body = whole[7:-2].replace(_STUFFED + b"\xfd", _STUFFED)
        # Adapters with echo return the own requests.
        if body[0] == STATUS and len(body) >= 2:
            return servo, body[1], body[2:]


def status_words(error: int) -> tuple[str, ...]:
    """Return the meaning of a servo's error byte; empty if it is 0."""
    number = error & ~ALERT
    words = (_ERRORS.get(number, f"error {number}"),) if number else ()
    return (*words, "hardware error") if error & ALERT else words


def hardware_words(register: int) -> tuple[str, ...]:
    """Return the meaning of the register of hardware errors; empty if it is 0."""
    known = tuple(text for bit, text in HARDWARE_ERRORS.items() if register & bit)
    return known if known or not register else (f"hardware error 0x{register:02x}",)


def _word(value: int) -> bytes:
    return value.to_bytes(2, "little")

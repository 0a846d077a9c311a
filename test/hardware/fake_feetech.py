# SPDX-License-Identifier: Apache-2.0
"""Feetech servos on a pseudo terminal: answers, motion and faults of a bus."""

import math
import time
from dataclasses import dataclass, field

from hardware.serial_fake import SerialFake

COUNTS = 4096
HEADER = b"\xff\xff"


def closed(body: bytes) -> bytes:
    return HEADER + body + bytes([~sum(body) & 0xFF])


@dataclass
class FakeServo:
    """Registers of a servo that approaches its goal at a limited speed."""

    position: float
    goal: float = 0.0
    speed: float = 0.0
    torque: bool = False
    error: int = 0
    silent: bool = False
    mode: int = 0
    offset: int = 0
    low: int = 0
    high: int = COUNTS - 1
    max_speed: float = 6000.0
    """[counts/s]"""
    goals: list[tuple[float, int]] = field(default_factory=list)
    """Time and value of each goal that was received."""

    def advance(self, dt: float) -> None:
        before = self.position
        if self.torque:
            step = self.max_speed * dt
            self.position += min(max(self.goal - self.position, -step), step)
        self.speed = (self.position - before) / dt if dt > 0.0 else 0.0

    def register(self, address: int) -> int:
        def pair(value: int, sign: int) -> tuple[int, int]:
            word = (1 << sign | -value) if value < 0 else value
            return word & 0xFF, word >> 8

        table: dict[int, int] = {33: self.mode, 40: int(self.torque), 62: 120, 63: 30}
        for first, value, sign in (
            (9, self.low, 15), (11, self.high, 15), (31, self.offset, 11),
            (56, round(self.position), 15), (58, round(self.speed), 15), (60, 0, 10),
        ):  # fmt: skip
            table[first], table[first + 1] = pair(value, sign)
        return table.get(address, 0)

    def write(self, address: int, data: bytes) -> None:
        if address == 40:
            self.torque = bool(data[0])
            if self.torque and not self.goals:
                self.goal = self.position
        elif address == 42:
            self.goal = int.from_bytes(data[:2], "little")
            self.goals.append((time.monotonic(), int(self.goal)))


class FakeFeetechBus(SerialFake):
    """The servos of one bus."""

    def __init__(self, servos: dict[int, FakeServo]) -> None:
        self.servos = servos
        self.damage = 0
        """Number of answers that will have a wrong checksum."""
        self.garbage = b""
        """Sent before the next answer."""
        self.delay = 0.0
        """Before each answer [s]."""
        super().__init__()

    def advance(self, dt: float) -> None:
        for servo in self.servos.values():
            servo.advance(dt)

    def take(self, buffer: bytearray) -> None:
        while len(buffer) >= 6:
            begin = buffer.find(HEADER)
            if begin < 0 or len(buffer) < begin + 4 + buffer[begin + 3]:
                break
            end = begin + 4 + buffer[begin + 3]
            body = bytes(buffer[begin + 2 : end - 1])
            del buffer[:end]
            self._handle(body)

    def _handle(self, body: bytes) -> None:
        target, instruction, given = body[0], body[2], body[3:]
        if instruction == 0x83:
            address, length = given[0], given[1]
            for at in range(2, len(given), length + 1):
                if servo := self.servos.get(given[at]):
                    servo.write(address, given[at + 1 : at + 1 + length])
            return
        ids = list(given[2:]) if instruction == 0x82 else [target]
        for number in ids:
            servo = self.servos.get(number)
            if servo is None or servo.silent:
                continue
            data = b""
            if instruction in (0x02, 0x82):
                data = bytes(servo.register(given[0] + i) for i in range(given[1]))
            elif instruction == 0x03:
                servo.write(given[0], given[1:])
            self._answer(bytes([number, len(data) + 2, servo.error]) + data)

    def _answer(self, body: bytes) -> None:
        message = closed(body)
        if self.damage > 0:
            self.damage -= 1
            message = message[:-1] + bytes([message[-1] ^ 0x55])
        if self.delay:
            time.sleep(self.delay)
        self.send(self.garbage + message)
        self.garbage = b""


def so101_bus(**faults: object) -> FakeFeetechBus:
    """Return the bus of a calibrated SO-101 in its middle position."""
    servos = {}
    for number in range(1, 7):
        low, high = (0, COUNTS - 1) if number == 5 else (2048 - 1100, 2048 + 1100)
        middle = 0.5 * (low + high) if number < 6 else low + 300
        servos[number] = FakeServo(middle, middle, offset=number * 10, low=low, high=high)
    bus = FakeFeetechBus(servos)
    for name, value in faults.items():
        setattr(bus, name, value)
    return bus


def counts(angle: float) -> float:
    """Return an angle [rad] in counts."""
    return angle * COUNTS / (2.0 * math.pi)

# SPDX-License-Identifier: Apache-2.0
"""Dynamixel servos on a pseudo terminal: answers, motion, watchdog and faults of a bus."""

from dataclasses import dataclass, field

from hardware.serial_fake import SerialFake

COUNTS = 4096
HEADER = b"\xff\xff\xfd\x00"


def crc(data: bytes) -> int:
    """Bit by bit, as the manual defines it."""
    value = 0
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = ((value << 1) ^ 0x8005 if value & 0x8000 else value << 1) & 0xFFFF
    return value


def closed(servo: int, body: bytes) -> bytes:
    stuffed = body.replace(b"\xff\xff\xfd", b"\xff\xff\xfd\xfd")
    whole = HEADER + bytes([servo]) + (len(stuffed) + 2).to_bytes(2, "little") + stuffed
    return whole + crc(whole).to_bytes(2, "little")


@dataclass
class FakeDynamixel:
    """Registers of a servo that approaches its goal at a limited speed."""

    position: float = 2048.0
    goal: int = 2048
    speed: float = 0.0
    current: int = 100
    torque: bool = False
    mode: int = 3
    low: int = 0
    high: int = COUNTS - 1
    hardware_error: int = 0
    watchdog: int = 0
    tripped: bool = False
    silent: bool = False
    restarts: int = 0
    goals: list[int] = field(default_factory=list)

    def advance(self, dt: float, silence: float) -> None:
        if self.watchdog and silence > 0.02 * self.watchdog:
            self.tripped = True
        before = self.position
        if self.torque and not self.tripped and not self.hardware_error:
            step = 6000.0 * dt
            self.position += min(max(self.goal - self.position, -step), step)
        self.speed = (self.position - before) / dt

    def registers(self) -> bytes:
        table = bytearray(147)
        for address, size, value in (
            (0, 2, 1060), (11, 1, self.mode), (48, 4, self.high), (52, 4, self.low),
            (64, 1, self.torque), (70, 1, self.hardware_error), (98, 1, self.watchdog),
            (116, 4, self.goal), (126, 2, self.current),
            (128, 4, round(self.speed / COUNTS * 60.0 / 0.229)), (132, 4, round(self.position)),
            (144, 2, 120), (146, 1, 30),
        ):  # fmt: skip
            table[address : address + size] = int(value).to_bytes(size, "little", signed=value < 0)
        return bytes(table)

    def write(self, address: int, data: bytes) -> int:
        """Write to the register at an address; return the error number."""
        value = int.from_bytes(data, "little", signed=len(data) == 4)
        if address == 64:
            self.torque = bool(value) and not self.hardware_error
            self.goal = round(self.position)
            return 0 if self.torque == bool(value) else 1
        if address == 98:
            self.watchdog, self.tripped = value, False
        elif address == 116:
            if self.tripped:
                return 7
            if self.mode == 3 and not self.low <= value <= self.high:
                return 4
            self.goal = value
            self.goals.append(value)
        return 0

    def restart(self) -> None:
        self.hardware_error, self.torque, self.watchdog, self.tripped = 0, False, 0, False
        self.restarts += 1


class FakeDynamixelBus(SerialFake):
    """The servos of one bus."""

    def __init__(self, servos: dict[int, FakeDynamixel]) -> None:
        self.servos = servos
        self.damage = 0
        """Number of answers that will have a wrong CRC."""
        self.garbage = b""
        """Sent before the next answer."""
        self.echo = False
        """Sends back what it receives, as some adapters do."""
        self.written = 0
        """Number of packets that write to several servos."""
        self._heard = 0.0
        super().__init__()

    def advance(self, dt: float) -> None:
        for servo in self.servos.values():
            servo.advance(dt, self.clock - self._heard)

    def take(self, buffer: bytearray) -> None:
        while len(buffer) >= 10:
            assert buffer.startswith(HEADER), bytes(buffer)
            end = 7 + int.from_bytes(buffer[5:7], "little")
            if len(buffer) < end:
                break
            whole = bytes(buffer[:end])
            del buffer[:end]
            assert crc(whole[:-2]).to_bytes(2, "little") == whole[-2:]
            if self.echo:
                self.send(whole)
            self._heard = self.clock
            body = whole[7:-2].replace(b"\xff\xff\xfd\xfd", b"\xff\xff\xfd")
            self._handle(whole[4], body[0], body[1:])

    def _handle(self, target: int, instruction: int, given: bytes) -> None:
        first, second = (int.from_bytes(given[i : i + 2], "little") for i in (0, 2))
        if instruction == 0x83:
            self.written += 1
            for at in range(4, len(given), second + 1):
                if servo := self.servos.get(given[at]):
                    servo.write(first, given[at + 1 : at + 1 + second])
            return
        for number in given[4:] if instruction == 0x82 else [target]:
            servo = self.servos.get(number)
            if servo is None or servo.silent:
                continue
            error, data = 0, b""
            if instruction in (0x02, 0x82):
                data = servo.registers()[first : first + second]
            elif instruction == 0x03:
                error = servo.write(first, given[2:])
            elif instruction == 0x08:
                servo.restart()
            elif instruction == 0x01:
                data = b"\x24\x04\x2d"
            self._answer(number, error | (0x80 if servo.hardware_error else 0), data)

    def _answer(self, servo: int, error: int, data: bytes) -> None:
        message = closed(servo, bytes([0x55, error]) + data)
        if self.damage > 0:
            self.damage -= 1
            message = message[:-1] + bytes([message[-1] ^ 0x55])
        self.send(self.garbage + message)
        self.garbage = b""

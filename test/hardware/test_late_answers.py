# SPDX-License-Identifier: Apache-2.0
"""A driver whose process paused uses what arrived meanwhile."""

from __future__ import annotations

import os
import time

import pytest
from hardware.fake_wheel_board import FakeWheelBoard

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.hardware import feetech_packets
from motion_nodes.extras.hardware.connections import WRITE_TIMEOUT, SerialPort
from motion_nodes.extras.hardware.robot_driver import DriverFault, DriverOptions, LinkLost
from motion_nodes.extras.hardware.servo_bus import ServoBus
from motion_nodes.extras.hardware.two_wheels import TwoWheelsDriver, line

WHEELS = {"left": "left_wheel_joint", "right": "right_wheel_joint", "counts_per_turn": 1440.0}


class LatePort:
    """A port of which each read takes longer than the timeouts of the reader."""

    def __init__(self, received: bytes) -> None:
        self.received = received

    def discard_input(self) -> None: ...

    def write(self, data: bytes) -> None: ...

    def read(self, timeout: float) -> bytes:
        time.sleep(timeout + 0.1)
        return self.received


def driver_on(port: LatePort) -> TwoWheelsDriver:
    settings = WHEELS | {"reply_timeout": 0.05}
    made = TwoWheelsDriver.create(load_robot("jetbot"), DriverOptions(settings=settings))
    made._port = port
    return made


def test_an_answer_that_is_read_late_counts():
    driver_on(LatePort(line("S 1 2 3 4 0"))).disable()


def test_servos_that_are_read_late_have_answered():
    answers = b"".join(feetech_packets.packet(servo, 0, bytes([servo, 0])) for servo in (1, 2))
    bus = ServoBus(LatePort(answers), feetech_packets, reply_timeout=0.01)
    found = bus.read_all((1, 2), 56, 2)
    assert {servo: answer.number(0) for servo, answer in found.items()} == {1: 1, 2: 2}
    with pytest.raises(DriverFault):
        bus.read_all((1, 3), 56, 2)


def test_late_bytes_without_an_answer_are_a_fault():
    with pytest.raises(DriverFault):
        driver_on(LatePort(b"S 1 2 3")).disable()


@pytest.fixture
def port():
    board = FakeWheelBoard()
    port = SerialPort(board.device, 115200)
    port.open()
    yield port
    port.close()
    board.close()


def test_a_pause_after_the_last_byte_is_no_lost_link(port, monkeypatch):
    write = os.write

    def slow(fd: int, data: bytes) -> int:
        count = write(fd, data)
        time.sleep(1.5 * WRITE_TIMEOUT)
        return count

    monkeypatch.setattr(os, "write", slow)
    port.write(line("E 0"))


def test_a_port_that_accepts_nothing_is_a_lost_link(port, monkeypatch):
    def full(fd: int, data: bytes) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LinkLost):
        port.write(line("E 0"))

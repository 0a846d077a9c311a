# SPDX-License-Identifier: Apache-2.0
"""Two-wheeled bases on a board, and answers that are read late."""

import math
import os
import time

import numpy as np
import pytest
from hardware.fake_wheel_board import FakeWheelBoard
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidDescription, UnknownJoint
from motion_nodes.extras.hardware import feetech_packets
from motion_nodes.extras.hardware.connections import WRITE_TIMEOUT, SerialPort
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionState
from motion_nodes.extras.hardware.robot_driver import DriverFault, DriverOptions, LinkLost
from motion_nodes.extras.hardware.servo_bus import ServoBus
from motion_nodes.extras.hardware.two_wheels import TwoWheelsDriver, line, state_in, take_line

COUNTS = 1440.0
WHEELS = {"left": "left_wheel_joint", "right": "right_wheel_joint", "counts_per_turn": COUNTS}
PATIENT = WHEELS | {"reply_timeout": 1.0}
"""The board is a thread of the test."""


@pytest.fixture
def board():
    fake = FakeWheelBoard()
    yield fake
    fake.close()


@pytest.fixture
def driver(board):
    options = DriverOptions(device=board.device, settings=PATIENT)
    made = TwoWheelsDriver.create(load_robot("jetbot"), options)
    made.connect()
    yield made
    made.close()


def speeds(left: float, right: float) -> StreamSample:
    none = np.full(2, np.nan)
    return StreamSample(none, np.array([left, right]), none)


@given(st.lists(st.integers(-(2**31), 2**31), min_size=5, max_size=5))
def test_states_round_trip(numbers):
    buffer = bytearray(line("S " + " ".join(map(str, numbers))))
    found = take_line(buffer)
    assert found is not None
    state = state_in(found)
    assert [*state.positions, *state.velocities, state.flags] == numbers


@given(st.binary(max_size=120))
def test_no_line_breaks_the_reader(data):
    buffer = bytearray(data)
    while (found := take_line(buffer)) is not None:
        try:
            state_in(found)
        except DriverFault:
            continue
    assert len(buffer) <= 100


def test_wheels_turn_and_are_measured(board, driver):
    driver.enable(driver.read().position)
    begin = time.monotonic()
    while time.monotonic() - begin < 0.4:
        driver.write(speeds(2.0, -1.0))
        time.sleep(0.02)
    reading = driver.read()
    assert reading.velocity == pytest.approx([2.0, -1.0], abs=2.0 * math.pi / COUNTS)
    assert reading.position[0] / reading.position[1] == pytest.approx(-2.0, rel=0.05)
    assert not reading.faults


def test_motors_are_enabled_at_rest(board, driver):
    # The board keeps the last velocity until its watchdog acts.
    driver.enable(driver.read().position)
    driver.write(speeds(20.0, 20.0))
    driver.disable()
    driver.enable(driver.read().position)
    assert driver.read().velocity == pytest.approx([0.0, 0.0])


def test_a_fault_brakes_the_wheels_without_a_step_and_the_end_stops_them(board, driver):
    robot = load_robot("jetbot")
    session = DriverSession(driver, robot.limits)
    now = 10**9

    def step(*, command: bool) -> None:
        nonlocal now
        now += 20_000_000
        if command:
            session.command(now, now, speeds(5.0, 5.0))
        session.step(now)

    while not board.commands or board.commands[-1] < 4.9 / (2.0 * math.pi) * COUNTS:
        step(command=True)
    begin = len(board.commands)
    board.flags |= 4
    step(command=True)
    assert session.state is SessionState.HOLDING
    for _ in range(50):
        step(command=False)
    braking = np.array(board.commands[begin:])
    assert (np.diff(braking) <= 0.0).all()
    assert braking[-1] == 0.0
    board.flags &= ~4
    session.reset()
    while board.commands[-1] == 0.0:
        step(command=True)
    session.close()
    assert board.commands[-1] == 0.0


def test_a_lost_link_ends_the_connection_at_once(driver, monkeypatch):
    tried = []

    def write(*_: object) -> None:
        tried.append(1)
        raise LinkLost("unplugged")

    monkeypatch.setattr(SerialPort, "write", write)
    with pytest.raises(LinkLost):
        driver.connect()
    assert len(tried) == 1


@pytest.mark.parametrize("text", ["S " + "9" * 400 + " 0 0 0 0", "S 1 2 3 4 5" + " " * 100])
def test_lines_that_are_too_long(text):
    with pytest.raises(DriverFault):
        state_in(line(text).strip(b"\n"))


def test_watchdog_of_the_board_is_checked(board, driver):
    assert [result.ok for result in driver.check()] == [True]


def test_faults_of_the_board(board, driver):
    board.flags |= 4
    assert driver.read().faults == ("the battery is low",)
    board.damaged = True
    with pytest.raises(DriverFault):
        driver.read()


def test_unplugged_board_is_a_lost_link(board, driver):
    board.close()
    with pytest.raises(LinkLost):
        driver.read()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"left": "wheel"}, UnknownJoint),
        ({"left": WHEELS["right"]}, InvalidDescription),
        ({"counts_per_turn": 0.0}, InvalidDescription),
        ({"counts_per_turn": float("inf")}, InvalidDescription),
        ({"rate": 1e9}, InvalidDescription),
    ],
)
def test_unusable_settings(changes, kind):
    with pytest.raises(kind):
        TwoWheelsDriver.create(load_robot("jetbot"), DriverOptions(settings=WHEELS | changes))


WHEELS_LATE_ANSWERS = {
    "left": "left_wheel_joint",
    "right": "right_wheel_joint",
    "counts_per_turn": 1440.0,
}


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
    settings = WHEELS_LATE_ANSWERS | {"reply_timeout": 0.05}
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

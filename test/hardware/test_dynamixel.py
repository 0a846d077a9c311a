# SPDX-License-Identifier: Apache-2.0
"""Packets and driver of Dynamixel servos, against servos on a pseudo terminal."""

import math
import time

import numpy as np
import pytest
from hardware.fake_dynamixel import FakeDynamixel, FakeDynamixelBus, closed, crc
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidDescription, UnknownJoint
from motion_nodes.extras.hardware import dynamixel_packets
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionConfig, SessionState
from motion_nodes.extras.hardware.dynamixel import DynamixelDriver
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    DriverOptions,
    LinkLost,
    available_drivers,
    check_robot,
    make_driver,
)

ROBOT = load_robot("so101")
N = len(ROBOT.joint_names)
IDS = {name: 11 + i for i, name in enumerate(ROBOT.joint_names)}
SETTINGS = {
    "ids": IDS,
    "zero": {"gripper": 1000},
    "scale": {"shoulder_lift": -1.0, "gripper": 0.5},
    "torque_per_count": {"shoulder_pan": 0.004},
    "reply_timeout": 1.0,
}
"""The bus is a thread of the test."""
NONE = np.full(N, np.nan)


@pytest.fixture
def bus():
    fake = FakeDynamixelBus({number: FakeDynamixel() for number in IDS.values()})
    fake.servos[16].position = 1000.0
    yield fake
    fake.close()


def driver_of(bus: FakeDynamixelBus, **changes: object) -> DynamixelDriver:
    options = DriverOptions(device=bus.device, settings=SETTINGS | changes)
    return DynamixelDriver.create(ROBOT, options)


@pytest.fixture
def driver(bus):
    made = driver_of(bus)
    yield made
    made.close()


def positions(value: float) -> StreamSample:
    return StreamSample(np.full(N, value), np.zeros(N), NONE)


def test_packets_of_the_manual():
    # A ping of servo 1, its answer, and a read of its position, as printed in the e-Manual.
    assert dynamixel_packets.ping(1) == bytes.fromhex("fffffd0001030001194e")
    buffer = bytearray(bytes.fromhex("fffffd000107005500060426655d"))
    assert dynamixel_packets.take_status(buffer) == (1, 0, b"\x06\x04\x26")
    assert dynamixel_packets.read(1, 132, 4) == bytes.fromhex("fffffd000107000284000400 1d15")


@pytest.mark.long
@given(st.binary(max_size=60))
def test_crc_is_that_of_its_definition(data):
    assert dynamixel_packets.crc16(data) == crc(data)


@given(
    st.binary(max_size=20),
    st.integers(0, 252),
    st.lists(st.sampled_from([0xFF, 0xFD, 0x00, 0x55]), max_size=40),
)
def test_answers_are_found_behind_garbage_whatever_they_contain(garbage, servo, data):
    clean = garbage.replace(b"\xff", b"\xfe")
    buffer = bytearray(clean + closed(servo, b"\x55\x00" + bytes(data)))
    assert dynamixel_packets.take_status(buffer) == (servo, 0, bytes(data))
    assert not buffer
    assert dynamixel_packets.packet(servo, 0x55, b"\x00" + bytes(data)) == closed(
        servo, b"\x55\x00" + bytes(data)
    )


@given(st.lists(st.sampled_from([0xFF, 0xFD, 0x00, 0x55, 0x07]), max_size=80))
def test_no_bytes_break_the_reader(data):
    buffer = bytearray(data)
    for _ in range(len(data) + 1):
        try:
            if dynamixel_packets.take_status(buffer) is None:
                break
        except DriverFault:
            continue
    assert len(buffer) <= dynamixel_packets.MAX_LENGTH + 7


def test_reads_what_servos_have(bus, driver):
    driver.connect()
    quarter = 1024.0
    bus.servos[11].position = bus.servos[12].position = 2048 + quarter
    bus.servos[16].position = 1000 + quarter
    bus.servos[11].current = -50
    reading = driver.read()
    expected = [math.pi / 2, -math.pi / 2, 0.0, 0.0, 0.0, math.pi / 4]
    assert reading.position == pytest.approx(expected, abs=1e-9)
    assert reading.effort[0] == pytest.approx(-0.2)
    assert np.isnan(reading.effort[1:]).all()
    assert not reading.faults


def test_torque_comes_with_the_measured_goal(bus, driver):
    driver.connect()
    before = [servo.position for servo in bus.servos.values()]
    driver.enable(driver.read().position)
    driver.read()
    for servo, position in zip(bus.servos.values(), before, strict=True):
        assert servo.torque
        assert max(abs(goal - position) for goal in servo.goals) <= 1
        assert servo.watchdog == 10


def test_servos_follow_and_goals_stay_within_their_limits(bus, driver):
    for servo in bus.servos.values():
        servo.low, servo.high = 900, 3100
    driver.connect()
    driver.enable(driver.read().position)
    driver.write(positions(0.3))
    driver.read()
    assert bus.servos[11].goal == round(2048 + 0.3 * 4096 / (2 * math.pi))
    assert bus.servos[12].goal == round(2048 - 0.3 * 4096 / (2 * math.pi))
    driver.write(positions(1e300))
    driver.read()
    assert [servo.goal for servo in bus.servos.values()] == [3100, 900, 3100, 3100, 3100, 3100]


def test_session_moves_the_servos(bus, driver):
    config = SessionConfig(command_timeout=2.0, max_jump=1.0)
    session = DriverSession(driver, ROBOT.limits, config)
    now, t, end = time.monotonic_ns(), 0.0, time.monotonic() + 60.0
    while time.monotonic() < end and abs(bus.servos[13].position - 2048) < 100:
        # Simulated time: pauses of this process are no steps of the goals.
        now += 5_000_000
        t = t + 0.005 if session.state is SessionState.ENABLED else 0.0
        q = np.zeros(N)
        q[2] = 0.2 * (1.0 - math.cos(t))
        session.command(now, now, StreamSample(q, np.zeros(N), NONE))
        session.step(now)
        time.sleep(0.005)
    assert abs(bus.servos[13].position - 2048) >= 100, session.waiting
    assert np.abs(np.diff(bus.servos[13].goals)).max() < 60


@pytest.mark.parametrize("again", ["enable", "write"])
def test_silence_stops_the_servos_and_the_next_goals_move_them(bus, driver, again):
    driver.connect()
    driver.enable(driver.read().position)
    end = time.monotonic() + 60.0
    while not all(servo.tripped for servo in bus.servos.values()):
        assert time.monotonic() < end
        time.sleep(0.02)
    if again == "enable":
        driver.enable(driver.read().position)
    driver.write(positions(0.1))
    driver.read()
    assert not any(servo.tripped for servo in bus.servos.values())
    assert bus.servos[11].goal == round(2048 + 0.1 * 4096 / (2 * math.pi))


def test_damaged_answers_and_garbage_pass(bus, driver):
    driver.connect()
    bus.damage = 1
    with pytest.raises(DriverFault):
        driver.read()
    bus.garbage = b"\xff\xff\xfd\x00\x01\xff\xff\xff\xfd"
    driver.read()


def test_adapters_that_echo(bus, driver):
    bus.echo = True
    driver.connect()
    driver.enable(driver.read().position)
    assert driver.read().position == pytest.approx(np.zeros(N), abs=1e-9)


def test_silent_servo_is_named(bus):
    bus.servos[14].silent = True
    with pytest.raises(DriverFault, match="wrist_flex"):
        driver_of(bus, reply_timeout=0.05).connect()


def test_no_torque_outside_the_position_limits(bus, driver):
    # The servo would move to its limit at full speed.
    servo = bus.servos[13]
    servo.low, servo.high = 1000, 3000
    servo.position = 3400.0
    driver.connect()
    with pytest.raises(DriverFault, match="elbow_flex"):
        driver.enable(driver.read().position)
    assert not any(servo.torque for servo in bus.servos.values())
    servo.position = 3005.0
    driver.enable(driver.read().position)
    assert servo.torque


def test_without_a_watchdog_only_goals_are_written(bus):
    driver = driver_of(bus, watchdog=0.0)
    driver.connect()
    driver.enable(driver.read().position)
    driver.read()
    written = bus.written
    for _ in range(5):
        driver.write(StreamSample(np.zeros(N), np.zeros(N), np.full(N, np.nan)))
        driver.read()
    assert bus.written == written + 5
    driver.close()


def test_other_operating_modes_are_refused(bus, driver):
    bus.servos[12].mode = 1
    with pytest.raises(DriverFault, match="shoulder_lift"):
        driver.connect()


def test_unplugged_cable_is_a_lost_link(bus, driver):
    driver.connect()
    bus.unplug()
    with pytest.raises(LinkLost):
        driver.read()


def test_overload_is_reported_with_its_joint_and_left_by_a_restart(bus, driver):
    driver.connect()
    bus.servos[13].hardware_error = 0x20
    assert driver.read().faults == ("elbow_flex: overload",)
    with pytest.raises(DriverFault, match="elbow_flex"):
        driver.enable(driver.read().position)
    driver.clear_faults()
    assert not driver.read().faults
    assert [servo.restarts for servo in bus.servos.values()] == [0, 0, 1, 0, 0, 0]


def test_check_finds_a_working_arm(bus):
    driver = driver_of(bus, rate=5.0)
    assert {r.what for r in check_robot(driver, ROBOT.limits) if not r.ok} <= {"bus"}
    driver.close()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"ids": {"shoulder_pan": 1, "shoulder_lift": 1}}, InvalidDescription),
        ({"ids": {}}, InvalidDescription),
        ({"ids": {"elbow": 1}}, UnknownJoint),
        ({"zero": {"elbow": 1}}, UnknownJoint),
        ({"ids": {"shoulder_pan": 253}}, InvalidDescription),
        ({"scale": {"gripper": 0.0}}, InvalidDescription),
        ({"scale": {"gripper": float("nan")}}, InvalidDescription),
        ({"rate": float("inf")}, InvalidDescription),
        ({"watchdog": 9.0}, InvalidDescription),
    ],
)
def test_unusable_settings(changes, kind):
    with pytest.raises(kind):
        DynamixelDriver.create(ROBOT, DriverOptions(settings=SETTINGS | changes))
    assert "dynamixel" in available_drivers()


def test_open_manipulator_x_has_its_servos():
    robot = load_robot("open_manipulator_x")
    fake = FakeDynamixelBus({number: FakeDynamixel() for number in range(11, 16)})
    driver = make_driver(robot, device=fake.device)
    driver.connect()
    assert driver.joint_names == robot.joint_names
    fake.servos[12].position = 2048 + 1024
    fake.servos[15].position = 2048 - 1000
    position = driver.read().position
    assert position == pytest.approx([0.0, math.pi / 2, 0.0, 0.0, 0.01763], abs=1e-5)
    driver.close()
    fake.close()

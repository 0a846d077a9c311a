# SPDX-License-Identifier: Apache-2.0
"""Packets, calibration and driver of Feetech servos, against servos on a pseudo terminal."""

import json
import math
import termios

import numpy as np
import pytest
from hardware.fake_feetech import FakeFeetechBus, counts, so101_bus
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig, InvalidDescription, UnknownJoint
from motion_nodes.extras.hardware import feetech_packets
from motion_nodes.extras.hardware.feetech import FeetechDriver, ServoCalibration, read_calibration
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    DriverOptions,
    LinkLost,
    available_drivers,
    make_driver,
)

ROBOT = load_robot("so101")
SETTINGS = dict(ROBOT.description.hardware.settings) | {"reply_timeout": 1.0}
"""The bus is a thread of the test."""


@pytest.fixture
def bus():
    fake = so101_bus()
    yield fake
    fake.close()


def driver_of(bus: FakeFeetechBus, calibration: str = "") -> FeetechDriver:
    options = DriverOptions(device=bus.device, calibration=calibration, settings=SETTINGS)
    return FeetechDriver.create(ROBOT, options)


@pytest.fixture
def driver(bus):
    made = driver_of(bus)
    yield made
    made.close()


def test_packet_of_the_manual():
    # A ping of servo 1, and its answer, as printed in the protocol manual.
    assert feetech_packets.packet(1, feetech_packets.PING) == bytes.fromhex("ffff010201fb")
    buffer = bytearray(bytes.fromhex("ffff010200fc"))
    assert feetech_packets.take_status(buffer) == (1, 0, b"")
    assert not buffer


@given(st.binary(max_size=30), st.integers(0, 252), st.binary(max_size=20))
def test_answers_are_found_behind_garbage(garbage, servo, data):
    body = bytes([servo, len(data) + 2, 0]) + data
    answer = feetech_packets.HEADER + body + bytes([feetech_packets.checksum(body)])
    clean = garbage.replace(b"\xff", b"\xfe")
    found = feetech_packets.take_status(buffer := bytearray(clean + answer))
    assert found == (servo, 0, data)
    assert not buffer


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data):
    buffer = bytearray(data)
    for _ in range(len(data) + 1):
        try:
            if feetech_packets.take_status(buffer) is None:
                break
        except DriverFault:
            continue
    assert len(buffer) <= 260


@given(st.integers(-2047, 2047))
def test_numbers_are_encoded_as_magnitude_and_sign(value):
    assert feetech_packets.signed(abs(value) + 2048 * (value < 0), 11) == value


@given(st.floats(-1.6, 1.6), st.booleans(), st.booleans())
def test_angles_round_trip(angle, backwards, at_min):
    mine = ServoCalibration(1, 0, 900, 3100, backwards, at_min)
    low, high = sorted((mine.angle(900), mine.angle(3100)))
    expected = min(max(angle, low), high)
    assert mine.angle(mine.counts(angle)) == pytest.approx(expected, abs=2.0 * math.pi / 4096)


def test_reads_what_servos_have(bus, driver):
    driver.connect()
    bus.servos[2].position = 2048 + counts(0.5)
    reading = driver.read()
    assert reading.position[1] == pytest.approx(0.5, abs=1e-3)
    assert reading.position[5] == pytest.approx(300 * 2 * math.pi / 4096, abs=1e-3)
    assert np.isfinite(reading.effort).all()
    assert not reading.faults


def test_torque_comes_with_the_measured_goal(bus, driver):
    driver.connect()
    before = [servo.position for servo in bus.servos.values()]
    driver.enable(driver.read().position)
    for servo, position in zip(bus.servos.values(), before, strict=True):
        assert servo.torque
        assert abs(servo.goals[0][1] - position) <= 1


@pytest.mark.parametrize("turned", [-400.0, 400.0])
def test_no_torque_outside_the_calibrated_range(bus, driver, turned):
    # The servo would move to the end of its range at full speed.
    driver.connect()
    servo = bus.servos[3]
    servo.position = (servo.high if turned > 0.0 else servo.low) + turned
    with pytest.raises(DriverFault, match="elbow_flex"):
        driver.enable(driver.read().position)
    assert not any(servo.torque for servo in bus.servos.values())
    servo.position = servo.high + 5.0
    driver.enable(driver.read().position)
    assert servo.torque


def test_a_servo_in_another_mode_is_refused(bus, driver):
    bus.servos[2].mode = 3  # goals would be relative
    with pytest.raises(DriverFault, match="shoulder_lift"):
        driver.connect()


def test_a_reset_switches_torque_on_only_where_it_clears_a_fault(bus, driver):
    driver.connect()
    driver.clear_faults()
    assert not any(servo.torque for servo in bus.servos.values())
    bus.servos[3].error = 0x20
    driver.clear_faults()
    assert [servo.torque for servo in bus.servos.values()] == [i == 3 for i in bus.servos]


def test_goals_are_clamped_to_the_calibrated_range(bus, driver):
    driver.connect()
    driver.write(StreamSample(np.full(6, 10.0), np.zeros(6), np.full(6, np.nan)))
    driver.read()
    assert all(s.low <= s.goals[-1][1] <= s.high for s in bus.servos.values())


def test_one_damaged_answer_is_a_fault_that_passes(bus, driver):
    driver.connect()
    bus.damage = 1
    with pytest.raises(DriverFault):
        driver.read()
    bus.garbage = b"\xff\x00\xff\xff"
    driver.read()


def test_silent_servo_is_named(bus, driver):
    bus.servos[4].silent = True
    with pytest.raises(DriverFault, match="wrist_flex"):
        driver.connect()


def test_unplugged_cable_is_a_lost_link(bus, driver):
    driver.connect()
    bus.unplug()
    with pytest.raises(LinkLost):
        driver.read()


def test_overload_is_reported_with_its_joint(bus, driver):
    driver.connect()
    bus.servos[3].error = 0x20
    assert driver.read().faults == ("elbow_flex: overload",)


def test_port_is_opened_by_one_program_alone(bus, driver):
    driver.connect()
    second = driver_of(bus)
    with pytest.raises(DriverFault):
        second.connect()


def test_a_driver_without_a_device_is_not_made():
    with pytest.raises(InvalidConfig) as caught:
        make_driver(ROBOT)
    assert caught.value.field == "device"


@pytest.mark.parametrize("device", ["/dev/does_not_exist", "/dev/null"])
def test_ports_that_are_none(device):
    with pytest.raises(DriverFault):
        make_driver(ROBOT, device=device).connect()


def _calibration(bus: FakeFeetechBus, **changes: object) -> dict[str, dict[str, object]]:
    names = ROBOT.joint_names
    return {
        name: {
            "id": i, "drive_mode": 0, "homing_offset": servo.offset,
            "range_min": servo.low, "range_max": servo.high,
        } | changes
        for name, (i, servo) in zip(names, bus.servos.items(), strict=True)
    }  # fmt: skip


def test_calibration_file_of_lerobot(bus, tmp_path):
    file = tmp_path / "arm.json"
    file.write_text(json.dumps(_calibration(bus)))
    driver = driver_of(bus, str(file))
    driver.connect()
    assert np.allclose(driver.read().position[:5], 0.0, atol=2e-3)
    driver.close()


def test_calibration_of_another_arm_is_refused(bus, tmp_path):
    file = tmp_path / "arm.json"
    file.write_text(json.dumps(_calibration(bus, homing_offset=-7)))
    driver = driver_of(bus, str(file))
    with pytest.raises(DriverFault, match="shoulder_pan"):
        driver.connect()


def test_uncalibrated_arm_is_refused(bus, driver):
    bus.servos[1].low, bus.servos[1].high = 0, 4095
    with pytest.raises(DriverFault, match="shoulder_pan"):
        driver.connect()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", InvalidConfig),
        ("[]", InvalidConfig),
        ("{}", UnknownJoint),
        ("[" * 100_000, InvalidConfig),
        ('{"a": {"id": 1, "homing_offset": 0, "range_min": 5, "range_max": 5}}', InvalidConfig),
        ('{"a": {"id": 1, "homing_offset": 1e99, "range_min": 0, "range_max": 5}}', InvalidConfig),
        ('{"a": {"id": 2, "homing_offset": 0, "range_min": 0, "range_max": 5}}', InvalidConfig),
        ('{"a": 3}', InvalidConfig),
        ('{"a": {"id": 1, "homing_offset": 0, "range_min": -90, "range_max": -5}}', InvalidConfig),
        ('{"a": {"id": 1, "homing_offset": 0, "range_min": 0, "range_max": 5000}}', InvalidConfig),
    ],
)
def test_unusable_calibration_files(text, kind, tmp_path):
    file = tmp_path / "arm.json"
    file.write_text(text)
    with pytest.raises(kind):
        read_calibration(file, {"a": 1})


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"ids": {"shoulder_pan": 1, "shoulder_lift": 1}}, InvalidDescription),
        ({"ids": {}}, InvalidDescription),
        ({"ids": {"elbow": 1}}, UnknownJoint),
        ({"ids": {"shoulder_pan": 300}}, InvalidDescription),
        ({"ids": {"shoulder_pan": 1}, "rate": float("nan")}, InvalidDescription),
        ({"baud": 5}, InvalidDescription),
    ],
)
def test_unusable_settings(settings, kind):

    with pytest.raises(kind):
        FeetechDriver.create(ROBOT, DriverOptions(settings=settings))


@pytest.mark.parametrize("driver", sorted(set(available_drivers()) - {"feetech"}))
def test_a_calibration_file_of_a_driver_without_calibration(driver):
    with pytest.raises(InvalidConfig) as caught:
        make_driver(ROBOT, driver, device="/dev/null", calibration="arm.json")
    assert caught.value.field == "calibration"


def test_a_port_that_disappears_while_it_is_opened(monkeypatch):
    class Gone:
        def __init__(self, *_: object, **__: object) -> None: ...

        def reset_input_buffer(self) -> None:
            raise termios.error(5, "Input/output error")

        def close(self) -> None: ...

    monkeypatch.setattr("serial.Serial", Gone)
    with pytest.raises(DriverFault, match="cannot be opened"):
        make_driver(ROBOT, device="/dev/ttyACM0").connect()


def test_unknown_driver_names_the_known_ones():
    with pytest.raises(InvalidConfig, match="feetech"):
        make_driver(ROBOT, "feetec")
    assert "feetech" in available_drivers()

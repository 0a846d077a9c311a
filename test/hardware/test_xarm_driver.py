# SPDX-License-Identifier: Apache-2.0
"""The driver of xArms: the vendor's SDK against a controller on loopback."""

import re
import socket
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hardware.fake_xarm import CLEAN_ERR, MOTION_EN, MOVE_SERVOJ, SET_MODE, SET_STATE, FakeXArm
from patience import wait_until
from raised_errors import about

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig, InvalidDescription, UnknownJoint
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionConfig, SessionState
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    DriverOptions,
    LinkLost,
    available_drivers,
    check_robot,
    make_driver,
)
from motion_nodes.extras.hardware.xarm import XArmDriver, load_sdk, state_text

ROBOT = load_robot("xarm6")
READY = np.array([0.0, -0.3268, -0.5595, 0.0, 0.8863, 0.0])
NONE = np.full(6, np.nan)
PERIOD = 0.01


@pytest.fixture
def arm():
    fake = FakeXArm()
    fake.q = [*READY.tolist(), 0.0]
    yield fake
    fake.close()


def driver_of(arm: FakeXArm, robot: str = "xarm6", **settings: object) -> XArmDriver:
    patient: dict[str, object] = {"port": arm.port, "link_timeout": 1.0}
    options = DriverOptions(device="127.0.0.1", settings=patient | settings)
    return XArmDriver.create(load_robot(robot), options)


@pytest.fixture
def driver(arm):
    made = driver_of(arm)
    yield made
    made.close()


class Rig:
    """A session that is stepped with a simulated clock."""

    def __init__(self, driver: XArmDriver) -> None:
        config = SessionConfig(command_timeout=0.1, command_latency=0.02, max_jump=0.05)
        self.session = DriverSession(driver, ROBOT.limits, config)
        self.now, self.t = 10**9, 0.0
        self.amplitude, self.offset = 0.0, 0.0

    def step(self, *, command: bool = True) -> None:
        self.now += int(PERIOD * 1e9)
        if command:
            self.t += PERIOD
            q = READY + self.offset + self.amplitude * (1.0 - np.cos(2.0 * self.t))
            qd = np.full(6, 2.0 * self.amplitude * np.sin(2.0 * self.t))
            self.session.command(self.now, self.now, StreamSample(q, qd, NONE))
        self.session.step(self.now)

    def until(self, done: Callable[[], bool], what: str) -> None:
        def stepped() -> bool:
            self.step()
            return done()

        wait_until(stepped, what, pause=0.002)

    def follow(self) -> None:
        self.until(lambda: self.session.state is SessionState.ENABLED, "enabled")


# ---- messages and settings


def test_errors_are_in_the_vendors_words():
    sdk = load_sdk()
    assert "Self-Collision" in sdk.error_text(22)
    assert "lower --speed" in sdk.error_text(24)
    assert "{" not in sdk.error_text(60)
    assert "not known" in sdk.error_text(250)
    assert "Overheat" in sdk.servo_text("joint2", 15)
    assert state_text(1) == state_text(2) == ""
    assert "paused" in state_text(3)


def test_joints_are_those_of_the_arm(arm, driver):
    assert "xarm" in available_drivers()
    assert driver.joint_names == tuple(f"joint{i}" for i in range(1, 7))
    with pytest.raises(UnknownJoint, match="joint9"):
        driver_of(arm, joints=["joint9"])
    with pytest.raises(InvalidDescription, check=about("hardware.settings.joints")):
        driver_of(arm, joints=["joint1", "joint2", "joint3"])
    with pytest.raises(InvalidDescription, match="rate"):
        driver_of(arm, rate=1000.0)


def test_without_the_sdk_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarm.wrapper", None)
    with pytest.raises(InvalidConfig, match=r"motion-nodes\[xarm\]"):
        make_driver(ROBOT, "xarm", device="192.0.2.1")


# ---- connecting


def test_reads_what_the_controller_measures(arm, driver):
    before = socket.getdefaulttimeout()
    driver.connect()
    assert socket.getdefaulttimeout() == before
    reading = driver.read()
    assert reading.position == pytest.approx(READY, abs=1e-6)
    assert reading.effort == pytest.approx(np.full(6, 1.5))
    assert not reading.faults
    assert not arm.calls  # Nothing is changed before the robot is enabled.


def test_xarm_7_has_seven_joints():
    arm = FakeXArm(axes=7)
    driver = driver_of(arm, "xarm7")
    driver.connect()
    assert driver.read().position.shape == (7,)
    driver.close()
    with pytest.raises(DriverFault, match="7.*6"):
        driver_of(arm).connect()
    arm.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device_type": 9}, "Lite 6"),
        ({"firmware": "1.8.4"}, "1.8.4"),
        ({"silent": True}, "xArm"),
        ({"garbage": b"SSH-2.0-OpenSSH_9.2\r\n"}, "xArm"),
    ],
)
def test_what_is_refused_at_the_connection(arm, driver, changes, words):
    for name, value in changes.items():
        setattr(arm, name, value)
    with pytest.raises(DriverFault, match=words):
        driver.connect()


def test_addresses_that_are_none():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for host in ("", "127.0.0.1", "no host at all", "x" * 300):
        driver = XArmDriver.create(ROBOT, DriverOptions(device=host, settings={"port": port}))
        with pytest.raises(DriverFault):
            driver.connect()


def test_check_tells_errors_and_firmware(arm, driver):
    arm.fail(1)
    results = {result.what: result for result in check_robot(driver, ROBOT.limits)}
    assert "Emergency Stop Button" in results["errors"].text
    assert not results["errors"].ok
    assert results["firmware"].text == "2.3.0"
    assert not arm.calls


# ---- motion


def test_stream_reaches_the_arm_within_the_limits(arm, driver):
    rig = Rig(driver)
    rig.follow()
    functions = [function for function, _ in arm.calls]
    assert functions[-3:] == [MOTION_EN, SET_MODE, SET_STATE]
    assert MOVE_SERVOJ not in functions
    rig.t, rig.amplitude = 0.0, 0.2
    rig.until(lambda: arm.q[0] > 0.39, "the motion")
    sent = np.array([target[:6] for _, target in arm.targets])
    assert np.abs(sent[0] - READY).max() < 1e-3
    assert np.ptp(sent - READY, axis=1).max() < 1e-3
    velocity = np.diff(sent, axis=0) / PERIOD
    assert (np.abs(velocity) <= ROBOT.limits.velocity + 1e-4).all()
    acceleration = np.abs(np.diff(velocity, axis=0)) / PERIOD
    # Positions are sent in single precision: 3e-8 rad.
    assert acceleration.max() <= ROBOT.limits.acceleration.max() + 5e-3
    assert not arm.error


def test_jump_of_the_references_is_braked_and_reset(arm, driver):
    rig = Rig(driver)
    rig.follow()
    for _ in range(20):
        rig.step()
    rig.offset = 1.0
    rig.until(lambda: bool(rig.session.fault), "the fault")
    assert "jumped" in rig.session.fault
    assert max(abs(q - r) for q, r in zip(arm.q, READY, strict=False)) < 0.01
    assert not arm.error
    rig.offset = 0.0
    rig.session.reset()
    rig.follow()


def test_commands_that_stay_away_leave_the_arm_at_rest(arm, driver):
    rig = Rig(driver)
    rig.follow()
    rig.t, rig.amplitude = 0.0, 0.2
    rig.until(lambda: arm.q[0] > 0.1, "the motion")
    for _ in range(100):
        rig.step(command=False)
    last = np.array([target for _, target in arm.targets[-3:]])
    assert np.ptp(last, axis=0).max() < 1e-6
    assert "braked" in rig.session.waiting
    assert not rig.session.fault


# ---- faults


def test_error_of_the_controller_needs_a_reset(arm, driver):
    rig = Rig(driver)
    rig.follow()
    arm.fail(31)
    rig.until(lambda: bool(rig.session.fault), "the fault")
    assert "Collision Caused Abnormal Current" in rig.session.fault
    targets = len(arm.targets)
    for _ in range(20):
        rig.step()
    assert len(arm.targets) == targets
    assert CLEAN_ERR not in [function for function, _ in arm.calls]
    arm.stuck = True
    with pytest.raises(DriverFault):
        rig.session.reset()
    arm.stuck = False
    rig.session.reset()
    rig.follow()
    rig.until(lambda: len(arm.targets) > targets, "targets again")


def test_servo_error_names_the_joint(arm, driver):
    rig = Rig(driver)
    rig.follow()
    arm.servo_errors = {2: 15}
    arm.fail(12)
    rig.until(lambda: bool(rig.session.fault), "the fault")
    assert "joint2: servo error 15, Joints Overheat" in rig.session.fault


def test_stop_by_another_program_is_a_fault(arm, driver):
    rig = Rig(driver)
    rig.follow()
    arm.state = 4
    rig.until(lambda: bool(rig.session.fault), "the fault")
    assert "stopped (state 4)" in rig.session.fault
    rig.session.reset()
    rig.follow()


def test_disable_switches_the_motors_off(arm, driver):
    rig = Rig(driver)
    rig.follow()
    rig.session.disable()
    assert arm.calls[-2:] == [(SET_STATE, b"\x04"), (MOTION_EN, b"\x08\x00")]
    assert not arm.enabled


def _cut(arm: FakeXArm) -> None:
    arm.cut()


def _garbage(arm: FakeXArm) -> None:
    arm.garbage = b"\x00\x00\xff" * 20


def _silent(arm: FakeXArm) -> None:
    arm.silent = True


@pytest.mark.parametrize("harm", [_cut, _garbage, _silent])
def test_lost_link_is_a_fault_and_is_found_again(arm, harm):
    driver = driver_of(arm, link_timeout=0.2)
    rig = Rig(driver)
    rig.follow()
    harm(arm)
    rig.until(lambda: bool(rig.session.fault), "a fault")
    assert re.search("does not answer|not connected", rig.session.fault)
    arm.silent = False
    rig.until(lambda: rig.session.reading is not None, "the link again")
    assert rig.session.state is not SessionState.ENABLED
    rig.session.reset()
    rig.follow()
    driver.close()


@pytest.mark.long
def test_controller_that_is_switched_off(arm, driver):
    driver.connect()
    arm.close()
    with pytest.raises(LinkLost):
        driver.read()

# SPDX-License-Identifier: Apache-2.0
"""RTDE packages, the driver of Universal Robots and its URScript program."""

import socket
import struct
import time
from collections.abc import Callable

import numpy as np
import pytest
from hardware.fake_ur_controller import FakeUrController
from hardware.urscript import ProgramStopped, ScriptArm, as_python
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidDescription, MotionError, UnknownJoint
from motion_nodes.extras.hardware import universal_robots_controller as rtde
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionConfig, SessionState
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    DriverOptions,
    LinkLost,
    available_drivers,
    check_robot,
)
from motion_nodes.extras.hardware.universal_robots import (
    ENDS,
    FOLLOW,
    STOP,
    UniversalRobotsDriver,
    UniversalRobotsSettings,
    servo_program,
)
from motion_nodes.extras.hardware.universal_robots_controller import Recipe

ROBOT = load_robot("ur5e")
READY = [0.0, -1.571, 1.571, -1.571, -1.571, 0.0]
NONE = np.full(6, np.nan)
PATIENT = {"max_silence": 0.5, "link_timeout": 1.0}
"""The controller is a thread of the test."""
LATENESS = 0.02
"""Between the time of a cycle and its stamp, on a busy machine [s]."""


@pytest.fixture
def controller():
    fake = FakeUrController()
    fake.arm.q = list(READY)
    yield fake
    fake.close()


def driver_of(controller: FakeUrController, **settings: object) -> UniversalRobotsDriver:
    options = DriverOptions(device="127.0.0.1", settings=PATIENT | controller.settings | settings)
    return UniversalRobotsDriver.create(ROBOT, options)


@pytest.fixture
def driver(controller):
    made = driver_of(controller)
    yield made
    made.close()


def read_until_it_fails(driver: UniversalRobotsDriver) -> None:
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        driver.read()


class Rig:
    """A session that follows a stream of references at the driver's rate."""

    def __init__(self, driver: UniversalRobotsDriver) -> None:
        config = SessionConfig(command_timeout=1.0, command_latency=0.05, max_jump=1.0)
        self.session = DriverSession(driver, ROBOT.limits, config)
        self.begin = time.monotonic()
        self.amplitude = 0.0

    def until(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 60.0
        while not done():
            assert time.monotonic() < end, f"{what}: {self.session.state}, {self.session.waiting}"
            now, t = time.monotonic_ns(), time.monotonic() - self.begin
            q = np.array(READY) + self.amplitude * (1.0 - np.cos(2.0 * t))
            qd = np.full(6, self.amplitude * 2.0 * np.sin(2.0 * t))
            self.session.command(now, now, StreamSample(q, qd, NONE))
            self.session.step(now)

    def reach(self, state: SessionState) -> None:
        self.until(lambda: self.session.state is state, f"waiting for {state}")

    def follow(self, controller: FakeUrController) -> None:
        """Wait until the arm follows."""
        self.until(lambda: bool(controller.arm.targets), "the first servoj")


# ---- packages


@given(st.binary(max_size=80))
def test_no_bytes_break_the_reader(data):
    buffer = bytearray(data)
    while True:
        before = len(buffer)
        try:
            if rtde.take_package(buffer) is None:
                break
        except LinkLost:
            break
        assert len(buffer) < before


@given(st.binary(max_size=80), st.lists(st.sampled_from(["a", "b"]), max_size=3))
def test_no_answer_breaks_a_recipe(data, names):
    try:
        recipe = Recipe(names, data)
        recipe.read(data)
    except MotionError:
        pass


def test_packages_of_the_guide():
    assert rtde.package(rtde.PROTOCOL_VERSION, b"\x00\x02") == b"\x00\x05V\x00\x02"
    recipe = Recipe(("timestamp", "robot_mode"), b"\x01DOUBLE,INT32")
    payload = struct.pack(">Bdi", 1, 2.5, 7)
    assert recipe.read(payload) == {"timestamp": (2.5,), "robot_mode": (7,)}
    assert recipe.read(b"\x02") is None
    with pytest.raises(DriverFault):
        recipe.read(payload[:-1])
    assert rtde.text_in(b"\x02hi\x03abc\x01") == "hi"


# ---- connecting


def test_reads_what_the_controller_measures(controller, driver):
    driver.connect()
    reading = driver.read()
    assert reading.position == pytest.approx(READY)
    assert (reading.effort == 1.5).all()
    assert not reading.faults
    assert not controller.programs


def test_older_controllers_have_no_torques(controller):
    controller.missing = {"actual_current_as_torque"}
    driver = driver_of(controller)
    driver.connect()
    assert np.isnan(driver.read().effort).all()
    driver.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"accepts_version": False}, "PolyScope"),
        ({"missing": {"safety_status"}}, "safety_status"),
        ({"model": "UR10"}, "UR10"),
        ({"major": 3}, "125"),
    ],
)
def test_what_is_refused_at_the_connection(controller, changes, words):
    for name, value in changes.items():
        setattr(controller, name, value)
    driver = driver_of(controller)
    with pytest.raises(DriverFault, match=words):
        driver.connect()
    driver.close()


def test_second_program_is_refused(controller, driver):
    driver.connect()
    second = driver_of(controller)
    with pytest.raises(DriverFault):
        second.connect()
    second.close()


def test_cb3_at_its_own_rate():
    controller = FakeUrController(period=0.008, major=3)
    controller.arm.q = list(READY)
    rig = Rig(driver := driver_of(controller, rate=125.0))
    rig.reach(SessionState.ENABLED)
    driver.close()
    controller.close()


def test_addresses_that_are_none():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for host in ("", "127.0.0.1", "no host at all", "x" * 300):
        options = DriverOptions(device=host, settings={"rtde_port": port})
        with pytest.raises(DriverFault):
            UniversalRobotsDriver.create(ROBOT, options).connect()


def test_check_tells_what_is_missing(controller, driver):
    controller.remote, controller.robot_mode = False, 5
    failed = {r.what for r in check_robot(driver, ROBOT.limits) if not r.ok}
    assert {"external programs", "robot mode"} <= failed <= {
        "external programs", "robot mode", "bus",
    }  # fmt: skip
    assert not controller.programs


# ---- motion


@pytest.mark.long
def test_stream_reaches_servoj_within_the_limits(controller, driver):
    rig = Rig(driver)
    rig.reach(SessionState.ENABLED)
    rig.follow(controller)
    assert np.abs(np.array(controller.arm.targets) - READY).max() < 1e-3
    rig.begin = time.monotonic()
    rig.amplitude = 0.25
    rig.until(lambda: np.ptp(np.array(controller.arm.targets)[:, 0]) > 0.45, "the motion")
    sent = np.array([list(values.values()) for values in controller.received])
    limit = ROBOT.limits.velocity
    assert (np.abs(sent[:, 6:12]) <= limit).all()
    steps = np.abs(np.diff(sent[:, :6], axis=0))
    between = np.diff(sent[:, 12])[:, None]
    assert (steps <= limit * (between + LATENESS)).all()
    position = driver.read().position
    assert np.ptp(position - READY) < 0.02
    assert position[0] > 0.3
    assert len(controller.programs) == 1
    assert {"get robot model", "is in remote control"} == set(controller.orders)


def test_hold_brakes_the_arm_by_the_program(controller, driver):
    rig = Rig(driver)
    rig.follow(controller)
    rig.session.close()
    end = time.monotonic() + 30.0
    while controller.runtime != 1 and time.monotonic() < end:
        time.sleep(0.01)
    assert controller.runtime == 1
    assert controller.arm.outputs[25] == 0
    assert controller.arm.decelerations == [4.0]


def test_protective_stop_is_left_by_a_reset(controller, driver):
    rig = Rig(driver)
    rig.reach(SessionState.ENABLED)
    controller.safety = 3
    rig.reach(SessionState.HOLDING)
    assert "PROTECTIVE_STOP" in rig.session.fault
    rig.session.reset()
    assert "unlock protective stop" in controller.orders
    rig.reach(SessionState.ENABLED)
    assert len(controller.programs) == 2


def test_a_reset_without_a_fault_keeps_the_program(controller, driver):
    rig = Rig(driver)
    rig.follow(controller)
    rig.session.reset()
    programs, sent = len(controller.programs), len(controller.arm.targets)
    rig.until(lambda: len(controller.arm.targets) > sent + 1500, "it follows")
    assert (rig.session.state, rig.session.fault) == (SessionState.ENABLED, "")
    assert len(controller.programs) == programs


def test_emergency_stop_is_not_acknowledged_from_here(controller, driver):
    rig = Rig(driver)
    rig.reach(SessionState.ENABLED)
    controller.safety = 7
    rig.reach(SessionState.HOLDING)
    with pytest.raises(DriverFault, match="ROBOT_EMERGENCY_STOP"):
        rig.session.reset()
    assert "unlock protective stop" not in controller.orders


@pytest.mark.parametrize(
    ("change", "words"), [({"stop_program": True}, "pendant"), ({"robot_mode": 3}, "POWER_OFF")]
)
def test_program_that_is_stopped_is_a_fault(controller, driver, change, words):
    rig = Rig(driver)
    rig.reach(SessionState.ENABLED)
    for name, value in change.items():
        setattr(controller, name, value)
    rig.reach(SessionState.HOLDING)
    assert words in rig.session.fault


def test_commands_that_stay_away_brake_the_arm(controller, driver):
    rig = Rig(driver)
    rig.amplitude = 0.1
    rig.follow(controller)
    rig.until(lambda: bool(controller.arm.floats.get(30)), "motion")
    end = time.monotonic() + 30.0
    while not controller.arm.decelerations and time.monotonic() < end:
        time.sleep(0.01)
    assert controller.arm.outputs[25] == 2
    rig.reach(SessionState.HOLDING)
    assert "max_silence" in rig.session.fault


@pytest.mark.long
def test_robot_that_is_not_ready_says_what_to_do(controller, driver):
    rig = Rig(driver)
    controller.remote = False
    rig.until(lambda: "remote control" in rig.session.waiting, "remote control")
    controller.remote, controller.robot_mode = True, 5
    rig.until(lambda: "IDLE" in rig.session.waiting, "the robot mode")
    controller.robot_mode, controller.runtime = 7, 2
    rig.until(lambda: "a program runs" in rig.session.waiting, "the other program")
    assert not controller.programs
    controller.runtime = 1
    rig.reach(SessionState.ENABLED)


@pytest.mark.long
def test_arm_is_powered_on_where_that_is_asked_for(controller):
    controller.robot_mode = 5
    rig = Rig(driver := driver_of(controller, power_on=True))
    rig.reach(SessionState.ENABLED)
    assert "brake release" in controller.orders
    driver.close()


# ---- faults of the link


def _cut(controller: FakeUrController) -> None:
    controller.cut()


def _garbage(controller: FakeUrController) -> None:
    controller.garbage = b"\x00\x00\xff" * 20


def _silent(controller: FakeUrController) -> None:
    controller.silent = True


@pytest.mark.long
@pytest.mark.parametrize("harm", [_cut, _garbage, _silent])
def test_lost_link_ends_the_program_and_is_found_again(controller, driver, harm):
    rig = Rig(driver)
    rig.follow(controller)
    harm(controller)
    rig.until(lambda: bool(rig.session.fault), "a fault")
    controller.silent = False
    rig.until(lambda: rig.session.reading is not None, "the link again")
    rig.until(lambda: controller.runtime == 1, "the end of the program")
    assert rig.session.state is not SessionState.ENABLED
    rig.session.reset()
    rig.reach(SessionState.ENABLED)


def test_lost_link_has_its_type(controller, driver):
    driver.connect()
    controller.close()
    with pytest.raises(LinkLost):
        read_until_it_fails(driver)


# ---- settings


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"joints": ["elbow"]}, UnknownJoint),
        ({"joints": ["elbow_joint"]}, InvalidDescription),
        ({"rate": float("nan")}, InvalidDescription),
        ({"rtde_port": 70000}, InvalidDescription),
        ({"gain": 1e9}, InvalidDescription),
        ({"speed": 1}, InvalidDescription),
    ],
)
def test_unusable_settings(settings, kind):
    with pytest.raises(kind):
        UniversalRobotsDriver.create(ROBOT, DriverOptions(settings=settings))


def test_arms_with_other_numbers_of_joints():
    with pytest.raises(InvalidDescription):
        UniversalRobotsDriver.create(load_robot("franka"), DriverOptions())
    assert "ur" in available_drivers()


PERIOD = 0.002
SILENCE = 0.03
PROGRAM = servo_program(UniversalRobotsSettings(max_silence=SILENCE), [np.pi] * 6)
Command = tuple[float, np.ndarray, np.ndarray, float]
"""Arrival [s], positions [rad], velocities [rad/s], time on the sender's clock [s]."""


def swing(t: float) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities; at most 1 rad/s and 2 rad/s^2."""
    return np.full(6, 0.5 * (1.0 - np.cos(2.0 * t))), np.full(6, np.sin(2.0 * t))


class Run:
    """One run of the program; commands are registers from their arrival on."""

    def __init__(self, commands: list[Command], *, cycles: int = 5000, mode: int = FOLLOW) -> None:
        self.commands, self.last, self.now = commands, cycles, 0
        self.arm = ScriptArm(self._wait, PERIOD)
        self.arm.integers = {24: 7, 25: mode}
        self.ended = True
        try:
            self.arm.run(PROGRAM)
        except ProgramStopped:
            self.ended = False
        self.targets = np.array(self.arm.targets)

    def _wait(self) -> None:
        self.now += 1
        while self.commands and self.commands[0][0] <= self.now * PERIOD:
            _, q, qd, sent = self.commands.pop(0)
            self.arm.floats |= dict(enumerate([*q, *qd, sent], start=24))
            self.arm.integers[24] += 1
        if self.now >= self.last:
            raise ProgramStopped


def stream(times: np.ndarray, delays: np.ndarray) -> list[Command]:
    arrivals = np.maximum.accumulate(times + delays)
    clock = 1234.5
    return [(a, *swing(t), clock + t) for t, a in zip(times, arrivals, strict=True)]


def test_blocks_without_end_are_found():
    with pytest.raises(AssertionError):
        as_python(PROGRAM.replace("    end\n", "", 1))


@pytest.mark.parametrize("rate", [500.0, 250.0])
def test_motion_is_smooth_with_commands_that_come_early_and_late(rate):
    rng = np.random.default_rng(5)
    times = np.arange(0.01, 4.0, 1.0 / rate)
    delays = rng.uniform(0.0, 0.004, len(times))
    run = Run(stream(times, delays), cycles=1990)
    assert not run.ended
    velocity = np.diff(run.targets, axis=0) / PERIOD
    acceleration = np.diff(velocity, axis=0) / PERIOD
    assert np.abs(velocity).max() < 1.05
    assert np.abs(acceleration).max() < 5.0
    # On the path, with a constant delay.
    expected = np.array([swing(t)[0] for t in 0.008 + PERIOD * np.arange(len(run.targets))])
    assert np.abs(run.targets - expected).max() < 0.006


def test_a_gap_is_bridged_with_the_last_velocity():
    times = np.arange(0.01, 1.0, PERIOD)
    times = times[(times < 0.5) | (times > 0.526)]
    run = Run(stream(times, np.zeros(len(times))), cycles=450)
    assert not run.ended
    velocity = np.diff(run.targets[:, 0]) / PERIOD
    assert np.abs(np.diff(velocity)).max() < 0.06


def test_silence_brakes_the_arm_and_ends_the_program():
    times = np.arange(0.01, 0.5, PERIOD)
    run = Run(stream(times, np.zeros(len(times))))
    assert run.ended
    assert ENDS[run.arm.outputs[25]]
    assert run.arm.outputs[25] == 2
    assert run.arm.decelerations == [4.0]
    assert not any(run.arm.qd)
    assert len(run.targets) < (0.5 + SILENCE) / PERIOD + 3


def test_nothing_moves_before_the_first_command_however_old_the_registers():
    run = Run([])
    assert run.ended
    assert run.arm.outputs[25] == 4
    assert not len(run.targets)


def test_an_arm_that_rests_is_given_more_time():
    rest = [(0.01, np.zeros(6), np.zeros(6), 5.0), (1.0, np.zeros(6), np.zeros(6), 5.99)]
    run = Run(list(rest), cycles=1450)
    assert not run.ended
    run = Run(list(rest))
    assert run.arm.outputs[25] == 2
    assert not run.targets.any()


def test_a_jump_is_not_followed():
    times = np.arange(0.01, 0.3, PERIOD)
    commands = stream(times, np.zeros(len(times)))
    arrival, q, qd, sent = commands[100]
    commands[100] = (arrival, q + np.eye(6)[3] * 0.1, qd, sent)
    run = Run(commands)
    assert run.ended
    assert run.arm.outputs[25] == 3
    assert np.abs(np.diff(run.targets, axis=0)).max() < 1.1 * PERIOD


def test_stop_is_obeyed():
    run = Run(stream(np.array([0.01]), np.zeros(1)), mode=STOP)
    assert run.ended
    assert run.arm.outputs[25] == 0
    assert not len(run.targets)

# SPDX-License-Identifier: Apache-2.0
"""The driver of Franka arms against a fake of franky's Python interface."""

import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from hardware.fake_franky import (
    READY,
    ControlError,
    FakeFranky,
    FrankaError,
    StopMotion,
    VersionError,
)
from patience import wait_until
from raised_errors import about

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig, InvalidDescription, UnknownJoint
from motion_nodes.extras.hardware import franka_arm as arm_module
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionConfig, SessionState
from motion_nodes.extras.hardware.franka import FrankaDriver, FrankaHand
from motion_nodes.extras.hardware.franka_arm import (
    ArmReader,
    FrankaSettings,
    control_fault,
    errors_in,
)
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    LinkLost,
    available_drivers,
    check_robot,
    make_driver,
)

ROBOT = load_robot("fr3")
NONE = np.full(9, np.nan)
SETTINGS = FrankaSettings(link_timeout=5.0)
"""A timeout for busy machines."""
OPEN = [0.04, 0.04]


@pytest.fixture
def franky(monkeypatch):
    fake = FakeFranky()
    monkeypatch.setattr(arm_module, "ARM_PORT", fake.port)
    monkeypatch.setattr(arm_module, "ArmReader", lambda *parts: ArmReader(*parts[:2], 5e-4))
    yield fake
    fake.close()


@pytest.fixture
def driver(franky):
    made = FrankaDriver(ROBOT, "127.0.0.1", SETTINGS, franky)
    yield made
    made.close()


class Rig:
    """A session that is stepped with a simulated clock."""

    def __init__(self, driver: FrankaDriver) -> None:
        config = SessionConfig(command_timeout=0.1, command_latency=0.02)
        self.session = DriverSession(driver, ROBOT.limits, config)
        self.now = 10**9
        self.q = np.array([*READY, *OPEN])

    def step(self, position: np.ndarray | None = None, *, command: bool = True) -> None:
        self.now += 4_000_000
        if command:
            q = self.q if position is None else position
            qd = np.where(np.isfinite(q), 0.0, np.nan)
            self.session.command(self.now, self.now, StreamSample(q, qd, NONE))
        self.session.step(self.now)

    def until(self, done: Callable[[], bool], what: str) -> None:
        def stepped() -> bool:
            self.step()
            return done()

        wait_until(stepped, what, pause=0.001)

    def enable(self) -> None:
        self.until(lambda: self.session.state is SessionState.ENABLED, "enabled")


# ---- messages and settings


def test_errors_in_libfrankas_words_with_what_to_do():
    text = 'libfranka: Move command aborted: motion aborted by reflex! ["joint_reflex"]\nlast 0.9'
    assert errors_in(text) == ("joint_reflex",)
    assert "joint_reflex: a joint met an external torque" in control_fault(text)
    assert "command not possible" in control_fault("libfranka: Move command rejected: command "
                                                   "not possible")  # fmt: skip
    assert "no reason given" in control_fault("")
    assert "new_error: remove the cause" in control_fault('["new_error"]')


def test_joints_are_the_seven_of_the_arm_and_the_two_of_the_hand(franky):
    assert "franka" in available_drivers()
    made = FrankaDriver(ROBOT, "h", SETTINGS, franky)
    assert made.joint_names == ROBOT.groups["arm"].joints + ROBOT.groups["gripper"].joints
    alone = FrankaDriver(ROBOT, "h", FrankaSettings(hand=False), franky)
    assert alone.joint_names == ROBOT.groups["arm"].joints
    with pytest.raises(UnknownJoint, check=about("fr3_joint_1")):
        FrankaDriver(ROBOT, "h", FrankaSettings(joints=("fr3_joint_1",)), franky)
    with pytest.raises(InvalidDescription, check=about("hardware.settings.joints")):
        FrankaDriver(load_robot("ur5e"), "h", SETTINGS, franky)
    with pytest.raises(InvalidConfig, check=about("stiffness")):
        FrankaSettings(stiffness=(-1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0))


def test_without_franky_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "franky", None)
    with pytest.raises(InvalidConfig, match=r"motion-nodes\[franka\]"):
        make_driver(ROBOT, "franka", device="192.0.2.1")


# ---- connecting


def test_reasons_why_it_does_not_connect(driver, franky):
    franky.refuses = VersionError("libfranka: Incompatible library version (server version: 5)")
    with pytest.raises(DriverFault, match="server version: 5"):
        driver.connect()
    franky.refuses, franky.hand_dead = None, True
    with pytest.raises(DriverFault, match="Franka Hand"):
        driver.connect()
    driver.close()
    panda = FrankaDriver(load_robot("franka"), "127.0.0.1", SETTINGS, franky)
    with pytest.raises(DriverFault, match="FR3.*Panda"):
        panda.connect()
    panda.close()
    franky.close()
    with pytest.raises(DriverFault, match="FCI"):
        driver.connect()


def test_check_reports_mode_kernel_and_hand(driver, franky):
    franky.mode = "UserStopped"
    results = {result.what: result for result in check_robot(driver, ROBOT.limits)}
    assert not results["robot mode"].ok
    assert "emergency stop" in results["robot mode"].text
    assert results["hand"].text == "80.0 mm open"
    assert not franky.motions  # Nothing is enabled.


# ---- motion


def test_it_follows_from_where_it_stands_and_closes_gently(driver, franky):
    rig = Rig(driver)
    rig.enable()
    assert franky.motion is not None
    assert franky.motion.references[0].q == pytest.approx(READY)
    assert 0.386 * franky.motion.arguments["max_delta_tau"] < 1.0  # Above it the robot stops.
    rig.q[3] += 0.05
    rig.until(lambda: abs(franky.q[3] - rig.q[3]) < 1e-4, "the arm at its goal")
    reading = rig.session.reading
    assert reading is not None
    assert reading.effort[:7] == pytest.approx([1.5] * 7)
    assert np.isnan(reading.effort[7:]).all()
    rig.session.close()
    assert isinstance(franky.motions[-1], StopMotion)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["steps", "nan", "gaps"])
def test_no_stream_makes_a_step(driver, franky, kind):
    rig = Rig(driver)
    rig.enable()
    assert franky.motion is not None
    random = np.random.default_rng(1)
    begin = len(franky.motion.references)
    for i in range(400):
        q = rig.q.copy()
        if kind == "steps":
            q[:7] += random.choice([-0.09, 0.09], 7)
        elif kind == "nan":
            q[random.integers(0, 9)] = np.nan
            q[3] += 0.04
        rig.step(q, command=kind != "gaps" or i % 60 < 20)
        seen = franky.reads
        wait_until(lambda seen=seen: franky.reads > seen + 1, "a reading", pause=2e-4)
    references = franky.motion.references[begin:]
    q, qd = np.array([r.q for r in references]), np.array([r.dq for r in references])
    limits = ROBOT.limits.select(ROBOT.groups["arm"].joints)
    # The arm follows at once, so that its velocity is the reference's; one period is 4 ms.
    assert (np.abs(np.diff(q, axis=0)) <= 0.0041 * limits.velocity + 1e-4).all()
    assert (np.abs(np.diff(qd, axis=0)) <= 0.0041 * limits.acceleration + 1e-3).all()


def test_a_jump_holds_the_arm_until_a_reset(driver, franky):
    rig = Rig(driver)
    rig.enable()
    far = rig.q.copy()
    far[0] += 1.0
    for _ in range(20):
        rig.step(far)
    assert "fr3_joint1 jumped" in rig.session.fault
    assert rig.session.state is SessionState.HOLDING
    assert abs(franky.q[0]) < 0.02
    rig.session.reset()
    rig.enable()


def test_torques_stay_within_the_effort_limits_when_the_arm_is_blocked(driver, franky):
    rig = Rig(driver)
    rig.enable()
    assert franky.motion is not None
    franky.follows = False
    rig.q[0] += 0.09
    rig.q[4] += 0.09
    for _ in range(100):
        rig.step()
    pushed = franky.motion.references[-1].q - franky.q
    stiffness = np.array(SETTINGS.stiffness)
    effort = ROBOT.limits.select(ROBOT.groups["arm"].joints).effort
    assert (np.abs(pushed * stiffness) <= 0.7 * effort + 1e-9).all()
    assert pushed[4] * stiffness[4] == pytest.approx(0.7 * effort[4])


def test_position_errors_shift_the_target(driver, franky):
    rig = Rig(driver)
    rig.enable()
    assert franky.motion is not None
    franky.follows = False
    franky.q = franky.q - 0.005  # As by friction.
    motion = franky.motion
    rig.until(lambda: motion.references[-1].q[0] - rig.q[0] > 0.004, "a larger torque")
    for _ in range(2000):
        rig.step()
    shift = motion.references[-1].q - rig.q[:7]
    assert (shift * SETTINGS.stiffness)[:6] == pytest.approx(SETTINGS.integral_torque)


# ---- faults


def test_a_reflex_ends_the_motion_until_a_reset_recovers(driver, franky):
    rig = Rig(driver)
    rig.enable()
    franky.reflex("joint_reflex")
    rig.until(lambda: bool(rig.session.fault), "the fault")
    assert "joint_reflex: a joint met" in rig.session.fault
    for _ in range(50):
        rig.step()
    assert franky.recoveries == 0
    assert len(franky.motions) == 1

    franky.recovery_gate.clear()  # It takes some seconds.
    rig.session.reset()
    rig.until(lambda: "recovers" in rig.session.waiting, "waiting for the recovery")
    assert len(franky.motions) == 1
    franky.recovery_gate.set()
    rig.enable()
    assert franky.recoveries == 1


def test_a_recovery_that_fails_needs_another_reset(driver, franky):
    rig = Rig(driver)
    rig.enable()
    franky.reflex("joint_position_limits_violation")
    rig.until(lambda: bool(rig.session.fault), "the fault")
    franky.recovers = False
    franky.recovery_gate.clear()
    rig.session.reset()
    franky.recovery_gate.set()
    rig.until(lambda: "does not recover" in rig.session.waiting, "the failed recovery")
    franky.errors, franky.mode, franky.recovers = [], "Idle", True  # As by hand in Desk.
    for _ in range(20):
        rig.step()
    assert rig.session.state is SessionState.MONITORING
    rig.session.reset()
    rig.enable()


def test_the_emergency_stop_is_waited_for(driver, franky):
    rig = Rig(driver)
    franky.mode = "UserStopped"
    rig.until(lambda: "release the emergency stop" in rig.session.waiting, "the words")
    franky.mode = "Idle"
    rig.enable()
    franky.motion, franky.mode = None, "UserStopped"
    franky.ended = ControlError("libfranka: Move command aborted: User Stop pressed!")
    rig.until(lambda: "User Stop pressed" in rig.session.fault, "the fault")


def test_a_lost_link_needs_a_reset(driver, franky):
    rig = Rig(driver)
    rig.enable()
    franky.dead, franky.motion = True, None
    rig.until(lambda: rig.session.state is SessionState.DISCONNECTED, "lost")
    assert "check cable" in rig.session.fault
    franky.dead, franky.mode = False, "Idle"
    rig.until(lambda: rig.session.state is SessionState.MONITORING, "connected again")
    for _ in range(20):
        rig.step()
    assert len(franky.motions) == 1
    rig.session.reset()
    rig.enable()


def test_a_state_that_does_not_change_is_a_lost_link(franky):
    settings = FrankaSettings(link_timeout=0.05)
    driver = FrankaDriver(ROBOT, "127.0.0.1", settings, franky)
    driver.connect()
    franky.stopped_clock = True

    def words() -> str:
        try:
            driver.read()
        except LinkLost as error:
            return str(error)
        return ""

    assert "no state for 0.05 s" in wait_until(words, "the lost link")
    driver.close()


def test_references_that_are_not_finite_are_refused(driver):
    driver.connect()
    with pytest.raises(DriverFault):
        driver.write(StreamSample(NONE, np.zeros(9), NONE))


# ---- hand


def test_the_hand_moves_when_its_command_rests(driver, franky):
    rig = Rig(driver)
    rig.enable()
    franky.object_width = 0.03
    rig.q[7:] = 0.0
    rig.until(lambda: bool(franky.hand_motions), "the hand closes")
    rig.until(lambda: abs(rig.session.reading.position[7] - 0.015) < 1e-6, "it holds the object")
    assert franky.hand_motions == [("grasp", pytest.approx(0.0, abs=1e-4))]

    # After a fault the commands begin where the fingers are; that releases nothing.
    rig.session.reset()
    rig.q[7:] = 0.015
    for _ in range(30):
        rig.step()
        time.sleep(0.005)
    assert len(franky.hand_motions) == 1
    rig.q[7:] = 0.04
    rig.until(lambda: len(franky.hand_motions) == 2, "the hand opens")
    assert franky.hand_motions[1] == ("move", pytest.approx(0.08, abs=1e-4))


def test_a_hand_under_way_is_stopped_at_a_fault_and_stays(driver, franky):
    rig = Rig(driver)
    rig.enable()
    franky.hand_gate.clear()
    rig.q[7:] = 0.0
    rig.until(lambda: bool(franky.hand_motions), "the hand closes")
    franky.reflex("joint_reflex")
    rig.until(lambda: franky.hand_stops == 1, "the hand is stopped")
    assert rig.session.state is SessionState.HOLDING
    # The command that the hand followed is still sent while the robot brakes.
    for _ in range(60):
        driver.write(StreamSample(rig.q, np.zeros(9), NONE))
        driver._hand.command(0.0, 0.0)
        time.sleep(0.002)
    assert franky.hand_motions == [("grasp", pytest.approx(0.0, abs=1e-4))]
    assert franky.hand_stops == 1
    assert driver._hand.problem == ""
    # After the reset it is a new command.
    driver._hand.discard()
    for _ in range(60):
        driver._hand.command(0.0, 0.0)
        time.sleep(0.002)
    rig.until(lambda: len(franky.hand_motions) == 2, "the hand closes again")


def test_a_hand_under_way_turns_when_its_command_rests_elsewhere(driver, franky):
    rig = Rig(driver)
    rig.enable()
    franky.hand_gate.clear()
    rig.q[7:] = 0.0
    rig.until(lambda: bool(franky.hand_motions), "the hand closes")
    rig.q[7:] = 0.03
    rig.until(lambda: len(franky.hand_motions) == 2, "the new motion")
    assert franky.hand_stops == 1
    assert franky.hand_motions[1][1] == pytest.approx(0.06, abs=1e-4)


def test_a_hand_that_does_not_answer_is_a_fault(driver, franky, monkeypatch):
    rig = Rig(driver)
    rig.enable()
    franky.hand_dead = True
    monkeypatch.setattr("motion_nodes.extras.hardware.franka.READ_TIMEOUT", 0.1)
    rig.until(lambda: "UDP receive: Timeout" in rig.session.fault, "the fault")
    assert rig.session.state is SessionState.HOLDING


def test_a_reset_connects_a_lost_hand_again(driver, franky, monkeypatch):
    rig = Rig(driver)
    rig.enable()
    monkeypatch.setattr("motion_nodes.extras.hardware.franka.READ_TIMEOUT", 0.2)
    franky.hand_dead = True
    rig.until(lambda: bool(rig.session.fault), "the fault")
    with pytest.raises(DriverFault, match="Hand"):
        rig.session.reset()
    franky.hand_dead, franky.width = False, 0.05
    rig.session.reset()
    rig.until(lambda: rig.session.reading.position[7] == pytest.approx(0.025), "its width")


def test_a_thread_blocked_by_the_hand_has_no_effect_after_a_new_connection():
    gate, blocked = threading.Event(), threading.Event()

    class First:
        reads = 0

        @property
        def width(self) -> float:
            self.reads += 1
            if self.reads > 1:
                blocked.set()
                gate.wait(60.0)
            return 0.01

    grippers = iter([First(), SimpleNamespace(width=0.05)])
    franky = SimpleNamespace(Exception=FrankaError, Gripper=lambda host: next(grippers))
    hand = FrankaHand(franky, "", 20.0, 0.1)
    before = set(threading.enumerate())
    hand.open()
    (thread,) = set(threading.enumerate()) - before
    assert blocked.wait(60.0)
    hand.close()
    hand.open()
    gate.set()
    thread.join(60.0)
    assert not thread.is_alive()
    assert hand.width == 0.05
    hand.close()

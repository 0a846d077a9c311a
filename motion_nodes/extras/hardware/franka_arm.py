# SPDX-License-Identifier: Apache-2.0
"""Interface to the arm's control interface (FCI), by franky.

A thread of franky computes joint torques at 1 kHz from the last reference (joint impedance with
compensation of gravity and Coriolis torques), and limits their rate of change. If a reference is
late, the target is unchanged; no reference can cause a discontinuity reflex.

Texts of modes and errors contain remedies. Source: Franka Robotics, "Franka Control Interface
documentation", libfranka ``errors.h``.

The robot is read in a thread: libfranka blocks without a timeout on an unresponsive one.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from motion_nodes.extras.hardware.connections import TcpLink
from motion_nodes.extras.hardware.robot_driver import DriverFault, LinkLost
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

RESET = "remove the cause, then reset"
_ERRORS = {
    "joint_position_limits_violation": "move the joint back by hand in guiding mode, then reset",
    "cartesian_position_limits_violation": "move the arm back by hand in guiding mode, then reset",
    "self_collision_avoidance_violation": "move the arm apart by hand in guiding mode, then reset",
    "joint_velocity_violation": "a joint was too fast; near its ends an FR3 permits less: lower "
    "--speed, then reset",
    "cartesian_velocity_violation": "the tool was too fast: lower --speed, then reset",
    "joint_reflex": "a joint met an external torque above torque_threshold: free the arm; are the "
    "hand and payload right in Desk? Then reset",
    "cartesian_reflex": "the tool met an external force above force_threshold: free the arm; are "
    "the hand and payload right in Desk? Then reset",
    "communication_constraints_violation": "the computer or the network was late: use a kernel "
    "with PREEMPT_RT and a cable without a switch, then reset",
    "power_limit_violation": "the motion needs too much power: lower --speed, then reset",
    "controller_torque_discontinuity": "lower the stiffness, then reset",
    "tau_j_range_violation": "a joint is overloaded: is the payload right in Desk? Then reset",
    "instability_detected": "lower the stiffness, then reset",
}
_MODES = {
    "UserStopped": "the robot is stopped by a person: release the emergency stop or the enabling "
    "switch, and activate FCI in Desk",
    "Guiding": "the robot is guided by hand",
    "Other": "the robot is not ready: unlock the joints and activate FCI in Desk",
}
_STARTING = "AutomaticErrorRecovery"
ARM_PORT = 1337
MAX_TORQUE_STEP = 2.0
"""Max change of a torque per cycle of 1 ms before libfranka's low-pass filter of 100 Hz [N m].

The filter passes 0.386 of it: 0.77 N m; the robot permits 1. With lower values the torques lag and
the arm oscillates after large steps."""
CONNECT_TIMEOUT = 5.0
"""[s]"""
STOP_TIMEOUT = 3.0
"""Max time of a stop until the arm is at rest [s]."""
CLOSE_TIMEOUT = 1.0
"""Max time for which closing waits for rest, if the robot responds [s]."""
REALTIME_FLAG = Path("/sys/kernel/realtime")


def errors_in(text: object) -> tuple[str, ...]:
    """Return the names of errors in libfranka's text, such as ``["joint_reflex"]``."""
    return tuple(dict.fromkeys(re.findall(r'"(\w+)"', str(text))))


def error_faults(errors: Iterable[str]) -> tuple[str, ...]:
    """Return errors as text, with remedies.

    Args:
        errors: names of libfranka's errors.
    """
    return tuple(f"{name}: {_ERRORS.get(name, RESET)}" for name in errors)


def mode_fault(mode: str) -> str:
    """Return why a mode prevents motion; empty if it does not.

    Args:
        mode: name of libfranka's RobotMode.
    """
    if mode == "Reflex":
        return f"the robot has braked by a reflex: {RESET}"
    if mode == _STARTING:
        return "the robot recovers from an error"
    return _MODES.get(mode, "")


def control_fault(text: str) -> str:
    """Return why a motion ended, from the text of libfranka's exception."""
    found = error_faults(errors_in(text))
    if found:
        return ", ".join(found)
    first = text.replace("libfranka: ", "").splitlines()[0].strip() if text.strip() else ""
    return f"the robot ended the control: {first or 'no reason given'}; {RESET}"


def error_text(error: BaseException) -> str:
    """Return the text of an exception of franky."""
    return str(error).replace("libfranka: ", "").strip() or type(error).__name__


class ArmSnapshot(NamedTuple):
    """State read at one time."""

    begin: float
    """Start time of the read, on the monotonic clock [s]."""
    state: Any
    """franky's state of the robot."""
    controlled: bool
    """Whether torques were sent to the arm."""


class ArmReader:
    """Thread of one connection; the only reader of the robot's state."""

    def __init__(self, franky: Any, robot: Any, period: float) -> None:
        """Start reading.

        Args:
            franky: the library.
            robot: franky's connection.
            period: time between two readings [s].
        """
        self._franky, self._robot, self._period = franky, robot, period
        self._was_controlled = False
        self._end = threading.Event()
        self._first = threading.Event()
        self.newest: ArmSnapshot | None = None
        """Newest snapshot; None before the first."""
        self.advanced = time.monotonic()
        """Time of the last advance of the robot's clock, on the monotonic clock [s]."""
        self.lost = ""
        """Why reading ended; empty while it runs."""
        self.end_of_control = ""
        """Why the last control ended; empty if it is active or was stopped by this driver."""
        self._thread = threading.Thread(target=self._run, name="franka_reader", daemon=True)
        self._thread.start()

    def wait(self, timeout: float) -> bool:
        """Return whether a first state arrived within a time [s]."""
        return self._first.wait(timeout) and self.newest is not None

    def expect_control(self) -> None:
        """Record the start of the control, which may end before the next reading."""
        self.end_of_control, self._was_controlled = "", True

    def stop(self) -> None:
        """End reading after the current state, without waiting for it."""
        self._end.set()

    def finish(self) -> None:
        """Wait until reading has ended."""
        self._thread.join()

    def _run(self) -> None:
        franky, robot = self._franky, self._robot
        clock = None
        try:
            while not self._end.is_set():
                begin = time.monotonic()
                state = robot.state
                controlled = bool(robot.is_in_control)
                if self._was_controlled and not controlled:
                    self.end_of_control = self._ended()
                self._was_controlled = controlled
                if (now := state.time.to_sec()) != clock:
                    clock, self.advanced = now, time.monotonic()
                self.newest = ArmSnapshot(begin, state, controlled)
                self._first.set()
                self._end.wait(self._period)
        except (franky.Exception, RuntimeError) as error:
            # Errors of libfranka's sockets arrive as RuntimeError.
            self.lost = error_text(error)
            self._first.set()

    def _ended(self) -> str:
        try:
            self._robot.join_motion(0.0)
        except (self._franky.Exception, RuntimeError) as error:
            return control_fault(error_text(error))
        return ""


@dataclass(frozen=True)
class FrankaSettings:
    """The block ``hardware.settings``.

    Raises:
        InvalidConfig: a value out of its range.
    """

    joints: tuple[str, ...] = ()
    """The seven joints from the base on; empty: those of the arm that are revolute."""
    fingers: tuple[str, ...] = ()
    """The two joints of the hand; empty: those of the gripper, if there are two."""
    hand: bool = True
    """Connect to the Franka Hand; false: no hand, its joints are not reported."""
    rate: float = setting(
        250.0, doc="Rate of the references; torques are computed from the last one at 1 kHz.",
        unit="Hz", ge=20.0, le=1000.0,
    )  # fmt: skip
    stiffness: tuple[float, float, float, float, float, float, float] = setting(
        (600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 50.0), doc="Stiffness of the joints.",
        unit="N m/rad", gt=0.0, le=2000.0,
    )  # fmt: skip
    damping: tuple[float, float, float, float, float, float, float] = setting(
        (40.0, 50.0, 40.0, 40.0, 12.0, 10.0, 5.0),
        doc="Damping of the joints; higher values cause oscillations where cycles of 1 ms are "
        "late.", unit="N m s/rad", ge=0.0, le=200.0,
    )  # fmt: skip
    integral_gain: float = setting(
        1.0,
        doc="Integral gain: rate at which position errors shift the targets, against friction and "
        "an inexact payload; 0: off.", unit="1/s", ge=0.0, le=10.0,
    )  # fmt: skip
    integral_torque: float = setting(
        4.0, doc="Max joint torque of that shift.", unit="N m", ge=0.0, le=20.0
    )
    torque_threshold: float = setting(
        20.0, doc="External torque of a joint that stops the robot.", unit="N m", gt=0.0, le=100.0
    )
    force_threshold: float = setting(
        30.0, doc="External force at the tool that stops the robot.", unit="N", gt=0.0, le=100.0
    )
    link_timeout: float = setting(
        0.2, doc="Time without a new state after which the link is lost.", unit="s", ge=0.01, le=5.0
    )
    realtime: str = setting(
        "auto",
        doc="Real-time scheduling of the 1 kHz loop: enforce, ignore, or auto: enforce on a kernel "
        "with PREEMPT_RT.",
        one_of=("auto", "enforce", "ignore"),
    )
    grasp_force: float = setting(
        20.0, doc="Force of the hand when it closes.", unit="N", gt=0.0, le=140.0
    )

    def __post_init__(self) -> None:
        check_settings(self)


class FrankaArm:
    """One robot; methods are called from one thread and never block on an unresponsive robot."""

    def __init__(self, franky: Any, host: str, settings: FrankaSettings) -> None:
        """Create it, not connected.

        Args:
            franky: the library.
            host: name or address of the robot.
            settings: gains and thresholds.
        """
        self._franky, self._host, self._settings = franky, host, settings
        self._robot: Any = None
        self._reader: ArmReader | None = None
        self._motion: Any = None
        self._lost = ""
        self._started_at = 0.0
        self._opening: threading.Thread | None = None
        self._closing: threading.Thread | None = None
        self._recovery: threading.Thread | None = None
        self._recovery_fault = ""
        self._recovered_at = 0.0
        self.model = ""
        """URDF of the robot; empty for a Panda, which does not send it."""

    @property
    def realtime(self) -> bool:
        """Whether real-time scheduling is required."""
        requested = self._settings.realtime
        return requested == "enforce" or (requested == "auto" and has_realtime_kernel())

    def open(self) -> None:
        """Connect.

        Raises:
            DriverFault: names the reason and what to do.
        """
        self.close()
        for thread in (self._opening, self._closing):
            if thread is not None and thread.is_alive():
                raise DriverFault("the last connection to the robot is being closed")
        # libfranka waits a minute for an address that does not answer.
        probe = TcpLink(self._host, ARM_PORT, "the control interface (FCI)")
        try:
            probe.open()
        except DriverFault as error:
            raise DriverFault(f"{error} Is FCI activated in Desk?") from None
        finally:
            probe.close()
        self._lost = ""
        self._connect()
        self._reader = ArmReader(self._franky, self._robot, 1.0 / self._settings.rate)
        if not self._reader.wait(CONNECT_TIMEOUT):
            raise self.give_up(f"does not answer ({self._reader.lost or 'no state'})")

    def state(self) -> Any:
        """Return franky's newest state of the robot.

        Raises:
            LinkLost: the robot does not answer, or it was not connected.
        """
        reader, silence = self._reader, self._settings.link_timeout
        if reader is None or reader.newest is None:
            raise LinkLost("the robot is not connected")
        if self._lost:
            raise LinkLost(self._lost)
        if reader.lost:
            raise self.give_up(f"does not answer ({reader.lost})")
        if time.monotonic() - reader.advanced > silence:
            raise self.give_up(f"has sent no state for {silence:g} s")
        return reader.newest.state

    def give_up(self, why: str) -> LinkLost:
        """Mark the link as lost; return the error to raise.

        Args:
            why: the symptom.
        """
        self._lost = f"the robot at {self._host} {why}; check cable and power, and FCI in Desk"
        return LinkLost(self._lost)

    @property
    def controlled(self) -> bool:
        """Whether torques are sent to the arm."""
        newest = None if self._reader is None else self._reader.newest
        if newest is None:
            return False
        return newest.controlled if newest.begin > self._started_at else self._started_at > 0.0

    @property
    def tracking(self) -> bool:
        """Whether the arm follows the targets."""
        return self._motion is not None and self.controlled

    @property
    def end_of_control(self) -> str:
        """Why the control ended; empty if it was stopped by this driver."""
        reader = self._reader
        return (reader.end_of_control if reader is not None else "") or control_fault("")

    def start(self, position: Array) -> None:
        """Start the control at a position [rad], shape (7,).

        Raises:
            DriverFault: the robot does not accept it.
        """
        franky, settings = self._franky, self._settings
        motion = franky.JointImpedanceTrackingMotion(
            stiffness=list(settings.stiffness),
            damping=list(settings.damping),
            max_delta_tau=MAX_TORQUE_STEP,
        )
        motion.set_reference(franky.JointReference(q=position))
        try:
            self._robot.move(motion, asynchronous=True)
        except (franky.Exception, RuntimeError) as error:
            raise DriverFault(control_fault(error_text(error))) from None
        self._motion, self._started_at = motion, time.monotonic()
        if self._reader is not None:
            self._reader.expect_control()

    def track(self, position: Array, velocity: Array, effort: Array) -> None:
        """Set the target.

        Args:
            position: finite positions [rad], shape (7,).
            velocity: finite velocities [rad/s], shape (7,).
            effort: finite feed-forward torques, without gravity [N m], shape (7,).
        """
        if self._motion is not None:
            target = self._franky.JointReference(q=position, dq=velocity, tau_ff=effort)
            self._motion.set_reference(target)

    def stop(self) -> None:
        """Stop the arm and end the control, without waiting."""
        if self.controlled:
            try:
                self._robot.move(self._franky.TorqueStopMotion(), asynchronous=True)
            except (self._franky.Exception, RuntimeError):
                pass  # it has just ended
        self._motion = None

    @property
    def recovering(self) -> bool:
        """Whether the automatic error recovery is active, or no newer state was received."""
        if self._recovery is not None and self._recovery.is_alive():
            return True
        newest = None if self._reader is None else self._reader.newest
        return newest is not None and newest.begin < self._recovered_at

    @property
    def recovery_fault(self) -> str:
        """Why the last recovery failed; empty if it did not."""
        return self._recovery_fault

    def recover(self) -> None:
        """Start the automatic error recovery, which takes up to several seconds."""
        if self.recovering:
            return
        self._recovery_fault = ""
        robot, franky = self._robot, self._franky

        def run() -> None:
            try:
                if not robot.recover_from_errors():
                    self._recovery_fault = "the robot does not recover: see Desk, then reset"
            except (franky.Exception, RuntimeError) as error:
                self._recovery_fault = f"the robot does not recover: {error_text(error)}"
            self._recovered_at = time.monotonic()

        self._recovery = threading.Thread(target=run, name="franka_recovery", daemon=True)
        self._recovery.start()

    def close(self) -> None:
        """Stop the arm and close the connection; never raises.

        If the robot is unresponsive, this takes seconds and continues in the background.
        """
        robot, self._robot = self._robot, None
        reader, self._reader = self._reader, None
        self._motion, self._recovery_fault, self._started_at = None, "", 0.0
        if robot is None:
            return
        # Only the thread references the connection, whose deletion closes it.
        owned, franky = [robot], self._franky
        del robot

        def run() -> None:
            last = owned.pop()
            if reader is not None:
                reader.stop()
                reader.finish()
            try:
                if last.is_in_control:
                    last.move(franky.TorqueStopMotion(), asynchronous=True)
                    last.join_motion(STOP_TIMEOUT)
            except (franky.Exception, RuntimeError):
                pass  # The robot brakes when the connection ends.

        self._closing = threading.Thread(target=run, name="franka_closing", daemon=True)
        self._closing.start()
        if not self._lost:
            self._closing.join(CLOSE_TIMEOUT)

    # ---- internal

    def _connect(self) -> None:
        """Connect in a thread, because libfranka waits without a limit."""
        franky, settings, host = self._franky, self._settings, self._host
        config = franky.RealtimeConfig
        scheduling = config.Enforce if self.realtime else config.Ignore
        made: list[Any] = []
        failed: list[Exception] = []

        def run() -> None:
            try:
                robot = franky.Robot(
                    host,
                    default_torque_threshold=settings.torque_threshold,
                    default_force_threshold=settings.force_threshold,
                    realtime_config=scheduling,
                )
                made.append((robot, str(getattr(robot, "model_urdf", "") or "")))
            except (franky.Exception, RuntimeError) as error:
                failed.append(error)

        self._opening = threading.Thread(target=run, name="franka_opening", daemon=True)
        self._opening.start()
        self._opening.join(CONNECT_TIMEOUT)
        if failed and isinstance(failed[0], franky.IncompatibleVersionException):
            raise DriverFault(
                f"{error_text(failed[0])}. Install franky for this robot: pip install "
                "franky-control --extra-index-url https://timschneider42.github.io/franky/whl/"
                "by-robot-server-version/N/, where N is the server version; a Panda has 5"
            )
        if failed:
            raise DriverFault(f"the robot at {host}: {error_text(failed[0])}")
        if not made:
            raise DriverFault(
                f"the robot at {host} does not answer; is another program connected to it?"
            )
        self._robot, self.model = made.pop()


def has_realtime_kernel() -> bool:
    """Return whether the kernel has PREEMPT_RT."""
    try:
        return REALTIME_FLAG.read_text().strip() == "1"
    except OSError:
        return False

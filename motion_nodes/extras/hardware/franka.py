# SPDX-License-Identifier: Apache-2.0
"""Driver of Franka arms: joint impedance control by franky, and the Franka Hand.

The hand executes single motions instead of a stream. A thread starts a motion when the commanded
width is constant: ``move`` to open and ``grasp`` to close, so that objects are held with a force.
The width is read by the same thread. A motion under way ends early at :meth:`FrankaHand.hold`, and
when the command comes to rest elsewhere.
"""

from __future__ import annotations

import importlib
import threading
import time
from typing import Any

import numpy as np

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.hardware import franka_arm as words
from motion_nodes.extras.hardware.franka_arm import FrankaArm, FrankaSettings
from motion_nodes.extras.hardware.robot_driver import (
    CheckResult,
    DriverFault,
    DriverOptions,
    RobotDriver,
    RobotReading,
    require_joints,
    revolute_arm_joints,
    select_joints,
)
from motion_nodes.typing import Array

PERIOD = 0.02
"""Period of readings of the width [s]."""
REST = 15
"""Number of consecutive commands of constant width before the hand moves."""
RESTING = 5e-5
"""Change of the commanded width above which it is not constant [m]."""
STEP = 5e-4
"""Change of the commanded width that starts a new motion [m]."""
MIN_SPEED = 0.02
"""[m/s]"""
READ_TIMEOUT = 2.0
"""Time without a reading after which the hand is reported as lost [s]."""
JOINTS = 7
GRIPPER = "gripper"
"""Group of the fingers."""
SPRING_SHARE, INERTIAL_SHARE = 0.7, 0.5
"""Max torques of stiffness and of inertia, as fractions of the effort limits."""


class FrankaHand:
    """A hand and its thread."""

    def __init__(self, franky: Any, host: str, force: float, max_speed: float) -> None:
        """Create it, not connected.

        Args:
            franky: the library.
            host: name or address of the robot.
            force: when it closes [N].
            max_speed: of the width [m/s].
        """
        self._franky, self._host, self._force, self._max_speed = franky, host, force, max_speed
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._commanded: float | None = None
        self._moving_from, self._unchanged = 0.0, 0
        self._sent: float | None = None
        self._speed = 0.0
        self._read_at = 0.0
        self._motion: threading.Thread | None = None
        self._held: float | None = None
        self._stop = False
        self.width, self.velocity = 0.0, 0.0
        """Measured distance of the fingers [m] and its rate [m/s]."""
        self.problem = ""
        """Fault of the hand; empty if it follows the command."""

    def open(self) -> None:
        """Connect.

        Raises:
            DriverFault: there is no hand, or it is used by another program.
        """
        try:
            gripper = self._franky.Gripper(self._host)
            self.width = float(gripper.width)
        except (self._franky.Exception, RuntimeError) as error:
            raise DriverFault(
                f"the Franka Hand does not answer ({str(error).strip()}); is it attached and "
                "initialized in Desk? Without a hand: hardware.settings.hand: false"
            ) from None
        # A thread of the last connection may still be blocked in a call; it keeps its own event.
        self._end = threading.Event()
        self._commanded = self._sent = self._motion = self._held = None
        self._stop = False
        self._read_at, self.problem = time.monotonic(), ""
        self._thread = threading.Thread(
            target=self._run, args=(gripper, self._end), name="franka_hand", daemon=True
        )
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether the hand is not connected, or readings of the width have timed out."""
        return self._thread is None or time.monotonic() - self._read_at > READ_TIMEOUT

    def command(self, width: float, speed: float) -> None:
        """Set the commanded distance of the fingers.

        Args:
            width: finite [m].
            speed: of the command [m/s].
        """
        with self._lock:
            if self._commanded is None or abs(self._moving_from - width) > RESTING:
                self._moving_from, self._unchanged = width, 0
            self._commanded = width
            self._unchanged += 1
            self._speed = max(self._speed, abs(speed))

    def hold(self) -> None:
        """Stop a motion under way; a grasped object is still held.

        Commands of the same width, which a braking robot still receives, have no effect until
        :meth:`discard`.
        """
        with self._lock:
            self._held = self._held if self._commanded is None else self._commanded
            self._commanded, self._sent, self._speed = None, None, 0.0
            self._stop = True

    def discard(self) -> None:
        """Discard the command; the next one may be of any width."""
        with self._lock:
            self._commanded, self._sent, self._speed = None, None, 0.0
            self._held = None

    def close(self) -> None:
        """End the thread; the hand keeps its force. Never raises."""
        thread, self._thread = self._thread, None
        self._end.set()
        if thread is not None:
            thread.join(1.0)

    # ---- internal

    def _run(self, gripper: Any, end: threading.Event) -> None:
        last, stamp = self.width, time.monotonic()
        while not end.wait(PERIOD):
            try:
                width = float(gripper.width)
            except (self._franky.Exception, RuntimeError) as error:
                if not end.is_set():
                    self.problem = f"the Franka Hand: {str(error).strip()}"
                break
            if end.is_set():
                break
            now = time.monotonic()
            self.velocity = (width - last) / max(now - stamp, PERIOD)
            self.width, last, stamp, self._read_at = width, width, now, now
            self._stop_motion(gripper)
            self._start_motion(gripper)
        if end is self._end:
            self._stop_motion(gripper)

    @property
    def _moving(self) -> bool:
        return self._motion is not None and self._motion.is_alive()

    def _stop_motion(self, gripper: Any) -> None:
        """End the motion under way if it was stopped or the command rests elsewhere."""
        with self._lock:
            desired, sent = self._commanded, self._sent
            elsewhere = False
            if desired is not None and sent is not None and self._unchanged > REST:
                elsewhere = abs(desired - sent) > STEP
            stop, self._stop = (self._stop or elsewhere) and self._moving, False
            if not stop:
                return
            self._sent = None
        try:
            gripper.stop()
        except (self._franky.Exception, RuntimeError) as error:
            self.problem = f"the Franka Hand was not stopped: {str(error).strip()}"

    def _start_motion(self, gripper: Any) -> None:
        if self._moving:
            return
        with self._lock:
            desired = self._commanded
            if desired is None or self._unchanged <= REST:
                return
            if self._held is not None and abs(desired - self._held) <= STEP:
                return
            self._held = None
            before = self.width if self._sent is None else self._sent
            if abs(desired - before) <= STEP:
                return
            if abs(desired - self.width) <= STEP:
                self._sent = desired  # at the target; a motion would release a held object
                return
            speed = min(max(self._speed, MIN_SPEED), self._max_speed)
            self._sent, self._speed = desired, 0.0
        arguments = (gripper, desired, speed, desired < before)
        self._motion = threading.Thread(target=self._move, args=arguments, daemon=True)
        self._motion.start()

    def _move(self, gripper: Any, width: float, speed: float, closes: bool) -> None:
        """Move; returns when the hand has come to rest."""
        try:
            if closes:
                # Any width is a success: the width of the object is unknown.
                gripper.grasp(width, speed, self._force, 1.0, 1.0)
            else:
                gripper.move(width, speed)
            self.problem = ""
        except (self._franky.Exception, RuntimeError) as error:
            if self._sent == width:  # else it was stopped
                self.problem = f"the Franka Hand: {str(error).strip()}"


class FrankaDriver(RobotDriver):
    """Position control of an arm by joint impedance; the hand executes one motion at a time."""

    device_example = "192.168.0.1"

    def __init__(self, robot: Robot, host: str, settings: FrankaSettings, franky: Any) -> None:
        """Create the driver.

        Args:
            robot: the robot.
            host: name or address of the robot.
            settings: joints, gains and thresholds.
            franky: the library.

        Raises:
            UnknownJoint: the settings name a joint that the robot does not have.
            InvalidDescription: not seven joints, or a hand without two fingers.
        """
        joints, fingers = _joints(robot, settings)
        self.joint_names, self.rate = (*joints, *fingers), settings.rate
        self._settings = settings
        self._arm = FrankaArm(franky, host, settings)
        limits = robot.limits.select(self.joint_names)
        effort, stiffness = limits.effort[:JOINTS], np.array(settings.stiffness)
        self._leash = SPRING_SHARE * effort / stiffness
        # Inertia is not compensated by the robot: a fast arm would lag by the inertial torques
        # divided by the stiffness.
        armature = [robot.drive(joint).armature for joint in joints]
        self._dynamics = InverseDynamics(robot.tree, joints, armature=armature)
        self._max_acceleration = limits.acceleration[:JOINTS]
        self._max_inertial = INERTIAL_SHARE * effort
        self._speed = np.zeros(JOINTS)
        self._max_shift = settings.integral_torque / stiffness
        self._shift = np.zeros(JOINTS)
        self._hand: FrankaHand | None = None
        if fingers:
            speed = 2.0 * float(np.min(limits.velocity[JOINTS:]))
            self._hand = FrankaHand(franky, host, settings.grasp_force, speed)
        self._following = self._starting = False
        self._ended = ""
        self._state: Any = None
        self._q, self._qd = np.full(JOINTS, np.nan), np.full(JOINTS, np.nan)

    @classmethod
    def create(cls, robot: Robot, options: DriverOptions) -> FrankaDriver:
        """Return a driver; see :meth:`RobotDriver.create`.

        Raises:
            InvalidConfig: franky is not installed.
        """
        settings = options.decoded(FrankaSettings, robot)
        try:
            franky = importlib.import_module("franky")
        except ImportError as error:
            raise InvalidConfig(
                f"franky cannot be loaded ({error}); run: pip install 'motion-nodes[franka]'"
            ) from None
        return cls(robot, options.device, settings, franky)

    def connect(self) -> None:
        """Connect to arm and hand, and compare the model.

        Raises:
            DriverFault: no response, or an arm of another model.
        """
        self._following = self._starting = False
        self._ended = ""
        self._arm.open()
        if self._arm.model and self.joint_names[0].startswith("panda"):
            raise DriverFault("the robot is an FR3, but the description is of a Panda: use fr3")
        self._measure()
        if self._hand is not None:
            self._hand.open()

    def read(self) -> RobotReading:
        """Return the newest state."""
        self._measure()
        position, velocity = self._q, self._qd
        effort = np.asarray(self._state.tau_J, dtype=np.float64)
        if self._hand is not None:
            finger, speed = 0.5 * self._hand.width, 0.5 * self._hand.velocity
            position = np.append(position, [finger, finger])
            velocity = np.append(velocity, [speed, speed])
            effort = np.append(effort, [np.nan, np.nan])
        return RobotReading(position, velocity, effort, self._faults())

    def enable(self, position: Array) -> None:
        """Start the control at the measured position."""
        if self._arm.recovering:
            raise DriverFault("the robot recovers from an error")
        if self._arm.tracking:
            if self._mode != "Move":
                raise DriverFault("the control is starting")
            self._following, self._starting = True, False
            if self._hand is not None:
                self._hand.discard()
            return
        if self._arm.controlled:
            raise DriverFault("the arm comes to rest")
        if self._starting:
            self._starting = False
            self._ended = self._arm.end_of_control
            raise DriverFault(self._ended)
        if fault := words.mode_fault(self._mode):
            raise DriverFault(fault)
        self._shift[:] = self._speed[:] = 0.0
        self._arm.start(position[:JOINTS])
        self._starting = True
        raise DriverFault("the control is starting")

    def write(self, reference: StreamSample) -> None:
        """Set the targets; ignored after the control has ended."""
        q, qd = reference.position, reference.velocity
        if not (np.isfinite(q).all() and np.isfinite(qd).all()):
            raise DriverFault("a reference is not finite")
        if not self._following:
            return
        error = q[:JOINTS] - self._q
        self._shift += self._settings.integral_gain / self.rate * error
        np.clip(self._shift, -self._max_shift, self._max_shift, out=self._shift)
        # The torques of a blocked arm stay within the effort limits.
        target = self._q + np.clip(error + self._shift, -self._leash, self._leash)
        self._arm.track(target, qd[:JOINTS], self._inertial(q[:JOINTS], qd[:JOINTS]))
        if self._hand is not None:
            self._hand.command(float(q[JOINTS:].sum()), float(qd[JOINTS:].sum()))

    def hold(self) -> None:
        """Stop the hand, which moves by itself; the arm is braked by the references."""
        if self._hand is not None:
            self._hand.hold()

    def disable(self) -> None:
        """End the control; the arm stops and is held by the robot."""
        self._following = self._starting = False
        self._arm.stop()
        if self._hand is not None:
            self._hand.hold()

    def clear_faults(self) -> None:
        """Start the automatic error recovery, if there is an error, without waiting for its end.

        A lost hand is connected again.

        Raises:
            LinkLost: the robot does not respond.
            DriverFault: the hand does not respond.
        """
        self._following, self._ended = False, ""
        if self._hand is not None:
            self._hand.discard()
        self._measure()
        if self._mode == "Reflex" or self._errors or self._arm.recovery_fault:
            self._arm.recover()
        if self._hand is not None and self._hand.lost:
            self._hand.close()
            self._hand.open()

    def close(self) -> None:
        """Stop the arm and close the connections; the robot holds the arm."""
        self._following = self._starting = False
        if self._hand is not None:
            self._hand.close()
        self._arm.close()

    def check(self) -> list[CheckResult]:
        """Return findings: mode, kernel, model and hand."""
        mode, fault = self._mode, words.mode_fault(self._mode)
        kernel = "PREEMPT_RT" if self._arm.realtime else (
            "no PREEMPT_RT: expect communication_constraints_violation on a real robot"
        )  # fmt: skip
        model = "FR3" if self._arm.model else "not reported: a Panda, or an old version of an FR3"
        results = [
            CheckResult("model", True, model),
            CheckResult("robot mode", not fault, fault or mode),
            CheckResult("kernel", True, kernel),
        ]
        if self._hand is not None:
            text = self._hand.problem or f"{1e3 * self._hand.width:.1f} mm open"
            results.append(CheckResult("hand", not self._hand.problem, text))
        return results

    # ---- internal

    def _inertial(self, q: Array, qd: Array) -> Array:
        """Return the torques of the references' acceleration [N m], shape (7,)."""
        acceleration, most = (qd - self._speed) * self.rate, self._max_acceleration
        self._speed = qd.copy()
        rest, dynamics = np.zeros(JOINTS), self._dynamics
        effort = dynamics.efforts(q, rest, acceleration.clip(-most, most)) - dynamics.gravity(q)
        return np.asarray(effort.clip(-self._max_inertial, self._max_inertial))

    @property
    def _mode(self) -> str:
        return str(self._state.robot_mode).rpartition(".")[2]

    @property
    def _errors(self) -> tuple[str, ...]:
        return words.errors_in(self._state.current_errors)

    def _measure(self) -> None:
        self._state = self._arm.state()
        self._q = np.array(self._state.q, dtype=np.float64)
        self._qd = np.array(self._state.dq, dtype=np.float64)

    def _faults(self) -> tuple[str, ...]:
        if self._arm.recovering:
            return ()  # enable() waits for it
        if self._following and not self._arm.controlled:
            self._following = False
            self._ended = self._arm.end_of_control
        found = list(words.error_faults(self._errors))
        if not found and self._mode == "Reflex":
            found.append(words.mode_fault(self._mode))
        found += [text for text in (self._arm.recovery_fault, self._ended) if text]
        if self._hand is not None and self._hand.lost:
            found.append(self._hand.problem or "the Franka Hand does not answer")
        return tuple(dict.fromkeys(found))


def _joints(robot: Robot, settings: FrankaSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the joints of arm and hand."""
    tree, gripper = robot.tree, robot.groups.get(GRIPPER)
    found, rule = settings.joints or revolute_arm_joints(robot), f"a Franka arm has {JOINTS} joints"
    joints = select_joints(robot, found, (JOINTS,), rule)
    require_joints(robot, settings.fingers)
    members = () if gripper is None else gripper.joints
    fingers = settings.fingers or tuple(
        j for j in members if tree.joint(j).kind is JointKind.PRISMATIC
    )
    if not settings.hand or (len(fingers) != 2 and not settings.fingers):
        return joints, ()
    return joints, select_joints(robot, fingers, (2,), "the Franka Hand has two joints", "fingers")

# SPDX-License-Identifier: Apache-2.0
"""Driver of arms of Universal Robots, by RTDE, a URScript program and the dashboard server.

Texts of controller states contain remedies. Source: Universal Robots, "Real-Time Data Exchange
(RTDE) Guide" and the e-Series user manual.

The URScript program moves the arm from RTDE registers, at the period of its controller. Registers,
all in the range that is reserved for external clients:

    input  double  24 to 29   positions [rad]
    input  double  30 to 35   velocities [rad/s]
    input  double  36         time of the command on the sender's clock [s]
    input  int     24         counter; another value is a new command
    input  int     25         1: follow, else stop
    output int     24         counter of the last accepted command
    output int     25         why the program ended: 0 (it did not), 2 silence, 3 jump, 4 no command

The target of each period is the last command, extrapolated by its velocity from its stamp to now,
on a clock that is slowly aligned with the sender's: commands may arrive early or late. The
difference of a new command to the previous one decays, to avoid steps. After a timeout of the
commands, which is short while the arm moves, or a jump, the program brakes the arm and ends,
independently of the computer and the cable.

Source: Universal Robots, "The URScript Programming Language".
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.robot import Robot
from motion_nodes.extras.hardware.connections import TcpLink
from motion_nodes.extras.hardware.robot_driver import (
    CheckResult,
    DriverFault,
    DriverOptions,
    LinkLost,
    RobotDriver,
    RobotReading,
    select_joints,
)
from motion_nodes.extras.hardware.universal_robots_controller import (
    DashboardClient,
    Outputs,
    RtdeClient,
    model_in,
)
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

RUNNING = 7
"""Robot mode: powered, brakes released."""
ROBOT_MODES = {
    -1: "NO_CONTROLLER", 0: "DISCONNECTED", 1: "CONFIRM_SAFETY", 2: "BOOTING", 3: "POWER_OFF",
    4: "POWER_ON", 5: "IDLE", 6: "BACKDRIVE", RUNNING: "RUNNING", 8: "UPDATING_FIRMWARE",
}  # fmt: skip
STOPPED, PLAYING = 1, 2
"""Runtime states."""
RUNTIME_STATES = {0: "STOPPING", STOPPED: "STOPPED", PLAYING: "PLAYING", 3: "PAUSING", 4: "PAUSED",
                  5: "RESUMING"}  # fmt: skip
PROTECTIVE_STOP = 3
_WORKING = (1, 2)
_SAFETY = {
    PROTECTIVE_STOP: ("PROTECTIVE_STOP", "remove the cause, wait 5 s, then reset"),
    4: ("RECOVERY", "move the arm back within its limits on the pendant"),
    5: ("SAFEGUARD_STOP", "clear the safeguarded area, then reset"),
    6: ("SYSTEM_EMERGENCY_STOP", "release the emergency stop of the system, then reset"),
    7: ("ROBOT_EMERGENCY_STOP", "release the emergency stop button, then reset"),
    8: ("VIOLATION", "restart the safety system on the pendant"),
    9: ("FAULT", "restart the safety system on the pendant; see its log"),
    10: ("VALIDATE_JOINT_ID", "follow the pendant"),
    11: ("UNDEFINED_SAFETY_MODE", "see the pendant"),
    12: ("AUTOMATIC_MODE_SAFEGUARD_STOP", "clear the safeguarded area, then reset"),
    13: ("SYSTEM_THREE_POSITION_ENABLING_STOP", "press the enabling device half, then reset"),
}
JOINTS = 6
FIRST_REGISTER = 24
PATIENCE = 2.0
"""Timeout of the first command, and of commands at rest [s]."""
JUMP = 0.02
"""Max step of the commands beyond twice the velocity limits (norm) [rad]."""
BLENDING = 0.02
"""Time constant with which the difference to a previous command decays [s]."""
ALIGNMENT = 0.005
"""Fraction of the clock offset that is corrected per command."""
FOLLOW, STOP = 1, 0
ENDS = {
    2: "no command for longer than max_silence",
    3: "a command jumped",
    4: "no command arrived after the start",
}
"""Why the program ended, by the code in its output register."""
TAKEN = f"output_int_register_{FIRST_REGISTER}"
ENDED = f"output_int_register_{FIRST_REGISTER + 1}"
OUTPUTS = ("actual_q", "actual_qd", "robot_mode", "safety_status", "runtime_state", TAKEN, ENDED)
TORQUES = "actual_current_as_torque"
"""Optional output of newer controllers."""
START_TIMEOUT = 3.0
"""Timeout for the start of the program after it was sent [s]."""
RETRY_PERIOD = 1.0
"""Time between two attempts to enable a robot that is not ready [s]."""
UNLOCK_TIMEOUT = 2.0
"""Timeout for the release of a protective stop [s]."""
CB3_RATE = 125.0
"""Max rate of controllers before the e-Series [Hz]."""


def safety_fault(status: int) -> str:
    """Return a safety status as text; empty if motion is permitted."""
    if status in _WORKING:
        return ""
    name, advice = _SAFETY.get(status, (f"safety status {status}", "see the pendant"))
    return f"{name}: {advice}"


def mode_name(mode: int) -> str:
    """Return the vendor's name of a robot mode."""
    return ROBOT_MODES.get(mode, f"robot mode {mode}")


def runtime_name(state: int) -> str:
    """Return the vendor's name of a runtime state."""
    return RUNTIME_STATES.get(state, f"runtime state {state}")


@dataclass(frozen=True)
class UniversalRobotsSettings:
    """The block ``hardware.settings``."""

    joints: tuple[str, ...] = ()
    """The six joints from the base on; empty: those of the arm."""
    model: str = ""
    """Required model of the controller, such as UR5e; empty: the robot's name, if it is a model."""
    rate: float = setting(
        250.0,
        doc="Rate of the commands; the program on the controller moves the arm at its own rate.",
        unit="Hz", ge=20.0, le=500.0,
    )  # fmt: skip
    lookahead_time: float = setting(
        0.05, doc="Argument of servoj: smooths the motion.", unit="s", ge=0.03, le=0.2
    )
    gain: float = setting(500.0, doc="Argument of servoj: stiffness.", ge=100.0, le=2000.0)
    deceleration: float = setting(
        4.0, doc="Deceleration when commands stop or the arm is held.", unit="rad/s^2", gt=0.0,
        le=40.0,
    )  # fmt: skip
    max_silence: float = setting(
        0.05,
        doc="Time for which a moving arm continues with its last velocity without a command; then "
        "it brakes.", unit="s", ge=0.01, le=0.5,
    )  # fmt: skip
    link_timeout: float = setting(
        0.1, doc="Time without data after which the link is lost.", unit="s", ge=0.01, le=1.0
    )
    power_on: bool = False
    """Power the arm on and release its brakes when it is enabled; false: on the pendant."""
    rtde_port: int = setting(30004, doc="TCP port of RTDE.", ge=1, le=65535)
    script_port: int = setting(30002, doc="TCP port that accepts URScript.", ge=1, le=65535)
    dashboard_port: int = setting(
        29999, doc="TCP port of the dashboard server; 0: not used.", ge=0, le=65535
    )

    def __post_init__(self) -> None:
        check_settings(self)


INPUTS = (
    *(f"input_double_register_{FIRST_REGISTER + i}" for i in range(2 * JOINTS + 1)),
    f"input_int_register_{FIRST_REGISTER}",
    f"input_int_register_{FIRST_REGISTER + 1}",
)


def servo_program(settings: UniversalRobotsSettings, max_velocity: ArrayLike) -> str:
    """Return the text of the program.

    Args:
        settings: arguments of ``servoj`` and ``stopj``, and max_silence.
        max_velocity: velocity limits of the joints [rad/s], shape (6,).
    """
    positions = _registers(FIRST_REGISTER, JOINTS)
    velocities = _registers(FIRST_REGISTER + JOINTS, JOINTS)
    stamp = _registers(FIRST_REGISTER + 2 * JOINTS, 1)
    aim = _each("q[{i}] + qd[{i}] * (clock - sent)")
    apart = _each("q[{i}] - previous[{i}]")
    added = _each("offset[{i}] + before[{i}] - aim[{i}]")
    target = _each("aim[{i}] + offset[{i}]")
    decayed = _each("offset[{i}] * decay")
    fastest = 2.0 * float(np.linalg.norm(max_velocity))
    counter, mode = FIRST_REGISTER, FIRST_REGISTER + 1
    return f"""def motion_nodes():
  step = get_steptime()
  decay = 1.0 - step / {BLENDING}
  q = get_actual_joint_positions()
  qd = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
  offset = qd
  silent = 0.0
  patience = {PATIENCE}
  ended = 0
  following = True
  taken = read_input_integer_register({counter})
  write_output_integer_register({mode}, 0)
  write_output_integer_register({counter}, taken)
  while following and taken == read_input_integer_register({counter}):
    silent = silent + step
    if silent > {PATIENCE}:
      ended = 4
      following = False
    end
    sync()
  end
  silent = 0.0
  sent = {stamp}
  clock = sent
  while following:
    aim = [{aim}]
    if taken != read_input_integer_register({counter}):
      taken = read_input_integer_register({counter})
      before = aim
      previous = q
      since = sent
      q = [{positions}]
      qd = [{velocities}]
      sent = {stamp}
      clock = clock + {ALIGNMENT} * (sent - clock)
      patience = {PATIENCE}
      if norm(qd) > 0.0:
        patience = {settings.max_silence}
      end
      aim = [{aim}]
      offset = [{added}]
      if norm([{apart}]) > {fastest:.4f} * (sent - since + step) + {JUMP}:
        ended = 3
        following = False
      end
      silent = 0.0
    end
    if read_input_integer_register({mode}) != {FOLLOW}:
      following = False
    elif silent > patience:
      ended = 2
      following = False
    end
    if following:
      write_output_integer_register({counter}, taken)
      servoj([{target}], t=step, lookahead_time={settings.lookahead_time}, gain={settings.gain})
      offset = [{decayed}]
      clock = clock + step
      silent = silent + step
    end
  end
  write_output_integer_register({mode}, ended)
  stopj({settings.deceleration})
end
"""


def _each(form: str) -> str:
    return ", ".join(form.format(i=i) for i in range(JOINTS))


def _registers(first: int, count: int) -> str:
    return ", ".join(f"read_input_float_register({first + i})" for i in range(count))


class UniversalRobotsDriver(RobotDriver):
    """Position control of an arm; a program on its controller follows the references."""

    device_example = "192.168.0.10"

    def __init__(self, robot: Robot, host: str, settings: UniversalRobotsSettings) -> None:
        """Create the driver.

        Args:
            robot: the robot.
            host: name or address of the controller.
            settings: ports, rate and arguments of servoj.

        Raises:
            UnknownJoint: the settings name a joint that the robot does not have.
            InvalidDescription: not six joints.
        """
        rule = f"an arm of Universal Robots has {JOINTS} joints"
        joints = select_joints(robot, settings.joints or robot.arm_joints, (JOINTS,), rule)
        self.joint_names, self.rate = joints, settings.rate
        self.extrapolation = settings.max_silence
        self._settings = settings
        self._model = settings.model or model_in(robot.name)
        self._rtde = RtdeClient(TcpLink(host, settings.rtde_port, "RTDE"))
        self._script = TcpLink(host, settings.script_port, "the URScript interface")
        dashboard = TcpLink(host, settings.dashboard_port, "the dashboard server")
        self._dashboard = DashboardClient(dashboard) if settings.dashboard_port else None
        self._program = servo_program(settings, robot.limits.select(joints).velocity)
        self._counter = 0
        self._following = False
        self._start_by: float | None = None
        self._retry_at, self._not_ready = 0.0, ""
        self._outputs: Outputs = {}
        self._arrived = self._cycle_time = 0.0

    @classmethod
    def create(cls, robot: Robot, options: DriverOptions) -> UniversalRobotsDriver:
        """Return a driver; see :meth:`RobotDriver.create`."""
        settings = options.decoded(UniversalRobotsSettings, robot)
        return cls(robot, options.device, settings)

    def connect(self) -> None:
        """Connect to RTDE, compare the model, and receive the first state.

        Raises:
            DriverFault: another model, another controlling program, an unsupported rate, or a
                disabled service.
        """
        self._following, self._start_by, self._retry_at = False, None, 0.0
        self._rtde.open()
        if self._rtde.controller_version[0] < 5 and self.rate > CB3_RATE:
            raise DriverFault(
                f"CB3 controllers run at {CB3_RATE:g} Hz, not {self.rate:g}; set "
                f"hardware.settings.rate or update_rate to {CB3_RATE:g}"
            )
        if self._dashboard is not None and self._model:
            self._dashboard.require_model(self._model)
        self._rtde.start(OUTPUTS, (TORQUES,), INPUTS, self.rate)
        first = self._rtde.newest(1.0)
        if first is None:
            raise DriverFault(
                "RTDE sends no data; restart the controller's program if this persists"
            )
        self._outputs, self._arrived = first, time.monotonic()

    def read(self) -> RobotReading:
        """Return the newest state; if it was returned before, wait up to one period."""
        # References are for the start of a cycle, regardless of the waiting time.
        self._cycle_time = time.monotonic()
        newest = self._rtde.newest(1.0 / self.rate)
        now = time.monotonic()
        if newest is not None:
            self._outputs, self._arrived = newest, now
        elif now - self._arrived > self._settings.link_timeout:
            silence = self._settings.link_timeout
            raise LinkLost(f"RTDE has sent no data for {silence:g} s; check cable and power")
        position, velocity = self._array("actual_q"), self._array("actual_qd")
        return RobotReading(position, velocity, self._array(TORQUES), self._faults())

    def enable(self, position: Array) -> None:
        """Send the program and wait for its start; it does not move before the first command."""
        if self._start_by is None:
            self._require_ready()
            self._start_by = self._start(position)
        if self._number(TAKEN) == self._counter:
            ended = self._number(ENDED)
            if not ended and self._number("runtime_state") == PLAYING:
                self._following, self._start_by = True, None
                return
            if ended:
                self._start_by = None
                raise DriverFault(f"the program on the controller ended: {ENDS.get(ended, ended)}")
        if time.monotonic() > self._start_by:
            self._start_by = None
            raise DriverFault(
                "the program does not start; is the robot in remote control, and is another "
                f"program loaded? {self._rtde.message}".rstrip()
            )
        raise DriverFault("the program on the controller is starting")

    def write(self, reference: StreamSample) -> None:
        """Send positions and velocities; ignored after the program was stopped."""
        if self._following:
            self._send(reference.position, reference.velocity, FOLLOW)

    def hold(self) -> None:
        """Stop the program, which brakes the arm; the controller then holds it."""
        if self._following or self._start_by is not None:
            self._following, self._start_by = False, None
            self._send(self._array("actual_q"), np.zeros(JOINTS), STOP)

    def disable(self) -> None:
        """Stop the program; the arm remains powered and is held by its controller."""
        self.hold()

    def clear_faults(self) -> None:
        """Acknowledge a protective stop; other faults are cleared on the pendant."""
        self.read()
        if self._number("safety_status") != PROTECTIVE_STOP:
            return
        if self._dashboard is None:
            raise DriverFault("leave the protective stop on the pendant")
        self._dashboard.leave_protective_stop()
        end = time.monotonic() + UNLOCK_TIMEOUT
        while time.monotonic() < end and self.read().faults:
            pass

    def close(self) -> None:
        """Stop the program and close all connections; the controller holds the arm."""
        try:
            self.hold()
        except DriverFault:
            pass  # Without commands the program stops.
        self._following, self._start_by = False, None
        self._rtde.close()
        self._script.close()
        if self._dashboard is not None:
            self._dashboard.close()

    def check(self) -> list[CheckResult]:
        """Return findings: versions, remote control, and modes of the controller."""
        version = ".".join(map(str, self._rtde.controller_version))
        mode, safety = self._number("robot_mode"), self._number("safety_status")
        fault = safety_fault(safety)
        results = [
            CheckResult("controller", True, f"version {version}"),
            CheckResult("robot mode", mode == RUNNING, mode_name(mode)),
            CheckResult("safety", not fault, fault or ("NORMAL" if safety == 1 else "REDUCED")),
        ]
        if self._dashboard is not None:
            reason = self._dashboard.remote_fault()
            results.append(CheckResult("external programs", not reason, reason or "accepted"))
        return results

    # ---- internal

    def _array(self, name: str) -> Array:
        return np.array(self._outputs.get(name, (np.nan,) * JOINTS), dtype=np.float64)

    def _number(self, name: str) -> int:
        return int(self._outputs[name][0])

    def _faults(self) -> tuple[str, ...]:
        faults = []
        if safety := safety_fault(self._number("safety_status")):
            faults.append(safety)
        if self._following and not faults:
            mode, state = self._number("robot_mode"), self._number("runtime_state")
            if mode != RUNNING:
                faults.append(f"the robot mode is {mode_name(mode)}")
            elif ended := self._number(ENDED):
                faults.append(f"the arm braked by itself: {ENDS.get(ended, ended)}")
            elif state != PLAYING:
                text = (
                    f"the program on the controller is {runtime_name(state)}: stopped on "
                    "the pendant or by the controller"
                )
                faults.append(f"{text} ({self._rtde.message})" if self._rtde.message else text)
        return tuple(faults)

    def _require_ready(self) -> None:
        """Check the conditions of a start, at a limited rate: the dashboard is slow."""
        now = time.monotonic()
        if now >= self._retry_at:
            remote = "" if self._dashboard is None else self._dashboard.remote_fault()
            self._not_ready = remote or self._mode_fault()
            if not self._not_ready and self._number("runtime_state") != STOPPED:
                self._not_ready = "a program runs on the controller: stop it on the pendant"
            self._retry_at = now + RETRY_PERIOD if self._not_ready else 0.0
        if self._not_ready:
            raise DriverFault(self._not_ready)

    def _mode_fault(self) -> str:
        mode = self._number("robot_mode")
        if mode == RUNNING:
            return ""
        name = mode_name(mode)
        if not self._settings.power_on or self._dashboard is None:
            return f"the robot mode is {name}: power the arm on and release its brakes"
        self._dashboard.release_brakes()
        return f"the robot mode is {name}: it is powered on and its brakes are released"

    def _start(self, position: Array) -> float:
        """Send the program; return the deadline of its start."""
        # The counter identifies our program: it differs until the program accepts it.
        self._counter = self._number(TAKEN)
        self._send(position, np.zeros(JOINTS), FOLLOW)
        self._script.open()
        self._script.write(self._program.encode("ascii"))
        return time.monotonic() + START_TIMEOUT

    def _send(self, position: Array, velocity: Array, mode: int) -> None:
        self._counter = (self._counter + 1) % (1 << 30)
        state = (*position.tolist(), *velocity.tolist(), self._cycle_time)
        self._rtde.send((*state, self._counter, mode))

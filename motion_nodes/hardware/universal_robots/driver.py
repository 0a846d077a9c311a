# SPDX-License-Identifier: Apache-2.0
"""Driver of arms of Universal Robots, by RTDE, a URScript program and the dashboard server."""

from __future__ import annotations

import time

import numpy as np

from motion_nodes.control.stream_pieces import StreamSample
from motion_nodes.hardware.joint_selection import select_joints
from motion_nodes.hardware.robot_driver import (
    CheckResult,
    DriverFault,
    DriverOptions,
    LinkLost,
    RobotDriver,
    RobotReading,
)
from motion_nodes.hardware.tcp_link import TcpLink
from motion_nodes.hardware.universal_robots import controller_states as states
from motion_nodes.hardware.universal_robots.dashboard_client import DashboardClient, model_in
from motion_nodes.hardware.universal_robots.driver_settings import UniversalRobotsSettings
from motion_nodes.hardware.universal_robots.rtde_client import Outputs, RtdeClient
from motion_nodes.hardware.universal_robots.servo_program import (
    ENDED,
    ENDS,
    FOLLOW,
    INPUTS,
    JOINTS,
    STOP,
    TAKEN,
    ServoSettings,
    servo_program,
)
from motion_nodes.model.robot import Robot
from motion_nodes.typing import Array

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
        self._program = servo_program(
            ServoSettings(
                lookahead_time=settings.lookahead_time,
                gain=settings.gain,
                deceleration=settings.deceleration,
                max_silence=settings.max_silence,
                max_velocity=robot.limits.select(joints).velocity.tolist(),
            )
        )
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
            if not ended and self._number("runtime_state") == states.PLAYING:
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
        if self._number("safety_status") != states.PROTECTIVE_STOP:
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
        results = [
            CheckResult("controller", True, f"version {version}"),
            CheckResult("robot mode", mode == states.RUNNING, states.mode_name(mode)),
            CheckResult("safety", not states.safety_fault(safety), _safety_text(safety)),
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
        if safety := states.safety_fault(self._number("safety_status")):
            faults.append(safety)
        if self._following and not faults:
            mode, state = self._number("robot_mode"), self._number("runtime_state")
            if mode != states.RUNNING:
                faults.append(f"the robot mode is {states.mode_name(mode)}")
            elif ended := self._number(ENDED):
                faults.append(f"the arm braked by itself: {ENDS.get(ended, ended)}")
            elif state != states.PLAYING:
                text = (
                    f"the program on the controller is {states.runtime_name(state)}: stopped on "
                    "the pendant or by the controller"
                )
                faults.append(f"{text} ({self._rtde.message})" if self._rtde.message else text)
        return tuple(faults)

    def _require_ready(self) -> None:
        """Check the conditions of a start, at a limited rate: the dashboard is slow.

        Raises:
            DriverFault: with the required action.
        """
        now = time.monotonic()
        if now >= self._retry_at:
            remote = "" if self._dashboard is None else self._dashboard.remote_fault()
            self._not_ready = remote or self._mode_fault() or self._other_program()
            self._retry_at = now + RETRY_PERIOD if self._not_ready else 0.0
        if self._not_ready:
            raise DriverFault(self._not_ready)

    def _mode_fault(self) -> str:
        mode = self._number("robot_mode")
        if mode == states.RUNNING:
            return ""
        name = states.mode_name(mode)
        if not self._settings.power_on or self._dashboard is None:
            return f"the robot mode is {name}: power the arm on and release its brakes"
        self._dashboard.release_brakes()
        return f"the robot mode is {name}: it is powered on and its brakes are released"

    def _other_program(self) -> str:
        if self._number("runtime_state") == states.STOPPED:
            return ""
        return "a program runs on the controller: stop it on the pendant"

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


def _safety_text(status: int) -> str:
    return states.safety_fault(status) or ("NORMAL" if status == 1 else "REDUCED")

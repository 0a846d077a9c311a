# SPDX-License-Identifier: Apache-2.0
"""Driver of a real robot: executes joint_command, publishes joint_states; in its own process."""

from __future__ import annotations

import dataclasses
from typing import Any

from control_msgs.msg import SpeedScalingFactor
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionConfig, SessionState
from motion_nodes.extras.hardware.robot_driver import make_driver
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import respond_from_loop
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateWriter, stamp_ns
from motion_nodes.ros.messages.joint_channels import JointChannels
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.node import RobotNode, RobotParams
from motion_nodes.ros.parameters import core_params, param, settings_from

SCALING_PERIOD = 1.0
"""Period of the speed scaling factor, if it is below 1 [s]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(SessionConfig, read_only=True)
class RobotDriverParams(RobotParams):
    """Parameters of a driver."""

    update_rate: float = param(
        doc="Rate of the bus and of joint_states; default: that of the driver.",
        unit="Hz", gt=0.0, le=2000.0, read_only=True,
    )  # fmt: skip
    driver: str = param(
        "", doc="Name of the driver; empty: that of the robot's robot.yaml.", read_only=True
    )
    device: str = param(
        "", doc="Serial port, host name or address; empty: that of robot.yaml.", read_only=True
    )
    calibration: str = param("", doc="Calibration file of the robot.", read_only=True)
    release_on_exit: bool = param(
        False, doc="Switch the drives off when the node ends; else they hold the last position."
    )
    dry_run: bool
    speed: float


class RobotDriverNode(RobotNode[RobotDriverParams]):
    """Driver of one robot."""

    params_type = RobotDriverParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("robot_driver", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return the rate of the robot's driver."""
        self._driver = make_driver(
            robot,
            self.early_text("driver"),
            device=self.early_text("device"),
            calibration=self.early_text("calibration"),
        )
        return {"update_rate": self._driver.rate}

    def configure(self) -> None:
        """Create the session and the topics; the loop connects."""
        self._driver.rate = self.params.update_rate
        names = self._driver.joint_names
        config = settings_from(self.params, SessionConfig)
        self.session = DriverSession(self._driver, self.robot.limits, config)
        self._channels = JointChannels(self.robot.joint_names, self.robot.name, self.robot.tree)
        self._indices = self.robot.indices(names)
        self._commands = self.poll(JointState, "joint_command", qos.REFERENCES)
        self._writer = JointStateWriter(self.advertise(JointState, "joint_states"), names,
                                        effort=True)  # fmt: skip
        self._scaling = self.advertise(
            SpeedScalingFactor, f"{JOINT_CONTROLLER}/speed_scaling_input"
        )
        self._scaled_at = 0.0
        self._reported: tuple[SessionState, str, str] | None = None
        self.serve(SetBool, "~/enable", self._on_enable)
        self.serve(Trigger, "~/reset", self._on_reset)

    def tick(self, dt: float) -> None:
        """Read, update and write; publish the measured state."""
        now_ns = self.now_ns()
        self._take_commands(now_ns)
        reading = self.session.step(now_ns)
        if reading is not None:
            self._writer.position[:] = reading.position
            self._writer.velocity[:] = reading.velocity
            self._writer.effort[:] = reading.effort
            self._writer.send(now_ns)
        if self.params.speed < 1.0 and now_ns * 1e-9 - self._scaled_at > SCALING_PERIOD:
            self._scaled_at = now_ns * 1e-9
            self._scaling.publish(SpeedScalingFactor(factor=self.params.speed))
        self._log_changes()

    def time_jumped(self, before: float, after: float) -> None:
        """Forget references with stamps of the old time; the robot brakes until the next."""
        self.session.clock_jumped()

    def halt(self) -> None:
        """Hold the robot, or release it, and close the connection."""
        self.session.close(release=self.params.release_on_exit)

    def waiting_for(self) -> str:
        """Return the condition that the driver waits for; empty once it measures the robot."""
        session = self.session
        return "" if session.reading is not None else f"the robot: {session.waiting}"

    def notice(self) -> str:
        """Return whether the robot follows the references."""
        return "dry run: the robot is only read" if self.params.dry_run else ""

    def diagnose(self, report: Report) -> None:
        """Report state, faults, failed reads and deviation."""
        session = self.session
        if session.fault:
            report.note("ERROR", f"{session.fault} (call ~/reset when the cause is removed)")
        elif session.waiting:
            report.note("WARN", self._condition())
        report.value("driver state", session.state.value)
        report.value("failed reads", session.failed_reads)
        report.value("deviation max [rad or m]", session.max_deviation)
        session.max_deviation = 0.0

    # ---- inside

    def _take_commands(self, now_ns: int) -> None:
        for message in self._commands.all():
            try:
                sample = self._channels.read(message)
                own = StreamSample(*(values[self._indices] for values in sample))
                self.session.command(now_ns, stamp_ns(message) or now_ns, own)
            except (InvalidCommand, UnknownJoint) as error:
                self.warn("command", f"joint_command ignored: {error}")

    def _condition(self) -> str:
        """Return why there is no connection, or what a connected driver waits for."""
        lost = self.session.state is SessionState.DISCONNECTED
        return self.session.waiting if lost else f"waiting for {self.session.waiting}"

    def _log_changes(self) -> None:
        session = self.session
        now = (session.state, session.fault, session.waiting)
        if now == self._reported:
            return
        changed = self._reported is None or now[:2] != self._reported[:2]
        self._reported = now
        if not changed:
            return
        logger = self.get_logger()
        if session.fault:
            logger.error(f"{session.state.value}: {session.fault}")
        else:
            condition = f": {self._condition()}" if session.waiting else ""
            logger.info(f"{session.state.value}{condition}")

    def _on_enable(self, request: Any, response: Any) -> Any:
        def job() -> str:
            if request.data:
                self.session.enable()
                return "enabled as soon as the references match the measured positions"
            self.session.disable()
            return "disabled"

        return respond_from_loop(self, response, job)

    def _on_reset(self, _request: Any, response: Any) -> Any:
        return respond_from_loop(self, response, lambda: self.session.reset())

# SPDX-License-Identifier: Apache-2.0
"""What the simulation nodes share: paces a simulated cell and speaks for its robots.

Each robot takes ``joint_command`` and gives ``joint_states`` and ``ground_truth`` under its
namespace, as a real robot's driver would; the cell gives ``/clock``.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, TypeVar

import numpy as np
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.control.stream_resampler import ResamplerSettings
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint
from motion_nodes.model.placement import Placement, parse_placements
from motion_nodes.model.poses import to_quat_xyzw
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.instance_lock import InstanceLock
from motion_nodes.ros.joint_topics import JointStateWriter, set_stamp, stamp_ns
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param
from motion_nodes.sim.backend import RobotBackend, SimulationDiverged
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.placement import RobotPlacement

MAX_CATCH_UP = 0.1
"""[s] A simulation that fell further behind than this goes on from where it is."""

CATCH_UP_PERIODS = 5.0
"""A simulation that is behind advances by so many periods at once at most, so that those who lead
its robots keep up with it."""

RESET_SETTLES = 0.5
"""[s] For so long after a reset, commands may come from nodes that have not seen it yet."""

STAMP_SLACK_NS = 100_000_000
"""[ns] A command this much ahead of simulated time is of now."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimulationParams(NodeParams):
    """Parameters of a simulation."""

    update_rate: float = param(
        250.0, doc="Rate of joint_states.", unit="Hz", gt=0.0, le=1000.0, read_only=True
    )
    robots: tuple[str, ...] = param(
        doc="Robots to simulate, each as [NAMESPACE:=]ROBOT[@X,Y,YAW], in m and rad.",
        read_only=True,
    )
    real_time_factor: float = param(
        1.0, doc="Ratio of simulated time to real time.", gt=0.0, le=10.0
    )
    publish_clock: bool = param(
        True,
        doc="Publish /clock and stamp messages with simulated time; false: stamp with the "
        "node's clock.",
        read_only=True,
    )
    command_latency: float = param(
        0.008,
        doc="Time after its stamp at which a stamped reference takes effect; references are "
        "interpolated by cubics at each step of the physics. Two periods of the stream tolerate a "
        "message that is late by one. Multiplied by real_time_factor where that is above 1. 0: "
        "each message takes effect at once, like a message without a stamp.",
        unit="s",
        ge=0.0,
        le=0.5,
    )
    command_timeout: float = param(
        0.5,
        doc="Timeout of velocity and effort commands; when it expires the joints are stopped.",
        unit="s",
        gt=0.0,
        le=60.0,
    )


class SimulatedRobot:
    """The endpoints of one robot of the cell."""

    def __init__(
        self, node: MotionNode[Any], cell: RobotBackend, place: Placement, name: str
    ) -> None:
        """Create the topics under the robot's namespace."""
        self.name = name
        self._cell = cell
        self._warn = node.warn
        self._joints = cell.joint_names(name)
        self._where = {joint: i for i, joint in enumerate(self._joints)}
        prefix = f"{place.namespace}/" if place.namespace else ""
        self._commands = node.poll(JointState, f"{prefix}joint_command", qos.REFERENCES)
        self._writer = JointStateWriter(
            node.advertise(JointState, f"{prefix}joint_states"), self._joints, effort=True
        )
        self._truth = Odometry()
        self._truth.header.frame_id = "world"
        self._truth.child_frame_id = "base"
        self._truth_out = node.advertise(Odometry, f"{prefix}ground_truth")

    def take_commands(self, now_ns: int, oldest: float, latest_ns: int | None = None) -> None:
        """Hand over what came; a message that is not understood moves nothing.

        Args:
            now_ns: time on the clock of the stamps [ns].
            oldest: age from which a stamp does not count [s], nor one this far ahead; 0: none does.
            latest_ns: commands stamped later than this [ns] are from before a reset; None: all
                count.
        """
        for message in self._commands.all():
            stamp = stamp_ns(message)
            if latest_ns is not None and stamp > latest_ns:
                continue
            away = 1e-9 * (now_ns - stamp)
            stamped = stamp != 0 and abs(away) < oldest
            if stamp != 0 and oldest > 0.0 and not stamped:
                self._warn(
                    f"stamp {self.name}",
                    f"a joint_command's stamp is {abs(away):.1f} s {'old' if away > 0 else 'ahead'}"
                    "; it counts at once (does its sender use another use_sim_time?)",
                )
            try:
                targets = self._targets(message)
                if stamped:
                    self._cell.stream(self.name, targets, stamp)
                else:
                    self._cell.command(self.name, targets)
            except (InvalidCommand, UnknownJoint) as error:
                self._warn(f"command {self.name}", f"joint_command ignored: {error}")

    def publish(self, nanoseconds: int) -> None:
        """Send the state of joints and base."""
        sample = self._cell.state(self.name)
        self._writer.position[:] = sample.position
        self._writer.velocity[:] = sample.velocity
        self._writer.effort[:] = sample.effort
        self._writer.send(nanoseconds)

    def publish_truth(self, nanoseconds: int) -> None:
        """Send where the base really is."""
        X_WB = self._cell.base_pose(self.name)
        twist = self._cell.base_twist(self.name)
        pose, velocity = self._truth.pose.pose, self._truth.twist.twist
        pose.position.x, pose.position.y, pose.position.z = (float(v) for v in X_WB[:3, 3])
        quat = to_quat_xyzw(X_WB)
        rotation = pose.orientation
        rotation.x, rotation.y, rotation.z, rotation.w = (float(v) for v in quat)
        velocity.linear.x, velocity.linear.y, velocity.linear.z = (float(v) for v in twist[:3])
        velocity.angular.x, velocity.angular.y, velocity.angular.z = (float(v) for v in twist[3:])
        set_stamp(self._truth, nanoseconds)
        self._truth_out.publish(self._truth)

    def _targets(self, message: JointState) -> JointTargets:
        count = len(message.name)
        for name in message.name:
            if name not in self._where:
                raise UnknownJoint(name, self._joints, self.name)
        if len(set(message.name)) != count:
            raise InvalidCommand("a joint is named more than once")
        columns = [self._where[name] for name in message.name]
        channels = []
        for channel in ("position", "velocity", "effort"):
            values = getattr(message, channel)
            if len(values) not in (0, count):
                raise InvalidCommand(f"{len(values)} values of {channel} given for {count} joints")
            full = np.full(len(self._joints), np.nan)
            if len(values):
                full[columns] = values
            channels.append(full)
        return JointTargets(*channels)


S = TypeVar("S", bound=SimulationParams)

_SECOND_CLOCK = (
    "another simulation already publishes /clock in ROS domain {domain} (process {owner}); with "
    "two clocks time would jump for both. Stop that one, run this one in another domain "
    "(ROS_DOMAIN_ID), or set its publish_clock to false."
)


class SimulationNode(MotionNode[S]):
    """Runs a cell of simulated robots in real time."""

    _clock_lock: InstanceLock | None = None
    truth_rate = 50.0
    """Rate of ground_truth [Hz]."""

    def make_cell(self, placements: list[RobotPlacement]) -> RobotBackend:
        """Return the cell."""
        raise NotImplementedError

    def configure(self) -> None:
        """Build the cell and its robots' endpoints."""
        if self.params.publish_clock:
            self._clock_lock = InstanceLock("/clock", _SECOND_CLOCK)
        places = parse_placements(self.params.robots)
        names = [p.namespace.replace("/", "_") or f"robot_{i}" for i, p in enumerate(places)]
        self.cell = self.make_cell(
            [
                RobotPlacement(load_description(p.robot), name, p.X_WR)
                for p, name in zip(places, names, strict=True)
            ]
        )
        self._robots = [
            SimulatedRobot(self, self.cell, p, n) for p, n in zip(places, names, strict=True)
        ]
        self._clock_out = (
            self.advertise(Clock, "/clock", qos.CLOCK) if self.params.publish_clock else None
        )
        self._clock_message = Clock()
        self._paused = False
        self._reset_at = -float("inf")
        self._problem: str | None = None
        self._resampling: ResamplerSettings | None = None
        self.serve(Trigger, "~/reset", self._on_reset)
        self.serve(SetBool, "~/pause", self._on_pause)

    def activate(self) -> None:
        """Start pacing from now."""
        self._pace()
        self._resample()
        self._truth_at = -1.0
        self._factor = (time.monotonic(), self.cell.time)

    def tick(self, dt: float) -> None:
        """Take commands, advance to where the wall clock says, publish."""
        latest_ns, now_ns = self._latest_stamp(), self._stamp()
        oldest = self.params.command_timeout if self.params.command_latency > 0.0 else 0.0
        for robot in self._robots:
            robot.take_commands(now_ns, oldest, latest_ns)
        if not self._paused and self._problem is None:
            self._advance()
        nanoseconds = self._stamp()
        for robot in self._robots:
            robot.publish(nanoseconds)
        if self.cell.time >= self._truth_at or self.cell.time < self._truth_at - 1.0:
            self._truth_at = self.cell.time + 0.999 / self.truth_rate
            for robot in self._robots:
                robot.publish_truth(nanoseconds)
        if self._clock_out is not None:
            clock = self._clock_message.clock
            clock.sec, clock.nanosec = divmod(nanoseconds, 1_000_000_000)
            self._clock_out.publish(self._clock_message)

    def release(self) -> None:
        """Let another simulation publish /clock."""
        if self._clock_lock is not None:
            self._clock_lock.release()
            self._clock_lock = None

    def parameters_changed(self, params: S) -> None:
        """Pace anew at another real-time factor, and resample by another latency."""
        self._pace()
        self._resample()

    def diagnose(self, report: Report) -> None:
        """Say how fast simulated time runs."""
        if self._problem is not None:
            report.note("ERROR", f"{self._problem} (service ~/reset starts anew)")
        elif self._paused:
            report.note("OK", "paused")
        (wall, simulated), now = self._factor, (time.monotonic(), self.cell.time)
        self._factor = now
        factor = (now[1] - simulated) / max(now[0] - wall, 1e-9)
        report.value("real-time factor", factor)
        report.value("simulated time [s]", self.cell.time)
        wanted = self.params.real_time_factor
        if not self._paused and self._problem is None and 0.0 <= factor < 0.9 * wanted:
            report.note("WARN", f"simulated time runs at {factor:.2f} of the wall clock")

    def _pace(self) -> None:
        self._started = time.monotonic() - self.cell.time / self.params.real_time_factor

    def _resample(self) -> None:
        latency = self.params.command_latency
        factor = max(self.params.real_time_factor, 1.0) if self._clock_out is not None else 1.0
        settings = ResamplerSettings(latency=latency * factor)
        if settings != self._resampling:
            self._resampling = settings
            self.cell.set_resampling(settings)

    def _advance(self) -> None:
        factor, step = self.params.real_time_factor, self.cell.time_step
        # What this tick brings is in force from where the last one ended.
        begin_ns = self._stamp()
        due = (time.monotonic() - self._started) * factor - self.cell.time
        if self._clock_out is None:
            begin_ns -= round(1e9 * due / factor)
        if due > MAX_CATCH_UP * max(factor, 1.0):
            due = step
            self._started = time.monotonic() - (self.cell.time + due) / factor
        steps = int(min(due, CATCH_UP_PERIODS * self.period * factor) / step + 1e-6)
        try:
            self.cell.advance(steps, begin_ns, 1.0 if self._clock_out is not None else factor)
        except SimulationDiverged as error:
            self._problem = str(error)
            self.get_logger().error(f"simulation stopped: {error}; call ~/reset to start anew")
        for robot in self._robots:
            self.cell.release_stale(robot.name, self.params.command_timeout)

    def _stamp(self) -> int:
        return round(self.cell.time * 1e9) if self._clock_out is not None else self.now_ns()

    def _on_reset(self, _request: Any, response: Any) -> Any:
        return self._answer(response, self._reset, "back at the start")

    def _on_pause(self, request: Any, response: Any) -> Any:
        text = "paused" if request.data else "running"
        return self._answer(response, lambda: self._set_paused(request.data), text)

    def _answer(self, response: Any, job: Any, text: str) -> Any:
        try:
            self.in_loop(job)
            response.success, response.message = True, text
        except (MotionError, TimeoutError) as error:
            response.success, response.message = False, str(error) or "the loop did not answer"
        return response

    def _latest_stamp(self) -> int | None:
        """Return the latest stamp [ns] that a command may have shortly after a reset."""
        if self._clock_out is None or time.monotonic() - self._reset_at > RESET_SETTLES:
            return None
        return self._stamp() + STAMP_SLACK_NS

    def _reset(self) -> None:
        self.cell.reset()
        self._reset_at = time.monotonic()
        self._problem = None
        self._truth_at = -1.0
        self._pace()

    def _set_paused(self, paused: bool) -> None:
        self._paused = paused
        self._pace()

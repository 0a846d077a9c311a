# SPDX-License-Identifier: Apache-2.0
"""Base of the simulation nodes: paces a simulated cell and provides the topics of its robots.

Each robot subscribes to ``joint_command`` and publishes ``joint_states`` and ``ground_truth`` in
its namespace, like a driver; the cell publishes ``/clock``.
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
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.model.placement import Placement, parse_placements
from motion_nodes.model.poses import to_quat_xyzw
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.instance_lock import InstanceLock
from motion_nodes.ros.joint_topics import JointStateWriter, set_stamp, stamp_ns
from motion_nodes.ros.loop_services import respond_from_loop
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param
from motion_nodes.sim.backend import RobotBackend, SimulationDiverged
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.placement import RobotPlacement

MAX_CATCH_UP = 0.1
"""Delay beyond which a simulation does not catch up with real time [s]."""

CATCH_UP_PERIODS = 5.0
"""Max number of periods by which a delayed simulation advances at once, so that controllers keep up
with it."""

RESET_TIME = 0.5
"""Time after a reset in which commands from before it may still arrive [s]."""

STAMP_TOLERANCE_NS = 100_000_000
"""Max time by which the stamp of a command may be ahead of simulated time [ns]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimulationParams(NodeParams):
    """Parameters of a simulation."""

    update_rate: float = param(
        250.0, doc="Publish rate of joint_states.", unit="Hz", gt=0.0, le=1000.0, read_only=True
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
        doc="Delay between the stamp of a reference and its effect; references are interpolated "
        "by cubics at each physics step. Two periods of the stream tolerate a message that is one "
        "period late. Multiplied by real_time_factor if that is above 1. 0: messages take effect "
        "at once, like those without a stamp.",
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
    """Topics of one robot of the cell."""

    def __init__(
        self, node: MotionNode[Any], cell: RobotBackend, place: Placement, name: str
    ) -> None:
        """Create the topics.

        Args:
            node: the simulation.
            cell: simulated cell.
            place: namespace of the robot.
            name: of the robot in the cell.
        """
        self.name = name
        self._cell = cell
        self._warn = node.warn
        self._joints = cell.joint_names(name)
        self._indices = {joint: i for i, joint in enumerate(self._joints)}
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
        """Apply received commands; invalid ones are ignored.

        Args:
            now_ns: time of the stamps' clock [ns].
            oldest: max deviation of stamps from that time; beyond it they are ignored [s]. 0: all
                stamps are ignored.
            latest_ns: commands with a later stamp are from before a reset and dropped [ns]; None:
                all are used.
        """
        for message in self._commands.all():
            stamp = stamp_ns(message)
            if latest_ns is not None and stamp > latest_ns:
                continue
            age = 1e-9 * (now_ns - stamp)
            stamped = stamp != 0 and abs(age) < oldest
            if stamp != 0 and oldest > 0.0 and not stamped:
                self._warn(
                    f"stamp {self.name}",
                    f"a joint_command's stamp is {abs(age):.1f} s {'old' if age > 0 else 'ahead'}"
                    "; it is applied at once (does its sender use another use_sim_time?)",
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
        """Publish ``joint_states``, at a time [ns]."""
        sample = self._cell.state(self.name)
        self._writer.position[:] = sample.position
        self._writer.velocity[:] = sample.velocity
        self._writer.effort[:] = sample.effort
        self._writer.send(nanoseconds)

    def publish_truth(self, nanoseconds: int) -> None:
        """Publish ``ground_truth``: pose and twist of the base, at a time [ns]."""
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
            if name not in self._indices:
                raise UnknownJoint(name, self._joints, self.name)
        if len(set(message.name)) != count:
            raise InvalidCommand("a joint name occurs more than once")
        columns = [self._indices[name] for name in message.name]
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
    "another simulation already publishes /clock in ROS domain {domain} (process {owner}). Stop "
    "it, run this one in another domain (ROS_DOMAIN_ID), or set publish_clock of one to false."
)


class SimulationNode(MotionNode[S]):
    """Runs a cell of simulated robots, paced by real time."""

    _clock_lock: InstanceLock | None = None
    truth_rate = 50.0
    """Rate of ground_truth [Hz]."""

    def make_cell(self, placements: list[RobotPlacement]) -> RobotBackend:
        """Return the simulated cell."""
        raise NotImplementedError

    def configure(self) -> None:
        """Create the cell and the topics of its robots."""
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
        """Start the simulation."""
        self._pace()
        self._resample()
        self._truth_at = -1.0
        self._factor = (time.monotonic(), self.cell.time)

    def tick(self, dt: float) -> None:
        """Apply commands, advance to the current time, publish states."""
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
        """Release the lock of ``/clock``."""
        if self._clock_lock is not None:
            self._clock_lock.release()
            self._clock_lock = None

    def parameters_changed(self, params: S) -> None:
        """Apply real-time factor and latency."""
        self._pace()
        self._resample()

    def diagnose(self, report: Report) -> None:
        """Report simulated time and the real-time factor."""
        if self._problem is not None:
            report.note("ERROR", f"{self._problem} (call ~/reset to restart)")
        elif self._paused:
            report.note("OK", "paused")
        (wall, simulated), now = self._factor, (time.monotonic(), self.cell.time)
        self._factor = now
        factor = (now[1] - simulated) / max(now[0] - wall, 1e-9)
        report.value("real-time factor", factor)
        report.value("simulated time [s]", self.cell.time)
        nominal = self.params.real_time_factor
        if not self._paused and self._problem is None and 0.0 <= factor < 0.9 * nominal:
            report.note("WARN", f"real-time factor is {factor:.2f} instead of {nominal:g}")

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
        # Commands of this cycle take effect at the end of the last one.
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
            self.get_logger().error(f"simulation stopped: {error}; call ~/reset to restart")
        for robot in self._robots:
            self.cell.release_stale(robot.name, self.params.command_timeout)

    def _stamp(self) -> int:
        return round(self.cell.time * 1e9) if self._clock_out is not None else self.now_ns()

    def _on_reset(self, _request: Any, response: Any) -> Any:
        return respond_from_loop(self, response, self._reset)

    def _on_pause(self, request: Any, response: Any) -> Any:
        return respond_from_loop(self, response, lambda: self._set_paused(request.data))

    def _latest_stamp(self) -> int | None:
        """Return the max stamp of valid commands shortly after a reset [ns]; None otherwise."""
        if self._clock_out is None or time.monotonic() - self._reset_at > RESET_TIME:
            return None
        return self._stamp() + STAMP_TOLERANCE_NS

    def _reset(self) -> str:
        self.cell.reset()
        self._reset_at = time.monotonic()
        self._problem = None
        self._truth_at = -1.0
        self._pace()
        return "the simulation was reset"

    def _set_paused(self, paused: bool) -> str:
        self._paused = paused
        self._pace()
        return "paused" if paused else "running"

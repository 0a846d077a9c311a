# SPDX-License-Identifier: Apache-2.0
"""Base of the simulation nodes: paces a simulated cell and provides the topics of its robots.

Each robot subscribes to ``joint_command`` and publishes ``joint_states`` and ``ground_truth`` in
its namespace, like a driver; the cell publishes ``/clock``. Floating robots also publish their IMU,
and subscribe to the gains of their drives.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from control_msgs.msg import DynamicJointState
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.core.control.stream_resampler import ResamplerSettings, StreamSample
from motion_nodes.core.robot.configurations import follower_names
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.placement import Placement, parse_placements
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint
from motion_nodes.extras.sim.backend import RobotBackend, RobotPlacement, SimulationDiverged
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.repeated_cycles import (
    RepeatedCycles,
    RepeatedInput,
    RepeatedOutput,
    Repetitions,
    simulation_cycle,
)
from motion_nodes.ros.concurrency.servers import respond_from_loop
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.instance_lock import InstanceLock
from motion_nodes.ros.joint_topics import JointStateWriter, set_stamp
from motion_nodes.ros.messages.cdr import InvalidMessage, MessageTemplate
from motion_nodes.ros.messages.joint_channels import JointChannels, read_gains
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param

MAX_CATCH_UP = 0.1
"""Delay beyond which a simulation does not catch up with real time [s]."""
CATCH_UP_PERIODS = 5.0
"""Max number of periods by which a delayed simulation advances at once, so that controllers keep up
with it."""
MAX_REFERENCE_WAIT, MAX_RESTING_WAIT = 1.0, 0.1
"""Max real time for which simulated time waits for the next reference of a stream [s], if it moves
and if it rests."""
RESET_TIME = 0.5
"""Time after a reset in which commands from before it may still arrive [s]."""
STAMP_TOLERANCE_NS = 100_000_000
"""Max time by which the stamp of a command may be ahead of simulated time [ns]."""
LATENCY_PERIODS, MIN_LATENCY, MAX_LATENCY = 2.0, 0.008, 0.5
"""Default command latency [periods of update_rate], the min of this default, and max [s]."""
TRUTH_PERIODS = 0.999
"""Min distance of two messages of ground_truth, in periods of their rate."""
REST_PERIOD = 0.05
"""[s] Max period of complete cycles at rest; streams are interpolated over gaps up to 0.1 s."""
STANDING_PERIOD = 0.02
"""Real time between messages while simulated time stands still [s]."""
_SECOND_CLOCK = (
    "another simulation already publishes /clock in ROS domain {domain} (process {owner}). Stop "
    "it, run this one in another domain (ROS_DOMAIN_ID), or set publish_clock of one to false."
)


class FloatingBaseTopics:
    """Publishes ``imu`` and applies ``joint_gains``."""

    def __init__(
        self, node: MotionNode[Any], cell: RobotBackend, robot: Robot, name: str, prefix: str
    ) -> None:
        """Create the topics.

        Args:
            node: the simulation.
            cell: simulated cell.
            robot: the robot.
            name: of the robot in the cell.
            prefix: of its topics.
        """
        self._cell, self._name, self._warn = cell, name, node.warn
        self._imu = Imu()
        self._imu.header.frame_id = f"{prefix}{robot.base_frame}"
        self._out = node.advertise(Imu, f"{prefix}imu")
        self._gains = node.poll(DynamicJointState, f"{prefix}joint_gains", qos.LATCHED)

    def take_gains(self) -> None:
        """Apply the newest gains; invalid ones are ignored."""
        message = self._gains.newest()
        if message is None:
            return
        try:
            gains = read_gains(message, self._cell.joint_names(self._name), self._name)
            self._cell.set_gains(self._name, *gains)
        except (InvalidCommand, UnknownJoint) as error:
            self._warn(f"gains {self._name}", f"joint_gains ignored: {error}")

    def publish(self, nanoseconds: int) -> None:
        """Publish the measurement of an IMU in the base frame, at a time [ns]."""
        quat = to_quat_xyzw(self._cell.base_pose(self._name)).tolist()
        omega = self._cell.base_twist(self._name)[3:].tolist()
        acceleration = self._cell.base_acceleration(self._name).tolist()
        q, w, a = (
            self._imu.orientation, self._imu.angular_velocity, self._imu.linear_acceleration
        )  # fmt: skip
        q.x, q.y, q.z, q.w = quat
        w.x, w.y, w.z = omega
        a.x, a.y, a.z = acceleration
        set_stamp(self._imu, nanoseconds)
        self._out.publish(self._imu)


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
        robot = next(p.robot for p in cell.placements if p.name == name)
        self._channels = JointChannels(self._joints, name, robot.tree)
        self._last, self._last_ns = b"", 0
        """The last command as a message, if it belongs to a stamped stream, and its stamp [ns]."""
        self._sample: StreamSample | None = None
        self._targets = JointTargets()
        """The last command."""
        prefix = f"{place.namespace}/" if place.namespace else ""
        self._commands = node.poll_bytes(JointState, f"{prefix}joint_command", qos.REFERENCES)
        self._writer = JointStateWriter(
            node.advertise(JointState, f"{prefix}joint_states"),
            (*self._joints, *follower_names(robot.tree)),
            effort=True,
        )
        self._truth = Odometry()
        self._place = b""
        """Pose and twist in it."""
        self._still: MessageTemplate | None = None
        self._truth.header.frame_id = "world"
        self._truth.child_frame_id = "base"
        self._truth_out = node.advertise(Odometry, f"{prefix}ground_truth")
        self._fixed = robot.kind == "arm"
        self._floating: FloatingBaseTopics | None = None
        if robot.kind == "floating":
            self._floating = FloatingBaseTopics(node, cell, robot, name, prefix)

    def take_commands(self, now_ns: int, oldest: float, latest_ns: int | None = None) -> None:
        """Apply received commands; invalid ones are ignored.

        Args:
            now_ns: time of the stamps' clock [ns].
            oldest: max deviation of stamps from that time; beyond it they are ignored [s]. 0: all
                stamps are ignored.
            latest_ns: commands with a later stamp are from before a reset and dropped [ns]; None:
                all are used.
        """
        if self._floating is not None:
            self._floating.take_gains()
        for message in self._commands.all():
            try:
                stamp, sample = self._channels.read_serialized(message)
            except InvalidMessage as error:
                self._commands.refuse(str(error))
                continue
            except (InvalidCommand, UnknownJoint) as error:
                self._warn(f"command {self.name}", f"joint_command ignored: {error}")
                continue
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
            if sample is not self._sample:
                self._sample, self._targets = sample, JointTargets(*sample)
            self._last = b""
            try:
                if stamped:
                    self._cell.stream(self.name, self._targets, stamp)
                    self._last, self._last_ns = message, stamp
                else:
                    self._cell.command(self.name, self._targets)
            except InvalidCommand as error:
                self._warn(f"command {self.name}", f"joint_command ignored: {error}")

    def publish(self, nanoseconds: int) -> None:
        """Publish ``joint_states``, and the IMU of a floating robot, at a time [ns]."""
        if self._floating is not None:
            self._floating.publish(nanoseconds)
        sample = self._cell.state(self.name)
        writer, count = self._writer, len(self._joints)
        writer.position[:count], writer.position[count:] = sample.position, sample.followers[0]
        writer.velocity[:count], writer.velocity[count:] = sample.velocity, sample.followers[1]
        # Without a drive, a mimic joint has no effort of its own.
        writer.effort[:count], writer.effort[count:] = sample.effort, 0.0
        self._writer.send(nanoseconds)

    @property
    def input(self) -> RepeatedInput:
        """The commands, of which the next ones may repeat the last one."""
        slack = self._cell.slack_ns(self.name, self._last_ns) if self._last else -1
        return RepeatedInput(self._commands, self._last, self._last_ns, slack)

    @property
    def floats(self) -> bool:
        """Whether its base is floating: it has an IMU, and its drives obey ``joint_gains``."""
        return self._floating is not None

    @property
    def state_output(self) -> RepeatedOutput:
        """The state as it was published last."""
        return self._writer.repeated_output()

    def truth_output(self, period_ns: int, due_ns: int) -> RepeatedOutput:
        """Return ``ground_truth`` as it was published last.

        Args:
            period_ns: min distance of its stamps [ns].
            due_ns: earliest of them [ns].
        """
        assert self._still is not None
        return RepeatedOutput(self._truth_out, self._still.data, period_ns, due_ns)

    def repeat(self, stamps: Sequence[int]) -> None:
        """Account for messages that repeat the last command, by their stamps [ns]."""
        for stamp in stamps:
            self._last_ns = stamp
            self._cell.stream(self.name, self._targets, stamp)

    def publish_truth(self, nanoseconds: int) -> None:
        """Publish ``ground_truth``: pose and twist of the base, at a time [ns]."""
        if self._still is None or not self._fixed:
            self._still = self._truth_of_base()
        self._truth_out.publish(self._still.bytes(nanoseconds))

    def _truth_of_base(self) -> MessageTemplate:
        """Return the message with the current pose and twist."""
        X_WB = self._cell.base_pose(self.name)
        twist = self._cell.base_twist(self.name)
        place = X_WB.tobytes() + twist.tobytes()
        if place == self._place and self._still is not None:
            return self._still
        self._place = place
        pose, velocity = self._truth.pose.pose, self._truth.twist.twist
        pose.position.x, pose.position.y, pose.position.z = (float(v) for v in X_WB[:3, 3])
        quat = to_quat_xyzw(X_WB)
        rotation = pose.orientation
        rotation.x, rotation.y, rotation.z, rotation.w = (float(v) for v in quat)
        velocity.linear.x, velocity.linear.y, velocity.linear.z = (float(v) for v in twist[:3])
        velocity.angular.x, velocity.angular.y, velocity.angular.z = (float(v) for v in twist[3:])
        return MessageTemplate(self._truth)


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
    initial_positions: tuple[str, ...] = param(
        (),
        doc="Positions of joints at the start instead of those of the state home, each as "
        "[NAMESPACE/]JOINT=VALUE, in rad or m. The bring-up sets it from an initial_positions.yaml "
        "of MoveIt.",
        read_only=True,
    )
    real_time_factor: float = param(
        1.0, doc="Ratio of simulated time to real time.", gt=0.0, le=10.0
    )
    publish_clock: bool = param(
        True, doc="Publish /clock and stamp messages with simulated time; false: stamp with the "
        "node's clock.", read_only=True,
    )  # fmt: skip
    command_latency: float = param(
        math.nan,
        doc="Delay between the stamp of a reference and its effect; references are interpolated "
        "by cubics at each physics step. Not set (NaN): two periods of update_rate, which tolerate "
        "a reference that is one period late, but at least 8 ms. Multiplied by real_time_factor if "
        "that is above 1. 0: messages take effect at once, like those without a stamp.", unit="s",
        ge=0.0, le=MAX_LATENCY, nan=True,
    )  # fmt: skip
    command_timeout: float = param(
        0.5, doc="Timeout of velocity and effort commands; when it expires the joints are stopped.",
        unit="s", gt=0.0, le=60.0,
    )  # fmt: skip


S = TypeVar("S", bound=SimulationParams)


def begun_at(robot: Robot, namespace: str, entries: Sequence[str]) -> Robot:
    """Return a robot whose state at the start has other positions of some joints.

    Args:
        robot: the robot.
        namespace: of the robot; entries of others are passed over.
        entries: see :attr:`SimulationParams.initial_positions`.

    Raises:
        InvalidConfig: an entry of another form, or a position outside the limits.
        UnknownJoint: a joint that the robot does not have.
    """
    home, limits = np.array(robot.home), robot.limits
    for entry in entries:
        word, _, number = entry.partition("=")
        space, _, joint = word.rpartition("/")
        if space != namespace:
            continue
        if joint not in limits.names:
            raise UnknownJoint(joint, limits.names, robot.name)
        k = limits.names.index(joint)
        low, high = float(limits.lower[k]), float(limits.upper[k])
        try:
            home[k] = float(number)
        except ValueError:
            home[k] = math.nan
        if not low <= home[k] <= high:
            raise InvalidConfig(
                f"initial_positions has '{entry}'; each entry is [NAMESPACE/]JOINT=VALUE, with "
                f"{low:g} <= VALUE <= {high:g} for '{joint}'",
                field="initial_positions",
            )
    return dataclasses.replace(robot, home=frozen(home)) if entries else robot


class SimulationNode(MotionNode[S]):
    """Runs a cell of simulated robots, paced by real time."""

    _clock_lock: InstanceLock | None = None
    repeated_cycle = simulation_cycle
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
                RobotPlacement(
                    begun_at(load_description(p.robot), p.namespace, self.params.initial_positions),
                    name,
                    p.X_WR,
                )
                for p, name in zip(places, names, strict=True)
            ]
        )
        self._robots = [
            SimulatedRobot(self, self.cell, p, n) for p, n in zip(places, names, strict=True)
        ]
        self._clock_out = (
            self.advertise(Clock, "/clock", qos.CLOCK) if self.params.publish_clock else None
        )
        self._clock_message = MessageTemplate(Clock())
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
        self._sent_ns, self._sent_at = -1, 0.0
        self._factor = self._reached = (time.monotonic(), self.cell.time)

    def tick(self, dt: float) -> None:
        """Apply commands, advance to the current time, publish states.

        While simulated time stands still, messages that repeat are rare: they would delay the
        controllers that it waits for.
        """
        begin_ns = self._stamp()
        oldest = self.params.command_timeout if self._latency > 0.0 else 0.0
        latest_ns = self._latest_stamp(begin_ns)
        for robot in self._robots:
            robot.take_commands(begin_ns, oldest, latest_ns)
        if not self._paused and self._problem is None:
            self._advance(begin_ns)
        nanoseconds, now = self._stamp(), time.monotonic()
        self._reached = (now, self.cell.time)
        if nanoseconds == self._sent_ns and now < self._sent_at + STANDING_PERIOD:
            return
        self._sent_ns, self._sent_at = nanoseconds, now
        self._publish(nanoseconds)
        if self.idles():
            self._repeat()

    def idles(self) -> bool:
        """Return whether the next cycles change nothing but the time."""
        resetting = time.monotonic() - self._reset_at < 2.0 * RESET_TIME
        runs = not (self._paused or self._problem or resetting) and self._clock_out is not None
        floating = any(robot.floats for robot in self._robots)
        return runs and not floating and self.cell.references_rest() and self.cell.sleeps

    def silent(self) -> list[PolledSubscription[Any]]:
        """Return subscriptions of which any message changes the cell; without commands."""
        return []

    def _repeat(self) -> None:
        """Let the next cycles advance the time alone."""
        truth_ns = round(self._truth_at * 1e9)
        truth = [robot.truth_output(round(TRUTH_PERIODS * 1e9 / self.truth_rate), truth_ns)
                 for robot in self._robots]  # fmt: skip
        self.repeat(
            min(REST_PERIOD, 0.25 * self.params.command_timeout),
            self.silent(),
            [robot.input for robot in self._robots],
            [
                *(robot.state_output for robot in self._robots),
                *truth,
                RepeatedOutput(self._clock_out, self._clock_message.data),
            ],
        )

    def set_cycle_time(self, cycles: RepeatedCycles) -> None:
        """Set the time of repeated cycles: it follows real time."""
        factor = self.params.real_time_factor
        most = CATCH_UP_PERIODS * self.period * factor
        cycles.advance(self._started, factor, self.cell.time_step, self.cell.time, most)

    def repeated(self, done: Repetitions) -> None:
        """Account for cycles that advanced the time alone."""
        self.cell.pass_time(done.steps)
        for robot, stamps in zip(self._robots, done.inputs, strict=True):
            robot.repeat(stamps)
        if done.stamps:
            self._sent_ns, self._sent_at = done.stamps[-1], time.monotonic()
            self._progress_at = self._sent_at
            self._truth_at = done.due[len(self._robots)] * 1e-9

    def _publish(self, nanoseconds: int) -> None:
        """Publish states, poses and ``/clock`` at a time [ns]."""
        for robot in self._robots:
            robot.publish(nanoseconds)
        now = self.cell.time
        if now >= self._truth_at or now < self._truth_at - 1.0:
            self._truth_at = now + TRUTH_PERIODS / self.truth_rate
            for robot in self._robots:
                robot.publish_truth(nanoseconds)
        if self._clock_out is not None:
            self._clock_out.publish(self._clock_message.bytes(nanoseconds))

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
        (wall, simulated), now = self._factor, self._reached
        self._factor = now
        factor = (now[1] - simulated) / max(now[0] - wall, 1e-9)
        report.value("real-time factor", factor)
        report.value("simulated time [s]", self.cell.time)
        report.value("references extrapolated", self.cell.extrapolated)
        nominal = self.params.real_time_factor
        if not self._paused and self._problem is None and 0.0 <= factor < 0.9 * nominal:
            report.note("WARN", f"real-time factor is {factor:.2f} instead of {nominal:g}")

    def _pace(self) -> None:
        self._progress_at = time.monotonic()
        self._started = time.monotonic() - self.cell.time / self.params.real_time_factor

    def _resample(self) -> None:
        given = self.params.command_latency
        default = min(max(LATENCY_PERIODS * self.period, MIN_LATENCY), MAX_LATENCY)
        self._latency = default if math.isnan(given) else given
        factor = max(self.params.real_time_factor, 1.0) if self._clock_out is not None else 1.0
        settings = ResamplerSettings(latency=self._latency * factor)
        if settings != self._resampling:
            self._resampling = settings
            self.cell.set_resampling(settings)

    def _advance(self, begin_ns: int) -> None:
        """Advance to the current time; commands of this cycle take effect from ``begin_ns`` on."""
        factor, step, simulated = self.params.real_time_factor, self.cell.time_step, self.cell.time
        due = (time.monotonic() - self._started) * factor - simulated
        if self._clock_out is None:
            # The end of the last cycle, by the node's clock.
            begin_ns = self.now_ns() - round(1e9 * due / factor)
        if due > MAX_CATCH_UP * max(factor, 1.0):
            due = step
            self._started = time.monotonic() - (simulated + due) / factor
        steps = int(min(due, CATCH_UP_PERIODS * self.period * factor) / step + 1e-6)
        if self._clock_out is not None:
            steps = self._steps_with_references(steps, begin_ns)
        try:
            self.cell.advance(steps, begin_ns, 1.0 if self._clock_out is not None else factor)
        except SimulationDiverged as error:
            self._problem = str(error)
            self.get_logger().error(f"simulation stopped: {error}; call ~/reset to restart")
        for robot in self._robots:
            self.cell.release_stale(robot.name, self.params.command_timeout)

    def _steps_with_references(self, due: int, begin_ns: int) -> int:
        """Return how many of the due steps the reference streams cover.

        Simulated time waits for late references, for a limited real time: a busy machine slows the
        simulation, and its robots follow the same motion.
        """
        now, step = time.monotonic(), self.cell.time_step
        waited = now - self._progress_at
        if waited > MAX_RESTING_WAIT:
            end_ns = begin_ns + round(1e9 * step) - 1
            self.cell.end_late_streams(end_ns, resting=waited <= MAX_REFERENCE_WAIT)
        covered_ns, steps = self.cell.covered_ns(), due
        if covered_ns is not None:
            steps = min(due, max(int((covered_ns - begin_ns) * 1e-9 / step + 1e-6), 0))
        if steps > 0 or due == 0:
            self._progress_at = now
        return steps

    def _stamp(self) -> int:
        return round(self.cell.time * 1e9) if self._clock_out is not None else self.now_ns()

    def _on_reset(self, _request: Any, response: Any) -> Any:
        return respond_from_loop(self, response, self._reset)

    def _on_pause(self, request: Any, response: Any) -> Any:
        return respond_from_loop(self, response, lambda: self._set_paused(request.data))

    def _latest_stamp(self, now_ns: int) -> int | None:
        """Return the max stamp of valid commands shortly after a reset [ns]; None otherwise."""
        if self._clock_out is None or time.monotonic() - self._reset_at > RESET_TIME:
            return None
        return now_ns + STAMP_TOLERANCE_NS

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

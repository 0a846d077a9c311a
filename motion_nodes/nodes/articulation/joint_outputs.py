# SPDX-License-Identifier: Apache-2.0
"""Outputs of the articulation controller: ``joint_command``, ``~/controller_state``, ``~/status``.

Cycles at rest repeat the last command: the robot reports the same values, no command is active, the
reference stays. Most of these cycles are compiled ones (ros/concurrency/repeated_cycles.py); a
complete one at a lower rate supervises what depends on time. Any change, of the state, by a message
or by another thread, makes the same cycle a complete one.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from sensor_msgs.msg import JointState

from motion_nodes.core.control.active_trajectories import TrajectoryFollower
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import ControlMode, JointReference
from motion_nodes.core.control.joint_drive import (
    DriveLaw,
    EffortLimiter,
    motion_load,
    one_step_back,
)
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.robot import Robot
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.nodes.articulation.joint_supervision import StateMonitor
from motion_nodes.nodes.articulation.stream_inputs import StreamInputs
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.repeated_cycles import RepeatedOutput
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.endpoint_node import subscribed
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter
from motion_nodes.ros.messages.cdr import MessageTemplate
from motion_nodes.ros.names import CONTACT, PREEMPTED
from motion_nodes.ros.node import MotionNode
from motion_nodes.tolerances import UNCHANGED_POSITIONS
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

REPORTED = (
    "reference.positions", "reference.velocities", "reference.accelerations",
    "feedback.positions", "feedback.velocities",
    "error.positions", "error.velocities", "output.positions", "output.velocities",
    "output.effort",
)  # fmt: skip
"""Arrays of ~/controller_state."""
SENT = 256
"""Number of messages of which the stamps are kept."""
REST_TIME = 1.0
"""[s] Time without a change after which commands are repeated: guards and filters have settled."""


@dataclass
class MotionLoad:
    """Feed-forward efforts by inverse dynamics."""

    dynamics: InverseDynamics
    gravity: bool
    """Whether to compensate gravity."""
    inertia: bool
    """Whether to include inertial, Coriolis and centrifugal efforts of the reference."""

    def of(self, reference: JointReference, state: JointStateReader) -> Array:
        """Return the efforts at the measured state [N m or N], shape (n,)."""
        return motion_load(
            self.dynamics, reference, state.position, state.velocity,
            gravity=self.gravity, inertia=self.inertia,
        )  # fmt: skip


@dataclass
class EffortDrives:
    """Joint control by efforts or velocities that the node computes."""

    law: DriveLaw
    limits: Array
    """Limits of its output [N m or N; rad/s or m/s], shape (n,)."""
    factor: Array
    """Factors of the reference velocities in the output, shape (n,)."""
    velocities: bool = False
    """Whether the output are velocities."""


def output_limits(params: ArticulationParams, limits: JointLimits) -> tuple[Array, Array]:
    """Return factors of reference velocities, and limits of the output, shape (n,) each."""
    factor, clamp = params.output()
    by_velocity = params.interfaces[0] == "velocity"
    return factor, np.minimum(limits.velocity if by_velocity else limits.effort, clamp)


def outputs_of(
    node: MotionNode[Any],
    robot: Robot,
    dynamics: InverseDynamics | None,
    stiffness: Array,
    effort_bounds: Array,
) -> JointOutputs:
    """Create the outputs for the parameters of a controller.

    Args:
        node: the controller; its parameters are ArticulationParams.
        robot: with the joints.
        dynamics: inverse dynamics of the joints; None if the parameters do not require it.
        stiffness: of the robot's drives [N m/rad or N/m], shape (n,); 0 if unknown.
        effort_bounds: current effort limits [N m or N], shape (n,); read at each message.
    """
    params: ArticulationParams = node.params
    limits, drives, load = params.limits(robot), None, None
    interface = params.interfaces[0]
    if interface != "position":
        factor, most = output_limits(params, limits)
        law = DriveLaw(params.joints, params.gains(), most, params.modes())
        drives = EffortDrives(law, most, factor, interface == "velocity")
        if drives.velocities:
            dynamics = None
    if dynamics is not None and (drives is not None or params.feed_forward):
        load = MotionLoad(dynamics, params.gravity_compensation, params.inertia_compensation)
    limiter = EffortLimiter(stiffness, robot.limits.select(params.joints))
    return JointOutputs(node, params.joints, drives, load, limiter, effort_bounds)


class JointOutputs:
    """Publishes ``joint_command`` and ``~/controller_state``.

    With command_interface position, ``joint_command`` is the reference, which the robot's drives
    follow; with effort, the efforts computed from it.
    """

    def __init__(
        self,
        node: MotionNode[Any],
        joints: Sequence[str],
        drives: EffortDrives | None,
        load: MotionLoad | None,
        limiter: EffortLimiter,
        effort_bounds: Array,
    ) -> None:
        """Create the publishers.

        Args:
            node: the controller.
            joints: under control.
            drives: effort computation; None with command_interface position.
            load: feed-forward efforts, required with ``drives``; None without feed-forward.
            limiter: effort limiter of position references.
            effort_bounds: current effort limits [N m or N], shape (n,); read at each message.
        """
        self.drives, self.load = drives, load
        self._limiter, self._bounds = limiter, effort_bounds
        self._stamp_ns = 0
        """Stamp of the last reference."""
        self._written: JointReference | None = None
        """The reference in the message, if it rests."""
        self.sent: deque[int] = deque(maxlen=SENT)
        """Stamps of the newest messages [ns]."""
        self._writer = JointStateWriter(
            node.advertise(JointState, "joint_command", qos.REFERENCE_STREAM), joints, effort=True
        )
        self._out = [
            node.advertise(JointTrajectoryControllerState, f"{name}/controller_state")
            for name in ("~", *node.params.aliases)
        ]
        self._report = MessageTemplate(
            JointTrajectoryControllerState(joint_names=list(joints)),
            {**dict.fromkeys(REPORTED, len(joints)), "speed_scaling_factor": 0},
            ("reference.time_from_start", "feedback.time_from_start"),
        )
        self._timed = False
        """Whether the report has times of a trajectory."""
        self._nan = np.full(len(joints), np.nan)
        self._loaded_at: Array = self._nan.copy()
        """Measured positions that the feed-forward efforts in the message were computed at."""
        self._measured_at_effort: Array = self._nan.copy()
        """Measured positions that the last efforts were computed at; NaN if none were sent."""
        self.position: Array = self._nan.copy()
        """Last position references [rad or m], shape (n,); NaN if none were sent."""
        self.velocity: Array = self._nan.copy()
        """Last velocity references [rad/s or m/s], shape (n,)."""
        self._acceleration: Array = self._nan.copy()
        """Last acceleration references [rad/s^2 or m/s^2], shape (n,)."""

    def set_params(
        self, params: ArticulationParams, limits: JointLimits, modes: Mapping[str, ControlMode]
    ) -> None:
        """Apply changed parameters.

        Args:
            params: of the controller.
            limits: of the joints.
            modes: control mode of each joint.
        """
        self._written = None
        if self.drives is not None:
            gains = params.gains()
            self.drives.law.set_gains(gains.kp, gains.kd, gains.ki)
            self.drives.factor, self.drives.limits = output_limits(params, limits)
            for joint, mode in modes.items():
                self.drives.law.switch_mode(mode, [joint])
        if self.load is not None:
            self.load.gravity = params.gravity_compensation
            self.load.inertia = params.inertia_compensation

    def reset(self) -> None:
        """Discard the last reference."""
        self._written = None
        self.position[:] = np.nan
        self._measured_at_effort[:] = np.nan
        self._limiter.reset()
        if self.drives is not None:
            self.drives.law.reset()

    def send(
        self, reference: JointReference, state: JointStateReader, period: float, stamp_ns: int
    ) -> None:
        """Publish the command of a deadline.

        Args:
            reference: for one period after the deadline.
            state: measured.
            period: of the deadlines [s].
            stamp_ns: deadline [ns].
        """
        self.position[:], self.velocity[:] = reference.positions, reference.velocities
        self._acceleration[:] = reference.accelerations
        drives = self.drives
        if drives is None:
            sent = self._limiter.limit(reference, state.position, self._bounds, period)
            if sent is self._written and self._load_holds(state):
                self.send_again(stamp_ns)
                return
            efforts = sent.efforts if self.load is None else self._with_load(sent, state)
            self._write(sent.positions, sent.velocities, efforts, stamp_ns)
            # A reference at rest is the same object in each cycle, whose arrays are read-only.
            self._written = None if sent.positions.flags.writeable else sent
            return
        limits = drives.limits
        if not drives.velocities:
            limits = np.minimum(limits, self._bounds)
        if not np.array_equal(limits, drives.law.max_efforts):
            drives.law.set_max_efforts(limits)
        due = one_step_back(reference, period)
        load = 0.0 if self.load is None else self.load.of(due, state)
        direct = np.isnan(reference.positions) & np.isnan(reference.velocities)
        if drives.factor.any():
            forward = np.nan_to_num(due.efforts) + drives.factor * np.nan_to_num(due.velocities)
            due = dataclasses.replace(due, efforts=np.where(direct, due.efforts, forward))
        output = drives.law.efforts(due, state.position, state.velocity, period, load=load)
        if drives.velocities:
            output = np.where(direct, np.nan, output)
            self._write(self._nan, output, np.where(direct, reference.efforts, np.nan), stamp_ns)
            return
        output = np.where(direct, reference.efforts.clip(-limits, limits), output)
        self._measured_at_effort = state.position.copy()
        self._write(self._nan, self._nan, output, stamp_ns)

    def sent_last(self, reference: JointReference | None) -> bool:
        """Return whether the last command consists of a reference at rest and its load."""
        return reference is not None and reference is self._written

    def send_again(self, stamp_ns: int) -> None:
        """Publish the last command for a deadline [ns]."""
        self.sent_again((stamp_ns,))
        self._writer.send(stamp_ns)

    def sent_again(self, stamps: Sequence[int]) -> None:
        """Note that the last command was published for deadlines [ns]."""
        for stamp in stamps:
            self._stamp_ns = stamp
            self.sent.append(stamp)

    def repeated_output(self) -> RepeatedOutput:
        """Return the last command, for cycles at rest."""
        return self._writer.repeated_output()

    def repeated_reports(self, period_ns: int, due_ns: int) -> list[RepeatedOutput]:
        """Return ``~/controller_state`` as it was published last, for its subscribers.

        Args:
            period_ns: of the reports [ns].
            due_ns: earliest stamp of the next one [ns].
        """
        data = self._report.data
        return [RepeatedOutput(out, data, period_ns, due_ns) for out in subscribed(self._out)]

    def _load_holds(self, state: JointStateReader) -> bool:
        """Return whether the last feed-forward efforts are those of the measured state, too."""
        if self.load is None:
            return True
        return not (np.abs(state.position - self._loaded_at) > UNCHANGED_POSITIONS).any()

    def _with_load(self, reference: JointReference, state: JointStateReader) -> Array:
        """Return the efforts sent with position references: commanded plus feed-forward efforts.

        Joints without a position reference, or with an effort limit (which acts by the position),
        get only the commanded efforts.
        """
        assert self.load is not None
        self._loaded_at = state.position.copy()
        by_position = ~np.isnan(reference.positions) & np.isinf(self._bounds)
        load = np.where(by_position, self.load.of(reference, state), 0.0)
        return np.where(by_position, np.nan_to_num(reference.efforts) + load, reference.efforts)

    def wait(self, reference: JointReference, state: JointStateReader) -> None:
        """Publish a command while simulated time is paused, with the last stamp.

        With command_interface effort, the last efforts are sent again if the robot is paused, too,
        so that both continue without a disturbance; a moving robot is held by its own drives.
        """
        direct = np.isnan(reference.positions) & ~np.isnan(reference.efforts)
        if direct.any():
            pass  # compliant joints keep their efforts, others their references
        elif self.drives is None or not np.array_equal(self._measured_at_effort, state.position):
            self._fill_hold(reference, state)
        self._writer.send(self._stamp_ns)

    def hand_over(self, reference: JointReference, state: JointStateReader, now_ns: int) -> None:
        """Publish a last command, by which the robot's own drives hold the reference."""
        self._fill_hold(reference, state)
        self.sent.append(now_ns)
        self._writer.send_last(now_ns)

    def _fill_hold(self, reference: JointReference, state: JointStateReader) -> None:
        """Fill the command: hold the reference by the robot's drives, without feed-forward."""
        self.position[:], self.velocity[:] = reference.positions, 0.0
        self._measured_at_effort[:] = np.nan
        sent = self._limiter.limit(reference, state.position, self._bounds, 0.0)
        self._fill(
            sent.positions,
            np.where(np.isnan(reference.velocities), np.nan, 0.0),
            np.where(np.isnan(reference.efforts) & (self.load is None), np.nan, 0.0),
        )

    def report(
        self, state: JointStateReader, scaling: float, run: TrajectoryFollower | None, now_ns: int
    ) -> None:
        """Publish ``~/controller_state``: reference, feedback, error and output; for subscribers.

        Args:
            state: measured.
            scaling: speed scaling factor.
            run: the newest trajectory, whose times are reported; None: 0.
            now_ns: stamp [ns].
        """
        listened = subscribed(self._out)
        if not listened:
            return
        arrays, writer = self._report.arrays, self._writer
        if run is not None or self._timed:
            now = (0.0, 0.0) if run is None else (run.time, run.elapsed)
            for path, time in zip(("reference", "feedback"), now, strict=True):
                self._report.set_duration(f"{path}.time_from_start", time)
            self._timed = run is not None
        values: tuple[Array | float, ...] = (
            self.position, self.velocity, self._acceleration, state.position, state.velocity,
            self.position - state.position, self.velocity - state.velocity,
            writer.position, writer.velocity, writer.effort, scaling,
        )  # fmt: skip
        for array, value in zip(arrays.values(), values, strict=True):
            array[:] = value
        data = self._report.bytes(now_ns)
        for out in listened:
            out.publish(data)

    def _write(self, positions: Array, velocities: Array, efforts: Array, stamp_ns: int) -> None:
        self._fill(positions, velocities, efforts)
        self.send_again(stamp_ns)

    def _fill(self, positions: Array, velocities: Array, efforts: Array) -> None:
        self._written = None
        self._writer.position[:] = positions
        self._writer.velocity[:] = velocities
        self._writer.effort[:] = efforts


class ControllerStatus:
    """Publishes ``~/status`` on changes and fills in diagnostics."""

    def __init__(
        self,
        host: ArticulationControllerNode,
        state: JointStateReader,
        streams: StreamInputs,
        monitor: StateMonitor,
    ) -> None:
        """Create the publisher.

        Args:
            host: the controller.
            state: measured state of the joints.
            streams: command streams.
            monitor: of states and publishers.
        """
        self._host, self._state, self._streams = host, state, streams
        self._monitor = monitor
        self._out = host.advertise(DiagnosticStatus, "~/status", qos.STATUS)
        self._published: Any = None
        self._implausible = 0

    def update(self) -> None:
        """Publish if something changed; in the loop."""
        runner, refused = self._host.runner, self._streams.refused
        fault = self._host.stop_reason or runner.fault
        now = (fault, runner.fault, runner.holders, tuple(refused.items()))
        if now == self._published:
            return
        self._published = now
        joints = zip(runner.controller.joint_names, runner.holders, strict=True)
        values = [KeyValue(key=joint, value=holder) for joint, holder in joints]
        values += [KeyValue(key=PREEMPTED + sender, value=by) for sender, by in refused.items()]
        if runner.fault:
            values.append(KeyValue(key=CONTACT, value=runner.fault))
        self._out.publish(
            DiagnosticStatus(
                level=DiagnosticStatus.WARN if fault else DiagnosticStatus.OK,
                name=self._host.get_fully_qualified_name().lstrip("/"),
                message=fault,
                hardware_id="joint_trajectory_controller",
                values=values,
            )
        )

    def diagnose(self, report: Report) -> None:
        """Add the state of robot, controller and streams to a diagnostic report."""
        state, streams, runner = self._state, self._streams, self._host.runner
        fault = state.fault(self._host.params.state_timeout)
        if fault and state.received:
            report.note("ERROR", f"{fault}; commands are refused")
        elif fault:
            report.note("WARN", fault)
        elif runner.fault:
            report.note("WARN", runner.fault)
        elif runner.runs:
            report.note("OK", f"following {', '.join(run.label for run in runner.runs)}")
        elif runner.compliance.law is not None:
            report.note("OK", f"impedance control of {runner.compliance.law.tool}")
        elif refusal := self._unstarted():
            report.note("WARN", refusal)
        else:
            report.note("OK", "moving" if runner.controller.moving else "holding")
        if self._monitor.fault:
            report.note("ERROR", f"{self._monitor.fault}; joints stopped, commands are refused")
        if state.rejected > self._implausible:
            self._implausible = state.rejected
            report.note("ERROR", f"joint_states are not plausible: {state.problem}")
        if conflict := streams.conflict(self._host.now()):
            report.note("WARN", conflict)
        for sender, reason in list(streams.refused.items()):
            report.note("WARN", f"messages of {sender} are dropped: {reason}")
        report.value("age of joint_states [s]", state.age())
        report.value("implausible states", state.rejected)
        report.value("commands taken", streams.count)
        report.value("speed scaling", streams.scaling)

    def _unstarted(self) -> str | None:
        """Return why commands are still refused although the state is received again."""
        reported = self._monitor.fault or self._host.stop_reason
        return None if reported else self._host.refusal()


class RestCycles:
    """Decides whether the next cycles repeat the last command."""

    def __init__(
        self, state: JointStateReader, runner: JointArbiter, outputs: JointOutputs, period: float
    ) -> None:
        """Create.

        Args:
            state: measured state of the joints.
            runner: of the joints.
            outputs: which sent the last command.
            period: of the cycles [s].
        """
        self._state, self._runner, self._outputs = state, runner, outputs
        self._settled = round(REST_TIME / period)
        self._quiet = 0
        """Number of complete cycles without a change."""

    def begin(self) -> bool:
        """Count a complete cycle; return whether the next ones may repeat its command."""
        runner = self._runner
        quiet = (
            self._state.unchanged
            and self._outputs.sent_last(runner.controller.still)
            and not (runner.runs or runner.claims or runner.fault)
            and runner.compliance.law is None
        )
        self._quiet = self._quiet + 1 if quiet else 0
        return self._quiet > self._settled

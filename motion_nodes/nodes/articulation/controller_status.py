# SPDX-License-Identifier: Apache-2.0
"""Status of the articulation controller: owners of the joints, preempted streams, diagnostics.

Services of the joint controller: ``~/query_state`` and ``~/reset``; monitor of an
articulation controller: frozen joint states and rival publishers of commands; other publishers of
``joint_command`` that command the joints of an articulation controller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from control_msgs.srv import QueryTrajectoryState
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import JointReference
from motion_nodes.core.control.joint_guard import gripper_joints
from motion_nodes.core.control.state_plausibility import FrozenStates
from motion_nodes.core.robot.bounds import JOINT_STATE
from motion_nodes.core.robot.robot import Robot
from motion_nodes.nodes.articulation.stream_inputs import StreamInputs
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import respond_from_loop
from motion_nodes.ros.current_state_monitor import CONTACT, PREEMPTED
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointSample, JointSampleReader, JointStateReader
from motion_nodes.ros.messages.cdr import InvalidMessage
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.ros.node import MotionNode

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

INACTIVE = "the controller is not active"
PERIOD = 0.25
"""Interval at which publishers are counted [s]."""
QUIET = 1.0
"""Time without a rival's message after which commands are accepted again [s]."""


def _beyond(host: ArticulationControllerNode, ahead: float) -> str:
    """Return why no active trajectory determines the reference in a time [s]; empty if one does."""
    active = [run.follower for run in host.runner.trajectories.runs]
    left = [
        (f.goal.trajectory.end_time - f.time) / f.goal.rate for f in active if not f.status.ended
    ]
    if not left:
        return "no trajectory is active"
    if ahead > max(left):
        return f"the requested time is {ahead - max(left):.3f} s after the end of the trajectory"
    return ""


def serve_state_and_reset(host: ArticulationControllerNode, reset: Callable[[], str]) -> None:
    """Offer the services.

    Args:
        host: the controller.
        reset: discards all commands, in the loop; returns the message of success.
    """

    def query(request: Any, response: Any) -> Any:
        """Return the reference at a time: that of active trajectories, else the current one."""
        refusal = host.state_fault() if host.active else INACTIVE
        if refusal is not None:
            response.success, response.message = False, refusal
            return response
        ahead = seconds(request.time) - host.now() if seconds(request.time) else 0.0
        try:
            sample, beyond = host.in_loop(
                lambda: (host.runner.reference_in(ahead), _beyond(host, ahead))
            )
        except TimeoutError as error:
            response.success, response.message = False, str(error)
            return response
        response.message = beyond if host.params.peer_defaults else ""
        response.success = not response.message
        response.name = list(host.runner.controller.joint_names)
        response.position, response.velocity, response.acceleration = (
            values.tolist() for values in sample
        )
        return response

    def discard(_request: Any, response: Any) -> Any:
        """Discard all commands and hold the measured positions."""
        if not host.active:
            response.success, response.message = False, INACTIVE
            return response
        return respond_from_loop(host, response, reset)

    for name in ("~", *host.params.aliases):
        host.serve(QueryTrajectoryState, f"{name}/query_state", query)
    host.serve(Trigger, "~/reset", discard)


class CommandRivals:
    """Reads ``joint_command`` while another node publishes on it.

    Own messages are identified by their stamps. A message without a finite value within the bounds
    of joint states moves no joint and is ignored.
    """

    def __init__(self, node: MotionNode[Any], joints: Sequence[str]) -> None:
        """Subscribe ``node``, which publishes commands of ``joints``."""
        self._node = node
        self._joints = frozenset(joints)
        self._commands = node.poll_bytes(JointState, "joint_command", qos.STATES)
        self._reader = JointSampleReader()
        self._due = 0.0
        self.alone = True
        """Whether no other node publishes commands; its messages are not read then."""
        self._at = -np.inf
        self._text = ""

    def check(self, sent: Container[int]) -> str:
        """Return which joint another publisher commands, or nothing; called in the loop.

        Args:
            sent: stamps of the node's newest messages [ns].
        """
        now = time.monotonic()
        if now >= self._due:
            self._due = now + PERIOD
            self.alone = self._commands.publishers < 2
        if not self.alone:
            for message in self._commands.all():
                joint = self._commanded(message, sent)
                if joint:
                    self._text = self._text or self._describe(joint)
                    self._at = now
        if now - self._at > QUIET:
            self._text = ""
        return self._text

    def _commanded(self, message: bytes, sent: Container[int]) -> str:
        """Return a joint that a message of another publisher commands, or nothing."""
        try:
            sample = self._reader.read(message)
            names = () if sample.stamp_ns in sent else sample.joint_names()
        except InvalidMessage:
            return ""
        moves = _moves(sample, len(names)) if not self._joints.isdisjoint(names) else ()
        return next((n for n, m in zip(names, moves, strict=False) if m and n in self._joints), "")

    def _describe(self, joint: str) -> str:
        topic, own = self._commands.topic, self._node.get_fully_qualified_name()
        infos = self._node.get_publishers_info_by_topic(topic)
        names = {f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in infos} - {own}
        others = ", ".join(sorted(names)) or "a second node of the same name"
        return f"another publisher on {topic} commands {joint}: {others}"


def _moves(sample: JointSample, count: int) -> list[bool]:
    """Return for each name of a message whether a drive can act on its values."""
    moves = np.zeros(count, np.bool_)
    for values in (sample.position, sample.velocity, sample.effort):
        if len(values) == count:
            moves |= np.abs(values) <= JOINT_STATE.max
    return moves.tolist()


class StateMonitor:
    """Stops the joints while states are frozen or another publisher commands them."""

    def __init__(
        self, node: MotionNode[Any], robot: Robot, state: JointStateReader, runner: JointArbiter
    ) -> None:
        """Create the monitor.

        Args:
            node: the controller; its parameters are ArticulationParams.
            robot: whose joints they are.
            state: measured state of the joints.
            runner: of the joints.
        """
        joints: Sequence[str] = node.params.joints
        self._node, self._state, self._runner = node, state, runner
        self._frozen = FrozenStates(node.params.tracking_lag, gripper_joints(robot, joints))
        self._rivals = CommandRivals(node, joints)
        self._everything: NDArray[np.intp] = np.arange(len(joints))
        self.fault = ""
        """Why the joints are stopped and commands refused; empty for no fault."""

    @property
    def frozen(self) -> bool:
        """Whether the measured state may not be used."""
        return len(self._frozen.joints) > 0

    @property
    def alone(self) -> bool:
        """Whether no other node publishes commands."""
        return self._rivals.alone

    def update(self, sent: Container[int], *, fresh: bool, started: bool) -> bool:
        """Check states and publishers; return whether the joints were stopped.

        Args:
            sent: stamps of the newest own commands [ns].
            fresh: whether a state was received.
            started: whether the controller commands the joints.
        """
        state, before = self._state, self.fault
        if fresh:
            self._frozen.measure(state.position, state.velocity, state.effort, state.updated)
        self.fault = self._rivals.check(sent)
        if self.frozen:
            names = ", ".join(state.joint_names[i] for i in self._frozen.joints)
            late = state.late(self._node.now_ns(), self._node.params.tracking_lag)
            self.fault = f"joint_states are frozen: {names} did not change in a motion"
            self.fault += f"; {late}" if late else ""
        if not started or bool(before) == bool(self.fault):
            return False
        if not self.fault:
            self._runner.resync.request(self._everything)
            return False
        self._node.get_logger().error(f"{self.fault}; joints stopped, commands are refused")
        self._runner.stop_all(self.fault)
        # References must not follow a state that is not known.
        self._runner.resync.drop(self._everything)
        return True

    def command(self, reference: JointReference, period: float) -> None:
        """Account for a reference that was sent, one period [s] after the last one."""
        self._frozen.command(reference.positions, reference.velocities, period)

    def reset(self) -> None:
        """Reset."""
        self._frozen.reset()


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

# SPDX-License-Identifier: Apache-2.0
"""Status of the articulation controller: owners of the joints, preempted streams, diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from motion_nodes.nodes.articulation.state_monitor import StateMonitor
from motion_nodes.nodes.articulation.stream_inputs import StreamInputs
from motion_nodes.ros import qos
from motion_nodes.ros.controller_references import PREEMPTED
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode


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

    def update(self, fault: str) -> None:
        """Publish if something changed; in the loop.

        Args:
            fault: stop or contact that stopped the joints; empty for none.
        """
        runner, refused = self._host.runner, self._streams.refused
        now = (fault, runner.holders, tuple(refused.items()))
        if now == self._published:
            return
        self._published = now
        joints = zip(runner.controller.joint_names, runner.holders, strict=True)
        values = [KeyValue(key=joint, value=holder) for joint, holder in joints]
        values += [KeyValue(key=PREEMPTED + sender, value=by) for sender, by in refused.items()]
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

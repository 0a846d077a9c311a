# SPDX-License-Identifier: Apache-2.0
"""The status of the articulation controller: who has which joint, and who was preempted."""

from __future__ import annotations

from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from motion_nodes.nodes.articulation.controller_host import ControllerHost
from motion_nodes.ros import qos
from motion_nodes.ros.controller_references import PREEMPTED


class ControllerStatus:
    """Publishes ``~/status`` at each change."""

    def __init__(self, host: ControllerHost) -> None:
        """Advertise."""
        self._host = host
        self._out = host.node.advertise(DiagnosticStatus, "~/status", qos.STATUS)
        self._told: Any = None

    def look(self, trouble: str, refused: dict[str, str]) -> None:
        """Publish if something changed; called in the loop.

        Args:
            trouble: what a contact stopped, or nothing.
            refused: why messages are dropped, by the sender of a stream.
        """
        runner = self._host.runner
        now = (trouble, runner.holders, tuple(refused.items()))
        if now == self._told:
            return
        self._told = now
        joints = zip(runner.controller.joint_names, runner.holders, strict=True)
        values = [KeyValue(key=joint, value=holder) for joint, holder in joints]
        values += [KeyValue(key=PREEMPTED + who, value=why) for who, why in refused.items()]
        self._out.publish(
            DiagnosticStatus(
                level=DiagnosticStatus.WARN if trouble else DiagnosticStatus.OK,
                name=self._host.node.get_fully_qualified_name().lstrip("/"),
                message=trouble,
                hardware_id="joint_trajectory_controller",
                values=values,
            )
        )

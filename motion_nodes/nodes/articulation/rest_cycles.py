# SPDX-License-Identifier: Apache-2.0
"""Cycles of a joint controller at rest, which repeat the last command.

At rest nothing changes between two cycles but time stamps: the robot reports the same values, no
command is active, the reference stays. Most of these cycles only read their inputs and send the
last command again; a complete one at a lower rate supervises what depends on time. Any change, of
the state, by a message or by another thread, makes the same cycle a complete one.
"""

from __future__ import annotations

from collections.abc import Sequence

from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.nodes.articulation.joint_outputs import JointOutputs
from motion_nodes.ros.joint_topics import JointStateReader

REST_TIME = 1.0
"""[s] Time without a change after which commands are repeated: guards and filters have settled."""

COMPLETE_PERIOD = 0.1
"""[s] Period of complete cycles at rest."""


class RestCycles:
    """Decides which cycles repeat the last command."""

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
        self._stride = max(round(COMPLETE_PERIOD / period), 1)
        self._quiet = 0
        """Number of cycles without a change."""

    def begin(self) -> bool:
        """Count a cycle, after the state was read; return whether it need not be complete."""
        runner = self._runner
        quiet = (
            self._state.unchanged
            and self._outputs.sent_last(runner.controller.still)
            and not (runner.runs or runner.claims or runner.fault)
            and runner.compliance.law is None
        )
        self._quiet = self._quiet + 1 if quiet else 0
        return self._quiet > self._settled and self._quiet % self._stride != 0

    def repeat(self, deadlines: Sequence[int]) -> bool:
        """Send the last command for each deadline [ns], unless a message has changed it.

        Returns:
            Whether it was sent; otherwise the cycle must be complete.
        """
        if not self._outputs.sent_last(self._runner.controller.still):
            return False
        for stamp in deadlines:
            self._outputs.send_again(stamp)
        return True

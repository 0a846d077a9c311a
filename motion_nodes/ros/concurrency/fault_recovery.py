# SPDX-License-Identifier: Apache-2.0
"""Restart of a node after an unexpected exception, a limited number of times.

The loop's own thread has already halted the node. The executor then answers pending requests,
deactivates the node, and after a pause restarts it through its lifecycle: cleanup, configure,
activate. Parameters set by clients are restored in between. After :data:`RESTARTS` restarts within
:data:`WINDOW` the node stays inactive until a client activates it. Other nodes of the process
continue meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rclpy.exceptions import InvalidHandle
from rclpy.parameter import Parameter

from motion_nodes.ros.concurrency.loops import ExecutorQueue

if TYPE_CHECKING:
    from motion_nodes.ros.node import MotionNode

RESTARTS = 3
"""Max number of restarts within :data:`WINDOW`."""
WINDOW = 60.0
"""[s] Time after which a restart no longer counts."""
PAUSES = (0.5, 1.0, 2.0)
"""[s] Pauses before the first, second and third restart."""


class FaultRecovery:
    """Restarts one node after faults."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorQueue) -> None:
        """Create the recovery of a node.

        Args:
            node: the node.
            jobs: queue of the executor that spins the node.
        """
        self._node = node
        self._jobs = jobs
        self._restarts: deque[float] = deque()
        self._timer: threading.Timer | None = None
        self._changed: list[Parameter] = []
        """Parameters to be restored; kept until a restart succeeds."""
        self.text = ""
        """The fault and the next restart, as text; empty while the node works."""
        self.last = ""
        """The newest fault, kept after a restart."""
        self.count = 0
        """Number of faults since the node was created."""

    def begin(self, fault: str) -> None:
        """Start the recovery from a fault; thread-safe. The node must be halted already."""
        self.count += 1
        self.text = self.last = fault
        self._jobs.submit(lambda: self._stand_down(fault))

    def settle(self) -> None:
        """Clear the fault: the node was activated."""
        self.text, self._changed = "", []

    def end(self) -> None:
        """Cancel a scheduled restart."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # ---- in the executor

    def _stand_down(self, fault: str) -> None:
        node = self._node
        if node.leaving:
            return
        if node.state_label == "active":
            node.trigger_deactivate()
        # Goals that the node's own callbacks did not end.
        node.abort_goals(fault)
        self._schedule_restart(fault)

    def _schedule_restart(self, fault: str) -> None:
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > WINDOW:
            self._restarts.popleft()
        done = len(self._restarts)
        if done >= RESTARTS:
            self.text = (
                f"{fault}; stays inactive after {done} restarts within {WINDOW:g} s: check the "
                "log, then cleanup, configure and activate it, or restart the process"
            )
            self._node.get_logger().fatal(self.text)
            self._node.report_fault(self.text)
            return
        pause = PAUSES[min(done, len(PAUSES) - 1)]
        self.text = f"{fault}; restart {done + 1} of {RESTARTS} in {pause:g} s"
        self._node.get_logger().error(self.text)
        self._node.report_fault(self.text)
        self._after(pause, lambda: self._restart(fault))

    def _after(self, seconds: float, job: Any) -> None:
        def submit() -> None:
            # The node may have been destroyed meanwhile.
            with contextlib.suppress(InvalidHandle):
                self._jobs.submit(job)

        self._timer = threading.Timer(seconds, submit)
        self._timer.daemon = True
        self._timer.start()

    def _restart(self, fault: str) -> None:
        node, self._timer = self._node, None
        if node.leaving or node.active or node.state_label not in ("inactive", "unconfigured"):
            # A client has changed the state.
            return
        self._restarts.append(time.monotonic())
        failed = self._transitions()
        if failed is not None:
            self._schedule_restart(f"restart failed: {failed}; before: {fault}")
            return
        node.get_logger().warning(
            f"active again after a fault ({len(self._restarts)} of {RESTARTS} restarts within "
            f"{WINDOW:g} s are used)"
        )

    def _transitions(self) -> str | None:
        """Restart the node; return why that failed, or None."""
        node = self._node
        if node.state_label == "inactive":
            self._changed = node.changed_parameters()
            node.trigger_cleanup()
            if node.failure is not None:
                return node.failure
        node.trigger_configure()
        if node.failure is not None:
            return node.failure
        if self._changed:
            result = node.set_parameters_atomically(self._changed)
            if not result.successful:
                node.get_logger().warning(f"parameters are not restored: {result.reason}")
        node.trigger_activate()
        return node.failure

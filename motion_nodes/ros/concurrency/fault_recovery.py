# SPDX-License-Identifier: Apache-2.0
"""Brings one node back after an unforeseen exception, a bounded number of times.

What raised has already been stopped and halted, in its own thread. Here the executor answers those
who wait, takes the node to ``inactive``, and after a pause restarts it through its lifecycle:
cleanup, configure, activate. Parameters that a client has set are set again in between. After
:data:`RESTARTS` restarts within :data:`WINDOW` the node stays inactive with the reason, until a
client activates it. Other nodes of the process go on meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import Any, Protocol

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.parameter import Parameter

from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs

RESTARTS = 3
"""Restarts within :data:`WINDOW` after which a node stays inactive."""
WINDOW = 60.0
"""[s] Restarts longer ago than this no longer count."""
PAUSES = (0.5, 1.0, 2.0)
"""[s] Before the first, second and third of these restarts."""
ANSWERS = 0.1
"""[s] Between the last answers of a node's endpoints and their end."""


class Restartable(Protocol):
    """What :class:`FaultRecovery` needs of a node."""

    failure: str | None
    """Why the last transition failed."""

    @property
    def active(self) -> bool: ...  # noqa: D102

    @property
    def leaving(self) -> bool: ...  # noqa: D102

    @property
    def state_label(self) -> str: ...  # noqa: D102

    def abort_goals(self, text: str) -> None: ...  # noqa: D102

    def changed_parameters(self) -> list[Parameter]: ...  # noqa: D102

    def set_parameters_atomically(self, parameters: list[Parameter]) -> Any: ...  # noqa: D102

    def tell_fault(self, text: str) -> None: ...  # noqa: D102

    def trigger_deactivate(self) -> Any: ...  # noqa: D102

    def trigger_cleanup(self) -> Any: ...  # noqa: D102

    def trigger_configure(self) -> Any: ...  # noqa: D102

    def trigger_activate(self) -> Any: ...  # noqa: D102

    def get_logger(self) -> Any: ...  # noqa: D102


class FaultRecovery:
    """Restarts one node after faults."""

    def __init__(self, node: Restartable, jobs: ExecutorJobs) -> None:
        """Watch over ``node``; ``jobs`` are run by the executor that serves it."""
        self._node = node
        self._jobs = jobs
        self._restarts: deque[float] = deque()
        self._timer: threading.Timer | None = None
        self.text = ""
        """The fault, and what is done about it; nothing while the node works."""
        self.last = ""
        """The newest fault, kept after a restart."""
        self.count = 0
        """Faults since the node was made."""

    @property
    def pending(self) -> bool:
        """Whether a fault is being dealt with."""
        return self._timer is not None

    def begin(self, fault: str) -> None:
        """Deal with a fault; any thread may call this, and what raised does nothing any more."""
        self.count += 1
        self.text = self.last = fault
        self._jobs.ask(lambda: self._stand_down(fault))

    def settle(self) -> None:
        """Forget the fault: the node was activated."""
        self.text = ""

    def end(self) -> None:
        """Restart nothing any more."""
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
        # Whatever the node itself did not end.
        node.abort_goals(fault)
        self._plan_restart(fault)

    def _plan_restart(self, fault: str) -> None:
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > WINDOW:
            self._restarts.popleft()
        done = len(self._restarts)
        if done >= RESTARTS:
            self.text = (
                f"{fault}; stays inactive after {done} restarts within {WINDOW:g} s: look at the "
                "log, then cleanup, configure and activate it, or restart the process"
            )
            self._node.get_logger().fatal(self.text)
            self._node.tell_fault(self.text)
            return
        pause = PAUSES[min(done, len(PAUSES) - 1)]
        self.text = f"{fault}; restart {done + 1} of {RESTARTS} in {pause:g} s"
        self._node.get_logger().error(self.text)
        self._node.tell_fault(self.text)
        self._after(pause, lambda: self._restart(fault))

    def _after(self, seconds: float, job: Any) -> None:
        def ask() -> None:
            # The node may have gone meanwhile.
            with contextlib.suppress(InvalidHandle):
                self._jobs.ask(job)

        self._timer = threading.Timer(seconds, ask)
        self._timer.daemon = True
        self._timer.start()

    def _restart(self, fault: str) -> None:
        node, self._timer = self._node, None
        if node.leaving or node.active or node.state_label not in ("inactive", "unconfigured"):
            # A client has taken over.
            return
        self._restarts.append(time.monotonic())
        failed = self._transitions()
        if failed is not None:
            self._plan_restart(f"restart failed: {failed}; before: {fault}")
            return
        node.get_logger().warning(
            f"active again after a fault ({len(self._restarts)} of {RESTARTS} restarts within "
            f"{WINDOW:g} s are used)"
        )

    def _transitions(self) -> str | None:
        """Return why the node could not be restarted, None when it is active."""
        node = self._node
        changed = node.changed_parameters() if node.state_label == "inactive" else []
        if node.state_label == "inactive":
            node.trigger_cleanup()
            if node.failure is not None:
                return node.failure
        node.trigger_configure()
        if node.failure is not None:
            return node.failure
        if changed:
            result = node.set_parameters_atomically(changed)
            if not result.successful:
                node.get_logger().warning(f"parameters are as at the start: {result.reason}")
        node.trigger_activate()
        return node.failure

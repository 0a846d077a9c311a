# SPDX-License-Identifier: Apache-2.0
"""A node's copy of the suite's latched stop (motion_nodes/control/stop_state.py).

A message on ``/stop``, whatever its publisher, latches the stop in each node that hears it. The
nodes tell each other on ``/stop_state``, which is transient local: a node that starts later learns
of a stop from any node that still runs. Both topics are polled, by the node's loop while it runs
and by the report thread, so neither the executor nor the lifecycle state delays a stop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_msgs.msg import Empty
from std_srvs.srv import Trigger

from motion_nodes.control.stop_state import RestTimer, StopState
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.report_thread import RegularCall
from motion_nodes.ros.names import STOP_STATE_TOPIC, STOP_TOPIC

LOOK_PERIOD = 0.1
"""[s] Between two looks of the report thread, which matter where no loop runs."""
MAX_AHEAD_NS = 86_400_000_000_000
"""[ns] Wall clocks of the machines of a suite may differ by as much."""
MAX_NODES = 1000
STOPPED, RESUMED, MOTION, SECONDS = "stopped [ns]", "resumed [ns]", "motion", "time to rest [s]"
"""Keys of the values of a message on /stop_state."""
AT_REST, MOVING, INACTIVE = "at rest", "moving", "not active"
"""What a node that drives a robot reports of its motion; else it says why that is not known."""
HOW_TO_RESUME = "`motion resume` or a controller's ~/resume ends that"


class StopLatch:
    """The stop as one node knows it. Any thread may use it."""

    def __init__(self, node: Node, rest: RestTimer | None = None) -> None:
        """Create the endpoints, which last as long as the node.

        Args:
            node: whose copy it is.
            rest: of the robot that the node drives; None: it drives none, and has no services.
        """
        self._node, self._rest = node, rest
        self._lock = threading.RLock()
        self._state, self._risen, self._holding = StopState(), False, False
        self._late = ""
        self._told: tuple[object, ...] = (False, 0, "", None)
        self.heard: dict[str, DiagnosticStatus] = {}
        """The newest message of each node by its name."""
        self._stops = PolledSubscription(node, Empty, STOP_TOPIC, qos.REQUESTS)
        self._states = PolledSubscription(node, DiagnosticStatus, STOP_STATE_TOPIC, qos.STOP_STATES)
        self._out = node.create_publisher(DiagnosticStatus, STOP_STATE_TOPIC, qos.LATCHED)
        if rest is not None:
            node.create_service(Trigger, "~/stop", self._on_stop)
            node.create_service(Trigger, "~/resume", self._on_resume)
        self._tell()
        self._looking = RegularCall(self.look, LOOK_PERIOD)

    @property
    def reason(self) -> str:
        """Why nothing may move, or nothing."""
        state = self._state
        return f"stopped by {state.reason}; {HOW_TO_RESUME}" if state.stopped else self._late

    def stop(self, who: str) -> None:
        """Stop the suite, for all nodes."""
        with self._lock:
            self._take(self._state.stop(time.time_ns(), who))
            self.look()

    def resume(self) -> bool:
        """Let all nodes of the suite take commands again; return whether it was stopped."""
        with self._lock:
            self.look()
            stopped = self._state.stopped
            self._take(self._state.resume())
            self.look()
        return stopped

    def look(self) -> None:
        """Take what came, and tell others what changed here."""
        with self._lock:
            for _, _, sent in self._stops.traced():
                sent_ns = round(sent * 1e9) or time.time_ns()
                self._take(self._state.stop(sent_ns, STOP_TOPIC))
            for message in self._states.all():
                self._merge(message)
            overdue = time.monotonic() - self._told_at > LOOK_PERIOD
            if self._report() != self._told or (overdue and self._state != self._told_state):
                self._tell()

    def obey(self, stopped: Callable[[str], None], resumed: Callable[[], None]) -> None:
        """Call ``stopped`` once for each stop and ``resumed`` at its end; in the node's loop."""
        self.look()
        with self._lock:
            risen, self._risen = self._risen, False
            reason = self.reason or "stopped"
        if risen:
            self._holding = True
            stopped(reason)
        if self._holding and not self._state.stopped:
            self._holding = False
            # What waits was sent before the resume; the node refuses it there.
            self._late = "it came before the resume"
            try:
                resumed()
            finally:
                self._late = ""

    def begin(self) -> None:
        """Have the next :meth:`obey` act on a stop that is in force: the loop starts."""
        with self._lock:
            self._risen, self._holding = self._state.stopped, False

    def end(self) -> None:
        """Look no more: the node leaves."""
        self._looking.end()

    # ---- inside

    def _take(self, state: StopState) -> None:
        before, self._state = self._state, state
        if state.stopped and not before.stopped:
            self._risen = True
            self._node.get_logger().warning(self.reason)
        elif before.stopped and not state.stopped:
            self._node.get_logger().info("resumed: commands are taken again")

    def _merge(self, message: DiagnosticStatus) -> None:
        values = {pair.key: pair.value for pair in message.values}
        try:
            other = StopState(
                int(values.get(STOPPED, "")), int(values.get(RESUMED, "")), message.message
            )
            if other.stopped_ns > time.time_ns() + MAX_AHEAD_NS:
                raise InvalidCommand(f"stop at {other.stopped_ns} ns is in the future")
        except (ValueError, InvalidCommand) as error:
            text = f"message on {STOP_STATE_TOPIC} ignored: {error}"
            self._node.get_logger().warning(text, throttle_duration_sec=10.0)
            return
        if message.name in self.heard or len(self.heard) < MAX_NODES:
            self.heard[message.name] = message
        self._take(self._state.merge(other))

    def _motion(self) -> tuple[str, float | None]:
        rest = self._rest
        if rest is None or not self._state.stopped:
            return "", None
        if not getattr(self._node, "active", False):
            return INACTIVE, None
        if self._risen:
            return MOVING, None
        if rest.trouble:
            return rest.trouble, None
        return (AT_REST, rest.seconds) if rest.seconds is not None else (MOVING, None)

    def _report(self) -> tuple[object, ...]:
        # A further stop is no news; its time goes out a little later, for it may be one of many.
        return (self._state.stopped, self._state.resumed_ns, *self._motion())

    def _tell(self) -> None:
        self._told, self._told_state, self._told_at = self._report(), self._state, time.monotonic()
        state, (motion, seconds) = self._state, self._motion()
        values = {STOPPED: str(state.stopped_ns), RESUMED: str(state.resumed_ns)}
        if self._rest is not None:
            values[MOTION] = motion
        if seconds is not None:
            values[SECONDS] = f"{seconds:.3f}"
        level = DiagnosticStatus.WARN if state.stopped else DiagnosticStatus.OK
        self._out.publish(
            DiagnosticStatus(
                level=level,
                name=self._node.get_fully_qualified_name().lstrip("/"),
                message=state.reason if state.stopped else "",
                values=[KeyValue(key=key, value=value) for key, value in values.items()],
            )
        )

    def _on_stop(self, _request: Any, response: Any) -> Any:
        self.stop(f"{self._node.get_fully_qualified_name()}/stop")
        response.success, response.message = True, self.reason
        return response

    def _on_resume(self, _request: Any, response: Any) -> Any:
        stopped = self.resume()
        response.success = True
        response.message = "commands are taken again" if stopped else "it was not stopped"
        return response

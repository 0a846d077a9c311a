# SPDX-License-Identifier: Apache-2.0
"""A node's copy of the suite's latched stop (motion_nodes/core/control/stop_state.py).

A message on ``/stop``, from any publisher, latches the stop in each node that receives it. Nodes
exchange their copies on ``/stop_state``, which is transient local: a node that starts later gets
a stop from any node that is still running. Both topics are polled, by the node's loop while it
runs and by the report thread, so neither the executor nor the lifecycle state delays a stop.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_msgs.msg import Empty
from std_srvs.srv import Trigger

from motion_nodes.core.control.stop_state import RestTimer, StopState
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import PeriodicCall
from motion_nodes.ros.concurrency.polled_subscription import IDLE_PERIOD, PolledSubscription
from motion_nodes.ros.names import STOP_STATE_TOPIC, STOP_TOPIC
from motion_nodes.ros.process_reports import REPLACED_VARIABLE, StopReport, inherited_stop, report

POLL_PERIOD = 0.1
"""[s] Polling period of the report thread while no loop runs."""
LOOP_PAUSE = 0.25
"""[s] Time since the last poll of a loop from which it counts as not running."""
HOLD_TIME = 1.0
"""[s] Time for which a hold of the supervisor refuses commands. The nodes of a process that
replaces another one are held from activation; streams that never paused are discovered by then."""
MAX_AHEAD_NS = 86_400_000_000_000
"""[ns] Max difference of the wall clocks of a suite's machines."""
MAX_NODES = 1000
STOPPED, RESUMED, MOTION, SECONDS = "stopped [ns]", "resumed [ns]", "motion", "time to rest [s]"
"""Keys of the values of a message on /stop_state."""
AT_REST, MOVING, INACTIVE = "at rest", "moving", "not active"
"""Motion state of a node that drives a robot; any other text is why it is unknown."""
HOW_TO_RESUME = "`motion resume` or a controller's ~/resume ends that"


class StopLatch:
    """The stop as known to one node; thread-safe."""

    def __init__(self, node: Node, rest: RestTimer | None = None) -> None:
        """Create the endpoints, which exist as long as the node.

        Args:
            node: the node.
            rest: rest timer of the robot that the node drives; None if it drives none, which then
                offers no services.
        """
        self._node, self._rest = node, rest
        self._lock = threading.RLock()
        # A process that replaces another one inherits the stop.
        self._state, self._risen, self._holding = inherited_stop(), False, False
        self._held, self._held_until = "", 0.0
        self._replaces = os.environ.get(REPLACED_VARIABLE, "")
        self._polled_at = 0.0
        """Time at which the loop last looked for messages, on ``time.monotonic()`` [s]."""
        self._loop_thread: int | None = None
        """Thread that applies stops and resumes; None before its first cycle."""
        self.received: dict[str, DiagnosticStatus] = {}
        """The newest message of each node, by node name."""
        self._stops = PolledSubscription(node, Empty, STOP_TOPIC, qos.REQUESTS)
        self._states = PolledSubscription(node, DiagnosticStatus, STOP_STATE_TOPIC, qos.STOP_STATES)
        self._publisher = node.create_publisher(DiagnosticStatus, STOP_STATE_TOPIC, qos.LATCHED)
        if rest is not None:
            node.create_service(Trigger, "~/stop", self._on_stop)
            node.create_service(Trigger, "~/resume", self._on_resume)
        self._publish()
        self._polling = PeriodicCall(self._poll_for_the_loop, POLL_PERIOD)

    @property
    def state(self) -> StopState:
        """This node's copy."""
        return self._state

    @property
    def subscriptions(self) -> tuple[PolledSubscription[Any], ...]:
        """Subscriptions that :meth:`obey` reads."""
        return self._stops, self._states

    @property
    def unapplied(self) -> bool:
        """Whether :meth:`obey` has a stop or a resume to apply."""
        return self._risen or self._holding

    @property
    def reason(self) -> str:
        """Why commands are refused, as text; empty if they are not.

        A cycle of the loop refuses them until :meth:`obey` has applied the resume, which another
        thread may receive at any time: polled commands may have been sent before it.
        """
        state, held = self._state, self.held
        if state.stopped:
            return f"stopped by {state.reason}; {HOW_TO_RESUME}"
        if held:
            return f"held for {HOLD_TIME:g} s: {held}"
        in_loop = threading.get_ident() == self._loop_thread
        return "it was sent before the resume" if self.unapplied and in_loop else ""

    @property
    def held(self) -> str:
        """Why the supervisor holds the node, as text; empty if it does not."""
        return self._held if time.monotonic() < self._held_until else ""

    def hold(self, why: str) -> None:
        """Bring this node to rest; it accepts commands again after :data:`HOLD_TIME`."""
        with self._lock:
            self._held, self._held_until = why, time.monotonic() + HOLD_TIME
            self._risen = True
            self._node.get_logger().warning(f"held: {why}")

    def stop(self, who: str) -> None:
        """Stop all nodes of the suite.

        Args:
            who: the sender, for status texts.
        """
        with self._lock:
            self._set(self._state.stop(time.time_ns(), who))
            self.poll()

    def resume(self) -> bool:
        """Resume all nodes of the suite; return whether they were stopped."""
        with self._lock:
            self.poll()
            stopped = self._state.stopped
            self._set(self._state.resume())
            self.poll()
        return stopped

    def poll(self) -> None:
        """Process received messages, and publish the node's copy if it changed."""
        with self._lock:
            for _, _, sent in self._stops.traced():
                now_ns, sent_ns = time.time_ns(), round(sent * 1e9)
                # Other nodes ignore times too far in the future, and the resume of such a stop.
                known = 0 < sent_ns <= now_ns + MAX_AHEAD_NS
                self._set(self._state.stop(sent_ns if known else now_ns, STOP_TOPIC))
            for message in self._states.all():
                self._merge(message)
            if self._state is self._published_state and not self._state.stopped:
                return
            overdue = time.monotonic() - self._published_at > POLL_PERIOD
            changed = self._state != self._published_state
            if self._summary() != self._published or (overdue and changed):
                self._publish()

    def obey(self, stopped: Callable[[str], None], resumed: Callable[[], None]) -> None:
        """Apply stops and resumes; called in the node's loop.

        Args:
            stopped: called once for each stop, with its reason.
            resumed: called once at its end; commands that it takes are refused.
        """
        self._loop_thread, now = threading.get_ident(), time.monotonic()
        if now - self._polled_at >= IDLE_PERIOD or self._state.stopped:
            self._polled_at = now
            self.poll()
        if self._risen:
            with self._lock:
                self._risen = False
                reason = self.reason or "stopped"
            self._holding = True
            stopped(reason)
        if self._holding and not self._state.stopped and not self.held:
            try:
                resumed()
            finally:
                self._holding = False

    def begin(self) -> None:
        """Apply a stop that is in force at the next :meth:`obey`; the loop is about to start."""
        with self._lock:
            if self._replaces:
                self.hold(self._replaces)
                self._replaces = ""
            self._loop_thread = None
            self._risen, self._holding = self._state.stopped or bool(self.held), False

    def end(self) -> None:
        """Stop polling: the node is being destroyed."""
        self._polling.end()

    # ---- inside

    def _poll_for_the_loop(self) -> None:
        if time.monotonic() - self._polled_at > LOOP_PAUSE:
            self.poll()

    def _set(self, state: StopState) -> None:
        before, self._state = self._state, state
        if state != before:
            report(StopReport(os.getpid(), state.stopped_ns, state.resumed_ns, state.reason))
        if state.stopped and not before.stopped:
            self._risen = True
            self._node.get_logger().warning(self.reason)
        elif before.stopped and not state.stopped:
            self._node.get_logger().info("resumed: commands are accepted again")

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
        if message.name in self.received or len(self.received) < MAX_NODES:
            self.received[message.name] = message
        self._set(self._state.merge(other))

    def _motion(self) -> tuple[str, float | None]:
        """Return the motion state, and the time to rest [s] once the robot is at rest."""
        rest = self._rest
        if rest is None or not self._state.stopped:
            return "", None
        if not getattr(self._node, "active", False):
            return INACTIVE, None
        if self._risen:
            return MOVING, None
        if rest.fault:
            return rest.fault, None
        return (AT_REST, rest.seconds) if rest.seconds is not None else (MOVING, None)

    def _summary(self) -> tuple[object, ...]:
        # The time of a repeated stop is published later, since many may arrive at once.
        return (self._state.stopped, self._state.resumed_ns, *self._motion())

    def _publish(self) -> None:
        self._published, self._published_state = self._summary(), self._state
        self._published_at = time.monotonic()
        state, (motion, seconds) = self._state, self._motion()
        values = {STOPPED: str(state.stopped_ns), RESUMED: str(state.resumed_ns)}
        if self._rest is not None:
            values[MOTION] = motion
        if seconds is not None:
            values[SECONDS] = f"{seconds:.3f}"
        level = DiagnosticStatus.WARN if state.stopped else DiagnosticStatus.OK
        self._publisher.publish(
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
        response.message = "commands are accepted again" if stopped else "no stop was in force"
        return response

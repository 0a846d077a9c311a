# SPDX-License-Identifier: Apache-2.0
"""Commands given on the page, and their receiver.

Callbacks are called in order, with the newest value only. viser runs callbacks in a thread pool,
where a later slider value may overtake an earlier one. Here all calls go through one queue in which
a newer value replaces a pending one with the same key, so a slow callback gets the current command
and not a backlog.

Values of a slider and its number field are debounced. A number field reports a value for every
keystroke: typing 0.25 yields 0, 0.2 and 0.25, and the robot must not start moving to the first two.
So a large change is reported only after the value has been constant for some time. Small changes,
and those of a slider that the pointer holds, are reported immediately.

Pages that are connected but unresponsive are detected. A browser may keep the connection of a page
that the user has left, or of a suspended tab. Such a page must not keep a latched drive active. So
pages with a latched drive are polled periodically; one that does not respond in time is treated as
disconnected.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import viser

from motion_nodes.core.scene.scene import WorldObject
from motion_nodes.extras.viewer.drive_panel import DrivePanel
from motion_nodes.extras.viewer.scene_setup import DrawLoop
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.extras.viewer.browser import BrowserViewer

_T = TypeVar("_T")
REPEAT_PERIOD = 1.0 / 15.0
"""Period at which an active twist command is repeated [s]."""
SETTLING_TIME = 0.5
"""Delay of a large change [s]; longer than the time between two keystrokes."""
SMALL_CHANGE = 0.02
"""Changes up to this fraction of the slider's range are reported immediately."""
HOLD_TIMEOUT = 1.0
"""Timeout of a slider's hold: without a report of its page it is released [s]."""
POLL_PERIOD = 0.5
"""Time between a response and the next poll [s]."""
RESPONSE_TIMEOUT = 2.0
"""A page without a response for this time is treated as disconnected [s]."""
_KEY = "motion_nodes_alive"
SendTwist = Callable[[str, float, float, float], None]
"""Robot, vx, vy [m/s] and wz [rad/s] in its base frame."""
_Arguments = ParamSpec("_Arguments")
PLAN_VERBS = {"Plan": "plan", "Execute": "execute", "Stop": "stop"}
"""Command of each button of the planner."""
TASK_VERBS = {"Plan task": "plan", "Execute task": "execute", "Stop task": "stop"}
"""Command of each button of the tasks."""
_log = logging.getLogger(__name__)


class CallbackQueue:
    """Calls queued functions on its own thread.

    Args:
        repeat: called on the same thread every ``REPEAT_PERIOD`` while it returns True.
    """

    def __init__(self, repeat: Callable[[], bool]) -> None:
        """Start the thread."""
        self._repeat = repeat
        self._condition = threading.Condition()
        self._queue: dict[Hashable, Callable[[], None]] = {}
        self._repeating = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="viewer-callbacks", daemon=True)
        self._thread.start()

    def put(self, key: Hashable, call: Callable[[], None]) -> None:
        """Queue a call; replaces a pending call with the same key.

        Args:
            key: identifies calls that supersede each other, such as those of one slider.
            call: function to call.
        """
        with self._condition:
            self._queue.pop(key, None)
            self._queue[key] = call
            self._condition.notify()

    def start_repeating(self) -> None:
        """Call ``repeat`` periodically from now on, until it returns False."""
        with self._condition:
            self._repeating = True
            self._condition.notify()

    def close(self, timeout: float = 2.0) -> None:
        """Execute pending calls, then end the thread.

        Args:
            timeout: max time to wait for it [s]; a call that blocks longer is abandoned.
        """
        with self._condition:
            self._closed = True
            self._condition.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        """Execute calls until closed and empty."""
        due = 0.0
        while True:
            with self._condition:
                while not (self._queue or self._closed or self._repeating):
                    self._condition.wait()
                if self._repeating and not self._queue and not self._closed:
                    self._condition.wait(max(0.0, due - time.monotonic()))
                calls, self._queue = list(self._queue.values()), {}
                repeating, closed = self._repeating, self._closed
            for call in calls:
                _guarded(call)
            if repeating and time.monotonic() >= due:
                due = time.monotonic() + REPEAT_PERIOD
                self._repeat_once()
            if closed and not self._queue:
                return

    def _repeat_once(self) -> None:
        """Call ``repeat``; stop repeating when it returns False."""
        with self._condition:
            # Before the call, so that a concurrent start_repeating() is not lost.
            self._repeating = False
        more = _guarded(self._repeat)
        if more:
            with self._condition:
                self._repeating = True


def _guarded(call: Callable[[], _T]) -> _T | None:
    """Call a function; log its exceptions."""
    try:
        return call()
    except Exception:
        _log.exception("A viewer callback failed; the viewer continues.")
        return None


class SliderHold:
    """Whether the pointer holds a slider on some page; all methods run on viser's event loop."""

    def __init__(self) -> None:
        self._until = 0.0

    def hold(self) -> None:
        """A page reports that a slider is held; repeated meanwhile."""
        self._until = time.monotonic() + HOLD_TIMEOUT

    def release(self) -> None:
        """A page reports that its slider was released."""
        self._until = 0.0

    @property
    def held(self) -> bool:
        """Whether a slider is held."""
        return time.monotonic() < self._until


class DebouncedValues:
    """Delays large changes of values; all methods run on an event loop.

    Args:
        report: called with a key and its value.
        hold: of the pages' sliders.
    """

    def __init__(self, report: Callable[[str, float], None], hold: SliderHold) -> None:
        self._report, self._hold = report, hold
        self._last: dict[str, float] = {}
        self._pending: dict[str, asyncio.TimerHandle] = {}

    def set_shown(self, key: str, value: float) -> None:
        """Store a value that the program shows; it is not reported."""
        self._last[key] = value

    def set_input(self, key: str, value: float, span: float) -> None:
        """Process a value that the user entered.

        Args:
            key: identifies the input; a newer value replaces a pending one.
            value: the value.
            span: range of the slider, in the unit of the value.
        """
        self._cancel(key)
        small = abs(value - self._last.get(key, value)) <= SMALL_CHANGE * span
        if small or self._hold.held:
            self._release(key, value)
            return
        loop = asyncio.get_running_loop()
        self._pending[key] = loop.call_later(SETTLING_TIME, self._release, key, value)

    def cancel(self) -> None:
        """Discard all pending values, because a newer command replaces them."""
        for key in list(self._pending):
            self._cancel(key)

    def _cancel(self, key: str) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending.cancel()

    def _release(self, key: str, value: float) -> None:
        self._pending.pop(key, None)
        self._last[key] = value
        self._report(key, value)


class PageWatch:
    """Polls pages on its own thread, which sleeps while there is no page to monitor.

    Args:
        server: the viser server.
        monitored: returns the client ids of the pages to monitor.
        lost: called with the client id of each page that did not respond.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        monitored: Callable[[], set[int]],
        lost: Callable[[int], None],
    ) -> None:
        """Start the thread."""
        self._server = server
        self._monitored, self._lost = monitored, lost
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="viewer-watch", daemon=True)
        self._thread.start()

    def update(self) -> None:
        """Query the monitored pages again, because they may have changed."""
        self._wake.set()

    def close(self) -> None:
        """End the thread; a pending poll is completed first."""
        self._closed.set()
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        """Poll until closed."""
        while not self._closed.is_set():
            pages = self._monitored()
            if not pages:
                self._wake.wait()
                self._wake.clear()
                continue
            for page in pages:
                if not self._responds(page) and not self._closed.is_set():
                    _log.warning(
                        "A page with a latched drive did not respond within %.1f s: stopping the "
                        "base.",
                        RESPONSE_TIMEOUT,
                    )
                    self._lost(page)
            self._closed.wait(POLL_PERIOD)

    def _responds(self, page: int) -> bool:
        """Poll one page; disconnected pages are reported by viser itself."""
        try:
            client = self._server.get_clients().get(page)
            if client is None:
                return True
            # Reading its local storage is the cheapest request that viser offers.
            client.local_storage.get_item(_KEY, timeout=RESPONSE_TIMEOUT)
        except TimeoutError:
            return False
        except RuntimeError:
            # It responded that its storage is not accessible, or it disconnected.
            return True
        except Exception:  # the thread must go on, and the base must stop
            _log.exception("A page with a latched drive could not be polled.")
            return False
        return True


class BaseDriving:
    """Sends the twists of drive pads, and monitors the pages that latched one.

    Args:
        server: the viser server.
        send: called with each twist, on the thread of the callbacks.
    """

    def __init__(self, server: viser.ViserServer, send: SendTwist) -> None:
        self._send = send
        self._pads: dict[str, DrivePanel] = {}
        self.callbacks = CallbackQueue(self._repeat)
        """Queue of all callbacks of the viewer."""
        self._watch = PageWatch(server, self._latching_pages, self.client_left)

    def set_pads(self, pads: Mapping[str, DrivePanel]) -> None:
        """Set the drive pads of the robots, by name."""
        self._pads = dict(pads)

    def changed(self) -> None:
        """Send the twist of a drive pad that has changed."""
        self.callbacks.start_repeating()
        self._watch.update()

    def client_left(self, client: int) -> None:
        """Stop the drives of a page that was disconnected."""
        for pad in self._pads.values():
            pad.client_left(client)

    def stop(self) -> None:
        """Stop all active drives."""
        for pad in self._pads.values():
            pad.stop_if_driving()

    def close(self) -> None:
        """Send zero to driving bases, execute pending callbacks and end the threads."""
        for name, pad in self._pads.items():
            if pad.stop_if_driving():
                zero = functools.partial(self._send, name, 0.0, 0.0, 0.0)
                self.callbacks.put(("twist", name), zero)
        self.callbacks.close()
        self._watch.close()

    def _latching_pages(self) -> set[int]:
        latched = (pad.latched_by() for pad in self._pads.values())
        return {page for page in latched if page is not None}

    def _repeat(self) -> bool:
        """Send the current twists; return whether any drive is active."""
        any_active = False
        for name, pad in self._pads.items():
            twist, active = pad.step()
            any_active |= active
            if twist is not None:
                self._send(name, twist.vx, twist.vy, twist.wz)
        return any_active


@dataclass(frozen=True)
class MotionScaling:
    """Scaling factors as in MoveIt's requests, each above 0 to 1."""

    velocity: float = 1.0
    """Of the velocity limits."""
    acceleration: float = 1.0
    """Of the acceleration limits."""

    @property
    def full(self) -> bool:
        """Whether motions are not scaled."""
        return self.velocity >= 1.0 and self.acceleration >= 1.0


@dataclass(frozen=True)
class TargetCommand:
    """A target pose of the tool, commanded on the page."""

    X_BT: Array
    """Pose of the tool in the robot's scene frame, shape (4, 4)."""
    follower: str
    """Controller to use; one of the robot's ``followers``."""
    verb: str = "follow"
    """``follow`` while the handle is dragged, or ``stop``."""


@dataclass(frozen=True)
class PlanCommand:
    """A goal for the planner, commanded on the page: one of state, joints and pose."""

    verb: str
    """``plan``, ``execute`` or ``stop``."""
    state: str = ""
    """Name of a named state."""
    joints: Mapping[str, float] | None = None
    """Positions of joints [rad or m]."""
    X_BT: Array | None = None
    """Pose of the tool in the robot's scene frame, shape (4, 4)."""
    scaling: MotionScaling = MotionScaling()
    """Of the limits of velocity and acceleration."""


@dataclass(frozen=True)
class PlannerOptions:
    """How to plan to the goals of a robot's panel."""

    planner: str = ""
    """Name of a planner; empty: that of the node."""
    time: float = 0.0
    """Max planning time [s]; 0: that of the node."""
    attempts: int = 1
    """Number of paths, of which the shortest counts."""
    start: str = ""
    """Named state to start from; empty: the present state."""
    keep_orientation: bool = False
    """Whether the tool keeps its present orientation on the way."""


@dataclass(frozen=True)
class TaskCommand:
    """A task, commanded on the page."""

    verb: str
    """``plan``, ``execute``, ``confirm`` or ``stop``."""
    task: str = ""
    """A sentence, or a plan as JSON."""


def invoke(
    callback: Callable[_Arguments, object] | None,
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> None:
    """Call a callback if there is one."""
    if callback is not None:
        callback(*args, **kwargs)


class PanelEvents:
    """Receives the commands of one robot's panel; methods are called on viser's event loop.

    They queue the callbacks of the viewer, where a newer command replaces a pending one.
    """

    def __init__(
        self, viewer: BrowserViewer, name: str, driving: BaseDriving, drawing: DrawLoop
    ) -> None:
        """Create the receiver.

        Args:
            viewer: its callbacks are called.
            name: of the robot.
            driving: drive pads, with the queue of all callbacks.
            drawing: redraws the scene.
        """
        self._viewer, self._name, self._driving, self._drawing = viewer, name, driving, drawing
        self.slider_hold: SliderHold = viewer.slider_hold
        """Whether a slider is held on a page."""

    def scaling(self) -> MotionScaling:
        """Return the scaling factors of the page."""
        return self._viewer.scaling

    def updated(self) -> None:
        """Request a scene update if a page is open."""
        self._drawing.request_if_watched()

    def run_on_loop(self, call: Callable[[], None]) -> None:
        """Queue a call for viser's event loop."""
        self._viewer.run_on_loop(call)

    def notify(self, what: str, text: str) -> None:
        """Show a notification about the robot on all open pages."""
        self._viewer.notify(f"{self._name}: {what}", text)

    def drive_changed(self) -> None:
        """Send the new twist of the drive pad."""
        self._driving.changed()

    def redraw(self) -> None:
        """Request a scene update."""
        self._drawing.request()

    def joint_target(self, joint: str, value: float) -> None:
        """Move a joint to a target position [rad or m]."""
        self._put(
            ("joint", joint), lambda: invoke(self._viewer.on_joint_target, self._name, joint, value)
        )

    def named_state(self, state: str) -> None:
        """Move to a named state."""
        self._put(("state",), lambda: invoke(self._viewer.on_named_state, self._name, state))

    def target(self, command: TargetCommand) -> None:
        """Use a target of the tool."""
        self._put(
            ("target", command.verb), lambda: invoke(self._viewer.on_target, self._name, command)
        )

    def plan(self, command: PlanCommand) -> None:
        """Use a goal of the planner."""
        self._put(("plan", command.verb), lambda: invoke(self._viewer.on_plan, self._name, command))

    def scene_object(self, key: str, item: WorldObject | None) -> None:
        """Add or change an object of the scene; None: remove it."""
        self._put(("object", key), lambda: invoke(self._viewer.on_object, self._name, key, item))

    def attach(self, key: str, link: str) -> None:
        """Attach an object of the scene to a link; empty: detach it."""
        self._put(("attach", key), lambda: invoke(self._viewer.on_attach, self._name, key, link))

    def scene_load(self, items: tuple[WorldObject, ...]) -> None:
        """Add objects to the scene."""
        self._put(("load",), lambda: invoke(self._viewer.on_scene_load, self._name, items))

    def go(self, x: float, y: float, yaw: float) -> None:
        """Drive a base to x, y [m] and yaw [rad] in the world."""
        self._put(("go",), lambda: invoke(self._viewer.on_go, self._name, x, y, yaw))

    def recover(self) -> None:
        """Move out of a collision."""
        self._put(("recover",), lambda: invoke(self._viewer.on_recover, self._name))

    def suction(self, closing: bool) -> None:
        """Close (True) or open the surface gripper."""
        self._put(("suction",), lambda: invoke(self._viewer.on_suction, self._name, closing))

    def task(self, command: TaskCommand) -> None:
        """Use a task for the task server."""
        self._put(("task", command.verb), lambda: invoke(self._viewer.on_task, self._name, command))

    def _put(self, key: tuple[str, ...], call: Callable[[], None]) -> None:
        kind, *rest = key
        self._driving.callbacks.put((kind, self._name, *rest), call)

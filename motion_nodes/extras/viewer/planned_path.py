# SPDX-License-Identifier: Apache-2.0
"""A planned trajectory: a ghost with playback and time slider, and the path of the tool."""

from __future__ import annotations

import threading
import time

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.core.robot.limits import turns_of
from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer.joint_panel import show_value
from motion_nodes.extras.viewer.panel_style import OFF, by_user, on_loop, show_text
from motion_nodes.extras.viewer.plot_panel import QUANTITIES, data_of, joint_plot, planned_curves
from motion_nodes.extras.viewer.robot_view import GHOST, Appearance, RobotView, ghost_of
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.typing import Array

STEP = 0.01
"""Step of the time slider [s]."""
PAUSE = 1.0
"""Pause at the end of a motion before the playback loops [s]."""
SPEEDS = ("0.25", "0.5", "1", "2", "5", "10")


class Playback:
    """A switch, a time slider and, if asked for, a speed; the time may be asked from any thread.

    Args:
        gui: viser's panel; elements are added to the active container, hidden.
        speeds: whether to offer speeds other than real time.
    """

    def __init__(self, gui: viser.GuiApi, *, speeds: bool = False) -> None:
        """Add the elements; without a motion its duration is 0."""
        self.duration = 0.0
        """Of the motion [s]."""
        self._start, self._rate = 0.0, 1.0
        self.play = gui.add_checkbox("Play", True, visible=False, hint="Loop playback.")
        self.text = gui.add_markdown("", visible=False)
        self.scrub = gui.add_slider(
            "Time [s]", min=0.0, max=1.0, step=STEP, initial_value=0.0, visible=False,
            hint="Moves the ghost to this time and pauses playback.",
        )  # fmt: skip
        self.speed: viser.GuiDropdownHandle[str] | None = None
        if speeds:
            self.speed = gui.add_dropdown("Speed", SPEEDS, initial_value="1", visible=False)
            self.speed.on_update(on_loop(self._speed_chosen))
        self.scrub.on_update(by_user(lambda: show_value(self.play, False)))
        self.play.on_update(by_user(self._play_switched))

    @property
    def now(self) -> float:
        """Time within the motion [s]."""
        if self.play.value:
            return self._played()
        return min(float(self.scrub.value), self.duration)

    def restart(self, duration: float) -> None:
        """Start with a motion of a duration [s]."""
        self.duration = duration
        self._start = time.monotonic()

    def refresh(self, shown: bool, playing: bool) -> None:
        """Show or hide the elements, and update them; on viser's event loop.

        Args:
            shown: whether there is a motion.
            playing: whether it is drawn and played, so that its time is shown.
        """
        for element in (self.play, self.scrub, *([self.speed] if self.speed is not None else [])):
            element.visible = shown
        end = round(max(np.ceil(self.duration / STEP - 1e-9), 1.0) * STEP, 2)
        if self.scrub.max != end:
            self.scrub.max = end
            show_value(self.scrub, min(self.scrub.value, end))
        show_text(self.text, f"**{self.now:.1f} s** of {self.duration:.1f} s" if playing else "")

    def _played(self) -> float:
        passed = (time.monotonic() - self._start) * self._rate
        return min(passed % (self.duration + PAUSE * self._rate), self.duration)

    def _play_from(self, when: float) -> None:
        self._start = time.monotonic() - min(when, self.duration) / self._rate

    def _speed_chosen(self) -> None:
        assert self.speed is not None
        when = self._played()
        self._rate = float(self.speed.value)
        self._play_from(when)

    def _play_switched(self) -> None:
        """Pause at the ghost's current time, or continue from the slider's."""
        if self.play.value:
            self._play_from(float(self.scrub.value))
        else:
            show_value(self.scrub, round(self._played() / STEP) * STEP)


PLANNED = Appearance(rgb=(240, 150, 40), opacity=0.35, shadow=False, grow=GHOST.grow)
"""Appearance of the ghost; its colour differs from that of the reference."""
LINE_RGB = (230, 120, 20)
MAX_POINTS = 200
"""Max number of points of the tool's path."""
STALE_AFTER = 1.0
"""Age above which a plan is not drawn on a newly opened page [s]."""
ARRIVED = 0.02
"""Largest distance of a joint from the end of an executed plan [rad or m]."""
REST_DISTANCE, REST_TIME = 0.005, 1.0
"""A robot within this distance [rad or m] for this time [s] rests."""


class PlannedPath:
    """Accepts plans from any thread and draws the newest on the drawing thread.

    Args:
        server: the viser server; panel elements are added to the active container.
        viewed: the robot.
        path: scene node of the robot's base, the parent of the ghost.
    """

    def __init__(self, server: viser.ViserServer, viewed: ViewedRobot, path: str) -> None:
        """Add the elements to the panel, hidden until a plan is received."""
        self._scene, self._viewed, self._path = server.scene, viewed, path
        self._poses = LinkPoses(viewed.model.tree)
        self._turns = turns_of(viewed.model.tree, viewed.model.joint_names)
        self._lock = threading.Lock()
        self._plan: tuple[Array, Array] | None = None
        self._new = self._shown_again = False
        self._pending = False
        """Whether the plan is not executed yet; False if it ends at the current state."""
        self._followed = False
        """Whether the robot has been on the pending plan."""
        self._rest: tuple[Array, float] | None = None
        """Where the robot was last moving, and when [s]."""
        self._executed = self._hidden = self._ended = False
        self._received = 0.0
        self.ghost: RobotView | None = None
        self._line: viser.LineSegmentsHandle | None = None
        gui = server.gui
        self._none = gui.add_markdown("No plan yet.")
        self.show = gui.add_checkbox("Show plan", True, visible=False)
        self.playback = Playback(gui)
        # Without a hint: it would cover the slider above whenever the pointer rests here.
        self.curves = gui.add_dropdown("Curves", (OFF, *QUANTITIES), visible=False)
        self._gui, self._frame = gui, gui.add_folder(None)
        self._plot: viser.GuiUplotHandle | None = None
        self._plotted: tuple[object, str] = (None, OFF)

    def set_plan(self, times: object, positions: object) -> None:
        """Replace the plan.

        Args:
            times: time of each row [s], shape (m,), not decreasing.
            positions: positions of all joints [rad or m], shape (m, n).

        Raises:
            InvalidCommand: wrong shapes, values that are not finite, or decreasing times; the
                previous plan is kept.
        """
        when = np.asarray(times, dtype=np.float64)
        rows = np.asarray(positions, dtype=np.float64)
        shape = (when.size, len(self._viewed.model.joint_names))
        if when.ndim != 1 or not when.size or rows.shape != shape:
            raise InvalidCommand(
                f"{self._viewed.name}: a plan with times of shape {when.shape} needs positions of "
                f"shape {shape}, got {rows.shape}."
            )
        if not (np.isfinite(when).all() and np.isfinite(rows).all()):
            raise InvalidCommand(f"{self._viewed.name}: the plan contains non-finite values.")
        if (np.diff(when) < 0.0).any():
            raise InvalidCommand(f"{self._viewed.name}: the times of the plan decrease.")
        with self._lock:
            self._plan, self._new, self._ended = (when - when[0], rows), True, False
            self._received = time.monotonic()
            self.playback.restart(float(when[-1] - when[0]))

    def end(self) -> None:
        """Hide the plan: a stop has ended the goal it was made for, wherever the robot stands."""
        with self._lock:
            self._ended = self._plan is not None

    @property
    def playing(self) -> bool:
        """Whether playback is active."""
        return self._plan is not None and self.show.value and self.playback.play.value

    def draw(self, q: Array) -> None:
        """Send changes since the last call; ``q``: joint positions [rad or m], shape (n,)."""
        with self._lock:
            plan, new, ended = self._plan, self._new, self._ended
            self._new = self._ended = False
        if plan is None:
            return
        arrived = self._stands_at(plan[1], -1, q)
        if new:
            self._draw_line(plan[1])
            # The ghost of a plan without motion would only cover the robot.
            moves = bool(_moved(plan[1]).any())
            # Nothing is drawn without a page: the robot may have executed the plan meanwhile.
            old = time.monotonic() - self._received > max(float(plan[0][-1]), STALE_AFTER)
            over = not moves or (old and not self._stands_at(plan[1], 0, q))
            self._pending, self._executed, self._shown_again = not arrived, over, not over
            self._followed, self._rest = False, None
        if self._pending and (ended or (not new and (arrived or self._stopped(plan[1], q)))):
            self._pending, self._executed, self._shown_again = False, True, False
        shown = bool(self.show.value)
        if self._line is not None:
            self._line.visible = shown
        if shown:
            if self.ghost is None:
                self.ghost = ghost_of(self._scene, self._viewed, f"{self._path}/plan", PLANNED)
            times, now = plan[0], self.playback.now
            self.ghost.draw_joints(np.array([np.interp(now, times, q) for q in plan[1].T]))
        if self.ghost is not None:
            self.ghost.base.visible = shown

    def refresh_panel(self) -> None:
        """Show the elements once there is a plan, and the playback time; on viser's event loop."""
        if self._plan is None:
            return
        self._hide_executed()
        self._draw_curves()
        if self._none.visible:
            self._none.visible = False
            self.show.visible = self.curves.visible = True
        self.playback.refresh(True, self.playing)

    def _draw_curves(self) -> None:
        """Replace the plot when plan or quantity have changed."""
        plan, quantity = self._plan, str(self.curves.value)
        if plan is None or (plan is self._plotted[0] and quantity == self._plotted[1]):
            return
        self._plotted = plan, quantity
        if self._plot is not None:
            self._plot.remove()
            self._plot = None
        if quantity == OFF:
            return
        times, rows = plan
        limits, moved = self._viewed.limits, np.flatnonzero(_moved(rows))
        assert limits is not None
        curves = planned_curves(times, rows, quantity, limits, moved.tolist())
        with self._frame:
            self._plot = joint_plot(
                self._gui, f"{quantity} [{curves.unit}]", curves, data_of(curves),
                (0.0, max(float(times[-1]), STEP)),
            )  # fmt: skip

    def _hide_executed(self) -> None:
        """Hide an executed plan, and show the next one unless the user has hidden plans."""
        if self.show.value:
            self._hidden = False
        if self._executed:
            self._executed, self._hidden = False, bool(self.show.value)
            show_value(self.show, False)
        if self._shown_again:
            self._shown_again = False
            show_value(self.show, bool(self.show.value) or self._hidden)

    def _draw_line(self, rows: Array) -> None:
        """Draw the path of the tool as a child of the robot's base."""
        keep = np.unique(np.linspace(0, len(rows) - 1, MAX_POINTS).round().astype(int))
        row = self._viewed.model.tree.frame_names.index(self._viewed.tool)
        points = np.array([self._poses.in_root(q)[row, :3, 3] for q in rows[keep]])
        if self._line is not None:
            self._line.remove()
            self._line = None
        if len(points) > 1:
            self._line = self._scene.add_line_segments(
                f"{self._path}/plan_line",
                np.stack([points[:-1], points[1:]], axis=1).astype(np.float32),
                colors=LINE_RGB, thickness=3.0, thickness_units="screen",
            )  # fmt: skip

    def _stopped(self, rows: Array, q: Array) -> bool:
        """Return whether the robot has left the start of a plan and rests before its end."""
        moved, now = _moved(rows), time.monotonic()
        away = self._turns.distance(rows, q)[:, moved].max(axis=1, initial=0.0)
        self._followed = self._followed or bool((away <= ARRIVED).any())
        was = self._rest
        if was is None or self._turns.distance(was[0], q)[moved].max(initial=0.0) > REST_DISTANCE:
            self._rest = q.copy(), now
            return False
        return self._followed and away[0] > ARRIVED and now - was[1] > REST_TIME

    def _stands_at(self, rows: Array, row: int, q: Array) -> bool:
        """Return whether the joints that a plan moves are at one of its rows."""
        moved = _moved(rows)
        away = self._turns.distance(rows[row], q)[moved]
        return bool(moved.any() and away.max() <= ARRIVED)


def _moved(rows: Array) -> NDArray[np.bool_]:
    """Return which joints a plan moves, shape (n,)."""
    return np.asarray(np.ptp(rows, axis=0) > ARRIVED)

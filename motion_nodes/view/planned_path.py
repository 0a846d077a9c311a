# SPDX-License-Identifier: Apache-2.0
"""A planned motion: a ghost that passes it or is scrubbed along it, and the line of its tool.

While the ghost plays, its time is told by a line of text, not by the slider: a value that is sent
to a slider is written over whatever somebody is typing there.
"""

from __future__ import annotations

import dataclasses
import threading
import time

import numpy as np
import viser

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.tree import Array
from motion_nodes.view.joint_panel import show_value
from motion_nodes.view.link_poses import LinkPoses
from motion_nodes.view.robot_view import RobotView
from motion_nodes.view.shape_nodes import GHOST, Look
from motion_nodes.view.viewed_robot import ViewedRobot

PLANNED = Look(rgb=(240, 150, 40), opacity=0.35, shadow=False, grow=GHOST.grow)
"""The ghost: not the colour of a reference."""
LINE_RGB = (230, 120, 20)
MOST_POINTS = 200
"""Of the tool's line."""
STEP = 0.01
"""[s] Of the slider."""
PAUSE = 1.0
"""[s] The ghost stays at the end before it begins anew."""


class PlannedPath:
    """Takes plans from any thread and draws the newest on the drawing thread.

    Args:
        server: the viser server; panel elements go into the tab that is open.
        viewed: the robot.
        path: name of the robot's node, on which the ghost rides.
    """

    def __init__(self, server: viser.ViserServer, viewed: ViewedRobot, path: str) -> None:
        """Add the panel, hidden until there is a plan."""
        self._scene, self._viewed, self._path = server.scene, viewed, path
        self._poses = LinkPoses(viewed.model.tree)
        self._lock = threading.Lock()
        self._plan: tuple[Array, Array] | None = None
        self._new = False
        self._since = 0.0
        self.ghost: RobotView | None = None
        self._line: viser.LineSegmentsHandle | None = None
        gui = server.gui
        self._none = gui.add_markdown("No plan yet.")
        self.show = gui.add_checkbox("Show plan", True, visible=False)
        self.play = gui.add_checkbox(
            "Play", True, visible=False,
            hint="The ghost passes the plan in its own time, again and again.",
        )  # fmt: skip
        self.told = gui.add_markdown("", visible=False)
        self.scrub = gui.add_slider(
            "Time [s]", min=0.0, max=1.0, step=STEP, initial_value=0.0, visible=False,
            hint="Puts the ghost somewhere on its way, and stops the play.",
        )  # fmt: skip
        self.scrub.on_update(self._scrubbed)
        self.play.on_update(self._play_switched)

    def take(self, times: object, positions: object) -> None:
        """Take a plan.

        Args:
            times: when each row is passed [s], shape (m,), growing.
            positions: all joints [rad or m], shape (m, n).

        Raises:
            InvalidCommand: for wrong shapes, numbers that are not finite, times that go back.
        """
        when = np.asarray(times, dtype=np.float64)
        rows = np.asarray(positions, dtype=np.float64)
        shape = (len(when), len(self._viewed.model.joint_names))
        if when.ndim != 1 or not len(when) or rows.shape != shape:
            raise InvalidCommand(
                f"{self._viewed.name}: a plan of {when.shape} times needs positions of shape "
                f"{shape}, was given {rows.shape}."
            )
        if not (np.isfinite(when).all() and np.isfinite(rows).all()):
            raise InvalidCommand(
                f"{self._viewed.name}: the plan holds numbers that are not finite."
            )
        if (np.diff(when) < 0.0).any():
            raise InvalidCommand(f"{self._viewed.name}: the times of the plan go back.")
        with self._lock:
            self._plan, self._new = (when - when[0], rows), True
            self._since = time.monotonic()

    @property
    def playing(self) -> bool:
        """Whether the ghost moves by itself."""
        return self._plan is not None and self.show.value and self.play.value

    @property
    def duration(self) -> float:
        """Of the plan [s]; 0 without one."""
        with self._lock:
            return 0.0 if self._plan is None else float(self._plan[0][-1])

    @property
    def now(self) -> float:
        """Where on the plan's way the ghost is [s]."""
        if not self.play.value:
            return min(float(self.scrub.value), self.duration)
        return self._played()

    def draw(self) -> None:
        """Send what changed since the last time."""
        with self._lock:
            plan, new, self._new = self._plan, self._new, False
        if plan is None:
            return
        if new:
            self._draw_line(plan[1])
        shown = bool(self.show.value)
        if self._line is not None:
            self._line.visible = shown
        if shown:
            self._ghost().draw_joints(_at(*plan, self.now))
        if self.ghost is not None:
            self.ghost.base.visible = shown

    def refresh_panel(self) -> None:
        """Show the panel once there is a plan, and how far the play is; on viser's event loop."""
        if self._plan is None:
            return
        if self._none.visible:
            self._none.visible = False
            for element in (self.show, self.play, self.scrub):
                element.visible = True
        duration = self.duration
        most = round(max(np.ceil(duration / STEP - 1e-9), 1.0) * STEP, 2)
        if self.scrub.max != most:
            self.scrub.max = most
            show_value(self.scrub, min(self.scrub.value, most))
        text = f"at **{self.now:.1f} s** of {duration:.1f} s" if self.playing else ""
        if text != self.told.content:
            self.told.content, self.told.visible = text, bool(text)

    def _played(self) -> float:
        """Return where a ghost that plays is [s]."""
        duration = self.duration
        return min((time.monotonic() - self._since) % (duration + PAUSE), duration)

    def _ghost(self) -> RobotView:
        if self.ghost is None:
            on_base = dataclasses.replace(self._viewed, X_WR=np.eye(4))
            self.ghost = RobotView(self._scene, on_base, f"{self._path}/plan", PLANNED)
        return self.ghost

    def _draw_line(self, rows: Array) -> None:
        """Draw the way of the tool, below the robot's base."""
        keep = np.unique(np.linspace(0, len(rows) - 1, MOST_POINTS).round().astype(int))
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

    async def _scrubbed(self, event: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
        # Without a client it was the program that set the value.
        if event.client is not None:
            show_value(self.play, False)

    async def _play_switched(self, event: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        """Stop where the ghost is, and go on from where it was put."""
        if event.client is None:
            return
        if self.play.value:
            self._since = time.monotonic() - min(float(self.scrub.value), self.duration)
        else:
            show_value(self.scrub, round(self._played() / STEP) * STEP)


def _at(times: Array, rows: Array, now: float) -> Array:
    """Return the joints at a time [s], between rows on straight lines, shape (n,)."""
    return np.array([np.interp(now, times, column) for column in rows.T])

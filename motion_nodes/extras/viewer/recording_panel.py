# SPDX-License-Identifier: Apache-2.0
"""Replay of a recording on the page: ghosts of the robots beside the robots, and images."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.core.robot.poses import rotation_vector, turned
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.extras.viewer.displays import JPEG_QUALITY, thinned_image
from motion_nodes.extras.viewer.panel_style import OFF, SECONDARY, plain
from motion_nodes.extras.viewer.planned_path import Playback
from motion_nodes.extras.viewer.robot_view import GHOST, Appearance, RobotView
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.typing import Array

RECORDED = Appearance(rgb=(150, 90, 220), opacity=0.5, shadow=False, grow=GHOST.grow)
"""Appearance of the ghosts."""
SUFFIX = ".mcap"
HELP = "Nothing of a recording is sent to the robots."


@dataclass(frozen=True, eq=False)
class RecordedMotion:
    """The motion of one robot.

    Raises:
        InvalidCommand: wrong shapes, times that decrease, or values that are not finite.
    """

    times: Array
    """Times of the positions from the begin of the recording [s], shape (m,), m may be 0."""
    positions: Array
    """Positions of all joints [rad or m], shape (m, n)."""
    base_times: Array = field(default_factory=lambda: np.empty(0))
    """Times of the base poses [s], shape (k,), k may be 0."""
    base_poses: Array = field(default_factory=lambda: np.empty((0, 4, 4)))
    """Poses of the root link in the world, shape (k, 4, 4)."""

    def __post_init__(self) -> None:
        for times, rows in ((self.times, self.positions), (self.base_times, self.base_poses)):
            if times.ndim != 1 or len(times) != len(rows) or (np.diff(times) < 0.0).any():
                raise InvalidCommand("times of a recording must not decrease, one for each row.")
            if not (np.isfinite(times).all() and np.isfinite(rows).all()):
                raise InvalidCommand("a recording holds values that are not finite.")

    @property
    def duration(self) -> float:
        """Time of the last value [s]."""
        return float(max((t[-1] for t in (self.times, self.base_times) if len(t)), default=0.0))

    def joints_at(self, when: float) -> Array | None:
        """Return the positions at a time [s], shape (n,); None: none are recorded."""
        if not len(self.times):
            return None
        k, share = _place(self.times, when)
        q, end = self.positions[k], self.positions[min(k + 1, len(self.positions) - 1)]
        return np.asarray(q + share * (end - q))

    def base_at(self, when: float) -> Array | None:
        """Return the base pose at a time [s], shape (4, 4); None: none is recorded."""
        if not len(self.base_times):
            return None
        k, share = _place(self.base_times, when)
        A, B = self.base_poses[k], self.base_poses[min(k + 1, len(self.base_poses) - 1)]
        X = A + share * (B - A)
        way = np.array(rotation_vector(B[:3, :3] @ A[:3, :3].T))
        X[:3, :3] = turned(A[:3, :3], share * way)
        return np.asarray(X)


@dataclass(frozen=True, eq=False)
class RecordedImages:
    """The images of one topic, which are decoded when they are shown."""

    times: Array
    """Times from the begin of the recording [s], not decreasing, shape (m,), m above 0."""
    pixels: Callable[[int], NDArray[np.uint8]]
    """Returns an image by its index, shape (h, w, 3); raises a MotionError if it cannot."""

    def index_at(self, when: float) -> int:
        """Return the index of the last image until a time [s]; before the first one that."""
        return max(int(np.searchsorted(self.times, when, side="right")) - 1, 0)


def _place(times: Array, when: float) -> tuple[int, float]:
    """Return the row before a time and the share of the way to the next one, 0 to 1."""
    k = max(int(np.searchsorted(times, when, side="right")) - 1, 0)
    length = float(times[k + 1] - times[k]) if k + 1 < len(times) else 0.0
    return k, min(max((when - float(times[k])) / length, 0.0), 1.0) if length > 0.0 else 0.0


class RecordingPanel:
    """Opens a recording and draws its robots as ghosts at the time of its playback.

    Args:
        server: the viser server.
        robots: the robots by name.
        opened: called on viser's event loop with name and content of a file.
        redraw: called when the scene must be redrawn.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        robots: Mapping[str, ViewedRobot],
        opened: Callable[[str, bytes], None],
        redraw: Callable[[], None],
    ) -> None:
        self._scene, self._robots, self._opened, self._redraw = (
            server.scene, robots, opened, redraw,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._motions: Mapping[str, RecordedMotion] = {}
        self._images: Mapping[str, RecordedImages] = {}
        self._text = HELP
        self._shown_image: tuple[object, int] = (None, 0)
        """Images of which one is shown, and its index."""
        self.picture: viser.GuiImageHandle | None = None
        self.ghosts: dict[str, RobotView] = {}
        gui = server.gui
        self._gui = gui
        with gui.add_folder("Recording", expand_by_default=False) as self._folder:
            self.upload = gui.add_upload_button(
                "Open recording", color=SECONDARY, icon=viser.Icon.UPLOAD, mime_type=SUFFIX,
                hint="An MCAP file of motion record or ros2 bag: its joint states, odometry "
                "and images.",
            )  # fmt: skip
            self.playback = Playback(gui, speeds=True)
            self.image = gui.add_dropdown("Recorded image", (OFF,), visible=False)
            self.close = gui.add_button("Close recording", color=SECONDARY, visible=False)
            self._line = gui.add_markdown(plain(HELP))
        self.upload.on_upload(self._uploaded)
        self.close.on_click(lambda _: self.set_motions({}, HELP))
        self.playback.scrub.on_update(lambda _: redraw())

    def set_motions(
        self,
        motions: Mapping[str, RecordedMotion],
        text: str,
        images: Mapping[str, RecordedImages] | None = None,
    ) -> None:
        """Replace the recording; from any thread.

        Args:
            motions: by robot; others than those of the page are ignored; empty: none.
            text: one line below the buttons.
            images: by topic; None: none.
        """
        with self._lock:
            self._motions = {name: motions[name] for name in self._robots if name in motions}
            self._images, self._text = images or {}, text
            ends = [each.duration for each in self._motions.values()]
            ends += [float(each.times[-1]) for each in self._images.values()]
            self.playback.restart(max(ends, default=0.0))
        self._redraw()

    @property
    def playing(self) -> bool:
        """Whether ghosts or images move."""
        return bool(self._motions or self._images) and bool(self.playback.play.value)

    def draw(self) -> None:
        """Send changes of the ghosts; on the drawing thread."""
        with self._lock:
            motions, when = self._motions, self.playback.now
        for name, motion in motions.items():
            if name not in self.ghosts:
                path = f"/recording/{name}"
                self.ghosts[name] = RobotView(self._scene, self._robots[name], path, RECORDED)
            q, X_WB = motion.joints_at(when), motion.base_at(when)
            if q is not None:
                self.ghosts[name].draw_joints(q)
            self.ghosts[name].draw_base(self._robots[name].X_WR if X_WB is None else X_WB)
        for name, ghost in self.ghosts.items():
            if ghost.base.visible != (name in motions):
                ghost.base.visible = name in motions

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        shown = bool(self._motions or self._images)
        self._refresh_image()
        self.playback.refresh(shown, self.playing)
        if self.close.visible != shown:
            self.close.visible = shown
        text = plain(self._text)
        if text != self._line.content:
            self._line.content = text

    def _refresh_image(self) -> None:
        """Offer the topics, and show the image of the present time of the selected one."""
        with self._lock:
            images, when = self._images, self.playback.now
        options = (OFF, *sorted(images))
        if options != tuple(self.image.options):
            self.image.options = options
            self.image.visible = bool(images)
        found = images.get(str(self.image.value))
        if found is None:
            if self.picture is not None:
                self.picture.remove()
                self.picture, self._shown_image = None, (None, 0)
            return
        newest = found, found.index_at(when)
        if newest == self._shown_image:
            return
        self._shown_image = newest
        try:
            pixels = thinned_image(found.pixels(newest[1]))
        except MotionError as error:
            self._text = str(error)
            return
        if self.picture is not None:
            self.picture.image = pixels
            return
        with self._folder:
            self.picture = self._gui.add_image(pixels, format="jpeg", jpeg_quality=JPEG_QUALITY)

    async def _uploaded(self, event: viser.GuiEvent[viser.GuiUploadButtonHandle]) -> None:
        file = event.target.value
        self._text = f"reading {file.name}"
        self.refresh()
        self._opened(file.name, file.content)

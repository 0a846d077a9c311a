# SPDX-License-Identifier: Apache-2.0
"""2D Goal Pose: a click on the floor is a goal for a base."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import viser

from motion_nodes.typing import Array
from motion_nodes.view.status_text import plain

ARM, DISARM = "2D Goal Pose", "Cancel"
"""Labels of the button."""
MAX_DISTANCE = 100.0
"""Max distance of a goal from the base [m]; clicks near the horizon are further away."""
MARKER_RADIUS, MARKER_HEIGHT = 0.05, 0.01
"""Size of the mark on the goal [m]."""


class FloorGoal:
    """A button after which the next click on the floor is a goal.

    Args:
        server: the viser server; elements are added to the active container.
        path: scene node of the mark.
        colour: of the mark.
        base_pose: returns the pose of the base in the world, shape (4, 4).
        turns: whether the base heads for the goal; else it keeps its heading.
        go: called on viser's event loop with x, y [m] and yaw [rad] in the world.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        path: str,
        colour: tuple[int, int, int],
        base_pose: Callable[[], Array],
        turns: bool,
        go: Callable[[float, float, float], None],
    ) -> None:
        """Add the button."""
        self._scene, self._base_pose, self._turns, self._go = server.scene, base_pose, turns, go
        self._armed_by: int | None = None
        """Page on which the button was pressed."""
        self._text, self._driving = "", False
        self.button = server.gui.add_button(
            ARM, icon=viser.Icon.MAP_PIN,
            hint="The next click on the floor is the goal. The base arrives with the heading from "
            "its present position to the goal; holonomic bases keep their heading.",
        )  # fmt: skip
        self.message = server.gui.add_markdown("", visible=False)
        self._mark = server.scene.add_cylinder(
            path, MARKER_RADIUS, MARKER_HEIGHT, color=colour, visible=False, cast_shadow=False
        )
        self.button.on_click(self._pressed)

    def set_message(self, text: str, *, driving: bool) -> None:
        """Store the status of the motion; the goal is marked while ``driving``."""
        self._text, self._driving = text, driving

    def refresh(self) -> None:
        """Update line and mark; on viser's event loop."""
        if self._mark.visible and not self._driving:
            self._mark.visible = False
        text = "Click on the floor" if self._armed_by is not None else plain(self._text)
        if text != self.message.content:
            self.message.content, self.message.visible = text, bool(text)

    def client_left(self, client: int) -> None:
        """Disarm if the page that armed was closed."""
        if client == self._armed_by:
            self._disarm()

    async def _pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client_id is None:
            return
        if self._armed_by is not None:
            self._disarm()
        else:
            self._armed_by = event.client_id
            self.button.label = DISARM
            self._scene.on_click()(self._clicked)
        self.refresh()

    async def _clicked(self, event: viser.SceneClickEvent) -> None:
        if event.client_id != self._armed_by:
            return
        point = floor_point(event.ray_origin, event.ray_direction)
        X_WB = self._base_pose()
        if point is None or np.linalg.norm(point - X_WB[:2, 3]) > MAX_DISTANCE:
            return  # not on the floor: the next click counts
        self._disarm()
        x, y = map(float, point)
        self._mark.position, self._mark.visible = (x, y, 0.5 * MARKER_HEIGHT), True
        self._driving = True
        self._go(x, y, heading_to(point, X_WB, turns=self._turns))
        self.refresh()

    def _disarm(self) -> None:
        self._armed_by = None
        self.button.label = ARM
        self._scene.remove_click_callback(self._clicked)


def floor_point(origin: object, direction: object) -> Array | None:
    """Return where a ray meets the floor, the plane z = 0 [m], shape (2,); None: nowhere.

    Args:
        origin: of the ray in the world [m], shape (3,).
        direction: of the ray, shape (3,).
    """
    p, d = np.asarray(origin, np.float64), np.asarray(direction, np.float64)
    if not (np.isfinite(p).all() and np.isfinite(d).all()) or p[2] * d[2] >= 0.0:
        return None
    return np.asarray(p[:2] - p[2] / d[2] * d[:2])


def heading_to(point: Array, X_WB: Array, *, turns: bool) -> float:
    """Return the heading of a base at a goal [rad].

    Args:
        point: the goal in the world [m], shape (2,).
        X_WB: pose of the base now, shape (4, 4).
        turns: whether it heads for the goal; else it keeps its heading.
    """
    if turns:
        dx, dy = point - X_WB[:2, 3]
        return math.atan2(float(dy), float(dx))
    return math.atan2(float(X_WB[1, 0]), float(X_WB[0, 0]))

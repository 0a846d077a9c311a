# SPDX-License-Identifier: Apache-2.0
"""Commands given on the page, and their receiver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec

from motion_nodes.scene.scene import WorldObject
from motion_nodes.typing import Array
from motion_nodes.view.base_driving import BaseDriving
from motion_nodes.view.debounced_inputs import SliderHold
from motion_nodes.view.draw_loop import DrawLoop
from motion_nodes.view.scaling_panel import MotionScaling

if TYPE_CHECKING:
    from motion_nodes.view.browser import BrowserViewer

_Arguments = ParamSpec("_Arguments")

PLAN_VERBS = {"Plan": "plan", "Execute": "execute", "Stop": "stop"}
"""Command of each button of the planner."""

TASK_VERBS = {"Plan task": "plan", "Execute task": "execute", "Stop task": "stop"}
"""Command of each button of the tasks."""


@dataclass(frozen=True)
class TargetCommand:
    """A target pose of the tool, commanded on the page."""

    X_BT: Array
    """Pose of the tool in the robot's scene frame, shape (4, 4)."""
    follower: str
    """Controller to use; one of the robot's ``followers``."""
    verb: str = "follow"
    """``follow`` while the handle is dragged, ``stop``; ``plan`` or ``execute`` for the planner."""
    velocity_scaling: float = 1.0
    """For the planner, above 0 to 1."""
    acceleration_scaling: float = 1.0
    """For the planner, above 0 to 1."""


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
    velocity_scaling: float = 1.0
    """Above 0 to 1."""
    acceleration_scaling: float = 1.0
    """Above 0 to 1."""


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

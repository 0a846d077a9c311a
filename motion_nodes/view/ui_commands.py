# SPDX-License-Identifier: Apache-2.0
"""Commands given on the page, and the callbacks that receive them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ParamSpec

from motion_nodes.model.tree import Array
from motion_nodes.scene.scene import WorldObject
from motion_nodes.view.debounced_inputs import SliderHold
from motion_nodes.view.scaling_panel import MotionScaling, ScalingPanel
from motion_nodes.view.ui_queue import CallbackQueue

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


@dataclass(frozen=True)
class PanelEvents:
    """Receivers of the commands of one robot's panel; called on viser's event loop."""

    joint_target: Callable[[str, float], None]
    """Joint and target position [rad or m]."""
    named_state: Callable[[str], None]
    """Name of the state to move to."""
    drive_changed: Callable[[], None]
    """The drive pad has a new twist to send."""
    target: Callable[[TargetCommand], None]
    """Target of the tool."""
    plan: Callable[[PlanCommand], None]
    """Goal of the planner."""
    scene_object: Callable[[str, WorldObject | None], None]
    """Name and new value of an object of the scene; None: remove it."""
    attach: Callable[[str, str], None]
    """Name of an object of the scene, and the link to attach it to; empty: detach it."""
    scene_load: Callable[[tuple[WorldObject, ...]], None]
    """Objects to add to the scene."""
    recover: Callable[[], None]
    """Move out of a collision."""
    suction: Callable[[bool], None]
    """Close (True) or open the surface gripper."""
    task: Callable[[TaskCommand], None]
    """Task for the task server."""
    go: Callable[[float, float, float], None]
    """Pose for a base: x, y [m] and yaw [rad] in the world."""
    redraw: Callable[[], None]
    """Requests a scene update."""
    slider_hold: SliderHold
    """Whether a slider is held on a page."""
    scaling: Callable[[], MotionScaling]
    """Returns the scaling factors of the page."""


def invoke(
    callback: Callable[_Arguments, object] | None,
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> None:
    """Call a callback if there is one."""
    if callback is not None:
        callback(*args, **kwargs)


class ViewerCallbacks:
    """Callbacks of a viewer, None initially.

    They are called one at a time on a single thread of the viewer. If a callback is slow,
    superseded values are skipped. Exceptions in callbacks are logged.
    """

    def __init__(self) -> None:
        """Start without callbacks."""
        self.slider_hold = SliderHold()
        """Whether a slider is held on a page."""
        self._scaling: ScalingPanel | None = None
        self.on_joint_target: Callable[[str, str, float], None] | None = None
        """Robot, joint and target position [rad or m], from a slider."""
        self.on_named_state: Callable[[str, str], None] | None = None
        """Robot and named state to move to."""
        self.on_twist: Callable[[str, float, float, float], None] | None = None
        """Robot, vx, vy [m/s] and wz [rad/s] in its base frame; repeated at 15 Hz while driving,
        then zero three times."""
        self.on_target: Callable[[str, TargetCommand], None] | None = None
        """Robot and target of its tool."""
        self.on_plan: Callable[[str, PlanCommand], None] | None = None
        """Robot and goal of its planner."""
        self.on_object: Callable[[str, str, WorldObject | None], None] | None = None
        """Robot, name of an object of its scene, and the object: added, with a new pose, or None
        to remove it."""
        self.on_attach: Callable[[str, str, str], None] | None = None
        """Robot, name of an object of its scene, and the link to attach it to; empty: detach it."""
        self.on_scene_load: Callable[[str, tuple[WorldObject, ...]], None] | None = None
        """Robot and objects of a file to add to its scene."""
        self.on_recover: Callable[[str], None] | None = None
        """Robot to recover from a collision."""
        self.on_suction: Callable[[str, bool], None] | None = None
        """Robot, and whether to close its surface gripper, or open it."""
        self.on_task: Callable[[str, TaskCommand], None] | None = None
        """Robot and task for its task server."""
        self.on_go: Callable[[str, float, float, float], None] | None = None
        """Base, and the pose to drive to: x, y [m] and yaw [rad] in the world."""
        self.on_pause: Callable[[bool], None] | None = None
        """Whether to pause the simulation, or continue it."""
        self.on_reset: Callable[[], None] | None = None
        """Reset the simulation."""
        self.on_stop: Callable[[], object] | None = None
        """Stop all robots. This callback and ``on_resume`` are called immediately, on viser's event
        loop."""
        self.on_resume: Callable[[], object] | None = None
        """Accept commands again."""

    @property
    def scaling(self) -> MotionScaling:
        """Velocity and acceleration scaling chosen on the page, for all robots."""
        return MotionScaling() if self._scaling is None else self._scaling.scaling

    def send_twist(self, name: str, vx: float = 0.0, vy: float = 0.0, wz: float = 0.0) -> None:
        """Call ``on_twist``; only on the thread of the callbacks.

        Args:
            name: of the robot.
            vx: forward velocity in the base frame [m/s].
            vy: velocity to the left [m/s].
            wz: yaw rate, counter-clockwise [rad/s].
        """
        invoke(self.on_twist, name, vx, vy, wz)

    def events(
        self,
        name: str,
        callbacks: CallbackQueue,
        drive_changed: Callable[[], None],
        redraw: Callable[[], None],
    ) -> PanelEvents:
        """Return the events of one robot's panel.

        Args:
            name: of the robot.
            callbacks: queue that calls the callbacks.
            drive_changed: called when the drive pad has a new twist to send.
            redraw: called when the scene must be redrawn.
        """

        def joint_target(joint: str, value: float) -> None:
            callbacks.put(
                ("joint", name, joint), lambda: invoke(self.on_joint_target, name, joint, value)
            )

        def named_state(state: str) -> None:
            callbacks.put(("state", name), lambda: invoke(self.on_named_state, name, state))

        def target(command: TargetCommand) -> None:
            callbacks.put(
                ("target", name, command.verb), lambda: invoke(self.on_target, name, command)
            )

        def plan(command: PlanCommand) -> None:
            callbacks.put(("plan", name, command.verb), lambda: invoke(self.on_plan, name, command))

        def scene_object(key: str, item: WorldObject | None) -> None:
            callbacks.put(("object", name, key), lambda: invoke(self.on_object, name, key, item))

        def attach(key: str, link: str) -> None:
            callbacks.put(("attach", name, key), lambda: invoke(self.on_attach, name, key, link))

        def scene_load(items: tuple[WorldObject, ...]) -> None:
            callbacks.put(("load", name), lambda: invoke(self.on_scene_load, name, items))

        def go(x: float, y: float, yaw: float) -> None:
            callbacks.put(("go", name), lambda: invoke(self.on_go, name, x, y, yaw))

        def recover() -> None:
            callbacks.put(("recover", name), lambda: invoke(self.on_recover, name))

        def suction(closing: bool) -> None:
            callbacks.put(("suction", name), lambda: invoke(self.on_suction, name, closing))

        def task(command: TaskCommand) -> None:
            callbacks.put(("task", name, command.verb), lambda: invoke(self.on_task, name, command))

        return PanelEvents(
            joint_target,
            named_state,
            drive_changed,
            target,
            plan,
            scene_object,
            attach,
            scene_load,
            recover,
            suction,
            task,
            go,
            redraw,
            self.slider_hold,
            lambda: self.scaling,
        )

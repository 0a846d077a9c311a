# SPDX-License-Identifier: Apache-2.0
"""One robot of a running viewer: its received state, its scene nodes and its panel.

A surface gripper has a button; a mobile base has a trail of past positions, and a click on the
floor is its goal (2D Goal Pose).
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import viser
from numpy.typing import ArrayLike

from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.tree import JointKind, frozen
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.tasks.task_plan import TaskProgress
from motion_nodes.extras.viewer.drive_panel import DrivePanel
from motion_nodes.extras.viewer.joint_panel import GoalStatePanel, JointPanel
from motion_nodes.extras.viewer.panel_style import (
    AngleUnit,
    Freshness,
    plain,
    robot_line,
    show_text,
)
from motion_nodes.extras.viewer.planning_view import Drawing, PlanningView
from motion_nodes.extras.viewer.plot_panel import JointHistory, PlotPanel
from motion_nodes.extras.viewer.robot_view import GHOST, RobotView, bounding_sphere, ghost_of
from motion_nodes.extras.viewer.suite_panels import TaskPanel
from motion_nodes.extras.viewer.target_gizmo import TargetGizmo
from motion_nodes.extras.viewer.ui_commands import MotionScaling, PanelEvents, PlannerOptions
from motion_nodes.extras.viewer.viewed_robot import PLANNER, ViewedRobot
from motion_nodes.typing import Array

OPEN = "open"
"""State of a gripper that the button closes; it opens it in all others."""
SPACING = 0.02
"""Min distance between two points [m]."""
MAX_POINTS = 600
"""Max number of points, 12 m at ``SPACING``; the oldest are removed."""
JUMP = 0.5
"""A displacement between two updates above this [m] is a teleport: the trail is cleared."""
HEIGHT = 0.004
"""Height of the line above the base's origin [m], so that the floor does not hide it."""
ARM, DISARM = "2D Goal Pose", "Cancel"
"""Labels of the button."""
MAX_DISTANCE = 100.0
"""Max distance of a goal from the base [m]; clicks near the horizon are further away."""
MARKER_RADIUS, MARKER_HEIGHT = 0.05, 0.01
"""Size of the mark on the goal [m]."""
TRAIL_RGB = ((38, 120, 220), (220, 110, 30), (40, 160, 90), (170, 70, 190))
"""Colours of the trails, in the order of the robots."""


class SuctionPanel:
    """Shows the state of a surface gripper and reports presses of its button.

    Args:
        gui: viser's panel; elements are added to the active container.
        on_change: called with whether to close the gripper.
    """

    def __init__(self, gui: viser.GuiApi, on_change: Callable[[bool], None]) -> None:
        """Add the elements to the panel, hidden."""
        self._state = ""
        self.button = gui.add_button("Surface gripper", visible=False)
        self.button.on_click(lambda _: on_change(self._state == OPEN))
        self.text = gui.add_markdown("", visible=False)

    def show(self, state: str, held: str) -> None:
        """Show the state and the names of the held objects; on viser's event loop."""
        text = plain(f"{state}: {held}" if held else state)
        if text == self.text.content:
            return
        self._state = state
        self.button.label = "Close the gripper" if state == OPEN else "Open the gripper"
        self.button.visible = self.text.visible = True
        self.text.content = text


class TrailPoints:
    """The points of a trail, with a min spacing and a max number."""

    def __init__(self) -> None:
        self._points: deque[Array] = deque(maxlen=MAX_POINTS)

    def __len__(self) -> int:
        return len(self._points)

    def clear(self) -> None:
        """Remove all points."""
        self._points.clear()

    def add(self, p_WB: Array) -> bool:
        """Add a position of the base.

        Args:
            p_WB: position in the world [m], shape (3,).

        Returns:
            Whether the trail changed.
        """
        if self._points:
            moved = float(np.linalg.norm(p_WB - self._points[-1]))
            if moved < SPACING:
                return False
            if moved > JUMP:
                self._points.clear()
        self._points.append(np.array(p_WB, dtype=np.float64))
        return True

    def segments(self) -> Array:
        """Return the line segments in the world [m], shape (k, 2, 3); k may be 0."""
        if len(self._points) < 2:
            return np.zeros((0, 2, 3))
        points = np.array(self._points)
        return np.stack([points[:-1], points[1:]], axis=1)


class Trail:
    """The trail of one base in the scene.

    Args:
        scene: the viser scene.
        path: path of its node.
        rgb: colour of the line, 0 to 255 each.
    """

    def __init__(self, scene: viser.SceneApi, path: str, rgb: tuple[int, int, int]) -> None:
        self.points = TrailPoints()
        self._scene, self._path, self.rgb = scene, path, rgb
        self._node: viser.LineSegmentsHandle | None = None

    def draw(self, segments: Array) -> None:
        """Send the line; ``segments``: see :meth:`TrailPoints.segments`."""
        if len(segments) == 0:
            if self._node is not None:
                self._node.remove()
                self._node = None
            return
        raised = np.array(segments, dtype=np.float32)
        raised[:, :, 2] += HEIGHT
        if self._node is not None:
            self._node.points = raised
            return
        self._node = self._scene.add_line_segments(
            self._path, raised, colors=self.rgb, thickness=3.0, thickness_units="screen"
        )


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
        show_text(self.message, text)

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


class LiveRobot:
    """Accepts updates from any thread and draws them on the drawing thread.

    Args:
        server: the viser server.
        viewed: the robot.
        number: index of the robot, which selects the colour of its trail.
        events: receivers of its panel's commands.
        unit: of angles on the panel.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        viewed: ViewedRobot,
        number: int,
        events: PanelEvents,
        unit: AngleUnit,
    ) -> None:
        self.viewed, self._events = viewed, events
        self._scene = server.scene
        self._lock = threading.Lock()
        self._q: Array = np.full(len(viewed.model.joint_names), np.nan)
        self._q_reference: Array | None = None
        self._X_WB: Array | None = None
        self._state_dirty = self._reference_dirty = self._trail_dirty = False
        self._clear_trail = self._has_joint_states = False
        self._message = ""
        self._freshness = Freshness()
        assert viewed.limits is not None
        joint = viewed.model.tree.joint
        self._history = JointHistory(
            viewed.limits,
            tuple(joint(name).kind is JointKind.PRISMATIC for name in viewed.model.joint_names),
        )
        self.view = RobotView(server.scene, viewed, f"/robots/{viewed.name}")
        self.ghost: RobotView | None = None
        self.trail = Trail(
            server.scene, f"/trails/{viewed.name}", TRAIL_RGB[number % len(TRAIL_RGB)]
        )
        self._add_panel(server, events, unit)

    def _add_panel(self, server: viser.ViserServer, events: PanelEvents, unit: AngleUnit) -> None:
        """Add the robot's folder."""
        viewed, gui = self.viewed, server.gui
        self.joints: JointPanel | None = None
        self.goal_state: GoalStatePanel | None = None
        self.suction: SuctionPanel | None = None
        self.drive: DrivePanel | None = None
        self.floor_goal: FloorGoal | None = None
        self.planning: PlanningView | None = None
        self.target: TargetGizmo | None = None
        with gui.add_folder(viewed.title):
            self._status = gui.add_markdown(robot_line(self._freshness, "", 0.0))
            tabs = gui.add_tab_group()
        if viewed.sliders:
            with tabs.add_tab("Joints"):
                if viewed.planned_joints and PLANNER in viewed.followers:
                    self.goal_state = GoalStatePanel(
                        server, viewed, self.view.base.name, lambda: self.joint_sliders,
                        events.scaling, events.plan,
                    )  # fmt: skip
                self.joints = JointPanel(gui, viewed, events, unit, self.goal_state)
                self.suction = SuctionPanel(gui, events.suction)
        if viewed.drive:
            with tabs.add_tab("Drive"):
                if viewed.navigates:
                    self.floor_goal = FloorGoal(
                        server, f"/goals/{viewed.name}", self.trail.rgb, self._base_pose,
                        viewed.model.kind != "holonomic", events.go,
                    )  # fmt: skip
                self.drive = DrivePanel(
                    gui, viewed, events.drive_changed, self.request_clear_trail, unit
                )
        if viewed.tool and viewed.followers:
            with tabs.add_tab("Target"):
                self.target = TargetGizmo(server, viewed, self._base_node(), events, unit)
        if viewed.tool:
            self.planning = PlanningView(
                server, self.view, events, tabs, self.goal_state, self.target
            )
        self.tasks: TaskPanel | None = None
        if viewed.tasks:
            with tabs.add_tab("Tasks"):
                self.tasks = TaskPanel(gui, events.task)
            if self.planning is not None:
                self.planning.objects.on_pick.append(self.tasks.picked)
        with tabs.add_tab("Plots"):
            self.plots = PlotPanel(gui, viewed.model.joint_names, unit)

    def _base_pose(self) -> Array:
        """Return the newest pose of the root link in the world, shape (4, 4)."""
        with self._lock:
            return self.viewed.X_WR if self._X_WB is None else self._X_WB

    def _base_node(self) -> str:
        """Return the path of the scene node of the robot's scene frame."""
        names = self.viewed.model.tree.frame_names
        return str(self.view.links[names.index(self.viewed.scene_frame or names[0])].name)

    # ---- updates, from any thread

    def update_joints(self, q: object, v: object | None = None) -> None:
        """Show joint positions.

        Args:
            q: positions in the order of its ``joint_names`` [rad or m], shape (n,); NaN and
                infinite values leave a joint unchanged.
            v: velocities for the plots [rad/s or m/s], shape (n,).

        Raises:
            InvalidCommand: not n numbers; nothing changes.
        """
        values = self.viewed.checked_positions(q, "update_joints")
        speeds = np.full_like(values, np.nan)
        if v is not None:
            speeds = self.viewed.checked_positions(v, "update_joints")
        now = time.monotonic()
        with self._lock:
            np.copyto(self._q, values, where=np.isfinite(values))
            self._history.add(now, self._q, speeds)
            self._state_dirty = self._has_joint_states = True
            self._freshness.arrived(now)
        self._events.updated()

    def update_base(self, X_WB: ArrayLike) -> None:
        """Show the pose of the root link in the world, shape (4, 4), and extend its trail.

        Raises:
            InvalidCommand: not a finite rigid pose; the previous one is kept.
        """
        pose = frozen(rigid_pose(X_WB, f"{self.viewed.name}: base pose X_WB"))
        with self._lock:
            self._X_WB = pose
            self._trail_dirty |= self.trail.points.add(pose[:3, 3])
            self._state_dirty = True
            # The displayed rate is that of joint states, else of base poses.
            self._freshness.arrived(time.monotonic(), counts=not self._has_joint_states)
        self._events.updated()

    def update_reference(self, q: object | None) -> None:
        """Show the joint reference as a translucent ghost.

        Args:
            q: positions as in :meth:`update_joints`; None hides the ghost.

        Raises:
            InvalidCommand: not n numbers; nothing changes.
        """
        values = None if q is None else self.viewed.checked_positions(q, "update_reference")
        with self._lock:
            self._q_reference = values
            self._reference_dirty = True
        self._events.updated()

    def update_scene(self, scene: Scene) -> None:
        """Show the planning scene, with attached bodies, in the robot's ``scene_frame``.

        Raises:
            InvalidCommand: the robot has no tool.
        """
        self._required_planning().set_scene(scene)
        self._events.updated()

    def update_plan(self, times: object, positions: object) -> None:
        """Show a planned trajectory by a ghost and the path of the tool.

        Args:
            times: time of each row [s], shape (m,), not decreasing.
            positions: positions of all joints [rad or m], shape (m, n).

        Raises:
            InvalidCommand: wrong shapes or values, or the robot has no tool.
        """
        self._required_planning().path.set_plan(times, positions)
        self._events.updated()

    def update_target(self, X_BT: ArrayLike) -> None:
        """Show the target of the tool, as the pose of its handle.

        Args:
            X_BT: pose of the tool in the robot's scene frame, shape (4, 4).

        Raises:
            InvalidCommand: not a finite rigid pose, or the robot has no target.
        """
        if self.target is None:
            raise InvalidCommand(
                f"robot '{self.viewed.name}' has no tool or no followers: targets cannot be shown."
            )
        self.target.set_target(X_BT)
        self._events.updated()

    def update_tree(self, drawings: Sequence[Drawing]) -> None:
        """Show the search tree of a planner in the robot's scene frame.

        Raises:
            InvalidCommand: the robot has no tool.
        """
        self._required_planning().tree.set_drawings(drawings)
        self._events.updated()

    def update_task(self, progress: TaskProgress) -> None:
        """Show the status of the task server; ignored without its tab."""
        if self.tasks is not None:
            self.tasks.set_progress(progress)
            self._events.updated()

    # ---- messages, each one line of plain text, ignored where there is nothing to show it

    def notify(self, what: str, text: str) -> None:
        """Show a notification on all open pages for some seconds, such as of a collision."""
        self._events.notify(what, text)

    def set_message(self, text: str) -> None:
        """Show a text below the status line."""
        with self._lock:
            self._message = text
        self._events.updated()

    def set_target_message(self, text: str, follower: str) -> None:
        """Show the status of a controller below the target, while the controller is selected."""
        if self.target is not None:
            self.target.set_message(text, follower)

    def set_plan_message(self, text: str) -> None:
        """Show the status of the planner where it is commanded."""
        if self.planning is not None and self.planning.goals is not None:
            self.planning.goals.set_message(text)
        if self.goal_state is not None:
            self.goal_state.set_message(text)

    def set_scene_message(self, text: str) -> None:
        """Show a text below the object editor."""
        if self.planning is not None and self.planning.editor is not None:
            self.planning.editor.set_message(text)

    def set_recovery_message(self, text: str) -> None:
        """Show the result of a recovery on the plan tab."""
        if self.planning is not None:
            self.planning.set_recovery_message(text)
            self._events.updated()

    def set_suction(self, state: str, held: str) -> None:
        """Show the state of the surface gripper, such as ``open``, and names of held objects."""
        if (panel := self.suction) is not None:
            self._events.run_on_loop(lambda: panel.show(state, held))

    def set_task_message(self, text: str) -> None:
        """Show why a task was not sent."""
        if self.tasks is not None:
            self.tasks.set_message(text)
            self._events.updated()

    def set_drive_message(self, text: str, *, driving: bool = False) -> None:
        """Show the status of a motion to a click on the floor; its goal is marked meanwhile."""
        if self.floor_goal is not None:
            self.floor_goal.set_message(text, driving=driving)
            self._events.updated()

    # ---- what is chosen on the page

    @property
    def joint_sliders(self) -> dict[str, float]:
        """Positions that the joint sliders show [rad or m], by joint."""
        return {} if self.joints is None else dict(self.joints.values)

    @property
    def planner_options(self) -> PlannerOptions:
        """How to plan to the goals of the panel."""
        goals = None if self.planning is None else self.planning.goals
        return PlannerOptions() if goals is None else goals.options

    @property
    def scaling(self) -> MotionScaling:
        """Scaling factors chosen on the page."""
        return self._events.scaling()

    @property
    def wants_tree(self) -> bool:
        """Whether the search tree is to be shown."""
        return self.planning is not None and bool(self.planning.show_tree.value)

    # ---- drawing

    def _required_planning(self) -> PlanningView:
        if self.planning is None:
            raise InvalidCommand(
                f"robot '{self.viewed.name}' has no tool: scenes and plans cannot be shown."
            )
        return self.planning

    @property
    def animated(self) -> bool:
        """Whether anything moves between updates, such as a ghost along a plan."""
        return self.planning is not None and self.planning.animated

    def bounding_sphere(self) -> tuple[Array, float]:
        """Return the bounding sphere of the robot at its current base pose.

        Returns:
            Centre in the world [m], shape (3,), and radius [m].
        """
        with self._lock:
            X_WB = self._X_WB
        placed = self.viewed if X_WB is None else dataclasses.replace(self.viewed, X_WR=X_WB)
        return bounding_sphere(placed, self.view.meshes)

    def request_clear_trail(self) -> None:
        """Clear the trail with the next scene update."""
        with self._lock:
            self._clear_trail = True

    def draw(self) -> None:
        """Send changes since the last call."""
        with self._lock:
            state = (self._q.copy(), self._X_WB) if self._state_dirty else None
            reference = (self._q_reference,) if self._reference_dirty else None
            self._state_dirty = self._reference_dirty = False
        if state is not None:
            q, X_WB = state
            self.view.draw_joints(q)
            if X_WB is not None:
                self.view.draw_base(X_WB)
        if reference is not None:
            self._draw_reference(reference[0])
        if self.target is not None:
            self.target.draw(self.view.q)
        if self.planning is not None:
            self.planning.draw(self.view.q)
        if self.goal_state is not None:
            self.goal_state.draw(self.view.q)

    def _draw_reference(self, q: Array | None) -> None:
        """Move the ghost, which is created on first use as a child of the robot's base."""
        if q is None:
            if self.ghost is not None:
                self.ghost.base.visible = False
            return
        if self.ghost is None:
            path = f"{self.view.base.name}/reference"
            self.ghost = ghost_of(self._scene, self.viewed, path, GHOST)
        self.ghost.draw_joints(q)
        self.ghost.base.visible = True

    def draw_trail(self) -> None:
        """Send the trail if it changed; called less often, because the message is large."""
        with self._lock:
            dirty, clear = self._trail_dirty, self._clear_trail
            self._trail_dirty = self._clear_trail = False
            if clear:
                self.trail.points.clear()
            segments = self.trail.points.segments() if dirty or clear else None
        if segments is not None:
            self.trail.draw(segments)

    def refresh_panel(self) -> None:
        """Update the panel; on viser's event loop."""
        now = time.monotonic()
        with self._lock:
            self._freshness.update_rate(now)
            line = robot_line(self._freshness, self._message, now)
            q = self._q.copy()
        if line != self._status.content:
            self._status.content = line
        if self.joints is not None:
            self.joints.mirror(q)
        if self.goal_state is not None:
            self.goal_state.refresh()
        if self.drive is not None:
            self.drive.show_steering(q)
        if self.floor_goal is not None:
            self.floor_goal.refresh()
        if self.plots.enabled:
            with self._lock:
                curves = self._history.curves(
                    now, str(self.plots.quantity.value), str(self.plots.joint.value)
                )
            self.plots.draw(curves)
        if self.target is not None:
            self.target.refresh_panel()
        if self.planning is not None:
            self.planning.refresh_panel()
        if self.tasks is not None:
            self.tasks.refresh()

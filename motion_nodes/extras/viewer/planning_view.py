# SPDX-License-Identifier: Apache-2.0
"""Planning of one robot on the page: scene, collision spheres, planned trajectory, search tree."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.core.planning.planners import planner_names
from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.moveit_scene_file import SUFFIX, read_scene_text, scene_text
from motion_nodes.core.scene.scene import Scene, WorldObject
from motion_nodes.core.scene.scenery import SCENERY
from motion_nodes.core.scene.voxels import OCTOMAP
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.extras.viewer.joint_panel import GOAL, GoalStatePanel, show_value
from motion_nodes.extras.viewer.object_editor import ObjectEditor
from motion_nodes.extras.viewer.panel_style import (
    SECONDARY,
    by_user,
    keep_in_range,
    plain,
    shortened,
    show_text,
)
from motion_nodes.extras.viewer.planned_path import PlannedPath
from motion_nodes.extras.viewer.robot_view import RobotView
from motion_nodes.extras.viewer.scene_view import MAX_OBJECTS, RobotSpheresView, SceneView
from motion_nodes.extras.viewer.target_gizmo import TargetGizmo
from motion_nodes.extras.viewer.ui_commands import (
    PLAN_VERBS,
    PanelEvents,
    PlanCommand,
    PlannerOptions,
)
from motion_nodes.extras.viewer.viewed_robot import PLANNER, ViewedRobot
from motion_nodes.typing import Array

MAX_TRIES = 300


class RandomGoals:
    """Draws states of the planned joints within their limits."""

    def __init__(self, viewed: ViewedRobot) -> None:
        """Create for a robot; the first sample may compile its collision checks."""
        self._viewed = viewed
        self._checker: CollisionChecker | None = None
        self._lock = threading.Lock()  # two pages may ask at once
        self._rng = np.random.default_rng()

    def sample(self, scene: Scene, positions: Mapping[str, float]) -> dict[str, float] | None:
        """Return a state [rad or m], by joint; None: all that were tried are in collision.

        Robots without a description of collisions are not checked.

        Args:
            scene: the planning scene.
            positions: of joints that are not planned [rad or m], by joint.
        """
        viewed, names = self._viewed, self._viewed.planned_joints
        assert viewed.limits is not None
        limits = viewed.limits.select(names)
        low = np.where(np.isfinite(limits.lower), limits.lower, -np.pi)
        high = np.where(np.isfinite(limits.upper), limits.upper, np.pi)
        Q = self._rng.uniform(low, high, (MAX_TRIES, len(names)))
        if isinstance(viewed.model, Robot):
            others = {n: x for n, x in positions.items() if n not in names and np.isfinite(x)}
            with self._lock:
                checker = self._checker or CollisionChecker(viewed.model, names)
                self._checker = checker
                checker.set_scene(scene)
                checker.set_positions(others)
                Q = Q[checker.are_free(Q)]
        return dict(zip(names, Q[0].tolist(), strict=True)) if len(Q) else None


MAX_POINTS = 20_000
"""Max number of points or ends of lines of one drawing; further ones are not drawn."""
MAX_VERTICES = 200_000
"""Likewise of a surface."""
SLIDERS, TARGET = "joint sliders", "target"
"""Goals that are not named states."""
DEFAULT, CURRENT = "(default)", "present state"
"""Planner and start state that are not chosen."""
NO_GOAL = f"The sliders set the robot. Choose '{GOAL}' in 'Sliders set' on the tab Joints."
NO_RANDOM = "All random states that were tried are in collision."
DURATION = 8.0
"""Time for which a notification is shown [s]."""


@dataclass(frozen=True)
class Drawing:
    """Lines, points, a surface or a text of one colour, in the frame of its view.

    Raises:
        InvalidCommand: wrong shape of the points, or points that are not finite.
    """

    points: Array
    """Both ends of each line [m], shape (2 m, 3), or the points [m], shape (m, 3)."""
    rgb: tuple[int, int, int]
    """Colour, 0 to 255 each."""
    lines: bool = True
    """Whether to draw lines or points."""
    size: float = 2.0
    """Width of lines [pixels], or diameter of points [m]."""
    faces: NDArray[np.intp] | None = None
    """Triangles between the points, shape (t, 3); None: no surface."""
    opacity: float = 1.0
    """Of a surface, 0 to 1."""
    text: str = ""
    """Shown at the first point; empty: none."""

    def __post_init__(self) -> None:
        points = np.asarray(self.points)
        if points.ndim != 2 or points.shape[1] != 3 or (self.lines and len(points) % 2):
            rows = "(2 m, 3), two rows per line" if self.lines else "(m, 3)"
            raise InvalidCommand(
                f"the points of a drawing have shape {points.shape}; expected {rows}.",
                field="points",
            )
        if not np.isfinite(points).all():
            raise InvalidCommand("the points of a drawing are not finite.", field="points")


class MarkerView:
    """Accepts drawings from any thread and draws them on the drawing thread.

    Args:
        scene: the viser scene.
        path: name of the parent node.
    """

    def __init__(self, scene: viser.SceneApi, path: str) -> None:
        self._scene, self._path = scene, path
        self._lock = threading.Lock()
        self._newest: tuple[Drawing, ...] | None = None
        self.nodes: list[viser.SceneNodeHandle] = []
        self._shown = True

    def set_drawings(self, drawings: Sequence[Drawing]) -> None:
        """Replace all drawings."""
        with self._lock:
            self._newest = tuple(drawings)

    def draw(self, shown: bool) -> None:
        """Send changes; while hidden, sending is deferred until shown."""
        if shown:
            with self._lock:
                drawings, self._newest = self._newest, None
            if drawings is not None:
                self._replace(drawings)
        if shown != self._shown:
            self._shown = shown
            for node in self.nodes:
                node.visible = shown

    def _replace(self, drawings: tuple[Drawing, ...]) -> None:
        for node in self.nodes:
            node.remove()
        self.nodes = []
        for number, drawing in enumerate(drawings):
            most = MAX_POINTS if drawing.faces is None else MAX_VERTICES
            points = np.asarray(drawing.points, dtype=np.float32)[:most]
            path = f"{self._path}/{number}"
            if not len(points):
                continue
            if drawing.text:
                self.nodes.append(self._scene.add_label(path, drawing.text, position=points[0]))
            elif drawing.faces is not None:
                faces = drawing.faces[(drawing.faces < len(points)).all(axis=1)]
                self.nodes.append(
                    self._scene.add_mesh_simple(
                        path, points, faces.astype(np.uint32), color=drawing.rgb,
                        opacity=drawing.opacity, flat_shading=True, side="double",
                    )
                )  # fmt: skip
            elif drawing.lines:
                self.nodes.append(
                    self._scene.add_line_segments(
                        path, points.reshape(-1, 2, 3), colors=drawing.rgb,
                        thickness=drawing.size, thickness_units="screen",
                    )
                )  # fmt: skip
            else:
                self.nodes.append(
                    self._scene.add_point_cloud(
                        path, points, drawing.rgb, point_size=drawing.size, point_shape="circle"
                    )
                )


class GoalPanel:
    """Plans and executes motions to goals of the panel.

    Args:
        gui: viser's panel; elements are added to the active container.
        states: names of the named states.
        joints: the goal state of the joint sliders; None: none.
        target: returns the pose of the target in the scene frame, shape (4, 4); None: no target.
        random_state: returns a random state for the joint sliders; None: all are in collision.
        events: receivers of the commands.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        states: tuple[str, ...],
        joints: GoalStatePanel | None,
        target: Callable[[], Array] | None,
        random_state: Callable[[], Mapping[str, float] | None],
        events: PanelEvents,
    ) -> None:
        self._joints, self._target, self._random_state = joints, target, random_state
        self._commanded, self._scaling = events.plan, events.scaling
        self._text = self._note = ""
        others = {SLIDERS: joints, TARGET: target}
        self.goal = gui.add_dropdown(
            "Goal", (*states, *(name for name, given in others.items() if given is not None)),
            hint="A named state, the goal state of the joint sliders, or the target of the tool.",
        )  # fmt: skip
        self.verbs = gui.add_button_group(
            "Motion", tuple(PLAN_VERBS),
            hint="With the velocity and acceleration scaling at the top of the panel.",
        )  # fmt: skip
        self.random: viser.GuiButtonHandle | None = None
        if joints is not None:
            self.random = gui.add_button(
                "Random goal", color=SECONDARY, icon=viser.Icon.DICE_5,
                hint="Sets the joint sliders, and with them the goal, to a random state within "
                "the limits and free of collisions.",
            )  # fmt: skip
            self.random.on_click(self._random_pressed)
        self._message = gui.add_markdown("", visible=False)
        with gui.add_folder("Options", expand_by_default=False):
            self.planner = gui.add_dropdown("Planner", (DEFAULT, *planner_names()))
            self.time = gui.add_number(
                "Planning time [s]", 0.0, min=0.0, max=600.0, step=1.0,
                hint="Max planning time; 0: the default of the planner's node.",
            )  # fmt: skip
            self.attempts = gui.add_number(
                "Attempts", 1, min=1, max=100, step=1,
                hint="Number of paths that are searched; the shortest one counts.",
            )  # fmt: skip
            keep_in_range(self.time, self.attempts)
            self.start = gui.add_dropdown(
                "Start state", (CURRENT, *states),
                hint="Only for Plan: motions are executed from where the robot is.",
            )  # fmt: skip
            self.keep = gui.add_checkbox(
                "Keep orientation", False,
                hint="Path constraint: the tool keeps its present orientation within 0.1 rad.",
            )  # fmt: skip
        self.goal.on_update(by_user(self._chosen))
        self.verbs.on_click(by_user(self._pressed))
        if joints is not None:
            joints.on_change.append(self._mode_changed)

    @property
    def options(self) -> PlannerOptions:
        """How to plan, for all goals of the robot's panel; from any thread."""
        planner, start = str(self.planner.value), str(self.start.value)
        return PlannerOptions(
            "" if planner == DEFAULT else planner,
            float(self.time.value),
            int(self.attempts.value),
            "" if start == CURRENT else start,
            bool(self.keep.value),
        )

    def set_message(self, text: str) -> None:
        """Store the status of the planner, shown below the buttons."""
        self._text = text

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        show_text(self._message, plain(self._note or self._text))

    def _mode_changed(self) -> None:
        """Select the goal state that the sliders set from now on."""
        assert self._joints is not None
        self._note = ""
        if self._joints.active:
            show_value(self.goal, SLIDERS)

    def _chosen(self) -> None:
        self._note = ""
        if self.goal.value == SLIDERS and self._joints is not None:
            self._joints.set_active(True)

    async def _random_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is None or self._joints is None:
            return
        # In a thread: the first one may compile.
        state = await asyncio.to_thread(self._random_state)
        self._note = "" if state is not None else NO_RANDOM
        if state is not None:
            self._joints.set_state(state)
            show_value(self.goal, SLIDERS)

    def _pressed(self) -> None:
        verb, goal = PLAN_VERBS[str(self.verbs.value)], str(self.goal.value)
        self._note = ""
        if goal == SLIDERS and self._joints is not None:
            if self._joints.active or verb == "stop":
                self._commanded(self._joints.command(verb))
            else:
                self._note = NO_GOAL
            return
        X_BT = self._target() if goal == TARGET and self._target is not None else None
        self._commanded(
            PlanCommand(verb, "" if goal == TARGET else goal, X_BT=X_BT, scaling=self._scaling())
        )


def notify(clients: Iterable[viser.ClientHandle], title: str, text: str) -> None:
    """Show a notification on pages for some seconds; on viser's event loop.

    Args:
        clients: the pages.
        title: of the notification.
        text: one or several lines of plain text.
    """
    for client in clients:
        # Not Markdown: escapes would be shown.
        client.add_notification(title, shortened(text), auto_close_seconds=DURATION, color="red")


class SceneFilesPanel:
    """Saves and loads MoveIt's ``.scene`` files.

    Args:
        gui: viser's panel; elements are added to the active container.
        name: of the robot, and of the file.
        scene: returns the planning scene.
        load: called on viser's event loop with the objects of a file.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        name: str,
        scene: Callable[[], Scene],
        load: Callable[[tuple[WorldObject, ...]], None],
    ) -> None:
        self._name, self._scene, self._load = name, scene, load
        self.save = gui.add_button(
            "Save scene", color=SECONDARY, icon=viser.Icon.DOWNLOAD,
            hint="Downloads the objects as a .scene file, as RViz's Export does.",
        )  # fmt: skip
        self.upload = gui.add_upload_button(
            "Load scene", color=SECONDARY, icon=viser.Icon.UPLOAD, mime_type=SUFFIX,
            hint="Adds the objects of a .scene file; objects of the same names are replaced.",
        )  # fmt: skip
        self.save.on_click(self._save_pressed)
        self.upload.on_upload(self._uploaded)

    async def _save_pressed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is None:
            return
        items = saved_objects(self._scene())
        try:
            text = scene_text(items, self._name)
        except MotionError as error:
            notify((event.client,), f"{self._name}: the scene cannot be saved", str(error))
            return
        if not items:
            notify((event.client,), f"{self._name}: the saved scene has no objects", "")
        event.client.send_file_download(
            f"{self._name.replace('/', '_')}{SUFFIX}", text.encode(), save_immediately=True
        )

    async def _uploaded(self, event: viser.GuiEvent[viser.GuiUploadButtonHandle]) -> None:
        file = event.target.value
        try:
            items = loaded_objects(file.content, file.name, self._scene())
        except MotionError as error:
            if event.client is not None:
                notify((event.client,), f"{self._name}: no scene was loaded", str(error))
            return
        self._load(items)


def saved_objects(scene: Scene) -> tuple[WorldObject, ...]:
    """Return the objects of a scene to be saved: all but scenery and octomap."""
    items = scene.objects.values()
    return tuple(item for item in items if item.kind != SCENERY and item.name != OCTOMAP)


def loaded_objects(content: bytes, name: str, scene: Scene) -> tuple[WorldObject, ...]:
    """Return the objects of a file that are not attached to the robot.

    Args:
        content: content of the file.
        name: name of the file, for errors.
        scene: the planning scene.

    Raises:
        InvalidDescription: not a scene file.
    """
    # Invalid UTF-8 is rejected by the parser, with its line.
    items = read_scene_text(content.decode(errors="replace"), name)
    return tuple(item for item in items if item.name not in scene.attached)


class PlanningView:
    """Accepts scenes and plans from any thread and draws them on the drawing thread.

    Args:
        server: the viser server.
        viewed: a robot with a tool.
        view: scene nodes of the robot.
        events: receivers of the panel's commands.
        tabs: tab group of the robot's panel.
        joints: goal state of the joint sliders; None: none.
        target: of the tool; None: it has none.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        view: RobotView,
        events: PanelEvents,
        tabs: viser.GuiTabGroupHandle,
        joints: GoalStatePanel | None,
        target: TargetGizmo | None,
    ) -> None:
        viewed = view.viewed
        names = viewed.model.tree.frame_names
        links = {n: node.name for n, node in zip(names, view.links, strict=True)}
        frame = viewed.scene_frame or names[0]
        base = links[frame]
        self.objects = SceneView(server.scene, base, links, view.meshes)
        self._lock = threading.Lock()
        self._newest: Scene | None = None
        self._recovery_text = ""
        self.spheres: RobotSpheresView | None = None
        if viewed.bodies is not None:
            poses, row = LinkPoses(viewed.model.tree), names.index(frame)
            self.spheres = RobotSpheresView(server.scene, poses, names, row, links, viewed.bodies)
        with tabs.add_tab("Scene"):
            self.show_scene = server.gui.add_checkbox(
                "Show objects",
                True,
                hint="Objects of the planning scene and objects attached to the robot.",
            )
            self.show_spheres = server.gui.add_checkbox(
                "Collision spheres",
                False,
                hint="Collision model of the robot, coloured by distance: red in collision, yellow "
                "within 6 cm, blue beyond 30 cm.",
                visible=self.spheres is not None,
            )
            self.show_frames = server.gui.add_checkbox(
                "Link frames", False, hint="Axes of all links: x red, y green, z blue."
            )
            self._note = server.gui.add_markdown("", visible=False)
            self.editor: ObjectEditor | None = None
            if viewed.edits_scene:
                self.editor = ObjectEditor(server, viewed, base, self.objects, events)
                self.files = SceneFilesPanel(
                    server.gui, viewed.name, lambda: self.objects.shown, events.scene_load
                )
        self.goals: GoalPanel | None = None
        with tabs.add_tab("Plan"):
            if PLANNER in viewed.followers:
                current = None if target is None else target.current
                randoms = RandomGoals(viewed)
                self.goals = GoalPanel(
                    server.gui, tuple(viewed.named_states), joints, current,
                    lambda: randoms.sample(
                        self.objects.shown, {} if joints is None else joints.values()
                    ),
                    events,
                )  # fmt: skip
            self.path = PlannedPath(server, viewed, view.base.name)
            planned = PLANNER in viewed.followers
            self.show_tree = server.gui.add_checkbox(
                "Search tree", False, hint="Search tree of the newest plan.", visible=planned
            )
            self.recover = server.gui.add_button(
                "Recover", color=SECONDARY, visible=planned,
                hint="Move slowly out of a shallow collision or back within joint limits.",
            )  # fmt: skip
            self.recover.on_click(lambda _: events.recover())
            self._recovery = server.gui.add_markdown("", visible=False)
        self.tree = MarkerView(server.scene, f"{base}/search_tree")
        self._view = view
        for box in (self.show_scene, self.show_spheres, self.show_frames, self.show_tree):
            box.on_update(lambda _: events.redraw())

    def set_scene(self, scene: Scene) -> None:
        """Replace the scene."""
        with self._lock:
            self._newest = scene

    def set_recovery_message(self, text: str) -> None:
        """Store the result of a recovery, shown on one line below its button."""
        self._recovery_text = text

    def draw(self, q: Array) -> None:
        """Send changes since the last call; ``q``: joint positions [rad or m], shape (n,)."""
        with self._lock:
            scene, self._newest = self._newest, None
        if scene is not None:
            self.objects.draw(scene)
        visible = bool(self.show_scene.value)
        self.objects.show(visible)
        if self.editor is not None:
            self.editor.draw(self.objects.shown, visible)
        if self.spheres is not None:
            self.spheres.draw(bool(self.show_spheres.value), q, self.objects.shown)
        self._view.show_frames(bool(self.show_frames.value))
        self.tree.draw(bool(self.show_tree.value))
        self.path.draw(q)

    @property
    def animated(self) -> bool:
        """Whether anything moves between updates."""
        return self.path.playing or (self.editor is not None and self.editor.animated)

    def refresh_panel(self) -> None:
        """Update the panel; on viser's event loop."""
        omitted = self.objects.omitted
        text = f"{omitted} objects are not drawn (max {MAX_OBJECTS})" if omitted else ""
        show_text(self._note, text)
        show_text(self._recovery, plain(self._recovery_text))
        if self.editor is not None:
            self.editor.refresh_panel()
        if self.goals is not None:
            self.goals.refresh()
        self.path.refresh_panel()

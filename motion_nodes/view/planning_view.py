# SPDX-License-Identifier: Apache-2.0
"""Planning of one robot on the page: scene, collision spheres, planned trajectory, search tree."""

from __future__ import annotations

import threading

import viser

from motion_nodes.model.link_poses import LinkPoses
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array
from motion_nodes.view.button_colours import SECONDARY
from motion_nodes.view.goal_panel import GoalPanel
from motion_nodes.view.goal_state_panel import GoalStatePanel
from motion_nodes.view.marker_view import MarkerView
from motion_nodes.view.object_editor import ObjectEditor
from motion_nodes.view.planned_path import PlannedPath
from motion_nodes.view.robot_spheres_view import RobotSpheresView
from motion_nodes.view.robot_view import RobotView
from motion_nodes.view.scene_files_panel import SceneFilesPanel
from motion_nodes.view.scene_view import MAX_OBJECTS, SceneView
from motion_nodes.view.status_text import plain
from motion_nodes.view.target_gizmo import TargetGizmo
from motion_nodes.view.ui_commands import PanelEvents
from motion_nodes.view.viewed_robot import PLANNER, ViewedRobot

HANDLE_SIZE = 0.15
"""Size of the handles of an object [m]."""


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
        viewed: ViewedRobot,
        view: RobotView,
        events: PanelEvents,
        tabs: viser.GuiTabGroupHandle,
        joints: GoalStatePanel | None,
        target: TargetGizmo | None,
    ) -> None:
        """Add tabs for scene and plan."""
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
                self.editor = ObjectEditor(
                    server, viewed, base, self.objects, HANDLE_SIZE, events.scene_object,
                    events.attach, events.redraw,
                )  # fmt: skip
                self.files = SceneFilesPanel(
                    server.gui, viewed.name, lambda: self.objects.shown, events.scene_load
                )
        self.goals: GoalPanel | None = None
        with tabs.add_tab("Plan"):
            if PLANNER in viewed.followers:
                current = None if target is None else target.current
                self.goals = GoalPanel(
                    server.gui, tuple(viewed.named_states), joints, current, events.scaling,
                    events.plan,
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
        if text != self._note.content:
            self._note.content, self._note.visible = text, bool(text)
        text = plain(self._recovery_text)
        if text != self._recovery.content:
            self._recovery.content, self._recovery.visible = text, bool(text)
        if self.editor is not None:
            self.editor.refresh_panel()
        if self.goals is not None:
            self.goals.refresh()
        self.path.refresh_panel()

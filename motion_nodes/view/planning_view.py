# SPDX-License-Identifier: Apache-2.0
"""What planning is about, for one robot on the page: scene, collision spheres, planned path."""

from __future__ import annotations

import threading

import viser

from motion_nodes.scene.scene import Scene
from motion_nodes.view.planned_path import PlannedPath
from motion_nodes.view.robot_view import RobotView
from motion_nodes.view.scene_view import MOST_OBJECTS, SceneView
from motion_nodes.view.viewed_robot import ViewedRobot

SPHERE_RGB = (240, 200, 60)


class PlanningView:
    """Takes scenes and plans from any thread and draws them on the drawing thread.

    Args:
        server: the viser server; panel elements go into the folder that is open.
        viewed: a robot with a tool.
        view: where it is drawn.
    """

    def __init__(self, server: viser.ViserServer, viewed: ViewedRobot, view: RobotView) -> None:
        """Add the part of the panel."""
        self._viewed, self._scene = viewed, server.scene
        names = viewed.model.tree.frame_names
        self._link_nodes = {n: node.name for n, node in zip(names, view.links, strict=True)}
        base = self._link_nodes[viewed.scene_frame or names[0]]
        self.objects = SceneView(server.scene, base, self._link_nodes, view.meshes)
        self._lock = threading.Lock()
        self._newest: Scene | None = None
        self._spheres: list[viser.SceneNodeHandle] | None = None
        self._spheres_shown = True
        with server.gui.add_folder("Planning"):
            self.show_scene = server.gui.add_checkbox(
                "Scene", True, hint="Objects of the planning scene, and what the robot carries."
            )
            self.show_spheres = server.gui.add_checkbox(
                "Collision spheres", False, hint="As which planning sees the robot.",
                visible=viewed.bodies is not None,
            )  # fmt: skip
            self._note = server.gui.add_markdown("", visible=False)
            self.path = PlannedPath(server, viewed, view.base.name)

    def take_scene(self, scene: Scene) -> None:
        """Take a scene."""
        with self._lock:
            self._newest = scene

    def draw(self) -> None:
        """Send what changed since the last time."""
        with self._lock:
            scene, self._newest = self._newest, None
        if scene is not None:
            self.objects.draw(scene)
        self.objects.show(bool(self.show_scene.value))
        self._draw_spheres(bool(self.show_spheres.value))
        self.path.draw()

    def refresh_panel(self) -> None:
        """Renew the panel; on viser's event loop."""
        left_out = self.objects.left_out
        text = f"{left_out} objects more than the {MOST_OBJECTS} drawn" if left_out else ""
        if text != self._note.content:
            self._note.content, self._note.visible = text, bool(text)
        self.path.refresh_panel()

    def _draw_spheres(self, shown: bool) -> None:
        """Add the spheres when they are first asked for, below their links."""
        if self._spheres is None:
            if not shown or self._viewed.bodies is None:
                return
            self._spheres = [
                self._scene.add_icosphere(
                    f"{self._link_nodes[body.link]}/sphere_{number}", radius=float(radius),
                    position=(float(x), float(y), float(z)), subdivisions=2, color=SPHERE_RGB,
                    opacity=0.35, cast_shadow=False, receive_shadow=False,
                )
                for body in self._viewed.bodies()
                for number, (x, y, z, radius) in enumerate(body.spheres)
            ]  # fmt: skip
        if shown != self._spheres_shown:
            self._spheres_shown = shown
            for node in self._spheres:
                node.visible = shown

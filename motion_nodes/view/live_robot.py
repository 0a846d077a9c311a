# SPDX-License-Identifier: Apache-2.0
"""One robot of a running viewer: its received state, its scene nodes and its panel."""

from __future__ import annotations

import dataclasses
import threading
import time

import numpy as np
import viser

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.tree import JointKind
from motion_nodes.typing import Array
from motion_nodes.view.angle_unit import AngleUnit
from motion_nodes.view.base_trail import Trail
from motion_nodes.view.drive_panel import DrivePanel
from motion_nodes.view.floor_goal import FloorGoal
from motion_nodes.view.goal_state_panel import GoalStatePanel
from motion_nodes.view.joint_history import JointHistory
from motion_nodes.view.joint_panel import JointPanel
from motion_nodes.view.planning_view import PlanningView
from motion_nodes.view.plot_panel import PlotPanel
from motion_nodes.view.robot_view import RobotView, bounding_sphere, ghost_of
from motion_nodes.view.shape_nodes import GHOST
from motion_nodes.view.status_text import Freshness, robot_line
from motion_nodes.view.suction_panel import SuctionPanel
from motion_nodes.view.target_gizmo import TargetGizmo
from motion_nodes.view.task_panel import TaskPanel
from motion_nodes.view.ui_commands import PanelEvents
from motion_nodes.view.viewed_robot import PLANNER, ViewedRobot, checked_pose

TRAIL_RGB = ((38, 120, 220), (220, 110, 30), (40, 160, 90), (170, 70, 190))
"""Colours of the trails, in the order of the robots."""


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
        """Add the robot and its part of the panel."""
        self.viewed = viewed
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
                        server, viewed, self.view.base.name, self.slider_values, events.scaling,
                        events.plan,
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
                self.target = TargetGizmo(
                    server, viewed, self._base_node(), events.target, events.redraw, unit,
                    events.scaling,
                )  # fmt: skip
        if viewed.tool:
            self.planning = PlanningView(
                server, viewed, self.view, events, tabs, self.goal_state, self.target
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

    def slider_values(self) -> dict[str, float]:
        """Return the positions that the joint sliders show [rad or m], by joint."""
        return {} if self.joints is None else dict(self.joints.values)

    def _base_node(self) -> str:
        """Return the path of the scene node of the robot's scene frame."""
        names = self.viewed.model.tree.frame_names
        return str(self.view.links[names.index(self.viewed.scene_frame or names[0])].name)

    def set_joints(self, q: object, v: object | None) -> None:
        """Store joint positions and velocities; see ``BrowserViewer.update_joints``."""
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

    def set_base(self, X_WB: object) -> None:
        """Store the pose of the base; see ``BrowserViewer.update_base``."""
        pose = checked_pose(X_WB, f"{self.viewed.name}: base pose X_WB")
        with self._lock:
            self._X_WB = pose
            self._trail_dirty |= self.trail.points.add(pose[:3, 3])
            self._state_dirty = True
            # The displayed rate is that of joint states, else of base poses.
            self._freshness.arrived(time.monotonic(), counts=not self._has_joint_states)

    def set_reference(self, q: object | None) -> None:
        """Store the joint reference drawn as a ghost; None hides it."""
        values = None if q is None else self.viewed.checked_positions(q, "update_reference")
        with self._lock:
            self._q_reference = values
            self._reference_dirty = True

    def set_message(self, text: str) -> None:
        """Store the message below the status line."""
        with self._lock:
            self._message = text

    def required_planning(self) -> PlanningView:
        """Return the view of scene and plans.

        Raises:
            InvalidCommand: the robot has no tool.
        """
        if self.planning is None:
            raise InvalidCommand(
                f"robot '{self.viewed.name}' has no tool: scenes and plans cannot be shown."
            )
        return self.planning

    def required_target(self) -> TargetGizmo:
        """Return the target of the tool.

        Raises:
            InvalidCommand: this robot has none.
        """
        if self.target is None:
            raise InvalidCommand(
                f"robot '{self.viewed.name}' has no tool or no followers: targets cannot be shown."
            )
        return self.target

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

# SPDX-License-Identifier: Apache-2.0
"""Updates of a running viewer: robots, planning scenes and plans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import viser

from motion_nodes.errors import RobotNotFound
from motion_nodes.scene.scene import Scene
from motion_nodes.tasks.task_progress import TaskProgress
from motion_nodes.view.draw_loop import DrawLoop
from motion_nodes.view.health_panel import Health, HealthPanel
from motion_nodes.view.live_robot import LiveRobot
from motion_nodes.view.marker_view import Drawing
from motion_nodes.view.notification import notify
from motion_nodes.view.simulation_panel import SimulationPanel
from motion_nodes.view.stop_panel import StopPanel
from motion_nodes.view.ui_commands import ViewerCallbacks


class ViewerUpdates(ViewerCallbacks):
    """May be called from any thread at any rate: only the newest values are kept."""

    _robots: dict[str, LiveRobot]
    _drawing: DrawLoop
    _health: HealthPanel
    _stop: StopPanel | None
    _simulation: SimulationPanel | None
    _loop: asyncio.AbstractEventLoop
    _server: viser.ViserServer

    def update_joints(self, name: str, q: object, v: object | None = None) -> None:
        """Show joint positions.

        Args:
            name: the robot.
            q: positions in the order of its ``joint_names`` [rad or m], shape (n,); NaN and
                infinite values leave a joint unchanged.
            v: velocities for the plots [rad/s or m/s], shape (n,).

        Raises:
            RobotNotFound: no such robot.
            InvalidCommand: not n numbers; nothing changes.
        """
        self._robot(name).set_joints(q, v)
        self._drawing.request_if_watched()

    def update_base(self, name: str, X_WB: object) -> None:
        """Show the pose of the root link, and extend its trail.

        Args:
            name: the robot.
            X_WB: pose of the root link in the world, shape (4, 4).

        Raises:
            RobotNotFound: no such robot.
            InvalidCommand: not a finite rigid pose; the previous one is kept.
        """
        self._robot(name).set_base(X_WB)
        self._drawing.request_if_watched()

    def update_reference(self, name: str, q: object | None) -> None:
        """Show the joint reference as a translucent ghost.

        Args:
            name: the robot.
            q: positions as in :meth:`update_joints`; None hides the ghost.

        Raises:
            RobotNotFound: no such robot.
            InvalidCommand: not n numbers; nothing changes.
        """
        self._robot(name).set_reference(q)
        self._drawing.request_if_watched()

    def update_scene(self, name: str, scene: Scene) -> None:
        """Show the planning scene of a robot, with attached bodies, in its ``scene_frame``.

        Args:
            name: the robot.
            scene: replaces the previous scene.

        Raises:
            RobotNotFound: no such robot.
            InvalidCommand: the robot has no tool.
        """
        self._robot(name).required_planning().set_scene(scene)
        self._drawing.request_if_watched()

    def update_plan(self, name: str, times: object, positions: object) -> None:
        """Show a planned trajectory by a ghost and the path of the tool.

        Args:
            name: the robot.
            times: time of each row [s], shape (m,), not decreasing.
            positions: positions of all joints [rad or m], shape (m, n).

        Raises:
            RobotNotFound: no such robot.
            InvalidCommand: wrong shapes or values, or the robot has no tool.
        """
        self._robot(name).required_planning().path.set_plan(times, positions)
        self._drawing.request_if_watched()

    def update_target(self, name: str, X_BT: object) -> None:
        """Show the target of the tool, as the pose of its handle.

        Args:
            name: the robot.
            X_BT: pose of the tool in the robot's scene frame, shape (4, 4).

        Raises:
            RobotNotFound: no such robot.
            InvalidCommand: not a finite rigid pose, or the robot has no target.
        """
        self._robot(name).required_target().set_target(X_BT)
        self._drawing.request_if_watched()

    def update_tree(self, name: str, drawings: Sequence[Drawing]) -> None:
        """Show the search tree of a planner in the robot's scene frame.

        Args:
            name: the robot.
            drawings: replace the previous ones.

        Raises:
            RobotNotFound: no such robot.
            InvalidCommand: the robot has no tool.
        """
        self._robot(name).required_planning().tree.set_drawings(drawings)
        self._drawing.request_if_watched()

    def wants_tree(self, name: str) -> bool:
        """Return whether the search tree of a robot is to be shown.

        Raises:
            RobotNotFound: no such robot.
        """
        planning = self._robot(name).planning
        return planning is not None and bool(planning.show_tree.value)

    def set_target_message(self, name: str, text: str, follower: str) -> None:
        """Show the status of a controller below the target of a robot; ignored without a target.

        Args:
            name: the robot.
            text: one line of plain text.
            follower: the controller; its status is shown while it is selected.

        Raises:
            RobotNotFound: no such robot.
        """
        target = self._robot(name).target
        if target is not None:
            target.set_message(text, follower)

    def joint_sliders(self, name: str) -> dict[str, float]:
        """Return the positions that the joint sliders of a robot show [rad or m], by joint.

        Raises:
            RobotNotFound: no such robot.
        """
        return self._robot(name).slider_values()

    def set_plan_message(self, name: str, text: str) -> None:
        """Show the status of the planner where it is commanded; ignored without a planner.

        Raises:
            RobotNotFound: no such robot.
        """
        robot = self._robot(name)
        if robot.planning is not None and robot.planning.goals is not None:
            robot.planning.goals.set_message(text)
        if robot.goal_state is not None:
            robot.goal_state.set_message(text)

    def notify(self, title: str, text: str) -> None:
        """Show a notification on all open pages for some seconds.

        Args:
            title: of the notification.
            text: one or several lines of plain text.
        """
        self._on_loop(lambda: notify(self._server.get_clients().values(), title, text))

    def set_scene_message(self, name: str, text: str) -> None:
        """Show one line of text below the object editor of a robot; ignored without one.

        Raises:
            RobotNotFound: no such robot.
        """
        planning = self._robot(name).planning
        if planning is not None and planning.editor is not None:
            planning.editor.set_message(text)

    def set_recovery_message(self, name: str, text: str) -> None:
        """Show the result of a recovery on the robot's plan tab; ignored without one.

        Raises:
            RobotNotFound: no such robot.
        """
        planning = self._robot(name).planning
        if planning is not None:
            planning.set_recovery_message(text)
            self._drawing.request_if_watched()

    def set_suction(self, name: str, state: str, held: str) -> None:
        """Show the state of a robot's surface gripper and its button.

        Args:
            name: the robot.
            state: such as ``open`` or ``closed``.
            held: names of the held objects.

        Raises:
            RobotNotFound: no such robot.
        """
        panel = self._robot(name).suction
        if panel is not None:
            self._on_loop(lambda: panel.show(state, held))

    def update_task(self, name: str, progress: TaskProgress) -> None:
        """Show the status of a robot's task server; ignored without its tab.

        Raises:
            RobotNotFound: no such robot.
        """
        panel = self._robot(name).tasks
        if panel is not None:
            panel.set_progress(progress)
            self._drawing.request_if_watched()

    def set_task_message(self, name: str, text: str) -> None:
        """Show why a task was not sent; ignored without a tab of tasks.

        Raises:
            RobotNotFound: no such robot.
        """
        panel = self._robot(name).tasks
        if panel is not None:
            panel.set_message(text)
            self._drawing.request_if_watched()

    def update_health(self, reports: Sequence[Health]) -> None:
        """Show diagnostics of nodes; each report replaces the previous one of its node."""
        self._health.set_reports(reports)

    def set_message(self, name: str, text: str) -> None:
        """Show one line of plain text below the status line of a robot.

        Raises:
            RobotNotFound: no such robot.
        """
        self._robot(name).set_message(text)
        self._drawing.request_if_watched()

    def set_stopped(self, reason: str) -> None:
        """Show why all robots are stopped, with a button to resume; empty: not stopped."""
        if self._stop is not None and self._stop.set_reason(reason):
            self._drawing.request_if_watched()

    def set_simulation(self, paused: bool, text: str | None = None) -> None:
        """Show whether the simulation is paused.

        Args:
            paused: whether simulated time is paused.
            text: a line below the buttons; None: unchanged.
        """
        if self._simulation is not None and self._simulation.set_state(paused, text):
            self._drawing.request_if_watched()

    def set_drive_message(self, name: str, text: str, *, driving: bool = False) -> None:
        """Show the status of a motion to a click on the floor; ignored without one.

        Args:
            name: the robot.
            text: the status; empty: none.
            driving: whether the motion continues; its goal is marked until it ends.

        Raises:
            RobotNotFound: no such robot.
        """
        goal = self._robot(name).floor_goal
        if goal is not None:
            goal.set_message(text, driving=driving)
            self._drawing.request_if_watched()

    def _robot(self, name: str) -> LiveRobot:
        try:
            return self._robots[name]
        except KeyError:
            raise RobotNotFound(name, self._robots, "the viewer") from None

    def _on_loop(self, call: Callable[[], None]) -> None:
        """Schedule a call on viser's event loop."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The loop is closed: the viewer is shutting down.
            return

# SPDX-License-Identifier: Apache-2.0
"""Preview of robots without ROS and physics: commands of the page move the model directly.

Targets are reached by inverse kinematics without collision checks; scene objects are display only.
"""

from __future__ import annotations

import atexit
import math
import threading
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.configurations import checked_state
from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scene import WorldObject, touch_links
from motion_nodes.core.scene.world import World
from motion_nodes.core.trajectory.joint_trajectory import Trajectory
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.ui_commands import TargetCommand
from motion_nodes.extras.viewer.viewed_robot import IK, ViewedRobot
from motion_nodes.typing import Array

PERIOD = 1.0 / 30.0
"""Time step [s]."""
TWIST_TIMEOUT = 0.3
"""A base stops when no twist command was received for this time [s]."""
VELOCITY_SCALING = 0.4
"""Fraction of the velocity limits at which joints move."""
DEFAULT_VELOCITY = 1.5
"""Velocity limit of joints without one [rad/s or m/s]."""


class ShownRobot:
    """A page in the background of a program or notebook."""

    def __init__(self, preview: Preview) -> None:
        """Close the page at the end of the process, too."""
        self._preview = preview
        atexit.register(self.close)

    @property
    def url(self) -> str:
        """Address of the page."""
        return self._preview.viewer.url

    def close(self) -> None:
        """Close the page."""
        atexit.unregister(self.close)
        self._preview.close()

    def __repr__(self) -> str:
        return f"Page({self.url})"

    def _repr_html_(self) -> str:
        return f'<iframe src="{escape(self.url)}" width="100%" height="480"></iframe>'


def show_robot(robot: Robot, what: Any, world: World | None, port: int) -> ShownRobot:
    """Show a robot in the browser; arguments and errors are those of ``RobotModel.show``."""
    motion = getattr(what, "trajectory", what)
    moves = isinstance(motion, Trajectory)
    if hasattr(what, "trajectory") and not moves:
        raise InvalidCommand(f"there is no motion to show: {what.reason}", field="what")
    if moves:
        points = motion.as_points()
        rows = np.tile(robot.home, (len(points.times), 1))
        unknown = [name for name in points.joint_names if name not in robot.joint_names]
        if unknown:
            raise UnknownJoint(unknown[0], robot.joint_names, robot.name)
        rows[:, robot.indices(points.joint_names)] = points.positions
        q = rows[0]
    else:
        q = robot.home if what is None else checked_state(robot, what)
    # Without a token: a page within a notebook gets no cookies, and nothing but a drawing moves.
    preview = Preview(
        [robot], 1.0,
        lambda robots: BrowserViewer(
            robots, PageSettings(port, title=robot.name, port_search=50, require_token=False)
        ),
    )  # fmt: skip
    live = preview._robots[robot.name]
    live.q, live.target = np.array(q), np.array(q)
    if world is not None:
        live.world = World(world.scene)
        preview.viewer.robot(robot.name).update_scene(world.scene)
    if moves:
        preview.viewer.robot(robot.name).update_plan(points.times, rows)
    return ShownRobot(preview)


class PreviewRobot:
    """A robot whose joints move to their targets at constant velocity; its base follows twists.

    Args:
        robot: the robot.
        X_WB: initial pose of its base in the world, shape (4, 4).
    """

    def __init__(self, robot: Robot, X_WB: Array) -> None:
        self.robot = robot
        self.q = robot.home.copy()
        self.target = robot.home.copy()
        self.X_WB = X_WB.copy()
        self.world = World()
        self._ik: ArticulationIk | None = None
        self._twist = (0.0, 0.0, 0.0)
        self._twist_age = math.inf
        limit = robot.limits.velocity
        self._speed = VELOCITY_SCALING * np.where(np.isfinite(limit), limit, DEFAULT_VELOCITY)

    def set_joint_target(self, joint: str, value: float) -> None:
        """Set the target position of one joint [rad or m]."""
        self.target[self.robot.joint_names.index(joint)] = value

    def set_named_state(self, name: str) -> None:
        """Set the target of all joints to a named state."""
        self.target = self.robot.named_state(name).copy()

    def set_tool_target(self, X_BT: Array) -> str:
        """Solve inverse kinematics and set the solution as joint target.

        Args:
            X_BT: target of the tool in the base frame, shape (4, 4).

        Returns:
            Why there is no solution; empty on success.

        Raises:
            MotionError: ``X_BT`` is not a rigid pose.
        """
        if self._ik is None:
            group = next(g for g in self.robot.groups.values() if g.tip is not None)
            self._ik = ArticulationIk(self.robot, group.name)
        current = dict(zip(self.robot.joint_names, self.q.tolist(), strict=True))
        goal = self._ik.goal_for(X_BT, current)
        if not goal.success:
            return goal.result.reason
        for joint, value in zip(goal.names, goal.positions.tolist(), strict=True):
            self.set_joint_target(joint, value)
        return ""

    def set_object(self, name: str, item: WorldObject | None) -> None:
        """Add or replace an object of the world; None removes it."""
        if item is not None:
            self.world.add(item)
        elif name in self.world.scene.objects:
            self.world.remove(name)

    def attach(self, name: str, link: str) -> None:
        """Attach an object of the world to a link, at its present pose relative to it.

        Args:
            name: of the object.
            link: the link; empty: detach the object.

        Raises:
            MotionError: the object cannot be attached or detached.
        """
        body = self.world.scene.attached.get(name)
        carrier = link or (body.link if body is not None else self.robot.base_frame)
        rows = dict(zip(self.robot.tree.frame_names, LinkPoses(self.robot.tree).in_root(self.q),
                        strict=True))  # fmt: skip
        X_BL = inverse(rows[self.robot.base_frame]) @ rows[carrier]
        if link:
            self.world.attach_object(name, link, X_BL, touch_links(self.robot, link))
        else:
            self.world.detach(name, X_BL)

    def drive(self, vx: float, vy: float, wz: float) -> None:
        """Command a twist of the base in its own frame.

        Args:
            vx: forward velocity [m/s].
            vy: velocity to the left [m/s].
            wz: yaw rate, counter-clockwise [rad/s].
        """
        self._twist, self._twist_age = (vx, vy, wz), 0.0

    def step(self, dt: float) -> None:
        """Advance by ``dt`` [s]."""
        stride = self._speed * dt
        self.q += np.clip(self.target - self.q, -stride, stride)
        self._twist_age += dt
        if self._twist_age <= TWIST_TIMEOUT:
            self.X_WB = self.X_WB @ planar_step(*self._twist, dt)


def planar_step(vx: float, vy: float, wz: float, dt: float) -> Array:
    """Return the displacement of a base under a constant twist, in its initial frame.

    Args:
        vx: forward velocity [m/s].
        vy: velocity to the left [m/s].
        wz: yaw rate [rad/s].
        dt: duration [s].

    Returns:
        Pose of the base after ``dt`` in its frame before, shape (4, 4).

    Source: exponential map of SE(2), with its Taylor series for small angles.
    """
    angle = wz * dt
    if abs(angle) < 1e-6:
        along, across = 1.0 - angle * angle / 6.0, angle / 2.0
    else:
        along, across = math.sin(angle) / angle, (1.0 - math.cos(angle)) / angle
    X = np.eye(4)
    X[0, :2] = math.cos(angle), -math.sin(angle)
    X[1, :2] = math.sin(angle), math.cos(angle)
    X[:2, 3] = (along * vx - across * vy) * dt, (across * vx + along * vy) * dt
    return X


class Preview:
    """A viewer and the robots that execute its commands.

    Args:
        robots: the robots, placed side by side.
        spacing: distance between adjacent robots along y [m].
        open_viewer: creates the viewer of the robots.
    """

    def __init__(
        self,
        robots: Sequence[Robot],
        spacing: float,
        open_viewer: Callable[[Sequence[ViewedRobot]], BrowserViewer],
    ) -> None:
        """Open the page and start the motion thread."""
        shown = []
        self._robots: dict[str, PreviewRobot] = {}
        for number, robot in enumerate(robots):
            X_WR = np.eye(4)
            X_WR[1, 3] = -number * spacing
            name = robot.name
            if name in self._robots:
                name = f"{name}_{number + 1}"
            shown.append(ViewedRobot.of(robot, name, X_WR, followers=(IK,), edits_scene=True))
            self._robots[name] = PreviewRobot(robot, X_WR)
        self.viewer = open_viewer(shown)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.viewer.on_joint_target = self._on_joint_target
        self.viewer.on_named_state = self._on_named_state
        self.viewer.on_twist = self._on_twist
        self.viewer.on_target = self._on_target
        self.viewer.on_object = self._on_object
        self.viewer.on_scene_load = self._on_scene_load
        self.viewer.on_attach = self._on_attach
        self._thread = threading.Thread(target=self._run, name="preview", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop all motion and close the page."""
        self._closed.set()
        self._thread.join(timeout=2.0)
        self.viewer.close()

    def _on_joint_target(self, name: str, joint: str, value: float) -> None:
        with self._lock:
            self._robots[name].set_joint_target(joint, value)

    def _on_named_state(self, name: str, state: str) -> None:
        with self._lock:
            self._robots[name].set_named_state(state)

    def _on_twist(self, name: str, vx: float, vy: float, wz: float) -> None:
        with self._lock:
            self._robots[name].drive(vx, vy, wz)

    def _on_target(self, name: str, command: TargetCommand) -> None:
        robot = self._robots[name]
        # Without the lock, because the first call compiles a solver.
        try:
            message = robot.set_tool_target(command.X_BT)
        except MotionError as error:
            message = str(error)
        self.viewer.robot(name).set_target_message(message, command.follower)

    def _on_object(self, name: str, key: str, item: WorldObject | None) -> None:
        robot = self._robots[name]
        robot.set_object(key, item)
        self.viewer.robot(name).update_scene(robot.world.scene)

    def _on_scene_load(self, name: str, items: tuple[WorldObject, ...]) -> None:
        robot = self._robots[name]
        robot.world.add(*items)
        self.viewer.robot(name).update_scene(robot.world.scene)

    def _on_attach(self, name: str, key: str, link: str) -> None:
        robot = self._robots[name]
        try:
            with self._lock:
                robot.attach(key, link)
        except MotionError as error:
            self.viewer.notify(f"{name}: {key}", str(error))
        self.viewer.robot(name).update_scene(robot.world.scene)

    def _run(self) -> None:
        """Step until closed."""
        last = time.monotonic()
        while not self._closed.wait(PERIOD):
            now = time.monotonic()
            for name, robot in self._robots.items():
                with self._lock:
                    # Bounded, so that robots do not jump after the process was suspended.
                    robot.step(min(now - last, 4 * PERIOD))
                    q, X_WB = robot.q.copy(), robot.X_WB
                self.viewer.robot(name).update_joints(q)
                if robot.robot.base is not None:
                    self.viewer.robot(name).update_base(X_WB)
            last = now

# SPDX-License-Identifier: Apache-2.0
"""Robots that obey the page at once: a look at a robot with no ROS and no physics.

Targets are followed by inverse kinematics, which sees no obstacles; objects of the scene are there
to be looked at.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from motion_nodes.errors import MotionError
from motion_nodes.ik.tool_goal import ArticulationIk
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.scene.scene import WorldObject
from motion_nodes.scene.world import World
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.ui_commands import TargetWish
from motion_nodes.view.viewed_robot import IK, ViewedRobot

PERIOD = 1.0 / 30.0
"""Time between two steps [s]."""
TWIST_TIMEOUT = 0.3
"""A base stands still when no twist came for this long [s]."""
SHARE_OF_SPEED = 0.4
"""Part of a joint's velocity limit with which it goes to its target."""
PLAIN_SPEED = 1.5
"""Speed of a joint that has no velocity limit [rad/s or m/s]."""


class PreviewRobot:
    """A robot whose joints glide to their targets and whose base follows its twist."""

    def __init__(self, robot: Robot, X_WB: Array) -> None:
        """Stand at home."""
        self.robot = robot
        self.q = robot.home.copy()
        self.target = robot.home.copy()
        self.X_WB = X_WB.copy()
        self.world = World()
        self._ik: ArticulationIk | None = None
        self._twist = (0.0, 0.0, 0.0)
        self._twist_age = math.inf
        limit = robot.limits.velocity
        self._speed = SHARE_OF_SPEED * np.where(np.isfinite(limit), limit, PLAIN_SPEED)

    def aim(self, joint: str, value: float) -> None:
        """Send one joint to a position [rad or m]."""
        self.target[self.robot.joint_names.index(joint)] = value

    def aim_state(self, name: str) -> None:
        """Send all joints to a named state."""
        self.target = self.robot.named_state(name).copy()

    def solve(self, X_BT: Array) -> str:
        """Send the tool to a pose in the base; return why it cannot be reached, or nothing."""
        if self._ik is None:
            group = next(g for g in self.robot.groups.values() if g.tip is not None)
            self._ik = ArticulationIk(self.robot, group.name)
        present = dict(zip(self.robot.joint_names, self.q.tolist(), strict=True))
        goal = self._ik.goal_for(X_BT, present)
        if not goal.success:
            return goal.result.reason
        for joint, value in zip(goal.names, goal.positions.tolist(), strict=True):
            self.aim(joint, value)
        return ""

    def change(self, name: str, item: WorldObject | None) -> None:
        """Put an object into the world, or take it away."""
        if item is not None:
            self.world.add(item)
        elif name in self.world.scene.objects:
            self.world.remove(name)

    def drive(self, vx: float, vy: float, wz: float) -> None:
        """Give the base a velocity in its own frame [m/s, m/s, rad/s]."""
        self._twist, self._twist_age = (vx, vy, wz), 0.0

    def step(self, dt: float) -> None:
        """Move on by ``dt`` [s]."""
        stride = self._speed * dt
        self.q += np.clip(self.target - self.q, -stride, stride)
        self._twist_age += dt
        if self._twist_age <= TWIST_TIMEOUT:
            self.X_WB = self.X_WB @ planar_step(*self._twist, dt)


def planar_step(vx: float, vy: float, wz: float, dt: float) -> Array:
    """Return how a base moves in its own frame under a constant twist, shape (4, 4).

    Source: exponential map of SE(2); its series is used for slow turns.
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
    """A viewer with robots that obey it; a context manager.

    Args:
        robots: what to show, side by side.
        spacing: distance between neighbours along y [m].
        open_viewer: makes the viewer for the robots.
    """

    def __init__(
        self,
        robots: Sequence[Robot],
        spacing: float,
        open_viewer: Callable[[Sequence[ViewedRobot]], BrowserViewer],
    ) -> None:
        """Open the page and start moving."""
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
        self._thread = threading.Thread(target=self._run, name="preview", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop moving and close the page."""
        self._closed.set()
        self._thread.join(timeout=2.0)
        self.viewer.close()

    def _on_joint_target(self, name: str, joint: str, value: float) -> None:
        with self._lock:
            self._robots[name].aim(joint, value)

    def _on_named_state(self, name: str, state: str) -> None:
        with self._lock:
            self._robots[name].aim_state(state)

    def _on_twist(self, name: str, vx: float, vy: float, wz: float) -> None:
        with self._lock:
            self._robots[name].drive(vx, vy, wz)

    def _on_target(self, name: str, wish: TargetWish) -> None:
        robot = self._robots[name]
        # Searched without the lock: the first time a solver is compiled.
        try:
            words = robot.solve(wish.X_BT)
        except MotionError as error:
            words = str(error)
        self.viewer.set_target_message(name, words)

    def _on_object(self, name: str, key: str, item: WorldObject | None) -> None:
        robot = self._robots[name]
        robot.change(key, item)
        self.viewer.update_scene(name, robot.world.scene)

    def _run(self) -> None:
        """Step until closed."""
        last = time.monotonic()
        while not self._closed.wait(PERIOD):
            now = time.monotonic()
            for name, robot in self._robots.items():
                with self._lock:
                    # After a pause of the machine robots go on from where they were.
                    robot.step(min(now - last, 4 * PERIOD))
                    q, X_WB = robot.q.copy(), robot.X_WB
                self.viewer.update_joints(name, q)
                if robot.robot.base is not None:
                    self.viewer.update_base(name, X_WB)
            last = now

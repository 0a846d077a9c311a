# SPDX-License-Identifier: Apache-2.0
"""Follows the planning scenes of a cell's robots, and has their objects as bodies of the physics.

Each robot has a planning scene of its own. The bodies are the union of all scenes; names begin with
the namespace of the robot. Scenes are followed in a thread beside the loop, which only carries out
what has changed.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Sequence
from typing import Any

from motion_nodes.errors import MotionError, UnknownFrame
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.placement import Placement
from motion_nodes.model.tree import Array
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.scene.scene import Scene
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement
from motion_nodes.sim.scene_bodies import SceneBody, bodies_of

PERIOD = 0.02
"""[s] Between two looks at what has come."""
LOOK_TICKS = 10
"""Ticks between two looks whether a robot has left a body without contacts."""
LISTED = 5
"""Bodies without contacts that a report names."""


class _NoTransforms:
    """Stands for /tf: owners give everything in the base frame or in the frame of a link."""

    def update(self) -> None:
        """Nothing to take."""

    def pose(self, parent: str, child: str) -> tuple[Array, int | None]:
        """Refuse.

        Raises:
            UnknownFrame: always.
        """
        raise UnknownFrame(child, (), parent)


class SceneFollowing:
    """Keeps the bodies of a cell in step with the planning scenes of its robots."""

    def __init__(
        self,
        node: MotionNode[Any],
        cell: MujocoWorld,
        robots: Sequence[tuple[Placement, RobotPlacement]],
    ) -> None:
        """Subscribe; :meth:`start` when active.

        Args:
            node: whose endpoints these are.
            cell: that gets the bodies; changed in the node's loop only.
            robots: of the cell; those with a planner are followed.
        """
        self._node, self._cell = node, cell
        self._followed = [
            (place, placed, _follower(node, place, placed))
            for place, placed in robots
            if any(group.tip is not None for group in placed.robot.groups.values())
        ]
        self._seen: list[Scene] = [Scene()] * len(self._followed)
        self._wanted: dict[str, SceneBody] | None = None
        """All bodies that there are to be, where the loop has not seen to it yet."""
        self._faults: dict[str, str] = {}
        self._ticks = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, name="scene-bodies", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following; bodies stay as they are."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def destroy(self) -> None:
        """Stop, and unsubscribe."""
        self.stop()
        for _, _, follower in self._followed:
            follower.destroy()

    def tick(self) -> None:
        """Carry out what has changed; in the node's loop."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            try:
                self._cell.set_bodies(wanted)
            except (MotionError, ValueError) as error:
                self._node.warn("scene bodies", f"scene bodies are not up to date: {error}")
        elif self._faults:
            self._ticks += 1
            if self._ticks % LOOK_TICKS:
                return
            self._cell.revive_bodies()
        else:
            return
        faults = self._cell.body_faults
        for name, why in faults.items():
            if self._faults.get(name) != why:
                self._node.warn(f"body {name}", f"'{name}' is no obstacle of the physics: {why}")
        self._faults = faults

    def diagnose(self, report: Report) -> None:
        """Say how many bodies there are, and which have no contacts."""
        faults = self._faults
        report.value("scene bodies", len(self._cell.bodies))
        report.value("scene bodies without contacts", len(faults))
        for name, why in list(faults.items())[:LISTED]:
            report.note("WARN", f"'{name}' is no obstacle of the physics: {why}")

    def _work(self) -> None:
        while not self._stop.wait(PERIOD):
            try:
                self._look()
            except Exception:
                text = traceback.format_exc()
                self._node.warn("scene bodies", f"scene bodies are not up to date:\n{text}")

    def _look(self) -> None:
        """Take what has come; a change waits for the loop, a newer one takes its place."""
        scenes = [follower.scene for _, _, follower in self._followed]
        if all(a is b for a, b in zip(scenes, self._seen, strict=True)):
            return
        wanted: dict[str, SceneBody] = {}
        for (place, placed, _), scene in zip(self._followed, scenes, strict=True):
            wanted |= bodies_of(scene, placed, place.namespace)
        self._seen, self._wanted = scenes, wanted


def _follower(node: MotionNode[Any], place: Placement, placed: RobotPlacement) -> SceneFollower:
    robot = placed.robot
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    frames = RobotFrames(kinematics, _NoTransforms(), "")
    return SceneFollower(node, robot, kinematics, frames, place.namespace)

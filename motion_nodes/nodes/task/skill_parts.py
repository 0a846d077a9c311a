# SPDX-License-Identifier: Apache-2.0
"""What the skills of one robot share: parameters, clients, the mobile base, watched motions.

A watched motion ends when an object that matters has moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from action_msgs.srv import CancelGoal
from nav2_msgs.action import NavigateToPose

from motion_nodes.core.navigation.footprint import (
    Footprint,
    carrier_footprint,
    footprint_of,
    solid_outline,
)
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import OutlineLayer, outline_points
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.world import World
from motion_nodes.errors import MotionError
from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState
from motion_nodes.nodes.task.arm_motions import ArmMotions, CompliantMotions
from motion_nodes.nodes.task.observed_objects import ObservedObjects
from motion_nodes.nodes.task.remote_work import RemoteAction, RemoteService, Work, require_success
from motion_nodes.nodes.task.task_params import TaskServerParams
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.current_state import Transforms
from motion_nodes.ros.messages.planar_messages import pose2_of, stamped_pose
from motion_nodes.ros.node import MotionNode
from motion_nodes.typing import Array

FLAT = 0.01
"""Max height of objects that wheels roll over [m]."""
MAX_AGE = 1.0
"""Max age of the transform from odometry to the base [s]."""


@dataclass(frozen=True)
class DriveOutlines:
    """Outlines of one robot on the floor."""

    carrier: Footprint
    """Outline of the body that carries the arm."""
    home: Footprint
    """Outline of the whole robot in the home state."""

    @classmethod
    def of(cls, robot: Robot) -> DriveOutlines:
        """Return the outlines of a robot."""
        return cls(carrier_footprint(robot), footprint_of(robot))

    def around(self, state: WorldState) -> tuple[OutlineLayer, OutlineLayer]:
        """Return both outlines with the objects in their height ranges, without the held one.

        Args:
            state: with the objects in the base frame.
        """
        lower = [np.empty((0, 2))]
        higher = [np.empty((0, 2))]
        for item in state.objects.values():
            if item.name == state.held:
                continue
            for solid in item.solids:
                points = outline_points(solid_outline(solid.shape, solid.X_WO))
                if solid.top > self.carrier.floor + FLAT and solid.bottom < self.carrier.top:
                    lower.append(points)
                if solid.top > self.carrier.top and solid.bottom < self.home.top:
                    higher.append(points)
        return (
            OutlineLayer(self.carrier, np.concatenate(lower)),
            OutlineLayer(self.home, np.concatenate(higher)),
        )


class NavigatedBase:
    """Client of the navigator of one robot."""

    def __init__(
        self,
        node: MotionNode[Any],
        jobs: ExecutorQueue,
        tree: Transforms,
        frames: tuple[str, str],
        X_WO: Array,
        outlines: DriveOutlines,
    ) -> None:
        """Create the client.

        Args:
            node: the node.
            jobs: queue of its executor.
            tree: transforms of /tf.
            frames: odometry frame and base frame, as they are on /tf.
            X_WO: pose of the odometry frame in the frame of the detector, shape (4, 4).
            outlines: of base and arm.
        """
        self.outlines = outlines
        self._node, self._tree, (self._odom, self._base) = node, tree, frames
        self._X_WO = np.asarray(X_WO)
        self._drive = RemoteAction(node, jobs, NavigateToPose, "navigate_to_pose")
        self._everyone = RemoteService(
            node, jobs, CancelGoal, "navigate_to_pose/_action/cancel_goal"
        )

    def pose(self) -> Array | None:
        """Return the pose of the base in the frame of the detector, (4, 4); None if unknown."""
        X_OB = self._pose_in_odom()
        return None if X_OB is None else np.asarray(self._X_WO @ X_OB)

    def in_odom(self, place: tuple[float, float, float]) -> Pose2:
        """Return a place in the frame of the detector as a pose in the odometry frame."""
        return pose2_of(inverse(self._X_WO)).compose(Pose2(*place))

    def in_odom_now(self) -> Pose2 | None:
        """Return the pose of the base in the odometry frame; None if unknown or old."""
        X_OB = self._pose_in_odom()
        return None if X_OB is None else pose2_of(X_OB)

    def _pose_in_odom(self) -> Array | None:
        self._tree.update()
        try:
            X_OB, stamp_ns = self._tree.pose(self._odom, self._base)
        except MotionError:
            return None
        old = stamp_ns is not None and 1e-9 * (self._node.now_ns() - stamp_ns) > MAX_AGE
        return None if old else np.asarray(X_OB)

    def drive(self, goal: Pose2) -> Work:
        """Drive to a pose in the odometry frame.

        Raises:
            SkillFailed: with the reason of the navigator.
        """
        request = NavigateToPose.Goal(pose=stamped_pose(goal, self._odom, 0))
        require_success((yield from self._drive.execute(request)), "drive")

    def cancel(self) -> None:
        """Cancel the active drive, if any."""
        self._drive.cancel()

    def cancel_all(self) -> None:
        """Cancel the drives of all clients."""
        self._everyone.send(CancelGoal.Request())  # without an id: all goals

    def destroy(self) -> None:
        """Destroy the client."""
        self._drive.destroy()


@dataclass(frozen=True)
class SkillParts:
    """Clients and observations of one robot, on a mobile base or not."""

    node: MotionNode[TaskServerParams]
    motions: ArmMotions
    compliance: CompliantMotions
    objects: ObservedObjects
    world: World
    """Its planning scene."""
    touching: frozenset[str]
    """Links that may touch the held object."""
    base: NavigatedBase | None = None

    @property
    def params(self) -> TaskServerParams:
        """The current parameters of the node."""
        return self.node.params

    def cancel(self) -> None:
        """Cancel the active motions."""
        self.motions.cancel()
        if self.base is not None:
            self.base.cancel()

    def cancel_all(self) -> None:
        """Cancel the motions of all clients."""
        self.motions.cancel_all()
        if self.base is not None:
            self.base.cancel_all()


MOVED = 0.01
"""Displacement from which an object has moved [m]."""
DETECTIONS = 2
"""Number of successive detections on which a motion is stopped."""
REST_CYCLES, REST_TIMEOUT = 4, 2.0
"""Number of cycles at rest after a stop, and max time until then [s]."""


def watched(parts: SkillParts, motion: Work, check: Callable[[], None]) -> Work:
    """Execute a motion; stop it when a check of two successive detections fails.

    Args:
        parts: of the robot.
        motion: the motion.
        check: called after each message of the detector; raises SkillFailed.

    Raises:
        SkillFailed: of the motion, or of the check, with the arm at rest.
    """
    objects, failures = parts.objects, 0
    checked = objects.reported_at
    for _ in motion:
        if objects.reported_at != checked:
            checked = objects.reported_at
            try:
                check()
                failures = 0
            except SkillFailed:
                failures += 1
                if failures >= DETECTIONS:
                    parts.motions.cancel()
                    motion.close()
                    yield from at_rest(parts)
                    raise
        yield


def at_rest(parts: SkillParts) -> Work:
    """Wait until the tool does not move, at most REST_TIMEOUT."""
    motions, objects = parts.motions, parts.objects
    end, last, still = objects.now() + REST_TIMEOUT, motions.tool_pose(), 0
    while still < REST_CYCLES and objects.now() < end:
        yield
        now = motions.tool_pose()
        if last is None or now is None:
            return
        still = still + 1 if float(np.abs(now - last).max()) < 1e-4 else 0
        last = now


def not_detected(objects: ObservedObjects, name: str, since: float = -math.inf) -> SkillFailed:
    """Return why an object cannot be observed.

    Args:
        objects: the detections.
        name: of the object.
        since: time from which it is waited for [s].
    """
    if objects.reported_at <= since:
        silent = objects.now() - objects.reported_at
        text = f"the detector has reported nothing for {silent:.0f} s"
        return SkillFailed(text, TaskCode.NOT_DETECTED)
    if name in objects.ambiguous:
        return SkillFailed(objects.ambiguity(name), TaskCode.AMBIGUOUS_OBJECT)
    return SkillFailed(f"'{name}' is no longer detected", TaskCode.NOT_DETECTED)


def require_unmoved(objects: ObservedObjects, target: ObjectState, *, hidden: bool = False) -> None:
    """Fail if an object that stands still was moved since it was observed.

    Args:
        objects: the detections.
        target: the object, as it was observed.
        hidden: whether it may be out of the detector's sight.

    Raises:
        SkillFailed: it has moved, or is no longer detected.
    """
    seen = objects.detected(target.name)
    if seen is None:
        if objects.detects(target.name) and not hidden:
            raise not_detected(objects, target.name)
        return
    moved = float(np.linalg.norm(seen.X_WO[:3, 3] - target.X_WO[:3, 3]))
    if moved > MOVED:
        raise SkillFailed(
            f"'{target.name}' has moved by {1e3 * moved:.0f} mm", TaskCode.OBJECT_MOVED
        )

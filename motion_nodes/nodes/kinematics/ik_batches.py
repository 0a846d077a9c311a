# SPDX-License-Identifier: Apache-2.0
"""Service compute_ik_batch: joint positions for an array of poses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.core.ik.collision_free import CollisionFree
from motion_nodes.core.ik.problem import IkBatchResult
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CheckerCache
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import MotionError
from motion_nodes.nodes.kinematics.ik_chains import SolvedChain
from motion_nodes.nodes.kinematics.kinematics_requests import KinematicsRequests
from motion_nodes.ros.messages.moveit_messages import RequestRejected, fill_robot_state, pose_of
from motion_nodes.typing import Array

Codes = MoveItErrorCodes
MAX_POSES = 10_000
"""Max number of poses in a request; each takes up to the solver's timeout."""
CHUNK = 250
"""Number of poses between two checks whether the request was cancelled."""
UNUSED = (
    "max_step", "jump_threshold", "prismatic_jump_threshold", "revolute_jump_threshold",
    "max_velocity_scaling_factor", "max_acceleration_scaling_factor", "max_cartesian_speed",
)  # fmt: skip
"""Fields of GetCartesianPath that only concern paths."""


class IkBatches:
    """Implementation of the service; thread-safe."""

    def __init__(self, robot: Robot) -> None:
        """Create the service of a robot, and the checkers of its groups with a tip."""
        self._checkers = CheckerCache(robot, lambda: 0.0)
        for group in robot.groups.values():
            if group.tip is not None:
                self._checkers.checker(group, Scene(), robot.home)

    def solve(
        self,
        own: KinematicsRequests,
        request: Any,
        response: Any,
        cancelled: Callable[[], bool],
    ) -> str:
        """Fill in the response of GetCartesianPath.

        The solution has one point per pose, without positions where there is no solution; fraction
        is the share of solved poses.

        Args:
            own: kinematics services of the robot.
            request: of the service; its waypoints are the poses.
            response: of the service.
            cancelled: returns whether to stop.

        Returns:
            A note for the client; may be empty.

        Raises:
            RequestRejected: an invalid request, a cancelled one, or poses without a solution. The
                response has the solutions of the others.
        """
        own.checks.wait()
        group = own.group(request.group_name)
        link = own.frames.name_of(request.link_name) if request.link_name else ""
        chain = own.chains.find(group, link)
        if chain.locked:
            raise RequestRejected(
                Codes.INVALID_LINK_NAME,
                f"{request.link_name} is also moved by {', '.join(chain.locked)}, not in "
                f"'{group.name}'; use compute_ik",
            )
        if request.path_constraints != type(request.path_constraints)():
            raise RequestRejected(
                Codes.INVALID_MOTION_PLAN, "path_constraints are not supported by compute_ik_batch"
            )
        q = own.state(request.start_state, "the seed")
        targets, notes = _targets(own, request, chain, q)
        acceptance = None
        if request.avoid_collisions:
            if chain.joint_names != group.joints:
                raise RequestRejected(
                    Codes.INVALID_LINK_NAME,
                    f"{request.link_name} is not moved by all joints of '{group.name}'; with "
                    "avoid_collisions use its tip, or compute_ik",
                )
            scene = own.scene(request.start_state, q)
            notes.append(own.scene_note())
            acceptance = CollisionFree(self._checkers.checker(group, scene, q), chain.chain)
        seed, settings = q[own.robot.indices(chain.joint_names)], own.settings()
        parts = []
        for begin in range(0, len(targets), CHUNK):
            if cancelled():
                text = f"cancelled after {begin} of {len(targets)} poses"
                raise RequestRejected(Codes.PREEMPTED, text)
            try:
                part = chain.batches.solve_batch(
                    targets[begin : begin + CHUNK], seed, settings=settings, acceptance=acceptance
                )
            except MotionError as error:
                raise RequestRejected(Codes.INVALID_MOTION_PLAN, str(error)) from None
            parts.append(part)
        solved = _fill(own, response, chain, parts, q)
        notes += [f"{name} is not used" for name in UNUSED if getattr(request, name)]
        note = "; ".join(filter(None, notes))
        if not all(solved):
            number = solved.index(False)
            status = parts[number // CHUNK].status[number % CHUNK]
            text = (
                f"{sum(solved)} of {len(targets)} poses solved; waypoint {number}: "
                f"{status.name.lower().replace('_', ' ')}"
            )
            raise RequestRejected(Codes.NO_IK_SOLUTION, "; ".join(filter(None, (text, note))))
        return note


def _targets(
    own: KinematicsRequests, request: Any, chain: SolvedChain, q: Array
) -> tuple[Array, list[str]]:
    """Return the poses in the base of the chain, shape (m, 4, 4), and notes."""
    count = len(request.waypoints)
    if not 0 < count <= MAX_POSES:
        raise RequestRejected(
            Codes.INVALID_MOTION_PLAN, f"{count} waypoints; give 1 to {MAX_POSES} poses"
        )
    frames = own.frames
    if not frames.is_own(request.header.frame_id):
        frames = frames.in_scene(own.scene(request.start_state, q))
    X_CF = inverse(own.kinematics.pose(q, chain.base)) @ frames.pose(request.header.frame_id, q)
    found = [pose_of(pose, f"waypoint {k}") for k, pose in enumerate(request.waypoints)]
    notes = [note for _, note in found if note]
    return X_CF @ np.array([X for X, _ in found]), notes[:1]


def _fill(
    own: KinematicsRequests,
    response: Any,
    chain: SolvedChain,
    parts: Sequence[IkBatchResult],
    q: Array,
) -> list[bool]:
    """Fill in the solutions; return whether there is one for each pose."""
    names = own.robot.joint_names
    fill_robot_state(response.start_state, dict(zip(names, q.tolist(), strict=True)))
    trajectory = response.solution.joint_trajectory
    trajectory.joint_names = list(chain.joint_names)
    trajectory.header.frame_id = own.kinematics.base
    solved = [found for part in parts for found in part.solved.tolist()]
    solutions = [positions for part in parts for positions in part.q.tolist()]
    trajectory.points = [
        JointTrajectoryPoint(positions=positions if found else [])
        for positions, found in zip(solutions, solved, strict=True)
    ]
    response.fraction = sum(solved) / len(solved)
    return solved

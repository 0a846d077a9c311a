# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of several links; one checker per group, created at its first request."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.ik.problem import IkResult, IkSettings, Validity
from motion_nodes.model.robot import Group, Robot
from motion_nodes.planning.planning_problem import PoseGoal, PosesGoal
from motion_nodes.planning.several_poses import solve_poses
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

Codes = MoveItErrorCodes


class SeveralTips:
    """Solves for several links; thread-safe."""

    def __init__(self, robot: Robot) -> None:
        """Create without checkers.

        Args:
            robot: robot with the groups.
        """
        self._robot = robot
        self._checkers: dict[str, CollisionChecker] = {}
        self._making = threading.Lock()

    def solve(
        self,
        group: Group,
        targets: Mapping[str, Array],
        q: Array,
        settings: IkSettings,
        validity: Validity | None,
    ) -> IkResult:
        """Solve inverse kinematics.

        Args:
            group: planning group.
            targets: poses of links in the robot's base frame, shape (4, 4) each.
            q: positions of all joints [rad or m], shape (n,); also the seed.
            settings: of the solver.
            validity: further condition on the positions of the group's joints.

        Raises:
            RequestRejected: a link that the group does not move, or an invalid target.
        """
        with self._making:
            checker = self._checkers.get(group.name)
            if checker is None:
                checker = CollisionChecker(self._robot, group.joints)
                self._checkers[group.name] = checker
            checker = checker.snapshot()
        checker.set_positions(q)
        poses = (PoseGoal(link, X, settings.tolerance) for link, X in targets.items())
        try:
            return solve_poses(
                checker, PosesGoal(tuple(poses)), q[group.indices], settings, validity
            )
        except InvalidCommand as error:
            raise RequestRejected(Codes.INVALID_GOAL_CONSTRAINTS, str(error)) from None
        except MotionError as error:
            raise RequestRejected(Codes.INVALID_LINK_NAME, str(error)) from None

# SPDX-License-Identifier: Apache-2.0
"""IK solvers of a robot's groups, one per requested link, made at the first request.

Inverse kinematics of several links; one checker per group, created at its first request.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkResult, IkSettings, IkSolver, Validity
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.ik.solvers import make_solver
from motion_nodes.core.planning.planning_problem import PoseGoal, PosesGoal
from motion_nodes.core.planning.several_poses import solve_poses
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.typing import Array

MAX_CHAINS = 64
"""Max number of cached solvers; each has a few MB of compiled code."""
Codes = MoveItErrorCodes


@dataclass(frozen=True, eq=False)
class SolvedChain:
    """Solver of one kinematic chain."""

    solver: IkSolver
    batches: LeastSquaresIk
    """Solver of many poses at once; the same one if it can."""
    chain: IkChain
    locked: tuple[str, ...]
    """Joints of the chain that are not in the group and do not move."""

    @property
    def base(self) -> str:
        """Base frame of the chain."""
        return self.chain.base

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints of the chain, in the order of the solutions."""
        return self.chain.joint_names


class IkChains:
    """Solvers by group and link; thread-safe."""

    def __init__(self, robot: Robot, solver: str, settings: IkSettings) -> None:
        """Create an empty set of solvers.

        Args:
            robot: robot with the groups.
            solver: name of the solver.
            settings: of the solvers.
        """
        self._robot = robot
        self.solver = solver
        """Name of the solver."""
        self._settings = settings
        self._chains: dict[tuple[str, str], SolvedChain] = {}
        self._making = threading.Lock()

    def warm_up(self) -> None:
        """Compile the solvers of all groups with a tip."""
        for group in self._robot.groups.values():
            if group.tip is not None:
                self.find(group, "")

    def find(self, group: Group, link: str) -> SolvedChain:
        """Return the solver for a link of a group; empty for the group's tip.

        Raises:
            RequestRejected: a group that is not a chain, or a link that it does not move.
        """
        key = (group.name, link)
        found = self._chains.get(key)
        if found is None:
            with self._making:
                found = self._chains.get(key) or self._make(group, link)
                if len(self._chains) >= MAX_CHAINS:
                    self._chains.pop(next(iter(self._chains)))
                self._chains[key] = found
        return found

    def _make(self, group: Group, link: str) -> SolvedChain:
        robot = self._robot
        if group.tip is None and group.tips:
            raise RequestRejected(
                MoveItErrorCodes.INVALID_LINK_NAME,
                f"group '{group.name}' has the tips {', '.join(group.tips)}; name the links",
            )
        if group.base is None or group.tip is None:
            chains = [g.name for g in robot.groups.values() if g.tip is not None]
            raise RequestRejected(
                MoveItErrorCodes.INVALID_GROUP_NAME,
                f"group '{group.name}' has no base and tip, so it has no inverse kinematics; "
                f"groups that have: {', '.join(chains) or 'none'}",
            )
        try:
            chain = IkChain(robot.tree, group.base, link or group.tip, limits=robot.limits)
            locked = tuple(name for name in chain.joint_names if name not in group.joints)
            if len(locked) == len(chain.joint_names):
                raise InvalidConfig(f"group '{group.name}' does not move link '{link}'")
            solver = make_solver(chain, self.solver, self._settings)
            if isinstance(solver, LeastSquaresIk):
                batches = solver
            else:
                batches = LeastSquaresIk(chain, self._settings)
        except MotionError as error:
            raise RequestRejected(MoveItErrorCodes.INVALID_LINK_NAME, str(error)) from None
        return SolvedChain(solver, batches, chain, locked)


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

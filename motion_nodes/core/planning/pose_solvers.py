# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of the joints of a collision checker, for poses in the robot's base."""

from __future__ import annotations

import functools
from dataclasses import replace

from motion_nodes.core.ik.chain import IkChain, joints_between
from motion_nodes.core.ik.problem import IkRequest, IkResult, IkSettings, IkSolver
from motion_nodes.core.ik.solvers import make_solver
from motion_nodes.core.planning.planning_problem import JointRange
from motion_nodes.core.robot.kinematics import GroupKinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.poses import as_pose, inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

ATTEMPTS = 30
"""Seeds per search; difficult goals get several searches."""


class MountedSolver:
    """Solver of a chain that begins at another frame than the robot's base.

    The joints between both, such as those of a torso, may be anywhere; a chain from the base would
    be compiled anew for each of their positions.
    """

    def __init__(self, solver: IkSolver, X_BM: Array) -> None:
        """Create.

        Args:
            solver: of the chain.
            X_BM: pose of the chain's first frame in the robot's base, shape (4, 4).
        """
        self._solver, self._X_MB = solver, inverse(X_BM)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of ``q``, in its order."""
        return self._solver.joint_names

    def solve(self, request: IkRequest) -> IkResult:
        """Return joint positions; the target is in the robot's base; see :class:`IkSolver`."""
        X_MT = self._X_MB @ as_pose(request.target, "target")
        return self._solver.solve(request._replace(target=X_MT))


def pose_chain(checker: CollisionChecker, link: str) -> IkChain:
    """Return the chain of a checker's joints that move a link.

    Raises:
        UnknownFrame, InvalidConfig: as :func:`pose_solver`.
    """
    robot, joints = checker.robot, moving_joints(checker, link)
    fixed = dict(_others(checker, link, joints))
    return IkChain(robot.tree, robot.base_frame, link, joints, limits=checker.limits, fixed=fixed)


def _others(
    checker: CollisionChecker, link: str, joints: tuple[str, ...]
) -> tuple[tuple[str, float], ...]:
    """Return the positions of the further joints that move a link, which are fixed."""
    robot = checker.robot
    names = link_joints(robot, link).difference(joints)
    values = zip(robot.joint_names, checker.positions, strict=True)
    return tuple((name, float(x)) for name, x in values if name in names)


def pose_solver(
    checker: CollisionChecker, link: str, held: JointRange | None = None
) -> tuple[IkSolver, list[int]]:
    """Return a solver for a link in the robot's base, and the indices of the joints it solves.

    Args:
        checker: whose joints may move.
        link: the controlled link.
        held: joint constraints; None: the joint limits.

    Raises:
        UnknownFrame: the robot does not have this link.
        InvalidConfig: none of the joints moves it.
    """
    robot, joints = checker.robot, moving_joints(checker, link)
    fixed = _others(checker, link, joints)
    columns = [checker.joint_names.index(name) for name in joints]
    mount = _mount(robot, link, joints, tuple(name for name, _ in fixed))
    base, fixed = (robot.base_frame, fixed) if mount is None else (mount, ())
    if held is None:
        solver = _solver(robot, base, link, joints, fixed)
    else:
        # Not shared: its limits are this goal's; only the first solver of a chain compiles code.
        limits = replace(checker.limits, lower=held.low, upper=held.high)
        solver = _new_solver(robot, base, link, joints, fixed, limits)
    if mount is None:
        return solver, columns
    X_BM = GroupKinematics(robot, (), checker.positions).pose([], mount)
    return MountedSolver(solver, X_BM), columns


def moving_joints(checker: CollisionChecker, link: str) -> tuple[str, ...]:
    """Return the joints of a checker that move a link.

    Raises:
        UnknownFrame, InvalidConfig: as :func:`pose_solver`.
    """
    robot = checker.robot
    moving = link_joints(robot, link)
    joints = tuple(name for name in checker.joint_names if name in moving)
    if not joints:
        raise InvalidConfig(
            f"{robot.name}: none of {', '.join(checker.joint_names)} moves '{link}'; a pose can be "
            "planned for links that they move."
        )
    return joints


@functools.lru_cache(maxsize=64)
def link_joints(robot: Robot, link: str) -> frozenset[str]:
    """Return the actuated joints that move a link relative to the base."""
    return frozenset(joints_between(robot.tree, robot.base_frame, link))


@functools.lru_cache(maxsize=64)
def _mount(robot: Robot, link: str, joints: tuple[str, ...], fixed: tuple[str, ...]) -> str | None:
    """Return the frame between the fixed and the moving joints of a link; None without one."""
    for name in reversed(fixed):
        joint = robot.tree.joint(name)
        for frame in (joint.child, joint.parent):
            if set(joints_between(robot.tree, frame, link)) == set(joints):
                return str(frame)
    return None


@functools.lru_cache(maxsize=64)
def _solver(
    robot: Robot,
    base: str,
    link: str,
    joints: tuple[str, ...],
    fixed: tuple[tuple[str, float], ...],
) -> IkSolver:
    return _new_solver(robot, base, link, joints, fixed, robot.limits)


def _new_solver(
    robot: Robot,
    base: str,
    link: str,
    joints: tuple[str, ...],
    fixed: tuple[tuple[str, float], ...],
    limits: JointLimits,
) -> IkSolver:
    chain = IkChain(robot.tree, base, link, joints, limits=limits, fixed=dict(fixed))
    return make_solver(chain, settings=replace(IkSettings(), attempts=ATTEMPTS))

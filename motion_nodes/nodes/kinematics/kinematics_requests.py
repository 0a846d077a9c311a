# SPDX-License-Identifier: Apache-2.0
"""MoveIt's kinematics services and compute_ik_batch: conversion from and to messages, computation.

Solvers are made at the first request of a group and link, checkers at that of a group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import ConstraintEvalResult, ContactInformation, MoveItErrorCodes, RobotState
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import (
    IkBatchResult,
    IkRequest,
    IkResult,
    IkSettings,
    IkSolver,
    Validity,
)
from motion_nodes.core.ik.relaxed_poses import FULL, solve_reachable
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.ik.solvers import make_solver
from motion_nodes.core.planning.planning_problem import PoseGoal, PosesGoal
from motion_nodes.core.planning.several_poses import solve_poses
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.core.scene.checker import CheckerCache, CollisionChecker, CollisionFree
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError, UnknownFrame
from motion_nodes.nodes.kinematics.solution_checks import (
    CollisionValidity,
    StateChecks,
    ValidityFactory,
    all_of,
    constraint_validity,
    contact_message,
    excesses,
)
from motion_nodes.ros.current_state import CurrentStateMonitor, RobotFrames
from motion_nodes.ros.messages.constraints import GoalContext, joint_goal
from motion_nodes.ros.messages.moveit_messages import (
    RequestRejected,
    bounded,
    fill_robot_state,
    is_constrained,
    joint_values,
    pose_message,
    pose_of,
    requested_group,
    seconds_of,
)
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array

MAX_TIMEOUT = 60.0
"""[s] Max solver timeout of a request, which occupies a thread for it."""
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
        goal: PosesGoal,
        q: Array,
        settings: IkSettings,
        validity: Validity | None,
    ) -> IkResult:
        """Solve inverse kinematics.

        Args:
            group: planning group.
            goal: poses of links in the robot's base frame.
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
        try:
            return solve_poses(checker, goal, q[group.indices], settings, validity)
        except InvalidCommand as error:
            raise RequestRejected(Codes.INVALID_GOAL_CONSTRAINTS, str(error)) from None
        except MotionError as error:
            raise RequestRejected(Codes.INVALID_LINK_NAME, str(error)) from None


@dataclass(frozen=True)
class KinematicsRequests:
    """Implementation of the three services; thread-safe."""

    robot: Robot
    kinematics: Kinematics
    """Of all joints, relative to the robot's base frame."""
    frames: RobotFrames
    chains: IkChains
    settings: Callable[[], IkSettings]
    """Returns the current solver settings."""
    current: CurrentStateMonitor
    """Current state of the robot."""
    scene: Callable[[RobotState, Array], Scene]
    """Returns the planning scene of a request: with the objects that its robot state attaches, and
    positions of all joints [rad or m], shape (n,). Raises RequestRejected."""
    checks: StateChecks
    scene_note: Callable[[], str]
    """Returns a note on the planning scene for clients; may be empty."""
    several: SeveralTips
    """Solves for several links at once."""

    def group(self, name: str) -> Group:
        """Return a group by name or alias; empty for the only one with a tip.

        Raises:
            RequestRejected: no such group, or several with a tip.
        """
        return requested_group(self.robot, name)

    def state(self, given: RobotState, what: str) -> Array:
        """Return the state of a request; measured positions replace missing joints.

        Args:
            given: robot state in the request.
            what: its name in error messages.

        Returns:
            Positions of all joints [rad or m], shape (n,).

        Raises:
            RequestRejected: an invalid state, or joints that are neither given nor measured.
        """
        return self.current.complete(joint_values(given, self.robot, what), what)

    def inverse(self, request: Any, response: Any) -> str:
        """Fill in the response of GetPositionIK.

        Args:
            request: moveit_msgs/PositionIKRequest.
            response: of the service.

        Returns:
            A note for the client; may be empty.

        Raises:
            RequestRejected: an invalid request, or no solution.
        """
        targets = requested_targets(request)
        group = self.group(request.group_name)
        q = self.state(request.robot_state, "the seed")
        frames, scene = self.frames, None
        named = [name for link, stamped in targets for name in (link, stamped.header.frame_id)]
        if request.avoid_collisions or not all(map(self.frames.is_own, named)):
            scene = self.scene(request.robot_state, q)
            frames = frames.in_scene(scene)
        located = [_located(link, stamped, frames, q) for link, stamped in targets]
        notes = [note for *_, note in located if note]
        timeout = bounded(seconds_of(request.timeout, "timeout"), MAX_TIMEOUT, "timeout", notes)
        note = "; ".join(dict.fromkeys(notes))
        positions = dict(zip(self.robot.joint_names, q.tolist(), strict=True))
        factories: list[ValidityFactory] = []
        joints, collisions = None, None
        if is_constrained(request.constraints):
            context = GoalContext(self.robot, group, q, frames)
            factories.append(constraint_validity(request.constraints, context))
            joints = joint_goal(request.constraints.joint_constraints, context)
        if request.avoid_collisions and scene is not None:
            collisions = self.collision_validity(group, q, scene)
            factories.append(collisions.check_for)
            note = "; ".join(filter(None, (note, self.scene_note())))
        link, X_BT, _ = located[0]
        alone = len(located) == 1 and (group.tip is not None or not link)
        result, names = None, group.joints
        if not alone or (joints is not None and (link or group.tip)):
            poses = {link or str(group.tip): X_BT for link, X_BT, _ in located}
            if len(poses) < len(located):
                raise RequestRejected(Codes.INVALID_LINK_NAME, "a link has two target poses")
            goal = PosesGoal(
                tuple(PoseGoal(link, X, self.settings().tolerance) for link, X in poses.items()),
                joints,
            )
            valid = all_of(factories)(names)
            result = self.several.solve(group, goal, q, self._settings(timeout), valid)
        if result is None or (alone and not result.success and len(names) < FULL):
            result, names = self.solve(group, link, X_BT, q, timeout, all_of(factories))
        if not result.success:
            contacts = ""
            if collisions is not None and collisions.rejected:
                contacts = collisions.describe()  # the pose is reachable
            # One code for all, as in move_group; the text also reports a timeout.
            text = "; ".join(filter(None, (contacts, result.reason, note)))
            raise RequestRejected(Codes.NO_IK_SOLUTION, text)
        solution = dict(zip(names, result.q.tolist(), strict=True))
        fill_robot_state(response.solution, positions | solution)
        return "; ".join(filter(None, (result.reason, note)))

    def collision_validity(self, group: Group, q: Array, scene: Scene) -> CollisionValidity:
        """Return the collision check of solutions for a group.

        Args:
            group: that is solved for.
            q: positions of all joints [rad or m], shape (n,).
            scene: to check against.
        """
        checker = self.checks.checker(group.joints, q, scene)
        return CollisionValidity(checker, self.robot.joint_names, q)

    def solve(
        self,
        group: Group,
        link: str,
        X_BT: Array,
        q: Array,
        timeout: float = 0.0,
        validity: ValidityFactory = lambda _: None,
    ) -> tuple[IkResult, tuple[str, ...]]:
        """Solve inverse kinematics.

        Args:
            group: planning group.
            link: frame to bring to the target; empty for the group's tip.
            X_BT: target in the robot's base frame, shape (4, 4).
            q: positions of all joints [rad or m], shape (n,); also the seed.
            timeout: of the solver [s]; 0 for that of the parameters.
            validity: makes an additional check of solutions.

        Returns:
            The result, and the joints of its ``q`` in their order.

        Raises:
            RequestRejected: a group that is not a chain, a link that it does not move, or an
                invalid target.
        """
        chain = self.chains.find(group, link)
        positions = dict(zip(self.robot.joint_names, q.tolist(), strict=True))
        settings = self._settings(timeout)
        try:
            result = solve_reachable(
                chain.solver,
                IkRequest(
                    target=X_BT,
                    seed=[positions[name] for name in chain.joint_names],
                    base_pose=self.kinematics.pose(q, chain.base),
                    locked={name: positions[name] for name in chain.locked},
                    validity=validity(chain.joint_names),
                    settings=settings,
                ),
                chain.chain,
            )
        except InvalidCommand as error:
            raise RequestRejected(Codes.INVALID_GOAL_CONSTRAINTS, str(error)) from None
        return result, chain.joint_names

    def _settings(self, timeout: float) -> IkSettings:
        """Return the settings of a request; a timeout of 0 is that of the parameters."""
        settings = self.settings()
        return replace(settings, timeout=timeout) if timeout else settings

    def forward(self, request: Any, response: Any, stamp: Any, *, partial: bool = False) -> None:
        """Fill in the response of GetPositionFK.

        Args:
            request: of the service.
            response: of the service.
            stamp: builtin_interfaces/Time of the poses.
            partial: whether the poses of known links are filled in if others are unknown.

        Raises:
            RequestRejected: an invalid request.
        """
        q = self.state(request.robot_state, "the state")
        names = [self.frames.name_of(name) if name else "" for name in request.fk_link_names]
        unknown = [name for name in names if name not in self.kinematics.frame_names]
        refusal = None
        if unknown:
            error = UnknownFrame(unknown[0], self.kinematics.frame_names, self.robot.name)
            refusal = RequestRejected(Codes.INVALID_LINK_NAME, str(error))
        if refusal is not None and not partial:
            raise refusal
        if not names:
            raise RequestRejected(
                Codes.INVALID_LINK_NAME, "no links requested: fill in fk_link_names"
            )
        frame = request.header.frame_id or self.kinematics.base
        X_FB = inverse(self.frames.pose(frame, q))
        for name, given in zip(names, request.fk_link_names, strict=True):
            if name in unknown:
                continue
            stamped = PoseStamped(pose=pose_message(X_FB @ self.kinematics.pose(q, name)))
            stamped.header.frame_id, stamped.header.stamp = frame, stamp
            response.pose_stamped.append(stamped)
            response.fk_link_names.append(given)
        if refusal is not None:
            raise refusal

    def valid(self, request: Any, response: Any) -> None:
        """Fill in the response of GetStateValidity: joint limits, collisions, constraints.

        With a group, only its joint limits are checked, and pairs whose distance it can change;
        constraints may be of any joint and link.

        Args:
            request: of the service.
            response: of the service.

        Raises:
            RequestRejected: an invalid state or an unknown group.
        """
        q = self.state(request.robot_state, "the state")
        names = self.robot.joint_names
        group_joints: tuple[str, ...] = ()
        if request.group_name:
            group = self.group(request.group_name)
            names = group_joints = group.joints
        else:
            group = next(iter(self.robot.groups.values()))
        limits = self.robot.limits.select(names)
        values = dict(zip(self.robot.joint_names, q.tolist(), strict=True))
        for k, name in enumerate(names):
            outside = max(limits.lower[k] - values[name], values[name] - limits.upper[k])
            if outside > LIMIT_ROUNDING:
                response.contacts.append(_limit_contact(self.robot, name, float(outside)))
        scene = self.scene(request.robot_state, q)
        for contact in self.checks.checker(group_joints, q, scene).exact.explain(q):
            if contact.kind != "limit":
                response.contacts.append(contact_message(contact, scene, self.kinematics.base))
        context = GoalContext(self.robot, group, q, self.frames.in_scene(scene))
        for _, distance in excesses(request.constraints, context):
            response.constraint_result.append(
                ConstraintEvalResult(result=distance <= 0.0, distance=max(distance, 0.0))
            )
        response.valid = not response.contacts and all(
            result.result for result in response.constraint_result
        )


def requested_targets(request: Any) -> list[tuple[str, PoseStamped]]:
    """Return the links of a PositionIKRequest, empty for the tip, and their target poses.

    Raises:
        RequestRejected: different numbers of links and poses.
    """
    links, poses = list(request.ik_link_names), list(request.pose_stamped_vector)
    if len(poses) == 1 and not links:
        links = [request.ik_link_name]
    if len(links) != len(poses):
        raise RequestRejected(
            Codes.INVALID_LINK_NAME,
            f"{len(links)} ik_link_names and {len(poses)} poses in pose_stamped_vector; give one "
            "pose for each link",
        )
    if not poses:
        return [(request.ik_link_name, request.pose_stamped)]
    return list(zip(links, poses, strict=True))


def _located(
    link: str, stamped: PoseStamped, frames: RobotFrames, q: Array
) -> tuple[str, Array, str]:
    """Return the link of a target, its pose in the robot's base, and a note; may be empty."""
    X_FT, note = pose_of(stamped.pose, f"the target of {link}" if link else "the target")
    X_BT = frames.pose(stamped.header.frame_id, q) @ X_FT
    carried = frames.scene_frame(link) if link else None
    if carried is not None and carried.link is not None:
        link, X_BT = carried.link, X_BT @ inverse(carried.X)
    return frames.name_of(link) if link else "", X_BT, note


def _limit_contact(robot: Robot, joint: str, depth: float) -> ContactInformation:
    """Return a violated joint limit as a contact; the response has no other field for it."""
    return ContactInformation(
        contact_body_1=robot.tree.joint(joint).child,
        contact_body_2=f"limit of {joint}",
        depth=depth,
    )


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
        self, own: KinematicsRequests, request: Any, response: Any, cancelled: Callable[[], bool]
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
            acceptance = CollisionFree(
                self._checkers.checker(group, scene, q), chain.chain.joint_names
            )
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

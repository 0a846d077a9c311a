# SPDX-License-Identifier: Apache-2.0
"""MoveIt's kinematics services: conversion from messages, computation, conversion to messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import ConstraintEvalResult, ContactInformation, MoveItErrorCodes, RobotState

from motion_nodes.core.ik.problem import IkRequest, IkResult, IkSettings
from motion_nodes.core.ik.task_mask import solve_reachable
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import InvalidCommand, UnknownFrame
from motion_nodes.nodes.kinematics.ik_chains import IkChains, SeveralTips
from motion_nodes.nodes.kinematics.solution_checks import (
    CollisionValidity,
    StateChecks,
    ValidityFactory,
    all_of,
    constraint_validity,
    contact_message,
    excesses,
)
from motion_nodes.ros.current_state_monitor import CurrentStateMonitor
from motion_nodes.ros.messages.goal_constraints import GoalContext
from motion_nodes.ros.messages.moveit_messages import (
    RequestRejected,
    fill_robot_state,
    joint_values,
    pose_message,
    pose_of,
    requested_group,
    seconds_of,
)
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array

Codes = MoveItErrorCodes


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
        note = "; ".join(dict.fromkeys(note for *_, note in located if note))
        timeout = seconds_of(request.timeout, "timeout")
        positions = dict(zip(self.robot.joint_names, q.tolist(), strict=True))
        context = GoalContext(self.robot, group, q, frames)
        factories = [constraint_validity(request.constraints, context)]
        collisions = None
        if request.avoid_collisions and scene is not None:
            collisions = self.collision_validity(group, q, scene)
            factories.append(collisions.check_for)
            note = "; ".join(filter(None, (note, self.scene_note())))
        link, X_BT, _ = located[0]
        if len(located) == 1 and (group.tip is not None or not link):
            result, names = self.solve(group, link, X_BT, q, timeout, all_of(factories))
        else:
            poses, names = {link: X_BT for link, X_BT, _ in located}, group.joints
            if len(poses) < len(located):
                raise RequestRejected(Codes.INVALID_LINK_NAME, "a link has two target poses")
            settings, valid = self._settings(timeout), all_of(factories)(names)
            result = self.several.solve(group, poses, q, settings, valid)
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

# SPDX-License-Identifier: Apache-2.0
"""Answers to MoveIt's kinematics services: messages in, core objects asked, messages out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import ConstraintEvalResult, ContactInformation, MoveItErrorCodes, RobotState
from numpy.typing import NDArray

from motion_nodes.errors import InvalidCommand, UnknownFrame
from motion_nodes.ik.problem import IkRequest, IkResult, IkSettings, IkStatus
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.poses import inverse
from motion_nodes.model.robot import Group, Robot
from motion_nodes.nodes.kinematics.ik_chains import IkChains
from motion_nodes.nodes.planner.solution_checks import (
    CollisionJudge,
    Judging,
    all_of,
    allowed,
    beyond,
    supported,
)
from motion_nodes.nodes.planner.state_checks import StateChecks, contact_message
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
from motion_nodes.scene.scene import Scene

Array = NDArray[np.float64]
Codes = MoveItErrorCodes

CODES = {
    IkStatus.SOLVED: Codes.SUCCESS,
    IkStatus.NOT_FOUND: Codes.NO_IK_SOLUTION,
    IkStatus.OUT_OF_REACH: Codes.NO_IK_SOLUTION,
    IkStatus.TIMED_OUT: Codes.TIMED_OUT,
    IkStatus.ITERATION_LIMIT: Codes.NO_IK_SOLUTION,
    IkStatus.REFUSED: Codes.NO_IK_SOLUTION,
}
"""MoveIt's code for each way that a search ends."""


@dataclass(frozen=True)
class Present:
    """The newest measured positions of all joints, or why they are not known."""

    q: Array
    trouble: str = ""


@dataclass(frozen=True)
class KinematicsRequests:
    """What the three services do; handlers may run in several threads at once."""

    robot: Robot
    kinematics: Kinematics
    """Of all joints, relative to the robot's base frame."""
    frames: RobotFrames
    chains: IkChains
    settings: Callable[[], IkSettings]
    """The settings now in force."""
    present: Callable[[], Present]
    scene: Callable[[RobotState, Array], Scene]
    """The scene now, with what a request's state attaches; it and where all joints are are given.
    Raises RequestRejected."""
    checks: StateChecks
    scene_note: Callable[[], str]
    """What a client should know of the scene, if anything."""

    def group(self, name: str) -> Group:
        """Return a group by name or alias; no name means the only one that has a tip.

        Raises:
            RequestRejected: when there is none or more than one.
        """
        return requested_group(self.robot, name)

    def state(self, given: RobotState, what: str) -> Array:
        """Return positions of all joints: those given, and the newest measured ones of the rest.

        Raises:
            RequestRejected: for a state that cannot be used, or joints of which nothing is known.
        """
        names = self.robot.joint_names
        values = joint_values(given, names, what)
        if len(values) == len(names):
            return np.array([values[name] for name in names])
        present = self.present()
        if present.trouble:
            lacking = ", ".join(name for name in names if name not in values)
            raise RequestRejected(
                Codes.INVALID_ROBOT_STATE,
                f"{what} does not give {lacking}, and the robot's state is not known: "
                f"{present.trouble}",
            )
        return np.array([values.get(name, q) for name, q in zip(names, present.q, strict=True)])

    def inverse(self, request: Any, response: Any) -> str:
        """Answer GetPositionIK.ik_request; return a note for the client.

        Raises:
            RequestRejected: for a request that cannot be served.
        """
        if len(request.ik_link_names) > 1 or len(request.pose_stamped_vector) > 1:
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS,
                f"{len(request.ik_link_names)} links are asked for at once; give one link and pose",
            )
        stamped = request.pose_stamped
        link = request.ik_link_name
        if request.pose_stamped_vector:
            stamped = request.pose_stamped_vector[0]
            link = request.ik_link_names[0] if request.ik_link_names else link
        group = self.group(request.group_name)
        link = self.frames.name_of(link) if link else ""
        q = self.state(request.robot_state, "the seed")
        X_FT, note = pose_of(stamped.pose, "the target")
        X_WT = self.frames.pose(stamped.header.frame_id, q) @ X_FT
        timeout = seconds_of(request.timeout, "timeout")
        everywhere = dict(zip(self.robot.joint_names, q.tolist(), strict=True))
        judges = [allowed(request.constraints, everywhere)]
        collisions = None
        if request.avoid_collisions:
            collisions = self.collisions(group, q, self.scene(request.robot_state, q))
            judges.append(collisions.judge)
            note = "; ".join(filter(None, (note, self.scene_note())))
        result, names = self.solve(group, link, X_WT, q, timeout, all_of(judges))
        if not result.success:
            code, words = CODES[result.status], ""
            if collisions is not None and collisions.refused:
                # The pose is reached; that time ran out over it is said in the words.
                code, words = Codes.NO_IK_SOLUTION, collisions.words()
            raise RequestRejected(code, "; ".join(filter(None, (words, result.reason, note))))
        solution = dict(zip(names, result.q.tolist(), strict=True))
        fill_robot_state(response.solution, everywhere | solution)
        return note

    def collisions(self, group: Group, q: Array, scene: Scene) -> CollisionJudge:
        """Return what judges solutions for a group by what they touch."""
        checker = self.checks.checker(group.joints, q, scene)
        return CollisionJudge(checker, self.robot.joint_names, q)

    def solve(
        self,
        group: Group,
        link: str,
        X_WT: Array,
        q: Array,
        timeout: float = 0.0,
        validity: Judging = lambda _: None,
    ) -> tuple[IkResult, tuple[str, ...]]:
        """Return what the search found and the joints of its ``q``.

        Args:
            group: whose joints move.
            link: frame that is to be at the target; empty: the group's tip.
            X_WT: target in the robot's base frame, shape (4, 4).
            q: where all joints are, shape (n,).
            timeout: [s]; 0 means the parameter's.
            validity: given the joints of a solution, what else it must fulfil.

        Raises:
            RequestRejected: for a group without a chain, a link that it does not move, or a bad
                target.
        """
        chain = self.chains.find(group, link)
        everywhere = dict(zip(self.robot.joint_names, q.tolist(), strict=True))
        settings = self.settings()
        if timeout:
            settings = replace(settings, timeout=timeout)
        try:
            result = chain.solver.solve(
                IkRequest(
                    target=X_WT,
                    seed=[everywhere[name] for name in chain.joint_names],
                    base_pose=self.kinematics.pose(q, chain.base),
                    locked={name: everywhere[name] for name in chain.locked},
                    validity=validity(chain.joint_names),
                    settings=settings,
                )
            )
        except InvalidCommand as error:
            raise RequestRejected(Codes.INVALID_GOAL_CONSTRAINTS, str(error)) from None
        return result, chain.joint_names

    def forward(self, request: Any, response: Any, stamp: Any) -> None:
        """Answer GetPositionFK.

        Raises:
            RequestRejected: for a request that cannot be served.
        """
        q = self.state(request.robot_state, "the state")
        names = [self.frames.name_of(name) if name else "" for name in request.fk_link_names]
        for name in names:
            if name not in self.kinematics.frame_names:
                error = UnknownFrame(name, self.kinematics.frame_names, self.robot.name)
                raise RequestRejected(Codes.INVALID_LINK_NAME, str(error))
        if not names:
            raise RequestRejected(
                Codes.INVALID_LINK_NAME, "no links asked for: fill in fk_link_names"
            )
        frame = request.header.frame_id or self.kinematics.base
        X_FB = inverse(self.frames.pose(frame, q))
        for name, given in zip(names, request.fk_link_names, strict=True):
            stamped = PoseStamped(pose=pose_message(X_FB @ self.kinematics.pose(q, name)))
            stamped.header.frame_id, stamped.header.stamp = frame, stamp
            response.pose_stamped.append(stamped)
            response.fk_link_names.append(given)

    def valid(self, request: Any, response: Any) -> None:
        """Answer GetStateValidity: limits, collisions, joint constraints, each by name.

        With a group, only its limits count, and what it can bring together.

        Raises:
            RequestRejected: for a state that cannot be used or an unknown group.
        """
        q = self.state(request.robot_state, "the state")
        names = self.robot.joint_names
        of_group: tuple[str, ...] = ()
        if request.group_name:
            names = of_group = self.group(request.group_name).joints
        indices = self.robot.indices(names)
        limits = self.robot.limits.select(names)
        values = dict(zip(names, q[indices].tolist(), strict=True))
        for k, name in enumerate(names):
            outside = max(limits.lower[k] - values[name], values[name] - limits.upper[k])
            if outside > 0.0:
                response.contacts.append(_limit_contact(self.robot, name, float(outside)))
        scene = self.scene(request.robot_state, q)
        for contact in self.checks.checker(of_group, q, scene).exact.explain(q):
            if contact.kind != "limit":
                response.contacts.append(contact_message(contact, scene, self.kinematics.base))
        for constraint in supported(request.constraints):
            distance = beyond(constraint, values)
            response.constraint_result.append(
                ConstraintEvalResult(result=distance <= 0.0, distance=max(distance, 0.0))
            )
        response.valid = not response.contacts and all(
            outcome.result for outcome in response.constraint_result
        )


def _limit_contact(robot: Robot, joint: str, beyond: float) -> ContactInformation:
    """Return a violated limit among the contacts, the one place that the answer has for reasons."""
    return ContactInformation(
        contact_body_1=robot.tree.joint(joint).child,
        contact_body_2=f"limit of {joint}",
        depth=beyond,
    )

# SPDX-License-Identifier: Apache-2.0
"""Validity of IK solutions and of states: constraints and collisions."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from moveit_msgs.msg import ContactInformation, MoveItErrorCodes, OrientationConstraint
from shape_msgs.msg import SolidPrimitive

from motion_nodes.core.ik.problem import Validity
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.poses import rotation_vector
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker, scene_for
from motion_nodes.core.scene.contacts import Contact
from motion_nodes.core.scene.exact_warm_up import after_compilation
from motion_nodes.core.scene.scene import Scene
from motion_nodes.ros.messages.constraints import (
    GoalContext,
    of_leaders,
    orientation_of,
    orientation_tolerances,
    refused,
    region_primitives,
    target_offset,
)
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array

Codes = MoveItErrorCodes
ValidityFactory = Callable[[Sequence[str]], Validity | None]
"""Creates the validity check for the joints of a solution, in their order; None: all are valid."""
MAX_DESCRIBED = 4
"""Max number of rejected configurations whose contacts are described."""


class StateChecks:
    """Checkers by group, each prepared once per planning scene."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._lock = threading.Lock()
        self._ready: dict[tuple[str, ...], tuple[Scene, CollisionChecker]] = {}
        self._compiled = threading.Event()
        self._compiled.set()

    @property
    def compiled(self) -> bool:
        """Whether the checks are compiled; until then requests wait for them."""
        return self._compiled.is_set()

    def wait(self) -> None:
        """Wait until the checks are compiled, some seconds once per machine."""
        self._compiled.wait()

    def warm_up(self) -> None:
        """Prepare the checks of the groups with a tip; compile them first, in a thread."""
        self._compiled = after_compilation(self._prepare)

    def _prepare(self) -> None:
        chains = [group.joints for group in self._robot.groups.values() if group.tip is not None]
        for joints in ((), *chains):
            self.checker(joints, self._robot.home, Scene())

    def checker(self, joints: tuple[str, ...], q: Array, scene: Scene) -> CollisionChecker:
        """Return a checker of configurations of all joints, for use in one thread.

        Args:
            joints: only pairs whose distance these joints can change are checked; empty for all.
            q: positions of all joints [rad or m], shape (n,).
            scene: to check against; the newest one is cached.
        """
        self.wait()
        with self._lock:
            known, checker = self._ready.get(joints, (None, None))
            if checker is None:
                checker = CollisionChecker(self._robot, self._robot.joint_names)
            if known is not scene:
                checker = checker.snapshot()
                checker.set_scene(scene_for(self._robot, joints, scene) if joints else scene)
                # Prepares the scene's tables, which the snapshots share.
                checker.exact.is_free(q)
                self._ready[joints] = scene, checker
        return checker.snapshot()


def in_words(contact: Contact) -> str:
    """Describe a contact without numbers, so that equal contacts have equal texts."""
    first, second = contact.pair
    return f"{first} touches {second}"


def contact_message(contact: Contact, scene: Scene, frame: str) -> ContactInformation:
    """Return a contact between links and objects as a message.

    Args:
        contact: not a violated joint limit.
        scene: that the objects belong to.
        frame: reference frame of the position.
    """
    message = ContactInformation(depth=contact.depth)
    message.header.frame_id = frame
    message.contact_body_1, message.contact_body_2 = contact.pair
    message.body_type_1, message.body_type_2 = (_body_type(n, scene) for n in contact.pair)
    p, n = message.position, message.normal
    p.x, p.y, p.z = contact.position.tolist()
    # Contact.normal points from the second body to the first, the message's normal vice versa.
    n.x, n.y, n.z = np.negative(contact.normal).tolist()
    return message


def _body_type(name: str, scene: Scene) -> int:
    if name in scene.objects:
        return int(ContactInformation.WORLD_OBJECT)
    if name in scene.attached:
        return int(ContactInformation.ROBOT_ATTACHED)
    return int(ContactInformation.ROBOT_LINK)


def excesses(constraints: Any, context: GoalContext) -> list[tuple[str, float]]:
    """Return how far a state is outside each constraint, joints first as in MoveIt.

    Args:
        constraints: moveit_msgs/Constraints. Of a visibility constraint the angles are evaluated,
            occlusion is not.
        context: with the state, and a group whose tip is meant by an empty link name.

    Returns:
        Name of each constraint and distance outside it [rad or m]; 0 or less inside. Those of mimic
        joints are constraints of their leaders.

    Raises:
        RequestRejected: an unknown joint, link or frame, or an invalid constraint.
    """
    values = dict(zip(context.robot.joint_names, context.q.tolist(), strict=True))
    return [
        *((each.joint_name, violation(each, values, context.robot.limits))
          for each in of_leaders(constraints.joint_constraints, context.robot)),
        *((_named(each, context), position_excess(each, context))
          for each in constraints.position_constraints),
        *((_named(each, context), orientation_excess(each, context))
          for each in constraints.orientation_constraints),
        *(("the line of sight", sight_excess(each, context))
          for each in constraints.visibility_constraints),
    ]  # fmt: skip


def _named(constraint: Any, context: GoalContext) -> str:
    return str(constraint.link_name or context.link(""))


class CollisionValidity:
    """Rejects configurations in collision, by the exact geometry."""

    def __init__(self, checker: CollisionChecker, joints: Sequence[str], q: Array) -> None:
        """Create a check.

        Args:
            checker: of all joints.
            joints: all joints, in the order of ``q``.
            q: positions of the joints that are not solved for [rad or m], shape (n,).
        """
        self._checker = checker
        self._joints = list(joints)
        self._q = q.copy()
        self._rejected: list[Array] = []

    @property
    def rejected(self) -> bool:
        """Whether any configuration was rejected."""
        return bool(self._rejected)

    def describe(self) -> str:
        """Return the pairs in contact in the first rejected configurations.

        Much slower than a check; for failures only.
        """
        texts: dict[str, None] = {}
        for q in self._rejected[:MAX_DESCRIBED]:
            contacts = [c for c in self._checker.exact.explain(q) if c.kind != "limit"]
            # The fast check may reject pairs at a distance of about zero.
            text = in_words(contacts[0]) if contacts else "the robot is nearly in contact"
            texts[text] = None
        return ", ".join(texts)

    def check_for(self, names: Sequence[str]) -> Validity:
        """Return the check of solutions for some joints; a :data:`ValidityFactory`."""
        columns = [self._joints.index(name) for name in names]

        def check(solution: Array) -> bool | str:
            self._q[columns] = solution
            if self._checker.exact.is_free(self._q):
                return True
            self._rejected.append(self._q.copy())
            return "in collision"

        return check


def all_of(factories: Sequence[ValidityFactory]) -> ValidityFactory:
    """Return the conjunction of several checks; the first rejection is reported."""

    def check_for(names: Sequence[str]) -> Validity | None:
        made = [factory(names) for factory in factories]
        checks = [each for each in made if each is not None]

        def check(q: Array) -> bool | str:
            results = (each(q) for each in checks)
            return next((result for result in results if result is not True), True)

        return check if checks else None

    return check_for


def constraint_validity(constraints: Any, context: GoalContext) -> ValidityFactory:
    """Return the check of the constraints of a request.

    Args:
        constraints: moveit_msgs/Constraints of the request.
        context: with the positions of the joints that are not solved for.

    Raises:
        RequestRejected: an invalid constraint.
    """
    excesses(constraints, context)  # Raises for an invalid one
    joints = list(context.robot.joint_names)

    def check_for(names: Sequence[str]) -> Validity:
        columns = [joints.index(name) for name in names]

        def check(solution: Array) -> bool | str:
            q = context.q.copy()
            q[columns] = solution
            for name, excess in excesses(constraints, replace(context, q=q, notes=[])):
                if excess > 0.0:
                    return f"{name} violates its constraint by {excess:.4g}"
            return True

        return check

    return check_for


def violation(constraint: Any, values: Mapping[str, float], limits: JointLimits) -> float:
    """Return the distance of a joint outside its constraint [rad or m]; 0 or less inside.

    Positions outside a limit by rounding are at the limit, of the joint and of the constraint.

    Args:
        constraint: moveit_msgs/JointConstraint.
        values: joint positions by name [rad or m].
        limits: of these joints; positions of continuous ones are equal modulo a turn.

    Raises:
        RequestRejected: an unknown joint, or numbers that are not finite.
    """
    name = constraint.joint_name
    if name not in values:
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            f"unknown joint '{name}' in a joint constraint; allowed: {', '.join(values)}",
        )
    numbers = (constraint.position, constraint.tolerance_above, constraint.tolerance_below)
    if not all(map(math.isfinite, numbers)):
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            f"the constraint of joint '{name}' has numbers that are not finite: {numbers}",
        )
    only = limits.select([name])
    (position,), (value,) = only.settled([constraint.position]), only.settled([values[name]])
    lower, upper = position - constraint.tolerance_below, position + constraint.tolerance_above
    excess = float(only.turns.excess([value], [lower], [upper])[0])
    return 0.0 if 0.0 < excess <= EQUAL_POSITIONS else excess


def position_excess(constraint: Any, context: GoalContext) -> float:
    """Return the distance of a PositionConstraint's point outside its region [m]; 0 inside.

    Raises:
        RequestRejected: an unknown link or frame, or an invalid region.
    """
    offset = target_offset(constraint)
    X_BL = context.frames.pose(_named(constraint, context), context.q)
    point = (X_BL if offset is None else X_BL @ offset)[:3, 3]
    distances = []
    for X_BR, primitive in region_primitives(constraint, context):
        p, sizes = X_BR[:3, :3].T @ (point - X_BR[:3, 3]), list(primitive.dimensions)
        if primitive.type == SolidPrimitive.SPHERE:
            outside = [float(np.linalg.norm(p)) - sizes[0]]
        elif primitive.type == SolidPrimitive.CYLINDER:
            outside = [math.hypot(p[0], p[1]) - sizes[1], abs(float(p[2])) - 0.5 * sizes[0]]
        else:
            outside = [abs(float(x)) - 0.5 * size for x, size in zip(p, sizes, strict=True)]
        distances.append(math.hypot(*(max(x, 0.0) for x in outside)))
    return max(min(distances) - EQUAL_POSITIONS, 0.0)


def orientation_excess(constraint: Any, context: GoalContext) -> float:
    """Return the angle of a link outside its OrientationConstraint [rad]; 0 or less inside.

    Raises:
        RequestRejected: an unknown link or frame, or an invalid orientation.
    """
    R_BT, _ = orientation_of(constraint, context)
    R = R_BT.T @ context.frames.pose(_named(constraint, context), context.q)[:3, :3]
    if constraint.parameterization == OrientationConstraint.ROTATION_VECTOR:
        errors = np.array(rotation_vector(R))
    else:
        errors = np.array(
            [
                math.atan2(-R[1, 2], R[2, 2]),
                math.asin(min(max(R[0, 2], -1.0), 1.0)),
                math.atan2(-R[0, 1], R[0, 0]),
            ]
        )
    return float((np.abs(errors) - orientation_tolerances(constraint)).max()) - EQUAL_POSITIONS


def sight_excess(constraint: Any, context: GoalContext) -> float:
    """Return the angle by which a VisibilityConstraint is exceeded [rad]; 0 or less inside.

    Raises:
        RequestRejected: an unknown frame, or invalid angles or axes.
    """
    axes = {0: 2, 1: 1, 2: 0}
    angles = (constraint.max_view_angle, constraint.max_range_angle)
    if constraint.sensor_view_direction not in axes or not all(
        math.isfinite(angle) and angle >= 0.0 for angle in angles
    ):
        raise refused(
            f"a visibility constraint has the angles {angles} and sensor_view_direction "
            f"{constraint.sensor_view_direction}; allowed are finite angles that are not negative, "
            "and 0 (z), 1 (y), 2 (x)"
        )
    X_BS, X_BT = (
        context.frames.pose(given.header.frame_id, context.q)
        @ pose_of(given.pose, f"the {what} of a visibility constraint")[0]
        for what, given in (("sensor", constraint.sensor_pose), ("target", constraint.target_pose))
    )
    axis, towards = X_BS[:3, axes[constraint.sensor_view_direction]], X_BT[:3, 3] - X_BS[:3, 3]
    distance = float(np.linalg.norm(towards))
    cosines = (-axis @ X_BT[:3, 2], axis @ towards / distance if distance else 1.0)
    given = [
        math.acos(min(max(float(cosine), -1.0), 1.0)) - limit
        for cosine, limit in zip(cosines, angles, strict=True)
        if limit > 0.0
    ]
    return max(given, default=0.0) - EQUAL_POSITIONS

# SPDX-License-Identifier: Apache-2.0
"""moveit_msgs/Constraints to the planners' goals.

What cannot be understood, or contradicts itself, is refused in words; nothing is left out silently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.errors import UnknownJoint
from motion_nodes.planning.planning_problem import Goal, JointGoal
from motion_nodes.ros.messages.goal_context import GoalContext, refused
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.pose_constraints import orientation_of, pose_goals

Codes = MoveItErrorCodes

STANDS_STILL = 1e-3
"""[rad or m] A joint that is not planned for may be so far beyond its constraint."""


def goals_of(alternatives: Sequence[Any], context: GoalContext) -> tuple[Goal, ...]:
    """Return the goals in ``goal_constraints``, of which any will do.

    Raises:
        RequestRejected: for none, empty or contradictory ones, or a kind that is not understood.
    """
    if not alternatives:
        raise RequestRejected(Codes.INVALID_GOAL_CONSTRAINTS, "no goal: goal_constraints is empty")
    goals: list[Goal] = []
    for number, constraints in enumerate(alternatives, start=1):
        try:
            goals += _goals(constraints, context)
        except RequestRejected as refusal:
            where = f"goal {number} of {len(alternatives)}: " if len(alternatives) > 1 else ""
            raise RequestRejected(refusal.code, f"{where}{refusal}") from None
    return tuple(goals)


def _goals(constraints: Any, context: GoalContext) -> list[Goal]:
    if constraints.visibility_constraints:
        raise refused("visibility constraints are not understood")
    places, turns = constraints.position_constraints, constraints.orientation_constraints
    joints = joint_goal(constraints.joint_constraints, context)
    if places or turns:
        return [replace(goal, joints=joints) for goal in pose_goals(places, turns, context)]
    if joints is None:
        raise refused(
            f"its joints are not those of group '{context.group.name}'"
            if constraints.joint_constraints
            else "it has no joint, position or orientation constraints"
        )
    return [joints]


# ---- joints


def joint_goal(constraints: Sequence[Any], context: GoalContext) -> JointGoal | None:
    """Return the goal in joint constraints; None where they name no joint of the group.

    Joints of the group that are not named may end anywhere, where they are if that serves.

    Raises:
        RequestRejected: for unknown joints, contradictions, or others that would have to move.
    """
    group = context.group
    limits = group.limits
    q = context.start.copy()
    wide = np.where(np.isfinite(limits.upper - limits.lower), 0.0, math.pi)
    low = np.where(wide > 0.0, q - wide, limits.lower)
    high = np.where(wide > 0.0, q + wide, limits.upper)
    low, high = np.minimum(low, q), np.maximum(high, q)
    named: set[str] = set()
    for constraint in constraints:
        least, most = _interval(constraint, context)
        if constraint.joint_name not in group.joints:
            continue
        i = group.joints.index(constraint.joint_name)
        if constraint.joint_name in named:
            least, most = max(low[i], least), min(high[i], most)
            if least > most:
                raise refused(f"two constraints of {group.joints[i]} contradict each other")
        named.add(constraint.joint_name)
        if max(least, limits.lower[i]) <= min(most, limits.upper[i]):
            least, most = max(least, limits.lower[i]), min(most, limits.upper[i])
        low[i], high[i] = least, most
        q[i] = min(max(constraint.position, least), most)
    if not named:
        return None
    return JointGoal(q, below=q - low, above=high - q)


def _interval(constraint: Any, context: GoalContext) -> tuple[float, float]:
    """Return where a constraint allows its joint to be.

    Raises:
        RequestRejected: for an unknown joint, bad numbers, or a joint of another group that is
            elsewhere.
    """
    name, names = constraint.joint_name, context.robot.joint_names
    if name not in names:
        raise refused(str(UnknownJoint(name, names, context.robot.name)))
    position = constraint.position
    below, above = constraint.tolerance_below, constraint.tolerance_above
    if not all(map(math.isfinite, (position, below, above))) or min(below, above) < 0.0:
        raise refused(
            f"the constraint of {name} needs finite numbers and tolerances that are not negative; "
            f"it has position {position}, tolerance_below {below}, tolerance_above {above}"
        )
    least, most = position - below, position + above
    if name not in context.group.joints:
        value = context.q[names.index(name)]
        if not least - STANDS_STILL <= value <= most + STANDS_STILL:
            raise refused(
                f"{name} is at {value:.4f} and is to be in [{least:.4f}, {most:.4f}], but group "
                f"'{context.group.name}' does not move it; its joints: "
                f"{', '.join(context.group.joints)}"
            )
    return least, most


# ---- constraints along the way


def refuse_constraints_on_the_way(along: Any, context: GoalContext) -> None:
    """Refuse path constraints, unless they hold whatever the path.

    Raises:
        RequestRejected: names what cannot be held.
    """
    for constraint in along.joint_constraints:
        least, most = _interval(constraint, context)
        if constraint.joint_name not in context.group.joints:
            continue
        i = context.group.joints.index(constraint.joint_name)
        if least <= context.group.limits.lower[i] and most >= context.group.limits.upper[i]:
            continue
        if not least <= context.start[i] <= most:
            raise RequestRejected(
                Codes.START_STATE_VIOLATES_PATH_CONSTRAINTS,
                f"{constraint.joint_name} starts at {context.start[i]:.4f}, outside its path "
                f"constraint [{least:.4f}, {most:.4f}]",
            )
        raise _cannot_hold(f"of joint {constraint.joint_name}")
    for constraint in along.orientation_constraints:
        _, bounds = orientation_of(constraint, context)
        if not all(map(math.isinf, bounds)):
            raise _cannot_hold(f"on the orientation of {context.link(constraint.link_name)}")
    for constraint in along.position_constraints:
        raise _cannot_hold(f"on the position of {context.link(constraint.link_name)}")
    if along.visibility_constraints:
        raise _cannot_hold("on visibility")


def _cannot_hold(what: str) -> RequestRejected:
    return refused(
        f"a path constraint {what} cannot be held by these planners; leave path_constraints empty "
        "or plan a straight line with compute_cartesian_path"
    )

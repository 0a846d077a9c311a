# SPDX-License-Identifier: Apache-2.0
"""Planning goals from moveit_msgs/Constraints.

Unsupported or contradictory constraints are rejected with a reason; none is ignored silently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.model.limits import LIMIT_ROUNDING
from motion_nodes.model.robot import Robot
from motion_nodes.planning.planning_problem import Goal, JointGoal
from motion_nodes.ros.messages.goal_context import GoalContext, refused
from motion_nodes.ros.messages.mimic_messages import leader_constraints
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.pose_constraints import pose_goals

Codes = MoveItErrorCodes

STATE_TOLERANCE = 1e-3
"""[rad or m] Tolerance of constraints on joints outside the planning group."""


def goals_of(alternatives: Sequence[Any], context: GoalContext) -> tuple[Goal, ...]:
    """Return the alternative goals in ``goal_constraints``.

    Args:
        alternatives: the constraints, of which one must be satisfied.
        context: robot, group and state of the request.

    Raises:
        RequestRejected: they are missing, empty, contradictory or unsupported.
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
        raise refused("visibility constraints are not supported")
    positions, orientations = constraints.position_constraints, constraints.orientation_constraints
    joints = joint_goal(constraints.joint_constraints, context)
    if positions or orientations:
        goals = pose_goals(positions, orientations, context)
        return [replace(goal, joints=joints) for goal in goals]
    if joints is None:
        raise refused(
            f"its joints are not those of group '{context.group.name}'"
            if constraints.joint_constraints
            else "it has no joint, position or orientation constraints"
        )
    return [joints]


# ---- joints


def joint_goal(constraints: Sequence[Any], context: GoalContext) -> JointGoal | None:
    """Return the goal of joint constraints; None if they contain no joint of the group.

    Joints of the group without a constraint are free; their start positions are preferred.

    Args:
        constraints: list of JointConstraint.
        context: robot, group and state of the request.

    Raises:
        RequestRejected: unknown joints, contradictory constraints, or a constraint on a joint
            outside the group that is violated.
    """
    group = context.group
    limits = group.limits
    q = context.start.copy()
    unlimited = ~np.isfinite(limits.upper - limits.lower)
    low = np.where(unlimited, q - math.pi, limits.lower)
    high = np.where(unlimited, q + math.pi, limits.upper)
    low, high = np.minimum(low, q), np.maximum(high, q)
    named: set[str] = set()
    for constraint in of_leaders(constraints, context.robot):
        lower, upper = joint_interval(constraint, context)
        if constraint.joint_name not in group.joints:
            continue
        i = group.joints.index(constraint.joint_name)
        # Of a continuous joint, the interval nearest to its start, or to the other interval.
        near = np.where(np.arange(len(q)) == i, constraint.position, q)
        offset = float(limits.turns.offset(near, q)[i])
        position, lower, upper = constraint.position + offset, lower + offset, upper + offset
        if constraint.joint_name in named:
            lower, upper = max(low[i], lower), min(high[i], upper)
            if lower > upper:
                raise refused(f"two constraints of {group.joints[i]} contradict each other")
        named.add(constraint.joint_name)
        if max(lower, limits.lower[i]) <= min(upper, limits.upper[i]) + LIMIT_ROUNDING:
            lower, upper = (
                float(np.clip(end, limits.lower[i], limits.upper[i])) for end in (lower, upper)
            )
        low[i], high[i] = lower, upper
        q[i] = min(max(position, lower), upper)
    if not named:
        return None
    return JointGoal(q, below=q - low, above=high - q)


def of_leaders(constraints: Sequence[Any], robot: Robot) -> list[Any]:
    """Return joint constraints with those of mimic joints as constraints of their leaders.

    Raises:
        RequestRejected: one that the constraint of its leader contradicts.
    """
    try:
        return leader_constraints(constraints, robot.tree)
    except InvalidCommand as error:
        raise refused(str(error)) from None


def joint_interval(constraint: Any, context: GoalContext) -> tuple[float, float]:
    """Return the interval that a constraint allows [rad or m].

    Raises:
        RequestRejected: an unknown joint, invalid numbers, or a joint outside the group that
            violates its constraint.
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
    lower, upper = position - below, position + above
    if name not in context.group.joints:
        k = names.index(name)
        value = context.q[k]
        turns = context.robot.limits.turns.select(np.array([k]))
        if turns.excess([value], [lower], [upper])[0] > STATE_TOLERANCE:
            raise refused(
                f"{name} is at {value:.4f}, outside its constraint [{lower:.4f}, {upper:.4f}], but "
                f"group '{context.group.name}' does not move it; its joints: "
                f"{', '.join(context.group.joints)}"
            )
    return lower, upper

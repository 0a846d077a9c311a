# SPDX-License-Identifier: Apache-2.0
"""Default configurations of a new robot: collision-free, within limits, holdable, not singular."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.typing import Array

_FROM_THE_ENDS = 0.05  # min distance of home from the limits, as a fraction of the range
_NEAREST = 500  # candidates for a home that the drives can hold
_BEST = 50  # candidates that are tested with the additional condition
_NEARLY = 0.9  # product of manipulability and distance from limits, as a fraction of the best
_HELD = 0.8  # max gravity effort, as a fraction of the effort limit


def first_home(robot: Robot) -> Array:
    """Return all joints at zero [rad or m], or slightly inside their limits."""
    lower, upper = robot.limits.lower, robot.limits.upper
    ranges = np.where(np.isfinite(upper - lower), upper - lower, 0.0)
    room = np.where(np.isfinite(upper - lower), _FROM_THE_ENDS * ranges, 0.0)
    inside = np.clip(0.0, lower + room, upper - room)
    zero_is_near = (lower <= 0.0) & (upper >= 0.0)
    return np.where(zero_is_near, 0.0, inside)


def gravity_check(robot: Robot) -> Callable[[Array], NDArray[np.bool_]]:
    """Return a function that checks whether the drives hold configurations against gravity.

    Args:
        robot: the robot, upright.

    Returns:
        Function of configurations of all joints, shape (m, n): whether gravity efforts are within
        80 % of the effort limits, shape (m,).
    """
    dynamics = InverseDynamics(robot.tree, robot.joint_names, generic=True)

    def are_held(Q: Array) -> NDArray[np.bool_]:
        still = np.zeros_like(Q)
        load = np.abs(dynamics.efforts_batch(np.ascontiguousarray(Q), still, still))
        return np.asarray((load <= _HELD * robot.limits.effort).all(axis=1))

    return are_held


def held_home(robot: Robot, checker: CollisionChecker, Q: Array) -> Array:
    """Return the collision-free configuration closest to home that the drives can hold.

    Args:
        robot: robot with a collision-free home.
        checker: collision checker of all joints.
        Q: candidates, shape (m, n).

    Returns:
        The robot's home if the drives can hold it, or if no candidate can be held.
    """
    home, are_held = robot.home, gravity_check(robot)
    if are_held(home[None])[0]:
        return home
    free = Q[checker.are_free(Q)]
    nearest = free[np.argsort(np.linalg.norm(free - home, axis=1))[:_NEAREST]]
    held = nearest[are_held(nearest)] if len(nearest) else nearest
    if not len(held):
        return home
    best = held[0]
    return nearer_home(lambda q: checker.is_free(q) and bool(are_held(q[None])[0]), best, home)


def nearer_home(allowed: Callable[[Array], bool], free: Array, desired: Array) -> Array:
    """Return an allowed configuration close to the desired one, joint by joint.

    Args:
        allowed: whether a configuration is a valid home, for example collision-free.
        free: an allowed configuration, shape (n,).
        desired: the desired configuration, shape (n,).
    """
    found = free.round(4)
    if not allowed(found):
        return free
    for k in range(len(found)):
        for share in (1.0, 0.75, 0.5, 0.25):
            tried = found.copy()
            tried[k] = round(found[k] + share * (desired[k] - found[k]), 4)
            if allowed(tried):
                found = tried
                break
    return found


def ready_state(
    robot: Robot,
    joints: tuple[str, ...],
    tip: str,
    checker: CollisionChecker,
    Q: Array,
    allowed: Callable[[Array], bool] = lambda q: True,
) -> dict[str, float]:
    """Return a configuration of a chain with high manipulability.

    Among random collision-free configurations, the one with the max product of manipulability
    (Yoshikawa, Manipulability of robotic mechanisms, IJRR 4, 1985) and distance from the joint
    limits, and from there each joint closer to home while the product hardly decreases: the joints
    at both ends of an arm have no influence on it. The other joints are at home.

    Args:
        robot: the robot.
        joints: joints of the chain.
        tip: link at its end.
        checker: collision checker of all joints.
        Q: candidates, shape (m, n).
        allowed: additional condition, tested on the best candidates.

    Returns:
        Positions by joint; empty if none is collision-free.
    """
    columns = robot.indices(joints)
    tried = np.tile(robot.home, (len(Q), 1))
    tried[:, columns] = Q[:, columns]
    # Configurations more than half a turn from home may be unreachable because of self-collisions
    # on the path.
    near = (np.abs(tried - robot.home) <= np.pi).all(axis=1)
    tried = tried[near] if near.any() else tried
    tried = tried[checker.are_free(tried)]
    if not len(tried):
        return {}
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    lower, upper = robot.limits.lower[columns], robot.limits.upper[columns]
    bounded = np.isfinite(upper - lower)
    reach = 0.0

    def scores(Q: Array) -> Array:
        nonlocal reach
        jacobians = kinematics.jacobian_batch(Q, tip)[:, :, columns]
        reach = reach or max(float(np.linalg.norm(jacobians[:, :3], axis=(1, 2)).max()), 1e-9)
        jacobians[:, :3] /= reach
        singular = np.linalg.svd(jacobians, compute_uv=False)
        share = (Q[:, columns] - lower)[:, bounded] / (upper - lower)[bounded]
        middle = np.prod(4.0 * share * (1.0 - share), axis=1)
        measure = np.prod(singular[:, : min(6, len(joints))], axis=1)
        return np.asarray(measure * np.power(middle, 0.25))

    are_held, found = gravity_check(robot), scores(tried)
    order = np.argsort(-found)[:_BEST]
    held = order[are_held(tried[order])]
    best = next((int(k) for k in held if allowed(tried[k])), int(order[0]))
    least = _NEARLY * found[best]

    def as_good(q: Array) -> bool:
        good = checker.is_free(q) and bool(are_held(q[None])[0]) and scores(q[None])[0] >= least
        return good and allowed(q)

    ready = nearer_home(as_good, tried[best], robot.home)
    return dict(zip(joints, ready[columns].tolist(), strict=True))

# SPDX-License-Identifier: Apache-2.0
"""Law by which joints follow an attractor, in rollouts and in the executed motion alike.

All joints move towards the attractor in proportion, so that from rest the motion is a straight line
in joint space. The common rate is such that no joint exceeds its velocity limit or the velocity
from which it can stop at the attractor; close to it the velocity is proportional to the offset.

The formulas work on expression graphs and on NumPy arrays, depending on ``ops``.
"""

from __future__ import annotations

import math
from typing import Any

from motion_nodes.kernels.formulas.ops import Ops

GAIN = 5.0
"""Rate of approach close to the attractor [1/s]."""
RESPONSE = 0.05
"""Time constant of the velocity [s]; with the gain, the approach is critically damped."""
SPEED_SHARE, BRAKING_SHARE = 0.95, 0.5
"""Shares of the velocity and acceleration limits that the law uses."""
TINY = 1e-6


def response(dt: float) -> float:
    """Return the rate at which the velocity responds, for steps of a length [s]; [1/s]."""
    return (1.0 - math.exp(-dt / RESPONSE)) / dt


def rate(ops: Ops, offset: Any, speed: Any, acceleration: Any) -> Any:
    """Return the max rate of a joint [1/s]; that of the motion is the min of all joints.

    Args:
        ops: operations.
        offset: of the attractor from the joint [rad or m].
        speed: velocity limit.
        acceleration: acceleration limit.
    """
    length = ops.absolute(offset) + TINY
    braking = ops.root(ops.divide(2.0 * BRAKING_SHARE * acceleration, length))
    return ops.minimum(GAIN, ops.minimum(braking, ops.divide(SPEED_SHARE * speed, length)))


def acceleration(rate_of_all: Any, offset: Any, velocity: Any, response_of_step: Any) -> Any:
    """Return the acceleration of a joint, before limits [rad/s^2 or m/s^2].

    Args:
        rate_of_all: common rate of the motion [1/s].
        offset: of the attractor from the joint [rad or m].
        velocity: of the joint.
        response_of_step: see :func:`response` [1/s].
    """
    return (rate_of_all * offset - velocity) * response_of_step

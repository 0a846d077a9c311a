# SPDX-License-Identifier: Apache-2.0
"""Tracking law of joints that follow an attractor, for rollouts and for the executed motion.

All joints approach the attractor at a common rate, so that from rest the motion is a straight line
in joint space. At this rate no joint exceeds its velocity limit or the velocity from which it can
stop at the attractor; close to it the velocity is proportional to the offset.

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
"""Added to offsets, so that quotients stay finite [rad or m]."""


def response(dt: float) -> float:
    """Return the velocity's response (1 - exp(-dt / RESPONSE)) / dt [1/s] for time steps dt [s]."""
    return (1.0 - math.exp(-dt / RESPONSE)) / dt


def rate(ops: Ops, offset: Any, speed: Any, acceleration: Any) -> Any:
    """Return the max rate of a joint [1/s]; the motion's rate is the min of all joints.

    Args:
        ops: operations.
        offset: of the attractor from the joint [rad or m].
        speed: velocity limit [rad/s or m/s].
        acceleration: acceleration limit [rad/s^2 or m/s^2].
    """
    length = ops.absolute(offset) + TINY
    braking = ops.root(ops.divide(2.0 * BRAKING_SHARE * acceleration, length))
    return ops.minimum(GAIN, ops.minimum(braking, ops.divide(SPEED_SHARE * speed, length)))


def acceleration(rate_of_all: Any, offset: Any, velocity: Any, response_of_step: Any) -> Any:
    """Return the acceleration of a joint, before limits [rad/s^2 or m/s^2].

    Args:
        rate_of_all: common rate of the motion [1/s].
        offset: of the attractor from the joint [rad or m].
        velocity: of the joint [rad/s or m/s].
        response_of_step: see :func:`response` [1/s].
    """
    return (rate_of_all * offset - velocity) * response_of_step

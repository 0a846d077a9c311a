# SPDX-License-Identifier: Apache-2.0
"""Max plausible change of a measured joint position between two measurements."""

from __future__ import annotations

from motion_nodes.typing import Array

SPEED_FACTOR = 2.0
"""Max measured velocity as a multiple of the velocity limit."""
LATENESS = 0.05
"""Max delay of a message [s]."""
SLACK = 0.05
"""Position tolerance for noise, backlash and coarse encoders [rad or m]."""


def max_plausible_step(max_velocity: Array, dt: Array | float) -> Array:
    """Return the max plausible change of joint positions between two measurements.

    Args:
        max_velocity: velocity limits [rad/s or m/s], shape (n,); infinite if unlimited.
        dt: time between the measurements [s], scalar or shape (n,).

    Returns:
        Max changes [rad or m], shape (n,).
    """
    return SLACK + SPEED_FACTOR * max_velocity * (dt + LATENESS)

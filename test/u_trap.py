# SPDX-License-Identifier: Apache-2.0
"""A trap for reactive policies: walls around the hand of a Franka, and a target beyond them."""

U_WALLS = {
    "back": ((0.02, 0.36, 0.4), (0.5, 0.0, 0.45)),
    "left": ((0.2, 0.02, 0.4), (0.4, 0.18, 0.45)),
    "right": ((0.2, 0.02, 0.4), (0.4, -0.18, 0.45)),
}
"""Sizes and positions of boxes [m]: a U that is open towards the robot and upwards."""
BEYOND_U = (0.68, 0.0, 0.25)
"""Position of the target [m]."""

# SPDX-License-Identifier: Apache-2.0
"""Numerical tolerances, by quantity: within which values count as equal, as zero, or as at rest.

Each is a row: name, value, and [unit] with its origin. What has the same meaning uses the same row.
Compiled kernels state their own next to the algorithm whose convergence they are part of; bounds
that a client or a setting chooses are settings.
"""

from __future__ import annotations

# ---- positions of joints

EXACT_POSITIONS = 1e-12
"""[rad or m] Equal after one addition in double precision, for values up to a thousand."""
EQUAL_POSITIONS = 1e-9
"""[rad or m] Equal except for rounding: sums of some hundred terms in double precision."""
POSITION_ROUNDING = 1e-6
"""[rad, m, or a ratio] Equal except for the rounding of another program: six decimals of a text."""
UNCHANGED_POSITIONS = 1e-6
"""[rad or m] Motion for which a result of the last configuration is used again: its relative error
is of the same size."""
LIMIT_ROUNDING = 1e-4
"""[rad or m] Distance outside a position limit that is rounding: goals, waypoints, constraints and
commands within it are accepted and moved to the limit. Four decimals of a text."""
DUPLICATE_SOLUTIONS = 1e-4
"""[rad or m] Solutions of inverse kinematics that differ by less in each joint are duplicates: an
arm's branches differ by far more, one solution found twice by far less."""
DUPLICATE_GOALS = 0.05
"""[rad or m] Goal configurations that differ by less in each joint are duplicates: a search reaches
both alike."""
DUPLICATE_BRANCHES = 0.1
"""[rad or m] Configurations of a target that differ by less in each joint are the same branch."""
UNSENT_STEP = 0.01
"""[rad or m] Changes of a reference at rest below this are not sent, beside another controller."""
MEASURED_NOISE = 0.05
"""[rad or m] Noise, backlash and coarse encoders of measured positions."""

# ---- lengths, angles and poses

MIN_LENGTH = 1e-9
"""[m] In place of the size of a solid that is a point."""
EQUAL_POINTS = 1e-6
"""[m] Distance below which points count as one: far below what any drive or sensor resolves."""
EQUAL_DIRECTIONS = 1e-6
"""[rad] Angle below which orientations count as one, likewise."""
DEPTH_ACCURACY = 1e-6
"""[m] Accuracy of penetration depths between convex solids."""
SINGLE_PRECISION = 1e-6
"""[m] Rounding of coordinates up to ten metres in single precision."""
RESTING_DEPTH = 5e-5
"""[m] Penetration below which a pair is not in collision: resting contacts."""
NO_ROTATION = 1e-12
"""[rad] Angle below which an axis of rotation is not defined in double precision."""
EQUAL_POSES = 1e-9
"""[m, or 1] Difference of the elements of equal poses, for rounding of quaternions."""

# ---- speeds and accelerations

ZERO_SPEED = 1e-9
"""[rad/s or m/s] Speed below which there is no direction of motion."""
SPEED_ROUNDING = 1e-6
"""[rad/s or m/s] Speed towards a limit below which a joint is at rest there."""
STANDING_SPEED = 1e-3
"""[rad/s or m/s] Max velocity of a joint at rest."""
SETTLED_SPEED = 0.01
"""[rad/s or m/s] Max velocity of the joints of an arm that no longer approaches its target."""
UNFELT_SPEED_SQUARED = 1e-4
"""[m^2/s^2 + rad^2/s^2] Squared speed below which no energy is generated."""
ZERO_ACCELERATION = 1e-9
"""[rad/s^2 or m/s^2] Below this, rounding, with which Ruckig finds no motion."""
RUCKIG_STATE = 2e-8
"""[rad, m, or per second] Accuracy of Ruckig at its targets."""
RUCKIG_ACCELERATION = 1e-6
"""[rad/s^2 or m/s^2] The same of accelerations."""

# ---- durations

PERIOD_ROUNDING = 1e-6
"""[s] Difference of sums of periods that is rounding."""

# ---- ratios

EXACT_RATIO = 1e-12
"""[1] Equal except for rounding of a few operations in double precision."""
RATIO_ROUNDING = 1e-9
"""[1] Equal except for rounding: relative to the larger value."""
FILE_ROUNDING = 1e-6
"""[1] Relative difference of equal numbers in files, which have six digits."""
LIMIT_SHARE = 1e-3
"""[1] Relative tolerance of limits, for the rounding of motions that are sampled."""
NEVER_ZERO = 1e-300
"""[1] In place of a divisor that is zero."""

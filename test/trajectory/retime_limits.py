# SPDX-License-Identifier: Apache-2.0
"""Limits for tests of timing, and a dense check of limits."""

import dataclasses

import numpy as np

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_path import CornerBlending

VELOCITY = np.array([2.175] * 4 + [2.61] * 3)
ACCELERATION = np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])
JERK = np.array([7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0])


def limits_of(velocity, acceleration, jerk=np.inf, span=10.0):
    """Return limits of one joint per velocity."""
    velocity = np.atleast_1d(np.asarray(velocity, dtype=float))
    n = len(velocity)
    one = np.ones(n)
    return JointLimits(
        tuple(f"joint{i + 1}" for i in range(n)),
        -span * one,
        span * one,
        velocity,
        80.0 * one,
        one * acceleration,
        one * jerk,
    )


def arm_limits(jerk=np.inf):
    """Return limits like those of an arm with seven joints."""
    return limits_of(VELOCITY, ACCELERATION, jerk)


def without_jerk(limits):
    """Return limits without those of jerk."""
    return dataclasses.replace(limits, jerk=np.full(len(limits.names), np.inf))


def random_path(seed, with_jerk, most=25):
    """Return waypoints, limits and blending of a path of 1 to 8 joints with < ``most`` waypoints.

    Some waypoints repeat, some segments turn back; lengths and limits span decades.
    """
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 9)), int(rng.integers(2, most))
    points = 10.0 ** rng.uniform(-5.0, 0.5) * rng.normal(size=(k, n))
    points[rng.random(k) < 0.2] = points[0]
    points[-1] += 1e-5
    jerk = 10.0 ** rng.uniform(0.5, 4.0, n) if with_jerk else np.inf
    limits = limits_of(rng.uniform(0.1, 5.0, n), rng.uniform(0.5, 30.0, n), jerk, span=100.0)
    return points, limits, CornerBlending(float(rng.choice([0.0, 1e-3, 0.01, 0.1, 1.0])))


def fault_of(motion, points, limits):
    """Return what is wrong with a motion along waypoints; empty: nothing."""
    if not np.allclose(motion.states([0.0, motion.end_time])[0], points[[0, -1]], 0.0, 1e-8):
        return "it does not end where it should"
    if not (np.diff(motion.times) > 0.0).all():
        return "time does not rise"
    over = excess(motion, limits)
    return "" if over <= 1e-6 else f"a limit is exceeded by {over:.1e}"


def excess(trajectory, limits, rate=1000.0):
    """Return the max excess over velocity, acceleration and jerk limits at a rate [Hz]."""
    times = np.append(np.arange(0.0, trajectory.end_time, 1.0 / rate), trajectory.end_time)
    _, v, a, j = trajectory.states(times)
    pairs = ((v, limits.velocity), (a, limits.acceleration), (j, limits.jerk))
    return max(float(np.max(np.abs(x) - bound)) for x, bound in pairs)

# SPDX-License-Identifier: Apache-2.0
"""Collision-free path shortening."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.collision.checker_bridge import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search.path_shorten import Effort, shorten
from motion_nodes.model.tree import Array
from motion_nodes.planning.search_settings import ShorteningSettings
from motion_nodes.scene.checker import CollisionChecker

_LONG = 60
"""Paths with more waypoints are shortened round by round."""


def shorten_path(
    checker: CollisionChecker,
    path: ArrayLike,
    settings: ShorteningSettings | None = None,
    *,
    random_seed: int = 123456,
    timeout: float = float("inf"),
) -> Array:
    """Return a path that is not longer, with exactly the same ends.

    Args:
        checker: robot and scene.
        path: waypoints joined by collision-free straight lines, shape (k, n) [rad or m].
        settings: amount of shortening.
        random_seed: equal seeds give equal paths, unless the timeout expires.
        timeout: no further round begins after it [s].

    Returns:
        A new array, shape (m, n), m >= 2 unless there was only one waypoint.

    Raises:
        InvalidCommand: the path is not an array (k, n) of finite numbers.
        InvalidConfig: wrong number of weights.
    """
    settings = settings or ShorteningSettings()
    n = len(checker.joint_names)
    points = np.asarray(path, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != n or not len(points):
        raise InvalidCommand(f"a path must be waypoints of {n} joint values, got {points.shape}.")
    if not np.isfinite(points).all():
        raise InvalidCommand("the path holds numbers that are not finite.")
    kernel = checker.kernel()
    addresses = Checker(kernel.state, kernel.edge, kernel.memory)
    weights = settings.checked_weights(n)
    shorter = shorten_rows(addresses, weights, points, settings, random_seed, timeout)
    del kernel  # until here it keeps the memory at these addresses alive
    return shorter


def shorten_rows(
    checker: Checker,
    weights: Array,
    path: Array,
    settings: ShorteningSettings,
    random_seed: int,
    timeout: float,
) -> Array:
    """Return a shorter path, as :func:`shorten_path`, for a checker's addresses."""
    end = compute_time() + timeout
    random = np.array([random_seed % 2**64], np.uint64)
    count, n = path.shape
    room = 2 * count + settings.jumps
    rows, checked = np.empty((2 * room + 2, n)), np.empty((2, room), np.int8)
    rows[:count] = path
    # For a short path all rounds are faster than one check of the timeout.
    at_once = settings.rounds if count <= _LONG else 1
    for done in range(0, settings.rounds, max(1, at_once)):
        rounds = min(at_once, settings.rounds - done)
        effort = Effort(rounds, settings.jumps, settings.corner_tries, settings.least_gain)
        outcome = shorten(checker, weights, rows, checked, count, effort, random)
        count = abs(outcome)
        if outcome > 0 or compute_time() > end:
            break
    return rows[:count].copy()

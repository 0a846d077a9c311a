# SPDX-License-Identifier: Apache-2.0
"""Error messages of failed inverse kinematics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkSettings, IkStatus
from motion_nodes.typing import Array

_AT_LIMIT = 1e-9


class Ended(Protocol):
    """The attributes of a search that are reported."""

    status: IkStatus
    attempts: int
    iterations: int
    refusals: Counter[str]


def how_it_ended(search: Ended, settings: IkSettings) -> str:
    """Return how a search ended."""
    tried = "1 initial guess" if search.attempts == 1 else f"{search.attempts} initial guesses"
    if search.status is IkStatus.TIMED_OUT:
        ended = f"no solution within {settings.timeout:g} s ({tried}, {search.iterations} steps)"
    elif search.status is IkStatus.ITERATION_LIMIT:
        ended = f"no solution within {search.iterations} iterations ({tried})"
    elif search.status is IkStatus.REFUSED:
        ended = f"no valid solution from {tried}"
    else:
        ended = f"no solution from {tried}"
    if not search.refusals:
        return ended
    common = "; ".join(f"{text} ({count}x)" for text, count in search.refusals.most_common(3))
    return f"{ended}; {search.refusals.total()} refused: {common}"


def too_far(chain: IkChain, X_BT: Array) -> str:
    """Return by how much a target is beyond the chain's length [m]."""
    distance = float(np.linalg.norm(X_BT[:3, 3] - chain.origin))
    return (
        f"the target is {distance:.3f} m from {chain.joint_names[0]}, and '{chain.tip}' reaches "
        f"{chain.length:.3f} m at most"
    )


def what_is_nearest(
    joints: Sequence[str], q: Array, limits: tuple[Array, Array], errors: tuple[float, float]
) -> str:
    """Return the error of the closest configuration, and which joints are at their limits."""
    text = f"the closest configuration found is {_metres(errors[0])} and {_degrees(errors[1])} off"
    lower, upper = limits
    ends = []
    for k, name in enumerate(joints):
        if lower[k] == upper[k]:
            continue
        if q[k] - lower[k] <= _AT_LIMIT:
            ends.append(f"{name} at its lower limit {lower[k]:.4g}")
        elif upper[k] - q[k] <= _AT_LIMIT:
            ends.append(f"{name} at its upper limit {upper[k]:.4g}")
    return text + (f", with {', '.join(ends)}" if ends else "")


def _metres(value: float) -> str:
    return f"{value:.3f} m" if value >= 0.1 else f"{value * 1e3:.3g} mm"


def _degrees(value: float) -> str:
    return f"{math.degrees(value):.3g} deg"

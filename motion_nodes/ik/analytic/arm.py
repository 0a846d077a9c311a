# SPDX-License-Identifier: Apache-2.0
"""An arm with a closed form: from poses to all joint positions, within given limits."""

from __future__ import annotations

import itertools
import math

import numpy as np

from motion_nodes.errors import InvalidConfig, UnknownJoint
from motion_nodes.ik.analytic.lines import lines_of
from motion_nodes.ik.analytic.structure import Structure, find_structures
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import bad_pose
from motion_nodes.kernels.ik.closed_form import MOST
from motion_nodes.kernels.ik.closed_form_search import NO_POSE, search
from motion_nodes.typing import Array

_TURN = 2.0 * math.pi
ALL = 1 << 30
"""More than the max number of solutions."""
_SAMPLES = 25
"""Number of poses, and of values of the redundant joint, for the comparison of redundant joints."""


class ClosedFormArm:
    """A chain of six revolute joints, or of seven with one redundant joint."""

    structure: Structure
    free: int
    """Index of the redundant joint; -1 for an arm with six joints."""

    def __init__(self, chain: IkChain, free_joint: str | None, tolerance: float) -> None:
        """Determine the closed form, and compile or load its kernel.

        Args:
            chain: the chain.
            free_joint: name of the redundant joint, or None.
            tolerance: max deviation of the axes from the form [m, rad].

        Raises:
            UnknownJoint: the redundant joint is not in the chain.
            InvalidConfig: the tolerance is not above 0, or no form fits the chain; with the reason.
        """
        if not 0.0 < tolerance < math.inf:
            raise InvalidConfig(
                f"tolerance is {tolerance}; it must be above 0 (m and rad).", field="tolerance"
            )
        names = chain.joint_names
        if free_joint is not None and free_joint not in names:
            raise UnknownJoint(free_joint, names, f"the chain to '{chain.tip}'")
        free = None if free_joint is None else names.index(free_joint)
        lines, self._home = lines_of(chain)
        self._own = lines
        self._alike = np.ones(len(names))
        self._any = np.array([np.full(len(names), -math.inf), np.full(len(names), math.inf)])
        fits = find_structures(lines, tolerance, free, names, chain.robot_name)
        self._take(fits[0] if len(fits) == 1 else max(fits, key=lambda fit: self._use(fit, chain)))
        self.solutions(self._home, np.zeros(len(names)))

    def _take(self, structure: Structure) -> None:
        self.structure, self.free = structure, structure.free
        ideal = structure.lines
        self._lines = np.array([ideal.h, ideal.p, self._own.h, self._own.p])
        self._slack = max(1e-6, 20.0 * structure.misfit)

    def _use(self, structure: Structure, chain: IkChain) -> tuple[int, int]:
        """Return the number of poses with solutions, and of values with solutions, for a joint."""
        self._take(structure)
        limits = np.array([chain.lower, chain.upper])
        low = np.where(np.isfinite(chain.lower), chain.lower, -math.pi)
        high = np.where(np.isfinite(chain.upper), chain.upper, math.pi)
        values = np.linspace(low[self.free], high[self.free], _SAMPLES)
        counts = []
        for q in np.random.default_rng(0).uniform(low, high, (_SAMPLES, low.size)):
            X = chain.kinematics.pose(q, chain.tip)
            counts.append(len(np.unique(self.solutions(X, q, limits, values)[:, self.free])))
        return int(np.count_nonzero(counts)), sum(counts)

    def solutions(
        self,
        target: Array,
        near: Array,
        limits: Array | None = None,
        values: Array | None = None,
        *,
        norm: float = math.inf,
        weights: Array | None = None,
        enough: int = ALL,
    ) -> Array:
        """Return all solutions, closest first.

        Args:
            target: pose of the tip in the base, shape (4, 4).
            near: solutions are shifted by full turns to be close to it [rad], shape (n,).
            limits: lower and upper joint limits [rad], shape (2, n); None: no limits.
            values: values of the redundant joint [rad], shape (m,); None: as in ``near``.
            norm: p of the distance, at least 1.
            weights: of the joints in the distance, shape (n,); None: equal.
            enough: stop after a value once this many solutions were found.

        Returns:
            Shape (k, n).

        Raises:
            InvalidCommand: the target is not a valid pose.
        """
        if values is None:
            values = near[self.free : self.free + 1] if self.free >= 0 else near[:1]
        out = np.empty((MOST * len(values), near.size))
        form = self.structure
        count = search(
            form.form,
            form.free,
            form.backwards,
            self._lines,
            self._home,
            self._any if limits is None else limits,
            target,
            near,
            self._alike if weights is None else weights,
            norm,
            values,
            enough,
            self._slack,
            out,
        )
        if count == NO_POSE:
            raise bad_pose(target, "target")
        return out[:count]


def with_all_turns(Q: Array, limits: Array) -> Array:
    """Return configurations and all others within the limits that differ by full turns.

    Joints without limits are unchanged.

    Args:
        Q: within the limits [rad], shape (m, n).
        limits: lower and upper joint limits [rad], shape (2, n).

    Returns:
        Shape (k, n).
    """
    endless = ~np.isfinite(limits).all(axis=0)
    fewest = np.where(endless, 0.0, np.ceil((np.where(endless, 0.0, limits[0]) - Q) / _TURN))
    most = np.where(endless, 0.0, np.floor((np.where(endless, 0.0, limits[1]) - Q) / _TURN))
    if not fewest.any() and not most.any():
        return Q
    rows = []
    for q, low, high in zip(Q, fewest, most, strict=True):
        turns = [range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)]
        rows.append(q + _TURN * np.array(list(itertools.product(*turns)), dtype=np.float64))
    return np.asarray(np.clip(np.concatenate(rows), *limits))  # despite rounding

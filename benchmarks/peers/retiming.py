# SPDX-License-Identifier: Apache-2.0
"""Time parameterization of sampled paths by TOPP-RA and COPP; needs ``toppra`` and ``copp-py``.

``PYTHON retiming.py FILE``: the JSON file has the limits of velocity, acceleration and jerk, shape
(n,), and paths with the distances ``s``, shape (k,), and derivatives ``q`` of order 0 to 3, shape
(4, k, n). Prints one JSON object per path: time of the call [ms] and duration [s] of each solver.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import copp_py as copp
import numpy as np
import toppra
from toppra.constraint import JointAccelerationConstraint, JointVelocityConstraint

ROUNDS = 5


class SampledPath(toppra.interpolator.AbstractGeometricPath):  # type: ignore[misc]
    """A path known at grid points."""

    def __init__(self, s: Any, q: Any) -> None:
        self.s, self.q = s, q

    def __call__(self, at: Any, order: int = 0) -> Any:
        """Return a derivative, shape (k, n); linear between the samples."""
        rows = [np.interp(np.atleast_1d(at), self.s, column) for column in self.q[order].T]
        return np.stack(rows, axis=1) if np.ndim(at) else np.array(rows)[:, 0]

    @property
    def dof(self) -> int:
        """Number of joints."""
        return int(self.q.shape[2])

    @property
    def path_interval(self) -> Any:
        """First and last distance."""
        return self.s[[0, -1]]

    @property
    def waypoints(self) -> Any:
        """Distances and positions of the samples."""
        return self.s, self.q[0]


def by_toppra(s: Any, q: Any, limits: Any) -> float:
    """Return the duration with limits of velocity and acceleration [s]."""
    bounds = [np.stack((-x, x), axis=1) for x in limits[:2]]
    kinds = (JointVelocityConstraint, JointAccelerationConstraint)
    constraints = [kind(x) for kind, x in zip(kinds, bounds, strict=True)]
    solver = toppra.algorithm.TOPPRA(constraints, SampledPath(s, q), gridpoints=s)
    _, speeds, _ = solver.compute_parameterization(0.0, 0.0)
    return float((2.0 * np.diff(s) / (speeds[1:] + speeds[:-1])).sum())


def by_copp(s: Any, q: Any, limits: Any, *, with_jerk: bool) -> float:
    """Return the duration by COPP, with or without jerk limits [s]."""
    robot = copp.Robot(q.shape[2], capacity=len(s))
    robot.append_s(s)
    robot.set_q(q[0], q[1], q[2], 0, dddq=q[3])
    robot.add_velocity_limits(limits[0], -limits[0], start_idx_s=0)
    robot.add_acceleration_limits(limits[1], -limits[1], start_idx_s=0)
    solver = copp.solver.topp2_ra
    fastest = solver.solve(solver.Problem(robot.constraints, (0, len(s) - 1)))
    if not with_jerk:
        return float(copp.interpolation.s_to_t_topp2(s, fastest)[0])
    robot.add_jerk_limits(limits[2], -limits[2], start_idx_s=0)
    problem = copp.solver.topp3_socp.Problem(robot.constraints, fastest)
    return float(copp.interpolation.s_to_t_topp3(s, copp.solver.topp3_socp.solve(problem))[0])


def best(work: Callable[[], float]) -> tuple[float, float]:
    """Return the least time of some calls [ms], and the result; NaN if it fails."""
    taken = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        try:
            result = work()
        except Exception as error:
            print(error, file=sys.stderr)
            return float("nan"), float("nan")
        taken.append(1e3 * (time.perf_counter() - begin))
    return min(taken), result


def main() -> None:
    """Print the figures of all paths."""
    with open(sys.argv[1]) as file:
        problem = json.load(file)
    limits = [np.array(x) for x in problem["limits"]]
    for path in problem["paths"]:
        s, q = np.array(path["s"]), np.array(path["q"])
        works: dict[str, Callable[[], float]] = {
            "TOPP-RA": lambda s=s, q=q: by_toppra(s, q, limits),
            "COPP": lambda s=s, q=q: by_copp(s, q, limits, with_jerk=False),
            "COPP, jerk": lambda s=s, q=q: by_copp(s, q, limits, with_jerk=True),
        }
        print(json.dumps({name: best(work) for name, work in works.items()}))


if __name__ == "__main__":
    main()

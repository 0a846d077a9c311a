# SPDX-License-Identifier: Apache-2.0
"""toppra and Drake on the splines that bench_retiming.py hands them, in whatever environment.

Reads a JSON object from standard input (velocity, acceleration, splines, grids, finest) and writes
the figures of each peer that is installed to standard output.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import logging
import sys
import time
from collections.abc import Callable

import numpy as np

Array = np.ndarray


def median_time(work: Callable[[], object], rounds: int) -> float:
    """Return the median duration of a call [us]."""
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken) * 1e6)


def with_toppra(spline: dict, velocity: Array, acceleration: Array, grid: int) -> dict[str, float]:
    """Time a spline from waypoints to a trajectory that can be sampled."""
    import toppra
    from toppra import algorithm, constraint

    logging.disable(logging.CRITICAL)
    breaks, points = spline["breaks"], spline["points"]
    sides = [np.stack([-x, x], axis=1) for x in (velocity, acceleration)]

    def work() -> object:
        path = toppra.SplineInterpolator(breaks, points, bc_type="natural")
        limits = [
            constraint.JointVelocityConstraint(sides[0]),
            constraint.JointAccelerationConstraint(sides[1]),
        ]
        solver = algorithm.TOPPRA(
            limits,
            path,
            gridpoints=np.linspace(0.0, breaks[-1], grid + 1),
            solver_wrapper="seidel",
            parametrizer="ParametrizeConstAccel",
        )
        return solver.compute_trajectory(0, 0)

    found = work()
    times = np.arange(0.0, found.duration, 1e-3)
    over = [
        float(np.max(np.abs(found(times, order)) / limit)) - 1.0
        for order, limit in ((1, velocity), (2, acceleration))
    ]
    taken = median_time(work, 11 if grid < 1000 else 1)
    return {"duration": found.duration, "time": taken, "excess": max(over)}


def with_drake(spline: dict, velocity: Array, acceleration: Array, grid: int) -> dict[str, float]:
    """Time a spline with Toppra of Drake, which wants a plant of as many joints."""
    from pydrake.multibody.optimization import Toppra
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import PrismaticJoint, SpatialInertia
    from pydrake.trajectories import PiecewisePolynomial

    breaks, points = np.array(spline["breaks"]), np.array(spline["points"])
    slopes = np.array(spline["end_slopes"])
    plant = MultibodyPlant(0.0)
    parent = plant.world_body()
    for i in range(points.shape[1]):
        body = plant.AddRigidBody(f"body{i}", SpatialInertia.SolidBoxWithMass(1.0, 0.1, 0.1, 0.1))
        joint = PrismaticJoint(f"slide{i}", parent.body_frame(), body.body_frame(), [1, 0, 0])
        plant.AddJoint(joint)
        parent = body
    plant.Finalize()

    def work() -> object:
        path = PiecewisePolynomial.CubicWithContinuousSecondDerivatives(
            breaks, points.T, slopes[0], slopes[1]
        )
        solver = Toppra(path, plant, np.linspace(0.0, breaks[-1], grid + 1))
        solver.AddJointVelocityLimit(-velocity, velocity)
        solver.AddJointAccelerationLimit(-acceleration, acceleration)
        return solver.SolvePathParameterization()

    found = work()
    return {"duration": found.end_time(), "time": median_time(work, 3), "excess": float("nan")}


PEERS = {"toppra": with_toppra, "drake": with_drake}
MODULES = {"toppra": "toppra", "drake": "pydrake"}


def main() -> None:
    """Answer."""
    task = json.load(sys.stdin)
    velocity, acceleration = np.array(task["velocity"]), np.array(task["acceleration"])
    answer: dict[str, object] = {}
    for name, solve in PEERS.items():
        if importlib.util.find_spec(MODULES[name]) is None:
            continue
        rows = []
        for spline in task["splines"]:
            grids = [*task["grids"], *([task["finest"]] if name == "toppra" else [])]
            rows.append({str(g): solve(spline, velocity, acceleration, g) for g in grids})
        answer[name] = {"version": importlib.metadata.version(name), "rows": rows}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()

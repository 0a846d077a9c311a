# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics of the Franka beside pinocchio and MuJoCo, single calls from Python.

Run: ``python benchmarks/bench_dynamics.py`` (ten seconds; needs ``pin`` and ``mujoco``).

Contenders take turns in short rounds on one core, so that a busy machine slows all of them alike;
the least and the median of the rounds are shown. Results are compared before anything is timed.
"""

from __future__ import annotations

import os
import statistics
import timeit
from collections.abc import Callable

import numpy as np
from mujoco_urdf import without_shapes
from report import Cell, Report, arguments, ratio

from motion_nodes.model.inverse_dynamics import STANDARD_GRAVITY, InverseDynamics
from motion_nodes.model.loader import load_robot

CALLS = 2000
"""In a round."""
Call = Callable[[], np.ndarray]


def ours(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> dict[str, Call]:
    """Return our ways."""
    robot = load_robot("franka")
    dynamics, generic = (InverseDynamics(robot.tree, generic=g) for g in (False, True))
    return {
        "motion_nodes": lambda: dynamics.efforts(q, v, a),
        "motion_nodes, gravity alone": lambda: dynamics.gravity(q),
        "motion_nodes, without generated code": lambda: generic.efforts(q, v, a),
    }


def with_pinocchio(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> dict[str, Call]:
    """Return pinocchio's ways; its joints stand in the same order."""
    import pinocchio as pin

    model = pin.buildModelFromXML(load_robot("franka").urdf)
    model.gravity.linear = np.array(STANDARD_GRAVITY)
    data = model.createData()
    return {
        "pinocchio": lambda: pin.rnea(model, data, q, v, a),
        "pinocchio, gravity alone": lambda: pin.computeGeneralizedGravity(model, data, q),
    }


def with_mujoco(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> dict[str, Call]:
    """Return MuJoCo's way: position and velocity stages, then mj_rne."""
    import mujoco

    model = mujoco.MjSpec.from_string(without_shapes(load_robot("franka").urdf)).compile()
    model.opt.gravity = STANDARD_GRAVITY
    data, result = mujoco.MjData(model), np.empty(model.nv)

    def efforts() -> np.ndarray:
        data.qpos[:], data.qvel[:], data.qacc[:] = q, v, a
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_rne(model, data, 1, result)
        return result

    return {"MuJoCo": efforts}


def main() -> None:
    """Compare, measure, print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    q, v, a = np.random.default_rng(0).normal(size=(3, 9))
    ways = ours(q, v, a) | with_pinocchio(q, v, a) | with_mujoco(q, v, a)
    for name, call in ways.items():
        peer = "pinocchio, gravity alone" if "gravity" in name else "pinocchio"
        np.testing.assert_allclose(call(), ways[peer](), rtol=1e-7, atol=1e-7, err_msg=name)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, call in ways.items():
            count = CALLS // 100 if "without" in name else CALLS
            times[name].append(timeit.timeit(call, number=count) / count * 1e6)
    rows: list[list[Cell]] = []
    for name, found in times.items():
        peer = "pinocchio, gravity alone" if "gravity" in name else "pinocchio"
        rows.append([name, min(found), statistics.median(found),
                     ratio(min(found), min(times[peer]))])  # fmt: skip
    report = Report("Inverse dynamics of the Franka (9 joints), one call from Python")
    report.table("Recursive Newton-Euler", ["", "least [µs]", "median [µs]", "least / pinocchio"],
                 rows)  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()

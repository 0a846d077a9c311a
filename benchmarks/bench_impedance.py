# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control in MuJoCo: deflection, passivity, drift, and computing time.

Run: ``python benchmarks/bench_impedance.py`` (a quarter of an hour on two cores). The physics has
time steps of 1 ms; wrenches act at the tool. Deflections are compared with force over stiffness,
the energy of pushes in random directions with the energy after them. The time of a step is compared
with the same law in pinocchio (crba, rnea, frame Jacobian).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pinocchio
from harness import Options, Report, Row, Spread, benchmark, progress, take_turns
from control.compliant_arm import CompliantArm

STIFFNESS = (600.0, 40.0)
ROBOTS = (("franka", 0.0), ("fr3", 0.1), ("xarm7", 0.3), ("ur10e", 0.8), ("ur5e", 0.8))
"""Robots, and offsets of joints from home [rad], away from singularities."""


def deflections(name: str, bend: float, count: int) -> Spread:
    """Return the relative errors of static deflections [%]."""
    rng, found = np.random.default_rng(1), []
    arm = CompliantArm(name, bend=bend, stiffness=STIFFNESS, frame="base")
    X, stiffness = arm.pose, np.repeat(STIFFNESS, 3)
    for _ in range(count):
        arm.wrench = rng.normal(size=6) * np.repeat((6.0, 0.8), 3)
        arm.run(5.0)
        expected = arm.wrench / stiffness
        found.append(100.0 * np.linalg.norm(arm.away(X) - expected) / np.linalg.norm(expected))
    return Spread.of(found)


def pushes(name: str, bend: float, count: int) -> tuple[int, float]:
    """Return the number of pushes after which energy exceeds the input, and the max excess [J]."""
    rng, active, worst = np.random.default_rng(2), 0, -np.inf
    arm = CompliantArm(name, bend=bend, stiffness=STIFFNESS, nullspace_stiffness=0.0)
    arm.run(0.3)
    before = 0.0
    for _ in range(count):
        given, left = arm.push(rng.normal(size=6) * np.repeat((10.0, 1.0), 3), 0.15, 0.15)
        excess = left - before - given
        active, worst, before = active + (excess > 1e-3), max(worst, excess), left
    return active, worst


def drift(name: str, bend: float, seconds: float) -> float:
    """Return the drift of a free arm without stiffness [mm/min]."""
    arm = CompliantArm(name, bend=bend, stiffness=(0.0, 0.0), nullspace_stiffness=0.0)
    arm.run(0.5)
    X = arm.pose
    arm.run(seconds)
    return float(1e3 * np.linalg.norm(arm.away(X)[:3]) * 60.0 / seconds)


def with_pinocchio(arm: CompliantArm) -> Callable[[], object]:
    """Return a step of the same law with pinocchio."""
    model = pinocchio.buildModelFromXML(arm.robot.urdf)
    data = model.createData()
    columns = [model.joints[model.getJointId(joint)].idx_v for joint in arm.law.joint_names]
    frame = model.getFrameId(arm.law.tool)
    q, v, none = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)
    q[columns], v[columns] = arm.state[:2]
    goal, stiffness = pinocchio.SE3(arm.pose), np.repeat(STIFFNESS, 3)

    def step() -> np.ndarray:
        M = pinocchio.crba(model, data, q)[np.ix_(columns, columns)]
        h = pinocchio.rnea(model, data, q, v, none)[columns]
        axes = pinocchio.LOCAL_WORLD_ALIGNED
        J = pinocchio.computeFrameJacobian(model, data, q, frame, axes)[:, columns]
        pinocchio.updateFramePlacement(model, data, frame)
        X = data.oMf[frame]
        error = np.concatenate((goal.translation - X.translation,
                                pinocchio.log3(goal.rotation @ X.rotation.T)))  # fmt: skip
        M_inv = np.linalg.inv(M)
        inertia = np.linalg.inv(J @ M_inv @ J.T)
        L = np.linalg.cholesky(inertia)
        k, U = np.linalg.eigh(np.linalg.solve(L, np.linalg.solve(L, np.diag(stiffness)).T))
        half = L @ U
        D = (half * (2.0 * np.sqrt(k))) @ half.T
        null = np.eye(len(columns)) - J.T @ (inertia @ J @ M_inv)
        return J.T @ (stiffness * error - D @ (J @ v[columns])) + null @ -v[columns] + h

    return step


@benchmark("Impedance control", pushes=1000, wrenches=20)
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    rows, pushed = list[Row](), options.pushes // len(ROBOTS)
    for name, bend in ROBOTS:
        progress(name)
        found = deflections(name, bend, options.wrenches)
        active, worst = pushes(name, bend, pushed)
        arm = CompliantArm(name, bend=bend, stiffness=STIFFNESS)
        arm.run(0.1)
        q, v, efforts = (np.array(values) for values in arm.state)
        works = {"ours": partial(arm.law.step, q, v, 1e-3, efforts), "peer": with_pinocchio(arm)}
        ours, peer = (1e6 * times.least for times in take_turns(works).values())
        rows.append({
            "": name, "deflection error, median [%]": found.p50, "max [%]": found.maximum,
            "pushes": pushed, "active": active, "energy, max [J]": worst,
            "drift [mm/min]": drift(name, bend, 10.0), "step [us]": ours,
            "step / pinocchio": ours / peer,
        })  # fmt: skip
    report.table(
        "By the physics of MuJoCo", rows,
        "Active: more energy was left than the push gave. The step of ours includes target limits, "
        "wrench observer, passivity observer, joint limits and effort limits; the other does not.",
    )  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control in MuJoCo: deflections, passivity, holding still, and its cost.

Run: ``python benchmarks/bench_impedance.py`` (a quarter of an hour on two cores). The judge is
MuJoCo's physics, in steps of 1 ms; wrenches act at the tool. Deflections are compared with force
over stiffness; pushes in random directions with the energy that is left after them. The cost of a
step is beside that of the same law written with pinocchio's crba, rnea and frame Jacobian.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pinocchio
from harness import TEST, Report, Spread, arguments, progress

sys.path.append(TEST)
from control.compliant_arm import CompliantArm

from motion_nodes.model.rotation_vectors import rotation_vector

STIFFNESS = (600.0, 40.0)
ROBOTS = (("franka", 0.0), ("fr3", 0.1), ("xarm7", 0.3), ("ur10e", 0.8), ("ur5e", 0.8))
"""Robots, and what is added to the joints of their home states [rad]: away from singularities."""


def away(arm: CompliantArm, X: np.ndarray) -> np.ndarray:
    """Return how far the tool is from a pose [m, rad], shape (6,)."""
    now = arm.pose
    return np.array([*(now - X)[:3, 3], *rotation_vector(now[:3, :3] @ X[:3, :3].T)])


def deflections(name: str, bend: float, count: int) -> Spread:
    """Return the errors of static deflections, as shares of them [%]."""
    rng, found = np.random.default_rng(1), []
    arm = CompliantArm(name, bend=bend, stiffness=STIFFNESS, frame="base")
    X, stiffness = arm.pose, np.repeat(STIFFNESS, 3)
    for _ in range(count):
        arm.wrench = rng.normal(size=6) * np.repeat((6.0, 0.8), 3)
        arm.run(5.0)
        expected = arm.wrench / stiffness
        found.append(100.0 * np.linalg.norm(away(arm, X) - expected) / np.linalg.norm(expected))
    return Spread.of(found)


def pushes(name: str, bend: float, count: int) -> tuple[int, float]:
    """Return how many pushes left more energy than they gave, and the largest excess [J]."""
    rng, active, worst = np.random.default_rng(2), 0, -np.inf
    arm = CompliantArm(name, bend=bend, stiffness=STIFFNESS, nullspace_stiffness=0.0)
    arm.run(0.3)
    stiffness = np.repeat(STIFFNESS, 3)
    before = 0.0
    for _ in range(count):
        arm.wrench, given = rng.normal(size=6) * np.repeat((10.0, 1.0), 3), 0.0
        for step in range(300):
            if step == 150:
                arm.wrench = np.zeros(6)
            given += float(arm.wrench @ arm.law.space.at(*arm.state[:2]).twist) * arm.period
            arm.step()
        state, error = arm.law.space.at(*arm.state[:2]), arm.law.status.error
        left = 0.5 * state.v @ state.M @ state.v + 0.5 * error @ (stiffness * error)
        excess = left - before - given
        active, worst, before = active + (excess > 1e-3), max(worst, excess), left
    return active, worst


def drift(name: str, bend: float, seconds: float) -> float:
    """Return how far a free arm drifts without any stiffness [mm per minute]."""
    arm = CompliantArm(name, bend=bend, stiffness=(0.0, 0.0), nullspace_stiffness=0.0)
    arm.run(0.5)
    X = arm.pose
    arm.run(seconds)
    return float(1e3 * np.linalg.norm(away(arm, X)[:3]) * 60.0 / seconds)


def with_pinocchio(arm: CompliantArm) -> float:
    """Return the time of the same law with pinocchio's dynamics [us]."""
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
        J = pinocchio.computeFrameJacobian(model, data, q, frame, pinocchio.LOCAL_WORLD_ALIGNED)[
            :, columns
        ]
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

    return timed(step)


def timed(step: object, rounds: int = 40) -> float:
    """Return the least mean time of 50 calls [us]."""
    best = np.inf
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(50):
            step()  # type: ignore[operator]
        best = min(best, (time.perf_counter() - begin) / 50)
    return 1e6 * best


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--pushes", type=int, default=1000)
    parser.add_argument("--wrenches", type=int, default=20)
    options = parser.parse_args()
    report, rows = Report("Impedance control"), []
    for name, bend in ROBOTS:
        progress(name)
        found = deflections(name, bend, options.wrenches)
        active, worst = pushes(name, bend, options.pushes // len(ROBOTS))
        arm = CompliantArm(name, bend=bend, stiffness=STIFFNESS)
        arm.run(0.1)
        q, v, efforts = (np.array(values) for values in arm.state)
        ours = timed(lambda q=q, v=v, e=efforts, law=arm.law: law.step(q, v, 1e-3, e))
        rows.append([name, found.p50, found.maximum, options.pushes // len(ROBOTS), active, worst,
                     drift(name, bend, 10.0), ours, ours / with_pinocchio(arm)])  # fmt: skip
    report.table(
        "By the physics of MuJoCo",
        ["", "deflection error, median [%]", "max [%]", "pushes", "active", "energy, max [J]",
         "drift [mm/min]", "step [us]", "step / pinocchio"],
        rows,
        "Active: more energy was left than the push gave. The step of ours includes target limits, "
        "wrench observer, passivity observer, joint limits and effort limits; the other does not.",
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Compared solvers of inverse kinematics.

Each is called from Python as documented, with tolerances of 1e-6 m and 1e-6 rad if it has any, and
with its own random seeds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from motion_nodes.core.ik.analytic_solver import AnalyticIk
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkTolerance
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind

TOLERANCE = 1e-6
BUDGET = 0.01  # Timeout of a solution [s]

Solve = Callable[[np.ndarray, np.ndarray | None], np.ndarray | None]
"""From pose of the tip in the base and initial guess (None: any) to joint positions, or None."""


def _solve_by(solver: LeastSquaresIk | AnalyticIk) -> Solve:
    def solve(X: np.ndarray, start: np.ndarray | None) -> np.ndarray | None:
        found = solver.solve(IkRequest(X, start))
        return found.q if found.success else None

    return solve


def ours(robot: Robot, chain: IkChain) -> Solve:
    """Return this package's default solver."""
    tolerance = IkTolerance(TOLERANCE, TOLERANCE)
    return _solve_by(LeastSquaresIk(chain, IkSettings(tolerance=tolerance, timeout=BUDGET)))


def analytic(robot: Robot, chain: IkChain) -> Solve:
    """Return this package's closed form; tries a hundred values of a free joint, if any."""
    return _solve_by(AnalyticIk(chain, IkSettings(timeout=BUDGET)))


def toolbox(robot: Robot, chain: IkChain) -> Solve:
    """Return ``ik_LM`` of the Robotics Toolbox for Python (C++)."""
    from roboticstoolbox import ET, ETS

    parts = []
    for joint in robot.chain(chain.base, chain.tip):
        parts.append(ET.SE3(np.array(joint.X_PJ)))
        if joint.kind is not JointKind.FIXED:
            if not np.allclose(joint.axis, (0.0, 0.0, 1.0)):
                raise ImportError("only joints about z are restated for it here")
            k = chain.joint_names.index(joint.name)
            parts.append(ET.Rz(jindex=k, qlim=np.array([chain.lower[k], chain.upper[k]])))
    ets = ETS(parts)
    # The tolerance applies to half the squared error, in metres and radians.
    tolerance = 0.5 * TOLERANCE**2

    def solve(X: np.ndarray, start: np.ndarray | None) -> np.ndarray | None:
        found = ets.ik_LM(X, q0=start, ilimit=30, slimit=100, tol=tolerance, joint_limits=True)
        return found.q if found.success else None

    return solve


def trac_ik(robot: Robot, chain: IkChain) -> Solve:
    """Return TRAC-IK in mode Speed (C++, two threads)."""
    import pytracik

    mode = pytracik.SolveType.Speed
    # Epsilon applies to the norm of the whole error.
    args = (chain.base, chain.tip, robot.urdf, BUDGET, TOLERANCE, mode)
    solver = pytracik.TRAC_IK(*args)
    pytracik.set_joint_limits(solver, chain.lower.tolist(), chain.upper.tolist())
    rng = np.random.default_rng(0)

    def solve(X: np.ndarray, start: np.ndarray | None) -> np.ndarray | None:
        if start is None:
            start = rng.uniform(chain.lower, chain.upper)
        answer = pytracik.ik(solver, start, *X[:3, 3], *to_quat_xyzw(X))
        return answer[1:] if answer[0] >= 0 else None

    return solve


def pinocchio_loop(robot: Robot, chain: IkChain) -> Solve:
    """Return the usual loop with pinocchio: damped least squares with clipping and restarts."""
    import pinocchio as pin

    whole = pin.buildModelFromXML(robot.urdf)
    others = [whole.getJointId(n) for n in list(whole.names)[1:] if n not in chain.joint_names]
    model = pin.buildReducedModel(whole, others, pin.neutral(whole))
    data, frame = model.createData(), model.getFrameId(chain.tip)
    base = model.getFrameId(chain.base)
    pin.framesForwardKinematics(model, data, pin.neutral(model))
    X_RB = data.oMf[base].copy()
    rng = np.random.default_rng(0)

    def solve(X: np.ndarray, start: np.ndarray | None) -> np.ndarray | None:
        target = X_RB * pin.SE3(X)
        for _ in range(100):
            q = rng.uniform(chain.lower, chain.upper) if start is None else start
            for _ in range(50):
                pin.framesForwardKinematics(model, data, q)
                error = pin.log(data.oMf[frame].actInv(target))
                e = error.vector
                if np.linalg.norm(e[:3]) < TOLERANCE and np.linalg.norm(e[3:]) < TOLERANCE:
                    return q
                J = pin.computeFrameJacobian(model, data, q, frame)
                step = J.T @ np.linalg.solve(J @ J.T + 1e-4 * (e @ e) * np.eye(6), e)
                q = np.clip(q + step, chain.lower, chain.upper)
            start = None
        return None

    return solve


CONTENDERS: dict[str, Callable[[Robot, IkChain], Solve]] = {
    "motion_nodes": ours,
    "motion_nodes analytic": analytic,
    "roboticstoolbox ik_LM (C++)": toolbox,
    "pytracik (C++, 2 threads)": trac_ik,
    "pinocchio loop in Python": pinocchio_loop,
}

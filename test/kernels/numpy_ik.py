# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of any chain in NumPy: the algorithm of the generated code, much slower.

The oracle of the tests. It shares memory layout and constants with the generated code, but no
formula: the rotation vector comes from an eigenvector, the step from a general linear solver, the
kinematics from the kernels that serve any robot.
"""

import ctypes

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels import numpy_kinematics
from motion_nodes.kernels.ik import ik_step
from motion_nodes.kernels.ik.ik_step import (
    BLOCK,
    EXHAUSTED,
    FEATURES,
    FOUND,
    LANES,
    NO_POSE,
    PAUSED,
    IkWorkspace,
)
from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.typing import Array


class NumpyIk:
    """Solver of one chain with plain NumPy; same interface as the generated code."""

    def __init__(self, arrays: PackedArrays, row: int) -> None:
        self._model = numpy_kinematics.model_of(arrays)
        self._row = row
        self._rows = np.array([row], np.int32)

    def solve(self, work: IkWorkspace) -> int:
        """Begin a solve and return its outcome; see :mod:`motion_nodes.kernels.ik.ik_step`."""
        if not _restate(work):
            return NO_POSE
        work.set(next=0, live=0, iterations=0, wait=work.get("prefer"))
        work.nearest[0] = np.inf
        self._replace(work, range(LANES))
        return self._run(work)

    def resume(self, work: IkWorkspace) -> int:
        """Continue after a pause or a solution and return the outcome."""
        self._replace(work, _lanes(work.get("discard")))
        return self._run(work)

    def many(self, work: IkWorkspace, targets: Array, q: Array, report: Array) -> None:
        """Solve for m poses, shape (m, 4, 4); write q (m, n) and report (m, REPORT)."""
        first = work.get("starts")
        for pose, target in enumerate(targets):
            work.set(starts=first + pose * work.get("given") * work.n * 8)
            work.target[...] = target
            outcome = self.solve(work)
            found = outcome == FOUND
            q[pose] = work.answer[: work.n] if found else work.nearest[1:]
            report[pose, :3] = outcome, work.get("iterations"), work.get("next")
            report[pose, 3:] = work.answer[work.n :]

    def _run(self, work: IkWorkspace) -> int:
        """Take steps until a lane converges, no lane is active, or the step budget is used up."""
        work.set(found=0)
        steps = work.get("grant")
        while live := _lanes(work.get("live")):
            if steps <= 0:
                return PAUSED
            steps -= 1
            work.set(iterations=work.get("iterations") + len(live))
            rates = self._judge(work)
            found = [i for i in live if work.solved[i]]
            awaited = [i for i in _lanes(work.get("wait")) if not work.solved[i]]
            if found and not awaited:
                work.set(found=sum(1 << i for i in found))
                work.answer[: work.n] = work.q[:, found[0]]
                work.answer[work.n :] = work.errors[:, found[0]]
                return FOUND
            for lane in range(LANES):
                _move(work, lane, rates[lane])
            failed = [i for i in live if work.hopeless[i] and not work.solved[i]]
            for lane in failed:
                work.set(wait=work.get("wait") & ~(1 << lane))
                if work.squared[lane] < work.nearest[0]:
                    work.nearest[0], work.nearest[1:] = work.squared[lane], work.q[:, lane]
            self._replace(work, failed)
        return EXHAUSTED

    def _replace(self, work: IkWorkspace, lanes: range | list[int]) -> None:
        """Restart lanes from their next seeds, or deactivate them."""
        for lane in lanes:
            if work.get("next") >= work.get("attempts"):
                work.set(live=work.get("live") & ~(1 << lane))
                continue
            work.set(live=work.get("live") | 1 << lane)
            work.q[:, lane] = np.minimum(np.maximum(_next_start(work), work.lower), work.upper)
            work.best[lane], work.stalled[lane] = np.inf, 0.0

    def _judge(self, work: IkWorkspace) -> Array:
        """Compute the errors of all lanes; return their Jacobians, shape (8, 6, n)."""
        Q = np.ascontiguousarray(work.q.T)
        X_BE, J = np.empty((LANES, 1, 4, 4)), np.empty((LANES, 6, work.n))
        numpy_kinematics.many_poses(self._model, Q, self._rows, X_BE)
        numpy_kinematics.many_jacobians(self._model, Q, self._row, J)
        R_TB = work.X_TB[:9].T.reshape(LANES, 3, 3)
        for lane in range(LANES):
            R_TE = R_TB[lane] @ X_BE[lane, 0, :3, :3]
            p_TE = R_TB[lane] @ X_BE[lane, 0, :3, 3] + work.X_TB[9:, lane]
            errors = np.concatenate([p_TE, rotation_vector(R_TE)])
            turning = np.linalg.inv(left_jacobian(errors[3:])) @ R_TB[lane]
            J[lane] = np.vstack([R_TB[lane] @ J[lane, :3], turning @ J[lane, 3:]])
            _, _, lengths = _residual(work, errors)
            within = (np.abs(errors) < work.box).all() and (lengths < work.tolerance).all()
            work.errors[:, lane], work.solved[lane] = errors, bool(within)
        return J


def _residual(work: IkWorkspace, errors: Array) -> tuple[Array, NDArray[np.bool_], Array]:
    """Return errors beyond the dead zone, which axes are unconstrained, and both squared norms."""
    free = np.abs(errors) < work.slack
    r = np.where(free, 0.0, errors - np.clip(errors, -work.slack, work.slack))
    return r, free, np.array([r[:3] @ r[:3], r[3:] @ r[3:]])


def _move(work: IkWorkspace, lane: int, J: Array) -> None:
    """Update a lane's progress and move it, unless it has converged or is abandoned."""
    r, free, _ = _residual(work, work.errors[:, lane])
    scale = np.where(np.arange(6) < 3, work.weight[0], 1.0)
    r, J = scale * r, np.where(free, 0.0, scale)[:, np.newaxis] * J
    squared = float(r @ r)
    progress = squared < ik_step.PROGRESS * work.best[lane]
    work.stalled[lane] = 0.0 if progress else work.stalled[lane] + 1.0
    work.best[lane] = squared if progress else work.best[lane]
    hopeless = work.stalled[lane] > ik_step.PATIENCE
    work.squared[lane], work.hopeless[lane] = squared, hopeless
    if work.solved[lane] or hopeless:
        return
    q, slope = work.q[:, lane], J.T @ r
    blocked = np.where(slope > 0.0, q <= work.lower, q >= work.upper)
    J = np.where(blocked, 0.0, J)
    damping = ik_step.DAMPING * squared + ik_step.LEAST_DAMPING
    dq = np.linalg.solve(J.T @ J + damping * np.eye(work.n), J.T @ r)
    dq *= ik_step.STEP_BOUND / max(ik_step.STEP_BOUND, float(np.abs(dq).max()))
    work.q[:, lane] = np.minimum(np.maximum(q - dq, work.lower), work.upper)


def rotation_vector(R: Array) -> Array:
    """Return the rotation vector of a rotation matrix, up to pi [rad], shape (3,).

    Source: I. Y. Bar-Itzhack, "New method for extracting the quaternion from a rotation matrix", J.
    Guidance, Control and Dynamics 23(6), 2000.
    """
    if not np.isfinite(R).all():
        return np.full(3, np.nan)
    K = np.zeros((4, 4))
    K[:3, :3] = R + R.T - np.trace(R) * np.eye(3)
    K[:3, 3] = K[3, :3] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    K[3, 3] = np.trace(R)
    x, y, z, w = np.linalg.eigh(K)[1][:, 3]
    v = np.array([x, y, z]) * (1.0 if w >= 0.0 else -1.0)
    s = float(np.linalg.norm(v))
    return v * (2.0 if s < 1e-12 else 2.0 * np.arctan2(s, abs(w)) / s)


def left_jacobian(phi: Array) -> Array:
    """Return the matrix from the rate of a rotation vector to the angular velocity, shape (3, 3).

    Source: T. Barfoot, "State Estimation for Robotics", 2017, eq. 7.77.
    """
    angle = float(np.linalg.norm(phi))
    x, y, z = phi.tolist()
    skew: Array = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    if angle < 1e-4:
        return np.eye(3) + skew / 2.0 + skew @ skew / 6.0
    first, second = (1.0 - np.cos(angle)) / angle**2, (angle - np.sin(angle)) / angle**3
    return np.asarray(np.eye(3) + first * skew + second * skew @ skew)


def _restate(work: IkWorkspace) -> bool:
    """Prepare the target for the step and the seeds; return False if it is no valid pose."""
    X = work.target.copy()
    R, p = X[:3, :3], X[:3, 3]
    if not np.isfinite(X).all() or np.abs(p).max() >= 1e100:
        return False
    gram = (R.T @ R - np.eye(3))[np.triu_indices(3)]
    rest = np.array([np.linalg.det(R) - 1.0, *(X[3] - [0.0, 0.0, 0.0, 1.0])])
    work.X_TB[:9] = R.T.reshape(9, 1)
    work.X_TB[9:] = -(R.T @ p)[:, np.newaxis]
    weight, closeness = work.importance
    work.direction[0], work.direction[1:4] = weight, -2.0 * weight * p
    work.direction[4:] = -closeness * R.ravel()
    return bool(gram @ gram + rest @ rest < 1e-6)


def _next_start(work: IkWorkspace) -> Array:
    """Return the next given seed, or the closest configuration of the next block."""
    index, given = work.get("next"), work.get("given")
    work.set(next=index + 1)
    if index < given:
        return _at(work.get("starts") + index * work.n * 8, work.n)
    block = index - given
    first = work.get("features") + block * BLOCK * FEATURES * 4
    features = np.ctypeslib.as_array((ctypes.c_float * (FEATURES * BLOCK)).from_address(first))
    row = int(np.argmin(work.direction.astype(np.float32) @ features.reshape(FEATURES, BLOCK)))
    return _at(work.get("table") + (block * BLOCK + row) * work.n * 8, work.n)


def _at(address: int, count: int) -> Array:
    """Return the array at an address."""
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))


def _lanes(bits: int) -> list[int]:
    """Return the lanes whose bits are set."""
    return [lane for lane in range(LANES) if bits >> lane & 1]

# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics and Jacobian for any robot, with plain loops over its arrays.

Slower than the generated code, but nothing is compiled per robot: for trees that are evaluated a
few times, and as the reference of the tests. ``Model`` below contains the arrays of
:class:`motion_nodes.kernels.kinematic_arrays.PackedArrays` in the order of :func:`model_of`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import kernel
from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.typing import Array, IndexArray

Model = tuple[IndexArray, IndexArray, Array, Array, IndexArray, Array, Array]


def model_of(arrays: PackedArrays) -> Model:
    """Return the arrays that the kernels take."""
    return (
        arrays.parent,
        arrays.kind,
        np.ascontiguousarray(arrays.X_PJ),
        np.ascontiguousarray(arrays.axis),
        arrays.q_index,
        arrays.multiplier,
        arrays.offset,
    )


@kernel
def rows_down_to(model: Model, rows: IndexArray) -> NDArray[np.intp]:
    """Return the indices of some rows and of all rows above them, parents first."""
    parent = model[0]
    needed = np.zeros(parent.shape[0], np.bool_)
    for row in rows:
        while row >= 0 and not needed[row]:
            needed[row] = True
            row = parent[row]
    return np.flatnonzero(needed)


@kernel
def some_poses(model: Model, rows: NDArray[np.intp], q: Array, X: Array) -> None:
    """Write the poses of rows in row 0.

    Args:
        model: the robot.
        rows: their indices, from :func:`rows_down_to`.
        q: configuration [rad or m], shape (n,).
        X: result, shape (rows of the robot, 4, 4); others are not written.

    Source: Rodrigues' rotation formula.
    """
    parent, kind, X_PJ, axis, q_index, multiplier, offset = model
    R = np.zeros((3, 3))
    for row in rows:
        value = 0.0
        if kind[row] != 0:
            value = multiplier[row] * q[q_index[row]] + offset[row]
        a = axis[row]
        sine, versine = 0.0, 0.0
        if kind[row] == 1:
            sine, versine = math.sin(value), 1.0 - math.cos(value)
        R[0, 0] = 1.0 - versine * (a[1] * a[1] + a[2] * a[2])
        R[1, 1] = 1.0 - versine * (a[2] * a[2] + a[0] * a[0])
        R[2, 2] = 1.0 - versine * (a[0] * a[0] + a[1] * a[1])
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            R[j, k] = versine * a[j] * a[k] - sine * a[i]
            R[k, j] = versine * a[j] * a[k] + sine * a[i]
        slide = value if kind[row] == 2 else 0.0
        for i in range(3):
            for j in range(3):
                total = 0.0
                for k in range(3):
                    total += X_PJ[row, i, k] * R[k, j]
                X[row, i, j] = total
            moved = a[0] * X_PJ[row, i, 0] + a[1] * X_PJ[row, i, 1] + a[2] * X_PJ[row, i, 2]
            X[row, i, 3] = X_PJ[row, i, 3] + slide * moved
        X[row, 3, :3] = 0.0
        X[row, 3, 3] = 1.0
        if parent[row] >= 0:
            _prepend(X[parent[row]], X[row])


@kernel
def _prepend(X_AB: Array, X_BC: Array) -> None:
    """Replace ``X_BC`` by ``X_AC``."""
    for j in range(4):
        x, y, z = X_BC[0, j], X_BC[1, j], X_BC[2, j]
        for i in range(3):
            total = X_AB[i, 0] * x + X_AB[i, 1] * y + X_AB[i, 2] * z
            X_BC[i, j] = total + X_AB[i, 3] if j == 3 else total


@kernel
def jacobian(model: Model, X: Array, tip: int, J: Array) -> None:
    """Write the geometric Jacobian of a row's origin, in the axes of row 0.

    Args:
        model: the robot.
        X: poses from :func:`some_poses`, shape (rows, 4, 4).
        tip: index of the row.
        J: result, linear then angular velocity per joint velocity, shape (6, n).

    Source: Siciliano et al., Robotics: Modelling, Planning and Control (2009), section 3.1.3.
    """
    parent, kind, _, axis, q_index, multiplier, _ = model
    J[:, :] = 0.0
    a = np.zeros(3)
    d = np.zeros(3)
    row = tip
    while row > 0:
        if kind[row] != 0:
            # The axis of a joint has the same coordinates before and after its own motion.
            for i in range(3):
                total = 0.0
                for k in range(3):
                    total += X[row, i, k] * axis[row, k]
                a[i] = multiplier[row] * total
                d[i] = X[tip, i, 3] - X[row, i, 3]
            column = q_index[row]
            for i in range(3):
                j, k = (i + 1) % 3, (i + 2) % 3
                if kind[row] == 1:
                    J[i, column] += a[j] * d[k] - a[k] * d[j]
                    J[3 + i, column] += a[i]
                else:
                    J[i, column] += a[i]
        row = parent[row]


@kernel
def many_poses(model: Model, Q: Array, rows: IndexArray, out: Array) -> None:
    """Write the poses of some rows for many configurations.

    Args:
        model: the robot.
        Q: configurations [rad or m], shape (m, n).
        rows: indices of rows, shape (r,).
        out: result, poses in row 0, shape (m, r, 4, 4).
    """
    X, needed = np.empty((model[0].shape[0], 4, 4)), rows_down_to(model, rows)
    for m in range(Q.shape[0]):
        some_poses(model, needed, Q[m], X)
        for i in range(rows.shape[0]):
            out[m, i] = X[rows[i]]


@kernel
def many_jacobians(model: Model, Q: Array, tip: int, out: Array) -> None:
    """Write the Jacobian of a row for many configurations.

    Args:
        model: the robot.
        Q: configurations [rad or m], shape (m, n).
        tip: index of the row.
        out: result, see :func:`jacobian`, shape (m, 6, n).
    """
    X = np.empty((model[0].shape[0], 4, 4))
    needed = rows_down_to(model, np.array([tip], np.int32))
    for m in range(Q.shape[0]):
        some_poses(model, needed, Q[m], X)
        jacobian(model, X, tip, out[m])

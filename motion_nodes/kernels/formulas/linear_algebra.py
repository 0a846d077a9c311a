# SPDX-License-Identifier: Apache-2.0
"""Linear algebra on lists of values: vectors, and matrices as lists of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from motion_nodes.kernels.formulas.ops import Ops

Vector = list[Any]
Matrix = list[list[Any]]


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    """Return the dot product."""
    total: Any = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def times_matrix(A: Matrix, B: Matrix) -> Matrix:
    """Return the matrix product."""
    columns = transposed(B)
    return [[dot(row, column) for column in columns] for row in A]


def times_vector(A: Matrix, b: Sequence[Any]) -> Vector:
    """Return the matrix-vector product."""
    return [dot(row, b) for row in A]


def transposed(A: Matrix) -> Matrix:
    """Return the transpose."""
    return [list(column) for column in zip(*A, strict=True)]


def plus(a: Sequence[Any], b: Sequence[Any]) -> Vector:
    """Return the sum of two vectors."""
    return [x + y for x, y in zip(a, b, strict=True)]


def minus(a: Sequence[Any], b: Sequence[Any]) -> Vector:
    """Return the difference of two vectors."""
    return [x - y for x, y in zip(a, b, strict=True)]


def scaled(factor: Any, a: Sequence[Any]) -> Vector:
    """Return a vector times a number."""
    return [factor * x for x in a]


def cross(a: Sequence[Any], b: Sequence[Any]) -> Vector:
    """Return the cross product."""
    return [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]


def factorized(ops: Ops, A: Matrix, least: float | None = None) -> tuple[Matrix, Vector, Vector]:
    """Return the factorization L D L^T of a symmetric positive definite matrix, shape (n, n).

    Args:
        ops: operations.
        A: the matrix; only its lower half is used.
        least: minimum pivot; smaller ones are raised to it. None: no minimum.

    Returns:
        L (below its unit diagonal), the inverse pivots 1 / D, and the pivots before raising them.

    Source: Golub and Van Loan, Matrix Computations, algorithm 4.1.1.
    """
    n = len(A)
    L: Matrix = [[0.0] * n for _ in range(n)]
    inverse: Vector = []
    pivots: Vector = []
    for j in range(n):
        scaled_row = [L[j][k] for k in range(j)]  # L[j][k] still holds L D
        pivot = A[j][j]
        for k in range(j):
            factor = scaled_row[k] * inverse[k]
            pivot = pivot - factor * scaled_row[k]
            L[j][k] = factor
        pivots.append(pivot)
        inverse.append(ops.divide(1.0, pivot if least is None else ops.maximum(pivot, least)))
        for i in range(j + 1, n):
            total = A[i][j]
            for k in range(j):
                total = total - L[i][k] * L[j][k]
            L[i][j] = total
    return L, inverse, pivots


def solved(L: Matrix, inverse: Vector, b: Sequence[Any]) -> Vector:
    """Return the solution of ``L D L^T x = b``; see :func:`factorized`."""
    n = len(b)
    x: Vector = list(b)
    for i in range(n):
        for k in range(i):
            x[i] = x[i] - L[i][k] * x[k]
    x = [value * inverse[i] for i, value in enumerate(x)]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            x[i] = x[i] - L[k][i] * x[k]
    return x

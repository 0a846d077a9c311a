# SPDX-License-Identifier: Apache-2.0
"""A robot's kinematics as plain arrays, and two transformations: fixed joints, another root frame.

Generated and generic kernels read only these arrays. To fix joints at a value, or to express poses
relative to another frame, the arrays are transformed first; the kernels need no options.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from motion_nodes.typing import Array, IndexArray

ByteArray = NDArray[np.int8]

FIXED, REVOLUTE, PRISMATIC = 0, 1, 2


class PackedLike(Protocol):
    """Attributes read from a packed tree of the model layer: one row per frame, parents first."""

    @property
    def frame_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def joint_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def parent(self) -> IndexArray: ...  # noqa: D102
    @property
    def kind(self) -> IndexArray: ...  # noqa: D102
    @property
    def X_PJ(self) -> Array: ...  # noqa: D102
    @property
    def axis(self) -> Array: ...  # noqa: D102
    @property
    def q_index(self) -> IndexArray: ...  # noqa: D102
    @property
    def multiplier(self) -> Array: ...  # noqa: D102
    @property
    def offset(self) -> Array: ...  # noqa: D102


@dataclass(frozen=True)
class PackedArrays:
    """Kinematics of ``f`` rows moved by ``n`` joint positions; poses are relative to row 0."""

    joint_count: int
    """Length ``n`` of a configuration."""
    parent: IndexArray
    """Row of the parent, -1 for row 0; parents precede their children, shape (f,)."""
    kind: IndexArray
    """0 fixed, 1 revolute, 2 prismatic, shape (f,)."""
    X_PJ: Array
    """Pose of the joint frame in the parent, shape (f, 4, 4)."""
    axis: Array
    """Unit axis in the joint frame, shape (f, 3)."""
    q_index: IndexArray
    """Index in ``q`` of the joint that moves the row, -1 for none, shape (f,)."""
    multiplier: Array
    """Joint displacement [rad or m] = multiplier * q[q_index] + offset, shape (f,)."""
    offset: Array
    """See ``multiplier``, shape (f,) [rad or m]."""
    frame_rows: tuple[int, ...]
    """Row of each named frame; re-rooting adds rows without a name."""

    def digest(self) -> str:
        """Return a hash of all numbers in the arrays."""
        return self._hash(np.arange(len(self.parent)), self.parent.tolist(), self.frame_rows)

    def digest_to(self, row: int) -> str:
        """Return a hash of the numbers on which the pose of a row depends: those down to it."""
        chain = [row]
        while self.parent[chain[-1]] >= 0:
            chain.append(int(self.parent[chain[-1]]))
        return self._hash(np.array(chain[::-1]))

    def _hash(self, rows: NDArray[np.intp], *others: object) -> str:
        sha = hashlib.sha256(repr((self.joint_count, *others)).encode())
        for name in ("kind", "X_PJ", "axis", "q_index", "multiplier", "offset"):
            array = getattr(self, name)[rows]
            sha.update(f"{name}{array.dtype.str}{array.shape}".encode())
            sha.update(array.tobytes())
        return sha.hexdigest()


def joint_motion(kind: int, axis: Array, value: float) -> Array:
    """Return the pose of the child in the joint frame at a joint displacement.

    Args:
        kind: 0 fixed, 1 revolute, 2 prismatic.
        axis: unit axis in the joint frame, shape (3,).
        value: joint displacement [rad or m].

    Returns:
        Homogeneous matrix, shape (4, 4).

    Source: Rodrigues' rotation formula.
    """
    X = np.eye(4)
    if kind == PRISMATIC:
        X[:3, 3] = value * axis
    elif kind == REVOLUTE:
        cross = np.array(
            [[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]]
        )
        X[:3, :3] += np.sin(value) * cross + (1.0 - np.cos(value)) * (cross @ cross)
    return X


def pack(tree: PackedLike, joints: Sequence[str], fixed: Mapping[str, float]) -> PackedArrays:
    """Transform a tree so that ``q`` holds only ``joints``, in that order.

    Args:
        tree: the robot; every name in ``joints`` and ``fixed`` must be one of its joints.
        joints: the joints of a configuration.
        fixed: position of each other joint [rad or m]; default 0.

    Returns:
        Arrays in which all other joints are part of the fixed transforms.
    """
    column = {name: i for i, name in enumerate(joints)}
    kind, q_index = tree.kind.copy(), tree.q_index.copy()
    X_PJ, axis = tree.X_PJ.copy(), tree.axis.copy()
    multiplier, offset = tree.multiplier.copy(), tree.offset.copy()
    for row, index in enumerate(tree.q_index):
        if index < 0:
            continue
        name = tree.joint_names[index]
        if name in column:
            q_index[row] = column[name]
            continue
        value = multiplier[row] * float(fixed.get(name, 0.0)) + offset[row]
        X_PJ[row] = X_PJ[row] @ joint_motion(int(kind[row]), axis[row], value)
        kind[row], q_index[row] = FIXED, -1
        axis[row], multiplier[row], offset[row] = 0.0, 0.0, 0.0
    return PackedArrays(
        len(column),
        tree.parent.copy(),
        kind,
        X_PJ,
        axis,
        q_index,
        multiplier,
        offset,
        tuple(range(len(tree.frame_names))),
    )


def reroot(arrays: PackedArrays, base_row: int) -> PackedArrays:
    """Transform a tree so that poses are relative to another of its rows.

    A joint between the new base and the old root is traversed from child to parent: first its
    inverse motion (a row of its own, at the same place), then its inverse fixed transform.

    Args:
        arrays: the robot.
        base_row: the row that becomes row 0.

    Returns:
        Arrays with the same frames, and one more row per moving joint above the base.
    """
    builder = _Rows()
    new_row = {base_row: builder.add(-1)}
    row = base_row
    while arrays.parent[row] >= 0:
        at = new_row[row]
        if arrays.kind[row] != FIXED:
            at = builder.add(at, arrays, row, backwards=True)
        X_JP = _inverse(arrays.X_PJ[row])
        row = int(arrays.parent[row])
        new_row[row] = builder.add(at, X_PJ=X_JP)
    for row, parent in enumerate(arrays.parent):
        if row not in new_row:
            new_row[row] = builder.add(new_row[int(parent)], arrays, row)
    return builder.arrays(arrays.joint_count, tuple(new_row[r] for r in arrays.frame_rows))


class _Rows:
    """Collects the rows of a tree under construction."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, Array, Array, int, float, float]] = []

    def add(
        self,
        parent: int,
        arrays: PackedArrays | None = None,
        row: int = 0,
        *,
        X_PJ: Array | None = None,
        backwards: bool = False,
    ) -> int:
        """Add a fixed row, or one that moves like ``row`` of ``arrays``; return its index."""
        X = np.eye(4) if X_PJ is None else X_PJ
        entry = (parent, FIXED, X, np.zeros(3), -1, 0.0, 0.0)
        if arrays is not None:
            entry = (
                parent,
                int(arrays.kind[row]),
                X if backwards else arrays.X_PJ[row],
                -arrays.axis[row] if backwards else arrays.axis[row],
                int(arrays.q_index[row]),
                float(arrays.multiplier[row]),
                float(arrays.offset[row]),
            )
        self._rows.append(entry)
        return len(self._rows) - 1

    def arrays(self, joint_count: int, frame_rows: tuple[int, ...]) -> PackedArrays:
        """Return the collected rows as arrays."""
        parent, kind, X_PJ, axis, q_index, multiplier, offset = zip(*self._rows, strict=True)
        return PackedArrays(
            joint_count,
            np.array(parent, np.int32),
            np.array(kind, np.int32),
            np.array(X_PJ, np.float64),
            np.array(axis, np.float64),
            np.array(q_index, np.int32),
            np.array(multiplier, np.float64),
            np.array(offset, np.float64),
            frame_rows,
        )


def _inverse(X_AB: Array) -> Array:
    """Return the pose of A in B."""
    X_BA = np.eye(4)
    X_BA[:3, :3] = X_AB[:3, :3].T
    X_BA[:3, 3] = -X_AB[:3, :3].T @ X_AB[:3, 3]
    return X_BA

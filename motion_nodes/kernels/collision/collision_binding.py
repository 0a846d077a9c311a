# SPDX-License-Identifier: Apache-2.0
"""Binding of the collision checks: the code, shared by all robots, and the table it reads.

The poses of the robot's groups are the only part of collision checking that is generated per robot.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels import native
from motion_nodes.kernels.cache import source_digest
from motion_nodes.kernels.collision.collision_codegen import checks_text, nearest_text
from motion_nodes.kernels.collision.collision_memory import FIELDS, KINDS, added_digest
from motion_nodes.kernels.expression_graph import Program
from motion_nodes.kernels.formulas.shapes import ShapeFormula
from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.kernels.llvm_text import module_text
from motion_nodes.kernels.robot_codegen import KinematicsTracer, load_code
from motion_nodes.kernels.simd import Lanes
from motion_nodes.typing import Array

_Nearest = ctypes.CFUNCTYPE(
    None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
_SOURCES = (
    "collision.collision_memory",
    "collision.collision_shapes",
    "formulas.ops",
    "formulas.shapes",
    "collision.collision_codegen",
)
_State = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_Edge = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Many = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


class TablePart:
    """Some fields of tables, and the arrays they refer to; immutable."""

    def __init__(self, fields: Mapping[str, int | NDArray[Any]]) -> None:
        """Look up the addresses, which takes a microsecond per array.

        Args:
            fields: for each name in ``FIELDS`` an integer, or an array whose address is stored.
        """
        self.fields = fields
        self.places = [FIELDS[name] for name in fields]
        self.words = [
            value.ctypes.data if isinstance(value, np.ndarray) else value
            for value in fields.values()
        ]


class CollisionTable:
    """The table read by the checks; immutable."""

    def __init__(self, *parts: TablePart) -> None:
        """Fill the table from parts that together have all ``FIELDS``."""
        self._parts = parts  # keeps their arrays alive
        self._table = np.zeros(FIELDS.size, np.int64)
        self._table[[place for part in parts for place in part.places]] = [
            word for part in parts for word in part.words
        ]
        self.address = int(self._table.ctypes.data)


class CollisionCalls:
    """The checks as functions of arrays; thread-safe, run without the GIL."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self._code = load_code(
            f"collision {source_digest(_SOURCES)} {lanes}{added_digest()}",
            lambda: checks_text(lanes),
        )
        self.state_address = self._code.address("state")
        self.edge_address = self._code.address("edge")
        self._state = _State(self.state_address)
        self._edge = _Edge(self.edge_address)
        self._many = _Many(self._code.address("many"))

    def is_free(self, q: Array, table: CollisionTable) -> bool:
        """Return whether a configuration is collision-free: [rad or m], contiguous, shape (n,)."""
        return bool(self._state(q.ctypes.data, table.address))

    def edge_free(self, a: Array, b: Array, table: CollisionTable) -> bool:
        """Return whether the edge from ``a`` to ``b`` is collision-free; ``a`` is not checked.

        Args:
            a: start [rad or m], contiguous, shape (n,).
            b: end, likewise.
            table: the robot and the world.
        """
        return bool(self._edge(a.ctypes.data, b.ctypes.data, table.address))

    def line_free(self, points: Array, table: CollisionTable) -> bool:
        """Return whether all edges between successive rows, (k, n), contiguous, are free."""
        first, size = points.ctypes.data, points.strides[0]
        return all(
            self._edge(at, at + size, table.address)
            for at in range(first, first + (len(points) - 1) * size, size)
        )

    def are_free(self, Q: Array, table: CollisionTable) -> NDArray[np.bool_]:
        """Return which configurations are collision-free: [rad or m], contiguous, shape (m, n)."""
        free = np.empty(len(Q), np.bool_)
        self._many(Q.ctypes.data, len(Q), free.ctypes.data, table.address)
        return free


class NearestCalls:
    """Distances of spheres to the world; thread-safe, run without the GIL."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self._code = load_code(
            f"collision nearest {source_digest(_SOURCES)} {lanes}{added_digest()}",
            lambda: nearest_text(lanes),
        )
        self._nearest = _Nearest(self._code.address("nearest"))

    def nearest(
        self, x: NDArray[np.float32], checked: NDArray[np.int8], table: CollisionTable
    ) -> NDArray[np.float32]:
        """Return distance, direction and object index for each sphere; see ``sphere_distances``.

        Args:
            x: x, y, z, radius [m], contiguous, shape (4, count); count is a multiple of the lane
                count.
            checked: whether an object and a sphere are checked, contiguous, shape (objects, count).
            table: the world.

        Returns:
            Distance [m], direction (3) and object index, shape (5, count).
        """
        out = np.empty((5, x.shape[1]), np.float32)
        addresses = (x.ctypes.data, checked.ctypes.data, out.ctypes.data, table.address)
        self._nearest(x.shape[1], *addresses)
        return out


def nearest_calls() -> NearestCalls:
    """Return the distance kernel; the first call loads or compiles it.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    return _nearest_calls(tuple(KINDS.values()))


def collision_calls(lane_count: int | None = None) -> CollisionCalls:
    """Return the collision checks; the first call loads or compiles them.

    Args:
        lane_count: configurations per SIMD register; default: the register width.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    return _collision_calls(tuple(KINDS.values()), lane_count)


@functools.cache
def _nearest_calls(kinds: tuple[ShapeFormula, ...]) -> NearestCalls:
    return NearestCalls(native.host_cpu().lanes("float"))


@functools.cache
def _collision_calls(kinds: tuple[ShapeFormula, ...], lane_count: int | None) -> CollisionCalls:
    lanes = native.host_cpu().lanes("float")
    return CollisionCalls(lanes if lane_count is None else Lanes("float", lane_count))


def groups_program(arrays: PackedArrays, rows: Sequence[int]) -> Program:
    """Return the program from joint positions to poses: rotation (9), translation (3) per group.

    Args:
        arrays: the robot; poses are relative to its row 0.
        rows: row of each group.
    """
    tracer = KinematicsTracer(arrays)
    elements = []
    for row in rows:
        R, p = tracer.pose(row)
        elements += [*R[0], *R[1], *R[2], *p]
    return Program(tracer.tape, arrays.joint_count, (tuple(elements),))


def place_function(arrays: PackedArrays, rows: Sequence[int], lanes: Lanes) -> tuple[object, int]:
    """Return the loaded code, and the address of ``place(q, poses)`` in lanes.

    Args:
        arrays: the robot; poses are relative to its row 0.
        rows: row of each group.
        lanes: the SIMD type; q and poses have its layout.

    Raises:
        CodeGenerationError: the code cannot be compiled on this machine.
    """
    code = load_code(
        f"collision groups {arrays.digest()} {tuple(rows)} {lanes}",
        lambda: module_text(
            {"groups": groups_program(arrays, rows)}, {"groups": ("lanes",)}, lanes
        ),
    )
    return code, code.address("groups_lanes")

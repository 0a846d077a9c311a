# SPDX-License-Identifier: Apache-2.0
"""Poses of the robot's groups: the only part of collision checking that is generated per robot."""

from __future__ import annotations

from collections.abc import Sequence

from motion_nodes.kernels.expression_graph import Program
from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.kernels.kinematics_codegen import KinematicsTracer
from motion_nodes.kernels.llvm_text import module_text
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes


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

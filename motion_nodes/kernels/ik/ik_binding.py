# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of a chain: by generated code where possible, else by the generic one."""

from __future__ import annotations

import logging
from typing import Protocol

from motion_nodes.kernels.ik.ik_memory import IkWorkspace
from motion_nodes.kernels.kinematic_arrays import Array, PackedArrays

_LOG = logging.getLogger(__name__)


class IkKernel(Protocol):
    """Solves of one chain. What goes in and comes out stands in the memory."""

    generated: bool

    def solve(self, work: IkWorkspace) -> int:
        """Begin a solve and return its outcome; see :mod:`motion_nodes.kernels.ik.ik_memory`."""

    def resume(self, work: IkWorkspace) -> int:
        """Go on after a pause or a solution and return the outcome."""

    def many(self, work: IkWorkspace, targets: Array, q: Array, report: Array) -> None:
        """Solve for m poses one after the other.

        Args:
            work: the memory; with ``given`` = 1, ``starts`` is the address of m starts.
            targets: shape (m, 4, 4).
            q: results, shape (m, n): solutions, or what came nearest.
            report: outcome, iterations, starts, errors of the solution, shape (m, REPORT).
        """


def ik_kernel(arrays: PackedArrays, row: int, *, generic: bool = False) -> IkKernel:
    """Return the best kernel there is for a chain.

    Args:
        arrays: the robot; targets are relative to its row 0.
        row: the tip.
        generic: True to use the generic kernel in any case.
    """
    if not generic:
        try:
            from motion_nodes.kernels.ik.ik_codegen import GeneratedIk
            from motion_nodes.kernels.robot_codegen import CodeGenerationError
        except (ImportError, OSError) as error:  # llvmlite is missing or does not load
            _LOG.warning("generic inverse kinematics in use: %s", error)
        else:
            try:
                return GeneratedIk(arrays, row)
            except CodeGenerationError as error:
                _LOG.warning("generic inverse kinematics in use: %s", error)
    from motion_nodes.kernels.ik.numpy_ik import GenericIk

    return GenericIk(arrays, row)

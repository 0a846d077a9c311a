# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of a chain: generated code if available, else the generic kernel."""

from __future__ import annotations

import logging
from typing import Protocol

from motion_nodes.kernels.ik.ik_memory import IkWorkspace
from motion_nodes.kernels.kinematic_arrays import Array, PackedArrays

_LOG = logging.getLogger(__name__)


class IkKernel(Protocol):
    """Solver of one chain. Inputs and outputs are in the workspace."""

    generated: bool

    def solve(self, work: IkWorkspace) -> int:
        """Begin a solve and return its outcome; see :mod:`motion_nodes.kernels.ik.ik_memory`."""

    def resume(self, work: IkWorkspace) -> int:
        """Continue after a pause or a solution and return the outcome."""

    def many(self, work: IkWorkspace, targets: Array, q: Array, report: Array) -> None:
        """Solve for m poses one after the other.

        Args:
            work: the workspace; with ``given`` = 1, ``starts`` is the address of m seeds.
            targets: poses of the tip in row 0, shape (m, 4, 4).
            q: results, shape (m, n): solutions, or the configurations with the smallest error.
            report: outcome, iterations, seeds used, errors of the solution, shape (m, REPORT).
        """


def ik_kernel(arrays: PackedArrays, row: int, *, generic: bool = False) -> IkKernel:
    """Return the fastest available kernel for a chain.

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

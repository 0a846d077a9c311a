# SPDX-License-Identifier: Apache-2.0
"""Loops over all pairs of spheres and obstacles, one function per shape, as LLVM code."""

from __future__ import annotations

from motion_nodes.kernels.formulas.shapes import BALL
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_ball_pairs import BallLoop, single_lanes
from motion_nodes.kernels.rmp.rmp_memory import RmpModel, obstacle_shapes
from motion_nodes.kernels.rmp.rmp_pair_loop import PairLoop, picks_text
from motion_nodes.kernels.simd import Lanes


def pairs_text(model: RmpModel, at: FieldLayout, spheres: int, lanes: Lanes) -> str:
    """Return the functions of the loops.

    ``rmp_<shape>(memory, first, end, obstacles, count, bounds)`` for each shape of obstacles; it
    processes the blocks of spheres from ``first`` to ``end - 1``.
    """
    places = list(model.places("collision").values())
    loops = [
        (BallLoop if shape is BALL else PairLoop)(shape, places, at, spheres, lanes).text()
        for shape in obstacle_shapes().values()
    ]
    return "\n".join([picks_text(lanes.count), *loops])


def pair_declarations(lanes: Lanes) -> list[str]:
    """Return the declarations of the functions called by the loops, besides those of ``lanes``."""
    largest = f"declare double @llvm.vector.reduce.fmax.{lanes.suffix}({lanes.type})"
    return [largest, *declarations(single_lanes(lanes))]

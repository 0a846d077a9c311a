# SPDX-License-Identifier: Apache-2.0
"""The memory of RMPflow's generated code: what stands where, in units of 8 bytes.

Code, policy and tests share this memory and nothing else. Everything is in the robot's base frame.
What belongs to a sphere lies with the same component of all spheres side by side, so that a
register is filled by one load: first the spheres that keep away from the world, those of carried
things last of them, then those that keep away from the robot's own base (guards).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.ik.ik_memory import FieldLayout
from motion_nodes.kernels.kinematic_arrays import FIXED, Array, PackedArrays

BLOCK = 8
"""Spheres are padded to a multiple of this, on every CPU."""
CARRIED = 48
"""Spheres kept for what the tool carries."""
FAR = 1e5
"""Least distance of a sphere without anything near it [m]."""
MOTION = 24
"""Numbers that tell pose and motion of a row."""
WRENCH = 32
"""Numbers that tell what a sphere asks of its row: 27, filled up to whole registers."""
BOX, ROUND = 22, 26
"""Numbers per obstacle, see :class:`ObstacleArrays`."""

_PARAMETERS = {
    "cspace": ("metric", "gain", "damping", "threshold", "inertia"),
    "limit": (
        *("metric", "per_length", "eps", "per_gate"),
        *("damper", "potential", "per_potential_length", "potential_eps"),
    ),
    "cap": ("damping", "metric"),
    "target": (
        *("gain", "damping", "eps", "alpha_exponent", "least_alpha"),
        *("near", "far", "boost", "boost_exponent"),
    ),
    "axis": ("gain", "damping", "metric", "boost", "boost_exponent"),
    "collision": (
        *("damping", "per_damping_length", "damping_eps", "per_gate", "repulsion"),
        *("per_repulsion_length", "per_radius", "metric", "per_metric_length", "metric_eps"),
    ),
    "damping": ("gain", "metric", "inertia"),
    "resolve": ("most",),
}

PARAMETERS = {
    f"{group}.{name}": index
    for index, (group, name) in enumerate((g, n) for g, names in _PARAMETERS.items() for n in names)
}
"""Numbers that the code multiplies by, and where they stand among the parameters."""


@dataclass(frozen=True, eq=False)
class RmpModel:
    """What of a robot the code is written for."""

    arrays: PackedArrays
    """Kinematics; row 0 is the robot's base frame, the active joints come first in ``q``."""
    active: int
    """How many joints the policy moves; the others only carry links along."""
    tool_row: int
    sphere_rows: tuple[int, ...]
    """Row of each sphere that keeps away from the world."""
    sphere_centres: Array
    """Their centres in their rows [m], shape (s, 3)."""
    guard_rows: tuple[int, ...]
    """Row of each sphere that keeps away from the base."""

    @property
    def moving_rows(self) -> tuple[int, ...]:
        """Rows that an active joint moves against their parents."""
        kind, index = self.arrays.kind, self.arrays.q_index
        return tuple(
            row
            for row in range(1, len(kind))
            if kind[row] != FIXED and int(index[row]) < self.active
        )

    def digest(self) -> str:
        """Return what code for this model depends on."""
        rows = (self.active, self.tool_row, self.sphere_rows, self.guard_rows)
        return f"{self.arrays.digest()} {rows} {np.asarray(self.sphere_centres).tobytes().hex()}"


def padded(count: int) -> int:
    """Return a number of spheres, filled up to whole blocks."""
    return -(-count // BLOCK) * BLOCK


@dataclass(frozen=True)
class RmpRun:
    """Spheres side by side in memory that move with one row."""

    row: int
    start: int
    count: int


def sphere_runs(model: RmpModel) -> tuple[RmpRun, ...]:
    """Return all spheres, in the order of memory."""
    carried, guards, _ = sphere_places(model)
    runs: list[RmpRun] = []
    for place, row in enumerate(model.sphere_rows):
        if runs and runs[-1].row == row:
            runs[-1] = RmpRun(row, runs[-1].start, runs[-1].count + 1)
        else:
            runs.append(RmpRun(row, place, 1))
    runs.append(RmpRun(model.tool_row, carried, CARRIED))
    return (*runs, *(RmpRun(row, guards + k, 1) for k, row in enumerate(model.guard_rows)))


def sphere_places(model: RmpModel) -> tuple[int, int, int]:
    """Return where carried spheres begin, where guards begin, and where all end.

    A whole block may be written for each run, so one more than are needed ends the memory.
    """
    carried = len(model.sphere_rows)
    guards = padded(carried + CARRIED)
    return carried, guards, guards + padded(len(model.guard_rows)) + BLOCK


def rmp_layout(model: RmpModel) -> FieldLayout:
    """Return the whole memory.

    Whole numbers: addresses and counts of obstacles (boxes, round ones, base capsules), and how
    many blocks of spheres are in use. Then inputs, working memory, results.
    """
    n, joints = model.active, model.arrays.joint_count
    spheres, runs = sphere_places(model)[2], len(sphere_runs(model))
    return FieldLayout(
        boxes=2,
        rounds=2,
        capsules=2,
        blocks=1,
        unused=1,
        q=joints,
        qd=joints,
        posture=n,
        lower=n,
        upper=n,
        max_velocity=n,
        region=n,
        goal=3,
        goal_axes=9,
        has_goal=2,
        parameters=len(PARAMETERS),
        links=MOTION * runs,
        columns=6 * len(model.moving_rows),
        centre=3 * spheres,
        radius=spheres,
        nearest=spheres,
        position=3 * spheres,
        velocity=3 * spheres,
        bias=3 * spheres,
        metric=6 * spheres,
        force=3 * spheres,
        wrench=WRENCH * spheres,
        sums=WRENCH * runs,
        qdd=n,
        least_pivot=1,
        M=n * n,
        rhs=n,
        tool=12,
    )


@dataclass(frozen=True)
class ObstacleArrays:
    """ObstacleArrays as the code reads them; both arrays are C-contiguous."""

    boxes: Array
    """Shape (b, BOX): rotation (9, row by row), position (3), half sizes (3), radius of the
    rounding, velocity (3), angular velocity (3). A sphere is a box without size, a capsule one with
    a single size, the ground a vast one."""
    rounds: Array
    """Shape (r, ROUND): rotation, position, half height, radius below, radius above; outward normal
    of the side (across, along); inverse squares of the lengths of bottom, side and top in the
    section through the axis; velocity, angular velocity. Cylinders and cones about z."""


def empty_obstacles() -> ObstacleArrays:
    """Return no obstacles."""
    return ObstacleArrays(np.empty((0, BOX)), np.empty((0, ROUND)))


def new_memory(model: RmpModel) -> NDArray[np.float64]:
    """Return memory with the robot's spheres in place, none of which is in use."""
    at = rmp_layout(model)
    memory = np.zeros(at.size)
    memory[at["radius"] : at["nearest"]] = -10.0 * FAR
    _, _, total = sphere_places(model)
    centres = memory[at["centre"] : at["centre"] + 3 * total].reshape(3, total)
    centres[:, : len(model.sphere_rows)] = np.asarray(model.sphere_centres).T
    return memory

# SPDX-License-Identifier: Apache-2.0
"""Memory layout of RMPflow's generated code, in units of 8 bytes.

Code, policy and tests share this memory and nothing else. Everything is in the robot's base frame.
Values of spheres are stored component by component, so that a SIMD register is filled by one load:
first the spheres that avoid the world, those of attached objects last, then those that avoid the
robot's own base (guards).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.collision.collision_memory import (
    ALIGNED_BOX,
    CAPSULE,
    HALF_SPACE,
    KINDS,
    TRIANGLE,
)
from motion_nodes.kernels.formulas.shapes import BALL, BOX, CONE, CYLINDER, ShapeFormula
from motion_nodes.kernels.kinematic_arrays import FIXED, PackedArrays
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_leaves import Leaf
from motion_nodes.typing import Array

BLOCK = 8
"""The number of spheres is padded to a multiple of this, on every CPU."""
CARRIED = 48
"""Max number of spheres of attached objects."""
FAR = 1e5
"""Distance reported for a sphere without obstacles [m]."""
MOTION = 24
"""Values of pose and motion per row."""
WRENCH = 32
"""Values of metric and force per row: 27, padded to full registers."""
OBSTACLE = 22
"""Values per obstacle, see :class:`ObstacleArrays`."""
MOVES, BOUND = 4, 5
"""Row of the bounds that marks moving obstacles, and number of rows before the lists; see
:func:`obstacle_bounds`."""
SINGLES = BOUND + 2
"""Row of the bounds from which on the :data:`BALL_VALUES` are stored."""
BALL_VALUES = (9, 10, 11, 15)
"""Position and radius among the values of a ball."""
BOUNDED_BY = {BALL.name: 0, BOX.name: 3, CYLINDER.name: 2, CONE.name: 2}
"""Number of leading sizes, by shape, whose norm bounds the distance of its core from the origin,
which is inside; others are unbounded."""
PACKED_AS_OTHERS = (ALIGNED_BOX, CAPSULE, HALF_SPACE, TRIANGLE)
"""Kinds of leaves that are no shapes of obstacles: solids made of them become boxes or balls."""


@dataclass(frozen=True, eq=False)
class RmpModel:
    """The robot that code is generated for."""

    arrays: PackedArrays
    """Kinematics; row 0 is the robot's base frame, the active joints come first in ``q``."""
    active: int
    """Number of joints moved by the policy; the others only affect the motion of links."""
    tool_row: int
    sphere_rows: tuple[int, ...]
    """Row of each sphere that avoids the world."""
    sphere_centres: Array
    """Centres of these spheres in their rows [m], shape (s, 3)."""
    guard_rows: tuple[int, ...]
    """Row of each sphere that avoids the base."""
    leaves: tuple[Leaf, ...]
    """RMPs of joints and of the tool."""
    parameters: tuple[str, ...]
    """Names of all coefficients, in memory order; see ``rmp_leaves.coefficients``."""
    formulas: str
    """Digest of registered formulas, which are not part of the package."""

    def places(self, group: str) -> dict[str, int]:
        """Return the indices of a group's coefficients among all, by their own names."""
        split = [name.partition(".") for name in self.parameters]
        return {own: k for k, (name, _, own) in enumerate(split) if name == group}

    @property
    def moving_rows(self) -> tuple[int, ...]:
        """Rows that an active joint moves relative to their parents."""
        kind, index = self.arrays.kind, self.arrays.q_index
        return tuple(
            row
            for row in range(1, len(kind))
            if kind[row] != FIXED and int(index[row]) < self.active
        )

    def digest(self) -> str:
        """Return a hash of everything that generated code depends on."""
        rows = (self.active, self.tool_row, self.sphere_rows, self.guard_rows)
        centres = np.asarray(self.sphere_centres).tobytes().hex()
        return f"{self.arrays.digest()} {rows} {centres} {self.formulas}"


def padded(count: int) -> int:
    """Return a number of spheres rounded up to full blocks."""
    return -(-count // BLOCK) * BLOCK


@dataclass(frozen=True)
class RmpRun:
    """Consecutive spheres in memory that move with one row."""

    row: int
    start: int
    count: int


def sphere_runs(model: RmpModel) -> tuple[RmpRun, ...]:
    """Return the runs of all spheres, in memory order."""
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
    """Return the first index of attached spheres, that of guards, and the end of all.

    A full block may be written for each run, so the memory ends with one extra block.
    """
    carried = len(model.sphere_rows)
    guards = padded(carried + CARRIED)
    return carried, guards, guards + padded(len(model.guard_rows)) + BLOCK


def rmp_layout(model: RmpModel) -> FieldLayout:
    """Return the complete layout.

    Integers: addresses and counts of obstacles, and addresses of their bounds (of each shape, and
    base capsules), and the number of sphere blocks in use; tables of self-collision avoidance, see
    :class:`motion_nodes.kernels.rmp.rmp_codegen.LinkTables`. Then inputs, working memory,
    results.
    """
    n, joints = model.active, model.arrays.joint_count
    spheres, runs = sphere_places(model)[2], len(sphere_runs(model))
    return FieldLayout(
        **{obstacle_field(name): 3 for name in obstacle_shapes()},
        capsules=3,
        blocks=1,
        link_pairs=2,
        link_sizes=1,
        link_paths=1,
        link_radii=1,
        link_fixed=2,
        moving_spheres=1,
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
        parameters=len(model.parameters),
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
        nearest_links=1,
        M=n * n,
        rhs=n,
        tool=12,
    )


@dataclass(frozen=True)
class ObstacleArrays:
    """Obstacles as read by the generated code."""

    rows: Mapping[str, Array]
    """By name of the shape, C-contiguous, shape (k, OBSTACLE): rotation (9, row-major), position
    (3), sizes of the shape's formula (3), rounding radius, velocity (3), angular velocity (3).
    Capsules are boxes with a single size, the ground is a very large box."""


def empty_obstacles() -> ObstacleArrays:
    """Return no obstacles."""
    return ObstacleArrays({name: np.empty((0, OBSTACLE)) for name in obstacle_shapes()})


def obstacle_bounds(shape: str, rows: Array) -> Array:
    """Return spheres that contain obstacles, and memory for lists of obstacles.

    Args:
        shape: name of their shape; registered shapes may be of any size.
        rows: shape (k, OBSTACLE).

    Returns:
        Center [m], radius [m] and whether it moves (0 or 1), one component after the other, padded
        to full blocks with spheres that are never in range; then two rows for lists of obstacle
        indices, and two with the :data:`BALL_VALUES` of each obstacle side by side as float32;
        shape (SINGLES + 2, padded(k)).
    """
    bounds = np.full((SINGLES + 2, padded(len(rows))), FAR)
    singles = bounds[SINGLES:].view(np.float32).reshape(-1, len(BALL_VALUES))
    singles[: len(rows)] = rows[:, BALL_VALUES]
    bounds[MOVES] = 0.0
    bounds[MOVES, : len(rows)] = rows[:, 16:].any(axis=1)
    bounds[3] = -10.0 * FAR
    bounds[:3, : len(rows)] = rows[:, 9:12].T
    bounds[3, : len(rows)] = bounding_radii(shape, rows)
    return bounds


def bounding_radii(shape: str, rows: Array) -> Array:
    """Return the radii of spheres about the positions of obstacles that contain them [m].

    Args:
        shape: name of their shape; those of registered shapes are :data:`FAR`.
        rows: shape (k, OBSTACLE).

    Returns:
        Shape (k,).
    """
    count = BOUNDED_BY.get(shape)
    if count is None:
        return np.full(len(rows), FAR)
    return np.asarray(np.linalg.norm(rows[:, 12 : 12 + count], axis=1) + rows[:, 15])


def obstacle_shapes() -> dict[str, ShapeFormula]:
    """Return the shapes of obstacles, by name."""
    return {shape.name: shape for kind, shape in KINDS.items() if kind not in PACKED_AS_OTHERS}


def obstacle_field(name: str) -> str:
    """Return the field of the memory with address and count of the obstacles of a shape."""
    return f"{name}_obstacles"


def new_memory(model: RmpModel) -> NDArray[np.float64]:
    """Return memory with the robot's spheres, shape (size,), none of them in use."""
    at = rmp_layout(model)
    memory = np.zeros(at.size)
    memory[at["radius"] : at["nearest"]] = -10.0 * FAR
    _, _, total = sphere_places(model)
    centres = memory[at["centre"] : at["centre"] + 3 * total].reshape(3, total)
    centres[:, : len(model.sphere_rows)] = np.asarray(model.sphere_centres).T
    return memory

# SPDX-License-Identifier: Apache-2.0
"""Workspace of one inverse kinematics solve: memory layout, and NumPy views of it.

Generated code and the solver share this memory and nothing else. Eight descents run side by side;
values that differ between them are stored as eight consecutive numbers, one per *lane*.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.typing import Array

LANES = 8
"""Descents side by side; the same on every CPU, so that equal seeds give equal results up to
rounding.
"""
BLOCK = 64
"""Random configurations per block; the one closest to the target is a seed."""
FEATURES = 13
"""Values for the distance of a configuration to the target: |p|^2, p, R."""
REPORT = 9
"""Values per pose of a batch: outcome, iterations, seeds used, errors."""

PAUSED, FOUND, EXHAUSTED, NO_POSE = 0, 1, 2, 3
"""Outcomes: step budget used up; solutions in some lanes; no seed left; the target is not a valid
pose.
"""


def lane_inputs(n: int) -> FieldLayout:
    """Return the inputs of a step that differ between lanes.

    Configuration [rad or m]; pose of row 0 in the target, rotation, then translation [m]; smallest
    squared error reached; number of steps without progress.
    """
    return FieldLayout(q=n, X_TB=12, best=1, stalled=1)


def common_inputs(n: int) -> FieldLayout:
    """Return the inputs of a step that are common to all lanes.

    Per task-space axis (position [m], then rotation vector [rad], in the target frame): dead zone
    ``slack`` and tolerance ``box``, shape (6,) each; ``tolerance``: squared norm tolerance of
    position and rotation error beyond the dead zone, shape (2,); ``weight``: position weight [1/m];
    ``lower``, ``upper``: joint limits [rad or m], shape (n,) each.
    """
    return FieldLayout(slack=6, box=6, tolerance=2, weight=1, lower=n, upper=n)


def work_layout(n: int) -> FieldLayout:
    """Return the complete layout: inputs and results of the step, then those of the solve.

    Inputs of a solve besides those of the step:

    * ``target``: its pose in row 0; ``importance``: weights of position and rotation in the seed
      metric;
    * ``starts``: address of ``given`` seeds, shape (given, n); ``table`` and ``features``:
      addresses of random configurations, shape (blocks * BLOCK, n), and of their features, shape
      (blocks, FEATURES, BLOCK), float32; ``attempts``: total number of seeds;
    * ``grant``: step budget until a pause; ``prefer``: lanes, one bit each, that are awaited even
      if others have converged; ``discard``: lanes that restart from the next seed on resumption;
    * ``accept``: address of ``int32 accept(const double* q, const void* data)``, which returns
      whether a solution of a batch is accepted, or 0 for none; ``accept_data``: address of its
      data.

    Results: ``found``: lanes that hold a solution, one bit each; ``answer``: configuration [rad or
    m] and errors [m, rad] of the lowest of them; ``nearest``: smallest squared error of all
    abandoned descents, and its configuration; ``iterations``: steps taken, summed over active
    lanes; ``next``: seeds used.
    Internal: ``direction`` (factors of the features), ``defect`` (deviation of the target from a
    valid pose), ``live`` (active lanes), ``wait`` (lanes still awaited), ``steps`` (remaining
    steps).
    """
    return FieldLayout(
        own=lane_inputs(n).size * LANES,
        squared=LANES,
        solved=LANES,
        hopeless=LANES,
        errors=6 * LANES,
        common=common_inputs(n).size,
        target=16,
        importance=2,
        direction=FEATURES,
        defect=1,
        answer=n + 6,
        nearest=1 + n,
        live=1,
        found=1,
        discard=1,
        wait=1,
        next=1,
        attempts=1,
        given=1,
        iterations=1,
        grant=1,
        prefer=1,
        starts=1,
        table=1,
        features=1,
        accept=1,
        accept_data=1,
    )


class IkWorkspace:
    """Workspace of one solve of a chain with n joints. Used by one thread at a time."""

    def __init__(self, n: int) -> None:
        at, own, common = work_layout(n), lane_inputs(n), common_inputs(n)
        self.n = n
        self.at = at
        # 64-byte alignment: a vector of eight numbers is loaded in one instruction.
        memory = np.zeros(at.size + 8)
        first = -(memory.ctypes.data // 8) % 8
        self.memory: Array = memory[first : first + at.size]
        self.integers = self.memory.view(np.int64)
        self.address = int(self.memory.ctypes.data)

        def lanes(start: int, rows: int) -> Array:
            return self.memory[start : start + rows * LANES].reshape(rows, LANES)

        def field(start: int, size: int) -> Array:
            return self.memory[start : start + size]

        self.q = lanes(own["q"] * LANES, n)
        self.X_TB = lanes(own["X_TB"] * LANES, 12)
        self.best = lanes(own["best"] * LANES, 1)[0]
        self.stalled = lanes(own["stalled"] * LANES, 1)[0]
        self.squared = lanes(at["squared"], 1)[0]
        self.solved = lanes(at["solved"], 1)[0]
        self.hopeless = lanes(at["hopeless"], 1)[0]
        self.errors = lanes(at["errors"], 6)
        self.slack = field(at["common"] + common["slack"], 6)
        self.box = field(at["common"] + common["box"], 6)
        self.tolerance = field(at["common"] + common["tolerance"], 2)
        self.weight = field(at["common"] + common["weight"], 1)
        self.lower = field(at["common"] + common["lower"], n)
        self.upper = field(at["common"] + common["upper"], n)
        self.target = field(at["target"], 16).reshape(4, 4)
        self.importance = field(at["importance"], 2)
        self.direction = field(at["direction"], FEATURES)
        self.answer = field(at["answer"], n + 6)
        self.nearest = field(at["nearest"], 1 + n)

    def get(self, name: str) -> int:
        """Return an integer field."""
        return int(self.integers[self.at[name]])

    def set(self, **values: int) -> None:
        """Set integer fields."""
        for name, value in values.items():
            self.integers[self.at[name]] = value

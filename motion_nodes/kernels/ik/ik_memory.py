# SPDX-License-Identifier: Apache-2.0
"""The memory of one solve of inverse kinematics: what stands where, and NumPy views of it.

Generated code, the generic kernels and the solver share this memory and nothing else. Eight
descents run side by side; what differs between them lies as eight numbers in a row, one for each
*lane*.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.kinematic_arrays import Array

LANES = 8
"""Descents side by side: on every CPU, so that equal seeds give equal answers up to rounding."""
BLOCK = 64
"""Random configurations of which the one nearest to the target is a start."""
FEATURES = 13
"""Numbers that tell how near a configuration of a block is: |p|^2, p, R."""
REPORT = 9
"""Numbers about each pose of a batch: outcome, iterations, starts, errors."""

PAUSED, FOUND, EXHAUSTED, NO_POSE = 0, 1, 2, 3
"""Outcomes: steps used up; solutions in some lanes; no start left; the target is no pose."""


class FieldLayout(dict[str, int]):
    """Where named fields begin that lie one after the other, in units of 8 bytes."""

    def __init__(self, **sizes: int) -> None:
        super().__init__()
        self.size = 0
        for name, size in sizes.items():
            self[name] = self.size
            self.size += size


def lane_inputs(n: int) -> FieldLayout:
    """Return the inputs of a step that differ from lane to lane.

    They are: configuration; pose of row 0 in the target, rotation, then translation; least squared
    error so far; steps without progress.
    """
    return FieldLayout(q=n, X_TB=12, best=1, stalled=1)


def common_inputs(n: int) -> FieldLayout:
    """Return the inputs of a step that are the same in all lanes.

    They are, of errors about the axes of the target, position [m] before rotation [rad]: up to
    where they are none, and how great they may be; squares of the greatest lengths of position and
    rotation error beyond the former; what position errors are multiplied by [1/m]; limits.
    """
    return FieldLayout(slack=6, box=6, tolerance=2, weight=1, lower=n, upper=n)


def work_layout(n: int) -> FieldLayout:
    """Return the whole memory: inputs and results of the step, then what surrounds it.

    Inputs of a solve besides those of the step:

    * ``target``: its pose in row 0; ``importance`` of position and rotation in what is near;
    * ``starts``: address of ``given`` starts, shape (given, n); ``table`` and ``features``:
      addresses of random configurations, shape (blocks * BLOCK, n), and of their features, shape
      (blocks, FEATURES, BLOCK), float32; ``attempts``: how many starts there are in all;
    * ``grant``: how many steps until a pause; ``prefer``: lanes, a bit each, whose end is awaited
      even if others have arrived; ``discard``: lanes that take the next start on resumption.

    Results: ``found``: lanes that hold a solution, a bit each; ``answer``: configuration and errors
    of the lowest of them; ``nearest``: least squared error of all that was given up, and where;
    ``iterations``: steps taken, each lane at work counted; ``next``: starts used.
    In between: ``direction`` (factors of the features), ``defect`` (how far the target is from
    being a pose), ``live`` (lanes at work), ``wait`` (those still awaited), ``steps`` (those left).
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
        steps=1,
        iterations=1,
        grant=1,
        prefer=1,
        starts=1,
        table=1,
        features=1,
    )


class IkWorkspace:
    """The memory of one solve. Used by one thread at a time."""

    def __init__(self, n: int) -> None:
        at, own, common = work_layout(n), lane_inputs(n), common_inputs(n)
        self.n = n
        self.at = at
        # Vectors of eight numbers that begin at a multiple of 64 bytes are read in one go.
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
        """Return a whole number."""
        return int(self.integers[self.at[name]])

    def set(self, **values: int) -> None:
        """Change whole numbers."""
        for name, value in values.items():
            self.integers[self.at[name]] = value

# SPDX-License-Identifier: Apache-2.0
"""Binding of a robot's kernels to Python: generated code, or plain loops for a few calls.

Single calls are functions ``run(q, out...)`` that return 0, or 1 without writing unless all
arguments are contiguous float64 buffers of the right length (the generic ones check only ``q``).
They hold the GIL: releasing it would take longer than the computation. Batch calls take arrays that
the caller has checked, Q [rad or m] of shape (m, n), and release the GIL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.kernels.python_form import Run, RunMany, builtin
from motion_nodes.typing import Array


def robot_calls(arrays: PackedArrays, *, generic: bool = False) -> GeneratedCalls | GenericCalls:
    """Return the calls for a robot.

    Args:
        arrays: the robot.
        generic: True for kernels that serve any robot: about a hundred times slower per call, but
            nothing is compiled per robot, which is faster for a few calls.
    """
    return GenericCalls(arrays) if generic else GeneratedCalls(arrays)


class GeneratedCalls:
    """Calls of generated code."""

    generated = True

    def __init__(self, arrays: PackedArrays) -> None:
        from motion_nodes.kernels.robot_codegen import RobotCode

        self.code = RobotCode(arrays)
        self._run = functools.cache(self._find)
        self._run_many = functools.cache(self._find_many)

    def frames(self) -> Run:
        """Return the call for the poses of all frames, shape (f, 4, 4)."""
        return self._run("frames", None)

    def pose(self, row: int) -> Run:
        """Return the call for the pose of a row, shape (4, 4)."""
        return self._run("pose", row)

    def jacobian(self, row: int) -> Run:
        """Return the call for the Jacobian of a row, shape (6, n)."""
        return self._run("jacobian", row)

    def both(self, row: int) -> Run:
        """Return the call for pose (4, 4) and Jacobian (6, n) of a row."""
        return self._run("both", row)

    def frames_many(self, Q: Array, out: Array) -> None:
        """Write the poses of all frames for m configurations, shape (m, f, 4, 4)."""
        self._many("frames", None, Q, out)

    def pose_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the poses of a row for m configurations, shape (m, 4, 4)."""
        self._many("pose", row, Q, out)

    def jacobian_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the Jacobians of a row for m configurations, shape (m, 6, n)."""
        self._many("jacobian", row, Q, out)

    def load_frames(self) -> None:
        """Compile or load the unit of all frames."""
        self._run("frames", None)
        self._run_many("frames", None)

    def load_row(self, row: int) -> None:
        """Compile or load the unit of a row."""
        for name in ("pose", "jacobian", "both"):
            self._run(name, row)
        for name in ("pose", "jacobian"):
            self._run_many(name, row)

    def _find(self, name: str, row: int | None) -> Run:
        return builtin(self.code.address(f"{name}_python", row), name)

    def _find_many(self, name: str, row: int | None) -> Callable[[int, int, int], object]:
        return RunMany(self.code.address(f"{name}_many", row))

    def _many(self, name: str, row: int | None, Q: Array, out: Array) -> None:
        self._run_many(name, row)(Q.ctypes.data, Q.shape[0], out.ctypes.data)


class GenericCalls:
    """Calls of the kernels that loop over the robot's arrays."""

    generated = False

    def __init__(self, arrays: PackedArrays) -> None:
        from motion_nodes.kernels import numpy_kinematics

        self._generic = numpy_kinematics
        self._model = numpy_kinematics.model_of(arrays)
        self._rows = np.array(arrays.frame_rows, np.int32)
        self._joint_count = arrays.joint_count

    def frames(self) -> Run:
        """Return the call for the poses of all frames."""
        return self._single(self.frames_many)

    def pose(self, row: int) -> Run:
        """Return the call for the pose of a row."""
        return self._single(functools.partial(self.pose_many, row))

    def jacobian(self, row: int) -> Run:
        """Return the call for the Jacobian of a row."""
        return self._single(functools.partial(self.jacobian_many, row))

    def both(self, row: int) -> Run:
        """Return the call for pose and Jacobian of a row."""
        pose, jacobian = self.pose(row), self.jacobian(row)
        return lambda q, X, J: pose(q, X) or jacobian(q, J)

    def frames_many(self, Q: Array, out: Array) -> None:
        """Write the poses of all frames for many configurations."""
        self._generic.many_poses(self._model, Q, self._rows, out)

    def pose_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the poses of a row for many configurations."""
        self._generic.many_poses(self._model, Q, np.array([row], np.int32), out[:, np.newaxis])

    def jacobian_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the Jacobians of a row for many configurations, (m, 6, n)."""
        self._generic.many_jacobians(self._model, Q, row, out)

    def load_frames(self) -> None:
        """Do nothing: the kernels are compiled by their first call."""

    def load_row(self, row: int) -> None:
        """Do nothing: the kernels are compiled by their first call."""

    def _single(self, many: Callable[[Array, Array], None]) -> Run:
        """Return the call for one configuration; it does not check the result array."""

        def run(q: Array, out: Array) -> int:
            fits = isinstance(q, np.ndarray) and q.dtype == np.float64 and q.flags.c_contiguous
            if not fits or q.shape != (self._joint_count,):
                return 1
            # Numba recompiles for read-only arrays; a copy is always writable.
            many(q[np.newaxis].copy(), out[np.newaxis])
            return 0

        return run

# SPDX-License-Identifier: Apache-2.0
"""Calling a robot's kernels from Python: generated code where possible, else the generic kernels.

A single call is so short that handing over arrays would cost more than the work. So each thread has
memory of its own for each function, at a place that never changes: write q there, call with one
pointer, copy the results out. Measured: 0.1 us for the call through ctypes with the GIL held,
against 0.2 us through Numba's dispatcher, which would also compile anew in the middle of a control
loop when given a list or integers. Batches hand over plain addresses, and release the GIL.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from motion_nodes.kernels.packed import Array, PackedArrays

_LOG = logging.getLogger(__name__)

_RunBlock = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_RunMany = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)

Slot = tuple[Any, Callable[[Any], object], Any, tuple[Array, ...]]
"""Where q goes (a memory view), the function, its argument, and where results appear."""


class Call(threading.local):
    """A function ready to be called, with memory for each thread that calls it."""

    slot: Slot

    def __init__(self, make_slot: Callable[[], Slot]) -> None:
        # threading.local runs this once in each thread.
        self.slot = make_slot()


class RobotCalls(Protocol):
    """The calls that :class:`motion_nodes.model.kinematics.Kinematics` needs."""

    generated: bool

    def frames(self) -> Call:
        """Return the call for the poses of all frames, shape (f, 4, 4)."""

    def pose(self, row: int) -> Call:
        """Return the call for the pose of a row, shape (4, 4)."""

    def both(self, row: int) -> Call:
        """Return the call for pose (4, 4) and Jacobian (6, n) of a row."""

    def frames_many(self, Q: Array, out: Array) -> None:
        """Write the poses of all frames for m configurations, shape (m, f, 4, 4)."""

    def pose_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the poses of a row for m configurations, shape (m, 4, 4)."""

    def jacobian_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the Jacobians of a row for m configurations, shape (m, 6, n)."""

    def load_frames(self) -> None:
        """Compile or load whatever the calls for all frames need."""

    def load_row(self, row: int) -> None:
        """Compile or load whatever the calls for one row need."""


def robot_calls(arrays: PackedArrays, *, generic: bool = False) -> RobotCalls:
    """Return the best calls there are for a robot.

    Args:
        arrays: the robot.
        generic: True to use the generic kernels in any case.
    """
    if not generic:
        try:
            from motion_nodes.kernels.robot_code import CodeGenerationError, check_available
        except (ImportError, OSError) as error:  # llvmlite is missing or does not load
            _LOG.warning("generic kernels in use: %s", error)
            return GenericCalls(arrays)
        try:
            check_available()
            calls = GeneratedCalls(arrays)
            calls.load_frames()
        except CodeGenerationError as error:
            _LOG.warning("generic kernels in use: %s", error)
        else:
            return calls
    return GenericCalls(arrays)


def _shapes(arrays: PackedArrays) -> dict[str, list[tuple[int, ...]]]:
    pose, jacobian = (4, 4), (6, arrays.joint_count)
    frames = (len(arrays.frame_rows), 4, 4)
    return {"frames": [frames], "pose": [pose], "both": [pose, jacobian]}


class GeneratedCalls:
    """Calls of code that was generated for this robot."""

    generated = True

    def __init__(self, arrays: PackedArrays) -> None:
        from motion_nodes.kernels.robot_code import RobotCode

        self.code = RobotCode(arrays)
        self._joint_count = arrays.joint_count
        self._shapes = _shapes(arrays)
        self._run_many = functools.cache(self._find_many)

    def frames(self) -> Call:
        """Return the call for the poses of all frames."""
        return self._call("frames", None)

    def pose(self, row: int) -> Call:
        """Return the call for the pose of a row."""
        return self._call("pose", row)

    def both(self, row: int) -> Call:
        """Return the call for pose and Jacobian of a row."""
        return self._call("both", row)

    def frames_many(self, Q: Array, out: Array) -> None:
        """Write the poses of all frames for many configurations."""
        self._many("frames", None, Q, out)

    def pose_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the poses of a row for many configurations."""
        self._many("pose", row, Q, out)

    def jacobian_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the Jacobians of a row for many configurations."""
        self._many("jacobian", row, Q, out)

    def load_frames(self) -> None:
        """Compile or load the unit of all frames."""
        self._run_many("frames", None)

    def load_row(self, row: int) -> None:
        """Compile or load the unit of a row."""
        self._run_many("pose", row)
        self._run_many("jacobian", row)

    def _call(self, name: str, row: int | None) -> Call:
        run = _RunBlock(self.code.address(f"{name}_block", row))
        return Call(functools.partial(self._slot, run, self._shapes[name]))

    def _slot(self, run: Callable[[Any], object], shapes: list[tuple[int, ...]]) -> Slot:
        """Lay out q and the results one after another in new memory."""
        n = self._joint_count
        sizes = [int(np.prod(shape)) for shape in shapes]
        memory = np.zeros(n + sum(sizes))
        results, at = [], n
        for shape, size in zip(shapes, sizes, strict=True):
            results.append(memory[at : at + size].reshape(shape))
            at += size
        return memory[:n].data, run, ctypes.c_void_p(memory.ctypes.data), tuple(results)

    def _find_many(self, name: str, row: int | None) -> Callable[[int, int, int], object]:
        return _RunMany(self.code.address(f"{name}_many", row))

    def _many(self, name: str, row: int | None, Q: Array, out: Array) -> None:
        self._run_many(name, row)(Q.ctypes.data, Q.shape[0], out.ctypes.data)


class GenericCalls:
    """Calls of the kernels that loop over the robot's arrays."""

    generated = False

    def __init__(self, arrays: PackedArrays) -> None:
        from motion_nodes.kernels import generic

        self._generic = generic
        self._model = generic.model_of(arrays)
        self._rows = np.array(arrays.frame_rows, np.int32)
        self._joint_count = arrays.joint_count
        self._shapes = _shapes(arrays)

    def frames(self) -> Call:
        """Return the call for the poses of all frames."""
        return Call(functools.partial(self._slot, "frames", 0))

    def pose(self, row: int) -> Call:
        """Return the call for the pose of a row."""
        return Call(functools.partial(self._slot, "pose", row))

    def both(self, row: int) -> Call:
        """Return the call for pose and Jacobian of a row."""
        return Call(functools.partial(self._slot, "both", row))

    def frames_many(self, Q: Array, out: Array) -> None:
        """Write the poses of all frames for many configurations."""
        self._generic.many_poses(self._model, Q, self._rows, out)

    def pose_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the poses of a row for many configurations."""
        rows = np.array([row], np.int32)
        self._generic.many_poses(self._model, Q, rows, out[:, np.newaxis])

    def jacobian_many(self, row: int, Q: Array, out: Array) -> None:
        """Write the Jacobians of a row for many configurations."""
        self._generic.many_jacobians(self._model, Q, row, out)

    def load_frames(self) -> None:
        """Run the kernels for poses once, which compiles them."""
        Q = np.zeros((1, self._joint_count))
        self.frames_many(Q, np.empty((1, *self._shapes["frames"][0])))
        self.frames().slot[1](None)

    def load_row(self, row: int) -> None:
        """Run the kernels for a row once, which compiles them."""
        Q = np.zeros((1, self._joint_count))
        self.pose_many(row, Q, np.empty((1, 4, 4)))
        self.jacobian_many(row, Q, np.empty((1, 6, self._joint_count)))
        self.both(row).slot[1](None)

    def _slot(self, name: str, row: int) -> Slot:
        q = np.zeros(self._joint_count)
        X = np.empty((self._model[0].shape[0], 4, 4))
        results = tuple(np.empty(shape) for shape in self._shapes[name])

        def run(_: object) -> None:
            self._generic.all_poses(self._model, q, X)
            results[0][...] = X[self._rows] if name == "frames" else X[row]
            if name == "both":
                self._generic.jacobian(self._model, X, row, results[1])

        return q.data, run, None, results

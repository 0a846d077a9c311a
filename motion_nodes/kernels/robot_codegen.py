# SPDX-License-Identifier: Apache-2.0
"""The generated code of one robot: already loaded, from the cache, or compiled now.

Code is generated in units, so that a node pays only for what it uses: one unit for the poses of all
frames, and one for pose and Jacobian of each frame. A unit takes some 0.1 s to compile and 2 ms to
load. Forward kinematics and the geometric Jacobian are an expression graph of the textbook
formulas, which drops operations that this robot does not need. A joint about z after a quarter turn
about x costs 12 multiplications, not the 54 of two matrix products.

Other kernels call the robot's code through the addresses returned by :meth:`RobotCode.address`;
they need not be recompiled for another robot. Loaded code stays until the process ends, so
addresses remain valid.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable

import numpy as np

import motion_nodes
from motion_nodes.errors import MotionError
from motion_nodes.kernels import cache, native
from motion_nodes.kernels.cache import source_digest, turn
from motion_nodes.kernels.compute_clock import compiling
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.ops import (
    Matrix,
    Vector,
    cross,
    dot,
    minus,
    plus,
    scaled,
    times_matrix,
    times_vector,
)
from motion_nodes.kernels.kinematic_arrays import PRISMATIC, REVOLUTE, PackedArrays
from motion_nodes.kernels.llvm_text import module_text
from motion_nodes.typing import Array

# A quarter turn computed with cos() contains 6e-17 instead of 0. Within this tolerance an entry of
# a rotation matrix is rounded to -1, 0 or 1; poses move by less than 1e-15 of a robot's size.
_ROUNDING = 1e-15


class KinematicsTracer:
    """Records poses and Jacobians of one robot in one graph."""

    def __init__(self, arrays: PackedArrays, base_input: int | None = None) -> None:
        """Create an empty graph.

        Args:
            arrays: the robot.
            base_input: index of the first of 12 inputs: rotation (row by row) and translation of
                row 0 in a reference frame, to which poses and Jacobians are then relative. None:
                they are relative to row 0.
        """
        self.tape = ExpressionGraph()
        self._arrays = arrays
        R: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        p: Vector = [0.0, 0.0, 0.0]
        if base_input is not None:
            R = [[self.tape.input(base_input + 3 * i + j) for j in range(3)] for i in range(3)]
            p = [self.tape.input(base_input + 9 + i) for i in range(3)]
        self._poses: dict[int, tuple[Matrix, Vector]] = {0: (R, p)}

    def pose(self, row: int) -> tuple[Matrix, Vector]:
        """Return rotation and translation of a row, relative to row 0 or to the reference frame."""
        if row not in self._poses:
            chain = [row]
            while (parent := int(self._arrays.parent[chain[-1]])) not in self._poses:
                chain.append(parent)
            for link in reversed(chain):
                self._poses[link] = self._child_pose(link)
        return self._poses[row]

    def _child_pose(self, row: int) -> tuple[Matrix, Vector]:
        """Return the pose of a row whose parent's pose is known, as :meth:`pose`."""
        R_P, p_P = self._poses[int(self._arrays.parent[row])]
        R_PC, p_PC = self.local_pose(row)
        return times_matrix(R_P, R_PC), plus(p_P, times_vector(R_P, p_PC))

    def local_pose(self, row: int) -> tuple[Matrix, Vector]:
        """Return rotation and translation of a row, relative to its parent."""
        R_PJ, p_PJ = _constants(self._arrays.X_PJ[row])
        kind = int(self._arrays.kind[row])
        axis = [float(a) for a in self._arrays.axis[row]]
        if kind == REVOLUTE:
            R_PJ = times_matrix(R_PJ, self._rotation(axis, self._displacement(row)))
        elif kind == PRISMATIC:
            p_PJ = plus(p_PJ, scaled(self._displacement(row), times_vector(R_PJ, axis)))
        return R_PJ, p_PJ

    def _displacement(self, row: int) -> Value:
        """Return the joint displacement of a row: multiplier * q + offset."""
        q = self.tape.input(int(self._arrays.q_index[row]))
        return float(self._arrays.multiplier[row]) * q + float(self._arrays.offset[row])

    def _rotation(self, axis: list[float], angle: Value) -> Matrix:
        """Return the rotation about a unit axis.

        Source: Rodrigues' formula, R = c I + s [a]x + (1 - c) a a^T.
        """
        x, y, z = axis
        sine, cosine = self.tape.sine(angle), self.tape.cosine(angle)
        skew = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
        return [
            [
                _snap(axis[i] * axis[j])
                + (cosine * _snap(float(i == j) - axis[i] * axis[j]) + sine * skew[i][j])
                for j in range(3)
            ]
            for i in range(3)
        ]

    def pose_elements(self, row: int) -> tuple[Value, ...]:
        """Return the 16 elements of a pose, in row-major order."""
        R, p = self.pose(row)
        upper = [element for i in range(3) for element in (*R[i], p[i])]
        return (*upper, 0.0, 0.0, 0.0, 1.0)

    def jacobian_elements(self, row: int) -> tuple[Value, ...]:
        """Return the 6 n elements of the geometric Jacobian of a row's origin, in row-major order.

        Rows are linear then angular velocity, in the axes of row 0. A revolute joint with axis a
        through p moves a point e with a x (e - p); a prismatic one with a.
        Source: Siciliano et al., Robotics: Modelling, Planning and Control (2009), section 3.1.3.
        """
        arrays = self._arrays
        columns: list[Vector] = [[0.0] * 6 for _ in range(arrays.joint_count)]
        _, tip = self.pose(row)
        joint = row
        while joint > 0:
            if arrays.kind[joint] in (REVOLUTE, PRISMATIC):
                index = int(arrays.q_index[joint])
                twist = self._joint_twist(joint, tip)
                part = scaled(float(arrays.multiplier[joint]), twist)
                columns[index] = plus(columns[index], part)
            joint = int(arrays.parent[joint])
        return tuple(column[i] for i in range(6) for column in columns)

    def _joint_twist(self, joint: int, tip: Vector) -> Vector:
        """Return linear velocity of ``tip`` and angular velocity per unit velocity of a joint."""
        R_P, _ = self.pose(int(self._arrays.parent[joint]))
        R_PJ, _ = _constants(self._arrays.X_PJ[joint])
        axis_in_parent = [
            _snap(float(dot(row, [float(a) for a in self._arrays.axis[joint]])))  # type: ignore[arg-type]
            for row in R_PJ
        ]
        axis = times_vector(R_P, axis_in_parent)
        if self._arrays.kind[joint] == PRISMATIC:
            return [*axis, 0.0, 0.0, 0.0]
        _, origin = self.pose(joint)
        return [*cross(axis, minus(tip, origin)), *axis]


def frames_program(arrays: PackedArrays) -> Program:
    """Return the program from q to the poses of all frames, shape (f, 4, 4)."""
    tracer = KinematicsTracer(arrays)
    elements = [x for row in arrays.frame_rows for x in tracer.pose_elements(row)]
    return Program(tracer.tape, arrays.joint_count, (tuple(elements),))


def pose_program(arrays: PackedArrays, row: int) -> Program:
    """Return the program from q to the pose of one row, shape (4, 4)."""
    tracer = KinematicsTracer(arrays)
    return Program(tracer.tape, arrays.joint_count, (tracer.pose_elements(row),))


def jacobian_program(arrays: PackedArrays, row: int) -> Program:
    """Return the program from q to the Jacobian of one row, shape (6, n)."""
    tracer = KinematicsTracer(arrays)
    return Program(tracer.tape, arrays.joint_count, (tracer.jacobian_elements(row),))


def pose_and_jacobian_program(arrays: PackedArrays, row: int) -> Program:
    """Return the program from q to pose (4, 4) and Jacobian (6, n) of one row."""
    tracer = KinematicsTracer(arrays)
    outputs = (tracer.pose_elements(row), tracer.jacobian_elements(row))
    return Program(tracer.tape, arrays.joint_count, outputs)


def _constants(X: Array) -> tuple[Matrix, Vector]:
    """Return rotation and translation of a fixed transform as lists, rounding noise removed."""
    rotation: Matrix = [[_snap(float(x)) for x in row[:3]] for row in X[:3]]
    return rotation, [float(x) for x in np.asarray(X)[:3, 3]]


def _snap(x: float) -> float:
    """Return -1, 0 or 1 if ``x`` equals one of them up to rounding, else ``x``."""
    nearest = float(round(x))
    return nearest if abs(x - nearest) < _ROUNDING else x


_GENERATOR = (
    "kinematic_arrays",
    "expression_graph",
    "simd",
    "llvm_text",
    "python_form",
    "native",
    "robot_codegen",
    "llvm_builder",
    "memory_layout",
)

_loaded: dict[str, native.LoadedCode] = {}
_lock = threading.RLock()


class CodeGenerationError(MotionError, RuntimeError):
    """Machine code cannot be generated for this CPU."""


class RobotCode:
    """Addresses of one robot's functions.

    Functions of the unit of all frames: ``frames_one``, ``frames_python``, ``frames_many``.
    Functions of a row's unit: ``pose_one``, ``pose_python``, ``pose_many``, ``jacobian_one``,
    ``jacobian_python``, ``jacobian_many``, ``both_one``, ``both_python`` and ``both_lanes``. For
    the arguments of each form see :mod:`motion_nodes.kernels.llvm_text`; ``both`` is pose, then
    Jacobian.
    """

    def __init__(self, arrays: PackedArrays, element: str = "double") -> None:
        self._arrays = arrays
        self._lanes = native.host_cpu().lanes(element)

    @property
    def lane_count(self) -> int:
        """Number of configurations per SIMD register."""
        return self._lanes.count

    def address(self, function: str, row: int | None = None) -> int:
        """Return the address of a function.

        Args:
            function: see the class.
            row: the row of pose or Jacobian; None for the unit of all frames.

        Raises:
            CodeGenerationError: the code cannot be compiled on this machine.
            LookupError: the unit has no such function.
        """
        return self._unit(row).address(function)

    def key(self, row: int | None = None) -> str:
        """Return the cache key of a unit."""
        unit = self._arrays.digest() if row is None else self._arrays.digest_to(row)
        parts = (_fingerprint(), "frames" if row is None else "row", unit, repr(self._lanes))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def text(self, row: int | None = None) -> str:
        """Return the LLVM code of a unit."""
        arrays = self._arrays
        programs: dict[str, Program]
        if row is None:
            programs = {"frames": frames_program(arrays)}
            forms: dict[str, tuple[str, ...]] = {"frames": ("one", "python", "many")}
        else:
            programs = {
                "pose": pose_program(arrays, row),
                "both": pose_and_jacobian_program(arrays, row),
                "jacobian": jacobian_program(arrays, row),
            }
            forms = {
                "pose": ("one", "python", "many"),
                "both": ("one", "python", "lanes"),
                "jacobian": ("one", "python", "many"),
            }
        return module_text(programs, forms, self._lanes)

    def _unit(self, row: int | None) -> native.LoadedCode:
        return _unit_of(self.key(row), lambda: self.text(row))


def load_code(name: str, text: Callable[[], str]) -> native.LoadedCode:
    """Return code of another kind: already loaded, from the cache, or compiled now.

    Args:
        name: unique for everything that the text depends on, except what is common to all generated
            code (package version, compiler, CPU, the generator's common files).
        text: returns the LLVM code.

    Raises:
        CodeGenerationError: the code cannot be compiled on this machine.
    """
    return _unit_of(hashlib.sha256(f"{_fingerprint()}\n{name}".encode()).hexdigest(), text)


def _unit_of(key: str, text: Callable[[], str]) -> native.LoadedCode:
    with _lock:
        if key not in _loaded:
            with compiling():
                _loaded[key] = _load(key, text)
        return _loaded[key]


def _load(key: str, text: Callable[[], str]) -> native.LoadedCode:
    cpu = native.host_cpu()
    try:
        code = cache.read_entry(key)
        if code is None:
            with turn(key):
                code = cache.read_entry(key)
                if code is None:
                    code = native.compiled(text(), cpu)
                    cache.write_entry(key, code)
        return native.LoadedCode(code, cpu)
    except RuntimeError as error:
        raise CodeGenerationError(
            f"{native.toolchain()} cannot compile for {cpu.triple}, {cpu.name}: {error}; "
            "reinstall llvmlite for this platform, or see 'motion doctor'."
        ) from error


@functools.cache
def _fingerprint() -> str:
    """Return a hash of what all code depends on: generator, versions and CPU."""
    cpu = native.host_cpu()
    sha = hashlib.sha256(f"{motion_nodes.__version__}\n{native.toolchain()}\n{cpu}\n".encode())
    sha.update(source_digest(_GENERATOR).encode())
    return sha.hexdigest()

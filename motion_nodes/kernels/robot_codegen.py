# SPDX-License-Identifier: Apache-2.0
"""The generated code of one robot: already loaded, from the cache, or compiled now.

Code is generated in units, so that a node pays only for what it uses: one unit for the poses of all
frames, and one for pose and Jacobian of each frame. A unit takes some 0.1 s to compile and 2 ms to
load.

Other kernels call the robot's code through the addresses returned by :meth:`RobotCode.address`;
they need not be recompiled for another robot. Loaded code stays until the process ends, so
addresses remain valid.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable

import motion_nodes
from motion_nodes.errors import MotionError
from motion_nodes.kernels import cache, kinematics_codegen, native
from motion_nodes.kernels.cache import source_digest, turn
from motion_nodes.kernels.compute_clock import compiling
from motion_nodes.kernels.expression_graph import Program
from motion_nodes.kernels.kinematic_arrays import PackedArrays
from motion_nodes.kernels.llvm_text import module_text

_GENERATOR = (
    "kinematic_arrays",
    "expression_graph",
    "kinematics_codegen",
    "simd",
    "llvm_text",
    "python_form",
    "native",
    "robot_codegen",
    "llvm_builder",
    "memory_layout",
)
_ALL_FRAMES = -1

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
        self._digest = arrays.digest()

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
        return self._unit(_ALL_FRAMES if row is None else row).address(function)

    def key(self, row: int | None = None) -> str:
        """Return the cache key of a unit."""
        unit = _ALL_FRAMES if row is None else row
        parts = (_fingerprint(), self._digest, repr(self._lanes), str(unit))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def text(self, row: int | None = None) -> str:
        """Return the LLVM code of a unit."""
        arrays = self._arrays
        programs: dict[str, Program]
        if row is None:
            programs = {"frames": kinematics_codegen.frames_program(arrays)}
            forms: dict[str, tuple[str, ...]] = {"frames": ("one", "python", "many")}
        else:
            programs = {
                "pose": kinematics_codegen.pose_program(arrays, row),
                "both": kinematics_codegen.pose_and_jacobian_program(arrays, row),
                "jacobian": kinematics_codegen.jacobian_program(arrays, row),
            }
            forms = {
                "pose": ("one", "python", "many"),
                "both": ("one", "python", "lanes"),
                "jacobian": ("one", "python", "many"),
            }
        return module_text(programs, forms, self._lanes)

    def _unit(self, unit: int) -> native.LoadedCode:
        row = None if unit == _ALL_FRAMES else unit
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

# SPDX-License-Identifier: Apache-2.0
"""Machine code for this CPU: compile LLVM text, load object files.

LLVM comes with llvmlite, the basis of Numba; Numba itself is not needed here, so that a process
that only loads code from the cache does not pay for importing it.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from motion_nodes.kernels.python_form import NEEDED
from motion_nodes.kernels.simd import Lanes


@dataclass(frozen=True)
class Cpu:
    """Target CPU of generated code."""

    triple: str
    """Architecture, vendor and system, as LLVM names them."""
    name: str
    """The CPU's model, as LLVM names it; ``generic`` if LLVM does not know it."""
    features: str
    """Instruction sets, comma-separated, each with + or -."""

    @property
    def register_bits(self) -> int:
        """Width of the widest SIMD registers [bit]."""
        features = self.features.split(",")
        if "+avx512f" in features and "+avx512vl" in features:
            return 512
        return 256 if "+avx2" in features else 128

    def lanes(self, element: str) -> Lanes:
        """Return the SIMD type of an element type, ``double`` or ``float``, for full registers."""
        return Lanes(element, self.register_bits // Lanes(element).bits)


@functools.cache
def host_cpu() -> Cpu:
    """Return the CPU of this machine."""
    features = ",".join(sorted(llvm.get_host_cpu_features().flatten().split(",")))
    return Cpu(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


def toolchain() -> str:
    """Return the versions of the compiler."""
    return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


@functools.cache
def _initialized() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in NEEDED:
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)


def _target_machine(cpu: Cpu) -> Any:
    _initialized()
    return llvm.Target.from_triple(cpu.triple).create_target_machine(
        cpu=cpu.name, features=cpu.features, opt=1, reloc="pic", codemodel="small", jit=True
    )


def compiled(text: str, cpu: Cpu) -> bytes:
    """Return the object file of an LLVM module.

    Generated code has no common subexpressions, and keeps loop-carried values in phi instructions.
    LLVM's optimization passes are therefore skipped: only instruction selection, scheduling and
    register allocation run. Level 2 instead of 1 would emit as many instructions in another order,
    no faster ones, and take twice as long for the poses of a humanoid.

    Raises:
        RuntimeError: the text is not valid LLVM assembly, or the CPU is not supported.
    """
    machine = _target_machine(cpu)
    return bytes(machine.emit_object(llvm.parse_assembly(text)))


def assembly(text: str, cpu: Cpu) -> str:
    """Return the machine assembly of an LLVM module, for inspection.

    Raises:
        RuntimeError: the text is not valid LLVM assembly, or the CPU is not supported.
    """
    return str(_target_machine(cpu).emit_assembly(llvm.parse_assembly(text)))


class LoadedCode:
    """An object file loaded into memory; its code is valid as long as this object exists."""

    def __init__(self, code: bytes, cpu: Cpu) -> None:
        machine = _target_machine(cpu)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, function: str) -> int:
        """Return the address of a function.

        Raises:
            LookupError: the object file has no such function.
        """
        address = int(self._engine.get_function_address(function))
        if address == 0:
            raise LookupError(f"compiled code has no function '{function}'")
        return address

# SPDX-License-Identifier: Apache-2.0
"""Run a program's functions on NumPy arrays, for the tests."""

import ctypes

import numpy as np

from motion_nodes.kernels import native
from motion_nodes.kernels.expression_graph import Program
from motion_nodes.kernels.llvm_text import module_text
from motion_nodes.kernels.simd import Lanes

FORMS = ("one", "many", "lanes")


class Compiled:
    """A program compiled for one vector type."""

    def __init__(self, program: Program, lanes: Lanes, cpu: native.Cpu | None = None) -> None:
        self.program, self.lanes = program, lanes
        self.dtype = np.float64 if lanes.element == "double" else np.float32
        self.text = module_text({"p": program}, {"p": FORMS}, lanes)
        cpu = cpu or native.host_cpu()
        self._code = native.LoadedCode(native.compiled(self.text, cpu), cpu)

    def _call(self, form: str, *arrays: np.ndarray | int) -> None:
        values = [a if isinstance(a, int) else a.ctypes.data for a in arrays]
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(values))
        function(self._code.address(f"p_{form}"))(*values)

    def one(self, q: np.ndarray) -> list[np.ndarray]:
        outs = [np.full(len(o), 7.0, self.dtype) for o in self.program.outputs]
        self._call("one", np.ascontiguousarray(q, self.dtype), *outs)
        return outs

    def many(self, Q: np.ndarray) -> list[np.ndarray]:
        m, margin = len(Q), 3  # rows beyond the end must not change
        outs = [np.full((m + margin, len(o)), 7.0, self.dtype) for o in self.program.outputs]
        self._call("many", np.ascontiguousarray(Q, self.dtype), m, *outs)
        for out in outs:
            assert (out[m:] == 7.0).all()
        return [out[:m] for out in outs]

    def side_by_side(self, Q: np.ndarray) -> list[np.ndarray]:
        count = self.lanes.count
        assert len(Q) == count
        q = np.ascontiguousarray(Q.T, self.dtype)
        outs = [np.full((len(o), count), 7.0, self.dtype) for o in self.program.outputs]
        self._call("lanes", q, *outs)
        return [out.T for out in outs]

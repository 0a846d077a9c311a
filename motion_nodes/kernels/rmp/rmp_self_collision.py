# SPDX-License-Identifier: Apache-2.0
"""Self-collision avoidance of links, as LLVM code: a loop over pairs of links and their spheres.

Spheres a and b of two links have the distance x = |p_a - p_b| - r_a - r_b along the line n through
both centres. Its Jacobian needs no Jacobian of either point: a force along n acts on both with the
same moment p x n, so joints that move both cancel, and x changes by (p x n, n) . S_k for each joint
k between the two links, with S_k the column of the joint (angular, linear about the origin). The
RMP is that of obstacles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.linear_algebra import cross, dot, minus, scaled
from motion_nodes.kernels.formulas.motion import TINY
from motion_nodes.kernels.formulas.rmps import collision
from motion_nodes.kernels.ik.ik_memory import FieldLayout
from motion_nodes.kernels.kinematic_arrays import Array
from motion_nodes.kernels.llvm_text import LlvmFunction
from motion_nodes.kernels.rmp.rmp_memory import FAR, RmpModel, sphere_places
from motion_nodes.kernels.simd import Lanes

_PARAMETERS = 10
_RADIUS = 18  # Inputs: nine values of each sphere, then both radii, then the parameters.


@dataclass(frozen=True)
class LinkTables:
    """Pairs of links as read by the code; all arrays are C-contiguous."""

    pairs: NDArray[np.int64]
    """Spheres of one link (from, to), of the other (from, to), and their path (from, to), shape (p,
    6)."""
    sizes: Array
    """Reach of the spheres of a pair's links from the first of each [m], shape (p,)."""
    paths: NDArray[np.int64]
    """Rows that move one link relative to the other: column, joint, sign; shape (k, 3)."""
    radii: Array
    """Radius of each sphere [m], shape (s,): first those in the memory, then fixed ones."""
    fixed: Array
    """Fixed spheres: position [m], velocity and bias (both 0), shape (9, f)."""


class _Pair:
    """The formulas of two spheres."""

    def __init__(self) -> None:
        tape = self.tape = ExpressionGraph()
        given: list[Value] = [tape.input(i) for i in range(_RADIUS + 2 + _PARAMETERS)]
        a, b, p = given[0:9], given[9:18], given[_RADIUS + 2 :]
        offset, velocity = minus(a[:3], b[:3]), minus(a[3:6], b[3:6])
        self.length = tape.root(dot(offset, offset))
        self.x = self.length - given[_RADIUS] - given[_RADIUS + 1]
        per_length = tape.divide(1.0, self.length)
        n = scaled(per_length, offset)
        rate = dot(n, velocity)
        bend = (dot(velocity, velocity) - rate * rate) * per_length
        desired, self.weight = collision(tape, self.x, rate, p)
        self.force = self.weight * (desired - bend - dot(n, minus(a[6:], b[6:])))
        self.wrench = [*cross(a[:3], n), *n]
        self.per_radius = p[6]

    def program(self, *results: Value) -> Program:
        return Program(self.tape, _RADIUS + 2 + _PARAMETERS, (results,))


class _Writer:
    """Writes ``rmp_links(memory)``."""

    def __init__(self, model: RmpModel, at: FieldLayout) -> None:
        self.at, self.flow, self.joints = at, FunctionBuilder(Lanes("double", 1)), model.active
        self._stride = sphere_places(model)[2]
        self._parameters = list(model.places("self").values())
        self._places: dict[int, tuple[str, str, str]] = {}
        self._memory = {
            name: self.flow.get("%memory", at[name], "ptr")
            for name in ("link_pairs", "link_sizes", "link_paths", "link_radii", "link_fixed")
        }
        self._fixed = self.flow.get("%memory", at["link_fixed"] + 1, "i64")
        self._moving = self.flow.get("%memory", at["moving_spheres"], "i64")
        self._u = self.flow.emit(f"alloca double, i64 {max(1, len(model.moving_rows))}")

    def text(self) -> str:
        """Return the function."""
        flow, pair = self.flow, _Pair()
        gap = LlvmFunction(pair.program(pair.length), flow, self._load, 1)
        body = LlvmFunction(
            pair.program(pair.x, pair.force, pair.weight, *pair.wrench), flow, self._load, 1
        )
        body.write_constant(range(_RADIUS + 2))
        per_radius = body.output(pair.per_radius)
        count = flow.get("%memory", self.at["link_pairs"] + 1, "i64")
        with flow.loop(count, least=("double", flow.lanes.constant(FAR))) as turn:
            row = flow.at(self._memory["link_pairs"], flow.times(turn.index, 6), "i64")
            a0, a1, b0, b1, k0, k1 = (flow.get(row, k, "i64") for k in range(6))
            self._set(0, a0)
            self._set(1, b0)
            gap.write()
            size = flow.get(self._memory["link_sizes"], turn.index, "double")
            apart = flow.binary("fsub", gap.output(pair.length), size)
            near = self._closer(apart, per_radius, turn["least"])
            with flow.when(near, least=("double", turn["least"])) as close:
                with flow.loop(self._less(a1, a0), least=("double", close["least"])) as a:
                    self._set(0, flow.plus(a0, a.index))
                    with flow.loop(self._less(b1, b0), least=("double", a["least"])) as b:
                        self._set(1, flow.plus(b0, b.index))
                        body.write((pair.x,))
                        x = body.output(pair.x)
                        b["least"] = flow.smaller(x, b["least"])
                        touching = self._touching(x, body.output(pair.length), per_radius)
                        with flow.when(touching):
                            body.write()
                            values = (pair.force, pair.weight, *pair.wrench)
                            self._add(k0, self._less(k1, k0), [body.output(v) for v in values])
                    a["least"] = b["least"]
                close["least"] = a["least"]
            turn["least"] = close["least"]
        flow.store(turn["least"], flow.at("%memory", self.at["nearest_links"], "double"))
        flow.lines.append("  ret void")
        return flow.function("rmp_links", "void", "ptr %memory")

    def _less(self, a: str, b: str) -> str:
        return self.flow.emit(f"sub i64 {a}, {b}")

    def _set(self, which: int, sphere: str) -> None:
        """Choose the first or second sphere: in the memory, or fixed."""
        flow = self.flow
        moves = flow.emit(f"icmp slt i64 {sphere}, {self._moving}")
        here = flow.at("%memory", flow.plus(sphere, self.at["position"]), "double")
        fixed = flow.at(self._memory["link_fixed"], self._less(sphere, self._moving), "double")
        base = flow.emit(f"select i1 {moves}, ptr {here}, ptr {fixed}")
        stride = flow.emit(f"select i1 {moves}, i64 {self._stride}, i64 {self._fixed}")
        self._places[which] = base, stride, sphere

    def _load(self, index: int) -> str:
        flow = self.flow
        if index < _RADIUS:  # position, velocity and bias follow each other in the memory
            base, stride, _ = self._places[index // 9]
            return flow.get(base, flow.times(stride, index % 9), "double")
        if index < _RADIUS + 2:
            return flow.get(self._memory["link_radii"], self._places[index - _RADIUS][2], "double")
        place = self.at["parameters"] + self._parameters[index - _RADIUS - 2]
        return flow.get("%memory", place, "double")

    def _closer(self, gap: str, per_radius: str, least: str) -> str:
        """Return whether a pair of links may be within the range of the RMP, or the closest."""
        flow = self.flow
        share = flow.binary("fmul", gap, per_radius)
        felt = flow.emit(f"fcmp ole double {share}, {flow.lanes.constant(1.0)}")
        return flow.emit(f"or i1 {felt}, {flow.emit(f'fcmp ole double {gap}, {least}')}")

    def _touching(self, x: str, length: str, per_radius: str) -> str:
        flow = self.flow
        share = flow.binary("fmul", x, per_radius)
        felt = flow.emit(f"fcmp olt double {share}, {flow.lanes.constant(1.0)}")
        apart = flow.emit(f"fcmp oge double {length}, {flow.lanes.constant(TINY)}")
        return flow.emit(f"and i1 {felt}, {apart}")

    def _add(self, first: str, count: str, values: list[str]) -> None:
        """Add the RMP of two spheres to M and rhs, for the joints between their links."""
        flow, (force, weight, *wrench) = self.flow, values
        with flow.loop(count) as k:
            column, _, sign = self._path(first, k.index)
            S = flow.at("%memory", flow.plus(flow.times(column, 6), self.at["columns"]), "double")
            u = flow.binary("fmul", wrench[0], flow.get(S, 0, "double"))
            for i in range(1, 6):
                u = flow.fused(wrench[i], flow.get(S, i, "double"), u)
            signed = flow.binary("fmul", flow.emit(f"sitofp i64 {sign} to double"), u)
            flow.store(signed, flow.at(self._u, k.index, "double"))
        with flow.loop(count) as k:
            joint, u = self._path(first, k.index)[1], flow.get(self._u, k.index, "double")
            self._increase(flow.plus(joint, self.at["rhs"]), force, u)
            row, weighted = flow.times(joint, self.joints), flow.binary("fmul", weight, u)
            with flow.loop(count) as other:
                column = self._path(first, other.index)[1]
                place = flow.plus(flow.plus(row, column), self.at["M"])
                self._increase(place, weighted, flow.get(self._u, other.index, "double"))

    def _path(self, first: str, k: str) -> tuple[str, str, str]:
        """Return column, joint and sign of a row of a path."""
        flow = self.flow
        row = flow.at(self._memory["link_paths"], flow.times(flow.plus(first, k), 3), "i64")
        return flow.get(row, 0, "i64"), flow.get(row, 1, "i64"), flow.get(row, 2, "i64")

    def _increase(self, place: str, factor: str, by: str) -> None:
        flow = self.flow
        address = flow.at("%memory", place, "double")
        flow.store(flow.fused(factor, by, flow.load(address)), address)


def links_text(model: RmpModel, at: FieldLayout) -> str:
    """Return the function ``rmp_links(memory)``: adds all pairs of links to M and rhs."""
    return _Writer(model, at).text()

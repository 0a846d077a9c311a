# SPDX-License-Identifier: Apache-2.0
"""Rollouts of sampled attractors as LLVM code, one sample per lane."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from motion_nodes.kernels import native
from motion_nodes.kernels.collision.collision_codegen import set_off_function
from motion_nodes.kernels.collision.shape_kinds import added_digest
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.ir_value import IrValue, Pointer
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.mpc import tracking_law
from motion_nodes.kernels.mpc.mpc_collisions import (
    links_function,
    obstacle_function,
    placement_function,
    weight,
)
from motion_nodes.kernels.mpc.mpc_memory import JOINT_FIELDS, OUTPUTS, ROW, WEIGHTS, table_of
from motion_nodes.kernels.rmp.rmp_memory import obstacle_shapes
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes
from motion_nodes.kernels.sources import source_digest

_SOURCES = (
    *("mpc.mpc_rollout", "mpc.mpc_collisions", "mpc.mpc_memory", "mpc.tracking_law"),
    *("collision.collision_codegen", "collision.collision_shapes", "collision.shape_kinds"),
    *("rmp.rmp_memory", "formulas.linear_algebra", "formulas.shapes"),
)
_ROUNDED = 1e-6
"""Added to squared distances, so that their roots are smooth at zero."""

Rollout = Callable[[int], None]


def rollout_call() -> Rollout:
    """Return ``rollout(address)`` of a table, see ``mpc_memory``; it releases the GIL.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    lanes = native.host_cpu().lanes("float")
    name = f"mpc {source_digest(_SOURCES)} {lanes}{added_digest()}"
    code = load_code(name, lambda: rollout_text(lanes))
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("rollout"))


def rollout_text(lanes: Lanes) -> str:
    """Return the LLVM module with the function ``rollout(h)``."""
    parts = [
        set_off_function(lanes),
        placement_function(lanes),
        *(obstacle_function(lanes, shape) for shape in obstacle_shapes().values()),
        links_function(lanes),
        _Configuration(lanes).text(),
        _Rollout(lanes).text(),
        *declarations(lanes),
    ]
    return "\n".join(parts)


class _Written:
    """Formulas on operands of a function, written into it."""

    def __init__(self, flow: FunctionBuilder) -> None:
        self._flow = flow
        self.ops = ExpressionGraph()
        self._inputs: list[IrValue] = []

    def input(self, value: IrValue) -> Value:
        """Return an operand as a symbol."""
        self._inputs.append(value)
        return self.ops.input(len(self._inputs) - 1)

    def write(self, *results: Value) -> list[IrValue]:
        """Write the instructions of some results."""
        program = Program(self.ops, len(self._inputs), (results,))
        n = self._flow.lanes.count
        body = LlvmFunction(program, self._flow, self._inputs.__getitem__, n)
        body.write()
        return [self._flow.typed(body.output(x)) for x in results]


class _Configuration:
    """Writes ``configuration(h, q, poses, bounds, spheres, sums, step)``: poses and costs."""

    def __init__(self, lanes: Lanes) -> None:
        names = ("h", "q", "poses", "bounds", "spheres", "sums")
        self._flow = FunctionBuilder(lanes, **dict.fromkeys(names, "ptr"), step="i64")

    def text(self) -> str:
        """Return the function."""
        flow, table = self._flow, table_of(self._flow)
        poses, bounds, spheres, sums = (
            flow.pointer(name, "float") for name in ("poses", "bounds", "spheres", "sums")
        )
        flow.call("void", table.pointer("place"), flow.argument("q"), poses)
        flow.call("void", "place_spheres", table.memory, poses, bounds, spheres)
        flow.call("void", "links", table.memory, bounds, spheres, sums)
        obstacles = table.pointer("obstacles", "i64")
        for k, shape in enumerate(obstacle_shapes()):
            count = obstacles.load(2 * k + 1)
            rows = flow.pointer(obstacles.at(2 * k).of("ptr").load(), "float")
            here = rows.at(flow.argument("step") * count * ROW)
            flow.call("void", f"world_{shape}", table.memory, bounds, spheres, sums, here, count)
        return flow.function("configuration")


class _Rollout:
    """Writes ``rollout(h)``: per block all steps, then the straight line to the goal."""

    def __init__(self, lanes: Lanes) -> None:
        flow = self._flow = FunctionBuilder(lanes, h="ptr")
        self._n = lanes.count
        table = self._table = table_of(flow)
        self._joints = table.whole("joints")
        inputs, groups = table.whole("inputs"), table.whole("groups")
        sizes = {"q": inputs, "qd": inputs, "qdd": inputs, "target": inputs,
                 "poses": groups * 12, "bounds": table.whole("bodies") * 3,
                 "spheres": table.whole("spheres") * 3, "sums": flow.whole(2)}  # fmt: skip
        self._scratch = {
            name: flow.allocated(size * self._n, "float", align=64) for name, size in sizes.items()
        }
        self._weights = {name: weight(table, name, self._n) for name in WEIGHTS}

    def text(self) -> str:
        """Return the function."""
        flow, table, zero = self._flow, self._table, self._flow.constant(0.0)
        standing = table.pointer("standing", "float")
        with flow.loop(table.whole("inputs") - self._joints) as turn:
            self._put("q", self._joints + turn.index, standing.load(turn.index).splat(self._n))
        with flow.loop(table.whole("blocks")) as block:
            with flow.loop(self._joints) as joint:
                self._put("q", joint.index, self._per_sample("starts", block.index, joint.index))
                for name in ("qd", "qdd"):
                    self._put(name, joint.index, self._joint(joint.index, name))
            start = {"cost": zero, "share": flow.constant(1.0), "near": self._weights["margin"]}
            with flow.loop(table.whole("steps"), **start) as step:
                effort = self._advance(block.index, step.index)
                close, near = self._collisions(step.index)
                w, away = self._weights, self._off_goal(block.index)
                # A goal may be close to obstacles.
                cost = close * (away * w["away"]).smaller(flow.constant(1.0))
                cost = cost + (near < 0.0).choose(w["collision"], zero)
                cost = cost + self._off_target() + away * w["goal"] + effort
                step["cost"] = cost.fused(step["share"], step["cost"])
                step["near"] = near.smaller(step["near"])
                step["share"] = step["share"] * w["discount"]
            self._finish(block.index, step["cost"], step["near"])
        return flow.function("rollout", linkage="")

    def _finish(self, block: IrValue, cost: IrValue, near: IrValue) -> None:
        """Add the terminal cost, and write the results."""
        w = self._weights
        distance = self._off_goal(block)
        off = self._off_target()
        end = (distance * w["goal"] + off) * w["terminal"]
        blocked, free = self._blocked(block)
        out = self._table.pointer("out", "float").at(block * (len(OUTPUTS) * self._n))
        values = (cost + end + blocked * w["tail"], near, blocked, distance, free)
        for k, value in enumerate(values):
            out.store(value, k * self._n)

    def _get(self, name: str, index: IrValue) -> IrValue:
        return self._scratch[name].load(index * self._n, self._n)

    def _put(self, name: str, index: IrValue, value: IrValue) -> None:
        self._scratch[name].store(value, index * self._n)

    def _joint(self, index: IrValue, name: str) -> IrValue:
        values = self._table.pointer("joint_values", "float").at(index * len(JOINT_FIELDS))
        return values.load(JOINT_FIELDS.index(name)).splat(self._n)

    def _per_sample(self, name: str, block: IrValue, joint: IrValue) -> IrValue:
        place = (block * self._joints + joint) * self._n
        return self._table.pointer(name, "float").load(place, self._n)

    def _attractor(self, block: IrValue, step: IrValue, joint: IrValue) -> IrValue:
        """Return the attractor of a joint at a step, a linear combination of the knots."""
        flow, knots = self._flow, self._table.whole("knots")
        basis = self._table.pointer("basis", "float").at(step * knots)
        places = self._table.pointer("attractors", "float")
        with flow.loop(knots, total=flow.constant(0.0)) as knot:
            place = ((block * knots + knot.index) * self._joints + joint) * self._n
            share = basis.load(knot.index).splat(self._n)
            knot["total"] = places.load(place, self._n).fused(share, knot["total"])
        return knot["total"]

    def _advance(self, block: IrValue, step: IrValue) -> IrValue:
        """Write one step of the tracking law; return its cost of effort and posture."""
        flow, w = self._flow, self._weights
        with flow.loop(self._joints, rate=flow.constant(tracking_law.GAIN)) as joint:
            q = self._get("q", joint.index)
            offset = self._attractor(block, step, joint.index) - q
            self._put("target", joint.index, offset)
            own = _Written(flow)
            e, speed, most = (
                own.input(x)
                for x in (offset, *(self._joint(joint.index, x) for x in ("speed", "acceleration")))
            )
            (slower,) = own.write(tracking_law.rate(own.ops, e, speed, most))
            joint["rate"] = slower.smaller(joint["rate"])
        rate = joint["rate"]
        with flow.loop(self._joints, share=flow.constant(1.0)) as joint:
            v = self._get("qd", joint.index)
            desired = tracking_law.acceleration(
                rate, self._get("target", joint.index), v, w["response"]
            )
            self._put("target", joint.index, desired)
            excess = desired.size() / self._joint(joint.index, "acceleration")
            joint["share"] = excess.larger(joint["share"])
        scale = flow.constant(1.0) / joint["share"]
        with flow.loop(self._joints, cost=flow.constant(0.0)) as joint:
            i, dt = joint.index, w["dt"]
            last, v, q = (self._get(name, i) for name in ("qdd", "qd", "q"))
            change = self._joint(i, "jerk") * dt
            a = self._get("target", i) * scale
            a = a.smaller(last + change).larger(last - change)
            moved = v + a * dt
            q = (v + moved).fused(dt * 0.5, q)
            for name, value in (("qdd", a), ("qd", moved), ("q", q)):
                self._put(name, i, value)
            effort = a / self._joint(i, "acceleration")
            off = q - self._joint(i, "posture")
            cost = (effort * effort).fused(w["effort"], joint["cost"])
            joint["cost"] = (off * off).fused(w["posture"], cost)
        return joint["cost"]

    def _collisions(self, step: IrValue) -> tuple[IrValue, IrValue]:
        """Write the check of the current configuration; return its cost and min distance."""
        sums, n = self._scratch["sums"], self._n
        sums.store(self._flow.constant(0.0), 0)
        sums.store(self._weights["margin"], n)
        names = ("q", "poses", "bounds", "spheres", "sums")
        places = (self._scratch[name] for name in names)
        self._flow.call("void", "configuration", self._table.memory, *places, step)
        return sums.load(0, n), sums.load(n, n)

    def _off_target(self) -> IrValue:
        """Return the weighted distance of the tool from its target, position plus rotation."""
        flow, n, w = self._flow, self._n, self._weights
        pose: Pointer = self._scratch["poses"].at(self._table.whole("tool_group") * (12 * n))
        tool = self._table.pointer("tool", "float")
        elements = [pose.load(k * n, n) for k in range(12)]
        R, p = elements[:9], elements[9:]
        squared = flow.constant(_ROUNDED)
        for i in range(3):
            x = p[i] - tool.load(3 + i).splat(n)
            for k in range(3):
                x = R[3 * i + k].fused(tool.load(k).splat(n), x)
            squared = x.fused(x, squared)
        trace = flow.constant(0.0)
        for k in range(9):
            trace = R[k].fused(tool.load(6 + k).splat(n), trace)
        turned = (flow.constant(3.0) - trace).larger(flow.constant(0.0)) + _ROUNDED
        return turned.root().fused(w["rotation"], squared.root() * w["position"])

    def _off_goal(self, block: IrValue) -> IrValue:
        """Return the weighted distance of the joints from their goal."""
        flow = self._flow
        with flow.loop(self._joints, total=flow.constant(_ROUNDED)) as joint:
            off = self._get("q", joint.index) - self._per_sample("goals", block, joint.index)
            off = off * self._joint(joint.index, "scale")
            joint["total"] = off.fused(off, joint["total"])
        return joint["total"].root()

    def _blocked(self, block: IrValue) -> tuple[IrValue, IrValue]:
        """Return mean cost of collisions and number of free states on the line to the goal."""
        flow, tail = self._flow, self._table.whole("tail")
        step_of_tail = self._table.whole("tail_step")
        with flow.loop(self._joints) as joint:
            q = self._get("q", joint.index)
            way = self._per_sample("goals", block, joint.index) - q
            self._put("target", joint.index, way / tail.to("float").splat(self._n))
        one = flow.constant(1.0)
        start = {"total": flow.constant(0.0), "free": flow.constant(0.0), "open": one}
        with flow.loop(tail, **start) as turn:
            with flow.loop(self._joints) as joint:
                moved = self._get("q", joint.index) + self._get("target", joint.index)
                self._put("q", joint.index, moved)
            cost, near = self._collisions(step_of_tail)
            closed = near < self._weights["clearance"]
            cost = closed.choose(cost + 1.0, flow.constant(0.0))
            turn["open"] = closed.choose(flow.constant(0.0), turn["open"])
            turn["free"] = turn["free"] + turn["open"]
            turn["total"] = turn["total"] + cost.smaller(self._weights["tail_limit"])
        some = (tail > 0).choose(tail, flow.whole(1)).to("float").splat(self._n)
        return turn["total"] / some, turn["free"]

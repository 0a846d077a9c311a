# SPDX-License-Identifier: Apache-2.0
"""Integration of a policy's accelerations, and of RMPflow over several steps, as generated code.

The code is the same for all robots: it calls a robot's RMPs by address.

Accelerations are viable: the joint can still stop before its limits with bounded jerk. A state is
viable if braking, i.e. jerk -J until the acceleration is -B and then constant -B, stops the joint
before its position limit without exceeding its velocity limit. Of the accelerations reachable from
the last one, those that lead to a viable state form an interval; the desired acceleration is
clamped to it. Braking keeps a viable state viable, so the interval is never empty.

The formulas work on expression graphs and on NumPy arrays, depending on ``ops``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from motion_nodes.kernels import native
from motion_nodes.kernels.cache import source_digest
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.formulas.ops import Ops
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.memory_layout import FieldLayout, Fields
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes

INPUTS = ("q", "qd", "last", "desired", "lower", "upper", "speed", "acceleration", "jerk", "dt")
"""Values per joint [rad or m, s]; ``last`` is the previous acceleration, ``dt`` the time step."""
_HALVINGS = 24
_SLACK = 1e-12
SOLVABLE = 1e-11
"""Min relative pivot of the factorization for a valid solution of the RMPs."""
ROWS = ("q", "qd", "last", "desired", "lower", "upper", "speed", "acceleration", "jerk", "offset")
"""Values per joint, each a row padded to full registers: state, desired acceleration, limits, and
the offset from the joint position to the one that the RMPs use."""
HEADER = FieldLayout(evaluate=1, memory=1, q=1, qd=1, qdd=1, pivot=1, joints=1, blocks=1, count=1,
                     done=1, dt=1)  # fmt: skip
"""Before the rows: address of the RMPs, of their memory, and of fields in it; number of joints, of
registers per row and of steps; number of steps done; time step [s]."""


@dataclass(frozen=True)
class _Brake:
    """Limits of a joint on one side, mirrored to the upper side."""

    ops: Any
    room: Any
    """Distance to the limit after the step [rad or m]."""
    qd: Any
    speed: Any
    B: Any
    J: Any
    dt: Any

    def stops(self, a: Any) -> Any:
        """Return 1 if acceleration ``a`` during the step leads to a viable state, else 0."""
        ops = self.ops
        v, J = self.qd + a * self.dt, self.J
        rising = ops.maximum(a, 0.0)
        peak = v + ops.divide(rising * rising, 2.0 * J)
        # The velocity is constant within a step, so a step may exceed the continuous motion.
        reach = self._stop(v, a) + ops.maximum(peak, 0.0) * self.dt
        near = ops.choose(ops.less(self.room + _SLACK, reach), 0.0, 1.0)
        return near * ops.choose(ops.less(self.speed + _SLACK, peak), 0.0, 1.0)

    def _stop(self, v: Any, a: Any) -> Any:
        """Return the stopping distance [rad or m]."""
        ops, B, J = self.ops, self.B, self.J
        t1 = ops.divide(ops.maximum(a + B, 0.0), J)
        v1 = v + t1 * (a - 0.5 * J * t1)
        x1 = t1 * (v + t1 * (0.5 * a - J * t1 * (1.0 / 6.0))) + ops.divide(v1 * v1, 2.0 * B)
        root = ops.root(ops.maximum(a * a + 2.0 * J * v, 0.0))
        t2 = ops.divide(ops.maximum(a + root, 0.0), J)
        x2 = t2 * (v + t2 * (0.5 * a - J * t2 * (1.0 / 6.0)))
        return ops.choose(ops.less(0.0, v1), x1, ops.maximum(x2, 0.0))

    def max_viable(self, low: Any, high: Any) -> Any:
        """Return the max viable acceleration between two values; if there is none, full braking."""
        ops = self.ops
        a, b = low, high
        for _ in range(_HALVINGS):
            middle = 0.5 * (a + b)
            good = ops.less(0.5, self.stops(middle))
            a, b = ops.choose(good, middle, a), ops.choose(good, b, middle)
        some = ops.less(0.5, self.stops(low))
        best = ops.choose(ops.less(0.5, self.stops(high)), high, ops.choose(some, a, -self.B))
        return best


def _reachable(ops: Any, x: dict[str, Any]) -> tuple[Any, Any]:
    """Return the min and max acceleration after a step at the max jerk."""
    B, step = x["acceleration"], x["jerk"] * x["dt"]
    low = ops.maximum(x["last"] - step, -B)
    high = ops.minimum(x["last"] + step, B)
    # An acceleration beyond its limit is reduced at the max jerk.
    return ops.minimum(low, B), ops.maximum(high, -B)


def _brakes(ops: Any, x: dict[str, Any]) -> tuple[_Brake, _Brake]:
    """Return the limits of the upper side, and those of the lower side, mirrored."""
    after, qd = x["q"] + x["qd"] * x["dt"], x["qd"]
    same = (x["speed"], x["acceleration"], x["jerk"], x["dt"])
    return (_Brake(ops, x["upper"] - after, qd, *same), _Brake(ops, after - x["lower"], -qd, *same))


def affordable(ops: Any, x: dict[str, Any]) -> Any:
    """Return the viable acceleration closest to the desired one; ``x`` as in INPUTS."""
    low, high = _reachable(ops, x)
    upper, lower = _brakes(ops, x)
    up, down = upper.max_viable(low, high), -lower.max_viable(-high, -low)
    return ops.maximum(ops.minimum(x["desired"], up), down)


def within_jerk(ops: Any, x: dict[str, Any]) -> tuple[Any, Any]:
    """Return the desired acceleration within the jerk limit, and 1 if it is surely viable, else 0.

    Surely: with a margin of twice the final interval of the bisection of :func:`affordable`, so
    that both functions return the same number.
    """
    low, high = _reachable(ops, x)
    upper, lower = _brakes(ops, x)
    margin = (high - low) * 2.0 ** (1 - _HALVINGS)

    def clamped(a: Any) -> Any:
        return ops.maximum(ops.minimum(a, high), low)

    up = upper.stops(clamped(x["desired"] + margin))
    down = lower.stops(-clamped(x["desired"] - margin))
    return clamped(x["desired"]), up * down


@dataclass(frozen=True)
class IntegrationCode:
    """Functions that take the address of a memory: ``HEADER``, then ``ROWS``."""

    step: Callable[[int], None]
    """Advances the state by one step at the desired accelerations."""
    run: Callable[[int], None]
    """Advances the state by steps of the RMPs; stops early if their system is ill-conditioned."""
    lanes: int
    """Row lengths are multiples of this number."""


def integration_code() -> IntegrationCode:
    """Return the code.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    lanes = native.host_cpu().lanes("double")
    sources = source_digest(("rmp.rmp_integration", "rmp.rmp_integration"))
    code = load_code(f"rmp integration {sources}", lambda: _text(lanes))
    # The GIL is kept: reacquiring it may take longer than the steps.
    kind = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    step, run = (kind(code.address(name)) for name in ("integrate", "run"))
    return IntegrationCode(step, run, lanes.count)


def _text(lanes: Lanes) -> str:
    reduction = f"double @llvm.vector.reduce.fmax.{lanes.suffix}({lanes.type})"
    return "\n".join([_step(lanes), _run(lanes), *declarations(lanes), f"declare {reduction}"])


def _moved(ops: Ops, x: dict[str, Any], a: Any) -> tuple[Any, Any, Any]:
    """Return position, velocity and acceleration after an Euler step, stopped at position limits.

    A joint outside its limits may move back, but not farther out.
    """
    q, qd = x["q"] + x["dt"] * x["qd"], x["qd"] + x["dt"] * a
    lower, upper = ops.minimum(x["lower"], x["q"]), ops.maximum(x["upper"], x["q"])
    held = ops.minimum(ops.maximum(q, lower), upper)
    stopped = ops.less(0.0, (q - held) * qd)
    return held, ops.choose(stopped, 0.0, qd), ops.choose(stopped, 0.0, a)


def _step(lanes: Lanes) -> str:
    """Write ``integrate(memory)``.

    If a desired acceleration exceeds its limit, all are scaled down together; then each is clamped
    to its viable interval. The bisection is skipped for registers that are surely viable.
    """
    flow, n = FunctionBuilder(lanes, memory="ptr"), lanes.count
    header = Fields(flow.pointer("memory"), HEADER)
    rows, blocks, one = header.memory.at(HEADER.size), header.whole("blocks"), flow.constant(1.0)
    dt = header.real("dt").splat(n)
    places = {name: rows.at(blocks * (n * k)) for k, name in enumerate(ROWS)}
    with flow.loop(blocks, share=one) as block:
        size, most = (places[x].load(block.index * n, n) for x in ("desired", "acceleration"))
        block["share"] = (size.size() / most).larger(block["share"])
    share = block["share"].largest().splat(n) if n > 1 else block["share"]

    tape = ExpressionGraph()
    x = {name: tape.input(k) for k, name in enumerate(INPUTS)}
    quick, certain = within_jerk(tape, x)
    unsure = tape.less(certain, 0.5)
    slow = affordable(tape, x)
    limits = Program(tape, len(INPUTS), ((quick, unsure), (slow,)))
    motion = ExpressionGraph()
    y = {name: motion.input(k) for k, name in enumerate(INPUTS)}
    moved = _moved(motion, y, motion.input(len(INPUTS)))
    with flow.loop(blocks) as block:
        here = block.index * n
        given = [dt if name == "dt" else places[name].load(here, n) for name in INPUTS]
        given[INPUTS.index("desired")] = given[INPUTS.index("desired")] / share
        body = LlvmFunction(limits, flow, given.__getitem__, n)
        body.write((quick, unsure))
        condition = IrValue(flow, f"<{n} x i1>" if n > 1 else "i1", body.output(unsure))
        with flow.when(condition.any(), a=flow.typed(body.output(quick))) as searched:
            body.write((slow,))
            searched["a"] = flow.typed(body.output(slow))
        given.append(searched["a"])
        euler = LlvmFunction(Program(motion, len(given), (moved,)), flow, given.__getitem__, n)
        euler.write()
        for name, value in zip(("q", "qd", "last"), moved, strict=True):
            places[name].store(flow.typed(euler.output(value)), here)
    return flow.function("integrate", linkage="")


def _run(lanes: Lanes) -> str:
    """Write ``run(memory)``."""
    flow = FunctionBuilder(memory="ptr")
    header = Fields(flow.pointer("memory"), HEADER)
    joints, count = header.whole("joints"), header.whole("count")
    width = header.whole("blocks") * lanes.count
    rows = header.memory.at(HEADER.size)
    q, qd, desired, offset = (
        rows.at(width * ROWS.index(name)) for name in ("q", "qd", "desired", "offset")
    )
    seen, speed, found, pivot = (header.pointer(name) for name in ("q", "qd", "qdd", "pivot"))
    with flow.loop(count) as step:
        header.at("done").of("i64").store(step.index)
        with flow.loop(joints) as joint:
            seen.store(q.load(joint.index) + offset.load(joint.index), joint.index)
            speed.store(qd.load(joint.index), joint.index)
        flow.call("void", header.pointer("evaluate"), header.pointer("memory"))
        with flow.loop(joints, zero=flow.constant(0.0)) as joint:
            a = found.load(joint.index)
            desired.store(a, joint.index)
            joint["zero"] = joint["zero"] + a * 0.0  # NaN if one is not finite
        valid = (pivot.load() > SOLVABLE) & (joint["zero"] <= 0.0)
        flow.return_if(~valid)
        flow.call("void", "integrate", header.memory)
    header.at("done").of("i64").store(count)
    return flow.function("run", linkage="")

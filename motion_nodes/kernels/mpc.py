# SPDX-License-Identifier: Apache-2.0
"""Rollouts of sampled attractors as LLVM code, one sample per lane.

Small distances, of spheres to obstacles and to other spheres, have a cost. Bounding spheres of
bodies are tested first, and the spheres themselves only if any lane is within the margin. A
distance d within a margin m costs ((m - d) / m)^2 times a weight.

The tracking law is the same for rollouts and for the executed motion. All joints approach the
attractor at a common rate, so that from rest the motion is a straight line in joint space. At this
rate no joint exceeds its velocity limit or the velocity from which it can stop at the attractor;
close to it the velocity is proportional to the offset.

The formulas work on expression graphs and on NumPy arrays, depending on ``ops``.

The memory is a table of integers and addresses, in units of 8 bytes. All arrays are float32 unless
noted; everything is in SI units and in the robot's base frame. A block is one sample per lane; the
values of its samples are adjacent.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

from motion_nodes.kernels import native
from motion_nodes.kernels.cache import source_digest
from motion_nodes.kernels.collision.collision_codegen import set_off_function
from motion_nodes.kernels.collision.collision_memory import added_digest
from motion_nodes.kernels.collision.collision_shapes import centre
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.ops import Ops, dot
from motion_nodes.kernels.formulas.shapes import ShapeFormula, signed_distance
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer, Turn
from motion_nodes.kernels.llvm_text import LlvmFunction, declarations
from motion_nodes.kernels.memory_layout import FieldLayout, Fields
from motion_nodes.kernels.rmp.rmp_memory import obstacle_shapes
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes

GAIN = 5.0
"""Rate of approach close to the attractor [1/s]."""
RESPONSE = 0.05
"""Time constant of the velocity [s]; with the gain, the approach is critically damped."""
SPEED_SHARE, BRAKING_SHARE = 0.95, 0.5
"""Shares of the velocity and acceleration limits that the law uses."""
TINY = 1e-6
"""Added to offsets, so that quotients stay finite [rad or m]."""
ROW = 20
"""Values per obstacle: rotation (9, row-major) and translation (3) from the base frame to its own,
sizes of its formula (3), rounding radius, then its bounding sphere: centre (3) and radius."""
JOINT_FIELDS = ("qd", "qdd", "speed", "acceleration", "jerk", "posture", "scale")
"""Velocity and acceleration at the start, limits of velocity, acceleration and jerk, posture, and
weight of the joint in the distance from the goal."""
WEIGHTS = (
    *("margin", "self_margin", "world", "self", "collision", "position", "rotation", "goal"),
    *(
        "effort",
        "posture",
        "terminal",
        "tail",
        "tail_limit",
        "dt",
        "response",
        "discount",
        "clearance",
        "away",
    ),
)
"""Margins [m]; weights of the terms of the cost; time step [s]; response of the tracking law [1/s];
discount of the cost per step; min distance of a free configuration [m]; inverse of the distance
from the goal within which the costs of the margins decrease."""
OUTPUTS = ("cost", "clearance", "blocked", "distance", "free")
"""Results per sample: cost; min distance over the horizon, at most the margin [m]; cost of
collisions on the straight line from its end to its goal; distance of its end from its goal; number
of free configurations on that line before the first one that is not."""
FIELDS = FieldLayout(
    place=1,  # address of the robot's function: joint positions in lanes -> poses of groups
    joints=1,  # number of active joints, the first inputs of that function
    inputs=1,
    standing=1,  # positions of the other joints [rad or m]
    groups=1,
    bodies=1,
    spheres=1,
    world_bodies=1,  # number of bodies that avoid the world; they are the first ones
    body_groups=1,  # int32
    body_firsts=1,  # first sphere of each body, and the total, int32
    body_centres=1,  # bounding spheres in the groups' frames, (bodies, 3)
    body_radii=1,
    sphere_centres=1,  # (spheres, 3)
    sphere_radii=1,
    pairs=1,
    pair_bodies=1,  # (pairs, 2) int32
    tool_group=1,
    tool=1,  # position of the tool in its group (3), of its target (3), R* R_GT^T (9)
    steps=1,
    knots=1,
    tail=1,  # number of configurations on the straight line to the goal
    tail_step=1,  # step whose obstacles are checked against these configurations
    blocks=1,
    joint_values=1,  # (joints, JOINT_FIELDS)
    weights=1,  # in the order of WEIGHTS
    starts=1,  # positions at the start, (blocks, joints, lanes)
    basis=1,  # attractor at each step as a combination of knots, (steps, knots)
    attractors=1,  # (blocks, knots, joints, lanes)
    goals=1,  # (blocks, joints, lanes)
    out=1,  # (blocks, OUTPUTS, lanes)
    obstacles=1,  # of each shape the address of an array (steps, count, ROW), and count, int64
)
_PLACED = {"h": "ptr", "bounds": "ptr", "spheres": "ptr", "sums": "ptr"}
_OBSTACLE = 15
"""Number of inputs from the obstacle: rotation, translation and sizes; the point follows."""
_SOURCES = (
    "mpc",
    "collision.collision_codegen",
    "collision.collision_shapes",
    "collision.collision_memory",
    "rmp.rmp_memory",
    "formulas.ops",
    "formulas.shapes",
)
_ROUNDED = 1e-6
"""Added to squared distances, so that their roots are smooth at zero."""
Rollout = Callable[[int], None]


def response(dt: float) -> float:
    """Return the velocity's response (1 - exp(-dt / RESPONSE)) / dt [1/s] for time steps dt [s]."""
    return (1.0 - math.exp(-dt / RESPONSE)) / dt


def tracking_rate(ops: Ops, offset: Any, speed: Any, acceleration: Any) -> Any:
    """Return the max rate of a joint [1/s]; the motion's rate is the min of all joints.

    Args:
        ops: operations.
        offset: of the attractor from the joint [rad or m].
        speed: velocity limit [rad/s or m/s].
        acceleration: acceleration limit [rad/s^2 or m/s^2].
    """
    length = ops.absolute(offset) + TINY
    braking = ops.root(ops.divide(2.0 * BRAKING_SHARE * acceleration, length))
    return ops.minimum(GAIN, ops.minimum(braking, ops.divide(SPEED_SHARE * speed, length)))


def acceleration(rate_of_all: Any, offset: Any, velocity: Any, response_of_step: Any) -> Any:
    """Return the acceleration of a joint, before limits [rad/s^2 or m/s^2].

    Args:
        rate_of_all: common rate of the motion [1/s].
        offset: of the attractor from the joint [rad or m].
        velocity: of the joint [rad/s or m/s].
        response_of_step: see :func:`response` [1/s].
    """
    return (rate_of_all * offset - velocity) * response_of_step


def table_of(flow: FunctionBuilder) -> Fields:
    """Return the table, the argument ``h`` of a function."""
    return Fields(flow.pointer("h"), FIELDS)


def weight(table: Fields, name: str, lanes: int) -> IrValue:
    """Return a weight in lanes."""
    return table.pointer("weights", "float").load(WEIGHTS.index(name)).splat(lanes)


def placement_function(lanes: Lanes) -> str:
    """Write ``place_spheres(h, poses, bounds, spheres)``: all spheres in the base frame [m]."""
    arguments = {"h": "ptr", "poses": "ptr", "bounds": "ptr", "spheres": "ptr"}
    flow, n = FunctionBuilder(lanes, **arguments), lanes.count
    table = table_of(flow)
    poses, bounds, spheres = (flow.pointer(x, "float") for x in ("poses", "bounds", "spheres"))
    around, points = (table.pointer(f"{x}_centres", "float") for x in ("body", "sphere"))
    with flow.loop(table.whole("bodies")) as body:
        group = table.pointer("body_groups", "i32").load(body.index).to("i64")
        pose, (first, count) = poses.at(group * (12 * n)), sphere_run(table, body.index)
        flow.call("void", "set_off", pose, around.at(body.index * 3),
                  bounds.at(body.index * (3 * n)), 1)  # fmt: skip
        flow.call("void", "set_off", pose, points.at(first * 3), spheres.at(first * (3 * n)), count)
    return flow.function("place_spheres")


def sphere_run(table: Fields, body: IrValue) -> tuple[IrValue, IrValue]:
    """Return the index of a body's first sphere, and the number of its spheres."""
    firsts = table.pointer("body_firsts", "i32").at(body)
    first = firsts.load().to("i64")
    return first, firsts.load(1).to("i64") - first


class _Hinge:
    """Adds the costs of distances to a turn's ``cost`` and ``near``."""

    def __init__(self, flow: FunctionBuilder, table: Fields, margin: str, strength: str) -> None:
        n = flow.lanes.count
        self.flow = flow
        self.margin = weight(table, margin, n)
        self._inverse = flow.constant(1.0) / self.margin
        self._weight = weight(table, strength, n)

    def add(self, turn: Turn, distance: IrValue) -> None:
        """Add the cost of distances in lanes."""
        short = (self.margin - distance) * self._inverse
        short = short.larger(self.flow.constant(0.0))
        turn["cost"] = (short * short).fused(self._weight, turn["cost"])
        turn["near"] = distance.smaller(turn["near"])


def _sums(flow: FunctionBuilder) -> dict[str, IrValue]:
    n, sums = flow.lanes.count, flow.pointer("sums", "float")
    return {"cost": sums.load(0, n), "near": sums.load(n, n)}


def _store_sums(flow: FunctionBuilder, turn: Turn) -> None:
    sums = flow.pointer("sums", "float")
    sums.store(turn["cost"], 0)
    sums.store(turn["near"], flow.lanes.count)


def _square(a: Sequence[IrValue], b: Sequence[IrValue]) -> IrValue:
    x, y, z = (p - q for p, q in zip(a, b, strict=True))
    return z.fused(z, y.fused(y, x * x))


class _Distance:
    """Signed distance of points to one obstacle, whose row is loaded once."""

    def __init__(self, flow: FunctionBuilder, shape: ShapeFormula, row: list[IrValue]) -> None:
        tape = ExpressionGraph()
        given = [tape.input(i) for i in range(_OBSTACLE)]
        x = [tape.input(_OBSTACLE + i) for i in range(3)]
        local = [dot([1.0, *given[3 * i : 3 * i + 3]], [given[9 + i], *x]) for i in range(3)]
        found = signed_distance(tape, shape, local, given[12:15])
        self._value = found.value
        self._program = Program(tape, _OBSTACLE + 3, ((found.value,),))
        self._flow, self._row = flow, row

    def at(self, point: list[IrValue]) -> IrValue:
        """Write the distance of a point in lanes to the obstacle's rounded surface."""
        numbers = [*self._row[:_OBSTACLE], *point]
        body = LlvmFunction(self._program, self._flow, numbers.__getitem__, self._flow.lanes.count)
        body.write()
        return self._flow.typed(body.output(self._value)) - self._row[_OBSTACLE]


def obstacle_function(lanes: Lanes, shape: ShapeFormula) -> str:
    """Write ``world_<shape>(h, bounds, spheres, sums, rows, count)``: costs of its obstacles."""
    flow, n = FunctionBuilder(lanes, **_PLACED, rows="ptr", count="i64"), lanes.count
    table = table_of(flow)
    count = flow.argument("count")
    flow.return_if(count.equals(0))
    hinge = _Hinge(flow, table, "margin", "world")
    bounds, spheres = flow.pointer("bounds", "float"), flow.pointer("spheres", "float")
    around, radii = (table.pointer(f"{x}_radii", "float") for x in ("body", "sphere"))
    with flow.loop(count, **_sums(flow)) as obstacle:
        start = flow.pointer("rows", "float").at(obstacle.index * ROW)
        row = [start.load(k).splat(n) for k in range(ROW)]
        distance = _Distance(flow, shape, row)
        reach = row[-1] + hinge.margin
        with flow.loop(table.whole("world_bodies"), **obstacle.values) as body:
            x, radius = centre(bounds, body.index, n), around.load(body.index).splat(n)
            far = reach + radius
            close = (_square(x, row[-4:-1]) < far * far).any()
            with flow.when(close, **body.values) as inside:
                within = (distance.at(x) < radius + hinge.margin).any()
                with flow.when(within, **inside.values) as felt:
                    first, number = sphere_run(table, body.index)
                    with flow.loop(number, **felt.values) as one:
                        index = first + one.index
                        point = centre(spheres, index, n)
                        hinge.add(one, distance.at(point) - radii.load(index).splat(n))
                    felt.values = one.values
                inside.values = felt.values
            body.values = inside.values
        obstacle.values = body.values
    _store_sums(flow, obstacle)
    return flow.function(f"world_{shape.name}")


def links_function(lanes: Lanes) -> str:
    """Write ``links(h, bounds, spheres, sums)``: costs of the checked pairs of bodies."""
    flow, n = FunctionBuilder(lanes, **_PLACED), lanes.count
    table = table_of(flow)
    hinge = _Hinge(flow, table, "self_margin", "self")
    bounds, spheres = flow.pointer("bounds", "float"), flow.pointer("spheres", "float")
    around, radii = (table.pointer(f"{x}_radii", "float") for x in ("body", "sphere"))
    pairs = table.pointer("pair_bodies", "i32")
    with flow.loop(table.whole("pairs"), **_sums(flow)) as pair:
        a, b = (pairs.load(pair.index * 2 + k).to("i64") for k in range(2))
        whole, bound = centre(bounds, b, n), around.load(b).splat(n) + hinge.margin
        far = around.load(a).splat(n) + bound
        close = (_square(centre(bounds, a, n), whole) < far * far).any()
        with flow.when(close, **pair.values) as felt:
            (first_a, count_a), (first_b, count_b) = sphere_run(table, a), sphere_run(table, b)
            with flow.loop(count_a, **felt.values) as one:
                x, r = centre(spheres, first_a + one.index, n), radii.load(first_a + one.index)
                reach = r.splat(n) + bound
                near = (_square(x, whole) < reach * reach).any()
                with flow.when(near, **one.values) as met:
                    with flow.loop(count_b, **met.values) as other:
                        index = first_b + other.index
                        length = _square(x, centre(spheres, index, n)).root()
                        hinge.add(other, length - (r + radii.load(index)).splat(n))
                    met.values = other.values
                one.values = met.values
            felt.values = one.values
        pair.values = felt.values
    _store_sums(flow, pair)
    return flow.function("links")


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
        with flow.loop(self._joints, rate=flow.constant(GAIN)) as joint:
            q = self._get("q", joint.index)
            offset = self._attractor(block, step, joint.index) - q
            self._put("target", joint.index, offset)
            own = _Written(flow)
            e, speed, most = (
                own.input(x)
                for x in (offset, *(self._joint(joint.index, x) for x in ("speed", "acceleration")))
            )
            (slower,) = own.write(tracking_rate(own.ops, e, speed, most))
            joint["rate"] = slower.smaller(joint["rate"])
        rate = joint["rate"]
        with flow.loop(self._joints, share=flow.constant(1.0)) as joint:
            v = self._get("qd", joint.index)
            desired = acceleration(rate, self._get("target", joint.index), v, w["response"])
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

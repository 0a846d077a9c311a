# SPDX-License-Identifier: Apache-2.0
"""Distances of many points from a few spheres, and the descent that fits spheres to a geometry.

One point per lane; the spheres are passed through once for each register of points. Coordinates
are passed by axis, and padded to whole registers. All calls release the GIL.

The descent is that of :func:`motion_nodes.core.scene.sphere_set.refine`. The sphere that contains
a point deepest is found in single precision, so that it may be one of several that differ by
less than a micrometre; all else is computed in double precision.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels import native
from motion_nodes.kernels.cache import source_digest
from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.memory_layout import FieldLayout, Fields, table_of
from motion_nodes.kernels.native import LoadedCode
from motion_nodes.kernels.robot_codegen import load_code
from motion_nodes.kernels.simd import Lanes
from motion_nodes.typing import Array

DECAY, DECAY_SQUARES = 0.9, 0.99
"""Decay of the averages of the gradient and of its square per step."""
_TINY = 1e-9
_FIELDS = FieldLayout(
    axes=3,  # points by axis, float32: address, 3, number of points with padding
    points=3,  # float64: address, number, 3
    weights=2,  # of the points that should be outside: address, number
    spheres=3,  # input and output: address, number, 4
    near=3,  # the spheres in single precision
    beyond=2,  # distance of each point from its sphere, float32
    owner=2,  # index of that sphere, float32
    gradient=3,
    mean=3,  # average of the gradient
    square=3,  # average of its square
    steps=1,
    share=1,  # of the descent that is done at the first step
    share_step=1,
    hold=1,  # weight of a point that should be inside, per metre and firmness
    within=1,  # depth at which such a point should be [m]
    edge=1,  # width of the edge band of a sphere [m]
    pull=1,  # weight of a point at the edge that should be outside
    size=1,  # size of the first step [m]
    least=1,  # min radius [m]
)
_Deepest = ctypes.CFUNCTYPE(
    None,
    *(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p),
    *(ctypes.c_void_p, ctypes.c_void_p),
)
_Count = ctypes.CFUNCTYPE(
    None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
_Descend = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(frozen=True)
class DescentRules:
    """Parameters of a descent; lengths in metres."""

    steps: int
    """Number of steps."""
    begin: float
    """Share of the whole descent before the first step, 0 to 1; steps decrease to zero at 1."""
    end: float
    """Share after the last step."""
    hold: float
    """Weight of points that should be inside but are not, per metre."""
    within: float
    """Depth at which these points should be."""
    edge: float
    """Width of the edge band, in which points that should be outside matter."""
    pull: float
    """Weight of such a point at the edge."""
    size: float
    """Size of the first step."""
    least: float
    """Min radius."""


def nearest(spheres: Array, points: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the signed distance of points from all spheres, and the closest sphere.

    Args:
        spheres: centre and radius [m], shape (n, 4), at least one.
        points: shape (m, 3) [m].

    Returns:
        Distance [m], negative inside, and index of the sphere, shape (m,) each.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    call, lanes = _calls()[0], native.host_cpu().lanes("double").count
    axes, found = _by_axis(points, lanes), np.empty((2, _padded(len(points), lanes)))
    given = np.ascontiguousarray(spheres, np.float64)
    beyond, owner = found
    call(
        axes.shape[1], axes.ctypes.data, len(given), given.ctypes.data,
        beyond.ctypes.data, owner.ctypes.data,
    )  # fmt: skip
    return beyond[: len(points)], owner[: len(points)].astype(np.intp)


def count_within(points: Array, centres: Array, reach: Array) -> Array:
    """Return the number of points within reach of each centre, shape (n,).

    Args:
        points: shape (m, 3) [m].
        centres: shape (n, 3) [m].
        reach: max distance for each centre [m], shape (n,).

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    call, lanes = _calls()[1], native.host_cpu().lanes("double").count
    count = _padded(len(centres), lanes)
    rows = np.zeros((4, count))
    rows[:3, : len(centres)], rows[3, : len(centres)] = centres.T, reach * reach
    given, counts = np.ascontiguousarray(points, np.float64), np.zeros(count)
    call(len(given), given.ctypes.data, count, rows.ctypes.data, counts.ctypes.data)
    return counts[: len(centres)]


def descend(spheres: Array, points: Array, weights: Array, rules: DescentRules) -> Array:
    """Return spheres after a gradient descent with Adam's step sizes.

    The loss is the sum of the squared lacking depths of points to be inside, and of the weights
    of points to be outside that are inside; both depend on the sphere that contains a point
    deepest. Steps: Kingma and Ba, Adam, ICLR 2015.

    Args:
        spheres: centre and radius [m], shape (n, 4), at least one.
        points: points to be inside, then points to be outside [m], shape (m, 3).
        weights: of the latter, shape (k,); k <= m.
        rules: see the class.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    # About their middle, for the sake of single precision.
    middle = points.mean(axis=0)
    centred = np.ascontiguousarray(points - middle)
    found = np.array(spheres, np.float64)
    found[:, :3] -= middle
    axes = _by_axis(centred, native.host_cpu().lanes("float").count).astype(np.float32)
    beyond, owner = np.empty((2, axes.shape[1]), np.float32)
    scratch = np.zeros((3, *found.shape))
    near = np.empty(found.shape, np.float32)
    share = (rules.end - rules.begin) / rules.steps
    arrays = (axes, centred, np.ascontiguousarray(weights), found, near, beyond, owner, *scratch)
    numbers = (rules.hold, rules.within, rules.edge, rules.pull, rules.size, rules.least)
    table = table_of((*arrays, rules.steps, float(rules.begin), share, *map(float, numbers)))
    _calls()[2](table.ctypes.data)
    found[:, :3] += middle
    return found


def load() -> None:
    """Load or compile the code, which otherwise the first call does.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """
    _calls()


def module(narrow: Lanes, wide: Lanes) -> str:
    """Return the LLVM module.

    Args:
        narrow: the type of registers in single precision.
        wide: in double precision.
    """
    parts = [_deepest(narrow), _deepest(wide), _count(wide), _descent(narrow)]
    return "\n".join([*parts, *declarations(narrow), *declarations(wide)])


@functools.cache
def _calls() -> tuple[Callable[..., None], Callable[..., None], Callable[..., None]]:
    """Return ``nearest``, ``count`` and ``descend`` of the module."""
    cpu = native.host_cpu()
    narrow, wide = cpu.lanes("float"), cpu.lanes("double")
    name = f"sphere fit {source_digest(('sphere_fit',))} {narrow} {wide}"
    code: LoadedCode = load_code(name, lambda: module(narrow, wide))
    return (
        _Deepest(code.address("deepest_double")),
        _Count(code.address("count")),
        _Descend(code.address("descend")),
    )


def _padded(count: int, lanes: int) -> int:
    return -(-count // lanes) * lanes


def _by_axis(points: Array, lanes: int) -> Array:
    """Return coordinates by axis, padded with zeros, shape (3, count)."""
    axes = np.zeros((3, _padded(len(points), lanes)))
    axes[:, : len(points)] = points.T
    return axes


def _deepest(lanes: Lanes) -> str:
    """Write ``deepest(count, axes, n, spheres, beyond, owner)``: the closest sphere of points."""
    kind, n = lanes.element, lanes.count
    flow = FunctionBuilder(
        lanes, count="i64", axes="ptr", n="i64", spheres="ptr", beyond="ptr", owner="ptr"
    )
    count, axes = flow.argument("count"), flow.pointer("axes", kind)
    spheres, beyond, owner = (flow.pointer(x, kind) for x in ("spheres", "beyond", "owner"))
    with flow.loop(count // n) as block:
        first = block.index * n
        point = [axes.load(count * k + first, n) for k in range(3)]
        start = {"best": flow.constant(float("inf")), "at": flow.constant(0.0)}
        with flow.loop(flow.argument("n"), **start) as sphere:
            one = spheres.at(sphere.index * 4)
            away = _length([x - one.load(k).splat(n) for k, x in enumerate(point)])
            away -= one.load(3).splat(n)
            closer = away < sphere["best"]
            sphere["best"] = closer.choose(away, sphere["best"])
            sphere["at"] = closer.choose(sphere.index.to(kind).splat(n), sphere["at"])
        beyond.store(sphere["best"], first)
        owner.store(sphere["at"], first)
    return flow.function(f"deepest_{kind}", linkage="")


def _count(lanes: Lanes) -> str:
    """Write ``count(m, points, n, rows, counts)``: how many points are close to each centre."""
    n = lanes.count
    flow = FunctionBuilder(lanes, m="i64", points="ptr", n="i64", rows="ptr", counts="ptr")
    points, rows, counts = (flow.pointer(name) for name in ("points", "rows", "counts"))
    count = flow.argument("n")
    with flow.loop(count // n) as block:
        first = block.index * n
        *centre, squares = (rows.load(count * k + first, n) for k in range(4))
        with flow.loop(flow.argument("m"), total=flow.constant(0.0)) as point:
            own = points.at(point.index * 3)
            away = [x - own.load(k).splat(n) for k, x in enumerate(centre)]
            within = _square(away) <= squares
            point["total"] = point["total"] + within.choose(1.0, flow.constant(0.0))
        counts.store(point["total"], first)
    return flow.function("count", linkage="")


def _descent(lanes: Lanes) -> str:
    """Write ``descend(h)``: all steps of a descent."""
    flow = FunctionBuilder(lanes, h="ptr")
    table = Fields(flow.pointer("h"), _FIELDS)
    n, count, outer = (table.whole(*x) for x in (("spheres", 1), ("axes", 2), ("weights", 1)))
    values, inner = n * 4, table.whole("points", 1) - outer
    spheres, gradient = table.pointer("spheres"), table.pointer("gradient")
    near = table.pointer("near", "float")
    scratch = [table.pointer(name, "float") for name in ("beyond", "owner")]
    one = IrValue(flow, "double", "1.0")
    with flow.loop(table.whole("steps"), decay=one, decay_squares=one) as step:
        share = step.index.to("double") * table.real("share_step") + table.real("share")
        with flow.loop(values) as k:
            near.store(spheres.load(k.index).to("float"), k.index)
            gradient.store(0.0, k.index)
        axes = table.pointer("axes", "float")
        flow.call("void", "deepest_float", count, axes, n, near, *scratch)
        hold = (share * 1.7 + 0.3) * table.real("hold")
        with flow.loop(inner) as point:
            away, length, distance, sphere = _from_owner(table, point.index, scratch[1])
            lacking = distance + table.real("within")
            with flow.when(lacking > 0.0):
                _add(sphere, away, length, lacking * hold)
        with flow.loop(outer) as point:
            away, length, distance, sphere = _from_owner(table, point.index + inner, scratch[1])
            at_edge = one - distance.size() / table.real("edge")
            with flow.when(at_edge > 0.0):
                weight = table.pointer("weights").load(point.index) * table.real("pull")
                _add(sphere, away, length, -(at_edge * weight))
        step["decay"] = step["decay"] * DECAY
        step["decay_squares"] = step["decay_squares"] * DECAY_SQUARES
        size = (one - share) * table.real("size") / (one - step["decay"])
        with flow.loop(values) as k:
            slope, averages = gradient.load(k.index), []
            for name, decay, now in (
                ("mean", DECAY, slope),
                ("square", DECAY_SQUARES, slope * slope),
            ):
                average = table.pointer(name)
                averages.append(average.load(k.index) * decay + now * (1.0 - decay))
                average.store(averages[-1], k.index)
            mean, square = averages
            root = (square / (one - step["decay_squares"])).root() + _TINY
            spheres.store(spheres.load(k.index) + size * mean / root, k.index)
        with flow.loop(n) as k:
            radius = spheres.at(k.index * 4 + 3)
            radius.store(radius.load().larger(table.real("least")))
    return flow.function("descend", linkage="")


def _from_owner(
    table: Fields, index: IrValue, owner: Pointer
) -> tuple[list[IrValue], IrValue, IrValue, IrValue]:
    """Return the offset of a point from its sphere, its length, the distance, and the index."""
    first = owner.load(index).to("double").to("i64") * 4
    own, point = table.pointer("spheres").at(first), table.pointer("points").at(index * 3)
    away = [point.load(k) - own.load(k) for k in range(3)]
    length = _length(away)
    return away, length, length - own.load(3), table.pointer("gradient").at(first)


def _add(gradient: IrValue, away: list[IrValue], length: IrValue, pull: IrValue) -> None:
    """Add the pull of a point towards itself, which reduces the loss, to a sphere's row."""
    assert isinstance(gradient, Pointer)
    unit = pull / length.larger(IrValue(length.flow, "double", length._literal(_TINY)))
    for k, x in enumerate((*(unit * x for x in away), pull)):
        gradient.store(gradient.load(k) + x, k)


def _square(vector: list[IrValue]) -> IrValue:
    x, y, z = vector
    return x * x + y * y + z * z


def _length(vector: list[IrValue]) -> IrValue:
    return _square(vector).root()

# SPDX-License-Identifier: Apache-2.0
"""Signed distances and directions of spheres to the world as LLVM code, one sphere per lane.

``nearest(count, x, checked, out, memory)`` finds the closest leaf for each of ``count`` spheres (a
multiple of the lane count). ``x`` holds x, y, z and radius of the spheres [m], shape (4, count);
``checked``, int8, shape (objects, count), selects the objects of each sphere. ``out`` receives
distance [m], direction (unit vector) and object index (as float, -1 for none), shape (5, count).
``x`` and ``out`` are float32, in the robot's base frame.
"""

from __future__ import annotations

import math

from motion_nodes.kernels.collision.collision_memory import LEAF, table_of
from motion_nodes.kernels.collision.collision_shapes import distance_functions
from motion_nodes.kernels.collision.shape_kinds import KINDS
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.simd import Lanes


def nearest_text(lanes: Lanes) -> str:
    """Return the LLVM module with the function ``nearest``."""
    return "\n".join([distance_functions(lanes, KINDS), _nearest(lanes), *declarations(lanes)])


def _nearest(lanes: Lanes) -> str:
    arguments = {"count": "i64", "x": "ptr", "checked": "ptr", "out": "ptr", "h": "ptr"}
    flow, n = FunctionBuilder(lanes, **arguments), lanes.count
    count, table = flow.argument("count"), table_of(flow)
    given, out = (flow.pointer(name, "float") for name in ("x", "out"))
    leaves, planes = table.pointer("leaves", "float"), table.pointer("planes", "float")
    found = flow.allocated(4 * n, "float", align=64)
    point = flow.allocated(3 * n, "float", align=64)
    with flow.loop(count // n) as block:
        start = block.index * n
        *x, radius = (given.load(count * k + start, n) for k in range(4))
        for k in range(3):
            point.store(x[k], k * n)
        best, far = flow.constant(math.inf), flow.constant(0.0)
        names = {"best": best, "dx": far, "dy": far, "dz": far, "object": flow.constant(-1.0)}
        with flow.loop(table.whole("leaf_count"), **names) as turn:
            leaf = leaves.at(turn.index * LEAF)
            number = leaf.of("i32").load(1)
            flow.call("i64", "distance", leaf, point, found, planes)
            row = number.to("i64") * count + start
            counts = flow.pointer("checked", "i8").at(row).load(lanes=n).differs(0)
            distance = found.load(lanes=n) - radius
            nearer = (distance < turn["best"]) & counts
            direction = (found.load((1 + k) * n, n) for k in range(3))
            values = (distance, *direction, number.to("float").splat(n))
            for name, value in zip(names, values, strict=True):
                turn[name] = nearer.choose(value, turn[name])
        for k, name in enumerate(names):
            out.store(turn[name], count * k + start)
    return flow.function("nearest", linkage="")

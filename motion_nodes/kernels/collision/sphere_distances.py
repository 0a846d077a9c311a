# SPDX-License-Identifier: Apache-2.0
"""Signed distances and directions of spheres to the world as LLVM code, one sphere per lane.

``nearest(count, x, checked, out, memory)`` finds the closest leaf for each of ``count`` spheres (a
multiple of the lane count). ``x`` holds x, y, z and radius of the spheres, one array after the
other [m]; ``checked`` (objects, count), int8, tells which objects count for which sphere. ``out``
receives distance [m], direction (unit vector) and object index (as float, -1 for none), one array
after the other. All are float32, in the robot's base frame.
"""

from __future__ import annotations

from motion_nodes.kernels.collision.collision_memory import LEAF, array, field
from motion_nodes.kernels.collision.collision_shapes import distance_functions
from motion_nodes.kernels.collision.shape_kinds import KINDS
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.simd import Lanes


def nearest_text(lanes: Lanes) -> str:
    """Return the LLVM module with the function ``nearest``."""
    return "\n".join([distance_functions(lanes, KINDS), _nearest(lanes), *declarations(lanes)])


def _nearest(lanes: Lanes) -> str:
    flow, n, t = FunctionBuilder(lanes), lanes.count, lanes.type
    leaves, planes = array(flow, "leaves"), array(flow, "planes")
    way = flow.emit(f"alloca float, i64 {4 * n}, align 64")
    place = flow.emit(f"alloca float, i64 {3 * n}, align 64")
    with flow.loop(flow.emit(f"udiv i64 %count, {n}")) as block:
        start = flow.times(block.index, n)
        for k in range(3):
            x = flow.load(flow.at("%x", flow.plus(flow.times("%count", k), start)))
            flow.store(x, flow.at(place, k * n))
        radius = flow.load(flow.at("%x", flow.plus(flow.times("%count", 3), start)))
        names = ("dx", "dy", "dz")
        carried = {
            "best": (t, lanes.constant(float("inf"))),
            "object": (t, lanes.constant(-1.0)),
            **{name: (t, lanes.constant(0.0)) for name in names},
        }
        with flow.loop(field(flow, "leaf_count"), **carried) as turn:
            leaf = flow.at(leaves, flow.times(turn.index, LEAF))
            number = flow.get(leaf, 1, "i32")
            wide = flow.emit(f"sext i32 {number} to i64")
            flow.emit(f"call i64 @distance(ptr {leaf}, ptr {place}, ptr {way}, ptr {planes})")
            row = flow.at("%checked", flow.plus(flow.times(wide, "%count"), start), "i8")
            flags = flow.emit(f"load <{n} x i8>, ptr {row}, align 1")
            counts = flow.emit(f"icmp ne <{n} x i8> {flags}, zeroinitializer")
            distance = flow.binary("fsub", flow.load(way), radius)
            nearer = flow.emit(f"fcmp olt {t} {distance}, {turn['best']}")
            nearer = flow.emit(f"and <{n} x i1> {nearer}, {counts}")
            turn["best"] = flow.where(nearer, distance, turn["best"])
            name = flow.splat(flow.emit(f"sitofp i32 {number} to float"))
            turn["object"] = flow.where(nearer, name, turn["object"])
            for k, axis in enumerate(names):
                value = flow.load(flow.at(way, (1 + k) * n))
                turn[axis] = flow.where(nearer, value, turn[axis])
        for k, result in enumerate(("best", *names, "object")):
            flow.store(turn[result], flow.at("%out", flow.plus(flow.times("%count", k), start)))
    flow.lines.append("  ret void")
    arguments = "i64 %count, ptr %x, ptr %checked, ptr %out, ptr %h"
    return flow.function("nearest", "void", arguments, "")

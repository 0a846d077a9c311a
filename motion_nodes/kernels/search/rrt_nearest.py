# SPDX-License-Identifier: Apache-2.0
"""Nearest-neighbour search: leaves of 256 nodes in a tree of tight bounding boxes.

Up to 256 nodes there is one leaf, which is scanned 16 nodes at a time in SIMD registers; a tree of
boxes above the leaves keeps the query time nearly constant up to 100 000 nodes. Boxes bound their
contents tightly, so continuous joints need no special partition of space.

Points are float32 and scaled by the weights of the joints, so distances are those of the metric.
Continuous joints are wrapped to one turn.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from motion_nodes.kernels.bridges import address
from motion_nodes.kernels.jit import bare_part, inlined
from motion_nodes.typing import Array

LANES = 16
BLOCKS = 16
LEAF = LANES * BLOCKS
_FAR = np.float32(1e15)
"""Coordinate of unused lanes; its square is still finite."""
NO_TURN = np.float32(1e30)
"""Period of joints that are not continuous."""
_DEPTH = 128

Floats = NDArray[np.float32]
Whole = NDArray[np.int32]


class Index(NamedTuple):
    """Nearest-neighbour index of the nodes of two trees."""

    points: Floats
    """Scaled coordinates, LANES nodes side by side: shape (2 leaves BLOCKS dimensions LANES,)."""
    names: Whole
    """Node at each place of a leaf, shape (2, leaves, LEAF)."""
    boxes: Floats
    """Min and max coordinates, shape (2, boxes, 2, dimensions)."""
    links: Whole
    """Of each box: first of two children, or -1 - leaf; axis of the split or number of nodes in the
    leaf; shape (2, boxes, 2)."""
    cuts: Floats
    """Split coordinate of each box with children, shape (2, boxes)."""
    used: NDArray[np.int64]
    """Boxes and leaves in use, shape (2, 2)."""
    period: Floats
    """A full turn in scaled coordinates, or NO_TURN, shape (dimensions,)."""
    query: Floats
    """Query point, scaled and wrapped; written by the kernels, shape (dimensions,)."""
    stack: NDArray[np.float64]
    """Boxes still to visit, with their distances, shape (_DEPTH, 2)."""


def make_index(period: Floats, leaves: int) -> Index:
    """Return an empty index.

    Args:
        period: a full turn in scaled coordinates, or ``NO_TURN``, per dimension.
        leaves: max number of leaves.
    """
    dimensions = len(period)
    return Index(
        points=np.empty(2 * leaves * LEAF * dimensions, np.float32),
        names=np.empty((2, leaves, LEAF), np.int32),
        boxes=np.empty((2, 2 * leaves, 2, dimensions), np.float32),
        links=np.empty((2, 2 * leaves, 2), np.int32),
        cuts=np.empty((2, 2 * leaves), np.float32),
        used=np.zeros((2, 2), np.int64),
        period=period,
        query=np.empty(dimensions, np.float32),
        stack=np.empty((_DEPTH, 2)),
    )


def grown(index: Index) -> Index:
    """Return an index with the same nodes and twice the memory."""
    bigger = make_index(index.period, 2 * index.names.shape[1])
    for name in ("names", "boxes", "links", "cuts"):
        old = getattr(index, name)
        getattr(bigger, name)[:, : old.shape[1]] = old
    old, new = index.points.reshape(2, -1), bigger.points.reshape(2, -1)
    new[:, : old.shape[1]] = old
    bigger.used[:] = index.used
    return bigger


@inlined
def query(index: Index, q: Array, weights: Array) -> None:
    """Set the point of the next query or insertion: q of shape (n,), unscaled."""
    for d in range(q.shape[0]):
        x, turn = q[d] * weights[d], np.float64(index.period[d])
        if turn < NO_TURN:
            x -= turn * math.floor(x / turn + 0.5)
        index.query[d] = x


@inlined
def nearest(index: Index, tree: int) -> tuple[int, float]:
    """Return the node closest to the query, and its distance [weighted rad or m]."""
    if index.links[tree, 0, 0] < 0:
        best, who = _nearest_in_leaf(index, tree, 0)
        return int(who), math.sqrt(best)
    return _nearest_in_boxes(index, tree)


@inlined
def _nearest_in_leaf(index: Index, tree: int, box: int) -> tuple[float, int]:
    """Return squared distance and index of a leaf's node closest to the query."""
    leaf, count = -1 - index.links[tree, box, 0], index.links[tree, box, 1]
    start = address(index.points) + 4 * _leaf_start(index, tree, leaf)
    blocks = (count + LANES - 1) // LANES
    query, period = address(index.query), address(index.period)
    away, place = _nearest_of_leaf(start, blocks, len(index.query), query, period)
    return float(away), int(index.names[tree, leaf, place])


@bare_part
def _nearest_in_boxes(index: Index, tree: int) -> tuple[int, float]:
    """Return the result of :func:`nearest` for more than one leaf."""
    best, who = np.inf, -1
    stack, top = index.stack, 1
    stack[0, 0], stack[0, 1] = 0.0, 0.0
    while top > 0:
        top -= 1
        if stack[top, 1] >= best:
            continue
        box = int(stack[top, 0])
        child = index.links[tree, box, 0]
        if child < 0:
            away, node = _nearest_in_leaf(index, tree, box)
            if away < best:
                best, who = away, node
            continue
        first, second = _away(index, tree, child), _away(index, tree, child + 1)
        near = 0 if first <= second else 1
        # The nearer child is pushed last and visited first.
        stack[top, 0], stack[top, 1] = child + 1 - near, max(first, second)
        stack[top + 1, 0], stack[top + 1, 1] = child + near, min(first, second)
        top += 2
    return int(who), math.sqrt(best)


@inlined
def _leaf_start(index: Index, tree: int, leaf: int) -> int:
    """Return the offset of a leaf's points."""
    return int((tree * index.names.shape[1] + leaf) * LEAF * len(index.query))


@inlined
def _place(index: Index, start: int, place: int) -> int:
    """Return the offset of a place's first coordinate; the others follow LANES apart."""
    return int(start + (place // LANES) * LANES * len(index.query) + place % LANES)


@inlined
def _away(index: Index, tree: int, box: int) -> float:
    """Return the squared distance of the query from a box."""
    total = np.float32(0.0)
    for d in range(len(index.query)):
        x, period = index.query[d], index.period[d]
        low, high = index.boxes[tree, box, 0, d], index.boxes[tree, box, 1, d]
        out = np.float32(0.0)
        if x < low:
            out = min(low - x, x + period - high)
        elif x > high:
            out = min(x - high, low + period - x)
        total += out * out
    return float(total)


@inlined
def insert(index: Index, tree: int, node: int) -> None:
    """Insert a node whose coordinates are the query; there must be room."""
    used, links, query = index.used, index.links, index.query
    if used[tree, 0] == 0:
        used[tree, 0], used[tree, 1] = 1, 1
        links[tree, 0, 0], links[tree, 0, 1] = -1, 0
        _clear_box(index, tree, 0)
    box, depth = 0, 0
    while True:
        _enclose(index, tree, box, query)
        child = links[tree, box, 0]
        if child < 0:
            break
        beyond = query[links[tree, box, 1]] > index.cuts[tree, box]
        box, depth = child + (1 if beyond else 0), depth + 1
    leaf, place = -1 - child, links[tree, box, 1]
    if place == LEAF:
        return  # not indexed: the leaf could not be split, e.g. because its nodes are equal
    if place % LANES == 0:
        _clear_places(index, tree, leaf, place, place + LANES)
    _put(index, tree, leaf, place, query, node)
    links[tree, box, 1] = place + 1
    if place + 1 == LEAF and depth < _DEPTH // 2:
        _cut(index, tree, box)


@inlined
def _clear_box(index: Index, tree: int, box: int) -> None:
    """Reset a box to empty."""
    for d in range(len(index.query)):
        index.boxes[tree, box, 0, d] = _FAR
        index.boxes[tree, box, 1, d] = -_FAR


@inlined
def _clear_places(index: Index, tree: int, leaf: int, first: int, end: int) -> None:
    """Set the points of unused places of a leaf so far away that they are never the closest."""
    start = _leaf_start(index, tree, leaf)
    for place in range(first, end):
        at = _place(index, start, place)
        for d in range(len(index.query)):
            index.points[at + d * LANES] = _FAR


@inlined
def _enclose(index: Index, tree: int, box: int, point: Floats) -> None:
    """Extend a box to contain a point."""
    for d in range(len(point)):
        index.boxes[tree, box, 0, d] = min(index.boxes[tree, box, 0, d], point[d])
        index.boxes[tree, box, 1, d] = max(index.boxes[tree, box, 1, d], point[d])


@inlined
def _put(index: Index, tree: int, leaf: int, place: int, point: Floats, node: int) -> None:
    first = _place(index, _leaf_start(index, tree, leaf), place)
    for d in range(len(point)):
        index.points[first + d * LANES] = point[d]
    index.names[tree, leaf, place] = node


@bare_part
def _cut(index: Index, tree: int, box: int) -> None:
    """Split a full leaf in the middle of the longest side of its box; overwrites the query."""
    dimensions = len(index.query)
    axis, longest = 0, np.float32(0.0)
    for d in range(dimensions):
        side = index.boxes[tree, box, 1, d] - index.boxes[tree, box, 0, d]
        if side > longest:
            axis, longest = d, side
    low = index.boxes[tree, box, 0, axis]
    cut = low + np.float32(0.5) * longest
    no_room = index.used[tree, 1] == index.names.shape[1]
    if no_room or not low <= cut < index.boxes[tree, box, 1, axis]:
        return
    leaf, child, new = -1 - index.links[tree, box, 0], index.used[tree, 0], index.used[tree, 1]
    index.used[tree, 0] += 2
    index.used[tree, 1] += 1
    _clear_box(index, tree, child)
    _clear_box(index, tree, child + 1)
    point = index.query
    kept, moved = 0, 0
    start = _leaf_start(index, tree, leaf)
    for place in range(LEAF):
        first = _place(index, start, place)
        for d in range(dimensions):
            point[d] = index.points[first + d * LANES]
        # Remaining nodes move to the front of their leaf; writing never overtakes reading.
        if point[axis] > cut:
            _put(index, tree, new, moved, point, index.names[tree, leaf, place])
            moved += 1
        else:
            _put(index, tree, leaf, kept, point, index.names[tree, leaf, place])
            kept += 1
        _enclose(index, tree, child + (1 if point[axis] > cut else 0), point)
    # Unused places of a used block must be far away; other blocks are not read.
    _clear_places(index, tree, leaf, kept, -(-kept // LANES) * LANES)
    _clear_places(index, tree, new, moved, -(-moved // LANES) * LANES)
    index.links[tree, box, 0], index.links[tree, box, 1] = child, axis
    index.cuts[tree, box] = cut
    index.links[tree, child, 0], index.links[tree, child, 1] = -1 - leaf, kept
    index.links[tree, child + 1, 0], index.links[tree, child + 1, 1] = -1 - new, moved


@intrinsic
def _nearest_of_leaf(
    typing: Any, points: Any, blocks: Any, dimensions: Any, query: Any, period: Any
) -> Any:
    """Return squared distance and place of the point closest to the query.

    Written as vector instructions, because Numba's auto-vectorization of this loop is unreliable.
    """
    number, whole = ir.FloatType(), ir.IntType(32)
    numbers, wholes = ir.VectorType(number, LANES), ir.VectorType(whole, LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        b = builder
        points, blocks, dimensions = arguments[:3]
        query, period = (b.inttoptr(a, number.as_pointer()) for a in arguments[3:])
        start = b.inttoptr(points, numbers.as_pointer())
        best, where = cgutils.alloca_once(b, numbers), cgutils.alloca_once(b, wholes)
        b.store(ir.Constant(numbers, [float("inf")] * LANES), best)
        b.store(ir.Constant(wholes, [0] * LANES), where)
        total = cgutils.alloca_once(b, numbers)
        absolute = _vector_function(b, "llvm.fabs", numbers, [numbers])
        with cgutils.for_range(b, blocks) as block:
            b.store(ir.Constant(numbers, [0.0] * LANES), total)
            with cgutils.for_range(b, dimensions) as axis:
                at = b.add(b.mul(block.index, dimensions), axis.index)
                x = b.load(b.gep(start, [at]))
                x.align = 4
                x = b.fsub(x, _spread(b, b.load(b.gep(query, [axis.index])), numbers))
                x = b.call(absolute, [x])
                other = b.fsub(_spread(b, b.load(b.gep(period, [axis.index])), numbers), x)
                x = b.select(b.fcmp_ordered("<", x, other), x, other)
                square = b.fmul(x, x, flags=("contract",))
                b.store(b.fadd(b.load(total), square, flags=("contract",)), total)
            nearer = b.fcmp_ordered("<", b.load(total), b.load(best))
            b.store(b.select(nearer, b.load(total), b.load(best)), best)
            here = _spread(b, b.trunc(block.index, whole), wholes)
            b.store(b.select(nearer, here, b.load(where)), where)
        least = b.call(
            _vector_function(b, "llvm.vector.reduce.fmin", number, [numbers]), [b.load(best)]
        )
        same = b.fcmp_ordered("==", b.load(best), _spread(b, least, numbers))
        bits = b.bitcast(same, ir.IntType(LANES))
        lane = b.zext(b.cttz(bits, ir.Constant(ir.IntType(1), 0)), whole)
        # A NaN query matches no lane.
        lane = b.and_(lane, ir.Constant(whole, LANES - 1))
        place = b.add(b.mul(b.extract_element(b.load(where), lane), whole(LANES)), lane)
        return context.make_tuple(b, signature.return_type, [least, place])

    result = types.Tuple((types.float32, types.int32))  # type: ignore[attr-defined]
    return result(types.intp, types.intp, types.intp, types.intp, types.intp), generate


def _vector_function(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    function = ir.FunctionType(result, arguments)
    name = f"{name}.v{LANES}f32"
    return cgutils.get_or_insert_function(builder.module, function, name)


def _spread(builder: Any, value: Any, vector: Any) -> Any:
    """Return a vector with one value in all lanes."""
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, nothing, zeros)

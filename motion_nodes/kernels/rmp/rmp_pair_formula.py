# SPDX-License-Identifier: Apache-2.0
"""Formulas of a sphere and an obstacle, added to the sphere's sums: metric, force, min distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from motion_nodes.kernels.expression_graph import ExpressionGraph, Program, Value
from motion_nodes.kernels.formulas.rmps import collision, repulsion
from motion_nodes.kernels.formulas.shapes import BALL, ShapeFormula
from motion_nodes.kernels.memory_layout import FieldLayout
from motion_nodes.kernels.rmp.rmp_distance import Distance, moved_distance, relative_velocity
from motion_nodes.kernels.rmp.rmp_link_motion import UPPER
from motion_nodes.kernels.rmp.rmp_memory import OBSTACLE

SUMS = 9
"""Number of sums; the min distance follows them."""
FOUND = 7
"""Number of values that the first stage of :class:`BallPair` finds."""


def component_places(at: FieldLayout, spheres: int) -> list[int]:
    """Return the offsets of a sphere's inputs."""
    fields = [("position", 3), ("velocity", 3), ("radius", 1)]
    return [at[name] + k * spheres for name, count in fields for k in range(count)]


def sum_places(at: FieldLayout, spheres: int) -> list[int]:
    """Return the offsets of a sphere's sums; the min distance is the last."""
    fields = [("metric", 6), ("force", 3), ("nearest", 1)]
    return [at[name] + k * spheres for name, count in fields for k in range(count)]


class ObstaclePair:
    """The formulas for an obstacle of one shape."""

    def __init__(self, shape: ShapeFormula, coefficients: int) -> None:
        # Position and radius; velocity; relative velocity and its square.
        self.counts = (4, 3, 4, coefficients, OBSTACLE, SUMS + 1, 1)
        tape, groups = _inputs(self.counts)
        sphere, velocity, motion, parameters, obstacle, sums, (push,) = groups
        relative, squared = relative_velocity(sphere[:3], velocity, obstacle)
        self.motion = (*relative, squared)
        d = moved_distance(tape, shape, sphere[:3], motion[:3], motion[3], obstacle)
        x = d.value - sphere[3]
        self.x = x
        self.felt = tape.less(x * parameters[6], 1.0)
        self.nearest = tape.minimum(x, sums[SUMS])
        self.outside = tape.maximum(x, 0.0)  # part of both branches that follow
        self.push = repulsion(tape, x, parameters)
        self.weighted, self.added = _added(tape, x, d, parameters, push, sums)
        distances = (x, self.felt, self.nearest, self.outside)
        parts = (distances, (self.push,), self.weighted, self.added)
        inputs = sum(self.counts)
        self.program = Program(tape, inputs, parts)
        self.relative = Program(tape, inputs, (self.motion,))
        self.distance = Program(tape, inputs, ((self.nearest,),))


class BallPair:
    """The same for a ball at known relative velocity, in two stages: distance, and RMP.

    Nearly all operations of a stage wait for each other. Those of one pair's RMP do not wait for
    those of the next pair's distance, so the stages of different pairs are written side by side.
    """

    def __init__(self, coefficients: int) -> None:
        # Position and radius; relative velocity and its square.
        self.first_counts = (4, 4, OBSTACLE)
        tape, (sphere, motion, obstacle) = _inputs(self.first_counts)
        d = moved_distance(tape, BALL, sphere[:3], motion[:3], motion[3], obstacle)
        self.found = (d.value - sphere[3], *d.away, d.rate, d.curvature, d.per_length)
        self.first = Program(tape, sum(self.first_counts), (self.found,))

        self.second_counts = (FOUND, coefficients, SUMS + 1, 1)
        tape, (found, parameters, sums, (push,)) = _inputs(self.second_counts)
        x, *away, rate, curvature, per_length = found
        self.nearest = tape.minimum(x, sums[SUMS])
        self.outside = tape.maximum(x, 0.0)
        self.push = repulsion(tape, x, parameters)
        d = Distance(x, away, rate, curvature, per_length)
        self.weighted, self.added = _added(tape, x, d, parameters, push, sums)
        parts = ((self.nearest, self.outside), (self.push,), self.weighted, self.added)
        self.second = Program(tape, sum(self.second_counts), parts)


def _inputs(counts: Sequence[int]) -> tuple[ExpressionGraph, list[list[Any]]]:
    """Return a new graph with groups of inputs."""
    tape, numbers = ExpressionGraph(), iter(range(sum(counts)))
    return tape, [[tape.input(next(numbers)) for _ in range(count)] for count in counts]


def _added(
    tape: ExpressionGraph, x: Any, d: Distance, parameters: list[Any], push: Any, sums: list[Any]
) -> tuple[tuple[Value, Value], tuple[Value, ...]]:
    """Return force and metric along ``d.away``, and the sums with both added."""
    desired, weight = collision(tape, x, d.rate, parameters, push)
    weight = weight * d.per_length
    force, metric = weight * (desired - d.curvature), weight * d.per_length
    away = d.away
    added = [s + metric * away[i] * away[j] for s, (i, j) in zip(sums[:6], UPPER, strict=True)]
    added += [s + force * n for s, n in zip(sums[6:SUMS], away, strict=True)]
    return (force, metric), tuple(added)

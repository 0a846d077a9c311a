# SPDX-License-Identifier: Apache-2.0
"""What checks answer: how near the nearest pair is, and who touches whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from motion_nodes.model.tree import Array

ContactKind = Literal["limit", "self", "attached", "world"]
"""In the order in which contacts are told: a joint outside its limits; two links; something carried
with a link, an object or another thing carried; a link with an object."""


@dataclass(frozen=True)
class Clearance:
    """How near a robot is to itself or to the world."""

    value: float
    """Signed distance of the nearest pair [m], negative by how deep they are in each other; inf if
    there is nothing to touch, NaN for a configuration that is not finite."""
    pair: tuple[str, str] | None
    """Names of the pair: link or carried body first, then link, carried body or object."""


@dataclass(frozen=True, eq=False)
class Contact:
    """Two that are nearer than allowed, or a joint outside its limits."""

    kind: ContactKind
    pair: tuple[str, str]
    """Names; for a limit the joint and ``lower`` or ``upper``."""
    depth: float
    """By how much they are too near, or how far the joint is outside [m, or rad]."""
    position: Array
    """Where they meet, in the world [m], shape (3,); NaN for a limit."""
    normal: Array
    """Unit vector from the second towards the first, in the world, shape (3,); NaN for a limit."""


@dataclass(frozen=True, eq=False)
class SphereDistances:
    """Of each sphere of a robot, what in the world is nearest to it."""

    distance: Array
    """Signed distance of the sphere's surface [m], shape (s,); inf where there is nothing."""
    direction: Array
    """Unit vector away from the obstacle, along which the distance grows, in the world, (s, 3)."""
    position: Array
    """Centre of the sphere in the world [m], shape (s, 3)."""
    obstacle: tuple[str, ...]
    """Names of the objects, '' where there is nothing."""


@dataclass(frozen=True, eq=False)
class KernelChecker:
    """Checks as machine code, for planners' kernels.

    ``state`` is the address of ``int32 state(const double* q, const void* memory)``, ``edge`` that
    of ``int32 edge(const double* a, const double* b, const void* memory)``: 1 free, 0 not. Neither
    allocates nor needs the GIL, and any number of threads may call them at once. The world in
    ``memory`` is that of the moment when this was made; all addresses are good as long as this
    object is held.
    """

    state: int
    edge: int
    memory: int
    keep: object

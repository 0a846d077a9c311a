# SPDX-License-Identifier: Apache-2.0
"""What checks answer: how near the nearest pair is, and who touches whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.model.tree import Array, frozen

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


_NOWHERE = frozen(np.full(3, np.nan))
_ORDER = {"limit": 0, "self": 1, "attached": 2, "world": 3}


def limit_contacts(limits: JointLimits, q: Array) -> list[Contact]:
    """Return a contact for each joint that is outside its limits, or no number."""
    contacts = []
    for name, value, low, high in zip(limits.names, q, limits.lower, limits.upper, strict=True):
        if not low <= value <= high:
            side, depth = ("lower", low - value) if value < low else ("upper", value - high)
            contacts.append(Contact("limit", (name, side), float(depth), _NOWHERE, _NOWHERE))
    return contacts


def in_order(contacts: list[Contact]) -> tuple[Contact, ...]:
    """Return contacts kind by kind, the worst of each first."""
    return tuple(sorted(contacts, key=lambda c: (_ORDER[c.kind], -c.depth)))


def in_words(contact: Contact, clearance: float) -> str:
    """Say for people who touches whom and by how much.

    Args:
        contact: not one with a limit.
        clearance: that was wanted [m].
    """
    first, second = contact.pair
    overlap = contact.depth - clearance
    if overlap > 0.0:
        return f"{first} is {overlap * 1000.0:.1f} mm deep in {second}"
    return (
        f"{first} is {-overlap * 1000.0:.1f} mm away from {second}, "
        f"wanted are {clearance * 1000.0:.1f} mm"
    )

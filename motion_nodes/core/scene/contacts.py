# SPDX-License-Identifier: Apache-2.0
"""Results of collision checks: distances and contacts."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

import numpy as np

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.tree import frozen
from motion_nodes.typing import Array

ContactKind = Literal["limit", "self", "attached", "world"]
"""Kinds in the order in which contacts are reported: a joint outside its limits; two links; an
attached body with a link, an object or another attached body; a link with an object."""


@dataclass(frozen=True)
class Clearance:
    """Min distance of a robot to itself or to the world."""

    value: float
    """Signed distance of the closest pair [m], negative penetration depth if in collision; inf
    without pairs, NaN for a configuration that is not finite."""
    pair: tuple[str, str] | None
    """Names of the pair: link or attached body first, then link, attached body or object."""


@dataclass(frozen=True, eq=False)
class Contact:
    """A pair closer than allowed, or a joint outside its limits."""

    kind: ContactKind
    pair: tuple[str, str]
    """Names; for a limit the joint and ``lower`` or ``upper``."""
    depth: float
    """Violation of the clearance, or of the joint limit [m, or rad]."""
    position: Array
    """Contact point in the world [m], shape (3,); NaN for a limit."""
    normal: Array
    """Unit vector from the second towards the first, in the world, shape (3,); NaN for a limit."""


@dataclass(frozen=True, eq=False)
class SphereDistances:
    """Closest object of each sphere of a robot."""

    distance: Array
    """Signed distance of the sphere's surface [m], shape (s,); inf without objects."""
    direction: Array
    """Unit vector away from the object (gradient of the distance), in the world, shape (s, 3)."""
    position: Array
    """Centre of the sphere in the world [m], shape (s, 3)."""
    obstacle: tuple[str, ...]
    """Names of the objects, '' if there is none."""


@dataclass(frozen=True, eq=False)
class KernelChecker:
    """Collision checks as machine code, for planner kernels.

    ``state`` is the address of ``int32 state(const double* q, const void* memory)``, ``edge`` that
    of ``int32 edge(const double* a, const double* b, const void* memory)``: 1 collision-free, 0
    not. Neither allocates nor needs the GIL, and both are thread-safe. ``memory`` is a snapshot of
    the world; all addresses are valid as long as this object exists.
    """

    state: int
    edge: int
    memory: int
    keep: object


_NOWHERE = frozen(np.full(3, np.nan))
_ORDER = {"limit": 0, "self": 1, "attached": 2, "world": 3}


def required_distance(names: tuple[str, str], objects: Container[str], clearance: float) -> float:
    """Return the min allowed distance of a pair [m]: 0 between the robot's bodies.

    Args:
        names: names of the pair; the second one may be an object.
        objects: names of the scene's objects.
        clearance: min distance from objects [m].
    """
    return clearance if names[1] in objects else 0.0


def limit_contacts(limits: JointLimits, q: Array) -> list[Contact]:
    """Return a contact for each joint [rad or m] that is outside its limits, or not finite."""
    contacts = []
    for name, value, low, high in zip(limits.names, q, limits.lower, limits.upper, strict=True):
        if not low <= value <= high:
            side, depth = ("lower", low - value) if value < low else ("upper", value - high)
            contacts.append(Contact("limit", (name, side), float(depth), _NOWHERE, _NOWHERE))
    return contacts


def in_order(contacts: list[Contact]) -> tuple[Contact, ...]:
    """Return contacts sorted by kind, then by decreasing depth."""
    return tuple(sorted(contacts, key=lambda c: (_ORDER[c.kind], -c.depth)))


def in_words(contact: Contact, clearance: float) -> str:
    """Return a description of a contact.

    Args:
        contact: contact of a kind other than ``limit``.
        clearance: required distance [m].
    """
    first, second = contact.pair
    overlap = contact.depth - clearance
    if overlap > 0.0:
        return f"{first} is {overlap * 1000.0:.1f} mm deep in {second}"
    return (
        f"{first} is {-overlap * 1000.0:.1f} mm away from {second}, "
        f"required are {clearance * 1000.0:.1f} mm"
    )

# SPDX-License-Identifier: Apache-2.0
"""Placements of robots: name, namespace and pose, as one word.

Examples: ``franka``, ``jetbot@1,0,0``, ``left:=franka@0,0.5,1.57``: a robot, optionally with a
namespace before ``:=`` and with x, y [m] and yaw [rad] in the world after ``@``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from motion_nodes.core.robot.bounds import repeated
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

_NAMESPACE = re.compile(r"/?[A-Za-z][A-Za-z0-9_]*(/[A-Za-z][A-Za-z0-9_]*)*")


@dataclass(frozen=True)
class Placement:
    """A robot, its namespace and its pose in the world."""

    robot: str
    """Name of a robot or path of its description."""
    namespace: str = ""
    """Namespace without leading and trailing slashes; empty: none."""
    x: float = 0.0
    """[m]"""
    y: float = 0.0
    """[m]"""
    yaw: float = 0.0
    """[rad]"""

    @property
    def X_WR(self) -> Array:
        """Pose of the robot in the world, shape (4, 4)."""
        return from_xyz_rpy((self.x, self.y, 0.0), (0.0, 0.0, self.yaw))

    @property
    def word(self) -> str:
        """The placement as one word that :func:`parse_placement` reads back."""
        start = f"{self.namespace}:=" if self.namespace else ""
        # repr() loses no digit.
        place = (repr(float(number)).removesuffix(".0") for number in (self.x, self.y, self.yaw))
        return f"{start}{self.robot}@{','.join(place)}"


def check_namespace(namespace: str, where: str = "") -> None:
    """Check a namespace of robots.

    Args:
        namespace: the namespace, possibly with a leading slash.
        where: start of the error's text.

    Raises:
        InvalidConfig: it is not made of names that start with a letter.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidConfig(
            f"{where}namespace '{namespace}' must be made of letters, digits and underscores, a "
            "letter first",
            field="namespace",
        )


def parse_placement(word: str) -> Placement:
    """Parse one placement.

    Raises:
        InvalidConfig: names the invalid part.
    """
    namespace, found, rest = word.strip().rpartition(":=")
    if found:
        check_namespace(namespace, f"'{word}': ")
    robot, _, place = rest.strip().rpartition("@") if "@" in rest else (rest.strip(), "", "")
    if not robot:
        raise InvalidConfig(
            f"'{word}' names no robot; write [NAMESPACE:=]ROBOT[@X,Y,YAW]", field="robot"
        )
    try:
        numbers = [float(text) for text in place.split(",")] if place else []
    except ValueError:
        numbers = [math.nan]
    if len(numbers) > 3 or not all(math.isfinite(number) for number in numbers):
        raise InvalidConfig(
            f"'{word}': '{place}' must be X,Y,YAW in metres and radians", field="placement"
        )
    x, y, yaw = numbers + [0.0] * (3 - len(numbers))
    return Placement(robot, namespace.strip("/"), x, y, yaw)


def parse_placements(words: Sequence[str]) -> tuple[Placement, ...]:
    """Parse placements; namespaces must be unique.

    Raises:
        InvalidConfig: names the conflict.
    """
    placements = tuple(parse_placement(word) for word in words if word.strip())
    if not placements:
        raise InvalidConfig("no robot is named; write [NAMESPACE:=]ROBOT[@X,Y,YAW]", field="robot")
    seen = [placement.namespace for placement in placements]
    twice = repeated(seen)
    if twice:
        which = ", ".join(p.word for p in placements if p.namespace == twice[0])
        shared = f"share the namespace '{twice[0]}'" if twice[0] else "have no namespace"
        raise InvalidConfig(
            f"{which} {shared}; give each robot its own, as in a:=franka", field="namespace"
        )
    return placements

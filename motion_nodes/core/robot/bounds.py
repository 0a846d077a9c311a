# SPDX-License-Identifier: Apache-2.0
"""Plausibility bounds of external numbers and sizes.

A finite number can be as harmful as NaN: 1e155 is finite, its square is not. Every number from a
client, a driver or a file is checked against one of these bounds before use. The bounds are wide:
values beyond them are errors of the sender, such as a wrong unit or an uninitialized field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.tolerances import MEASURED_NOISE
from motion_nodes.typing import Array


@dataclass(frozen=True)
class Bound:
    """Allowed values of one kind of quantity."""

    max: float
    """Max absolute value."""
    unit: str = ""
    min: float | None = None
    """Min value; None: ``-max``."""

    def allows(self, value: float) -> bool:
        """Return whether a value [the bound's unit] is allowed; NaN and infinities pass.

        Both have a meaning in some messages, such as no command or an unconstrained axis.
        """
        least = -self.max if self.min is None else self.min
        return least <= value <= self.max or not math.isfinite(value)

    def text(self) -> str:
        """Return the allowed range as text."""
        least = -self.max if self.min is None else self.min
        return f"{least:g} to {self.max:g}{' ' + self.unit if self.unit else ''}"

    def check(self, values: Any, what: str, names: Any = None) -> None:
        """Raise an error for finite numbers that are not allowed.

        Args:
            values: numbers [the bound's unit], any shape.
            what: quantity, for the error.
            names: names of the entries of a row, for the error; None: indices.

        Raises:
            InvalidCommand: names the first such entry, its value and the allowed range.
        """
        array: NDArray[np.float64] = np.asarray(values, dtype=np.float64).ravel()
        if not array.size:
            return
        if self.min is None:
            beyond = np.abs(array) > self.max
        else:
            beyond = (array < self.min) | (array > self.max)
        if not np.count_nonzero(beyond):
            return
        beyond &= np.isfinite(array)
        if not beyond.any():
            return
        at = int(np.argmax(beyond))
        entry = (
            f"{what}[{at}]"
            if names is None or not len(names)
            else f"{what} of {names[at % len(names)]}"
        )
        raise InvalidCommand(
            f"{entry} is {float(array[at]):.6g}; allowed is {self.text()}", field=entry
        )


LENGTH = Bound(1e4, "m")
"""Coordinates of poses and points around a robot."""
EARTH_LENGTH = Bound(1e7, "m")
"""Coordinates in frames that may be fixed to the Earth: /tf, odometry, goals and paths of bases.
UTM northings are up to 1e7 m."""
SIZE = Bound(1e4, "m")
"""Sizes of shapes; positivity is checked where shapes are created."""
QUATERNION = Bound(10.0)
"""Components of a quaternion, whose norm must be in :data:`QUATERNION_NORM`."""
QUATERNION_NORM = (0.1, 10.0)
"""Range of norms of quaternions that are normalized; others, such as zero or uninitialized
quaternions, are rejected."""
JOINT_POSITION = Bound(1e6, "rad or m")
"""Commanded joint positions; continuous joints may accumulate turns."""
JOINT_STATE = Bound(1e9, "rad or m")
"""Measured joint positions; a small wheel reaches 1e6 rad in 30 km."""
VELOCITY = Bound(1e4, "m/s or rad/s")
ACCELERATION = Bound(1e6, "m/s^2 or rad/s^2")
EFFORT = Bound(1e6, "N m or N")
TOLERANCE = Bound(1e6, "rad or m")
DURATION = Bound(1e6, "s")
COLOUR = Bound(1e3)
COEFFICIENT = Bound(1e6)
"""Coefficients of planes, weights, scale factors."""
ANY = Bound(1e9)
"""Other numbers."""

NAMES = 1000
"""Joints, links or names in one message."""
POINTS = 100_000
"""Points of a trajectory, path or tool path."""
VERTICES = 1_000_000
"""Vertices or triangles of a mesh."""
OBJECTS = 10_000
"""Collision objects, transforms, or messages in a message."""
ITEMS = 100_000
"""Entries of other lists."""
NAME_LENGTH = 1000
"""Characters of a name or a frame."""
REPORT_LENGTH = 10_000
"""Characters of a text of a diagnostic status, such as the list of a process's nodes."""
TEXT_LENGTH = 1_000_000
"""Characters of a text, such as a description or a path in JSON."""


SPEED_FACTOR = 2.0
"""Max measured velocity as a multiple of the velocity limit."""
LATENESS = 0.05
"""Max delay of a message [s]."""


def finite_numbers(
    values: ArrayLike, count: int | Sequence[str], what: str, bound: Bound = ANY
) -> Array:
    """Return a copy of finite numbers, shape (n,).

    Args:
        values: the numbers.
        count: how many, or the name of each, such as of joints.
        what: what they are, for errors.
        bound: their plausible values.

    Raises:
        InvalidCommand: another number of values, or values that are not finite or not plausible;
            names these.
    """
    names = () if isinstance(count, int) else tuple(count)
    n = count if isinstance(count, int) else len(names)
    try:
        numbers = np.array(values, np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    # Plain floats: three times as fast as NumPy for arrays of this size.
    if numbers.shape == (n,) and all(map(math.isfinite, listed := numbers.tolist())):
        if max(map(abs, listed), default=0.0) > bound.max:
            bound.check(numbers, what, names)
        return numbers
    if numbers.shape == (n,) and names:
        bad = (name for name, good in zip(names, np.isfinite(numbers), strict=True) if not good)
        raise InvalidCommand(f"{what} of {', '.join(bad)} is not a finite number.", field=what)
    whose = f" ({', '.join(names)})" if names else ""
    raise InvalidCommand(
        f"{what} must be {n} finite numbers{whose}, got {values!r:.200}.", field=what
    )


def check_count(count: int, most: int, what: str) -> None:
    """Raise an error for too many entries.

    Args:
        count: number of entries.
        most: max number of entries.
        what: list, for the error.

    Raises:
        InvalidCommand: names the number of entries and the max.
    """
    if count > most:
        raise InvalidCommand(f"{what} has {count} entries; allowed are {most}", field=what)


def max_plausible_step(max_velocity: Array, dt: Array | float) -> Array:
    """Return the max plausible change of joint positions between two measurements.

    Args:
        max_velocity: velocity limits [rad/s or m/s], shape (n,); infinite if unlimited.
        dt: time between the measurements [s], scalar or shape (n,).

    Returns:
        Max changes [rad or m], shape (n,).
    """
    return MEASURED_NOISE + SPEED_FACTOR * max_velocity * (dt + LATENESS)


def repeated(names: Any) -> list[str]:
    """Return the names that occur more than once, each once, sorted.

    Args:
        names: iterable of names.
    """
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return sorted(twice)

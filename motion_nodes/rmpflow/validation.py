# SPDX-License-Identifier: Apache-2.0
"""Validation of numerical input."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.tree import Array


def finite_numbers(values: ArrayLike, count: int, what: str) -> Array:
    """Return a copy of exactly ``count`` finite numbers.

    Args:
        values: the input.
        count: required length.
        what: name of the input, for errors.

    Raises:
        InvalidCommand: wrong length, or values that are not finite.
    """
    numbers = _numbers(values, count, what, "")
    if not np.isfinite(numbers).all():
        raise InvalidCommand(
            f"{what} is {numbers.tolist()}; all numbers must be finite.", field=what
        )
    return numbers


def joint_numbers(values: ArrayLike, names: tuple[str, ...], what: str) -> Array:
    """Return a copy of one finite number per joint, shape (n,).

    Args:
        values: the input.
        names: names of the joints.
        what: name of the input, for errors.

    Raises:
        InvalidCommand: wrong length, or values that are not finite; names these joints.
    """
    numbers = _numbers(values, len(names), what, f" for {', '.join(names)}" if names else "")
    finite = np.isfinite(numbers)
    if not finite.all():
        bad = [name for name, good in zip(names, finite, strict=True) if not good]
        raise InvalidCommand(f"{what} of {', '.join(bad)} is not a finite number.", field=what)
    return numbers


def _numbers(values: ArrayLike, count: int, what: str, whose: str) -> Array:
    try:
        numbers = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise InvalidCommand(f"{what} must be {count} numbers{whose}.", field=what) from None
    if numbers.shape != (count,):
        raise InvalidCommand(
            f"{what} has shape {numbers.shape}; {count} numbers are needed{whose}.", field=what
        )
    return numbers

# SPDX-License-Identifier: Apache-2.0
"""Values in policy descriptions: one for all joints, a list, or by name pattern."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.typing import Array

NAN, INF = float("nan"), float("inf")

MAX_PATTERN = 1000
"""Max length of a regular expression."""


def number_in(value: Any, where: str) -> float:
    """Return a number; ``inf`` is one, NaN and booleans are not.

    Raises:
        InvalidDescription: names the place.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise InvalidDescription(f"{where}: {value!r:.60} is not a number.")
    return float(value)


def finite_in(value: Any, where: str) -> float:
    """Return a finite number.

    Raises:
        InvalidDescription: names the place.
    """
    number = number_in(value, where)
    if math.isinf(number):
        raise InvalidDescription(f"{where}: {value} is not finite.")
    return number


def array_in(values: Any, where: str, length: int | None = None) -> Array:
    """Return a list of finite numbers, or nested lists with one element each as its row.

    Raises:
        InvalidDescription: no list of numbers, or another length.
    """
    if isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    if not isinstance(values, list):
        raise InvalidDescription(f"{where}: a list of numbers is needed, not {values!r:.60}.")
    if length is not None and len(values) != length:
        raise InvalidDescription(f"{where}: has {len(values)} values, {length} are needed.")
    return np.array([finite_in(value, f"{where}[{i}]") for i, value in enumerate(values)])


def block_in(data: Mapping[Any, Any], field: str, where: str) -> dict[Any, Any]:
    """Return a field that is a block of fields, not empty.

    Raises:
        InvalidDescription: names the place.
    """
    value = optional_block(data, field, where)
    if not value:
        raise InvalidDescription(f"{where}: {field}: a block of fields is needed.")
    return value


def optional_block(data: Mapping[Any, Any], field: str, where: str) -> dict[Any, Any]:
    """Return a field that is a block of fields; empty if it is missing.

    Raises:
        InvalidDescription: names the place.
    """
    value = data.get(field) or {}
    if not isinstance(value, dict):
        raise InvalidDescription(f"{where}: {field}: a block of fields is needed.")
    return value


def matching(pattern: Any, joints: Sequence[str], where: str) -> list[int]:
    """Return the indices of joints whose whole name matches a regular expression.

    Raises:
        InvalidDescription: not a regular expression.
    """
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
        raise InvalidDescription(f"{where}: {pattern!r:.60} is not a pattern of joint names.")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidDescription(f"{where}: pattern '{pattern}' is wrong: {error}.") from None
    return [i for i, name in enumerate(joints) if compiled.fullmatch(name)]


def per_joint(value: Any, joints: Sequence[str], default: float, where: str) -> Array:
    """Return one value for each joint.

    Args:
        value: None: the default; a number: for all; a list: in order; a mapping: by pattern;
            the first match is used, as in Isaac Lab.
        joints: names of the joints.
        default: of joints without a value.
        where: file and field, for errors.

    Returns:
        Values, shape (n,); may be inf.

    Raises:
        InvalidDescription: another type, or a pattern that matches no joint.
    """
    out = np.full(len(joints), default)
    if value is None:
        return out
    if isinstance(value, list):
        if len(value) != len(joints):
            raise InvalidDescription(
                f"{where}: has {len(value)} values for {len(joints)} joints: {', '.join(joints)}."
            )
        return np.array([number_in(v, f"{where}[{i}]") for i, v in enumerate(value)])
    if not isinstance(value, dict):
        return np.full(len(joints), number_in(value, where))
    given = np.zeros(len(joints), dtype=bool)
    for pattern, entry in value.items():
        found = matching(pattern, joints, where)
        if not found:
            raise InvalidDescription(
                f"{where}: pattern '{pattern}' matches none of the joints {', '.join(joints)}."
            )
        for i in found:
            if not given[i]:
                out[i], given[i] = number_in(entry, f"{where}.{pattern}"), True
    return out


def whole_in(value: Any, where: str, low: int, high: int) -> int:
    """Return a whole number of a range.

    Raises:
        InvalidDescription: names the place and the range.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidDescription(
            f"{where}: {value!r:.60} must be a whole number from {low} to {high}."
        )
    return value


def scale_of(value: Any, width: int, where: str) -> Array | None:
    """Return the scale of an observation, shape () or (width,); None: 1.

    Raises:
        InvalidDescription: neither a number nor a list of that length.
    """
    if value is None:
        return None
    if isinstance(value, list):
        return array_in(value, where, width)
    return np.array(finite_in(value, where))


def bounds_of(value: Any, where: str) -> tuple[float, float] | None:
    """Return the bounds of an observation; None: none.

    Raises:
        InvalidDescription: not two numbers in order.
    """
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidDescription(f"{where}: two numbers are needed, not {value!r:.60}.")
    low, high = (number_in(v, where) for v in value)
    if low > high:
        raise InvalidDescription(f"{where}: {low:g} is above {high:g}.")
    return low, high


def clip_of(value: Any, joints: tuple[str, ...], where: str) -> tuple[Array, Array]:
    """Return lower and upper bounds of the processed actions of joints, shape (n,) each.

    Args:
        value: None: none; two numbers: for all joints; a list of pairs; a mapping of pairs by
            pattern.
        joints: names of the joints.
        where: file and field, for errors.

    Raises:
        InvalidDescription: another type.
    """
    if isinstance(value, dict):
        pairs = {key: bounds_of(entry, f"{where}.{key}") for key, entry in value.items()}
        low = {key: pair[0] for key, pair in pairs.items() if pair}
        high = {key: pair[1] for key, pair in pairs.items() if pair}
        return per_joint(low, joints, -INF, where), per_joint(high, joints, INF, where)
    if isinstance(value, list) and value and isinstance(value[0], list):
        if len(value) == 1 and len(joints) > 1:
            value = value[0]
        if len(value) != len(joints):
            raise InvalidDescription(f"{where}: has {len(value)} pairs for {len(joints)} joints.")
        pairs_in_order = [bounds_of(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
        low_high = np.array([pair or (-INF, INF) for pair in pairs_in_order])
        return low_high[:, 0], low_high[:, 1]
    bounds = bounds_of(value, where) or (-INF, INF)
    return np.full(len(joints), bounds[0]), np.full(len(joints), bounds[1])


def names_in(value: Any, where: str) -> tuple[str, ...]:
    """Return a list of different names.

    Raises:
        InvalidDescription: no such list.
    """
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise InvalidDescription(f"{where}: a list of names is needed, not {value!r:.60}.")
    twice = [name for name in value if value.count(name) > 1]
    if twice:
        raise InvalidDescription(f"{where}: '{twice[0]}' is listed twice.")
    return tuple(value)

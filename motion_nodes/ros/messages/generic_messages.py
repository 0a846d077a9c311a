# SPDX-License-Identifier: Apache-2.0
"""Messages of any type as plain data, and as named numbers."""

from __future__ import annotations

import array
import math
from collections.abc import Iterator
from typing import Any

import numpy as np


def plain_message(message: Any) -> Any:
    """Return a message as dictionaries, lists, strings and numbers; non-finite numbers as None.

    Args:
        message: a message of any type, or the value of a field.
    """
    if hasattr(message, "get_fields_and_field_types"):
        fields = message.get_fields_and_field_types()
        return {name: plain_message(getattr(message, name)) for name in fields}
    if isinstance(message, np.ndarray | np.generic | array.array):
        message = message.tolist()
    if isinstance(message, float):
        return message if math.isfinite(message) else None
    if isinstance(message, bytes):
        return list(message)
    if isinstance(message, list | tuple):
        return [plain_message(item) for item in message]
    return message


def numbers_of(data: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number in plain data with its name.

    If a message has a list of names and lists of the same length, as a JointState, numbers are
    named by joint: ``elbow.position``. Booleans are 0 and 1.

    Args:
        data: plain data, from :func:`plain_message`.
        path: path of the data in the message.
    """
    if isinstance(data, dict):
        names = _names(data)
        for key, value in data.items():
            inner = f"{path}.{key}" if path else key
            if names and isinstance(value, list) and len(value) == len(names):
                for name, item in zip(names, value, strict=True):
                    yield from numbers_of(item, f"{path}.{name}.{key}" if path else f"{name}.{key}")
            else:
                yield from numbers_of(value, inner)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from numbers_of(item, f"{path}[{index}]")
    elif isinstance(data, int | float):
        yield path, float(data)


def _names(data: dict[str, Any]) -> list[str]:
    """Return the list of names in a dictionary, empty if there is none."""
    for key in ("name", "joint_names"):
        names = data.get(key)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    return []

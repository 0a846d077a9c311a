# SPDX-License-Identifier: Apache-2.0
"""Values of parameters as YAML of ROS arguments (``-p NAME:=VALUE``); without ROS."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

Value = bool | int | float | str | Sequence[str] | Sequence[float]


def of_one_type(values: Sequence[Any]) -> list[Any]:
    """Return the value of a list parameter; its numbers are of one type."""
    return [float(x) for x in values] if any(isinstance(x, float) for x in values) else [*values]


def parameter_word(value: Value) -> str:
    """Return a value as YAML of ROS arguments; words for NaN and infinity begin with a dot."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(parameter_word(each) for each in of_one_type(value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}[str(float(value))]
    return json.dumps(value)

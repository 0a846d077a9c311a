# SPDX-License-Identifier: Apache-2.0
"""Arguments of functions for language models: JSON schema and strict validation.

Both are derived from one table. Clients may not validate and models invent names, so every value is
validated before use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.model.limits import LIMIT_ROUNDING

MAX_TEXT = 10_000
"""Max number of characters of a text."""
MAX_ENTRIES = 100
"""Max number of entries of a mapping from names to numbers."""

ArgumentType = Literal["text", "number", "numbers", "flag", "numbers_by_name"]


@dataclass(frozen=True)
class FunctionArgument:
    """One argument of a function."""

    name: str
    type: ArgumentType
    doc: str
    """Description with units and frame."""
    default: Any = None
    """Default value; None: chosen by the function."""
    required: bool = False
    lower: float = -math.inf
    """Min of each number."""
    upper: float = math.inf
    """Max of each number."""
    count: int = 0
    """Number of elements of a list."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        number: dict[str, Any] = {"type": "number"}
        if math.isfinite(self.lower):
            number["minimum"] = self.lower
        if math.isfinite(self.upper):
            number["maximum"] = self.upper
        shape: dict[str, Any] = {
            "text": {"type": "string", "maxLength": MAX_TEXT},
            "number": number,
            "numbers": {
                "type": "array", "items": number, "minItems": self.count, "maxItems": self.count,
            },
            "flag": {"type": "boolean"},
            "numbers_by_name": {
                "type": "object", "additionalProperties": number, "minProperties": 1,
                "maxProperties": MAX_ENTRIES,
            },
        }[self.type]  # fmt: skip
        default = {} if self.default is None else {"default": self.default}
        return shape | {"description": self.doc} | default

    def checked(self, value: Any) -> Any:
        """Return a value after validation.

        Raises:
            InvalidCommand: wrong type or number of elements, or out of range.
        """
        if self.type == "flag":
            self._require(isinstance(value, bool), value, "true or false")
        elif self.type == "text":
            good = isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT
            self._require(good, value, f"a text of 1 to {MAX_TEXT} characters")
        elif self.type == "number":
            return self._number(value, self.name)
        elif self.type == "numbers":
            good = isinstance(value, list | tuple) and len(value) == self.count
            self._require(good, value, f"a list of {self.count} numbers")
            return tuple(self._number(entry, f"{self.name}[{i}]") for i, entry in enumerate(value))
        else:
            good = isinstance(value, Mapping) and 0 < len(value) <= MAX_ENTRIES
            self._require(good, value, f"1 to {MAX_ENTRIES} numbers by name")
            return {str(k): self._number(v, f"{self.name}['{k}']") for k, v in value.items()}
        return value

    def _number(self, value: Any, where: str) -> float:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        inside = min(max(value, self.lower), self.upper) if good else math.nan
        if not (good and math.isfinite(value) and abs(value - inside) <= LIMIT_ROUNDING):
            limits = f" from {self.lower:g} to {self.upper:g}" if math.isfinite(self.upper) else ""
            raise InvalidCommand(f"{where} is {_shown(value)}; allowed: a number{limits}.")
        return float(inside)

    def _require(self, good: bool, value: Any, allowed: str) -> None:
        if not good:
            raise InvalidCommand(f"{self.name} is {_shown(value)}; allowed: {allowed}. {self.doc}")


def object_schema(arguments: Sequence[FunctionArgument]) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments."""
    return {
        "type": "object",
        "properties": {argument.name: argument.schema() for argument in arguments},
        "required": [argument.name for argument in arguments if argument.required],
        "additionalProperties": False,
    }


def checked_arguments(
    function: str, arguments: Sequence[FunctionArgument], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of all arguments; defaults for missing ones.

    Args:
        function: name of the function, for errors.
        arguments: arguments of the function.
        given: values by name, from a client; null: missing.

    Raises:
        InvalidCommand: unknown or missing arguments, wrong types, numbers outside their range.
    """
    known = [argument.name for argument in arguments]
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise InvalidCommand(f"{function} has no argument {_shown(name)}.{hint}")
    values = {}
    for argument in arguments:
        value = given.get(argument.name)
        if value is not None:
            values[argument.name] = argument.checked(value)
        elif argument.required:
            raise InvalidCommand(f"{function} needs the argument '{argument.name}': {argument.doc}")
        else:
            values[argument.name] = argument.default
    return values


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."

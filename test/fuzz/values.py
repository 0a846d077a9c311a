# SPDX-License-Identifier: Apache-2.0
"""Values for fields of messages: plausible, extreme and impossible ones."""

import importlib
import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

EXTREME = (
    math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e-308, -1e-300, 1e-12, 1e38, -1e38,
    1e154, 1e155, -1e155, 1e300, 1.797e308, -1.797e308, 1e4, -1e4, 1e6, 1e9, 4.3e9, 100.0, -100.0,
)  # fmt: skip
TEXTS = (
    "", "/", "//", "~", "a" * 300, "b" * 5000, "é漢字🤖", "../../etc", "name with blanks", "%s%n%x",
    "'; drop", "\n\n", "nan", "-1", "{}", "[[[[", "world", "base", "map", "odom", "x/y",
    "<octomap>",
)  # fmt: skip
LENGTHS = (0, 0, 1, 2, 3, 7, 9, 50, 1001, 2500)

_FIELD = re.compile(r"^(?:sequence<(?P<item>.+?)(?:, (?P<max>\d+))?>|(?P<array>.+)\[(?P<n>\d+)\]"
                    r"|(?P<one>.+))$")  # fmt: skip
_WHOLE = re.compile(r"^(u?)int(\d+)$")


class Values:
    """Random values, all from one seed."""

    def __init__(self, rng: random.Random, names: Sequence[str], now: Callable[[], int]) -> None:
        """Begin.

        Args:
            rng: source of all randomness.
            names: of joints, links, frames and groups that exist.
            now: ROS time [ns].
        """
        self.rng = rng
        self.names = list(names)
        self._now = now

    def number(self) -> float:
        """Return a plausible or extreme number."""
        rng = self.rng
        if rng.random() < 0.5:
            return rng.choice((rng.uniform(-1, 1), rng.uniform(-3, 3), rng.gauss(0, 0.1)))
        return rng.choice(EXTREME)

    def text(self) -> str:
        """Return an existing name, or any text."""
        if self.names and self.rng.random() < 0.5:
            return self.rng.choice(self.names)
        return self.rng.choice(TEXTS)

    def whole(self, signed: bool, bits: int) -> int:
        """Return an integer of a type."""
        low = -(1 << bits - 1) if signed else 0
        high = (1 << (bits - 1 if signed else bits)) - 1
        return max(low, min(high, self.rng.choice(
            (0, 1, 2, 3, -1, low, high, 255, self.rng.randint(low, high)))))  # fmt: skip

    def message(self, kind: type[Any], depth: int = 0) -> Any:
        """Return a message with random values in all fields."""
        message = kind()
        if kind.__name__ == "Time":
            return self.fill_time(message)
        for field, form in kind.get_fields_and_field_types().items():
            if self.rng.random() < 0.9:
                self._put(message, field, self._value(form, depth))
        return message

    def fill_time(self, stamp: Any) -> Any:
        """Fill in a time: zero, now, stale, in the future or absurd."""
        rng, now = self.rng, self._now()
        at = rng.choice((0, 0, now, now, now - 10**10, now + 10**10, None))
        if at is None:
            stamp.sec, stamp.nanosec = self.whole(True, 32), self.whole(False, 32)
        else:
            stamp.sec, stamp.nanosec = divmod(max(at, 0), 10**9)
        return stamp

    def mutate(self, message: Any, count: int) -> Any:
        """Change ``count`` random fields of a message, and return it."""
        for _ in range(count):
            self._mutate_one(message)
        return message

    def damage(self, data: bytes) -> bytes:
        """Return a serialized message with flipped bits, truncated or extended."""
        rng, changed = self.rng, bytearray(data)
        how = rng.randrange(4)
        if how == 0 and changed:
            return bytes(changed[: rng.randrange(len(changed))])
        if how == 1:
            return bytes(changed) + rng.randbytes(rng.choice((1, 7, 4000)))
        for _ in range(rng.choice((1, 2, 10))):
            at = rng.randrange(len(changed))
            changed[at] = rng.choice((0, 255, 0x80, rng.randrange(256)))
        if how == 3 and len(changed) >= 12:
            # Possibly a length: sequences of 2**32 entries.
            at = 4 + 4 * rng.randrange((len(changed) - 4) // 4)
            changed[at : at + 4] = rng.choice((b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x40"))
        return bytes(changed)

    def _mutate_one(self, message: Any) -> None:
        while True:
            fields = message.get_fields_and_field_types()
            if not fields:
                return
            field = self.rng.choice(list(fields))
            value, form = getattr(message, field), fields[field]
            if type(message).__name__ == "Header" and field == "stamp":
                self.fill_time(value)
                return
            if hasattr(value, "get_fields_and_field_types"):
                message = value
                continue
            inner = isinstance(value, list) and value
            if inner and hasattr(value[0], "get_fields_and_field_types"):
                if self.rng.random() < 0.7:
                    message = self.rng.choice(value)
                    continue
            elif form.startswith("sequence") and len(value):
                if self.rng.random() < 0.7:
                    self._change_entry(message, field, form)
                    return
            self._put(message, field, self._value(form, 0))
            return

    def _change_entry(self, message: Any, field: str, form: str) -> None:
        match = _FIELD.match(form)
        assert match is not None
        values = list(getattr(message, field))
        values[self.rng.randrange(len(values))] = self._one(match["item"] or match["array"], 1)
        self._put(message, field, values)

    @staticmethod
    def _put(message: Any, field: str, value: Any) -> None:
        try:
            setattr(message, field, value)
        except (AssertionError, OverflowError, ValueError, TypeError):
            # A value that does not fit the type leaves the field unchanged.
            return

    def _value(self, form: str, depth: int) -> Any:
        match = _FIELD.match(form)
        assert match is not None
        if match["array"]:
            return [self._one(match["array"], depth + 1) for _ in range(int(match["n"]))]
        if match["item"]:
            longest = LENGTHS if depth < 1 and "/" not in match["item"] else (0, 1, 2)
            count = self.rng.choice(longest)
            if match["item"] in ("uint8", "int8", "octet", "byte"):
                return list(self.rng.randbytes(count)) if match["item"] != "octet" else []
            return [self._one(match["item"], depth + 1) for _ in range(count)]
        return self._one(match["one"], depth)

    def _one(self, form: str, depth: int) -> Any:
        if form in ("double", "float"):
            value = self.number()
            return value if form == "double" or abs(value) < 3e38 or value != value else 1e38
        if form.startswith(("string", "wstring")):
            return self.text()
        if form == "boolean":
            return self.rng.random() < 0.5
        if form in ("octet", "byte", "char"):
            return bytes([self.rng.randrange(256)]) if form == "octet" else self.rng.randrange(127)
        whole = _WHOLE.match(form)
        if whole:
            return self.whole(not whole[1], int(whole[2]))
        package, _, name = form.partition("/")
        kind = getattr(importlib.import_module(f"{package}.msg"), name.rpartition("/")[2])
        return self.message(kind, depth + 1) if depth < 5 else kind()

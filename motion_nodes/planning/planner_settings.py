# SPDX-License-Identifier: Apache-2.0
"""Planner parameters as text, for all groups or for one."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
from collections.abc import Mapping
from typing import Any

from motion_nodes.errors import InvalidConfig, did_you_mean


class PlannerSettings:
    """Parameters set by clients, over the planners' defaults; thread-safe."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        """Create from the settings object of each planner, a frozen dataclass, by its name."""
        self._defaults = dict(defaults)
        self._given: dict[tuple[str, str], dict[str, str]] = {}
        self._lock = threading.Lock()

    @property
    def planners(self) -> tuple[str, ...]:
        """Names of the planners with settings."""
        return tuple(self._defaults)

    def settings(self, planner: str, group: str) -> Any:
        """Return the settings of a planner for a group: its own, else those for all groups."""
        default = self._default(planner)
        with self._lock:
            given = self._given.get((planner, "")), self._given.get((planner, group))
        for values in filter(None, given):
            default = _changed(default, values)
        return default

    def words(self, planner: str, group: str) -> dict[str, str]:
        """Return the settings as text; nested ones have names with "/".

        Raises:
            InvalidConfig: unknown planner.
        """
        return {name: _word(value) for name, value in _leaves(self.settings(planner, group))}

    def set(self, planner: str, group: str, values: Mapping[str, str], replace: bool) -> None:
        """Set parameters, all or none.

        Args:
            planner: name of the planner.
            group: name of the group; empty: all groups without their own parameters.
            values: text by name.
            replace: True to clear the previous parameters of this planner and group.

        Raises:
            InvalidConfig: unknown planner or parameter, or invalid text.
        """
        default = self._default(planner)
        with self._lock:
            before = {} if replace else self._given.get((planner, group), {})
            merged = {**before, **values}
            _changed(default, merged)
            self._given[planner, group] = merged

    def _default(self, planner: str) -> Any:
        if planner not in self._defaults:
            raise InvalidConfig(
                f"there is no planner '{planner}'.{did_you_mean(planner, self._defaults)}",
                field=planner,
            )
        return self._defaults[planner]


def _leaves(settings: Any, prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for entry in dataclasses.fields(settings):
        value = getattr(settings, entry.name)
        if dataclasses.is_dataclass(value):
            found += _leaves(value, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, value))
    return found


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _changed(settings: Any, words: Mapping[str, str]) -> Any:
    """Return settings with some changed, all at once: bounds of their sums may apply."""
    names = [name for name, _ in _leaves(settings)]
    for name in words:
        if name not in names:
            raise InvalidConfig(
                f"there is no setting '{name}'.{did_you_mean(name, names)}", field=name
            )
    return _replaced(settings, words, "")


def _replaced(settings: Any, words: Mapping[str, str], prefix: str) -> Any:
    """Return settings with those changed whose names begin with a prefix."""
    values = {}
    for entry in dataclasses.fields(settings):
        now, name = getattr(settings, entry.name), prefix + entry.name
        if dataclasses.is_dataclass(now):
            values[entry.name] = _replaced(now, words, f"{name}/")
        elif name in words:
            values[entry.name] = _value(words[name], now, name)
    return dataclasses.replace(settings, **values) if values else settings


def _value(word: str, like: Any, name: str) -> Any:
    """Return text as a value of the parameter's type."""
    if isinstance(like, str):
        return word
    value = _parsed(word.strip())
    if isinstance(like, bool):
        fits = isinstance(value, bool) or value in (0, 1)
        value = bool(value)
    elif isinstance(value, bool):
        fits = False
    elif isinstance(like, int):
        fits = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        value = int(value) if fits else value
    elif isinstance(like, float):
        fits = isinstance(value, float) or _is_moderate(value)
        value = float(value) if fits else value
    elif like is None:  # an optional number
        fits = word.strip().lower() == "null" or isinstance(value, float) or _is_moderate(value)
        value = float(value) if fits and value is not None else value
    else:
        fits = isinstance(value, list)
        value = _frozen(value)
    if not fits:
        raise InvalidConfig(f"{name} is '{word}'; it must be like {_word(like)}", field=name)
    return value


def _parsed(word: str) -> Any:
    """Return JSON text as a value; None for null and for other text.

    The case is ignored except in ``Infinity``, as which unlimited values are reported.
    """
    try:
        return json.loads(word if word.endswith("Infinity") else word.lower())
    except (ValueError, RecursionError):
        return None


def _is_moderate(value: Any) -> bool:
    """Return whether a value is an integer that a float can hold."""
    return isinstance(value, int) and abs(value) <= sys.float_info.max


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value

# SPDX-License-Identifier: Apache-2.0
"""Settings: documentation, unit and range of values, defined once.

Configuration dataclasses of the core declare fields with :func:`setting` and check them with
:func:`check_settings`. ROS parameters, the schema of robot.yaml and the reference page are derived
from the same :class:`Setting`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from msgspec import Meta

from motion_nodes.errors import InvalidConfig

KEY = "setting"
"""Key of the :class:`Setting` in a field's metadata."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Documentation, unit and range of a value, or of each element of a list."""

    doc: str
    """Description."""
    unit: str = ""
    """SI unit; for quantities of linear or angular axes both, such as ``m/s or rad/s``."""
    ge: float | None = None
    """Min value."""
    gt: float | None = None
    """Lower bound, excluded."""
    le: float | None = None
    """Max value."""
    one_of: tuple[str, ...] | None = None
    """Allowed strings."""
    nan: bool = False
    """Whether NaN is allowed; it means "not set"."""
    inf: bool = False
    """Whether infinity is allowed; it means "unlimited"."""

    def problem(self, name: str, value: Any) -> str | None:
        """Return why a value is not allowed; None: it is allowed.

        Args:
            name: name of the value, for the text.
            value: a number, boolean or string, or a sequence of these.
        """
        if self.one_of is not None and value not in self.one_of:
            return f"{name} is '{value}'; allowed: {', '.join(self.one_of)}"
        # Lists of ROS parameters are array.array, neither tuple nor list.
        single = isinstance(value, str) or not isinstance(value, Iterable)
        for number in (value,) if single else value:
            if not _is_number(number):
                continue
            if (math.isnan(number) and self.nan) or (math.isinf(number) and self.inf):
                continue
            if not math.isfinite(number):
                unset = ", or NaN to leave it unset" if self.nan else ""
                return f"{name} is {number}; it must be a finite number{unset}"
            if self.gt is not None and not number > self.gt:
                return f"{name} is {number}; it must be above {self.gt}"
            if self.ge is not None and not number >= self.ge:
                return f"{name} is {number}; it must be at least {self.ge}"
            if self.le is not None and not number <= self.le:
                return f"{name} is {number}; it must be at most {self.le}"
        return None

    @property
    def text(self) -> str:
        """Documentation with unit."""
        return f"{self.doc} [{self.unit}]" if self.unit else self.doc

    @property
    def schema(self) -> Meta:
        """Range and documentation as an annotation for msgspec."""
        bounds: dict[str, Any] = {"ge": self.ge, "gt": self.gt, "le": self.le}
        return Meta(description=self.text, **bounds)

    def field(self, default: Any = dataclasses.MISSING) -> Any:
        """Return a dataclass field with this setting."""
        return dataclasses.field(default=default, metadata={KEY: self})


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def setting(default: Any = dataclasses.MISSING, **attributes: Any) -> Any:
    """Return a dataclass field with a new :class:`Setting`.

    Args:
        default: default value; omitted if the field is required.
        attributes: attributes of the setting.
    """
    return Setting(**attributes).field(default)


def setting_of(kind: type[Any], field: str) -> tuple[Setting, Any]:
    """Return setting and default of a dataclass's field.

    Args:
        kind: the dataclass.
        field: name of the field.

    Returns:
        The setting and the default value (``dataclasses.MISSING``: none).

    Raises:
        KeyError: no such field, or a field without a setting.
    """
    found = next((f for f in dataclasses.fields(kind) if f.name == field), None)
    if found is None or KEY not in found.metadata:
        raise KeyError(f"{kind.__name__}.{field} is not a setting")
    return found.metadata[KEY], found.default


def check_settings(config: Any, prefix: str = "") -> None:
    """Check that all settings of a dataclass are within their ranges.

    Args:
        config: instance of the dataclass.
        prefix: prefix of error texts, such as ``wheel 'left': ``.

    Raises:
        InvalidConfig: names the field, its value and the allowed type or range.
    """
    for field in dataclasses.fields(config):
        entry: Setting | None = field.metadata.get(KEY)
        if entry is not None:
            value = getattr(config, field.name)
            problem = _wrong_type(field, value) or entry.problem(field.name, value)
            if problem:
                raise InvalidConfig(f"{prefix}{problem}", field=field.name)


def _wrong_type(field: dataclasses.Field[Any], value: Any) -> str | None:
    """Return why a value does not have the numeric type of its field; None: no problem."""
    for kind, required, name in (("int", Integral, "a whole number"), ("float", Real, "a number")):
        # With postponed evaluation annotations are text.
        if getattr(field.type, "__name__", field.type) == kind and (
            isinstance(value, bool) or not isinstance(value, required)
        ):
            return f"{field.name} is {value!r}; it must be {name}"
    return None

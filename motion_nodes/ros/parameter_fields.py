# SPDX-License-Identifier: Apache-2.0
"""Fields of parameter dataclasses, and the ROS parameters that they declare."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.parameter import Parameter

from motion_nodes.model.setting import KEY, Setting, setting_of

C = TypeVar("C", bound=type)

ROS_TYPES: dict[Any, Parameter.Type] = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
    tuple[str, ...]: Parameter.Type.STRING_ARRAY,
    tuple[float, ...]: Parameter.Type.DOUBLE_ARRAY,
    tuple[int, ...]: Parameter.Type.INTEGER_ARRAY,
}
"""Type of a ROS parameter by that of its field."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParameterRules(Setting):
    """A setting as a ROS parameter; kept in the field's metadata."""

    name: str | None = None
    """ROS name; None for the field's name."""
    read_only: bool = False
    per: str | None = None
    """Field that lists names, with one parameter for each."""


def param(
    default: Any = dataclasses.MISSING,
    *,
    doc: str,
    name: str | None = None,
    unit: str = "",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    one_of: tuple[str, ...] | None = None,
    nan: bool = False,
    inf: bool = False,
    read_only: bool = False,
    per: str | None = None,
) -> Any:
    """Return a dataclass field that is a ROS parameter, or one for each of some names.

    Args:
        default: default value, unless the robot's description gives one.
        doc: what it does, for ``ros2 param describe`` and docs/parameters.md.
        name: ROS name if it has dots (``linear.x.max_velocity``); default: the field's name.
        unit: SI unit.
        ge: min value.
        gt: value that must be exceeded.
        le: max value.
        one_of: allowed strings.
        nan: whether NaN is allowed, which means "not set".
        inf: whether infinity is allowed, which means "unlimited".
        read_only: whether it is fixed once the node is configured.
        per: an earlier, read-only field that lists names. Each has its own parameter, with the
            name in place of ``<...>`` in ``name`` and the same default; the field's value is a
            mapping from these names.
    """
    rules = ParameterRules(
        doc=doc, name=name, unit=unit, ge=ge, gt=gt, le=le, one_of=one_of, nan=nan, inf=inf,
        read_only=read_only, per=per,
    )  # fmt: skip
    if per is not None:
        return dataclasses.field(
            default_factory=dict, metadata={"rules": rules, "default": default}
        )
    return dataclasses.field(default=default, metadata={"rules": rules})


def core_param(kind: type[Any], field: str, **changes: Any) -> Any:
    """Return a field that is a ROS parameter, from a setting of the core.

    Args:
        kind: configuration dataclass of the core.
        field: its field, made by :func:`~motion_nodes.model.setting.setting`.
        changes: arguments of :func:`param` that replace those of the setting.
    """
    entry, default = setting_of(kind, field)
    attributes = {f.name: getattr(entry, f.name) for f in dataclasses.fields(Setting)}
    return param(**({"default": default} | attributes | changes))


def core_params(
    kind: type[Any],
    group: str = "",
    *,
    only: Sequence[str] = (),
    read_only: Sequence[str] | bool = (),
    unit: int | None = None,
) -> Callable[[C], C]:
    """Return a class decorator that makes ROS parameters of all settings of a core's dataclass.

    Apply it below ``dataclass``. A setting ``x`` becomes field ``x`` and parameter ``x``; in
    the group ``a.b`` the field ``a_b_x`` and the parameter ``a.b.x``. Fields of the class that have
    a value are kept; an annotation without a value declares the field to type checkers.

    Args:
        kind: configuration dataclass of the core.
        group: group of the parameters; empty: none.
        only: settings of which parameters are made; empty: all.
        read_only: settings that are fixed once the node is configured; True: all.
        unit: which of the units of a setting along an axis, such as ``m/s or rad/s``; None: both.

    Raises:
        KeyError: ``only`` names a field that is not a setting.
    """

    def add(params_type: C) -> C:
        types = typing.get_type_hints(kind)
        names = only or [f.name for f in dataclasses.fields(kind) if KEY in f.metadata]
        for name in names:
            full = f"{group}.{name}" if group else name
            field = full.replace(".", "_")
            if field in params_type.__dict__:
                continue
            changes: dict[str, Any] = (
                {} if unit is None else {"unit": setting_of(kind, name)[0].unit.split(" or ")[unit]}
            )
            fixed = read_only if isinstance(read_only, bool) else name in read_only
            value = core_param(kind, name, name=full, read_only=fixed, **changes)
            setattr(params_type, field, value)
            params_type.__annotations__.setdefault(field, types[name])
        return params_type

    return add


@dataclasses.dataclass(frozen=True)
class Declared:
    """A parameter of a dataclass."""

    name: str
    """ROS name."""
    field: str
    """Name of the field."""
    kind: Any
    """Type of the value."""
    default: Any
    rules: ParameterRules
    key: str | None = None
    """Key of the value, if the field is a mapping."""

    def each(self, keys: Sequence[str]) -> list[Declared]:
        """Return the parameters of a field that has one for each of some names."""
        head, _, rest = self.name.partition("<")
        tail = rest.partition(">")[2]
        return [dataclasses.replace(self, name=f"{head}{key}{tail}", key=key) for key in keys]

    def descriptor(self) -> ParameterDescriptor:
        """Return the descriptor for ``ros2 param describe``; ranges are sliders in rqt."""
        rules = self.rules
        descriptor = ParameterDescriptor(
            name=self.name,
            type=ROS_TYPES[self.kind].value,
            description=rules.text,
            read_only=rules.read_only,
        )
        low = rules.ge if rules.ge is not None else rules.gt
        if low is not None and rules.le is not None and not rules.nan:
            if self.kind is float:
                descriptor.floating_point_range = [
                    FloatingPointRange(from_value=float(low), to_value=float(rules.le))
                ]
            elif self.kind is int:
                descriptor.integer_range = [
                    IntegerRange(from_value=int(low), to_value=int(rules.le), step=1)
                ]
        if rules.one_of is not None:
            descriptor.additional_constraints = f"one of: {', '.join(rules.one_of)}"
        return descriptor


def declared(params_type: type[Any]) -> tuple[Declared, ...]:
    """Return the parameters of a dataclass, in order."""
    hints = typing.get_type_hints(params_type)
    parameters = []
    for field in dataclasses.fields(params_type):
        rules, kind = field.metadata["rules"], hints[field.name]
        parameters.append(
            Declared(
                name=rules.name or field.name,
                field=field.name,
                kind=typing.get_args(kind)[1] if rules.per else kind,
                default=field.metadata.get("default", field.default),
                rules=rules,
            )
        )
    return tuple(parameters)

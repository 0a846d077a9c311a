# SPDX-License-Identifier: Apache-2.0
"""A node's parameters as one frozen dataclass: declared with descriptors, checked, swapped whole.

Each field made with :func:`param` becomes a ROS parameter. A batch that a client sets is first
checked as a whole; only when rclpy has accepted it is the dataclass replaced, so a rejected batch
changes nothing and the code that reads parameters never sees half of one.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterUninitializedException,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from motion_nodes.errors import InvalidConfig, did_you_mean

P = TypeVar("P")

_TYPES: dict[Any, Parameter.Type] = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
    tuple[str, ...]: Parameter.Type.STRING_ARRAY,
    tuple[float, ...]: Parameter.Type.DOUBLE_ARRAY,
    tuple[int, ...]: Parameter.Type.INTEGER_ARRAY,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParameterRules:
    """What a parameter may be, kept in the field's metadata."""

    doc: str
    name: str | None = None
    unit: str = ""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    one_of: tuple[str, ...] | None = None
    nan: bool = False
    inf: bool = False
    read_only: bool = False
    per: str | None = None

    def problem(self, name: str, value: Any) -> str | None:
        """Return what is wrong with a value, in words, or None."""
        if self.one_of is not None and value not in self.one_of:
            return f"{name} is '{value}'; allowed: {', '.join(self.one_of)}"
        # What a client sets comes as array.array, which is neither a tuple nor a list.
        alone = isinstance(value, str | int | float)
        for number in (value,) if alone else value:
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            if (math.isnan(number) and self.nan) or (math.isinf(number) and self.inf):
                continue
            if not math.isfinite(number):
                return f"{name} is {number}; it must be a finite number"
            if self.gt is not None and not number > self.gt:
                return f"{name} is {number}; it must be above {self.gt}"
            if self.ge is not None and not number >= self.ge:
                return f"{name} is {number}; it must be at least {self.ge}"
            if self.le is not None and not number <= self.le:
                return f"{name} is {number}; it must be at most {self.le}"
        return None


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
        default: value where neither the user nor the robot says otherwise.
        doc: what it does, for ``ros2 param describe`` and docs/parameters.md.
        name: the ROS name where it has dots (``linear.x.max_velocity``); else the field's own.
        unit: SI unit.
        ge: least value allowed.
        gt: bound that the value must exceed.
        le: greatest value allowed.
        one_of: words allowed.
        nan: NaN is allowed and means "not set".
        inf: infinity is allowed and means "no limit".
        read_only: cannot be changed after the node was configured.
        per: an earlier field, read-only, that lists names. There is one parameter for each of
            them, with the name in place of ``<...>`` in ``name``, and ``default`` is that of each.
            The field holds them as a mapping from those names.
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


@dataclasses.dataclass(frozen=True)
class Declared:
    """One parameter: its ROS name, its field, its type and its rules."""

    name: str
    field: str
    kind: Any
    default: Any
    rules: ParameterRules
    key: str | None = None
    """Which entry of a field that holds a mapping."""

    def each(self, keys: Sequence[str]) -> list[Declared]:
        """Return the parameters of a field that has one for each of some names."""
        head, _, rest = self.name.partition("<")
        tail = rest.partition(">")[2]
        return [dataclasses.replace(self, name=f"{head}{key}{tail}", key=key) for key in keys]

    def descriptor(self) -> ParameterDescriptor:
        """Return what ``ros2 param describe`` shows; ranges become sliders in rqt_reconfigure."""
        text = f"{self.rules.doc} [{self.rules.unit}]" if self.rules.unit else self.rules.doc
        descriptor = ParameterDescriptor(
            name=self.name,
            type=_TYPES[self.kind].value,
            description=text,
            read_only=self.rules.read_only,
        )
        low = self.rules.ge if self.rules.ge is not None else self.rules.gt
        if low is not None and self.rules.le is not None and not self.rules.nan:
            if self.kind is float:
                descriptor.floating_point_range = [
                    FloatingPointRange(from_value=float(low), to_value=float(self.rules.le))
                ]
            elif self.kind is int:
                descriptor.integer_range = [
                    IntegerRange(from_value=int(low), to_value=int(self.rules.le), step=1)
                ]
        if self.rules.one_of is not None:
            descriptor.additional_constraints = f"one of: {', '.join(self.rules.one_of)}"
        return descriptor


def declared(params_type: type[Any]) -> tuple[Declared, ...]:
    """Return the parameters of a dataclass in their order."""
    hints = typing.get_type_hints(params_type)
    return tuple(
        Declared(
            name=field.metadata["rules"].name or field.name,
            field=field.name,
            kind=_element(hints[field.name]) if field.metadata["rules"].per else hints[field.name],
            default=field.metadata.get("default", field.default),
            rules=field.metadata["rules"],
        )
        for field in dataclasses.fields(params_type)
    )


def _element(mapping: Any) -> Any:
    """Return the type of a mapping's values."""
    return typing.get_args(mapping)[1]


class ParameterSet(Generic[P]):
    """The parameters of one node: ``current`` is always a checked, whole dataclass."""

    def __init__(
        self,
        node: Node,
        params_type: type[P],
        defaults: Mapping[str, Any] | None = None,
        check: Callable[[P], str | None] | None = None,
    ) -> None:
        """Declare all parameters.

        Args:
            node: whose parameters they are.
            params_type: dataclass of :func:`param` fields.
            defaults: field name -> value that the robot's description gives.
            check: looks at a whole candidate, returns what is wrong with it or None.

        Raises:
            InvalidConfig: a value given at start is of the wrong type or not allowed.
        """
        self._node = node
        self._type = params_type
        self._check = check
        self._declared: dict[str, Declared] = {}
        self._names: list[str] = []
        self._changed: list[Callable[[P], None]] = []
        values: dict[str, Any] = {}
        for entry in declared(params_type):
            default = (defaults or {}).get(entry.field, entry.default)
            if entry.rules.per is None:
                values[entry.field] = self._declare(entry, default)
                continue
            each = entry.each(values[entry.rules.per])
            values[entry.field] = {one.key: self._declare(one, default) for one in each}
        self.current: P = params_type(**values)
        problem = check(self.current) if check else None
        if problem:
            raise InvalidConfig(f"{node.get_fully_qualified_name()}: {problem}")
        self._warn_unknown()
        node.add_pre_set_parameters_callback(self._widen_all)
        node.add_on_set_parameters_callback(self._validate)
        node.add_post_set_parameters_callback(self._swap)

    def on_change(self, callback: Callable[[P], None]) -> None:
        """Call ``callback`` with the new dataclass after each accepted batch."""
        self._changed.append(callback)

    def settable(self) -> list[Parameter]:
        """Return the parameters that can be set while the node is configured, as they are now."""
        names = [name for name in self._names if not self._declared[name].rules.read_only]
        found = [self._node._parameters[name] for name in names]
        return [p for p in found if p.type_ is not Parameter.Type.NOT_SET]

    def undeclare(self) -> None:
        """Take all parameters back, so that a later configure can declare them anew."""
        self._node.remove_pre_set_parameters_callback(self._widen_all)
        self._node.remove_on_set_parameters_callback(self._validate)
        self._node.remove_post_set_parameters_callback(self._swap)
        for name in self._names:
            if not self._declared[name].rules.read_only:
                self._node.undeclare_parameter(name)

    def _declare(self, entry: Declared, default: Any) -> Any:
        where = f"{self._node.get_fully_qualified_name()}: parameter"
        given = self._node._parameter_overrides.get(entry.name)
        self._declared[entry.name] = entry
        if not self._node.has_parameter(entry.name):
            if default is dataclasses.MISSING and given is None:
                raise InvalidConfig(f"{where} '{entry.name}' must be given ({entry.rules.doc})")
            if given is not None:
                self._node._parameter_overrides[entry.name] = _widened(entry, given)
            # An empty list has no type of its own, so such a parameter is declared by its type.
            blank = default is dataclasses.MISSING or default == ()
            value = _TYPES[entry.kind] if blank else _to_ros(default)
            try:
                self._node.declare_parameter(entry.name, value, entry.descriptor())
            except InvalidParameterTypeException:
                shown = given.value if given is not None else default
                raise InvalidConfig(
                    f"{where} '{entry.name}' is {shown!r}; "
                    f"it must be of type {_TYPES[entry.kind].name.lower()}"
                ) from None
            except InvalidParameterValueException as error:
                raise InvalidConfig(f"{where} '{entry.name}': {error}") from None
        self._names.append(entry.name)
        try:
            value = _from_ros(entry.kind, self._node.get_parameter(entry.name).value)
        except ParameterUninitializedException:
            value = ()
        problem = entry.rules.problem(entry.name, value)
        if problem:
            raise InvalidConfig(f"{where} {problem}")
        return value

    def _widen_all(self, parameters: list[Parameter]) -> list[Parameter]:
        """Let a client set 50 where 50.0 is meant; called by rclpy before it looks at types."""
        return [
            _widened(self._declared[p.name], p) if p.name in self._declared else p
            for p in parameters
        ]

    def _candidate(self, parameters: Sequence[Parameter]) -> P:
        changes: dict[str, Any] = {}
        for p in parameters:
            entry = self._declared.get(p.name)
            if entry is None:
                continue
            value = _from_ros(entry.kind, p.value)
            if entry.key is not None:
                now = changes.get(entry.field, getattr(self.current, entry.field))
                value = {**now, entry.key: value}
            changes[entry.field] = value
        return dataclasses.replace(self.current, **changes)  # type: ignore[type-var]

    def _validate(self, parameters: list[Parameter]) -> SetParametersResult:
        for p in parameters:
            entry = self._declared.get(p.name)
            if entry is None:
                continue
            if p.type_ is not _TYPES[entry.kind]:
                reason = f"{p.name} must be of type {_TYPES[entry.kind].name.lower()}"
                return SetParametersResult(successful=False, reason=reason)
            problem = entry.rules.problem(p.name, p.value)
            if problem:
                return SetParametersResult(successful=False, reason=problem)
        if self._check:
            problem = self._check(self._candidate(parameters))
            if problem:
                return SetParametersResult(successful=False, reason=problem)
        return SetParametersResult(successful=True)

    def _swap(self, parameters: list[Parameter]) -> None:
        if not any(p.name in self._declared for p in parameters):
            return
        self.current = self._candidate(parameters)
        for callback in self._changed:
            callback(self.current)

    def _warn_unknown(self) -> None:
        known = set(self._node._parameters)
        for name in sorted(set(self._node._parameter_overrides) - known):
            if name.startswith("qos_overrides."):
                continue
            self._node.get_logger().warning(
                f"parameter '{name}' is not one of this node and has no effect."
                f"{did_you_mean(name, sorted(self._declared))}"
            )


def declare_early(
    node: Node, name: str, default: Any, descriptor: ParameterDescriptor | None = None
) -> Any:
    """Declare a parameter that is needed before the others, and return its value.

    Raises:
        InvalidConfig: a value of another type was given.
    """
    try:
        return node.declare_parameter(name, default, descriptor or ParameterDescriptor()).value
    except InvalidParameterTypeException:
        given = node._parameter_overrides[name].value
        raise InvalidConfig(
            f"{node.get_fully_qualified_name()}: parameter '{name}' is {given!r}; it must be of "
            f"type {Parameter.Type.from_parameter_value(default).name.lower()}"
        ) from None


def _widened(entry: Declared, given: Parameter) -> Parameter:
    """Return 50 as 50.0 where that is meant: YAML files and people often leave the point out."""
    if entry.kind is float and given.type_ is Parameter.Type.INTEGER:
        return Parameter(entry.name, Parameter.Type.DOUBLE, float(given.value))
    if entry.kind == tuple[float, ...] and given.type_ is Parameter.Type.INTEGER_ARRAY:
        wide = [float(number) for number in given.value]
        return Parameter(entry.name, Parameter.Type.DOUBLE_ARRAY, wide)
    return given


def _to_ros(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _from_ros(kind: Any, value: Any) -> Any:
    if kind == tuple[str, ...]:
        return tuple(str(word) for word in value)
    if kind == tuple[float, ...]:
        return tuple(float(number) for number in value)
    if kind == tuple[int, ...]:
        return tuple(int(number) for number in value)
    return value

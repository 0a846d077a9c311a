# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node as one frozen dataclass, declared, validated and replaced as a whole.

Each field made by :func:`param` is a ROS parameter. A batch set by a client is validated as a
whole, and the dataclass is replaced only after rclpy has accepted it: a rejected batch changes
nothing, and readers never see a partial update.

A dataclass may have ``WITHOUT_EFFECT``: names of parameters of other systems that are accepted,
with ``*`` for any text, and the reason why they have no effect here. Configurations of the core are
made from a node's parameters.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
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
from motion_nodes.ros.concurrency.rclpy_internals import declared_parameters, given_parameters
from motion_nodes.settings import KEY, Setting, setting_of

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
P = TypeVar("P")
S = TypeVar("S")


@dataclasses.dataclass(frozen=True)
class ParameterRules:
    """A setting as a ROS parameter; kept in the field's metadata."""

    setting: Setting
    """Documentation, unit and range."""
    name: str | None
    """ROS name; None for the field's name."""
    read_only: bool
    per: str | None
    """Field that lists names, with one parameter for each."""


def param(
    default: Any = dataclasses.MISSING,
    *,
    name: str | None = None,
    read_only: bool = False,
    per: str | None = None,
    **attributes: Any,
) -> Any:
    """Return a dataclass field that is a ROS parameter, or one for each of some names.

    Args:
        default: default value, unless the robot's description gives one.
        name: ROS name if it has dots (``linear.x.max_velocity``); default: the field's name.
        read_only: whether it is fixed once the node is configured.
        per: an earlier, read-only field that lists names. Each has its own parameter, with the
            name in place of ``<...>`` in ``name`` and the same default; the field's value is a
            mapping from these names.
        attributes: of the :class:`~motion_nodes.settings.Setting`: what it does (``doc``, for
            ``ros2 param describe`` and docs/parameters.md), unit and range.
    """
    rules = ParameterRules(Setting(**attributes), name, read_only, per)
    if per is not None:
        return dataclasses.field(
            default_factory=dict, metadata={"rules": rules, "default": default}
        )
    return dataclasses.field(default=default, metadata={"rules": rules})


def core_param(kind: type[Any], field: str, **changes: Any) -> Any:
    """Return a field that is a ROS parameter, from a setting of the core.

    Args:
        kind: configuration dataclass of the core.
        field: its field, made by :func:`~motion_nodes.settings.setting`.
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
        setting = self.rules.setting
        descriptor = ParameterDescriptor(
            name=self.name,
            type=ROS_TYPES[self.kind].value,
            description=setting.text,
            read_only=self.rules.read_only,
        )
        low = setting.ge if setting.ge is not None else setting.gt
        if low is not None and setting.le is not None and not setting.nan:
            if self.kind is float:
                descriptor.floating_point_range = [
                    FloatingPointRange(from_value=float(low), to_value=float(setting.le))
                ]
            elif self.kind is int:
                descriptor.integer_range = [
                    IntegerRange(from_value=int(low), to_value=int(setting.le), step=1)
                ]
        if setting.one_of is not None:
            descriptor.additional_constraints = f"one of: {', '.join(setting.one_of)}"
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


class ParameterSet(Generic[P]):
    """The parameters of one node; ``current`` is always a validated dataclass."""

    def __init__(
        self,
        node: Node,
        params_type: type[P],
        defaults: Mapping[str, Any] | None = None,
        check: Callable[[P], str | None] | None = None,
    ) -> None:
        """Declare all parameters.

        Args:
            node: the node.
            params_type: dataclass of :func:`param` fields.
            defaults: defaults by field name, in place of those of the fields.
            check: validates a candidate as a whole, returns why it is rejected or None.

        Raises:
            InvalidConfig: an initial value has a wrong type or is not allowed, or a required one is
                missing.
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
        node.add_pre_set_parameters_callback(self._to_floats)
        node.add_on_set_parameters_callback(self._validate)
        node.add_post_set_parameters_callback(self._swap)

    def on_change(self, callback: Callable[[P], None]) -> None:
        """Call ``callback`` with the new dataclass after each accepted batch."""
        self._changed.append(callback)

    def settable(self) -> list[Parameter]:
        """Return the current values of parameters that can be set while the node is configured."""
        names = [name for name in self._names if not self._declared[name].rules.read_only]
        parameters = [declared_parameters(self._node)[name] for name in names]
        return [p for p in parameters if p.type_ is not Parameter.Type.NOT_SET]

    def undeclare(self) -> None:
        """Undeclare all parameters, so that the next configure can declare them again."""
        self._node.remove_pre_set_parameters_callback(self._to_floats)
        self._node.remove_on_set_parameters_callback(self._validate)
        self._node.remove_post_set_parameters_callback(self._swap)
        for name in self._names:
            if not self._declared[name].rules.read_only:
                self._node.undeclare_parameter(name)

    def _declare(self, entry: Declared, default: Any) -> Any:
        where = f"{self._node.get_fully_qualified_name()}: parameter"
        given = given_parameters(self._node).get(entry.name)
        self._declared[entry.name] = entry
        if not self._node.has_parameter(entry.name):
            if default is dataclasses.MISSING and given is None:
                raise InvalidConfig(
                    f"{where} '{entry.name}' is required ({entry.rules.setting.doc})",
                    field=entry.name,
                )
            if given is not None:
                given = _as_float(entry, given)
                if self._is_foreign(entry, given):
                    del given_parameters(self._node)[entry.name]
                    given = None
                else:
                    given_parameters(self._node)[entry.name] = given
            # The type of an empty list is unknown, so the parameter is declared by type.
            blank = default is dataclasses.MISSING or default == ()
            value = ROS_TYPES[entry.kind] if blank else _to_ros(default)
            try:
                self._node.declare_parameter(entry.name, value, entry.descriptor())
            except InvalidParameterTypeException:
                shown = given.value if given is not None else default
                raise InvalidConfig(
                    f"{where} '{entry.name}' is {shown!r}; "
                    f"it must be of type {ROS_TYPES[entry.kind].name.lower()}",
                    field=entry.name,
                ) from None
            except InvalidParameterValueException as error:
                raise InvalidConfig(f"{where} '{entry.name}': {error}", field=entry.name) from None
        self._names.append(entry.name)
        try:
            value = _from_ros(entry.kind, self._node.get_parameter(entry.name).value)
        except ParameterUninitializedException:
            value = ()
            if default == ():
                # Clients that ask for it among others would get none of them.
                empty = Parameter(entry.name, ROS_TYPES[entry.kind], [])
                declared_parameters(self._node)[entry.name] = empty
        problem = entry.rules.setting.problem(entry.name, value)
        if problem:
            raise InvalidConfig(f"{where} {problem}", field=entry.name)
        return value

    def _is_foreign(self, entry: Declared, given: Parameter) -> bool:
        """Return whether a value is of a peer's parameter of the same name, and say so.

        Such a name is one without effect here; a value that ours cannot have is not ours.
        """
        why = self._without_effect(entry.name)
        own = given.type_ is ROS_TYPES[entry.kind]
        if not why or (own and not entry.rules.setting.problem(entry.name, given.value)):
            return False
        self._warn_without_effect(entry.name, f"{given.value} is a value of the peer's: {why}")
        return True

    def _without_effect(self, name: str) -> str:
        """Return why a name of the peer has no effect; empty if it is none of these."""
        unused: dict[str, str] = getattr(self._type, "WITHOUT_EFFECT", {})
        return next((text for like, text in unused.items() if fnmatch(name, like)), "")

    def _warn_without_effect(self, name: str, why: str) -> None:
        self._node.get_logger().warning(f"parameter '{name}' has no effect: {why}")

    def _to_floats(self, parameters: list[Parameter]) -> list[Parameter]:
        """Convert integers to floats where needed; called by rclpy before it checks types."""
        return [
            _as_float(self._declared[p.name], p) if p.name in self._declared else p
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
                mapping = changes.get(entry.field, getattr(self.current, entry.field))
                value = {**mapping, entry.key: value}
            changes[entry.field] = value
        return dataclasses.replace(self.current, **changes)  # type: ignore[type-var]

    def _validate(self, parameters: list[Parameter]) -> SetParametersResult:
        for p in parameters:
            entry = self._declared.get(p.name)
            if entry is None:
                continue
            if p.type_ is not ROS_TYPES[entry.kind]:
                reason = f"{p.name} must be of type {ROS_TYPES[entry.kind].name.lower()}"
                return SetParametersResult(successful=False, reason=reason)
            problem = entry.rules.setting.problem(p.name, p.value)
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
        known = set(declared_parameters(self._node))
        for name in sorted(set(given_parameters(self._node)) - known):
            if name.startswith("qos_overrides."):
                continue
            if why := self._without_effect(name):
                self._warn_without_effect(name, why)
                continue
            self._node.get_logger().warning(
                f"parameter '{name}' is unknown to this node and has no effect."
                f"{did_you_mean(name, sorted(self._declared))}"
            )


def given_early(node: Node, name: str) -> Any:
    """Return the value that was given for a parameter before it is declared; None for none."""
    if node.has_parameter(name):
        try:
            return node.get_parameter(name).value
        except ParameterUninitializedException:
            return None
    given = given_parameters(node).get(name)
    return None if given is None else given.value


def declare_early(
    node: Node, name: str, default: Any, descriptor: ParameterDescriptor | None = None
) -> Any:
    """Declare a parameter that is needed before the node is configured, and return its value.

    Args:
        node: the node.
        name: ROS name.
        default: default value.
        descriptor: descriptor; None for an empty one.

    Raises:
        InvalidConfig: the given value has another type.
    """
    try:
        return node.declare_parameter(name, default, descriptor or ParameterDescriptor()).value
    except InvalidParameterTypeException:
        given = given_parameters(node)[name].value
        raise InvalidConfig(
            f"{node.get_fully_qualified_name()}: parameter '{name}' is {given!r}; it must be of "
            f"type {Parameter.Type.from_parameter_value(default).name.lower()}",
            field=name,
        ) from None


def _as_float(entry: Declared, given: Parameter) -> Parameter:
    """Convert integers to floats if the parameter is of floats: YAML files often have 50."""
    if entry.kind is float and given.type_ is Parameter.Type.INTEGER:
        return Parameter(entry.name, Parameter.Type.DOUBLE, float(given.value))
    if entry.kind == tuple[float, ...] and given.type_ is Parameter.Type.INTEGER_ARRAY:
        floats = [float(number) for number in given.value]
        return Parameter(entry.name, Parameter.Type.DOUBLE_ARRAY, floats)
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


def settings_from(params: Any, kind: type[S], prefix: str = "", **given: Any) -> S:
    """Return a configuration of the core, each field set from the parameter of the same name.

    A field without a parameter keeps its default.

    Args:
        params: parameters of a node.
        kind: dataclass of the configuration.
        prefix: prefix of the parameters' field names, such as ``stuck_``.
        given: values of fields that are not taken from parameters.

    Raises:
        InvalidConfig: the configuration rejects the values.
    """
    for entry in dataclasses.fields(kind):  # type: ignore[arg-type]
        if entry.name not in given and hasattr(params, prefix + entry.name):
            given[entry.name] = getattr(params, prefix + entry.name)
    return kind(**given)

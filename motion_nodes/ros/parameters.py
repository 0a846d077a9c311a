# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node as one frozen dataclass, declared, validated and replaced as a whole.

Each field made by :func:`param` is a ROS parameter. A batch set by a client is validated as a
whole, and the dataclass is replaced only after rclpy has accepted it: a rejected batch changes
nothing, and readers never see a partial update.

A dataclass may have ``WITHOUT_EFFECT``: names of parameters of other systems that are accepted,
with ``*`` for any text, and the reason why they have no effect here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any, Generic, TypeVar

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterUninitializedException,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.ros.parameter_fields import ROS_TYPES, Declared
from motion_nodes.ros.parameter_fields import ParameterRules as ParameterRules
from motion_nodes.ros.parameter_fields import core_param as core_param
from motion_nodes.ros.parameter_fields import core_params as core_params
from motion_nodes.ros.parameter_fields import declared as declared
from motion_nodes.ros.parameter_fields import param as param

P = TypeVar("P")


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
        parameters = [self._node._parameters[name] for name in names]
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
        given = self._node._parameter_overrides.get(entry.name)
        self._declared[entry.name] = entry
        if not self._node.has_parameter(entry.name):
            if default is dataclasses.MISSING and given is None:
                raise InvalidConfig(
                    f"{where} '{entry.name}' is required ({entry.rules.doc})", field=entry.name
                )
            if given is not None:
                self._node._parameter_overrides[entry.name] = _as_float(entry, given)
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
                self._node._parameters[entry.name] = empty
        problem = entry.rules.problem(entry.name, value)
        if problem:
            raise InvalidConfig(f"{where} {problem}", field=entry.name)
        return value

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
        unused: dict[str, str] = getattr(self._type, "WITHOUT_EFFECT", {})
        for name in sorted(set(self._node._parameter_overrides) - known):
            if name.startswith("qos_overrides."):
                continue
            why = next((text for like, text in unused.items() if fnmatch(name, like)), "")
            if why:
                self._node.get_logger().warning(f"parameter '{name}' has no effect: {why}")
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
    given = node._parameter_overrides.get(name)
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
        given = node._parameter_overrides[name].value
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

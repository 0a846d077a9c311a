# SPDX-License-Identifier: Apache-2.0
"""``ros2 node``, ``ros2 lifecycle`` and ``ros2 param``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetAvailableTransitions, GetState
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterDescriptor, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.action.graph import (
    get_action_client_names_and_types_by_node,
    get_action_server_names_and_types_by_node,
)
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python

from motion_nodes.core.robot.yaml_schema import parse_yaml, read_yaml, yaml_text
from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.nodes.clients.ros2.calls import call_service
from motion_nodes.nodes.clients.ros2.graph import (
    APPEAR_TIMEOUT,
    Verbs,
    discover,
    existing_node,
    full_name,
    is_hidden,
    node_names,
    participant,
    unnamed_nodes,
    wait_for,
)

CHANGE_TIMEOUT = 120.0
"""Max duration of a transition: configuring may compile kernels [s]."""
_GET_STATE = "lifecycle_msgs/srv/GetState"


def add_node(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = Verbs(parser)
    listing = verbs.add("list", _list_nodes, "list nodes", discovers=True)
    listing.add_argument("-a", "--all", action="store_true", help="also hidden nodes")
    listing.add_argument("-c", "--count-nodes", action="store_true", help="print the number only")
    text = "print what a node publishes, subscribes and serves"
    info = verbs.add("info", _info, text, "node", discovers=True)
    info.add_argument("--include-hidden", action="store_true", help="also hidden names")


def _list_nodes(options: argparse.Namespace) -> None:
    with participant() as node:
        discover(lambda: node_names(node, hidden=options.all), options.spin_time, known=False)
        wait_for(lambda: not unnamed_nodes(node))
        names = node_names(node, hidden=options.all)
        if missing := unnamed_nodes(node):
            print(f"{missing} more, whose names were not told yet", file=sys.stderr)
    print(len(names) if options.count_nodes else "\n".join(names))


def _info(options: argparse.Namespace) -> None:
    with participant() as node:
        name, namespace = existing_node(node, options.node)
        ends = discover(lambda: _ends(node, name, namespace), options.spin_time, known=True)
    print(f"{namespace.rstrip('/')}/{name}")
    for label, rows in ends.items():
        print(f"  {label}:")
        for endpoint, types in sorted(rows):
            if options.include_hidden or not is_hidden(endpoint):
                print(f"    {endpoint}: {', '.join(types)}")


def _ends(node: Node, name: str, namespace: str) -> dict[str, list[tuple[str, list[str]]]]:
    return {
        "Subscribers": node.get_subscriber_names_and_types_by_node(name, namespace),
        "Publishers": node.get_publisher_names_and_types_by_node(name, namespace),
        "Service Servers": node.get_service_names_and_types_by_node(name, namespace),
        "Service Clients": node.get_client_names_and_types_by_node(name, namespace),
        "Action Servers": get_action_server_names_and_types_by_node(node, name, namespace),
        "Action Clients": get_action_client_names_and_types_by_node(node, name, namespace),
    }


def add_lifecycle(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = Verbs(parser)
    verbs.add("nodes", _nodes, "list managed nodes", discovers=True)
    text = "print the state of one or all managed nodes"
    verbs.add("get", _print_state, text, discovers=True).add_argument("node", nargs="?")
    verbs.add("list", _list_transitions, "list the transitions from the current state", "node")
    change = verbs.add("set", _change_state, "request a transition", "node")
    change.add_argument("transition", help="such as configure, activate, deactivate, cleanup")


def _managed(node: Node, settle: float) -> list[str]:
    def query() -> list[str]:
        services = node.get_service_names_and_types()
        return sorted(
            name.removesuffix("/get_state")
            for name, types in services
            if name.endswith("/get_state") and _GET_STATE in types
        )

    return discover(query, settle, known=False)


def _nodes(options: argparse.Namespace) -> None:
    with participant() as node:
        print("\n".join(_managed(node, options.spin_time)))


def _service_of(node: Node, given: str) -> str:
    base, namespace = existing_node(node, given)
    return f"{namespace.rstrip('/')}/{base}"


def _print_state(options: argparse.Namespace) -> None:
    with participant() as node:
        if options.node:
            print(_state(node, _service_of(node, options.node)))
            return
        for name in _managed(node, options.spin_time):
            try:
                print(f"{name}: {_state(node, name)}")
            except InvalidCommand as error:
                print(f"{name}: unknown ({error})")


def _state(node: Node, name: str) -> str:
    service = f"{name}/get_state"
    response = call_service(node, GetState, service, GetState.Request(), APPEAR_TIMEOUT)
    return f"{response.current_state.label} [{response.current_state.id}]"


def _transitions(node: Node, name: str) -> dict[str, int]:
    response = call_service(
        node, GetAvailableTransitions, f"{name}/get_available_transitions",
        GetAvailableTransitions.Request(), APPEAR_TIMEOUT,
    )  # fmt: skip
    return {t.transition.label: t.transition.id for t in response.available_transitions}


def _list_transitions(options: argparse.Namespace) -> None:
    with participant() as node:
        for label, number in _transitions(node, _service_of(node, options.node)).items():
            print(f"- {label} [{number}]")


def _change_state(options: argparse.Namespace) -> int:
    with participant() as node:
        name = _service_of(node, options.node)
        possible = _transitions(node, name)
        if options.transition not in possible:
            raise InvalidCommand(
                f"{name} cannot '{options.transition}' now."
                f"{did_you_mean(options.transition, possible)}"
            )
        transition = Transition(id=possible[options.transition], label=options.transition)
        request = ChangeState.Request(transition=transition)
        response = call_service(node, ChangeState, f"{name}/change_state", request, CHANGE_TIMEOUT)
    print("transition successful" if response.success else "transition failed")
    return 0 if response.success else 1


TYPES = {
    getattr(ParameterType, f"PARAMETER_{name}"): text
    for name, text in (
        ("NOT_SET", "not set"), ("BOOL", "boolean"), ("INTEGER", "integer"), ("DOUBLE", "double"),
        ("STRING", "string"), ("BYTE_ARRAY", "byte array"), ("BOOL_ARRAY", "boolean array"),
        ("INTEGER_ARRAY", "integer array"), ("DOUBLE_ARRAY", "double array"),
        ("STRING_ARRAY", "string array"),
    )
}  # fmt: skip


def add_param(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = Verbs(parser)
    listing = verbs.add("list", _list, "list parameters", discovers=True)
    listing.add_argument("node", nargs="?", help="default: all nodes")
    listing.add_argument("--filter", default="", help="part of the name")
    for verb, run, text in (
        ("get", _get, "print the value of a parameter"),
        ("describe", _describe, "print type, description and range of parameters"),
    ):
        one = verbs.add(verb, run, text, "node")
        one.add_argument("name", nargs="+" if verb == "describe" else None)
        one.add_argument("--hide-type", action="store_true", help="print the value only")
    verbs.add("set", _set, "set parameters", "node", "name").add_argument("value", help="as YAML")
    verbs.add("dump", _dump, "print all parameters as a parameter file", "node")
    load = verbs.add("load", _load, "set the parameters of a parameter file", "node")
    load.add_argument("file", type=Path)


class _Parameters:
    """The parameter services of one node."""

    def __init__(self, node: Node, name: str) -> None:
        """Wait until the node is discovered."""
        base, namespace = existing_node(node, name)
        self.name = f"{namespace.rstrip('/')}/{base}"
        self._node = node

    def _call(self, kind: Any, service: str, request: Any) -> Any:
        return call_service(self._node, kind, f"{self.name}/{service}", request, APPEAR_TIMEOUT)

    def names(self) -> list[str]:
        """Return the names of all parameters."""
        request = ListParameters.Request(depth=ListParameters.Request.DEPTH_RECURSIVE)
        return sorted(self._call(ListParameters, "list_parameters", request).result.names)

    def values(self, names: list[str]) -> list[Any]:
        """Return ParameterValues."""
        request = GetParameters.Request(names=names)
        values = list(self._call(GetParameters, "get_parameters", request).values)
        unset = ParameterValue(type=ParameterType.PARAMETER_NOT_SET)
        if len(values) < len(names):  # rclpy returns nothing if one of them has no value
            alone = [self.values([name]) for name in names] if len(names) > 1 else [[unset]]
            values = [value for each in alone for value in each]
        for name, value in zip(names, values, strict=True):
            if value.type == ParameterType.PARAMETER_NOT_SET and name not in (own := self.names()):
                raise InvalidCommand(f"{self.name} has no '{name}'.{did_you_mean(name, own)}")
        return values

    def descriptors(self, names: list[str]) -> list[ParameterDescriptor]:
        """Return the descriptors."""
        self.values(names)  # names unknown parameters, the service does not
        request = DescribeParameters.Request(names=names)
        return list(self._call(DescribeParameters, "describe_parameters", request).descriptors)

    def set(self, values: dict[str, ParameterValue]) -> bool:
        """Set parameters; report each; return whether all were accepted."""
        messages = [ParameterMessage(name=name, value=value) for name, value in values.items()]
        results = self._call(
            SetParameters, "set_parameters", SetParameters.Request(parameters=messages)
        ).results
        for name, result in zip(values, results, strict=True):
            reason = result.reason or ("" if result.successful else "no reason was given")
            text = f"set {name}" if result.successful else f"{name} was not set"
            print(f"{text}: {reason}" if reason else text)
        return all(result.successful for result in results)


def _value(value: Any) -> ParameterValue:
    return Parameter(name="value", value=value).get_parameter_value()


def _text(value: ParameterValue) -> str:
    return str(parameter_value_to_python(value))


def _list(options: argparse.Namespace) -> None:
    with participant() as node:
        if options.node:
            names = [full_name(options.node)]
        else:
            names = discover(lambda: node_names(node), options.spin_time, known=False)
        for name in names:
            try:
                found = _Parameters(node, name).names()
            except InvalidCommand as error:
                if options.node:
                    raise
                print(error, file=sys.stderr)
                continue
            print(f"{name}:")
            print("\n".join(f"  {entry}" for entry in found if options.filter in entry))


def _get(options: argparse.Namespace) -> None:
    with participant() as node:
        value = _Parameters(node, options.node).values([options.name])[0]
    text = _text(value)
    kind = TYPES[value.type].capitalize()
    print(text if options.hide_type else f"{kind} value is: {text}")


def _set(options: argparse.Namespace) -> int:
    with participant() as node:
        parameters = _Parameters(node, options.node)
        current = parameters.values([options.name])[0]
        value = _typed(options.value, current)
        if value.type != current.type and current.type != ParameterType.PARAMETER_NOT_SET:
            if not parameters.descriptors([options.name])[0].dynamic_typing:
                raise InvalidCommand(
                    f"{options.name} is a {TYPES[current.type]}, and '{options.value}' is a "
                    f"{TYPES[value.type]}. Its value is {_text(current)}"
                )
        return 0 if parameters.set({options.name: value}) else 1


def _typed(text: str, current: ParameterValue) -> ParameterValue:
    """Convert a value to the type of the parameter: text for a string, numbers for doubles.

    Numbers are those of YAML 1.2, in which 1e9 needs no decimal point.

    Raises:
        InvalidCommand: an integer of more than 64 bits.
        InvalidDescription: not YAML.
    """
    if current.type == ParameterType.PARAMETER_STRING:
        quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
        return _value(text[1:-1] if quoted else text)
    data = parse_yaml(f"value: {text}", "the value")["value"]
    several = isinstance(data, list)
    numbers = data if several else [data]
    if data == [] and current.type >= ParameterType.PARAMETER_BYTE_ARRAY:
        return ParameterValue(type=current.type)
    if all(type(number) in (int, float) for number in numbers):
        if current.type in (ParameterType.PARAMETER_DOUBLE, ParameterType.PARAMETER_DOUBLE_ARRAY):
            numbers = [float(number) for number in numbers]
        elif not all(-(2**63) <= number < 2**63 for number in numbers if type(number) is int):
            raise InvalidCommand(f"'{text}' has more than 64 bits")
        data = numbers if several else numbers[0]
    try:
        return _value(text if data is None else data)
    except TypeError:  # of no type of parameters, such as a mapping
        return _value(text)


def _describe(options: argparse.Namespace) -> None:
    with participant() as node:
        found = _Parameters(node, options.node).descriptors(options.name)
    for descriptor in found:
        print(f"Parameter name: {descriptor.name}\n  Type: {TYPES[descriptor.type]}")
        rows = {
            "Description": descriptor.description,
            "Constraints": descriptor.additional_constraints,
            "Read only": "true" if descriptor.read_only else "",
        }
        for bounds in (*descriptor.floating_point_range, *descriptor.integer_range):
            rows["Min value"], rows["Max value"] = str(bounds.from_value), str(bounds.to_value)
        print("\n".join(f"  {label}: {text}" for label, text in rows.items() if text))


def _dump(options: argparse.Namespace) -> None:
    with participant() as node:
        parameters = _Parameters(node, options.node)
        names = parameters.names()
        values = [parameter_value_to_python(value) for value in parameters.values(names)]
    tree: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        *path, leaf = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[leaf] = value.tolist() if hasattr(value, "tolist") else value
    print(yaml_text({parameters.name: {"ros__parameters": tree}}), end="")


def _load(options: argparse.Namespace) -> int:
    data = read_yaml(options.file)
    with participant() as node:
        parameters = _Parameters(node, options.node)
        entry = data.get(parameters.name) or data.get(parameters.name.strip("/")) or data.get("/**")
        if not isinstance(entry, dict) or not isinstance(entry.get("ros__parameters"), dict):
            raise InvalidCommand(
                f"{options.file} has no ros__parameters of {parameters.name}."
                f"{did_you_mean(parameters.name, map(str, data))}"
            )
        return (
            0
            if parameters.set(
                {name: _value(v) for name, v in _flat(entry["ros__parameters"]).items()}
            )
            else 1
        )


def _flat(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        inner = f"{path}.{name}" if path else str(name)
        flat.update(_flat(value, inner) if isinstance(value, dict) else {inner: value})
    return flat

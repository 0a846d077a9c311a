# SPDX-License-Identifier: Apache-2.0
"""``ros2 node`` and ``ros2 lifecycle``.

``ros2 node``: list, info; ``ros2 lifecycle``: nodes, get, list, set.
"""

from __future__ import annotations

import argparse
import sys

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetAvailableTransitions, GetState
from rclpy.action.graph import (
    get_action_client_names_and_types_by_node,
    get_action_server_names_and_types_by_node,
)
from rclpy.node import Node

from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.nodes.clients.ros2.calls import call_service
from motion_nodes.nodes.clients.ros2.graph import (
    APPEAR_TIMEOUT,
    add_discovery,
    discover,
    existing_node,
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
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list nodes")
    listing.add_argument("-a", "--all", action="store_true", help="also hidden nodes")
    listing.add_argument("-c", "--count-nodes", action="store_true", help="print the number only")
    add_discovery(listing)
    listing.set_defaults(run=_list_nodes)
    info = verbs.add_parser("info", help="print what a node publishes, subscribes and serves")
    info.add_argument("node")
    info.add_argument("--include-hidden", action="store_true", help="also hidden names")
    add_discovery(info)
    info.set_defaults(run=_info)


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
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    nodes = verbs.add_parser("nodes", help="list managed nodes")
    add_discovery(nodes)
    nodes.set_defaults(run=_nodes)
    get = verbs.add_parser("get", help="print the state of one or all managed nodes")
    get.add_argument("node", nargs="?")
    add_discovery(get)
    get.set_defaults(run=_get)
    listing = verbs.add_parser("list", help="list the transitions from the current state")
    listing.add_argument("node")
    listing.set_defaults(run=_list_managed_nodes)
    change = verbs.add_parser("set", help="request a transition")
    change.add_argument("node")
    change.add_argument("transition", help="such as configure, activate, deactivate, cleanup")
    change.set_defaults(run=_set)


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


def _get(options: argparse.Namespace) -> None:
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


def _list_managed_nodes(options: argparse.Namespace) -> None:
    with participant() as node:
        for label, number in _transitions(node, _service_of(node, options.node)).items():
            print(f"- {label} [{number}]")


def _set(options: argparse.Namespace) -> int:
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

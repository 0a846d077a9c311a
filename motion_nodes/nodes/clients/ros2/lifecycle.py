# SPDX-License-Identifier: Apache-2.0
"""``ros2 lifecycle``: nodes, get, list, set."""

from __future__ import annotations

import argparse

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetAvailableTransitions, GetState
from rclpy.node import Node

from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.nodes.clients.ros2.graph import (
    APPEAR_TIMEOUT,
    add_discovery,
    discover,
    existing_node,
    participant,
)
from motion_nodes.nodes.clients.ros2.service import call_service

CHANGE_TIMEOUT = 120.0
"""Max duration of a transition: configuring may compile kernels [s]."""
_GET_STATE = "lifecycle_msgs/srv/GetState"


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
    listing.set_defaults(run=_list)
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


def _list(options: argparse.Namespace) -> None:
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

# SPDX-License-Identifier: Apache-2.0
"""``ros2 node``: list, info."""

from __future__ import annotations

import argparse

from rclpy.action.graph import (
    get_action_client_names_and_types_by_node,
    get_action_server_names_and_types_by_node,
)
from rclpy.node import Node

from motion_nodes.nodes.clients.ros2.graph import (
    add_discovery,
    discover,
    existing_node,
    is_hidden,
    node_names,
    participant,
)


def add_node(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list nodes")
    listing.add_argument("-a", "--all", action="store_true", help="also hidden nodes")
    listing.add_argument("-c", "--count-nodes", action="store_true", help="print the number only")
    add_discovery(listing)
    listing.set_defaults(run=_list)
    info = verbs.add_parser("info", help="print what a node publishes, subscribes and serves")
    info.add_argument("node")
    info.add_argument("--include-hidden", action="store_true", help="also hidden names")
    add_discovery(info)
    info.set_defaults(run=_info)


def _list(options: argparse.Namespace) -> None:
    with participant() as node:
        names = discover(
            lambda: node_names(node, hidden=options.all), options.spin_time, known=False
        )
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

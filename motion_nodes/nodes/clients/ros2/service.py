# SPDX-License-Identifier: Apache-2.0
"""``ros2 service``: list, type, find, call."""

from __future__ import annotations

import argparse
import time
from typing import Any

from rclpy.node import Node

from motion_nodes.errors import InvalidCommand
from motion_nodes.nodes.clients.ros2.graph import (
    add_discovery,
    add_list,
    complete,
    discover,
    is_hidden,
    named,
    participant,
    print_names,
    report_waiting,
)
from motion_nodes.nodes.clients.ros2.messages import interface_type, message_from, message_text
from motion_nodes.ros import qos, signals


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    add_list(verbs, _list, "services")
    kind = verbs.add_parser("type", help="print the type of a service")
    kind.add_argument("service")
    kind.set_defaults(run=_type)
    find = verbs.add_parser("find", help="list the services of a type")
    find.add_argument("type")
    add_discovery(find)
    find.set_defaults(run=_find)
    call = verbs.add_parser("call", help="call a service and print its response")
    call.add_argument("service")
    call.add_argument("type")
    call.add_argument("values", nargs="?", default="", help="fields as YAML; default: all default")
    call.add_argument("-r", "--rate", type=float, metavar="HZ", help="repeat at this rate")
    call.set_defaults(run=_call)


def _types(node: Node) -> dict[str, list[str]]:
    return dict(node.get_service_names_and_types())


def _list(options: argparse.Namespace) -> None:
    with participant() as node:
        own = node.get_fully_qualified_name()
        found = discover(lambda: _types(node), options.spin_time, known=False)
    rows = ((n, t) for n, t in found.items() if not n.startswith(own))
    print_names(((n, t) for n, t in rows if options.hidden or not is_hidden(n)), options)


def _type(options: argparse.Namespace) -> None:
    with participant() as node:
        print("\n".join(named("service", options.service, lambda: _types(node))))


def _find(options: argparse.Namespace) -> None:
    with participant() as node:
        found = discover(lambda: _types(node), options.spin_time, known=False)
    print("\n".join(sorted(name for name, types in found.items() if options.type in types)))


def call_service(node: Node, kind: Any, name: str, request: Any, timeout: float) -> Any:
    """Return a service's response.

    Raises:
        InvalidCommand: it does not exist, or did not respond in time.
    """
    client = node.create_client(kind, name, qos_profile=qos.SERVICES)
    try:
        if not client.wait_for_service(timeout):
            raise InvalidCommand(f"there is no service {client.srv_name} (waited {timeout:g} s)")
        response = complete(node, client.call_async(request), timeout)
        if response is None:
            raise InvalidCommand(f"{client.srv_name} did not respond within {timeout:g} s")
        return response
    finally:
        node.destroy_client(client)


def _call(options: argparse.Namespace) -> int:
    kind = interface_type(options.type, "srv")
    with participant() as node:
        request = message_from(options.values, kind.Request(), node)
        client = node.create_client(kind, options.service, qos_profile=qos.SERVICES)
        noticed = time.monotonic()
        while not client.wait_for_service(0.1):
            if signals.STOP.is_set():
                return 1
            if time.monotonic() - noticed > 2.0:
                noticed = time.monotonic()
                report_waiting("service", client.srv_name, options.type, _types(node))
        while True:
            response = complete(node, client.call_async(request))
            if response is None:
                return 1
            print(f"response:\n{message_text(response, indent='  ')}", flush=True)
            if not options.rate or signals.STOP.wait(1.0 / options.rate):
                return 0

# SPDX-License-Identifier: Apache-2.0
"""``ros2 service`` and ``ros2 action``."""

from __future__ import annotations

import argparse
import time
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import (
    get_action_client_names_and_types_by_node,
    get_action_names_and_types,
    get_action_server_names_and_types_by_node,
)
from rclpy.node import Node
from rclpy.task import Future

from motion_nodes.errors import InvalidCommand
from motion_nodes.nodes.clients.ros2.graph import (
    Verbs,
    complete,
    discover,
    discovered,
    full_name,
    is_hidden,
    named,
    participant,
    print_names,
    report_waiting,
)
from motion_nodes.nodes.clients.ros2.messages import interface_type, message_from, message_text
from motion_nodes.ros import qos, signals
from motion_nodes.ros.clients.client_node import action_client

CANCEL_TIMEOUT = 10.0
"""Max time to wait for a goal to end after Ctrl-C [s]."""


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = Verbs(parser)
    verbs.add_list(_list_services, "services")
    verbs.add_type(_types_of_services, "service")
    verbs.add_find(_types_of_services, "service")
    call = verbs.add("call", _call, "call a service and print its response", "service", "type")
    call.add_argument("values", nargs="?", default="", help="fields as YAML; default: all default")
    call.add_argument("-r", "--rate", type=float, metavar="HZ", help="repeat at this rate")


def _types_of_services(node: Node) -> dict[str, list[str]]:
    return dict(node.get_service_names_and_types())


def _list_services(options: argparse.Namespace) -> None:
    with participant() as node:
        own = node.get_fully_qualified_name()
        found = discover(lambda: _types_of_services(node), options.spin_time, known=False)
    rows = ((n, t) for n, t in found.items() if not n.startswith(own))
    print_names(((n, t) for n, t in rows if options.hidden or not is_hidden(n)), options)


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
                report_waiting("service", client.srv_name, options.type, _types_of_services(node))
        while True:
            response = complete(node, client.call_async(request))
            if response is None:
                return 1
            print(f"response:\n{message_text(response, indent='  ')}", flush=True)
            if not options.rate or signals.STOP.wait(1.0 / options.rate):
                return 0


STATUS = {
    getattr(GoalStatus, f"STATUS_{name}"): name
    for name in ("UNKNOWN", "ACCEPTED", "EXECUTING", "CANCELING", "SUCCEEDED", "CANCELED",
                 "ABORTED")
}  # fmt: skip


def add_action(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = Verbs(parser)
    verbs.add_list(_list_actions, "actions")
    text = "print the clients and servers of an action"
    info = verbs.add("info", _info, text, "action", discovers=True)
    info.add_argument("-t", "--show-types", action="store_true", help="also print the type")
    info.add_argument("-c", "--count", action="store_true", help="print the numbers only")
    verbs.add_type(_types_of_actions, "action")
    text = "send a goal and wait for its result"
    goal = verbs.add("send_goal", _send_goal, text, "action", "type")
    goal.add_argument("goal", nargs="?", default="", help="fields as YAML; default: all default")
    goal.add_argument("-f", "--feedback", action="store_true", help="also print the feedback")
    goal.add_argument("-t", "--timeout", type=float, metavar="S", help="time for the server [s]")


def _types_of_actions(node: Node) -> dict[str, list[str]]:
    return dict(get_action_names_and_types(node))


def _list_actions(options: argparse.Namespace) -> None:
    print_names(discovered(_types_of_actions, options.spin_time).items(), options)


def _info(options: argparse.Namespace) -> None:
    with participant() as node:
        name = full_name(options.action)
        types = named("action", name, lambda: _types_of_actions(node))

        def ends() -> list[list[str]]:
            nodes = node.get_node_names_and_namespaces()
            return [
                sorted(
                    f"{space.rstrip('/')}/{base}"
                    for base, space in nodes
                    if name in dict(query(node, base, space))
                )
                for query in (
                    get_action_client_names_and_types_by_node,
                    get_action_server_names_and_types_by_node,
                )
            ]

        clients, servers = discover(ends, options.spin_time, known=True)
    print(f"Action: {name}" + (f" [{', '.join(types)}]" if options.show_types else ""))
    for label, names in (("clients", clients), ("servers", servers)):
        print(f"Action {label}: {len(names)}")
        for entry in () if options.count else names:
            print(f"    {entry}")


def cancel_late(node: Node, sent: Future) -> None:
    """Cancel a goal that is accepted after a stop signal."""
    signals.STOP.clear()
    handle = complete(node, sent, CANCEL_TIMEOUT)
    if handle is not None and handle.accepted:
        complete(node, handle.cancel_goal_async(), CANCEL_TIMEOUT)


def _send_goal(options: argparse.Namespace) -> int:
    kind = interface_type(options.type, "action")
    with participant() as node:
        goal = message_from(options.goal, kind.Goal(), node)
        client = action_client(node, kind, full_name(options.action))
        waited = 0.0
        while not client.wait_for_server(0.5):
            waited += 0.5
            late = options.timeout is not None and waited > options.timeout
            if late or signals.STOP.is_set():
                print(f"there is no action server {full_name(options.action)}")
                return 1
            if waited % 2.0 == 0.0:
                report_waiting(
                    "action server", options.action, options.type, _types_of_actions(node)
                )

        def feedback(message: object) -> None:
            text = message_text(message.feedback, indent="  ")  # type: ignore[attr-defined]
            print(f"feedback:\n{text}", flush=True)

        sent = client.send_goal_async(goal, feedback if options.feedback else None)
        handle = complete(node, sent)
        if handle is None:  # Ctrl-C: it may still be accepted
            cancel_late(node, sent)
        if handle is None or not handle.accepted:
            print("goal was rejected" if handle else "stopped before the goal was accepted")
            return 1
        print(f"goal accepted with ID: {bytes(handle.goal_id.uuid).hex()}", flush=True)
        result = handle.get_result_async()
        response = complete(node, result)
        if response is None:  # Ctrl-C: the goal is canceled, not abandoned
            signals.STOP.clear()
            print("canceling the goal", flush=True)
            complete(node, handle.cancel_goal_async(), CANCEL_TIMEOUT)
            response = complete(node, result, CANCEL_TIMEOUT)
        client.destroy()
    if response is None:
        print("the server did not report a result")
        return 1
    print(f"result:\n{message_text(response.result, indent='  ')}")
    status = STATUS.get(response.status, "UNKNOWN")
    print(f"goal finished with status: {status}")
    return 0 if status == "SUCCEEDED" else 1

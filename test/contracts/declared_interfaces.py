# SPDX-License-Identifier: Apache-2.0
"""interfaces.yaml as objects, and the endpoints that it declares for a set of robots."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rclpy.action import get_action_server_names_and_types_by_node

from motion_nodes.ros.names import BASE_CONTROLLERS

FILE = Path(__file__).with_name("interfaces.yaml")
KINDS = ("publisher", "subscription", "service", "action")
PER_CELL = ("mujoco_sim", "browser_viewer", "articulation_graph")
"""Nodes that serve all robots."""


OF_RCL = {
    "/rosout", "/parameter_events", "/clock",
    "transition_event", "change_state", "get_state", "get_available_states",
    "get_available_transitions", "get_transition_graph", "describe_parameters",
    "get_parameter_types", "get_parameters", "list_parameters", "set_parameters",
    "set_parameters_atomically", "get_type_description",
}  # fmt: skip


def ours(kind: str, name: str) -> bool:
    """Return False for endpoints of rcl, of the lifecycle, and of an action's parts."""
    if "/_action/" in name:
        return False
    if name == "/clock":
        return kind == "publisher"
    return name not in OF_RCL and name.rpartition("/")[2] not in OF_RCL


class Endpoint(NamedTuple):
    """One endpoint of one node in the graph."""

    node: str
    kind: str
    name: str
    type: str


class Quality(NamedTuple):
    """Quality of service of an endpoint."""

    reliability: str
    durability: str
    depth: int


def load() -> list[dict[str, Any]]:
    """Return the nodes that the file lists."""
    return yaml.safe_load(FILE.read_text())["nodes"]


def expected(
    robots: Mapping[str, str], *, on_demand: bool = True
) -> dict[Endpoint, Quality | None]:
    """Return the endpoints of a suite with some robots.

    Args:
        robots: kind by namespace: ``arms``, or one of wheeled robots.
        on_demand: whether to include those that exist only while they are needed.
    """
    found: dict[Endpoint, Quality | None] = {}
    for node in load():
        per_cell = node["node"] in PER_CELL
        for namespace, kind in {"": ""}.items() if per_cell else robots.items():
            if not per_cell and not fits(node.get("robots"), kind):
                continue
            name = resolved(node["node"], kind)
            full = f"/{namespace}/{name}" if namespace else f"/{name}"
            for entry in node["endpoints"]:
                if not per_cell and not fits(entry.get("of"), kind):
                    continue
                if entry.get("on_demand") and not on_demand:
                    continue
                for name in _names(entry, full, namespace, robots):
                    endpoint = Endpoint(full, entry["kind"], name, entry["type"])
                    found[endpoint] = quality(entry)
    return found


def endpoints_of(client: Any, full_name: str) -> set[Endpoint]:
    """Return the endpoints of a running node that are the suite's own."""
    namespace, _, name = full_name.rpartition("/")
    node, ask = client.node, (name, namespace or "/")
    lists = {
        "publisher": node.get_publisher_names_and_types_by_node(*ask),
        "subscription": node.get_subscriber_names_and_types_by_node(*ask),
        "service": node.get_service_names_and_types_by_node(*ask),
        "action": get_action_server_names_and_types_by_node(node, *ask),
    }
    return {
        Endpoint(full_name, kind, topic, type_name)
        for kind, entries in lists.items()
        for topic, types in entries
        for type_name in types
        if ours(kind, topic)
    }


def fits(wanted: str | None, kind: str) -> bool:
    """Return whether an entry applies to robots of a kind."""
    return wanted in (None, kind) or (wanted == "wheeled" and kind in BASE_CONTROLLERS)


def resolved(name: str, kind: str) -> str:
    """Return a name with BASE replaced by the base controller of a kind."""
    parts = [BASE_CONTROLLERS[kind] if part == "BASE" else part for part in name.split("/")]
    return "/".join(parts)


def quality(entry: Mapping[str, Any]) -> Quality | None:
    """Return the quality of service of an entry; services and actions have none of their own."""
    if entry["kind"] in ("service", "action"):
        return None
    reliability, durability, depth = entry["qos"].split()
    return Quality(reliability, durability, int(depth))


def _names(
    entry: Mapping[str, Any], node: str, namespace: str, robots: Mapping[str, str]
) -> Iterator[str]:
    name = entry["name"]
    if name.startswith("ROBOT/"):
        for robot, kind in robots.items():
            if fits(entry.get("of"), kind):
                yield f"/{robot}/{resolved(name.removeprefix('ROBOT/'), kind)}"
    elif name.startswith("~/"):
        yield f"{node}/{name.removeprefix('~/')}"
    elif name.startswith("/"):
        yield name
    else:
        prefix = f"/{namespace}" if namespace else ""
        yield f"{prefix}/{resolved(name, robots[namespace])}"

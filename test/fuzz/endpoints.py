# SPDX-License-Identifier: Apache-2.0
"""The endpoints of a running suite, from the graph, and the messages allowed for each."""

import importlib
from dataclasses import dataclass
from typing import Any

from rclpy.action import get_action_names_and_types
from rclpy.node import Node

OWN = ("fuzz_", "test_")
"""How the names of the nodes begin that attack, watch, and are clients of other tests."""
OWN_SERVICES = tuple(f"/{name}" for name in OWN)
FEEDBACK = ("joint_states", "joint_command", "odom", "ground_truth", "controller_state")
"""Topics on which the robot itself speaks. A plausible lie there is another matter than a message
that no robot could send, so only such are sent."""
LIFECYCLE = ("change_state", "switch_controller", "cleanup_controller", "configure_controller")
"""Services that deactivate nodes, as they are meant to."""
RESET = "joint_trajectory_controller/reset"
"""Takes the reference to where the robot is, in one step, as it is meant to."""
TIME = ("pause", "reset")
"""Services of the simulation that stop time or put it back; sent with /clock."""
STOPS = ("stop", "stop_state")
"""Topics and services of the latched stop, after which nothing moves."""
PARAMETERS = ("set_parameters", "set_parameters_atomically")
_QUIET = ("/rosout", "/parameter_events")


@dataclass(frozen=True)
class Endpoint:
    """A topic, service or action to which messages are sent."""

    kind: str
    """topic, service or action."""
    name: str
    type_name: str

    @property
    def type(self) -> Any:
        """Class of the message, service or action."""
        package, space, name = self.type_name.split("/")
        return getattr(importlib.import_module(f"{package}.{space}"), name)

    @property
    def phase(self) -> str:
        """The phase of a campaign in which it is attacked."""
        last = self.name.rpartition("/")[2]
        if self.kind == "service" and (last in LIFECYCLE or self.name.endswith(RESET)):
            return "lifecycle"
        if self.kind == "service" and last in PARAMETERS:
            return "parameters"
        if self.name == "/clock" or (self.kind == "service" and "_sim/" in self.name
                                     and last in TIME):  # fmt: skip
            return "time"
        return "messages"

    @property
    def stops(self) -> bool:
        """Whether messages to it stop the robots."""
        return self.name.rpartition("/")[2] in STOPS

    @property
    def feedback(self) -> bool:
        """Whether only impossible messages are sent there."""
        return self.kind == "topic" and self.name.rpartition("/")[2] in FEEDBACK


def find_endpoints(node: Node) -> list[Endpoint]:
    """Return all endpoints of nodes other than the fuzzer's, sorted."""
    found: set[Endpoint] = set()
    for name, types in node.get_topic_names_and_types():
        others = [
            info for info in node.get_subscriptions_info_by_topic(name)
            if not info.node_name.startswith(OWN)
        ]  # fmt: skip
        if others and name not in _QUIET and "/_action/" not in name:
            found.add(Endpoint("topic", name, types[0]))
    for name, types in node.get_service_names_and_types():
        if not name.startswith(OWN_SERVICES) and "/_action/" not in name:
            found.add(Endpoint("service", name, types[0]))
    for name, types in get_action_names_and_types(node):
        found.add(Endpoint("action", name, types[0]))
    return sorted(found, key=lambda each: (each.kind, each.name))

# SPDX-License-Identifier: Apache-2.0
"""Specifications of a suite's nodes, and their assignment to processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from motion_nodes.ros.names import under
from motion_nodes.ros.parameter_words import Value, parameter_word

ALONE = (
    "rrt_planner",
    "trajectory_generator",
    "task_server",
    "rmpflow_policy",
    "occupancy_mapper",
    "object_detector",
    "policy_controller",
    "robot_driver",
)
"""Executables outside the container: those with high computational load, and the driver, whose
loop must not be delayed."""

JOINED = {
    "trajectory_generator": "rrt_planner",
    "rmpflow_policy": "rrt_planner",
    "task_server": "rrt_planner",
}
"""Executables that share the process of another one of their robot. Each process saved is 50 MB or
more, and some percent of a processor. Plans are computed in threads, mostly without the GIL: they
delay the reactive policy's loop little, and its references keep their stamps."""

WITHOUT_MOTION = (
    "robot_state",
    "ik_service",
    "controller_manager",
    "browser_viewer",
    "object_detector",
)
"""Executables whose loss does not affect active motions."""

DRIVERS = ("robot_driver",)
"""Executables that are stopped after all others of their suite."""

CONTAINER = "container"
"""Name of the process with several nodes; those of further robots are in container_2 and so on."""

ROBOTS_PER_CONTAINER = 10
"""Max robots whose nodes share a container. A message from another process costs time in proportion
to the endpoints of its receiver, and the loops of its nodes share one interpreter."""


@dataclass(frozen=True)
class NodeSpec:
    """One node: executable, name, namespace and parameters."""

    executable: str
    name: str
    namespace: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    params_files: tuple[str, ...] = ()
    log_level: str = "info"
    inherited: tuple[str, ...] = ()
    """ROS arguments of the whole suite, such as remappings; those of the node override them."""

    @property
    def full_name(self) -> str:
        """Fully qualified name."""
        return "/" + under(self.namespace, self.name)

    @property
    def is_simulation(self) -> bool:
        """Whether it is the simulation, which has its own process."""
        return self.executable.endswith("_sim")

    @property
    def moves_robots(self) -> bool:
        """Whether its loss holds the robot, because it takes part in motions."""
        return self.executable not in WITHOUT_MOTION

    @property
    def stands_alone(self) -> bool:
        """Whether it is not in the container.

        The simulation replaces the robots; planning, trajectory generation, the search for grasps
        and the reactive policy hold the GIL for long, which would delay the joint controller.
        """
        return self.is_simulation or self.executable in ALONE

    def ros_args(self) -> list[str]:
        """Return the ROS arguments of a command line."""
        args = ["--ros-args", *self.inherited, "-r", f"__node:={self.name}"]
        args += ["-r", f"__ns:=/{self.namespace}"]
        for key, value in self.parameters.items():
            args += ["-p", f"{key}:={parameter_word(value)}"]
        for file in self.params_files:
            args += ["--params-file", file]
        return [*args, "--log-level", self.log_argument]

    @property
    def log_argument(self) -> str:
        """Value of the ROS argument ``--log-level``."""
        return f"{self.full_name.strip('/').replace('/', '.')}:={self.log_level}"


def with_arguments(specs: Sequence[NodeSpec], args: Sequence[str]) -> list[NodeSpec]:
    """Return the nodes with ROS arguments for all of them.

    A relative name of a remapping is one in the namespace of each robot, also for nodes that serve
    several robots from outside, such as the simulation.

    Args:
        specs: the nodes.
        args: without ``--ros-args``: ``-r FROM:=TO``, ``-p NAME:=VALUE``, ``--params-file FILE``.
    """
    rules = [word for flag, word in pairwise(args) if flag in ("-r", "--remap")]
    local = [rule.split(":=") for rule in rules if rule[:1] not in ("/", "~") and ":=" in rule]
    found = []
    for spec in specs:
        outer = f"{spec.namespace}/" if spec.namespace else ""
        inner = {s.namespace.removeprefix(outer) for s in specs if s.namespace.startswith(outer)}
        added = [
            word
            for space in sorted(inner - {"", spec.namespace})
            for name, new in local
            if not name.startswith("__")
            for word in ("-r", f"{space}/{name}:={new if new[:1] == '/' else f'{space}/{new}'}")
        ]
        found.append(replace(spec, inherited=(*args, *added)))
    return found


def commands_for(specs: Sequence[NodeSpec], *, composed: bool) -> dict[str, list[str]]:
    """Return the command lines of the processes, by name.

    Args:
        specs: the nodes.
        composed: True: containers for all nodes except those that stand alone; else one process
            for each.
    """
    processes = processes_for(specs, composed=composed)
    return {name: command_of(name, nodes) for name, nodes in processes.items()}


def command_of(name: str, nodes: Sequence[NodeSpec]) -> list[str]:
    """Return the command line of a process with some nodes."""
    python = [sys.executable, "-m", "motion_nodes.nodes"]
    if name == CONTAINER or len(nodes) > 1:
        listed = [{"executable": s.executable, "ros_args": s.ros_args()} for s in nodes]
        return [*python, "container", "--nodes", json.dumps(listed)]
    return [*python, nodes[0].executable, *nodes[0].ros_args()]


def commands_by_robot(specs: Sequence[NodeSpec]) -> dict[str, list[str]]:
    """Return the command lines of the processes, by name, with a container for each namespace.

    The loops of many robots would miss their deadlines in one interpreter.

    Args:
        specs: the nodes.
    """
    commands = {}
    for namespace in dict.fromkeys(spec.namespace for spec in specs):
        own = [spec for spec in specs if spec.namespace == namespace]
        for name, command in commands_for(own, composed=True).items():
            commands[under(namespace, name) if name == CONTAINER else name] = command
    return commands


def processes_for(specs: Sequence[NodeSpec], *, composed: bool) -> dict[str, list[NodeSpec]]:
    """Return the nodes of each process, by its name, in the order of their start.

    Others wait for the states of a simulation; the container takes longest to start.
    """
    if not composed:
        return {_process(spec): [spec] for spec in specs}
    alone = [spec for spec in specs if spec.stands_alone]
    hosts = {(spec.executable, spec.namespace): spec for spec in alone}
    processes: dict[str, list[NodeSpec]] = {}
    for spec in sorted(alone, key=lambda spec: spec.executable in JOINED):
        host = hosts.get((JOINED.get(spec.executable, ""), spec.namespace), spec)
        processes.setdefault(_process(host), []).append(spec)
    first = {name: nodes for name, nodes in processes.items() if nodes[0].is_simulation}
    return first | _containers([spec for spec in specs if spec not in alone]) | processes


def _containers(specs: Sequence[NodeSpec]) -> dict[str, list[NodeSpec]]:
    """Return the nodes of each container, those of a namespace together, in equal shares."""
    robots = sorted({spec.namespace for spec in specs} - {""})
    count = -(-len(robots) // ROBOTS_PER_CONTAINER)
    containers: dict[str, list[NodeSpec]] = {}
    for spec in specs:
        number = robots.index(spec.namespace) * count // len(robots) if spec.namespace else 0
        name = CONTAINER if number == 0 else f"{CONTAINER}_{number + 1}"
        containers.setdefault(name, []).append(spec)
    return containers


def _process(spec: NodeSpec) -> str:
    """Return the process name of a node."""
    return spec.full_name.strip("/")

# SPDX-License-Identifier: Apache-2.0
"""Launch descriptions of the launch files: arguments, and actions made from their values.

Imported by launch files only: launch_ros is part of an installed ROS.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, LogInfo, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.parameter_descriptions import ParameterValue

from motion_nodes.bringup.bringup_config import Argument
from motion_nodes.bringup.node_specs import CONTAINER, DRIVERS, NodeSpec, processes_for
from motion_nodes.bringup.rviz_view import Tool
from motion_nodes.bringup.suite import composition, options_from
from motion_nodes.extras import suite_environment
from motion_nodes.kernels import parent_death
from motion_nodes.ros import watchdog
from motion_nodes.ros.names import under
from motion_nodes.ros.parameter_words import Value, of_one_type

STOP_TIMEOUT = "10"
"""Time from SIGINT to SIGTERM [s]; the supervisor itself ends processes that do not stop."""
RESPAWN_DELAY = 1.0
"""Time from the end of a process to its replacement [s]."""
TIED = {parent_death.VARIABLE: "1"}
"""Environment of processes that end with launch_ros, however that ends."""
LIMITED = {watchdog.VARIABLE: f"{watchdog.SECONDS:g}"}
"""Environment of processes that end when they hang."""


def describe(
    arguments: Sequence[Argument], start: Callable[[LaunchContext, Mapping[str, str]], list[Any]]
) -> LaunchDescription:
    """Return a launch file's description.

    Args:
        arguments: of the launch file.
        start: returns the actions for the context and the texts of the arguments, by name.
    """
    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            **({"choices": list(argument.choices)} if argument.choices else {}),
        )
        for argument in arguments
    ]

    def begin(context: LaunchContext) -> list[Any]:
        values = {a.name: LaunchConfiguration(a.name).perform(context) for a in arguments}
        return start(context, values)

    return LaunchDescription([*declared, OpaqueFunction(function=begin)])


def suite_actions(context: LaunchContext, values: Mapping[str, str]) -> list[Any]:
    """Return the actions that start a suite, one for each process.

    PushRosNamespace, SetRemap, SetParameter and SetParametersFromFile of an including launch file
    reach all nodes.

    Args:
        context: of the launch file.
        values: texts of its arguments.

    Raises:
        MotionError: the suite cannot be started.
    """
    outer = context.launch_configurations.get("ros_namespace", "").strip("/")
    values = {**values, "namespace": under(outer, values["namespace"].strip("/"))}
    shared = list(inherited_arguments(context))
    made = composition(options_from(values, shared))
    real = any(spec.executable in DRIVERS for spec in made.specs)
    if values["supervised"] == "true" or (values["supervised"] == "auto" and real):
        words = [f"{name}:={value}" for name, value in values.items()]
        command = [sys.executable, "-m", "motion_nodes.bringup.suite", *words]
        command += ["--ros-args", *shared] if shared else []
        return [
            ExecuteProcess(
                cmd=command,
                name="motion_nodes",
                output="screen",
                sigterm_timeout=STOP_TIMEOUT,
                additional_env=TIED,
            )
        ]
    how: dict[str, Any] = {
        "package": "motion_nodes",
        "respawn": made.respawn,
        "respawn_delay": RESPAWN_DELAY,
        "sigterm_timeout": STOP_TIMEOUT,
        "output": "screen",
        "additional_env": suite_environment() | TIED | (LIMITED if made.respawn else {}),
    }
    told = [
        LogInfo(msg=text) for text in (*made.notes, *(f"not started: {o}" for o in made.omitted))
    ]
    processes = processes_for(made.specs, composed=made.composed)
    return told + [_process_action(name, nodes, shared, how) for name, nodes in processes.items()]


def inherited_arguments(context: LaunchContext) -> list[str]:
    """Return remappings and parameters that the including launch file sets, as ROS arguments."""
    given = context.launch_configurations
    words = [("-r", f"{name}:={new}") for name, new in given.get("ros_remaps") or ()]
    for each in given.get("global_params") or ():
        is_value = isinstance(each, tuple)
        words.append(("-p", f"{each[0]}:={each[1]}") if is_value else ("--params-file", str(each)))
    return list(chain.from_iterable(words))


def _process_action(
    name: str, nodes: Sequence[NodeSpec], shared: Sequence[str], how: Mapping[str, Any]
) -> Node:
    """Return the action of a process: a lifecycle node, or a container of several nodes.

    launch_ros itself adds the ``shared`` arguments to a single node.
    """
    if name == CONTAINER or len(nodes) > 1:
        listed = [{"executable": s.executable, "ros_args": s.ros_args()} for s in nodes]
        words = ["--nodes", json.dumps(listed)]
        return Node(executable=CONTAINER, exec_name=name, arguments=words, **how)
    (node,) = nodes
    own = node.inherited[len(shared) :]
    return LifecycleNode(
        executable=node.executable,
        name=node.name,
        namespace=f"/{node.namespace}",
        parameters=[
            {key: _typed(value) for key, value in node.parameters.items()},
            *node.params_files,
        ],
        remappings=[tuple(w.split(":=")) for flag, w in pairwise(own) if flag == "-r"],
        ros_arguments=["--log-level", node.log_argument],
        **how,
    )


def _typed(value: Value) -> Any:
    """Return a parameter's value with its type: launch_ros would read a text as YAML."""
    if isinstance(value, str):
        return ParameterValue(value, value_type=str)
    if not isinstance(value, list | tuple):
        return value
    if all(isinstance(each, str) for each in value):
        return ParameterValue(list(value), value_type=list[str])
    return of_one_type(value)


def tool_node(tool: Tool) -> Node:
    """Return a program of another package."""
    return Node(
        package=tool.package,
        executable=tool.executable,
        namespace=tool.namespace,
        arguments=list(tool.arguments),
        parameters=[dict(tool.parameters)] if tool.parameters else None,
        output="screen",
    )

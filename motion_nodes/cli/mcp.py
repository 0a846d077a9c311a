# SPDX-License-Identifier: Apache-2.0
"""``motion mcp``: MCP server through which a language model commands a robot of a suite."""

from __future__ import annotations

from typing import Annotated

import typer


def mcp(
    robot: Annotated[
        str, typer.Argument(help="Robot, as given to `motion up`: [NAMESPACE:=]ROBOT.")
    ],
    max_velocity: Annotated[
        float,
        typer.Option(help="Max scaling factor of velocities and accelerations, in (0, 1]."),
    ] = 0.5,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Queries, cancel and stop only; nothing moves.")
    ] = False,
) -> None:
    """Serve functions for language models over MCP, on standard input and output.

    For MCP clients, which start this command themselves; it needs a running suite (`motion up`,
    with --tasks for tasks). Execution of a motion requires the token of its dry run.
    """
    import importlib.util

    from motion_nodes.errors import InvalidConfig
    from motion_nodes.model.placement import parse_placement

    if importlib.util.find_spec("mcp") is None:
        raise InvalidConfig("mcp is not installed; run: pip install 'motion-nodes[mcp]'")
    from motion_nodes.agent_tools.agent_functions import AgentConfig, AgentFunctions, arm_of
    from motion_nodes.agent_tools.mcp_server import serve
    from motion_nodes.api.robot_model import load_robot
    from motion_nodes.nodes.agent.ros_robot_link import robot_link

    place = parse_placement(robot)
    model, config = load_robot(place.robot), AgentConfig(max_velocity, read_only)
    arm_of(model)
    with robot_link(place.namespace, model.description.base_frame) as link:
        serve(AgentFunctions(model, link, config))

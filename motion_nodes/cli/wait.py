# SPDX-License-Identifier: Apache-2.0
"""``motion wait``: wait until the nodes of a running suite are ready, for scripts."""

from __future__ import annotations

from typing import Annotated

import typer


def wait(
    robots: Annotated[
        list[str],
        typer.Argument(
            help="Robots, as given to `motion up`: [NAMESPACE:=]ROBOT.",
            metavar="ROBOT...",
        ),
    ],
    namespace: Annotated[str, typer.Option(help="Prefix of all robots' namespaces.")] = "",
    timeout: Annotated[float, typer.Option(help="Max time to wait [s].")] = 60.0,
    node: Annotated[
        list[str] | None,
        typer.Option(help="Node to wait for, such as move_group; may be repeated. Default: all."),
    ] = None,
) -> None:
    """Wait until all nodes of some robots are ready. Exit code 1: timeout."""
    from motion_nodes.bringup.bringup_config import BringupConfig
    from motion_nodes.bringup.compose import nodes_for
    from motion_nodes.cli.printing import print_line
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.errors import InvalidCommand, did_you_mean
    from motion_nodes.model.placement import parse_placements
    from motion_nodes.nodes.clients.wait import wait_and_report

    checked_timeout(timeout)
    # The robots' own nodes; simulation and page only where they run.
    config = BringupConfig(
        placements=parse_placements(robots), backend="hardware", viewer="none", namespace=namespace
    )
    specs = nodes_for(config)
    others = () if node else ("/mujoco_sim", "/mock_sim", "/browser_viewer")
    for word in node or ():
        if word not in {spec.name for spec in specs}:
            raise InvalidCommand(
                f"'{word}' is not one of the nodes."
                f"{did_you_mean(word, [spec.name for spec in specs])}"
            )
    names = [spec.full_name for spec in specs if not node or spec.name in node]
    if not wait_and_report(names, timeout, print_line, others=others):
        print_line("Is `motion up` running, with the same ROS_DOMAIN_ID?")
        raise typer.Exit(NO_SOLUTION)

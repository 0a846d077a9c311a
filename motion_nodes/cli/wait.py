# SPDX-License-Identifier: Apache-2.0
"""``motion wait``: until the nodes of a running suite are ready, for scripts."""

from __future__ import annotations

from typing import Annotated

import typer


def wait(
    robots: Annotated[
        list[str],
        typer.Argument(
            help="The robots of `motion up`, with their namespaces: [NAMESPACE:=]ROBOT.",
            metavar="ROBOT...",
        ),
    ],
    namespace: Annotated[str, typer.Option(help="Put before all robots' namespaces.")] = "",
    timeout: Annotated[float, typer.Option(help="How long at most [s].")] = 60.0,
    node: Annotated[
        list[str] | None,
        typer.Option(help="Only this node, such as move_group; may be repeated."),
    ] = None,
) -> None:
    """Wait until all nodes of some robots are ready. Exit code 1: they were not in time."""
    import math

    from motion_nodes.bringup.compose import BringupConfig, nodes_for
    from motion_nodes.cli.printing import say
    from motion_nodes.cli.values import NO_SOLUTION
    from motion_nodes.errors import InvalidCommand, did_you_mean
    from motion_nodes.model.placement import parse_placements
    from motion_nodes.nodes.clients.wait import wait_and_say

    if not (math.isfinite(timeout) and timeout > 0.0):
        raise InvalidCommand(f"--timeout is {timeout:g}; it must be above 0.")
    # Robots' own nodes: what plays or shows them may be anything.
    config = BringupConfig(
        placements=parse_placements(robots), backend="hardware", viewer="none", namespace=namespace
    )
    specs = nodes_for(config)
    for word in node or ():
        if word not in {spec.name for spec in specs}:
            raise InvalidCommand(
                f"'{word}' is none of the nodes.{did_you_mean(word, [spec.name for spec in specs])}"
            )
    names = [spec.full_name for spec in specs if not node or spec.name in node]
    if not wait_and_say(names, timeout, say):
        say("Is `motion up` running, with the same ROS_DOMAIN_ID?")
        raise typer.Exit(NO_SOLUTION)

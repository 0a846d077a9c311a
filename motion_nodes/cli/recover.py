# SPDX-License-Identifier: Apache-2.0
"""``motion recover``: move an arm of a running suite out of a shallow collision."""

from __future__ import annotations

from typing import Annotated

import typer


def recover(
    robot: Annotated[
        str, typer.Argument(help="Robot, as given to `motion up`: [NAMESPACE:=]ROBOT.")
    ] = "franka",
    timeout: Annotated[
        float, typer.Option(help="Max time to wait for a suite that is starting [s].")
    ] = 60.0,
) -> None:
    """Move an arm slowly out of a shallow collision, or back inside its joint limits.

    No penetration depth increases along the path. Exit code 1: rejected or not completed; the
    reason is printed.
    """
    from motion_nodes.cli.printing import print_line
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.errors import InvalidCommand
    from motion_nodes.model.placement import parse_placement
    from motion_nodes.nodes.clients.recover import recover as call
    from motion_nodes.robot_setup.derived_robot import load_description

    checked_timeout(timeout)
    place = parse_placement(robot)
    known = load_description(place.robot)
    if all(group.tip is None for group in known.groups.values()):
        raise InvalidCommand(f"'{known.name}' has no arm to recover.")
    prefix = f"/{place.namespace}" if place.namespace else ""
    success, message = call(prefix, timeout, print_line)
    print_line(f"{message.rstrip('.')}.")
    if not success:
        raise typer.Exit(NO_SOLUTION)

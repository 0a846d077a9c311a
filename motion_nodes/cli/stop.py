# SPDX-License-Identifier: Apache-2.0
"""``motion stop`` and ``motion resume``: the latched stop of all robots of a running suite."""

from __future__ import annotations

from typing import Annotated

import typer

Timeout = Annotated[float, typer.Option(help="Max time to wait for the nodes [s].")]


def stop(timeout: Timeout = 10.0) -> None:
    """Stop all robots; they reject commands until `motion resume`.

    A software stop, which depends on this computer and the network: not an emergency stop. Prints
    each robot's time to rest. Exit code 1: a robot is not confirmed to be at rest.
    """
    from motion_nodes.cli.printing import print_line
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.nodes.clients.stop import stop as call

    if not call(checked_timeout(timeout), print_line):
        raise typer.Exit(NO_SOLUTION)


def resume(timeout: Timeout = 10.0) -> None:
    """Accept commands again after a stop; interrupted motions are not resumed.

    Exit code 1: a node is still stopped.
    """
    from motion_nodes.cli.printing import print_line
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.nodes.clients.stop import resume as call

    if not call(checked_timeout(timeout), print_line):
        raise typer.Exit(NO_SOLUTION)

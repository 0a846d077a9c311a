# SPDX-License-Identifier: Apache-2.0
"""``motion stop`` and ``motion resume``: one stop for all robots of the running suite."""

from __future__ import annotations

from typing import Annotated

import typer

Timeout = Annotated[float, typer.Option(help="How long to wait for the nodes at most [s].")]


def stop(timeout: Timeout = 10.0) -> None:
    """Bring all robots to rest; they refuse commands until `motion resume`.

    A software stop: it needs this computer and the network, and replaces no emergency stop. Prints
    how long each robot took to come to rest. Exit code 1: some robot is not known to rest.
    """
    from motion_nodes.cli.printing import say
    from motion_nodes.cli.values import NO_SOLUTION
    from motion_nodes.nodes.clients.stop import stop as call

    if not call(_checked(timeout), say):
        raise typer.Exit(NO_SOLUTION)


def resume(timeout: Timeout = 10.0) -> None:
    """Have robots take commands again after a stop; nothing moves by itself.

    Exit code 1: some node is still stopped.
    """
    from motion_nodes.cli.printing import say
    from motion_nodes.cli.values import NO_SOLUTION
    from motion_nodes.nodes.clients.stop import resume as call

    if not call(_checked(timeout), say):
        raise typer.Exit(NO_SOLUTION)


def _checked(timeout: float) -> float:
    import math

    from motion_nodes.errors import InvalidCommand

    if not (math.isfinite(timeout) and timeout > 0.0):
        raise InvalidCommand(f"--timeout is {timeout:g}; it must be above 0.")
    return timeout

# SPDX-License-Identifier: Apache-2.0
"""``motion task``: execute a task in words with a running suite."""

from __future__ import annotations

from typing import Annotated

import typer


def task(
    words: Annotated[
        list[str],
        typer.Argument(
            help="The task, such as: put the red cube on the shelf; or a plan as JSON.",
            metavar="WORD...",
        ),
    ],
    namespace: Annotated[str, typer.Option(help="Namespace of the robot.")] = "",
    timeout: Annotated[
        float, typer.Option(help="Max time to wait for a suite that is starting [s].")
    ] = 60.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan and check the task without executing it.")
    ] = False,
) -> None:
    """Execute a task with an arm, and wait for its end (needs `motion up ROBOT --tasks`).

    English and Chinese sentences with the names of objects. Prints the plan and its steps; Ctrl-C
    cancels. Exit code 1: rejected or failed; the reason is printed.
    """
    from motion_nodes.cli.printing import print_line
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.nodes.clients.task import run_task
    from motion_nodes.tasks.task_order import TaskOrder

    checked_timeout(timeout)
    name = namespace.strip("/")
    order = TaskOrder(" ".join(words), dry_run)
    fault = run_task(f"/{name}" if name else "", order, timeout, print_line)
    if fault:
        print_line(f"not done: {fault}")
        raise typer.Exit(NO_SOLUTION)

# SPDX-License-Identifier: Apache-2.0
"""``motion record``: record topics of a running suite to a file."""

from __future__ import annotations

from typing import Annotated

import typer


def record(
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="Output file: .jsonl (complete messages) or .csv (numbers)."
        ),
    ] = "recording.jsonl",
    seconds: Annotated[
        float, typer.Option(help="Duration from the first message [s]; 0: until Ctrl-C.")
    ] = 0.0,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            help="Topic to record, * matches anything; may be repeated. Default: joint states, "
            "commands, odometry, poses and plans."
        ),
    ] = None,
) -> None:
    """Record topics of a running suite. Exit code 1: no messages received."""
    import math
    import sys
    from pathlib import Path

    from motion_nodes.cli.printing import print_line, print_table
    from motion_nodes.cli.values import NO_SOLUTION
    from motion_nodes.errors import InvalidCommand
    from motion_nodes.nodes.clients.record import record as record_topics

    if not (math.isfinite(seconds) and seconds >= 0.0):
        raise InvalidCommand(f"--seconds is {seconds:g}; it must be 0 or above.")

    def progress(text: str) -> None:
        print(f"motion: recording {text}", file=sys.stderr, flush=True)

    counts = record_topics(Path(output), seconds, topic or [], progress)
    print_table(["topic", "messages"], sorted(counts.items()))
    if not sum(counts.values()):
        print_line("No messages received. Is a suite running, with the same ROS_DOMAIN_ID?")
        raise typer.Exit(NO_SOLUTION)
    print_line(f"{sum(counts.values())} messages in {output}.")

# SPDX-License-Identifier: Apache-2.0
"""``motion up`` and ``motion demo``: start the suite, watch it, stop it."""

from __future__ import annotations

import time

from motion_nodes.bringup.compose import BringupConfig, commands_for, nodes_for
from motion_nodes.bringup.processes import ProcessGroup
from motion_nodes.model.placement import parse_placements
from motion_nodes.ros import signals


def say(text: str) -> None:
    """Print a line of news at once."""
    print(f"motion: {text}", flush=True)


def bring_up(config: BringupConfig, *, composed: bool, respawn: bool) -> int:
    """Run the suite until a stop is asked for or nothing runs any more; return the exit code."""
    specs = nodes_for(config)
    signals.stop_quietly()
    signals.nodes_exist()
    say(f"starting {', '.join(spec.full_name for spec in specs)}; Ctrl-C stops")
    begin = time.monotonic()
    with ProcessGroup(commands_for(specs, composed=composed), say, respawn=respawn) as group:
        while not signals.STOP.wait(0.2):
            if not group.watch():
                break
            # What fails at once was told something wrong: the rest is of no use.
            if group.failed and time.monotonic() - begin < 10.0 and not respawn:
                break
        return 1 if any(group.failed.values()) else 0


def run_demo_suite(name: str, *, by: str, headless: bool, port: int) -> int:
    """Run a show of the demo: robots in MuJoCo, driven by a client; return the exit code.

    Args:
        name: of the show.
        by: who follows in the show ``follow``.
        headless: without a person: run it once.
        port: of the page.

    Raises:
        MotionError: there is no such show.
    """
    from motion_nodes.nodes.demo import run_demo, show_of

    show = show_of(name, by)
    config = BringupConfig(
        placements=parse_placements(show.robots),
        viewer_port=port,
        log_level="warn" if headless else "info",
    )
    signals.stop_quietly()
    signals.nodes_exist()
    say(f"starting {show.robots_text} in MuJoCo" + ("" if headless else "; Ctrl-C stops"))
    with ProcessGroup(commands_for(nodes_for(config), composed=True), say) as group:
        return run_demo(show, headless=headless, watch=lambda: group.watch() and not group.failed)

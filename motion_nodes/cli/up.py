# SPDX-License-Identifier: Apache-2.0
"""``motion up`` and ``motion demo``: start the suite, watch it, stop it."""

from __future__ import annotations

from motion_nodes.bringup.compose import (
    BringupConfig,
    commands_for,
    nodes_for,
    processes_for,
)
from motion_nodes.bringup.processes import ProcessGroup
from motion_nodes.bringup.startup import Startup
from motion_nodes.model.placement import Placement, parse_placements
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros import signals

LOOK, LOOK_STARTING = 0.2, 0.02
"""[s] Between two looks at the processes, once all nodes are ready and before."""


def say(text: str) -> None:
    """Print a line of news at once."""
    print(f"motion: {text}", flush=True)


def bring_up(config: BringupConfig, *, composed: bool, respawn: bool) -> int:
    """Run the suite until a stop is asked for or nothing runs any more; return the exit code."""
    specs = nodes_for(config)
    nodes = {
        process: [spec.full_name for spec in members]
        for process, members in processes_for(specs, composed=composed).items()
    }
    signals.stop_quietly()
    signals.nodes_exist()
    names = [spec.full_name for spec in specs]
    say(f"starting {', '.join(names)}; Ctrl-C stops")
    startup = Startup(names, say, lambda: _next_steps(config))
    with ProcessGroup(
        commands_for(specs, composed=composed),
        say,
        respawn=respawn,
        hear=lambda process, news: startup.hear(news, nodes[process]),
    ) as group:
        while not signals.STOP.wait(LOOK if startup.complete else LOOK_STARTING):
            if not group.watch():
                break
            startup.remind()
            # What fails while it starts was told something wrong: the rest is of no use.
            lost = [name for name in group.failed if not startup.came_up(nodes[name])]
            if lost and not respawn:
                held = [node.strip("/") for name in lost for node in nodes[name]]
                say(f"stopping all, for these did not come up: {', '.join(held)}")
                break
        return 1 if any(group.failed.values()) else 0


def _next_steps(config: BringupConfig) -> str:
    """Return what can be done with a suite that is up."""
    moves = [move for place in config.within_namespace if (move := _a_move(place))]
    return f"In a second terminal: {moves[0]}" if moves else ""


def _a_move(place: Placement) -> str:
    """Return a command that moves a robot; empty for one that has nothing to move."""
    robot = load_description(place.robot)
    named = f"{place.namespace}:={place.robot}" if place.namespace else place.robot
    if robot.base is not None:
        return f"motion go {named} --to 0.5,0.2"
    if not any(group.tip is not None for group in robot.groups.values()):
        return ""
    state = next((name for name in ("ready", *robot.state_names) if name in robot.states), "home")
    return f"motion go {named} --to {state}"


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
    from motion_nodes.nodes.demo.shows import run_demo, show_of

    show = show_of(name, by)
    config = BringupConfig(
        placements=parse_placements(show.robots),
        viewer_port=port,
        log_level="warn" if headless else "info",
        scene_bodies=True,
    )
    signals.stop_quietly()
    signals.nodes_exist()
    say(f"starting {show.robots_text} in MuJoCo" + ("" if headless else "; Ctrl-C stops"))
    with ProcessGroup(commands_for(nodes_for(config), composed=True), say) as group:
        return run_demo(show, headless=headless, watch=lambda: group.watch() and not group.failed)

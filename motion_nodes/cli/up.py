# SPDX-License-Identifier: Apache-2.0
"""``motion up`` and ``motion demo``: start, monitor and stop the suite."""

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

POLL_PERIOD, START_POLL_PERIOD = 0.2, 0.02
"""[s] Polling period of the processes, after and before all nodes are ready."""


def say(text: str) -> None:
    """Print a status line immediately."""
    print(f"motion: {text}", flush=True)


def bring_up(config: BringupConfig, *, composed: bool, respawn: bool) -> int:
    """Run the suite until a signal arrives or all processes have exited.

    Args:
        config: the nodes to start.
        composed: whether nodes share processes.
        respawn: whether to restart processes that exit.

    Returns:
        Exit code: 1 if a process failed.
    """
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
        while not signals.STOP.wait(POLL_PERIOD if startup.complete else START_POLL_PERIOD):
            if not group.watch():
                break
            startup.remind()
            # A failure at startup is a configuration error: the other nodes are stopped too.
            failed = [name for name in group.failed if not startup.came_up(nodes[name])]
            if failed and not respawn:
                missing = [node.strip("/") for name in failed for node in nodes[name]]
                say(f"stopping all nodes, since these did not start: {', '.join(missing)}")
                break
        return 1 if any(group.failed.values()) else 0


def _next_steps(config: BringupConfig) -> str:
    """Return a hint for a second terminal, once all nodes are ready."""
    commands = [command for place in config.within_namespace if (command := _example(place))]
    return f"In a second terminal: {commands[0]}" if commands else ""


def _example(place: Placement) -> str:
    """Return a command that moves a robot; empty if none does."""
    robot = load_description(place.robot)
    named = f"{place.namespace}:={place.robot}" if place.namespace else place.robot
    if robot.base is not None:
        return f"motion go {named} --to 0.5,0.2"
    if not any(group.tip is not None for group in robot.groups.values()):
        return ""
    state = next((name for name in ("ready", *robot.state_names) if name in robot.states), "home")
    return f"motion go {named} --to {state}"


def run_demo_suite(name: str, *, by: str, headless: bool, port: int) -> int:
    """Run a demo: robots in MuJoCo, commanded by a client; return the exit code.

    Args:
        name: name of the demo.
        by: controller of the demo ``follow``.
        headless: whether to run it once and exit.
        port: TCP port of the page.

    Raises:
        MotionError: there is no such demo.
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

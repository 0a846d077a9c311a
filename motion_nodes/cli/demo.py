# SPDX-License-Identifier: Apache-2.0
"""``motion demo``: a suite in MuJoCo and a client that moves its robots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from motion_nodes.bringup.bringup_config import BringupConfig, check_libraries
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import commands_by_robot, commands_for
from motion_nodes.bringup.process_template import ProcessTemplate
from motion_nodes.bringup.processes import ProcessGroup
from motion_nodes.bringup.suite import print_line
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.ros import signals
from motion_nodes.ros.names import under

if TYPE_CHECKING:
    from motion_nodes.nodes.demo.shows import Show


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
    from motion_nodes.nodes.demo.shows import show_of

    return run_show(show_of(name, by), headless=headless, port=port)


def run_show(show: Show, *, headless: bool, port: int = 8080) -> int:
    """Run a show with its suite; return the exit code.

    Args:
        show: the show.
        headless: whether to run it once and exit.
        port: TCP port of the page.

    Raises:
        MotionError: a library is missing.
    """
    from motion_nodes.nodes.demo.shows import run_demo

    robots = show.robots if isinstance(show.robots, tuple) else show.robots()
    crowded = len(robots) > 2
    config = BringupConfig(
        placements=parse_placements(robots),
        viewer="none" if headless and crowded else "browser",
        viewer_port=port,
        log_level="warn" if headless else "info",
        scene_bodies=show.scene_bodies,
        tasks=show.tasks,
        cameras=show.cameras,
        objects=show.objects,
        policies=show.policies,
        control_rate=show.control_rate,
    )
    check_libraries(config)
    signals.stop_quietly()
    signals.nodes_exist()
    print_line(f"starting {show.robots_text} in MuJoCo" + ("" if headless else "; Ctrl-C stops"))
    nodes = [
        node for node in nodes_for(config)
        if show.without.isdisjoint({node.executable, under(node.namespace, node.executable)})
    ]  # fmt: skip
    commands = commands_by_robot(nodes) if crowded else commands_for(nodes, composed=True)
    with (
        ProcessTemplate() as template,
        ProcessGroup(commands, print_line, template=template) as group,
    ):
        return run_demo(show, headless=headless, watch=lambda: group.watch() and not group.failed)


def run_demo_wipe(*, headless: bool, port: int, output: Path) -> int:
    """Run the demo ``wipe``; return the exit code.

    Args:
        headless: whether to run it once, without a page, and exit.
        port: TCP port of the page.
        output: file of the plot.

    Raises:
        MotionError: the plot cannot be written there.
    """
    from motion_nodes.nodes.demo.wipe import run_wipe

    signals.stop_quietly()
    signals.nodes_exist()
    print_line("wiping an uneven table in MuJoCo")
    return run_wipe(headless=headless, port=port, output=output)

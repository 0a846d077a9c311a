# SPDX-License-Identifier: Apache-2.0
"""``motion demo wipe``: an arm wipes an uneven table with a constant force; checked and plotted.

It runs in one process, without ROS: the result is checked by the simulated contact forces.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.trajectory.trajectory_plot import COLOURS, Axes, page, text
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.wiping import RADIUS, WipedStroke, WipingCell
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.nodes.demo.arm import DemoFindings
from motion_nodes.ros import signals

BOUND = 0.2
"""Max deviation of the force, as a fraction of the desired one."""
WITHIN = 0.99
"""Min share of the time within that bound."""
CHECKS = ("the cup held", "on average", "of the time")
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
_MEAN = 0.05
"""Max deviation of the mean force, as a share."""
_FRAME = 0.03
"""Period of the page [s]."""


def run_wipe(*, headless: bool, port: int, output: Path) -> int:
    """Wipe the table; return the exit code, see :meth:`DemoFindings.conclude`.

    Args:
        headless: as fast as possible and without a page; else in real time, again until Ctrl-C.
        port: TCP port of the page.
        output: file of the plot (.svg).

    Raises:
        InvalidConfig: the file is no .svg file, or its folder does not exist.
    """
    if output.suffix != ".svg" or not output.parent.is_dir():
        raise InvalidConfig(
            f"the plot is written to a .svg file in an existing folder, not {output}"
        )
    findings = DemoFindings()
    if headless:
        _play(findings, None, output)
        return findings.conclude(CHECKS, headless=True)
    robot = WipingCell().robot
    with BrowserViewer([ViewedRobot.of(robot, "ur10e", np.eye(4))], PageSettings(port)) as viewer:
        print(f"demo: the page is {viewer.url}; Ctrl-C stops", flush=True)
        while not signals.STOP.is_set():
            findings.begin_round()
            _play(findings, viewer, output)
            signals.STOP.wait(2.0)
    return findings.conclude(CHECKS, headless=False)


def _play(findings: DemoFindings, viewer: BrowserViewer | None, output: Path) -> None:
    """Wipe once, check the stroke and write its plot."""
    cell, began, shown = WipingCell(), time.monotonic(), -1.0
    stroke = None
    for step in cell.wipe():
        stroke = step
        if signals.STOP.is_set():
            return
        if viewer is not None and cell.world.time > shown + _FRAME:
            shown = cell.world.time
            _show(viewer, cell)
            signals.STOP.wait(max(0.0, shown - (time.monotonic() - began)))
    assert stroke is not None
    mean, within = float(stroke.forces.mean()), stroke.within(BOUND)
    findings.check(cell.held, "the cup held the sponge")
    findings.check(
        abs(mean - stroke.desired) <= _MEAN * stroke.desired,
        f"{mean:.2f} N on average; desired {stroke.desired:g} N",
    )
    findings.check(
        within >= WITHIN,
        f"within {100 * BOUND:.0f} % for {100 * within:.1f} % of the time; "
        f"{stroke.forces.min():.1f} to {stroke.forces.max():.1f} N",
    )
    output.write_text(plot(stroke, cell), encoding="utf-8")
    print(f"  plot: {output}", flush=True)


def _show(viewer: BrowserViewer, cell: WipingCell) -> None:
    viewer.robot("ur10e").update_joints(cell.world.state("arm").position)
    parts = {slab.name: world_object(slab.name, slab.geometry, slab.X_WO) for slab in cell.table}
    X = from_xyz_rpy(cell.world.object_pose("sponge")[:3, 3])
    parts["sponge"] = world_object("sponge", Sphere(RADIUS), X, rgba=(0.9, 0.8, 0.2, 1.0))
    viewer.robot("ur10e").update_scene(Scene(parts))


def plot(stroke: WipedStroke, cell: WipingCell) -> str:
    """Return an SVG document: force and height of the table over the position.

    Args:
        stroke: to plot.
        cell: with the table.
    """
    places = 100.0 * stroke.places
    ends = (float(places.min()), float(places.max()))
    top = max(1.5 * stroke.desired, 1.05 * float(stroke.forces.max()))
    force = Axes(0.0, 34.0, 900.0, 300.0, "vertical force of the contacts [N]", ends, (0.0, top))
    force.curve(places, stroke.estimated, COLOURS[1], width=0.8)
    force.curve(places, stroke.forces, COLOURS[0])
    for share in (-BOUND, 0.0, BOUND):
        force.level((1.0 + share) * stroke.desired, "#c00000" if share else "#27313b")
    heights = np.array([1e3 * cell.config.height(y + cell.place[1]) for y in stroke.places])
    low, high = float(heights.min()) - 2.0, float(heights.max()) + 2.0
    table = Axes(0.0, 340.0, 900.0, 160.0, "height of the table [mm]", ends, (low, high),
                 "place along the stroke [cm]")  # fmt: skip
    table.curve(places, heights, COLOURS[7])
    head = text(
        62.0, 22.0,
        f"Wiping with {stroke.desired:g} N at {cell.config.speed:g} m/s: contacts (blue), estimate "
        f"of the controller (orange), +-{100 * BOUND:.0f} % (red)", size=13,
    )  # fmt: skip
    return page(900.0, 510.0, [head, force.svg(), table.svg()])

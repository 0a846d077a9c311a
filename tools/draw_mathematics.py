# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the pages of mathematics with the package itself, as SVG.

``python tools/draw_mathematics.py`` writes docs/mathematics/pictures; all motions are seeded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import motion_nodes as mn  # noqa: E402
from motion_nodes.core.control.joint_drive import Pid, PidConfig  # noqa: E402
from motion_nodes.core.robot.poses import rotation_about  # noqa: E402
from motion_nodes.core.trajectory.figures import Panel, SvgFigure, figure_of  # noqa: E402

FOLDER = ROOT / "docs" / "mathematics" / "pictures"
START = np.array([-0.8, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
GOAL = START * [-1, 1, 1, 1, 1, 1, 1]


def wall() -> mn.World:
    """Return a world with a wall between start and goal of an arm."""
    world = mn.World()
    world.add("wall", mn.Box(0.4, 0.02, 0.8), mn.pose(xyz=(0.5, 0.0, 0.4)))
    return world


def frames() -> Any:
    """Rotation of the x axis about (1, 1, 1) by the formula of Rodrigues."""
    angles = np.linspace(0.0, 2.0 * np.pi, 181)
    axis = np.ones(3) / np.sqrt(3.0)
    tips = np.array([rotation_about(axis, np.array(a)) @ (1.0, 0.0, 0.0) for a in angles])
    curves = tuple((np.rad2deg(angles), tips[:, k], f"{'xyz'[k]} of the axis") for k in range(3))
    title = "The x axis of a frame turned about (1, 1, 1): a third of a turn is the y axis"
    return figure_of([Panel("coordinate", curves, "angle [deg]")], title, svg=True)


def kinematics() -> Any:
    """Reachability of an arm."""
    arm = mn.load_robot("franka")["arm"]
    found = mn.reachability_map(arm, "xz", step=0.08, directions=12)
    return SvgFigure(
        found.svg("Franka: directions of the tool that are reached in the plane y = 0")
    )


def bases() -> Any:
    """A twist that is limited as a whole, and by axis."""
    panels = []
    for clip, what in ((False, "whole twist scaled"), (True, "each axis clipped")):
        base = mn.load_robot("jetbot").base
        limits = mn.BaseLimits(
            x=mn.BodyAxisLimits(max_velocity=0.5, max_acceleration=0.5),
            yaw=mn.BodyAxisLimits(max_velocity=2.0, max_acceleration=4.0), clip_axes=clip,
        )  # fmt: skip
        control, rows, dt = base.controller(limits), [], 0.01
        for k in range(150):
            control.command(mn.Twist2(0.4, 0.0, 1.6), k * dt)
            twist = control.step(k * dt, dt).twist
            rows.append((twist[0], twist[2], twist[2] / max(twist[0], 1e-6)))
        t = np.asarray(dt * np.arange(1.0, 151.0), np.float64)
        v, w, curvature = np.array(rows, np.float64).T
        curves = (t, v, "v [m/s]"), (t, w, "ω [rad/s]"), (t, curvature, "curvature [1/m]")
        panels.append(Panel(what, curves, "time [s]"))
    return figure_of(panels, "A start to 0.4 m/s and 1.6 rad/s: the curvature is kept", svg=True)


def planning() -> Any:
    """The path of the tool around a wall."""
    arm, world = mn.load_robot("franka")["arm"], wall()
    plan = arm.plan(START, GOAL, world)
    assert plan.trajectory is not None
    lines = []
    for Q, name in (
        (START + np.linspace(0, 1, 60)[:, None] * (GOAL - START), "straight line"),
        (plan.trajectory.positions, "planned"),
    ):
        tool = arm.fk(Q)[:, :3, 3]
        lines.append((tool[:, 1], tool[:, 2], name))
    edge = 0.01
    border = (np.array([-edge, -edge, edge, edge]), np.array([0.0, 0.8, 0.8, 0.0]), "wall")
    panel = Panel("z over y of the tool [m]", (*lines, border), "y [m]")
    return figure_of([panel], "A motion around a wall, seen along it", svg=True)


def rmpflow() -> Any:
    """The tool on its way to a target around a ball."""
    arm, world = mn.load_robot("franka")["arm"], mn.World()
    centre, radius = np.array([0.5, 0.0, 0.45]), 0.08
    world.add("ball", mn.Sphere(radius), mn.pose(xyz=centre))
    target = np.array([0.5, 0.3, 0.45])
    lines = []
    for obstacles, name in ((None, "without ball"), (world, "with ball")):
        q = arm.ik(mn.pose(xyz=(0.5, -0.3, 0.45), rpy=(np.pi, 0, 0)), seed="ready").q
        policy, v, rows = arm.rmpflow(obstacles), np.zeros(7), []
        for _ in range(500):
            rows.append(arm.fk(q)[:3, 3])
            q, v = policy.step(q, v, target, 0.01)
        tool = np.array(rows)
        lines.append((tool[:, 1], tool[:, 2], name))
    a = np.linspace(0.0, 2.0 * np.pi, 60)
    ball = centre[1] + radius * np.cos(a), centre[2] + radius * np.sin(a), "ball"
    panel = Panel("z over y of the tool [m]", (*lines, ball), "y [m]")
    return figure_of([panel], "RMPflow: the tool goes around what is in its way", svg=True)


def timing() -> Any:
    """A time parameterization within its limits."""
    arm = mn.load_robot("franka")["arm"]
    motion = arm.time_parameterize([START, 0.5 * (START + GOAL) + 0.2, GOAL], blend=0.1)
    t = np.linspace(motion.start_time, motion.end_time, 400)
    _, v, a, j = motion.states(t)
    limits = arm.limits
    panels = [
        Panel(
            f"{what}, share of its limit",
            tuple((t, x[:, k] / bound[k], n if what == "velocity" else "")
                  for k, n in enumerate(arm.joint_names)),
            "time [s]", (-1.0, 1.0),
        )
        for what, x, bound in (
            ("velocity", v, limits.velocity), ("acceleration", a, limits.acceleration),
            ("jerk", j, limits.jerk),
        )
    ]  # fmt: skip
    title = f"Three waypoints in {motion.duration:.3f} s: always one joint is at a limit"
    return figure_of(panels, title, svg=True)


def control() -> Any:
    """A joint of 1 kg m^2 that follows a sine by its drive, with and without feed-forward."""
    t, dt = np.linspace(0.0, 4.0, 4001), 1e-3
    wanted, rate = np.sin(np.pi * t), np.pi * np.cos(np.pi * t)
    bend = -(np.pi**2) * wanted
    lines = []
    for share, name in ((0.0, "feedback only"), (0.8, "+ 80 % of it"), (1.0, "+ feed-forward")):
        pid = Pid(PidConfig(kp=100.0, kd=20.0))
        q, v, errors = 0.0, float(rate[0]), []
        for r, rated, ahead in zip(wanted, rate, share * bend, strict=True):
            errors.append(r - q)
            effort = pid.step([r], [q], dt, feed_forward=20.0 * rated + ahead, velocity=[v])
            v += dt * float(effort[0])
            q += dt * v
        lines.append((t[::10], 1e3 * np.array(errors[::10]), name))
    title = "A joint on a sine: the feedback corrects only what the model lacks"
    return figure_of([Panel("error [mrad]", tuple(lines), "time [s]")], title, svg=True)


PICTURES: dict[str, Callable[[], Any]] = {
    "frames": frames, "kinematics": kinematics, "bases": bases, "planning": planning,
    "rmpflow": rmpflow, "timing": timing, "control": control,
}  # fmt: skip
"""Drawing of each page."""


def main(folder: Path = FOLDER) -> None:
    """Write all pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(folder / f"{name}.svg")


if __name__ == "__main__":
    main()

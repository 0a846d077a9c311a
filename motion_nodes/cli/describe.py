# SPDX-License-Identifier: Apache-2.0
"""``motion robots`` and ``motion describe``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from motion_nodes.cli.output import print_json
from motion_nodes.core.robot.loader import available_robots, load_description
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import BaseSpec, HolonomicSpec
from motion_nodes.errors import MotionError

PACKAGE = Path(__file__).resolve().parents[1]
"""Folder of the shipped robots."""


def robot_data(robot: Robot) -> dict[str, Any]:
    """Return a robot's joints with limits, groups, states and frames, in SI units."""
    limits = robot.limits
    columns = ("lower", "upper", "velocity", "acceleration", "jerk", "effort")
    return {
        "name": robot.name,
        "kind": robot.kind,
        "directory": str(robot.directory),
        "base_frame": robot.base_frame,
        "tool_frame": robot.tool_frame,
        "joints": {
            name: {
                "kind": robot.tree.joints[name].kind.name.lower(),
                **{column: getattr(limits, column)[k] for column in columns},
                "home": robot.home[k],
            }
            for k, name in enumerate(robot.joint_names)
        },
        "passive_joints": list(robot.passive_joints),
        "groups": {
            group.name: {
                "joints": list(group.joints),
                "base": group.base,
                "tip": group.tip,
                "aliases": list(group.aliases),
            }
            for group in robot.groups.values()
        },
        "states": {name: dict(state) for name, state in robot.states.items()},
        "frames": list(robot.tree.frame_names),
        "spheres": {link: len(items) for link, items in robot.spheres.items()},
        "never_checked": [list(pair) for pair in robot.description.collision.ignore],
        "base": robot.description.base,
    }


def list_robots() -> None:
    """Print the known robots."""
    known = sorted(available_robots().items())
    names = Column("robot", no_wrap=True, min_width=max(len(name) for name, _ in known))
    table = Table(names, "kind", "joints", "groups", "from", box=None)
    for name, path in known:
        place = "motion_nodes" if PACKAGE in path.parents else str(path.parent)
        try:
            robot = load_description(name)
        except MotionError as error:
            table.add_row(name, "[red]invalid[/red]", "", "", escape(str(error)))
            continue
        groups = ", ".join(robot.groups)
        table.add_row(name, robot.kind, str(len(robot.joint_names)), groups, escape(place))
    Console().print(table)


def describe_robot(name: str, *, as_json: bool = False) -> None:
    """Print one robot's joints, limits, groups and states.

    Args:
        name: the robot, or the path of its description.
        as_json: whether to print JSON instead of tables.
    """
    robot = load_description(name)
    if as_json:
        print_json(robot_data(robot))
        return
    console = Console()
    console.print(f"[bold]{robot.name}[/bold], {robot.kind}, base frame {robot.base_frame}")
    joints = Column("joint", no_wrap=True, min_width=max(map(len, robot.joint_names)))
    table = Table(
        joints, "lower", "upper", "velocity", "acceleration", "effort", "home", box=None
    )  # fmt: skip
    limits = robot.limits
    for i, joint in enumerate(robot.joint_names):
        numbers = (
            limits.lower[i], limits.upper[i], limits.velocity[i], limits.acceleration[i],
            limits.effort[i], robot.home[i],
        )  # fmt: skip
        table.add_row(joint, *(f"{n:.4g}" if np.isfinite(n) else "-" for n in numbers))
    console.print(table)
    for line in _lines(robot):
        # Not wrapped, since programs may read the lines.
        console.print(line, soft_wrap=True)


def _lines(robot: Robot) -> Iterator[str]:
    """Yield the lines below the table."""
    for group in robot.groups.values():
        ends = f", {group.base} to {group.tip}" if group.tip else ""
        aliases = f" (also {', '.join(group.aliases)})" if group.aliases else ""
        count = len(group.joints)
        joints = f"{count} joint{'s' * (count != 1)}"
        yield f"group [bold]{group.name}[/bold]{aliases}: {joints}{ends}"
    yield f"states: {', '.join(robot.state_names) or 'none'}"
    if robot.passive_joints:
        yield f"passive joints: {', '.join(robot.passive_joints)}"
    if robot.base is not None:
        yield from _base_lines(robot, robot.base)


def _base_lines(robot: Robot, base: BaseSpec) -> Iterator[str]:
    """Yield the lines about a mobile base."""
    if isinstance(base, HolonomicSpec):
        for wheel in base.wheels:
            yield (
                f"wheel [bold]{wheel.joint}[/bold]: radius {wheel.radius:g} m, rollers at "
                f"{wheel.roller_angle_deg:g} degrees"
            )
    else:
        yield f"wheels: {', '.join(base.wheel_names)}"
    if base.steering_names:
        yield f"steering: {', '.join(base.steering_names)}"
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {value:g}"
        for name, value in (robot.description.base or {}).items()
        if isinstance(value, int | float)
    )
    if numbers:
        yield f"base: {numbers}"
    yield f"max velocity: {base.linear.x.max_velocity} m/s, {base.angular.z.max_velocity} rad/s"

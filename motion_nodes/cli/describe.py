# SPDX-License-Identifier: Apache-2.0
"""``motion robots`` and ``motion describe``."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from motion_nodes.errors import MotionError
from motion_nodes.model.loader import available_robots, load_robot


def list_robots() -> None:
    """Print the robots that can be named."""
    table = Table("robot", "kind", "joints", "groups", "where", box=None)
    for name, path in sorted(available_robots().items()):
        try:
            robot = load_robot(name)
        except MotionError as error:
            table.add_row(name, "[red]cannot be used[/red]", "", "", str(error))
            continue
        groups = ", ".join(robot.groups)
        table.add_row(name, robot.kind, str(len(robot.joint_names)), groups, str(path))
    Console().print(table)


def describe_robot(name: str) -> None:
    """Print one robot's joints, limits, groups and states."""
    robot = load_robot(name)
    console = Console()
    console.print(f"[bold]{robot.name}[/bold], {robot.kind}, base frame {robot.base_frame}")
    table = Table("joint", "lower", "upper", "velocity", "acceleration", "effort", "home", box=None)
    limits = robot.limits
    for i, joint in enumerate(robot.joint_names):
        numbers = (
            limits.lower[i], limits.upper[i], limits.velocity[i], limits.acceleration[i],
            limits.effort[i], robot.home[i],
        )  # fmt: skip
        table.add_row(joint, *(f"{n:.4g}" if np.isfinite(n) else "-" for n in numbers))
    console.print(table)
    for group in robot.groups.values():
        ends = f", {group.base} to {group.tip}" if group.tip else ""
        aliases = f" (also {', '.join(group.aliases)})" if group.aliases else ""
        console.print(f"group [bold]{group.name}[/bold]{aliases}: {len(group.joints)} joints{ends}")
    console.print(f"states: {', '.join(robot.state_names) or 'none'}")
    if robot.base is not None:
        base = robot.base
        console.print(
            f"base: wheels {', '.join(base.wheel_names)}; "
            + (f"steering {', '.join(base.steering_names)}; " if base.steering_names else "")
            + "".join(
                f"{name.replace('_', ' ')} {value:g}, "
                for name, value in (robot.description.base or {}).items()
                if isinstance(value, int | float)
            )
            + f"up to {base.linear.x.max_velocity} m/s and {base.angular.z.max_velocity} rad/s"
        )

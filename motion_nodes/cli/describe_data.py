# SPDX-License-Identifier: Apache-2.0
"""Data of ``motion describe --json``."""

from __future__ import annotations

from typing import Any

from motion_nodes.model.robot import Robot


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

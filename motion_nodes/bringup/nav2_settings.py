# SPDX-License-Identifier: Apache-2.0
"""Settings of the base navigator from parameter files of Nav2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INSTEAD = {
    "behavior_server": "base_navigator has spin, backup and drive_on_heading, with its own limits",
    "bt_navigator": "base_navigator has its actions, without behavior trees",
    "collision_monitor": "base_navigator stops before obstacles (obstacles.*)",
    "controller_server": "base_navigator tracks paths by its own law, within the robot's limits",
    "global_costmap": "obstacles are points of scans and clouds (obstacles.*)",
    "local_costmap": "obstacles are points of scans and clouds (obstacles.*)",
    "planner_server": "base_navigator has compute_path_to_pose, with its own planner",
    "smoother_server": "paths of base_navigator are smooth by themselves",
    "velocity_smoother": "the controller of the base limits velocities and accelerations",
    "waypoint_follower": "base_navigator has follow_waypoints",
}
"""What the suite has in place of Nav2's nodes, by their names."""

PLUGINS = {
    "controller_server": (
        ("goal_checker_plugins", ("xy_goal_tolerance", "yaw_goal_tolerance")),
        ("progress_checker_plugins", ("required_movement_radius", "required_movement_angle",
                                      "movement_time_allowance")),
    ),
    "planner_server": (("planner_plugins", ("tolerance", "allow_unknown")),),
}  # fmt: skip
"""Used parameters of plugins: name of the list of plugins, of which the first is used."""
PREFIXES = {"planner_plugins": "planner."}
PLAIN = {"waypoint_follower": ("stop_on_failure",)}


def nav2_settings(node: str, values: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the parameters of the navigator for a section of Nav2.

    Args:
        node: name of Nav2's node, without a namespace.
        values: its parameters.

    Returns:
        Name and value of the navigator's parameter, by the name in the section.
    """
    found: dict[str, tuple[str, Any]] = {}
    for name in PLAIN.get(node, ()):
        if name in values:
            found[name] = (name, values[name])
    for plugins, names in PLUGINS.get(node, ()):
        first = next(iter(values.get(plugins) or ()), "")
        for name in names:
            given = values.get(f"{first}.{name}")
            if given is not None:
                whole = isinstance(given, int) and not isinstance(given, bool)
                own = f"{PREFIXES.get(plugins, '')}{name}"
                found[f"{first}.{name}"] = (own, float(given) if whole else given)
    return found


def nav2_note(node: str, values: Mapping[str, Any]) -> str:
    """Return what is used of a section of Nav2, and why the rest is not; empty: unknown node."""
    if node not in INSTEAD:
        return ""
    used = nav2_settings(node, values)
    if not used:
        return f"has no effect: {INSTEAD[node]}"
    return f"is used for {', '.join(used)}; the rest has no effect: {INSTEAD[node]}"

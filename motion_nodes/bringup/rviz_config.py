# SPDX-License-Identifier: Apache-2.0
"""Adapts RViz configuration files to robots: namespaces, frames and controllers.

The files are complete configurations for a robot without a namespace. Properties and classes:
RViz's display classes (rviz_default_plugins), MoveIt's (moveit_ros_visualization).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.files.yaml_file import read_yaml
from motion_nodes.model.placement import Placement
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros.names import BASE_CONTROLLERS, base_controller, under

WORLD = "world"
"""Fixed frame for several robots."""
SHARED = ("rviz_default_plugins/Grid", "rviz_default_plugins/TF")
"""Classes of displays that are shared by all robots."""


def view_config(placements: Iterable[Placement], folder: Path) -> dict[str, Any]:
    """Return a configuration that shows robots.

    Args:
        placements: the robots, by their namespaces.
        folder: where ``arm.rviz`` and ``base.rviz`` are.

    Raises:
        InvalidDescription: the file is not a configuration of RViz.
        RobotNotFound: an unknown robot.
    """
    robots = [(place, load_description(place.robot)) for place in placements]
    fitted = [_fitted(robot, place.namespace, _file(robot, folder)) for place, robot in robots]
    config = fitted[0]
    manager = config["Visualization Manager"]
    manager["Global Options"]["Fixed Frame"] = fixed_frame(robots)
    if len(robots) == 1:
        return config
    displays = [display for display in manager["Displays"] if display["Class"] in SHARED]
    tools = []
    for (place, _), each in zip(robots, fitted, strict=True):
        own = each["Visualization Manager"]
        alone = [display for display in own["Displays"] if display["Class"] not in SHARED]
        displays.append(
            {
                "Class": "rviz_common/Group",
                "Name": place.namespace,
                "Enabled": True,
                "Value": True,
                "Displays": alone,
            }
        )
        tools += [tool for tool in own["Tools"] if tool not in tools]
    manager["Displays"], manager["Tools"] = displays, tools
    return config


def panel_config(place: Placement, group: str, folder: Path) -> dict[str, Any]:
    """Return a configuration with MoveIt's panel for an arm.

    Args:
        place: the robot and its namespace.
        group: initially selected group or alias; empty: the first that is a chain.
        folder: where ``motion_planning.rviz`` is.

    Raises:
        InvalidConfig: the robot has no chain, or the group is none.
        UnknownGroup: there is no such group.
    """
    robot = load_description(place.robot)
    chains = planned_groups(robot)
    if not chains:
        raise InvalidConfig(f"robot '{robot.name}' has no arm; use view.launch.py", field="robot")
    name = robot.group(group).name if group else ""
    if name and name not in chains:
        raise InvalidConfig(
            f"group '{group}' is not a chain; chains: {', '.join(chains)}", field="group"
        )
    config = _fitted(robot, place.namespace, folder / "motion_planning.rviz")
    manager = config["Visualization Manager"]
    # The robot model of the panel does not support frame prefixes.
    manager["Global Options"]["Fixed Frame"] = robot.tree.root
    for display in manager["Displays"]:
        if "Planning Request" in display:
            display["Move Group Namespace"] = f"/{place.namespace}" if place.namespace else ""
            display["Planning Request"]["Planning Group"] = group or chains[0]
    return config


def planned_groups(robot: Robot) -> list[str]:
    """Return the groups that MoveIt's panel can plan for, without aliases."""
    return [group.name for group in robot.groups.values() if group.tip is not None]


def fixed_frame(robots: Iterable[tuple[Placement, Robot]]) -> str:
    """Return the fixed frame: that of a single robot, else the world."""
    frames = [root_frame(place, robot) for place, robot in robots]
    return frames[0] if len(frames) == 1 else WORLD


def root_frame(place: Placement, robot: Robot) -> str:
    """Return the frame of /tf to which a robot is attached."""
    frame = robot.base_frame if robot.base is None else robot.description.frames.odom
    return under(place.namespace, frame)


def _file(robot: Robot, folder: Path) -> Path:
    return folder / ("arm.rviz" if robot.base is None else "base.rviz")


def _fitted(robot: Robot, namespace: str, file: Path) -> dict[str, Any]:
    """Return a file with the topics of a robot."""

    def topic(name: str) -> str:
        plain = BASE_CONTROLLERS["differential"]
        if robot.base is not None:
            name = name.replace(f"/{plain}/", f"/{base_controller(robot)}/")
        return f"/{under(namespace, name.removeprefix('/'))}"

    def fitted(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            inner = {k: fitted(v, k) for k, v in value.items()}
            if key.endswith("Topic"):
                inner["Value"] = topic(value["Value"])
            return inner
        if isinstance(value, list):
            return [fitted(each) for each in value]
        if key.endswith("Topic"):
            return topic(value)
        return namespace if key == "TF Prefix" else value

    config: dict[str, Any] = fitted(read_yaml(file))
    return config

# SPDX-License-Identifier: Apache-2.0
"""Processes of the launch files for RViz, from their arguments."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motion_nodes.bringup.arguments import YES_NO, Argument, checked
from motion_nodes.bringup.rviz_config import (
    WORLD,
    panel_config,
    planned_groups,
    root_frame,
    view_config,
)
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.files.yaml_file import yaml_text
from motion_nodes.model.placement import Placement, parse_placements
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros.names import under

_SIM_TIME = Argument(
    "use_sim_time", "true", "Use /clock as time source: true with a simulation.", YES_NO
)
_CONFIG = Argument("rviz_config", "", "RViz configuration file, used unchanged.")

VIEW_ARGUMENTS = (
    Argument("robot", "franka", "Running robots, separated by ';': [NAMESPACE:=]ROBOT[@X,Y,YAW]."),
    _SIM_TIME,
    _CONFIG,
)
PANEL_ARGUMENTS = (
    Argument("robot", "franka", "Running arm: [NAMESPACE:=]ROBOT."),
    Argument("group", "", "Initially selected group; empty: the first."),
    Argument("ik_plugin", "kdl_kinematics_plugin/KDLKinematicsPlugin",
             "Kinematics plugin of the panel's interactive marker, executed by RViz."),
    _SIM_TIME,
    _CONFIG,
)  # fmt: skip

IK_RESOLUTION, IK_TIMEOUT = 0.005, 0.05
"""[rad], [s] Settings of the panel's own inverse kinematics, MoveIt's defaults."""


@dataclass(frozen=True)
class Tool:
    """A program of another package."""

    package: str
    executable: str
    arguments: tuple[str, ...]
    namespace: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


def view_tools(values: Mapping[str, str], folder: Path) -> list[Tool]:
    """Return the processes that show robots in RViz.

    Several robots are shown in the world frame, at the placements in ``robot``.

    Args:
        values: texts of VIEW_ARGUMENTS.
        folder: folder of the shipped RViz configurations.

    Raises:
        InvalidConfig: an unknown argument or value, or a missing file.
        RobotNotFound: an unknown robot.
    """
    text = checked(values, VIEW_ARGUMENTS)
    placements = parse_placements(text["robot"].split(";"))
    file = _own(text) or _written(view_config(placements, folder))
    tools = [_rviz(file, text)]
    if len(placements) > 1:
        tools += [_static_frame(place, load_description(place.robot)) for place in placements]
    return tools


def panel_tools(values: Mapping[str, str], folder: Path) -> list[Tool]:
    """Return the processes of RViz with MoveIt's panel for one arm.

    Args:
        values: texts of PANEL_ARGUMENTS.
        folder: folder of the shipped RViz configurations.

    Raises:
        InvalidConfig: an unknown argument, several robots, or one without an arm.
        RobotNotFound: an unknown robot.
    """
    text = checked(values, PANEL_ARGUMENTS)
    placements = parse_placements(text["robot"].split(";"))
    if len(placements) > 1:
        raise InvalidConfig(
            f"a panel is for one arm; {len(placements)} robots were given", field="robot"
        )
    place = placements[0]
    robot = load_description(place.robot)
    config = panel_config(place, text["group"], folder)
    tools = [
        _rviz(
            _own(text) or _written(config),
            text,
            place.namespace,
            {"robot_description_kinematics": _kinematics(robot, text["ik_plugin"])},
        )
    ]
    if place.namespace:
        # The panel's model has no frame prefix; its root coincides with the robot's.
        root = robot.tree.root
        tools.append(_transform(Placement(place.robot), under(place.namespace, root), root))
    return tools


def _own(text: Mapping[str, str]) -> str:
    """Return the user's own file; empty for none."""
    file = text["rviz_config"]
    if file and not Path(file).is_file():
        raise InvalidConfig(f"rviz_config '{file}' does not exist", field="rviz_config")
    return file


def _written(config: Mapping[str, Any]) -> str:
    """Write a configuration to a temporary file and return its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="motion_nodes_", suffix=".rviz", delete=False, encoding="utf-8"
    ) as file:
        file.write(yaml_text(config))
    return file.name


def _rviz(
    file: str,
    text: Mapping[str, str],
    namespace: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Tool:
    timed = {"use_sim_time": text["use_sim_time"] == "true", **(parameters or {})}
    return Tool("rviz2", "rviz2", ("-d", file), namespace, timed)


def _kinematics(robot: Robot, plugin: str) -> dict[str, Any]:
    """Return the settings of the panel's inverse kinematics, for groups and their aliases."""
    settings = {
        "kinematics_solver": plugin,
        "kinematics_solver_search_resolution": IK_RESOLUTION,
        "kinematics_solver_timeout": IK_TIMEOUT,
    }
    groups = [robot.groups[name] for name in planned_groups(robot)]
    return {name: settings for group in groups for name in (group.name, *group.aliases)}


def _static_frame(place: Placement, robot: Robot) -> Tool:
    return _transform(place, WORLD, root_frame(place, robot))


def _transform(place: Placement, parent: str, child: str) -> Tool:
    """Return the node that publishes the pose of a frame on /tf_static."""
    words = {"x": place.x, "y": place.y, "yaw": place.yaw}
    numbers = [word for name, value in words.items() for word in (f"--{name}", repr(value))]
    frames = ("--frame-id", parent, "--child-frame-id", child)
    return Tool("tf2_ros", "static_transform_publisher", (*numbers, *frames))

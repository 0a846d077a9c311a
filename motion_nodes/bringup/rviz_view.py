# SPDX-License-Identifier: Apache-2.0
"""Processes of the launch files for RViz, from their arguments.

Adapts RViz configuration files to robots: namespaces, frames and controllers. The files are
complete configurations for a robot without a namespace. Properties and classes: RViz's display
classes (rviz_default_plugins), MoveIt's (moveit_ros_visualization).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motion_nodes.bringup.bringup_config import YES_NO, Argument, checked
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.placement import Placement, parse_placements
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.yaml_schema import read_yaml, yaml_text
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.names import BASE_CONTROLLERS, base_controller, under

WORLD = "world"
"""Fixed frame for several robots."""
SHARED = ("rviz_default_plugins/Grid", "rviz_default_plugins/TF")
"""Classes of displays that are shared by all robots."""
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
    fitted = [
        _fitted(robot, place.namespace, folder / f"{'base' if robot.base else 'arm'}.rviz")
        for place, robot in robots
    ]
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
        for place in placements:
            tools.append(_transform(place, WORLD, root_frame(place, load_description(place.robot))))
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


def _transform(place: Placement, parent: str, child: str) -> Tool:
    """Return the node that publishes the pose of a frame on /tf_static."""
    words = {"x": place.x, "y": place.y, "yaw": place.yaw}
    numbers = [word for name, value in words.items() for word in (f"--{name}", repr(value))]
    frames = ("--frame-id", parent, "--child-frame-id", child)
    return Tool("tf2_ros", "static_transform_publisher", (*numbers, *frames))

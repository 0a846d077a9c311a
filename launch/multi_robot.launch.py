# SPDX-License-Identifier: Apache-2.0
"""Starts several robots in one cell, each in its own namespace, optionally with RViz.

ros2 launch motion_nodes multi_robot.launch.py robots:="a:=jetbot@0,0,0; b:=franka@1,0,0" rviz:=true
"""

from collections.abc import Mapping
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from motion_nodes.bringup.bringup_config import ARGUMENTS, CELL_ARGUMENTS, config_from
from motion_nodes.bringup.launch_file import describe

FOLDER = Path(__file__).parent


def include(name: str, values: Mapping[str, str]) -> IncludeLaunchDescription:
    """Return the inclusion of a launch file with arguments."""
    source = PythonLaunchDescriptionSource(str(FOLDER / name))
    return IncludeLaunchDescription(source, launch_arguments=values.items())


def start(_context: LaunchContext, values: Mapping[str, str]) -> list[IncludeLaunchDescription]:
    """Return the launch files for the given arguments."""
    of_suite = {**values, "robot": values["robots"]}
    of_suite = {argument.name: of_suite[argument.name] for argument in ARGUMENTS}
    config = config_from(of_suite)
    included = [include("bringup.launch.py", of_suite)]
    if values["rviz"] == "true":
        words = "; ".join(place.word for place in config.within_namespace)
        shown = {"robot": words, "use_sim_time": str(config.sim_time).lower(), "rviz_config": ""}
        included.append(include("view.launch.py", shown))
    return included


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return describe(CELL_ARGUMENTS, start)

# SPDX-License-Identifier: Apache-2.0
"""Several robots in one cell, each under its own namespace, and RViz with all of them if wanted.

ros2 launch motion_nodes multi_robot.launch.py robots:="a:=jetbot@0,0,0; b:=franka@1,0,0" rviz:=true
"""

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from motion_nodes.bringup.arguments import ARGUMENTS, CELL_ARGUMENTS, config_from

FOLDER = Path(__file__).parent


def arg_all() -> list[DeclareLaunchArgument]:
    """Return the launch arguments, as motion_nodes.bringup.arguments lists them."""
    return [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            **({"choices": list(argument.choices)} if argument.choices else {}),
        )
        for argument in CELL_ARGUMENTS
    ]


def include(name: str, values: dict[str, str]) -> IncludeLaunchDescription:
    """Return another launch file with its arguments."""
    source = PythonLaunchDescriptionSource(str(FOLDER / name))
    return IncludeLaunchDescription(source, launch_arguments=values.items())


def start(context: LaunchContext) -> list[IncludeLaunchDescription]:
    """Return what the arguments ask for."""
    values = {a.name: LaunchConfiguration(a.name).perform(context) for a in CELL_ARGUMENTS}
    values["robot"] = values.pop("robots")
    rviz = values.pop("rviz") == "true"
    config = config_from(values)
    included = [include("bringup.launch.py", {a.name: values[a.name] for a in ARGUMENTS})]
    if rviz:
        words = "; ".join(place.word for place in config.within_namespace)
        shown = {"robot": words, "use_sim_time": str(config.sim_time).lower(), "rviz_config": ""}
        included.append(include("view.launch.py", shown))
    return included


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return LaunchDescription([*arg_all(), OpaqueFunction(function=start)])

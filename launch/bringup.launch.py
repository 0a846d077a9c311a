# SPDX-License-Identifier: Apache-2.0
"""Starts the suite for one or more robots, under one supervisor (docs/supervision.md).

ros2 launch motion_nodes bringup.launch.py robot:=franka
ros2 launch motion_nodes bringup.launch.py robot:="a:=jetbot@0,0,0; b:=franka@1,0,0"
"""

import sys
from collections.abc import Mapping

from launch import LaunchDescription
from launch.actions import ExecuteProcess

from motion_nodes.bringup.bringup_config import ARGUMENTS, config_from
from motion_nodes.bringup.launch_file import describe

STOP_TIMEOUT = "10"
"""Time from SIGINT to SIGTERM [s]; the supervisor itself ends processes that do not stop."""


def start(values: Mapping[str, str]) -> list[ExecuteProcess]:
    """Return the supervisor, which starts the suite's processes; reject invalid arguments."""
    config_from(values)
    arguments = [f"{name}:={value}" for name, value in values.items()]
    command = [sys.executable, "-m", "motion_nodes.bringup.suite", *arguments]
    return [
        ExecuteProcess(
            cmd=command, name="motion_nodes", output="screen", sigterm_timeout=STOP_TIMEOUT
        )
    ]


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    return describe(ARGUMENTS, start)

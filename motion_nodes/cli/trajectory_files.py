# SPDX-License-Identifier: Apache-2.0
"""Files of motions for commands: those of the core, and recordings of ROS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motion_nodes.core.trajectory import trajectory_files
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidDescription


def read_motion(
    file: str, joints: Sequence[str] = ()
) -> JointTrajectory | trajectory_files.Waypoints | trajectory_files.PathFile:
    """Return the trajectory, waypoints or path in a file; MCAP: joint states.

    Other files and errors are those of :func:`.trajectory_files.read_motion`.

    Args:
        file: name of the file.
        joints: of the robot, for recordings.

    Raises:
        InvalidDescription: the file cannot be read, or has none of these forms.
    """
    path = Path(file)
    if path.suffix != ".mcap":
        return trajectory_files.read_motion(file)
    try:
        from motion_nodes.ros.recording import recorded_motion
    except ImportError as error:
        raise InvalidDescription(f"{path}: recordings of ROS need rclpy ({error})") from None
    return recorded_motion(path, joints)

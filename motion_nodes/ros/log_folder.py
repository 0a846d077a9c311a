# SPDX-License-Identifier: Apache-2.0
"""Log files of ROS: disabled where their folder is not writable, instead of an error at start."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

NO_LOG_FILES = ("--ros-args", "--disable-external-lib-logs", "--")


def log_folder() -> Path:
    """Return the folder of rcl's log files: ROS_LOG_DIR, ROS_HOME/log or ~/.ros/log."""
    folder = os.environ.get("ROS_LOG_DIR")
    if folder:
        return Path(folder).expanduser()
    home = os.environ.get("ROS_HOME") or "~/.ros"
    return Path(home).expanduser() / "log"


def init_arguments(args: Sequence[str] | None = None) -> list[str]:
    """Return arguments for ``rclpy.init``, without log files if they cannot be written.

    Args:
        args: arguments of the process; None for ``sys.argv``.
    """
    args = list(sys.argv if args is None else args)
    folder = log_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return args
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        print(f"no log files: {folder}: {reason}; see ROS_LOG_DIR", file=sys.stderr, flush=True)
        return [*args, *NO_LOG_FILES]

# SPDX-License-Identifier: Apache-2.0
"""Environment of ROS: checks of its installation for ``motion doctor``, arguments of nodes.

Log files of ROS are disabled where their folder is not writable, instead of an error at start.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NO_LOG_FILES = ("--ros-args", "--disable-external-lib-logs", "--")
MESSAGE_PACKAGES = (
    "ackermann_msgs", "action_msgs", "builtin_interfaces", "control_msgs",
    "controller_manager_msgs", "diagnostic_msgs", "geometry_msgs", "lifecycle_msgs", "moveit_msgs",
    "nav2_msgs", "nav_msgs", "octomap_msgs", "rcl_interfaces", "rosgraph_msgs", "sensor_msgs",
    "shape_msgs", "std_msgs", "std_srvs", "tf2_msgs", "trajectory_msgs", "visualization_msgs",
)  # fmt: skip


def share_folders() -> list[Path]:
    """Return share/ of this environment and of each prefix of a sourced ROS."""
    prefixes = [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]
    return [Path(prefix) / "share" for prefix in dict.fromkeys(prefixes) if prefix]


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
    if "HOME" not in os.environ:
        # As in services and containers; rcl fails without it, the user's entry has it.
        home = os.path.expanduser("~")
        os.environ["HOME"] = home if home != "~" else "/"
    folder = log_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return args
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        print(f"no log files: {folder}: {reason}; see ROS_LOG_DIR", file=sys.stderr, flush=True)
        return [*args, *NO_LOG_FILES]


@dataclass(frozen=True)
class Check:
    """Result of one check."""

    what: str
    """Subject of the check."""
    ok: bool
    text: str
    """Versions found, or the problem and its remedy."""


def check_rclpy() -> Check:
    """Check whether rclpy can be imported, and find its distribution."""
    try:
        importlib.import_module("rclpy")
    except Exception as error:
        return Check("rclpy", False, f"cannot be imported: {error}. See README.md, 'Install'.")
    distro = os.environ.get("ROS_DISTRO")
    if distro:
        return Check("rclpy", True, f"from the sourced ROS '{distro}'")
    for name in ("ros-jazzy-rclpy", "ros-kilted-rclpy", "ros-rclpy"):
        try:
            return Check("rclpy", True, f"{name} {importlib.metadata.version(name)} (wheels)")
        except importlib.metadata.PackageNotFoundError:
            continue
    return Check("rclpy", True, "found")


def check_middleware() -> Check:
    """Report the middleware in use."""
    try:
        from rclpy.utilities import get_rmw_implementation_identifier

        domain = os.environ.get("ROS_DOMAIN_ID", "0")
        reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
        name = get_rmw_implementation_identifier()
        return Check("middleware", True, f"{name}, domain {domain}, discovery {reach}")
    except Exception as error:
        return Check("middleware", False, str(error))


def check_messages() -> Check:
    """Check whether all message packages are installed."""
    missing = []
    for name in MESSAGE_PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    if missing:
        return Check(
            "messages",
            False,
            f"missing: {', '.join(missing)}. Run 'motion setup', or install them with your ROS.",
        )
    return Check("messages", True, f"{len(MESSAGE_PACKAGES)} packages found")


def check_two_processes(timeout: float = 10.0) -> Check:
    """Check whether messages of another process are received.

    Args:
        timeout: max time to wait for the first message [s].
    """
    import rclpy
    from rclpy.context import Context
    from rclpy.executors import SingleThreadedExecutor
    from std_msgs.msg import String

    topic = f"motion_doctor_{os.getpid()}"
    child = subprocess.Popen(
        [sys.executable, "-m", "motion_nodes.ros.environment", topic, str(timeout)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    context = Context()
    rclpy.init(args=init_arguments([]), context=context)
    begin = time.monotonic()
    received: list[str] = []
    try:
        node = rclpy.create_node("motion_doctor", context=context)
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)
        node.create_subscription(String, topic, lambda m: received.append(m.data), 1)
        while not received and time.monotonic() - begin < timeout:
            executor.spin_once(timeout_sec=0.1)
        node.destroy_node()
    finally:
        child.terminate()
        child.wait()
        rclpy.shutdown(context=context)
    took = time.monotonic() - begin
    if received:
        return Check("two processes", True, f"communicate (first message after {took:.1f} s)")
    return Check(
        "two processes",
        False,
        f"no message within {timeout:.0f} s; check the firewall, shared memory of containers, and "
        "ROS_DOMAIN_ID",
    )


def _publish(topic: str, seconds: float) -> None:
    """Publish on a topic: the other process of :func:`check_two_processes`."""
    import rclpy
    from std_msgs.msg import String

    rclpy.init(args=init_arguments([]))
    node = rclpy.create_node("motion_doctor_publisher")
    publisher = node.create_publisher(String, topic, 1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        publisher.publish(String(data="hello"))
        time.sleep(0.05)


if __name__ == "__main__":
    _publish(sys.argv[1], float(sys.argv[2]))

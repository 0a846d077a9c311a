# SPDX-License-Identifier: Apache-2.0
"""The launch files of docs/launch.md, over DDS.

One includes ours, remaps a topic and adds a node; one loads nodes into a container.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nav_msgs.msg import Odometry
from own_domain import ENVIRONMENT
from ros_client import RosClient
from sensor_msgs.msg import JointState
from std_msgs.msg import String

ROOT = Path(__file__).parents[2]
MONITOR = f"""#!{sys.executable}
import rclpy
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String

rclpy.init()
node = Node("monitor")
told = node.create_publisher(String, "told", 10)
def tell(message):
    told.publish(String(data=message.name[0]))
node.create_subscription(JointState, "joint_states", tell, 10)
rclpy.spin(node)
"""
RUN = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

service = LaunchService()
source = PythonLaunchDescriptionSource(sys.argv[1])
arguments = [word.split(":=", 1) for word in sys.argv[2:]]
service.include_launch_description(IncludeLaunchDescription(source, launch_arguments=arguments))
sys.exit(service.run())
"""


def package(prefix: Path, name: str, programs: Path | None = None) -> None:
    """Make a package that ament finds below a prefix."""
    for folder in ("share/ament_index/resource_index/packages", "lib", f"share/{name}"):
        (prefix / folder).mkdir(parents=True, exist_ok=True)
    (prefix / "share/ament_index/resource_index/packages" / name).touch()
    if programs is not None:
        (prefix / "lib" / name).symlink_to(programs)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a launch as Ctrl-C in a terminal does, with all its processes."""
    os.killpg(process.pid, signal.SIGINT)


@pytest.fixture
def launched(request, ros, tmp_path):
    """Run a launch file of the page, by its number; yield its process and a client."""
    pytest.importorskip("launch_ros", reason="launch_ros not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/monitor").write_text(MONITOR)
    (tmp_path / "bin/monitor").chmod(0o755)
    package(tmp_path, "motion_nodes", ROOT / "scripts")
    package(tmp_path, "my_package", tmp_path / "bin")
    (tmp_path / "share/motion_nodes/launch").symlink_to(ROOT / "launch")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/launch.md").read_text(), re.DOTALL)
    own = tmp_path / "own.launch.py"
    own.write_text(blocks[request.param])
    environment = ENVIRONMENT | {
        "AMENT_PREFIX_PATH": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
    }
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, own], env=environment, cwd=tmp_path, stdout=log,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    client = RosClient()
    try:
        yield process, client, tmp_path / "log"
    finally:
        client.close()
        with contextlib.suppress(ProcessLookupError):
            interrupt(process)
        try:
            process.wait(30)
        finally:
            process.kill()


@pytest.mark.parametrize("launched", [0], indirect=True)
def test_an_own_launch_file_remaps_a_topic_adds_a_node_and_replaces_a_process(launched):
    process, client, log = launched
    told = client.listen(String, "told")
    states = client.listen(JointState, "measured_states")
    try:
        client.wait(lambda: told.messages and states.messages, "states under the new name")
        node = "/joint_trajectory_controller"  # of a container
        client.wait(lambda: client.state(node) == "active", "the controller")
        assert told.newest.data == states.newest.name[0] == "panda_joint1"
        assert client.node.count_publishers("joint_states") == 0
        assert client.node.count_subscribers("measured_states") >= 3
        (pid,) = (
            int(entry)
            for entry in os.listdir("/proc")
            if entry.isdigit() and is_simulation(int(entry), process.pid)
        )
        os.kill(pid, signal.SIGKILL)
        client.spin(0.5)
        states.clear()
        client.wait(lambda: states.messages, "states of the replaced simulation")
    except BaseException:
        print(log.read_text())
        raise
    interrupt(process)
    assert process.wait(30) == 0
    assert "failed to terminate" not in log.read_text()


@pytest.mark.parametrize("launched", [1], indirect=True)
def test_a_container_of_launch_ros_loads_our_nodes(launched):
    process, client, log = launched
    odometry = client.listen(Odometry, "/lab/wheel_odom")
    try:
        client.wait(lambda: odometry.messages, "odometry under the new name")
        assert client.state("/lab/diff_drive_controller") == "active"
        assert client.node.count_publishers("/lab/diff_drive_controller/odom") == 0
    except BaseException:
        print(log.read_text())
        raise
    interrupt(process)
    assert process.wait(30) == 0
    assert "failed to terminate" not in log.read_text()
    assert "Loaded node '/lab/diff_drive_controller'" in log.read_text()


def is_simulation(pid: int, parent: int) -> bool:
    """Return whether a process is the simulation that a launch started."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        above = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return above == parent and b"mock_sim" in words

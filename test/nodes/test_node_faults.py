# SPDX-License-Identifier: Apache-2.0
"""User errors, in processes: one clear line, exit code 1, other nodes unaffected."""

import json
import re
import shutil
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from ros_client import values_of
from ros_processes import Suite, SuiteProcess
from rosgraph_msgs.msg import Clock

from motion_nodes.ros import qos

SHIPPED = Path(__file__).parents[2] / "motion_nodes" / "robots"


def refused(process: SuiteProcess, *texts: str) -> None:
    """Check that a process ended with exit code 1 and one line with the reason."""
    assert process.exit_code() == 1, str(process)
    lines = [line for line in process.output.splitlines() if re.search(r"cannot|FATAL", line)]
    assert len(lines) == 1, str(process)
    for text in texts:
        assert text in lines[0], str(process)
    assert "Traceback" not in process.output


@pytest.fixture
def robots(tmp_path):
    """A folder of robots, with a copy of the JetBot to be damaged."""
    shutil.copytree(SHIPPED / "jetbot", tmp_path / "robots" / "mine")
    description = tmp_path / "robots" / "mine" / "robot.yaml"
    description.write_text(description.read_text().replace("name: jetbot", "name: mine"))
    return tmp_path / "robots"


def start(suite: Suite, robots: Path, executable: str = "differential_base") -> SuiteProcess:
    path = {"MOTION_NODES_ROBOT_PATH": str(robots)}
    if executable.endswith("_sim"):
        return suite.node(executable, robots=["mine"], variables=path)
    return suite.node(executable, robot="mine", variables=path)


@pytest.mark.long
def test_a_robot_from_the_users_folder(suite, robots, client):
    start(suite, robots)
    client.wait_for_diagnosis("/diff_drive_controller", "waiting for joint_states")


@pytest.mark.long
@pytest.mark.parametrize("executable", ["differential_base", "mock_sim"])
def test_corrupt_yaml(suite, robots, executable):
    (robots / "mine" / "robot.yaml").write_text("format: 1\nname: [mine\n")
    refused(start(suite, robots, executable), "robot.yaml", "line")


def test_two_robots_in_one_namespace(suite):
    refused(suite.node("mock_sim", robots=["jetbot", "franka"]), "namespace", "a:=franka")
    refused(suite.node("mock_sim", robots=["a:=jetbot", "a:=franka"]), "namespace 'a'")


def test_unknown_robot(suite):
    refused(suite.node("robot_state", robot="frank"), "'frank'", "Did you mean 'franka'?")


def test_no_robot(suite):
    refused(suite.node("articulation_controller"), "-p robot:=franka")
    refused(suite.node("mock_sim"), "'robots' is required")


def test_the_wrong_kind_of_robot(suite):
    refused(suite.node("differential_base", robot="franka"), "'franka' is of kind 'arm'")
    refused(suite.node("articulation_controller", robot="jetbot"), "has no joints for this")


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"robot": 5}, "'robot' is 5; it must be of type string"),
        ({"robot": "jetbot", "wheel_radius": "big"}, "must be of type double"),
        ({"robot": "jetbot", "cmd_vel_timeout": -1.0}, "cmd_vel_timeout"),
        ({"robot": "jetbot", "pose_covariance_diagonal": [1.0]}, "has 1 entries; it needs 6"),
        ({"robot": "jetbot", "odom_frame_id": ""}, "odom_frame_id is ''; a frame needs a name"),
        ({"robot": "jetbot", "odom_frame_id": "base_link"}, "are both 'base_link'"),
        ({"robot": "jetbot", "autostart": 7}, "'autostart' is 7; it must be of type bool"),
        ({"robot": "jetbot", "left_wheel_names": ["left_weel"]}, "'left_weel' is not known"),
    ],
)
def test_wrong_parameters(suite, parameters, text):
    refused(suite.node("differential_base", **parameters), text)


@pytest.mark.parametrize(
    "ros_args",
    [["-p"], ["--params-file", "/does/not/exist.yaml"], ["-r", "__node:=a-b"],
     ["--log-level", "loud"]],
)  # fmt: skip
def test_wrong_ros_arguments(suite, ros_args):
    process = suite.node("differential_base", robot="jetbot", ros_args=ros_args)
    refused(process, "cannot start: ")
    assert ".c:" not in process.output.splitlines()[-1]


def test_an_unknown_parameter_is_told(suite, client):
    process = suite.node("differential_base", robot="jetbot", wheel_radios=0.1)
    process.wait_for("parameter 'wheel_radios' is unknown to this node and has no effect.")
    process.wait_for("Did you mean 'wheel_radius'?")


def test_unknown_executable(suite):
    process = suite.node("diferential_base", robot="jetbot")
    assert process.exit_code() == 2
    assert "Did you mean 'differential_base'?" in process.output


def test_a_second_clock_is_refused_before_it_is_published(suite, client):
    first = suite.node("mock_sim", robots=["jetbot"])
    client.wait_for_diagnosis("/mock_sim", "")
    times = client.listen(Clock, "/clock", qos.CLOCK)
    second = suite.node("mujoco_sim", robots=["franka"])
    refused(second, "/clock", f"process {first.pid}", "ROS_DOMAIN_ID")
    client.wait(lambda: len(times.messages) > 20, "the first clock")
    stamps = [m.clock.sec + 1e-9 * m.clock.nanosec for m in times.messages]
    assert stamps == sorted(stamps)


def test_a_second_instance_is_refused(suite, client):
    first = suite.node("differential_base", robot="jetbot")
    first.wait_for("configured in")
    second = suite.node("differential_base", robot="jetbot")
    refused(second, "/diff_drive_controller already runs", f"process {first.pid}", "__node:=")
    assert first.running
    other = suite.node("differential_base", robot="jetbot", namespace="b")
    other.wait_for("configured in")
    first.kill()
    again = suite.node("differential_base", robot="jetbot")
    again.wait_for("configured in")
    client.wait_for_diagnosis("/diff_drive_controller", "waiting", DiagnosticStatus.WARN)


def listed(executable: str, name: str, **parameters: object) -> dict[str, object]:
    args = ["--ros-args", "-r", f"__node:={name}"]
    for key, value in parameters.items():
        args += ["-p", f"{key}:={json.dumps(value)}"]
    return {"executable": executable, "ros_args": args}


def test_a_container_with_a_broken_node(suite):
    process = suite.container(
        [
            listed("robot_state", "good", robot="jetbot"),
            listed("differential_base", "bad", robot="jetbot", wheel_radius=-1.0),
        ]
    )
    refused(process, "[bad]", "wheel_radius")


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ("not json", "container needs --nodes with a JSON list"),
        ('[{"executable": "robot_state"}]', "'ros_args'"),
        ('[{"executable": "robot_stat", "ros_args": []}]', "Did you mean 'robot_state'?"),
        ("[]", "the list is empty"),
    ],
)
def test_a_container_that_is_told_nonsense(suite, nodes, text):
    import sys

    process = suite.run([sys.executable, "-m", "motion_nodes.nodes", "container", "--nodes", nodes])
    assert process.exit_code() == 2
    assert text in process.output
    assert "Traceback" not in process.output


def test_a_port_in_use(suite, client):
    """The viewer takes a later port, or reports that the port is in use."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        strict = suite.node("browser_viewer", robots=["jetbot"], port=port, port_search=0)
        refused(strict, str(port), "in use")
        lenient = suite.node("browser_viewer", robots=["jetbot"], port=port, port_search=50)
        client.wait_for_diagnosis("/browser_viewer", "waiting for joint_states")
        address = values_of(client.diagnostics("/browser_viewer"))["address"]
        assert 0 < urlsplit(address).port - port <= 50
        lenient.wait_for(f"open {address} in a browser")


@pytest.mark.long
def test_a_simulation_that_cannot_keep_up_says_so(suite, client):
    robots = [f"arm_{i}:=franka@{2 * i},0,0" for i in range(16)]
    suite.node("mujoco_sim", robots=robots, real_time_factor=10.0, update_rate=50.0)
    status = client.wait_for_diagnosis("/mujoco_sim", "real-time factor is")
    assert status.level == DiagnosticStatus.WARN

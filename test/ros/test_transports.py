# SPDX-License-Identifier: Apache-2.0
"""Transports of the middleware, its security, and overridden quality of service."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import wait_until
from rclpy.qos import DurabilityPolicy, HistoryPolicy, ReliabilityPolicy
from ros.probe import make, served
from std_msgs.msg import Int64

from motion_nodes.cli.ros2 import parser_of
from motion_nodes.errors import MotionError
from motion_nodes.nodes.clients.ros2 import nodes, topic
from motion_nodes.nodes.registry import node_class
from motion_nodes.ros import qos
from motion_nodes.ros.transports import (
    CHOSEN,
    LOOPBACK,
    PROFILES,
    RANGE,
    SUITE,
    UDP,
    VARIABLE,
    check_security,
    choose_transports,
    explained,
)


@pytest.fixture
def unset(monkeypatch):
    for name in CHOSEN:
        monkeypatch.setenv(name, "")  # restored afterwards, too, where it was not set
    monkeypatch.setenv(RANGE, "SUBNET")
    return monkeypatch


def test_processes_use_udp_unless_they_handle_images(unset):
    choose_transports(images=True)
    assert not os.environ[VARIABLE]
    choose_transports(images=False)
    assert os.environ[VARIABLE] == UDP
    assert {os.environ[name] for name in PROFILES} == {str(SUITE)}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_choice_of_the_user_is_kept(unset, name):
    unset.setenv(name, "SHM")
    choose_transports(images=False)
    assert os.environ[VARIABLE] == ("SHM" if name == VARIABLE else "")


def test_nodes_that_handle_images(monkeypatch):
    assert node_class("occupancy_mapper").handles_images()
    assert node_class("object_detector").handles_images()
    assert not node_class("articulation_controller").handles_images()
    assert not node_class("mujoco_sim").handles_images()
    monkeypatch.setattr("sys.argv", ["mujoco_sim", "--ros-args", "-p", 'cameras:=["a:=b@0,0,0"]'])
    assert node_class("mujoco_sim").handles_images()


def test_a_range_of_this_machine_is_a_profile_of_fast_dds(unset):
    unset.setenv(RANGE, "LOCALHOST")
    choose_transports(images=True)
    assert os.environ[RANGE] == "LOCALHOST"
    choose_transports(images=False)
    assert {os.environ[name] for name in PROFILES} == {str(LOOPBACK)}
    assert os.environ[RANGE] == "SUBNET"


@pytest.mark.parametrize(
    "variable", [{"ROS_STATIC_PEERS": "192.0.2.7"}, {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"}]
)
def test_a_range_of_this_machine_is_kept_where_no_profile_applies(unset, variable):
    unset.setenv(RANGE, "LOCALHOST")
    for name, value in variable.items():
        unset.setenv(name, value)
    choose_transports(images=False)
    assert os.environ[RANGE] == "LOCALHOST"
    assert str(LOOPBACK) not in {os.environ[name] for name in PROFILES}


NOTHING_CHOSEN = dict.fromkeys(CHOSEN, "")


@pytest.mark.parametrize(
    ("variables", "shared", "loopback"),
    [
        ({RANGE: "SUBNET"}, False, False),
        ({RANGE: "SUBNET", VARIABLE: "DEFAULT"}, True, False),
        ({RANGE: "LOCALHOST"}, False, True),
    ],
)
def test_a_node_opens_shared_memory_only_on_request(suite, variables, shared, loopback):
    process = suite.node("robot_state", robot="franka", variables=NOTHING_CHOSEN | variables)

    def files() -> list[str]:
        found = []
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(link))
        return found

    wait_until(lambda: any("robot_state.lock" in file for file in files()), "a node")
    assert any("fastrtps_port" in file for file in files()) == shared
    rows = [row.split() for row in Path(f"/proc/{process.pid}/net/udp").open()]
    bound = {row[1].partition(":")[0] for row in rows if f"socket:[{row[9]}]" in files()}
    assert (bound == {"0100007F"}) == loopback, bound


SERVICES = 20
MEMORY_OF_SERVICES = f"""
import ctypes, os
from motion_nodes.ros.transports import choose_transports
choose_transports(images=False)
import rclpy
from rcl_interfaces.srv import GetParameters
from rclpy.qos import qos_profile_parameters

class MallocInfo(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

info = ctypes.CDLL(None).mallinfo2
info.restype = MallocInfo
rclpy.init()
node = rclpy.create_node("memory_of_services", use_global_arguments=False)
before = info().uordblks
for number in range({SERVICES}):
    node.create_service(GetParameters, f"s{{number}}", print, qos_profile=qos_profile_parameters)
print(info().uordblks - before, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("discovery", ["SUBNET", "LOCALHOST"])
def test_endpoints_allocate_samples_on_demand(discovery):
    environment = os.environ | NOTHING_CHOSEN | {RANGE: discovery}
    command = [sys.executable, "-c", MEMORY_OF_SERVICES]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    # With 100 samples for each endpoint: 147 kB.
    assert int(ran.stdout) / SERVICES < 80e3


ON = {"ROS_SECURITY_ENABLE": "true"}
ENFORCED = {**ON, "ROS_SECURITY_STRATEGY": "Enforce", "ROS_SECURITY_KEYSTORE": "/keys"}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (ON, "ROS_SECURITY_STRATEGY"),
        ({**ENFORCED, "ROS_SECURITY_STRATEGY": "Permissive"}, "ROS_SECURITY_STRATEGY"),
        ({**ENFORCED, "ROS_SECURITY_KEYSTORE": ""}, "ROS_SECURITY_KEYSTORE"),
    ],
)
def test_security_that_would_not_be_there_is_refused(environment, named):
    with pytest.raises(MotionError, match=named):
        check_security(environment)


@pytest.mark.parametrize("environment", [{}, {"ROS_SECURITY_ENABLE": "false"}, ENFORCED])
def test_other_settings_are_accepted(environment):
    check_security(environment)


def test_a_node_does_not_start_unprotected(tmp_path):
    (tmp_path / "enclaves").mkdir()
    command = [sys.executable, "-m", "motion_nodes.nodes", "mock_sim", "--ros-args"]
    command += ["-p", "robots:=[jetbot]"]
    environment = {**os.environ, **ENFORCED, "ROS_SECURITY_KEYSTORE": str(tmp_path)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "cannot start" in ended.stderr


def test_what_the_wheels_lack_is_explained():
    assert "docs/security.md" in explained("Fast DDS doesn't have the security libraries")
    assert explained("another error") == "another error"


__all__ = ["make", "served"]


def test_given_policies_override_the_profile_and_become_parameters_of_the_node(make):
    node = make(
        "qos_overrides./numbers.subscription.depth:=7",
        "qos_overrides./numbers.publisher.reliability:=best_effort",
        "qos_overrides./numbers.publisher.durability:=transient_local",
    )
    node.trigger_configure()
    assert node.get_parameter("qos_overrides./numbers.subscription.depth").value == 7
    assert not node.has_parameter("qos_overrides./numbers.subscription.reliability")
    assert node.numbers._subscription.qos_profile.depth == 7
    publisher = node.create_publisher(Int64, "numbers", qos.STREAM)
    offered = publisher.qos_profile
    assert offered.reliability == ReliabilityPolicy.BEST_EFFORT
    assert offered.durability == DurabilityPolicy.TRANSIENT_LOCAL
    assert (offered.history, offered.depth) == (HistoryPolicy.KEEP_LAST, qos.STREAM.depth)
    assert qos.STREAM.reliability == ReliabilityPolicy.RELIABLE, "the constant"
    (told,) = node.get_publishers_info_by_topic("/numbers")
    assert told.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
    node.trigger_cleanup()
    node.trigger_configure()
    assert node.numbers._subscription.qos_profile.depth == 7


@pytest.mark.parametrize(
    ("override", "word"),
    [
        ("depht:=3", "depht"),
        ("depth:=0", "depth"),
        ("depth:=1000000000000", "depth"),
        ("depth:=.nan", "depth"),
        ("reliability:=sometimes", "reliability"),
        ("reliability:=1", "reliability"),
        ("lifespan:=1000", "lifespan"),
    ],
)
def test_policies_and_values_that_do_not_exist_are_refused(make, override, word):
    node = make(f"qos_overrides./numbers.subscription.{override}")
    node.trigger_configure()
    assert node.state_label == "unconfigured"
    assert f"qos_overrides./numbers.subscription.{word}" in node.failure


def test_the_graph_tells_no_depth_and_the_list_every_node(make, capsys, monkeypatch):
    make(name="first").trigger_configure()
    make(name="second")
    for module, command, words, found in (
        (topic, "topic", ["info", "-v", "/numbers"], ["/first: std", "depth unknown"]),
        (nodes, "node", ["list"], ["/first\n", "/second\n"]),
    ):  # fmt: skip
        options = parser_of(command).parse_args([*words, "--spin-time", "0.2"])

        def all_told(options=options, found=found):
            options.run(options)
            told = capsys.readouterr().out
            return all(part in told for part in found)

        monkeypatch.setattr(module, "participant", lambda: Reader(make))
        wait_until(all_told, f"{found}")


class Reader:
    """A node of this process, whose rclpy is initialized, in place of a new participant."""

    def __init__(self, make):
        self._node = None
        self._make = make

    def __enter__(self):
        self._node = self._make(name="_reader")
        return self._node

    def __exit__(self, *_):
        self._node.destroy_node()

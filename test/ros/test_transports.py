# SPDX-License-Identifier: Apache-2.0
"""Transports of the middleware: UDP for nodes, shared memory for images or on request."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import wait_until

from motion_nodes.nodes.registry import node_class
from motion_nodes.ros.transports import (
    CHOSEN,
    LOOPBACK,
    PROFILES,
    RANGE,
    SUITE,
    UDP,
    VARIABLE,
    choose_transports,
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

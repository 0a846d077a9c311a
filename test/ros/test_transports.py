# SPDX-License-Identifier: Apache-2.0
"""Transports of the middleware: UDP for nodes, shared memory for images or on request."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from patience import wait_until

from motion_nodes.nodes.registry import node_class
from motion_nodes.ros.transports import CHOSEN, UDP, VARIABLE, choose_transports


@pytest.fixture
def unset(monkeypatch):
    for name in CHOSEN:
        monkeypatch.setenv(name, "")  # restored afterwards, too, where it was not set
    return monkeypatch


def test_processes_use_udp_unless_they_handle_images(unset):
    choose_transports(images=True)
    assert not os.environ[VARIABLE]
    choose_transports(images=False)
    assert os.environ[VARIABLE] == UDP


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


@pytest.mark.parametrize(("variables", "shared"), [({}, False), ({VARIABLE: "DEFAULT"}, True)])
def test_a_node_opens_shared_memory_only_on_request(suite, variables, shared):
    # With LOCALHOST, the range of the tests, rmw_fastrtps chooses the transports itself.
    variables = variables | {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
    process = suite.node("robot_state", robot="franka", variables=variables)

    def files() -> list[str]:
        found = []
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(link))
        return found

    wait_until(lambda: any("robot_state.lock" in file for file in files()), "a node")
    assert any("fastrtps_port" in file for file in files()) == shared

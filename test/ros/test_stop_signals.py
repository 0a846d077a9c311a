# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM and SIGHUP in every state of a process: exit code 0, no traceback."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest
from patience import ATTEMPTS, wait_until
from ros_client import RosClient
from ros_processes import Suite, SuiteProcess

from motion_nodes.bringup.node_specs import ALONE

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
BASE = "/diff_drive_controller"


def answers_signals(process: SuiteProcess) -> bool:
    """Whether the process has installed its handlers; before, Python itself is starting."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return all(caught >> (number - 1) & 1 for number in NUMBERS)


def ended_well(process: SuiteProcess) -> None:
    assert process.exit_code() == 0, str(process)
    assert "Traceback" not in process.output
    assert "rror" not in process.output, str(process)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("executable", ["mujoco_sim", "articulation_controller"])
def test_while_importing(suite: Suite, executable, number):
    robot = {"robots": ["franka"]} if executable == "mujoco_sim" else {"robot": "franka"}
    for _ in range(ATTEMPTS):
        looks = [time.monotonic()]
        process = suite.node(executable, **robot)

        def ready(process: SuiteProcess = process, looks: list[float] = looks) -> bool:
            looks.append(time.monotonic())
            return answers_signals(process)

        wait_until(ready, "the process's own handlers", pause=0.001)
        process.send(number)
        late = time.monotonic() - looks[-2]
        ended_well(process)
        if "configured" not in process.output:
            return
        # If this process paused, the signal came too late, and the test begins anew.
        assert late > 0.1, "configured after the signal"
    pytest.fail("this machine is too busy to signal a process while it imports")


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_while_configuring(suite: Suite, client: RosClient, tmp_path, number):
    """Without cached kernels, configuring takes long enough for the signal to arrive in it."""
    cold = {"MOTION_NODES_CACHE_DIR": str(tmp_path / "cache")}
    process = suite.node("robot_state", robot="franka", variables=cold)
    # The node of the last test may still be in the graph.
    wait_until(lambda: answers_signals(process), "the process's own handlers", pause=0.001)
    client.wait(lambda: "robot_state" in client.node.get_node_names(), "the node in the graph")
    process.send(number)
    ended_well(process)


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("state", ["unconfigured", "inactive", "active", "finalized"])
def test_in_each_state(suite: Suite, client: RosClient, state, number):
    process = suite.node("differential_base", robot="jetbot", autostart=state == "active")
    if state == "active":
        process.wait_for("configured in")
        client.wait(lambda: client.state(BASE) == "active", "the node to be active")
    elif state == "inactive":
        assert client.change_state(BASE, "configure")
    elif state == "finalized":
        assert client.change_state(BASE, "unconfigured_shutdown")
    assert client.state(BASE) == state
    process.send(number)
    ended_well(process)


@pytest.mark.parametrize("second", NUMBERS)
def test_a_second_signal_while_shutting_down(suite: Suite, second):
    process = suite.node("mujoco_sim", robots=["jetbot"])
    process.wait_for("configured in")
    process.send(signal.SIGINT)
    for _ in range(20):
        process.send(second)
    ended_well(process)


@pytest.mark.long
def test_the_end_of_the_terminal_is_ignored_where_it_was_asked_for(suite: Suite):
    python = [sys.executable, "-m", "motion_nodes.nodes", "mujoco_sim"]
    process = suite.run(["nohup", *python, "--ros-args", "-p", 'robots:=["jetbot"]'])
    process.wait_for("configured in")
    process.send(signal.SIGHUP)
    time.sleep(0.5)
    assert process.running
    process.send(signal.SIGTERM)
    ended_well(process)


def test_a_container_leaves_as_a_whole(suite: Suite, client: RosClient):
    process = suite.bring_up("franka", "b:=jetbot", without=ALONE, backend="mock")["container"]
    client.wait(lambda: process.output.count("configured in") >= 4, "four nodes")
    process.send(signal.SIGTERM)
    ended_well(process)

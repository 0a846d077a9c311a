# SPDX-License-Identifier: Apache-2.0
"""Ends of processes: signals in every state, hangs, watchdog."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import ATTEMPTS, wait_until
from ros_processes import SuiteProcess

from motion_nodes.bringup.node_specs import ALONE
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.watchdog import VARIABLE, watchdog_time

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
def test_while_importing(suite, executable, number):
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
def test_while_configuring(suite, client, tmp_path, number):
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
def test_in_each_state(suite, client, state, number):
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
def test_a_second_signal_while_shutting_down(suite, second):
    process = suite.node("mujoco_sim", robots=["jetbot"])
    process.wait_for("configured in")
    process.send(signal.SIGINT)
    for _ in range(20):
        process.send(second)
    ended_well(process)


@pytest.mark.long
def test_the_end_of_the_terminal_is_ignored_where_it_was_asked_for(suite):
    python = [sys.executable, "-m", "motion_nodes.nodes", "mujoco_sim"]
    process = suite.run(["nohup", *python, "--ros-args", "-p", 'robots:=["jetbot"]'])
    process.wait_for("configured in")
    process.send(signal.SIGHUP)
    time.sleep(0.5)
    assert process.running
    process.send(signal.SIGTERM)
    ended_well(process)


def test_a_container_leaves_as_a_whole(suite, client):
    process = suite.bring_up("franka", "b:=jetbot", without=ALONE, backend="mock")["container"]
    client.wait(lambda: process.output.count("configured in") >= 4, "four nodes")
    process.send(signal.SIGTERM)
    ended_well(process)


HANGING = """
import ctypes, sys, time
from ros.probe import Probe
from motion_nodes.ros import run

def holds_the_interpreter(node):
    ctypes.PyDLL(None).sleep(600)

def loops(node):
    time.sleep(600)

def nowhere(node):
    if node.ticks == 600:  # after twice the time
        print("alive", flush=True)

class Hanging(Probe):
    def tick(self, dt):
        self.ticks += 1
        if self.ticks == 5:
            print("hangs", flush=True)
        if self.ticks >= 5:
            globals()[sys.argv[1]](self)

run.run_node(Hanging)
"""
CASES = ["holds_the_interpreter", "loops"]


def started(case: str, seconds: str) -> subprocess.Popen[str]:
    """Start a node that hangs in its fifth cycle."""
    return subprocess.Popen(
        [sys.executable, "-c", HANGING, case],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[1], env=os.environ | {VARIABLE: seconds},
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.timeout(120)
def test_a_process_that_hangs_ends_and_shows_where(case):
    process = started(case, "1.5")
    out, err = process.communicate()
    assert out == "hangs\n"
    assert process.returncode == 1
    assert f"in {case}" in err


@pytest.mark.timeout(120)
def test_one_that_works_lives_on_and_stops_as_usual():
    process = started("nowhere", "1.5")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["hangs\n", "alive\n"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 0, err


@pytest.mark.parametrize("text", ["0", "-1", "nan", "soon"])
def test_no_time_is_told(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InvalidConfig, match=VARIABLE):
        watchdog_time()


@pytest.mark.timeout(120)
def test_no_time_ends_the_start_with_one_line():
    process = started("nowhere", "soon")
    _, err = process.communicate()
    assert process.returncode == 1
    assert f"cannot start: {VARIABLE}" in err
    assert "Traceback" not in err


STUCK = """
import ctypes
from ros.probe import Probe
from motion_nodes.ros import run

class Stuck(Probe):
    def activate(self):
        print("active", flush=True)

    def destroy_node(self):
        print("stuck", flush=True)
        ctypes.PyDLL(None).sleep(600)

run.EXIT_DEADLINE = 1.5
run.run_node(Stuck)
"""


@pytest.mark.timeout(120)
def test_it_ends_and_shows_where_it_was():
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[1], env=dict(os.environ),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "active\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert out == "stuck\n"
    assert process.returncode == 1
    assert "destroy_node" in err

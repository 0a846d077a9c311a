# SPDX-License-Identifier: Apache-2.0
"""A running suite of an arm whose processes are killed, stopped and deadlocked."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from joint_client import ABORTED, ARM, CONTROLLER, HOME, SUCCEEDED, smooth
from planner_client import Codes, at
from std_srvs.srv import Trigger
from supervised_suite import CONTAINER, FAR, PLANNER, SIMULATION, SupervisedSuite

PLAN = "/plan_kinematic_path"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def running(module_suite, module_client, tmp_path_factory):
    params = tmp_path_factory.mktemp("params") / "params.yaml"
    made = SupervisedSuite(module_suite, module_client, params)
    made.wait_for()
    yield made
    made.arm.close()


def test_a_killed_container_is_replaced_and_its_arm_holds(running):
    back, pid = running.times_back(CONTAINER), running.pid(CONTAINER)
    call = running.arm.follow(smooth(FAR, 4.0))
    running.arm.moving(above=0.05)
    running.send(CONTAINER, signal.SIGKILL, pid)
    running.until_said(f"motion: {CONTAINER} ended with signal 9")
    running.holds()
    running.replaced(CONTAINER, back)
    assert not call.done
    running.arm.wait_for()
    running.holds()
    running.goes(FAR)


@pytest.mark.long
def test_a_stopped_planner_is_replaced_and_plans_again(running):
    back, pid = running.times_back(PLANNER), running.pid(PLANNER)
    killed = running.client.servers(PLAN)
    home = {n: HOME[n] for n in ARM}
    goal = home if running.arm.away(home) > 0.3 else FAR
    call = running.arm.follow(smooth(goal, 12.0))
    running.arm.moving(above=0.02)
    begin = running.send(PLANNER, signal.SIGSTOP, pid)
    found = running.until_said(f"motion: {PLANNER}:? stopped") - begin
    print(f"SIGSTOP of {PLANNER}: said after {found:.2f} s")
    status, result = call.result()
    assert status == ABORTED
    assert "held" in result.error_string or PLANNER in result.error_string
    running.holds()
    running.replaced(PLANNER, back)
    # A request before the new planner is discovered gets no response.
    running.client.wait(lambda: running.client.servers(PLAN) - killed, "the new planner")
    running.client.forget_diagnoses()
    running.planner.wait()
    answer = running.planner.plan(at({"panda_joint1": 0.9}))
    assert answer.error_code.val == Codes.SUCCESS
    running.ready()
    status, result = running.planner.move(at(home)).result(within=120.0)
    assert status == SUCCEEDED, result


@pytest.mark.long
def test_a_stop_outlives_the_process_that_was_stopped(running):
    back = running.times_back(CONTAINER)
    assert running.client.call(Trigger, f"{CONTROLLER}/stop").success
    running.client.wait_for_diagnosis(CONTROLLER, "stopped by")
    running.send(CONTAINER, signal.SIGKILL)
    running.replaced(CONTAINER, back)
    running.client.wait_for_diagnosis(CONTROLLER, "stopped by")
    status, result = running.answered(FAR).result()
    assert status == ABORTED
    assert "stopped by" in result.error_string
    assert running.client.call(Trigger, f"{CONTROLLER}/resume").success
    running.goes(FAR)


@pytest.mark.long
def test_deadlocked_threads_of_the_middleware_are_noticed(running):
    back, pid = running.times_back(PLANNER), running.pid(PLANNER)
    helper = Path(__file__).parents[1] / "freeze_threads.py"
    begin = time.monotonic()
    with subprocess.Popen(
        [sys.executable, str(helper), str(pid), "dds.ev"], stdout=subprocess.PIPE, text=True
    ) as freezer:
        names = freezer.stdout.readline().split()
        if not names:
            freezer.kill()
            pytest.skip("threads cannot be stopped by ptrace here")
        found = running.until_said(f"motion: {PLANNER}:? unreachable") - begin
        print(f"{names} frozen: said after {found:.2f} s")
        running.until_said("_serve_until_stopped")  # the stacks of its threads
        running.replaced(PLANNER, back)
        freezer.kill()


@pytest.mark.long
def test_a_simulation_that_ends_begins_anew_at_time_zero(running):
    # The test before may have caused a restart, too.
    running.client.wait(lambda: running.arm.states and running.arm.now > 20.0, "a time to fall")
    back, before = running.times_back(SIMULATION), running.arm.now
    running.send(SIMULATION, signal.SIGKILL)
    running.replaced(SIMULATION, back)
    running.arm.clear()
    running.client.wait(lambda: running.arm.states, "states of the new simulation")
    assert running.arm.now < before
    running.ready()
    running.holds()
    running.goes(FAR)


@pytest.mark.long
def test_a_node_that_always_dies_stays_down_and_the_rest_goes_on(running):
    name, down = PLANNER, "it stays down after 3 restarts within 60 s"
    for times in range(1, 12):  # on a slow machine some restarts have left the window
        os.kill(running.pid(name), signal.SIGKILL)
        running.until_said(f"motion: {name} ended with signal 9", times)
        if running.count(f"motion: {name} .*{down}"):
            break
        running.until_said(f"motion: {name} is back", times)
    assert running.count(f"motion: {name} .*{down}") == 1
    # Other tests may have caused some of them.
    assert running.count(f"motion: {name} .*; restart . of 3 within 60 s") >= 3
    running.client.wait(
        lambda: getattr(running.report(name), "level", None) == DiagnosticStatus.ERROR,
        "its state on /diagnostics",
    )
    assert "down" in running.report(name).message
    running.goes({n: HOME[n] for n in ARM})
    assert running.process.running

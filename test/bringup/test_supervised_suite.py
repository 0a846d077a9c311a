# SPDX-License-Identifier: Apache-2.0
"""A running suite of an arm whose processes are killed, stopped and deadlocked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from joint_client import ABORTED, ARM, CONTROLLER, HOME, SUCCEEDED, Call, JointClient, smooth
from planner_client import Codes, Planner, at
from ros_client import RosClient, values_of
from ros_processes import OFTEN, rates
from std_srvs.srv import Trigger

FAR = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.6}
CONTAINER, PLANNER, SIMULATION = "container", "move_group", "mock_sim"
PLAN = "/plan_kinematic_path"
pytestmark = pytest.mark.timeout(900)


class SupervisedSuite:
    """A supervised arm and its clients."""

    def __init__(self, process: Any, client: RosClient) -> None:
        self.process, self.client = process, client
        self.arm = JointClient(client)
        self.planner = Planner(self.arm)

    def report(self, name: str) -> DiagnosticStatus | None:
        return self.client.diagnostics(f"supervisor: {name}")

    def pid(self, name: str) -> int:
        """Return the process id, once the process is reported to run and reached over DDS."""

        def known() -> int:
            status = self.report(name)
            if status is None or status.level != DiagnosticStatus.OK:
                return 0
            values = values_of(status)
            reached = float(values.get("echo over DDS [s]", 0.0)) > 0.0
            return int(values["pid"]) if reached else 0

        return self.client.wait(known, f"a report of {name}", within=60.0)

    def send(self, name: str, number: int, pid: int = 0) -> float:
        """Send a signal to a process, once reached, or to ``pid`` at once; return the time [s]."""
        os.kill(pid or self.pid(name), number)
        return time.monotonic()

    def count(self, text: str) -> int:
        return len(re.findall(text, self.process.output))

    def until_said(self, text: str, times: int = 1) -> float:
        self.client.wait(lambda: self.count(text) >= times, f"'{text}'", within=60.0)
        return time.monotonic()

    def replaced(self, name: str, before: int) -> None:
        """Wait until a process is replaced once more than ``before`` times."""
        self.until_said(f"motion: {name} is back", before + 1)
        self.client.wait(
            lambda: getattr(self.report(name), "level", None) == DiagnosticStatus.OK,
            f"{name} to be reported OK",
        )

    def times_back(self, name: str) -> int:
        return self.count(f"motion: {name} is back")

    def holds(self) -> None:
        """Check that the arm is at rest and stays so."""
        self.client.wait(lambda: self.arm.states and self.arm.speed() < 1e-3, "the arm at rest")
        before = self.arm.joints
        self.client.spin(0.3)
        assert self.arm.away(before) < 2e-3

    def ready(self) -> None:
        """Wait for a new report of a controller that is ready for commands."""
        reports = self.client.listen(DiagnosticArray, "/diagnostics")

        def ready() -> bool:
            newest = [s for m in reports.messages for s in m.status if s.name == CONTROLLER[1:]]
            text = newest[-1].message if len(newest) > 2 else ""
            return "holding" in text and "held" not in text

        self.client.wait(ready, "the controller to be ready", within=60.0)

    def answered(self, goal: dict[str, float]) -> Call:
        """Send a goal until a server responds: before discovery, goals go to the killed one."""
        for _ in range(6):
            call = self.arm.follow(smooth(goal, 1.0))
            try:
                self.client.wait(call.sent.done, "a response", within=5.0)
            except AssertionError:
                continue
            return call
        raise AssertionError("no server responded to six goals")

    def goes(self, goal: dict[str, float]) -> None:
        self.ready()
        status, result = self.arm.follow(smooth(goal, 1.0)).result()
        assert status == SUCCEEDED, result


@pytest.fixture(scope="module")
def running(
    module_suite: Any, module_client: RosClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SupervisedSuite]:
    params = tmp_path_factory.mktemp("params") / "params.yaml"
    period = OFTEN["diagnostic_updater.period"]
    everywhere = {"ros__parameters": {"diagnostic_updater.period": period}}
    params.write_text(yaml.safe_dump({"/**": everywhere} | rates(100.0)))
    arguments = ["robot:=franka", "backend:=mock", "viewer:=none", f"params_file:={params}"]
    # With shared memory, whose faults are among those tested here.
    process = module_suite.run(
        [sys.executable, "-m", "motion_nodes.bringup.suite", *arguments],
        FASTDDS_BUILTIN_TRANSPORTS="DEFAULT",
    )
    process.wait_for("READY after", within=240.0)
    made = SupervisedSuite(process, module_client)
    made.arm.wait_for()
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


def test_a_process_that_new_publishers_do_not_reach_is_replaced(running):
    # As if its port of the shared memory transport had been judged dead: publishers that start
    # later create another one under its name, and the process receives nothing of them.
    pid, back = running.pid(CONTAINER), running.times_back(CONTAINER)
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    ports = [Path(link.removesuffix("_el")) for link in links if "fastrtps_port" in link]
    if not ports:
        pytest.skip("the middleware does not use shared memory")
    for port in ports:
        port.unlink(missing_ok=True)
    running.send(SIMULATION, signal.SIGKILL)
    running.until_said(f"motion: {CONTAINER}:? deaf, no message on ")
    running.replaced(CONTAINER, back)
    running.ready()
    running.goes(FAR)


def test_a_simulation_that_ends_begins_anew_at_time_zero(running):
    back, before = running.times_back(SIMULATION), running.arm.now
    running.send(SIMULATION, signal.SIGKILL)
    running.replaced(SIMULATION, back)
    running.arm.clear()
    running.client.wait(lambda: running.arm.states, "states of the new simulation")
    assert running.arm.now < before
    running.ready()
    running.holds()
    running.goes(FAR)


def test_a_node_that_always_dies_stays_down_and_the_rest_goes_on(running):
    name, down = "rmpflow_policy", "it stays down after 3 restarts within 60 s"
    for times in range(1, 12):  # on a slow machine some restarts have left the window
        os.kill(running.pid(name), signal.SIGKILL)
        running.until_said(f"motion: {name} ended with signal 9", times)
        if running.count(f"motion: {name} .*{down}"):
            break
        running.until_said(f"motion: {name} is back", times)
    assert running.count(f"motion: {name} .*{down}") == 1
    assert times >= 4
    running.client.wait(
        lambda: getattr(running.report(name), "level", None) == DiagnosticStatus.ERROR,
        "its state on /diagnostics",
    )
    assert "down" in running.report(name).message
    running.goes({n: HOME[n] for n in ARM})
    assert running.process.running

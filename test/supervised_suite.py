# SPDX-License-Identifier: Apache-2.0
"""A supervised suite of an arm, and its clients."""

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from joint_client import ARM, CONTROLLER, HOME, SUCCEEDED, Call, JointClient, smooth
from planner_client import Planner
from ros_client import RosClient, values_of
from ros_processes import OFTEN, rates

FAR = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.6}
CONTAINER, PLANNER, SIMULATION = "container", "move_group", "mock_sim"


class SupervisedSuite:
    """A supervised arm and its clients."""

    def __init__(self, suite: Any, client: RosClient, params: Path, **environment: str) -> None:
        period = OFTEN["diagnostic_updater.period"]
        everywhere = {"ros__parameters": {"diagnostic_updater.period": period}}
        params.write_text(yaml.safe_dump({"/**": everywhere} | rates(100.0)))
        arguments = ["robot:=franka", "backend:=mock", "viewer:=none", f"params_file:={params}"]
        self.process = suite.run(
            [sys.executable, "-m", "motion_nodes.bringup.suite", *arguments], **environment
        )
        self.client = client
        self.arm = JointClient(client)
        self.planner = Planner(self.arm)

    def wait_for(self) -> None:
        self.process.wait_for("READY after", within=240.0)
        self.arm.wait_for()

    def report(self, name: str) -> DiagnosticStatus | None:
        return self.client.diagnostics(f"supervisor: {name}")

    def pid(self, name: str) -> int:
        """Return the process id, once the process is reported to run and reached over DDS.

        The last report may be one of before its replacement.
        """

        def known() -> int:
            status = self.report(name)
            if status is None or status.level != DiagnosticStatus.OK:
                return 0
            values = values_of(status)
            reached = float(values.get("echo over DDS [s]", 0.0)) > 0.0
            exists = Path("/proc", values["pid"]).exists()
            return int(values["pid"]) if reached and exists else 0

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

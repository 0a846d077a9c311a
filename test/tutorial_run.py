# SPDX-License-Identifier: Apache-2.0
"""Does what a tutorial says: writes its files and carries out its commands, one after the other.

Of a page count ``bash`` blocks (``sh`` blocks are for people) and blocks of files, whose first line
is a comment with their name. ``motion up`` starts a suite without physics and page; one that a page
before started with the same words goes on. The wheels lack ``ros2 topic pub``; it is rclpy here.
"""

from __future__ import annotations

import csv
import re
import shlex
import sys
import time
from collections.abc import Collection
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import rclpy
import yaml
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from ros_processes import Suite, SuiteProcess, rates
from sensor_msgs.msg import JointState

from motion_nodes.cli.main import main as motion

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
MOTION = [sys.executable, "-m", "motion_nodes.cli.main"]
PROGRAMS = {"motion": MOTION, "ros2": [*MOTION, "ros"]}
"""The commands of the pages; a real ros2 takes the same lines."""
PATIENCE = 90.0
"""[s] For a suite to listen, and for a program to end, on a machine with much else to do."""
WITH_PLANNER = "motion up franka"
"""The suite whose planner a page asks."""
ASLEEP = ("trajectory_generator",)
"""Nodes that no page uses; awake they would cost seconds."""
RATE = 100.0
"""[Hz] Of simulations, their controllers and policies."""
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE_NAME = re.compile(r"(?:#|<!--) (\S+\.(?:py|yaml|urdf))\b")


class Reader:
    """A person who does what the pages say, in one folder."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        """Begin without a robot running."""
        self.folder = folder
        self._suite = suite
        self._running: dict[str, SuiteProcess] = {}
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = Node("reader", context=self._context)

    def close(self) -> None:
        """Stop what runs."""
        self._node.destroy_node()
        self._context.shutdown()

    def follow(self, page: str) -> list[str]:
        """Do all of a page; return the commands."""
        blocks = _BLOCK.findall((TUTORIALS / f"{page}.md").read_text(encoding="utf-8"))
        for _, text in blocks:
            if name := _FILE_NAME.match(text):
                (self.folder / name[1]).write_text(text, encoding="utf-8")
        commands = [line for kind, text in blocks if kind == "bash" for line in text.splitlines()]
        for command in commands:
            self._do(command)
        return commands

    def _do(self, command: str) -> None:
        code = re.search(r"# exit code (\d)", command)
        words = shlex.split(command, comments=True)
        if words[:2] == ["motion", "up"]:
            self._start(command, [*MOTION, *words[1:], "--viewer", "none"])
        elif words[-1] == "&":
            self._running[command] = self._run([sys.executable, *words[1:-1]])
            self._wait_for_commands()
        else:
            here = words[0] == "motion" and words[1] not in ("record", "go", "wait")
            given, told = self._motion(words[1:]) if here else self._program(words)
            assert given == (int(code[1]) if code else 0), f"{command}\n{told}"
            assert told.strip(), command

    def _motion(self, words: list[str]) -> tuple[int, str]:
        """Run a ``motion`` command in this process, which spares its imports."""
        told = StringIO()
        with chdir(self.folder), redirect_stdout(told), redirect_stderr(told):
            try:
                motion(words)
            except SystemExit as end:
                return int(end.code or 0), told.getvalue()
        return 0, told.getvalue()

    def _program(self, words: list[str]) -> tuple[int, str]:
        program = PROGRAMS.get(words[0], [sys.executable])
        process = self._run([*program, *words[1:]])
        return process.exit_code(), process.output

    def _start(self, command: str, words: list[str]) -> None:
        if command in self._running:
            return
        for process in self._running.values():
            assert process.stop(within=30.0) == 0, str(process)
        simulated = [] if "--backend" in words else ["--backend", "mock"]
        asleep = ASLEEP if command == WITH_PLANNER else (*ASLEEP, "move_group")
        # A real arm's page depends on the usual rate.
        slower = rates(RATE) if simulated else {}
        settings = self.folder / "settings.yaml"
        entries = {f"/{name}": {"ros__parameters": {"autostart": False}} for name in asleep}
        settings.write_text(yaml.safe_dump(entries | slower))
        file = ["--params-file", str(settings)]
        self._running = {command: self._run([*words, *simulated, *file])}
        self._wait_until_up(self._running[command], asleep)
        if simulated:
            self._wait_for_commands()

    def _wait_until_up(self, process: SuiteProcess, asleep: Collection[str]) -> None:
        """Wait until every node has told that it is configured, as the pages ask for."""
        process.wait_for("Ctrl-C stops", PATIENCE)
        first = re.search(r"starting (.*); Ctrl-C", process.output)
        assert first is not None
        for name in set(first[1].replace("/", "").split(", ")) - set(asleep):
            process.wait_for(f"[{name}]: configured", PATIENCE)

    def _wait_for_commands(self) -> None:
        """Wait until the robot is led: a person takes longer for going on than a suite to start."""
        heard: list[JointState] = []
        commands = self._node.create_subscription(JointState, "joint_command", heard.append, 1)
        executor = SingleThreadedExecutor(context=self._context)
        executor.add_node(self._node)
        end = time.monotonic() + PATIENCE
        while not heard and time.monotonic() < end:
            executor.spin_once(0.1)
        executor.shutdown()
        self._node.destroy_subscription(commands)
        assert heard, f"nothing commands the joints: {[*map(str, self._running.values())]}"

    def _run(self, words: list[str]) -> SuiteProcess:
        # A robot's folder is named as seen from where the pages' files are.
        return self._suite.run(words, folder=self.folder)

    def last(self, file: str, name: str) -> float:
        """Return the last value of a number in a recording."""
        with (self.folder / file).open(newline="") as rows:
            values = [float(row["value"]) for row in csv.DictReader(rows) if row["name"] == name]
        assert values, f"{name} is not in {file}"
        return values[-1]

# SPDX-License-Identifier: Apache-2.0
"""Executes a tutorial: writes its files and runs its commands in order.

Only ``bash`` blocks (``sh`` is for people) are run, and blocks whose first line is a comment
with a file name are written. ``motion up`` starts a suite without physics and page; one that an
earlier page started with the same words is kept. ``ros2`` commands run as ``motion ros``.
"""

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
"""Timeout for the start of a suite and of other waits, for busy machines [s]."""
WITH_PLANNER = "motion up franka"
"""Command of the suite whose planner is used."""
ASLEEP = ("trajectory_generator",)
"""Nodes that no page uses, which are not activated to save seconds."""
RATE = 100.0
"""Update rate of simulations, controllers and policies [Hz]."""
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE_NAME = re.compile(r"(?:#|<!--) (\S+\.(?:py|yaml|urdf))\b")


class Reader:
    """Stands for a reader who follows the pages, in one folder."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.folder = folder
        self._suite = suite
        self._running: dict[str, SuiteProcess] = {}
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = Node("reader", context=self._context)

    def close(self) -> None:
        """Stop all processes."""
        self._node.destroy_node()
        self._context.shutdown()

    def follow(self, page: str) -> list[str]:
        """Execute a page; return its commands."""
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
        """Run a ``motion`` command in this process, which saves its imports."""
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
        # The page about a real arm needs the default rate.
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
        """Wait until every node reports that it is configured."""
        process.wait_for("Ctrl-C stops", PATIENCE)
        first = re.search(r"starting (.*); Ctrl-C", process.output)
        assert first is not None
        for name in set(first[1].replace("/", "").split(", ")) - set(asleep):
            process.wait_for(f"[{name}]: configured", PATIENCE)

    def _wait_for_commands(self) -> None:
        """Wait until the robot receives commands, as a person would by reading on."""
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
        # Paths of robots are relative to the folder of the pages' files.
        return self._suite.run(words, folder=self.folder)

    def last(self, file: str, name: str) -> float:
        """Return the last value of a field in a recording."""
        with (self.folder / file).open(newline="") as rows:
            values = [float(row["value"]) for row in csv.DictReader(rows) if row["name"] == name]
        assert values, f"{name} is not in {file}"
        return values[-1]

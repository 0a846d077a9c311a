# SPDX-License-Identifier: Apache-2.0
"""Every command line of README and docs is parsed, and executed where possible.

The tutorials' lines are executed by test_tutorials.py, in order; those of the other pages here.
"""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir

import click
import pytest
import typer
import yaml
from command_lines import ROOT, all_lines
from patience import wait_until
from ros_processes import rates

from motion_nodes.bringup.bringup_config import config_from
from motion_nodes.cli.app import app
from motion_nodes.cli.main import main
from motion_nodes.cli.ros2 import parser_of
from motion_nodes.cli.ros2_processes import LAUNCH_FILES
from motion_nodes.nodes.clients.ros2.messages import interface_type, message_from

MOTION = [sys.executable, "-m", "motion_nodes.cli.main"]
ELSEWHERE = {
    "lerobot-record": "needs LeRobot",
    "rosdep": "needs a ROS installation",
    "colcon": "needs a ROS installation; test_installed_layout.py builds with it",
    "pip": "installs from an index; tools/release.py does it in an empty environment",
    "sudo": "needs root",
    "git": "needs the network",
    "docker": "needs a daemon",
    ".": "changes the shell",
    "export": "changes the shell",
    "python3": "makes the environment of a ROS workspace",
    "cd": "changes the shell",
    "rviz2": "is not on PyPI",
}
"""Programs that no test executes, and why."""
NEEDS_ANOTHER_SUITE = {
    "diff_drive_controller": "a base; test_drive_a_base types the same",
    "goal_pose": "a base",
    "surface_gripper": "MuJoCo with an object",
    "task_server": "an option of the bring-up; test_task_server sends the same",
    "estimate_payload": "measured efforts, which the mock has not",
    "object_detector": "a camera; test_object_detector hears the same",
    "topic hz": "does not end by itself",
}
"""Parts of lines that are not executed with a Franka without physics, and what they need."""
AT_ONCE = 3
"""Number of pages at the same time, since lines mostly wait; those that stop or grip run alone."""
LINES = all_lines()


def lines_with(program):
    return [line for line in LINES if line.words[0] == program]


def test_programs_are_known():
    known = {"motion", ".venv/bin/motion", "ros2", "make", "python", *ELSEWHERE}
    assert {line.words[0] for line in LINES} <= known


def test_motion_lines_are_understood():
    group = typer.main.get_command(app)
    for line in (*lines_with("motion"), *lines_with(".venv/bin/motion")):
        name, *arguments = [word for word in line.words[1:] if word != "&"]
        command = group.get_command(click.Context(group), name)
        assert command is not None, line
        try:
            command.make_context(name, arguments)
        except click.exceptions.Exit:  # --help
            continue
        except click.ClickException as error:
            raise AssertionError(f"{line}: {error.format_message()}") from None


def test_ros2_lines_are_understood():
    for line in lines_with("ros2"):
        if line.words[1] == "security":
            assert line.page == "docs/security.md"  # with an apt installation only
            continue
        try:
            options = parser_of(line.words[1]).parse_args(line.words[2:])
        except SystemExit:
            raise AssertionError(line) from None
        verb = line.words[2]
        if verb == "pub":
            message_from(options.values, interface_type(options.type, "msg")())
        elif verb == "call":
            message_from(options.values, interface_type(options.type, "srv").Request())
        elif verb == "send_goal":
            message_from(options.goal, interface_type(options.type, "action").Goal())
        elif line.words[1] == "launch" and options.file in LAUNCH_FILES:
            config_from(dict(word.split(":=", 1) for word in options.arguments))


def test_make_targets_and_python_files_exist():
    makefile = (ROOT / "Makefile").read_text()
    for line in lines_with("make"):
        for target in (word for word in line.words[1:] if "=" not in word):
            assert f"\n{target}:" in makefile, line
    pages = "".join((ROOT / page).read_text() for page in {line.page for line in LINES})
    for line in lines_with("python"):
        file = line.words[1]
        assert file == "-m" or (ROOT / file).is_file() or f"# {file}\n" in pages, line


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ros2_lines_are_typed_beside_a_franka(module_suite, tmp_path):
    """Those of the pages that begin with `motion up franka` end with exit code 0 and output."""
    lines = [
        line
        for line in lines_with("ros2")
        if line.words[1] in ("topic", "service", "action", "param")
        and not line.page.startswith("docs/tutorials")
        and not any(word in line.text for word in NEEDS_ANOTHER_SUITE)
    ]
    assert len(lines) >= 10
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump(rates(100.0)))
    options = ["--backend", "mock", "--viewer", "none", "--params-file", str(settings)]
    suite = module_suite.run([*MOTION, "up", "franka", *options])
    wait_until(lambda: "READY after" in suite.output, str(suite), 240.0)

    def type_page(page):
        for line in (line for line in lines if line.page == page):
            process = module_suite.run([*MOTION, "ros", *line.words[1:]], folder=tmp_path)
            assert process.exit_code() == 0, f"{line}\n{process}"
            assert process.output.strip(), line

    pages = dict.fromkeys(line.page for line in lines)
    alone = {line.page for line in lines if line.words[1] == "action" or "/stop" in line.text}
    with ThreadPoolExecutor(AT_ONCE) as readers:
        list(readers.map(type_page, (page for page in pages if page not in alone)))
    for page in pages:
        if page in alone:
            type_page(page)


@pytest.mark.parametrize("page", ["README.md", "docs/robot_files.md"])
def test_lines_without_ros_are_typed(page, tmp_path, capsys):
    """In this process, in an empty folder."""
    pure = ("robots", "describe", "fk", "convert")
    shutil.copy(ROOT / "motion_nodes/robots/franka/franka.urdf", tmp_path)
    with chdir(tmp_path):
        for line in lines_with("motion"):
            if line.words[1] in pure and line.page == page:
                code = 0
                try:
                    main(line.words[1:])
                except SystemExit as end:
                    code = end.code or 0
                assert code == line.exit_code, f"{line}\n{capsys.readouterr()}"

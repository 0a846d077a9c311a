# SPDX-License-Identifier: Apache-2.0
"""Every command on the pages on the command line runs, with the documented exit code."""

import re
import shutil
from pathlib import Path

import pytest

from motion_nodes.cli.app import app
from motion_nodes.core.robot.loader import load_robot

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("command_line.md", "robot_files.md")


def blocks(page, language):
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(page, language="bash"):
    """Return the commands of a page with their documented exit codes."""
    found = []
    for line in "".join(blocks(page, language)).splitlines():
        code = re.search(r"# exit code (\d)", line)
        found.append((line.split("#")[0].strip(), int(code.group(1)) if code else 0))
    return found


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_page(motion, tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    franka = load_robot("franka").directory
    shutil.copy(franka / "franka.urdf", tmp_path)
    shutil.copytree(franka / "meshes", tmp_path / "meshes")
    shutil.copytree(DOCS.parent / "examples", tmp_path / "examples")  # as in a clone
    for text in blocks(page, "yaml"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    found = commands(page)
    assert len(found) > 5
    for command, code in found:
        assert command.startswith("motion ")
        done = motion(command.removeprefix("motion "))
        assert done.code == code, f"{command}: {done.text}"
        assert done.out.strip()
    for snippet in blocks(page, "python"):
        exec(snippet, {})
    for file in ("path.json", "slow.csv", "line.json") if page == "command_line.md" else ():
        assert (tmp_path / file).stat().st_size > 1000


def test_commands_of_the_readme_that_need_no_ros(motion, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^motion ((?:fk|ik|plan|cartesian|convert) [^#\n]*)", text, re.MULTILINE)
    assert len(found) >= 4
    for command in found:
        done = motion(command.strip())
        assert done.code == 0, f"{command}: {done.text}"


def test_the_page_names_every_command():
    text = (DOCS / "command_line.md").read_text(encoding="utf-8")
    for command in app.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")
        assert f"`motion {name}" in text, name

# SPDX-License-Identifier: Apache-2.0
"""The set-up tool: one-sentence errors, and the fingerprint of the environment."""

import importlib.util
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "setup_environment.py"


@pytest.fixture
def tool():
    spec = importlib.util.spec_from_file_location("setup_environment", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def no_ros_sourced(monkeypatch):
    for name in ("ROS_DISTRO", "AMENT_PREFIX_PATH", "CXX"):
        monkeypatch.delenv(name, raising=False)


def test_this_machine_passes(tool):
    tool.check_machine()


def test_an_empty_variable_is_no_compiler(tool, monkeypatch):
    monkeypatch.setenv("CXX", "")
    tool.check_machine()


def test_a_sourced_ros_is_refused_with_the_way_to_go(tool, monkeypatch):
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    with pytest.raises(tool.SetupError):
        tool.check_machine()


def test_a_missing_compiler_is_named(tool, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(tool.SetupError):
        tool.check_machine()


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_a_wrong_python_is_named(tool, monkeypatch, version):
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    with pytest.raises(tool.SetupError, match=rf"this is Python 3\.{version[1]}.*PYTHON="):
        tool.check_machine()


def test_refusals_are_one_sentence_without_a_traceback():
    environment = os.environ | {"ROS_DISTRO": "jazzy"}
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False,
                          env=environment)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("setup: a ROS installation (jazzy)")
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_fingerprint_follows_what_decides_the_environment(tool, tmp_path, monkeypatch):
    before = tool.fingerprint(["ros", "run"])
    assert tool.fingerprint(["ros", "run"]) == before
    assert tool.fingerprint(["ros", "run", "test"]) != before
    copy = tmp_path / "requirements"
    copy.mkdir()
    for file in tool.REQUIREMENTS.iterdir():
        (copy / file.name).write_text(file.read_text() + "# changed\n")
    monkeypatch.setattr(tool, "REQUIREMENTS", copy)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    for name in ("pyproject.toml", "setup.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    assert tool.fingerprint(["ros", "run"]) != before


def test_the_fingerprint_is_the_same_with_the_environment_activated(tmp_path):
    base = getattr(sys, "_base_executable", sys.executable)
    venv.create(tmp_path / "env")
    program = "from setup_environment import fingerprint; print(fingerprint(['ros', 'run']))"
    found = {
        subprocess.run(
            [python, "-c", program], cwd=TOOL.parent, capture_output=True, text=True, check=True
        ).stdout
        for python in (base, tmp_path / "env" / "bin" / "python")
    }
    assert len(found) == 1


def requirement_names(kind):
    for line in (ROOT / f"requirements/{kind}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            yield re.split(r"[\[<>=]", line)[0].strip().lower().replace("_", "-")


def test_every_requirement_is_pinned():
    pins = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "requirements/constraints.txt").read_text().splitlines()
        if "==" in line
    }
    for kind in ("ros", "run", "sim", "viewer", "policy", "learn", "mcp", "test"):
        assert set(requirement_names(kind)) <= pins, kind

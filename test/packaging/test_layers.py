# SPDX-License-Identifier: Apache-2.0
"""The core works without ROS; imports are lazy, files short, class names unique."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 600
"""Max number of lines of a file; those of test/conformance have one peer each."""
NOT_CORE = ("ros", "nodes", "bringup", "cli")
ROS = ("rclpy", "sensor_msgs", "geometry_msgs", "std_msgs", "moveit_msgs", "control_msgs")


def core_modules():
    for file in sorted((ROOT / "motion_nodes").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if parts[1] not in NOT_CORE and file.name not in ("__main__.py", "__init__.py"):
            yield ".".join(parts)


def test_the_core_imports_where_there_is_no_ros():
    code = (
        "import importlib, sys\n"
        "class NoRos:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {ROS}:\n"
        "            raise ImportError(name + ' is not for the core')\n"
        "sys.meta_path.insert(0, NoRos())\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *core_modules()], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_importing_the_package_costs_nothing():
    # The command line imports the modules of all its commands.
    code = (
        "import sys, motion_nodes.cli.main; "
        "print([m for m in ('numpy', 'rclpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("folder", ["motion_nodes", "tools", "test", "launch", "benchmarks"])
def test_files_stay_short_and_say_their_licence(folder):
    for file in (ROOT / folder).rglob("*.py"):
        text = file.read_text("utf-8")
        assert "SPDX-License-Identifier: Apache-2.0" in text[:200], file
        if file.parent.name == "conformance":
            continue
        assert len(text.splitlines()) <= MOST, f"{file} is longer than {MOST} lines"


def test_a_class_name_stands_once_in_the_package():
    places: dict[str, list[str]] = {}
    for file in sorted((ROOT / "motion_nodes").rglob("*.py")):
        for name in re.findall(r"^class (\w+)", file.read_text("utf-8"), re.MULTILINE):
            places.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert len(places) > 500
    assert {name: files for name, files in places.items() if len(files) > 1} == {}

# SPDX-License-Identifier: Apache-2.0
"""The core works without ROS, and nothing in the tree is longer than it should be."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ("errors", "kernels", "model", "trajectory", "bases", "control", "sim", "view")


def core_modules():
    for folder in CORE:
        path = ROOT / "motion_nodes" / folder
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        for file in files:
            if file.name != "__main__.py" and "robots" not in file.parts:
                yield ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(
                    ".__init__"
                )


def test_the_core_imports_where_there_is_no_ros():
    code = (
        "import importlib, sys\n"
        "class NoRos:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('rclpy', 'sensor_msgs', 'geometry_msgs', 'std_msgs'):\n"
        "            raise ImportError(name + ' is not for the core')\n"
        "sys.meta_path.insert(0, NoRos())\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *core_modules()], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_importing_the_package_costs_nothing():
    code = "import sys, motion_nodes; print([m for m in ('numpy', 'rclpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("folder", ["motion_nodes", "tools", "test", "launch", "benchmarks"])
def test_files_stay_short_and_say_their_licence(folder):
    for file in (ROOT / folder).rglob("*.py"):
        text = file.read_text("utf-8")
        assert "SPDX-License-Identifier: Apache-2.0" in text[:200], file
        assert len(text.splitlines()) <= 500, f"{file} is longer than 500 lines"

# SPDX-License-Identifier: Apache-2.0
"""The suite without its extras: front door and nodes of the core work in a copy without them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "motion_nodes"
EXTRAS = sorted(path.parent.name for path in PACKAGE.glob("extras/*/__init__.py"))
NODES = (
    "articulation_controller", "differential_base", "holonomic_base", "ackermann_base",
    "base_navigator", "ik_service", "rrt_planner", "rmpflow_policy", "trajectory_generator",
    "robot_state", "controller_manager",
)  # fmt: skip
USE = """
import importlib, pathlib, sys
import motion_nodes as mn
folder = pathlib.Path(mn.__file__).parent
assert str(folder) == sys.argv[1], folder
for file in sorted(folder.glob("core/**/*.py")):
    importlib.import_module(".".join(file.relative_to(folder.parent).with_suffix("").parts))
arm = mn.load_robot("franka")["arm"]
goal = arm.ik(arm.fk(arm.state("ready")), seed="home")
assert goal.success, goal
world = mn.World()
world.add("post", mn.Box(0.1, 0.1, 0.5), mn.pose(xyz=(0.6, 0.3, 0.3)))
assert arm.plan("home", goal.q, world).success
from motion_nodes.nodes.registry import node_class
for name in sys.argv[2:]:
    node_class(name)
from motion_nodes.errors import MotionError
from motion_nodes.extras import absent
for extra in absent().values():
    for name in extra.executables:
        try:
            node_class(name)
        except MotionError as error:
            assert "is not installed" in str(error), error
        else:
            raise AssertionError(name)
import motion_nodes.cli.app as cli
names = {c.callback.__name__ for c in cli.app.registered_commands}
assert "plan" in names
assert names.isdisjoint(word for extra in absent().values() for word in extra.commands)
"""


def copied_without(extras, folder):
    """Return a copy of the package without some extras, in a folder."""
    copy = folder / "motion_nodes"
    gone = [str(PACKAGE / "extras" / name) for name in extras]
    shutil.copytree(
        PACKAGE, copy,
        ignore=lambda path, names: [n for n in names if n == "__pycache__"
                                    or os.path.join(path, n) in gone],
    )  # fmt: skip
    return copy


def used_without(extras, folder):
    """Use a copy of the package without some extras, in another process."""
    copy = copied_without(extras, folder)
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", USE, str(copy), *NODES], env=environment, cwd=folder,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_any_extra(tmp_path):
    assert len(EXTRAS) > 8
    done = used_without(EXTRAS, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("extra", EXTRAS)
def test_without_one(extra, tmp_path):
    done = used_without([extra], tmp_path)
    assert done.returncode == 0, done.stderr


CORE_TESTS = ("trajectory", "bases", "mpc", "ik", "scene", "planning", "base_navigation", "model")
"""Folders of tests of the core; files in them that compare with an extra are left out."""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("room", CORE_TESTS)
def test_the_tests_of_the_core_pass_without_any_extra(room, tmp_path):
    copied_without(EXTRAS, tmp_path)
    texts = {file: file.read_text("utf-8") for file in sorted((ROOT / "test" / room).glob("*.py"))}
    named, count = {"motion_nodes.extras"}, 0
    while count < len(named):  # also by helpers of the tests
        count = len(named)
        named |= {f"{room}.{file.stem} import" for file, text in texts.items()
                  if any(name in text for name in named)}  # fmt: skip
    tests = [
        str(file)
        for file, text in texts.items()
        if file.name.startswith("test_") and not any(name in text for name in named)
    ]
    assert tests
    # -P: not the package in the working folder.
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long",
         "-p", "without_extras", *tests],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'test' / 'packaging'}"},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr

# SPDX-License-Identifier: Apache-2.0
"""The ``motion`` command as a process."""

import subprocess
import sys

import pytest

import motion_nodes
from motion_nodes.cli.app import PANELS, app
from motion_nodes.core.robot.loader import available_robots


def motion(*arguments, timeout=180, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-m", "motion_nodes.cli.main", *arguments],
        capture_output=True, text=True, timeout=timeout, check=False, env=os.environ | environment,
    )  # fmt: skip


def test_the_version_is_printed():
    done = motion("--version")
    assert (done.returncode, done.stdout) == (0, f"motion_nodes {motion_nodes.__version__}\n")


@pytest.mark.long
def test_robots_lists_what_is_shipped():
    done = motion("robots")
    assert done.returncode == 0
    assert "franka" in done.stdout
    assert "jetbot" in done.stdout
    for name in ("open_manipulator_x", "turtlebot3_burger"):  # whole, at a width of 80
        assert name in done.stdout


def test_the_help_begins_with_a_running_suite():
    text = motion("--help").stdout
    assert text.index(" up ") < text.index(" fk ") < text.index(" doctor ")
    panels = {name for names in PANELS.values() for name in names}
    assert panels == {*(info.name for info in app.registered_commands), "hardware", "policy"}


@pytest.mark.long
@pytest.mark.parametrize("word", ["describe", "robots"])
def test_describe_shows_limits_groups_and_states(word):
    done = motion(word, "franka")
    assert done.returncode == 0
    for text in ("panda_joint4", "-3.072", "-0.0698", "arm", "panda_arm", "ready"):
        assert text in done.stdout


def test_describe_of_a_base_shows_its_wheels():
    text = " ".join(motion("describe", "jetbot").stdout.split())
    assert "wheel radius 0.03, wheel separation 0.1125" in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["describe", "frank"], "Did you mean 'franka'"),
        (["up", "frank"], "Did you mean 'franka'"),
        (["up", "franka@1,x,0"], "X,Y,YAW in metres and radians"),
        (["up", "franka", "franka"], "give each robot its own"),
        (["up", "franka", "--backend", "mujoko"], "Did you mean 'mujoco'"),
        (["warm-up", "nobody"], "robot 'nobody' is not known"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, text):
    done = motion(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.long
def test_warm_up_compiles_the_named_robots():
    done = motion("warm-up", "jetbot", "franka", timeout=240)
    assert done.returncode == 0
    compiled = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert compiled == ["control cycles", "jetbot", "franka"]


def test_doctor_finds_a_working_installation():
    done = motion("doctor")
    assert done.returncode == 0, done.stdout
    for word in (
        "rclpy",
        "middleware",
        "two processes",
        "kernel cache",
        ", ".join(available_robots()),
        "checks passed",
    ):
        assert word in done.stdout


@pytest.mark.long
def test_doctor_says_what_is_missing(tmp_path):
    (tmp_path / "tf2_msgs.py").write_text("raise ImportError('not here')\n")
    done = motion("doctor", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "missing: tf2_msgs" in done.stdout
    assert "motion setup" in done.stdout
    assert "1 of 7 checks failed: messages" in done.stdout

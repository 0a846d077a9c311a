# SPDX-License-Identifier: Apache-2.0
"""One node per name and machine; log folders; running robots; unmapped code."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from moveit_msgs.action import MoveGroup
from nav2_msgs.action import NavigateToPose
from own_domain import has_a_suite
from rclpy.action import ActionClient, ActionServer
from ros_client import LATCHED
from std_msgs.msg import String

from motion_nodes.errors import MotionError
from motion_nodes.nodes.clients.commands import running_robots
from motion_nodes.ros import instance_lock
from motion_nodes.ros.environment import NO_LOG_FILES, init_arguments, log_folder
from motion_nodes.ros.instance_lock import InstanceLock, SecondInstance
from motion_nodes.ros.startup_memory import _unchanged_code, release_memory


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_second_lock_is_refused_and_names_the_process():
    first = InstanceLock("/a/base")
    with pytest.raises(SecondInstance) as caught:
        InstanceLock("/a/base")
    text = str(caught.value)
    assert "/a/base already runs" in text
    assert f"process {os.getpid()}" in text
    assert "__node:=" in text
    assert "\n" not in text
    first.release()


def test_released_names_are_free_again():
    for _ in range(3):
        lock = InstanceLock("/a/base")
        lock.release()
        lock.release()


def test_other_names_and_domains_are_free(monkeypatch):
    locks = [InstanceLock("/a/base"), InstanceLock("/b/base"), InstanceLock("/a/base2")]
    monkeypatch.setenv("ROS_DOMAIN_ID", "33" if os.environ.get("ROS_DOMAIN_ID") != "33" else "34")
    locks.append(InstanceLock("/a/base"))
    for lock in locks:
        lock.release()


def test_test_runs_avoid_domains_with_a_suite(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    assert not has_a_suite(7)
    lock = InstanceLock("/a/base")
    assert has_a_suite(7)
    assert not has_a_suite(70)
    lock.release()
    assert not has_a_suite(7)


def test_a_killed_process_leaves_no_lock(tmp_path):
    code = (
        "import time; from motion_nodes.ros.instance_lock import InstanceLock; "
        "lock = InstanceLock('/a/base'); print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(SecondInstance, match=str(child.pid)):
        InstanceLock("/a/base")
    child.kill()
    child.wait()
    child.stdout.close()
    InstanceLock("/a/base").release()


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / f"motion_nodes-{os.getuid()}").write_text("in the way")
    with pytest.raises(MotionError, match="motion_nodes-") as caught:
        InstanceLock("/a/base")
    assert not isinstance(caught.value, SecondInstance)


@pytest.mark.parametrize("planted", ["link to a file", "hard link", "folder", "fifo"])
def test_planted_files_are_refused_and_what_they_point_at_stays(tmp_path, monkeypatch, planted):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"motion_nodes-{os.getuid()}"
    folder.mkdir(mode=0o700)
    lock = folder / f"{os.environ.get('ROS_DOMAIN_ID', '0')}.planted.lock"
    victim = tmp_path / "victim"
    victim.write_text("precious")
    if planted == "link to a file":
        lock.symlink_to(victim)
    elif planted == "hard link":
        lock.hardlink_to(victim)
    elif planted == "folder":
        lock.mkdir()
    else:
        os.mkfifo(lock)
    with pytest.raises(MotionError, match=r"planted\.lock"):
        InstanceLock("/planted")
    assert victim.read_text() == "precious"


def test_a_folder_that_others_can_write_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"motion_nodes-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(MotionError, match=str(folder)):
        InstanceLock("/anyone")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.rmdir()
    folder.symlink_to(elsewhere)
    with pytest.raises(MotionError, match=str(folder)):
        InstanceLock("/anyone")


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_names_are_locked_where_nothing_can_be_written(monkeypatch, number):
    def refuse(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(instance_lock, "open_private", refuse)
    name = f"/a/base{os.getpid()}"
    first, other = InstanceLock(name), InstanceLock(f"{name}2")
    with pytest.raises(SecondInstance):
        InstanceLock(name)
    first.release()
    InstanceLock(name).release()
    other.release()


def test_names_are_locked_without_any_temporary_folder(monkeypatch):
    def none():
        raise FileNotFoundError(errno.ENOENT, "no usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    first = InstanceLock(f"/b/base{os.getpid()}")
    with pytest.raises(SecondInstance):
        InstanceLock(f"/b/base{os.getpid()}")
    first.release()


def test_the_folder_is_that_of_rcl(monkeypatch):
    for name in ("ROS_LOG_DIR", "ROS_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert log_folder() == Path("/home/somebody/.ros/log")
    monkeypatch.setenv("ROS_HOME", "/data")
    assert log_folder() == Path("/data/log")
    monkeypatch.setenv("ROS_LOG_DIR", "~/logs")
    assert log_folder() == Path("/home/somebody/logs")


def test_a_folder_that_can_be_written_changes_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "new"))
    assert init_arguments(["a"]) == ["a"]
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("folder", ["/proc/none", "/dev/null/log"])
def test_a_folder_that_cannot_be_written_means_no_log_files(monkeypatch, capsys, folder):
    monkeypatch.setenv("ROS_LOG_DIR", folder)
    assert init_arguments(["a"]) == ["a", *NO_LOG_FILES]
    assert folder in capsys.readouterr().err


def test_servers_are_named_by_their_robots(module_client):
    node = module_client.node
    assert "no robot" in running_robots(node, 0.1)
    client = ActionClient(node, NavigateToPose, "/navigate_to_pose")
    server = ActionServer(node, MoveGroup, "/left/move_action", lambda _: MoveGroup.Result())
    try:
        assert running_robots(node, 0.1) == "these robots run: left:=robot (arm)"
        described = node.create_publisher(String, "/left/robot_description", LATCHED)
        described.publish(String(data='<?xml version="1.0"?><robot name="franka"></robot>'))
        module_client.wait(
            lambda: running_robots(node) == "these robots run: left:=franka (arm)", "its name"
        )
    finally:
        client.destroy()
        server.destroy()


def resident_code() -> int:
    """Return the resident size of the executable mappings of this process [kB]."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            counts = words[1] == "r-xp" and words[4] != "0"
        elif counts and words[0] == "Rss:":
            total += int(words[1])
    return total


def test_unmapped_code_returns_when_it_is_executed():
    matrix = np.diag([1.0, 2.0, 4.0])
    inverse = np.linalg.inv(matrix)
    before = resident_code()
    release_memory()
    assert resident_code() < 0.8 * before
    assert np.array_equal(np.linalg.inv(matrix), inverse)


def test_changed_code_stays():
    smaps = (
        "1000-3000 r-xp 00000000 fe:00 12 /lib/a.so\nAnonymous:             0 kB\n"
        "3000-4000 r-xp 00000000 fe:00 13 /lib/relocated.so\nAnonymous:             4 kB\n"
        "3800-3900 r--p 00000000 fe:00 13 /lib/constants.so\nAnonymous:             0 kB\n"
        "4000-5000 rw-p 00000000 fe:00 13 /lib/data.so\nAnonymous:             0 kB\n"
        "5000-6000 r-xp 00000000 00:00 0 [vdso]\nAnonymous:             0 kB\n"
    )
    assert list(_unchanged_code(smaps.splitlines())) == [(0x1000, 0x3000), (0x3800, 0x3900)]


@pytest.mark.parametrize("words", ["wait jetbot --timeout 1", "ros topic list", "stop"])
def test_commands_run_without_a_home(words):
    """As in services and containers, whose environment has no HOME."""
    done = subprocess.run(
        [sys.executable, "-m", "motion_nodes.cli.main", *words.split()],
        env={name: value for name, value in os.environ.items() if name != "HOME"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr

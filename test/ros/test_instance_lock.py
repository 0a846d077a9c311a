# SPDX-License-Identifier: Apache-2.0
"""One node per name and machine."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile

import pytest

from motion_nodes.errors import MotionError
from motion_nodes.ros import instance_lock
from motion_nodes.ros.instance_lock import InstanceLock, SecondInstance


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

# SPDX-License-Identifier: Apache-2.0
"""Compiled code on disk: folders, damage, several processes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from motion_nodes.kernels import cache


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    monkeypatch.setattr(cache, "SHARED_MEMORY", tmp_path / "shm")
    (tmp_path / "temp").mkdir()
    cache._writable_folder.cache_clear()
    yield
    cache._writable_folder.cache_clear()


def test_what_is_written_is_read(tmp_path):
    assert cache.read_entry("a") is None
    cache.write_entry("a", b"code")
    cache.write_entry("b", b"")
    assert cache.read_entry("a") == b"code"
    assert cache.read_entry("b") == b""
    folder = tmp_path / "own" / "kernels"
    assert sorted(p.name for p in folder.iterdir()) == ["a.code", "b.code"]  # nothing half written
    state = cache.cache_state()
    assert (state.folder, state.entries) == (folder, 2)
    assert state.size == sum(p.stat().st_size for p in folder.iterdir())


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:-1] + b"?", lambda b: b"", lambda b: b"x" + b]
)
def test_a_damaged_entry_counts_as_missing(tmp_path, caplog, damage):
    cache.write_entry("a", b"some code")
    path = tmp_path / "own" / "kernels" / "a.code"
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert cache.read_entry("a") is None
    assert "damaged" in caplog.text
    cache.write_entry("a", b"anew")
    assert cache.read_entry("a") == b"anew"


def test_the_folder_that_the_environment_asks_for(tmp_path, monkeypatch):
    assert cache.preferred_folder() == tmp_path / "own" / "kernels"
    monkeypatch.delenv("MOTION_NODES_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.preferred_folder() == tmp_path / "xdg" / "motion_nodes" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.preferred_folder() == tmp_path / "home" / ".cache" / "motion_nodes" / "kernels"


def _make_unwritable(path: Path) -> None:
    """Put a file where a folder ought to be: that stops even root."""
    path.write_text("in the way")


def test_a_folder_that_cannot_be_written_is_replaced_by_a_private_one(tmp_path, caplog):
    _make_unwritable(tmp_path / "own")
    with caplog.at_level(logging.WARNING):
        cache.write_entry("a", b"code")
        cache.write_entry("b", b"code")
    assert cache.read_entry("a") == b"code"
    folder = cache.writable_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path / "temp")
    assert folder.parent.stat().st_mode & 0o077 == 0
    assert len(caplog.records) == 1  # one line, however many entries
    assert "MOTION_NODES_CACHE_DIR" in caplog.text
    assert cache.cache_state().preferred == tmp_path / "own" / "kernels"


def test_a_read_only_folder_is_read(tmp_path, monkeypatch):
    cache.write_entry("a", b"code")
    problem = cache._problem  # root may write to read-only folders: say that it may not
    own = tmp_path / "own" / "kernels"
    monkeypatch.setattr(cache, "_problem", lambda f: "read-only" if f == own else problem(f))
    cache._writable_folder.cache_clear()
    assert cache.read_entry("a") == b"code"
    cache.write_entry("b", b"more")
    assert cache.read_entry("b") == b"more"
    assert [p.name for p in own.iterdir()] == ["a.code"]
    assert cache.cache_state().entries == 2


def test_code_that_others_could_have_put_there_is_not_trusted(tmp_path):
    _make_unwritable(tmp_path / "own")
    cache.write_entry("a", b"code")
    folder = cache.writable_folder()
    assert folder is not None
    folder.chmod(0o777)
    cache._writable_folder.cache_clear()
    assert cache.read_entry("a") is None
    assert cache.writable_folder() is None


def test_shared_memory_serves_where_no_disk_can_be_written(tmp_path):
    _make_unwritable(tmp_path / "own")
    _make_unwritable(tmp_path / "temp" / f"motion_nodes-{os.getuid()}")
    (tmp_path / "shm").mkdir(mode=0o700)
    cache.write_entry("a", b"code")
    assert cache.read_entry("a") == b"code"
    folder = cache.writable_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path / "shm")


def test_without_any_folder_all_goes_on_without_a_cache(tmp_path, caplog):
    _make_unwritable(tmp_path / "own")
    (tmp_path / "temp").rmdir()
    _make_unwritable(tmp_path / "temp")
    with caplog.at_level(logging.WARNING):
        cache.write_entry("a", b"code")
    assert cache.read_entry("a") is None
    assert cache.cache_state().folder is None
    assert len(caplog.records) == 1
    assert "each start compiles anew" in caplog.text


def test_the_oldest_entries_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_MAX_ENTRIES", 3)
    folder = tmp_path / "own" / "kernels"
    for age, key in enumerate("abcde"):
        cache.write_entry(key, b"code")
        os.utime(folder / f"{key}.code", (1000.0 + age, 1000.0 + age))
    cache.write_entry("f", b"code")
    assert sorted(p.stem for p in folder.iterdir()) == ["d", "e", "f"]


_START = """
import sys
from pathlib import Path
import numpy as np
from kernels.random_trees import random_tree
from motion_nodes.kernels import cache, native
compiled = native.compiled
calls = []
native.compiled = lambda *a: calls.append(1) or compiled(*a)
from motion_nodes.core.robot.kinematics import Kinematics
cache.SHARED_MEMORY = Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
k = Kinematics(random_tree(int(sys.argv[1]), 4))
k.warm_up()
assert k.generated
print(len(calls), "numba" in sys.modules, repr(k.frames(np.arange(4.0)).sum()))
"""


def _start(tmp_path: Path) -> subprocess.Popen[str]:
    """Start a process that is ready to warm up, and does so at the first line of input."""
    test_folder = Path(__file__).parents[1]
    path = os.pathsep.join([str(test_folder), str(test_folder.parent)])
    process = subprocess.Popen(
        [sys.executable, "-c", _START, "3", str(tmp_path / "shm")],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path / "temp")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _output(*processes: subprocess.Popen[str]) -> list[list[str]]:
    """Let processes go on together; return the words that each one prints."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    words = []
    for process in processes:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        words.append(out.split())
    return words


@pytest.mark.long
def test_two_processes_at_once_and_then_a_third(tmp_path):
    one, two = _output(_start(tmp_path), _start(tmp_path))
    (third,) = _output(_start(tmp_path))
    assert one[2] == two[2] == third[2]
    assert int(one[0]) + int(two[0]) > 0
    assert third[:2] == ["0", "False"]  # nothing compiled, and not even Numba imported
    assert all(p.suffix == ".code" for p in (tmp_path / "own" / "kernels").iterdir())


@pytest.mark.long
def test_a_robot_starts_where_no_folder_can_be_written(tmp_path):
    _make_unwritable(tmp_path / "own")
    _make_unwritable(tmp_path / "temp" / f"motion_nodes-{os.getuid()}")
    (first,) = _output(_start(tmp_path))
    (second,) = _output(_start(tmp_path))
    assert int(first[0]) == int(second[0]) > 0
    assert first[2] == second[2]

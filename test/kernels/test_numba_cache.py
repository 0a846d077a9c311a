# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels on disk: kept, compiled anew where damaged, not read where others can write."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import subprocess
import sys
import textwrap

import pytest

from motion_nodes.kernels import cache, jit


def double(x):
    return 2.0 * x


class Planted:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of Numba's files with one kernel in it."""
    monkeypatch.setattr(jit, "_folder", lambda: tmp_path / "numba")
    assert jit.kernel(double)(2.0) == 4.0
    return tmp_path / "numba"


def hits():
    """Call the kernel anew; return how often it came from disk."""
    made = jit.kernel(double)
    assert made(2.0) == 4.0
    return sum(made.stats.cache_hits.values())


def test_a_kernel_in_a_read_only_folder_is_loaded_from_there(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "_folder", lambda: tmp_path / "new")
    monkeypatch.setattr(jit, "_elsewhere", lambda _: (tmp_path / "none", folder))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert hits() == 1
    assert not list((tmp_path / "new").rglob("*.nbc"))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("method", ["_save_index", "_save_data"])
def test_on_a_full_disk_a_kernel_is_compiled_and_told(tmp_path, monkeypatch, caplog, method):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(jit, "_folder", lambda: tmp_path / "numba")
    monkeypatch.setattr(jit.CheckedCacheFile, method, full)
    assert jit.kernel(double)(2.0) == 4.0
    assert "No space left" in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr(jit, "_folder", lambda: tmp_path / "numba")
    assert hits() == 0  # nothing half written is loaded
    assert hits() == 1


def files(folder, suffix):
    found = sorted(folder.rglob(f"*{suffix}"))
    assert found
    return found


def test_what_was_compiled_is_loaded(folder):
    assert hits() == 1


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-7] + bytes([content[-7] ^ 1]) + content[-6:],
        lambda content: os.urandom(len(content)),
        lambda content: pickle.dumps("of another format"),
    ],
    ids=["empty", "cut", "flipped", "noise", "pickle"],
)
def test_damaged_files_are_compiled_anew(folder, suffix, damage):
    for file in files(folder, suffix):
        file.write_bytes(damage(file.read_bytes()))
    assert hits() == 0
    assert hits() == 1


def test_a_planted_pickle_without_its_checksum_is_not_run(folder, tmp_path):
    trace = tmp_path / "trace"
    for file in (*files(folder, ".nbi"), *files(folder, ".nbc")):
        file.write_bytes(pickle.dumps(Planted(trace)))
    assert hits() == 0
    assert not trace.exists()


@pytest.mark.long
def test_processes_at_the_same_time_compile_a_kernel_once(tmp_path):
    (tmp_path / "together.py").write_text(
        textwrap.dedent("""
            import sys
            from pathlib import Path
            from motion_nodes.kernels import jit
            jit._folder = lambda: Path("numba")

            @jit.kernel
            def double(x):
                return 2.0 * x

            print("imported", flush=True)
            sys.stdin.readline()
            assert double(2.0) == 4.0
            print(sum(double.stats.cache_hits.values()))
        """)
    )
    command = [sys.executable, "together.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    running = [
        subprocess.Popen(command, cwd=tmp_path, text=True, **pipes)  # type: ignore[call-overload]
        for _ in range(3)
    ]
    assert [process.stdout.readline() for process in running] == ["imported\n"] * 3
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    assert sorted(process.communicate()[0].strip() for process in running) == ["0", "1", "1"]


def test_a_process_that_compiles_for_too_long_is_not_waited_for(folder, monkeypatch):
    monkeypatch.setattr(jit, "_TURN_TIMEOUT", 0.1)
    for file in files(folder, ".nbi"):
        file.unlink()
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert hits() == 0
    assert hits() == 1


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
@pytest.mark.parametrize("place", ["own", "parent"])
def test_folders_that_others_can_write_to_are_not_used(tmp_path, monkeypatch, mode, place):
    own = tmp_path / "cache"
    (own / "kernels").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(own))
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setattr(cache, "SHARED_MEMORY", tmp_path / "none")
    key = "0" * 64
    cache.write_entry(key, b"code")
    assert cache.read_entry(key) == b"code"
    (own / "kernels" if place == "own" else own).chmod(mode)
    cache._writable_folder.cache_clear()
    assert cache.read_entry(key) is None
    assert cache.writable_folder() != own / "kernels"
    cache._writable_folder.cache_clear()

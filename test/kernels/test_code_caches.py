# SPDX-License-Identifier: Apache-2.0
"""Compiled code on disk: kernels of LLVM and Numba, damage, folders, several processes."""

import errno
import fcntl
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numba
import numpy as np
import pytest

from motion_nodes.kernels import cache, jit
from motion_nodes.kernels.jit import KernelLibrary


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


_USE = """
import numpy as np
from motion_nodes.kernels import numpy_kinematics
from numba import config
before = config.CACHE_DIR
X = np.zeros((2, 4, 4))
numpy_kinematics._prepend(X[0], X[1])
hits = numpy_kinematics._prepend.stats.cache_hits
print(sum(hits.values()), before == "")
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
@pytest.mark.long
def test_kernels_are_kept_in_our_folder_and_found_again(tmp_path):
    """Also by another installation of the same sources."""
    root, elsewhere = Path(__file__).parents[2], tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "motion_nodes").symlink_to(root / "motion_nodes")
    environment = {
        **os.environ,
        "MOTION_NODES_CACHE_DIR": str(tmp_path),
        "NUMBA_CACHE_DIR": "",
    }
    outputs = [
        subprocess.run(
            [sys.executable, "-c", _USE],
            env=environment | {"PYTHONPATH": str(place)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for place in (root, root, elsewhere)
    ]
    # Numba's own setting is left alone.
    assert outputs == [["0", "True"], ["1", "True"], ["1", "True"]]
    assert [p.name[:6] for p in (tmp_path / "kernels").iterdir()] == ["numba-"]
    assert list(tmp_path.rglob("*.nbc"))


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
def test_without_a_folder_kernels_are_compiled_all_the_same(monkeypatch):
    monkeypatch.setattr(jit, "_folder", lambda: None)

    @jit.kernel
    def total(x: np.ndarray) -> float:
        return x.sum()

    assert total(np.ones(3)) == 3.0


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
def test_the_folder_tells_versions_apart(monkeypatch):
    if cache.writable_folder() is None:
        pytest.skip("no folder can be written here")
    find = jit._folder.__wrapped__
    folders = {find(), find()}
    monkeypatch.setattr("motion_nodes.__version__", "0.0.0")
    folders.add(find())
    monkeypatch.setattr(numba, "__version__", "0.0.0")
    folders.add(find())
    assert len(folders) == 3


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """A kernel that was compiled before, loaded from disk."""
    monkeypatch.setattr(jit, "_folder", lambda: tmp_path / "numba")
    jit.kernel(double)(2.0)
    made = jit.kernel(double)
    assert made(3.0) == 6.0
    assert sum(made.stats.cache_hits.values()) == 1
    return made


def library(kernel):
    (result,) = kernel.overloads.values()
    return result.library


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
def test_a_loaded_kernel_keeps_no_parsed_code(loaded):
    assert isinstance(library(loaded), KernelLibrary)
    assert library(loaded)._shared_module is None


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
def test_loading_imports_nothing_to_compile_with(tmp_path):
    (tmp_path / "ours.py").write_text(
        "import sys\nimport numpy as np\nfrom motion_nodes import kernels\n"
        "kernels.uses_blas = False\nfrom motion_nodes.kernels import jit\n\n\n"
        "@jit.kernel\ndef f(a):\n    return a.copy()\n\n\n"
        "@jit.kernel\ndef g(a):\n    return f(a).sum()\n\n\nf(np.ones(3))\n"
        "blas = 2 * ('scipy.linalg' in sys.modules)\n"
        "compiler = 'numba.np.npyimpl' in sys.modules\n"
    )
    state = "import ours; print(ours.blas + ours.compiler)"
    assert [run(state, tmp_path) for _ in range(2)] == [1, 0]
    linked = "import ours, numpy; print(int(ours.g(numpy.ones(3))))"
    assert [run(linked, tmp_path) for _ in range(2)] == [3, 3]


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
def test_a_loaded_kernel_is_linked_with_a_new_one(loaded):
    def twice_doubled(x):
        return loaded(loaded(x))

    assert numba.njit(twice_doubled)(1.0) == 4.0
    assert library(loaded)._shared_module is not None


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
@pytest.mark.long
def test_functions_of_other_packages_are_cached_as_numba_does(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "theirs.py").write_text(
        "import numba\n\n@numba.njit(cache=True)\ndef f(x):\n    return x + 1.0\n"
    )
    alone = "import theirs; theirs.f(1.0); print(sum(theirs.f.stats.cache_hits.values()))"
    beside = f"from motion_nodes.kernels import jit; {alone}"
    for program, hits in ((alone, 0), (beside, 1), (alone, 1)):
        assert run(program, folder) == hits
    for file in folder.rglob("*.nb?"):
        file.unlink()
    for program, hits in ((beside, 0), (alone, 1)):
        assert run(program, folder) == hits


def run(program: str, folder: Path) -> int:
    """Run a program with the modules of a folder; return the number that it prints."""
    paths = os.pathsep.join((str(folder), *filter(None, sys.path)))
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
def test_a_kernel_linked_with_a_loaded_one_is_loaded_from_disk(loaded):
    @jit.kernel
    def plus_one(x):
        return loaded(x) + 1.0

    assert plus_one(1.0) == 3.0
    again = jit.kernel(plus_one.py_func)
    assert again(1.0) == 3.0
    assert sum(again.stats.cache_hits.values()) == 1
    assert library(again)._shared_module is None

# SPDX-License-Identifier: Apache-2.0
"""Kernels loaded from disk are linked with others, and keep no intermediate code in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from motion_nodes.kernels import jit
from motion_nodes.kernels.jit import KernelLibrary

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")


def double(x):
    return 2.0 * x


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


def test_a_loaded_kernel_keeps_no_parsed_code(loaded):
    assert isinstance(library(loaded), KernelLibrary)
    assert library(loaded)._shared_module is None


def test_a_loaded_kernel_is_linked_with_a_new_one(loaded):
    def twice_doubled(x):
        return loaded(loaded(x))

    assert numba.njit(twice_doubled)(1.0) == 4.0
    assert library(loaded)._shared_module is not None


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


def test_a_kernel_linked_with_a_loaded_one_is_loaded_from_disk(loaded):
    @jit.kernel
    def plus_one(x):
        return loaded(x) + 1.0

    assert plus_one(1.0) == 3.0
    again = jit.kernel(plus_one.py_func)
    assert again(1.0) == 3.0
    assert sum(again.stats.cache_hits.values()) == 1
    assert library(again)._shared_module is None

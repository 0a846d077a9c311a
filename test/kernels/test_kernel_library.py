# SPDX-License-Identifier: Apache-2.0
"""Kernels loaded from disk are linked with others, and keep no intermediate code in memory."""

from __future__ import annotations

import numba
import pytest

from motion_nodes.kernels import jit
from motion_nodes.kernels.kernel_library import KernelLibrary

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


def test_a_kernel_linked_with_a_loaded_one_is_loaded_from_disk(loaded):
    @jit.kernel
    def plus_one(x):
        return loaded(x) + 1.0

    assert plus_one(1.0) == 3.0
    again = jit.kernel(plus_one.py_func)
    assert again(1.0) == 3.0
    assert sum(again.stats.cache_hits.values()) == 1
    assert library(again)._shared_module is None

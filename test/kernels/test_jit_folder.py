# SPDX-License-Identifier: Apache-2.0
"""Where Numba keeps what it compiled for all robots."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from motion_nodes.kernels import cache, jit

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")

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


def test_without_a_folder_kernels_are_compiled_all_the_same(monkeypatch):
    monkeypatch.setattr(jit, "_folder", lambda: None)

    @jit.kernel
    def total(x: np.ndarray) -> float:
        return x.sum()

    assert total(np.ones(3)) == 3.0


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

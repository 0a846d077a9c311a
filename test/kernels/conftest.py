# SPDX-License-Identifier: Apache-2.0
"""Compiled code of these tests goes to a folder of its own, and stays during the whole run."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _kernel_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path_factory.mktemp("kernel_cache")))
        # A run without Numba's compiler still tests generated code, which does not need it.
        patch.setenv("NUMBA_DISABLE_JIT", "0")
        yield

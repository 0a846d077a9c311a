# SPDX-License-Identifier: Apache-2.0
"""Generated code is tested in a run without Numba's compiler, too: it does not need it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _generated_code_needs_no_numba():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "0")
        yield

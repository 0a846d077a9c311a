# SPDX-License-Identifier: Apache-2.0
"""Generated code does not need Numba: its tests also run without Numba's compiler."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _generated_code_needs_no_numba():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "0")
        yield

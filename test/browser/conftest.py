# SPDX-License-Identifier: Apache-2.0
"""A browser page for tests: the fixture ``page``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser.chromium import Page, chromium_page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One Chromium for all tests of a file; skips when there is none."""
    with chromium_page(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened

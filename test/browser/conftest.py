# SPDX-License-Identifier: Apache-2.0
"""Browser pages for tests: the fixtures ``page`` and ``cell``."""

from typing import TYPE_CHECKING

import pytest
from browser.chromium import chromium_page

if TYPE_CHECKING:
    pass


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """One Chromium for all tests of a file; skips when there is none."""
    with chromium_page(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """One page of a Franka for all tests of a file."""
    from browser.franka_cell import open_cell

    with open_cell(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened

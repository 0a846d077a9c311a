# SPDX-License-Identifier: Apache-2.0
"""The harness itself: skips without Chromium, messages of timeouts, image measures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browser import chromium


@pytest.mark.parametrize(
    ("name", "value"), [("CHROMIUM", ("/nowhere/chromium",)), ("DRIVER", "/nowhere/driver")]
)
def test_without_chromium_or_its_driver_tests_skip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: object
) -> None:
    monkeypatch.setattr(chromium, name, value)
    with (
        pytest.raises(pytest.skip.Exception),
        chromium.chromium_page(tmp_path),
    ):
        pass


def test_waiting_in_vain_says_for_what() -> None:
    pytest.importorskip("selenium")
    with pytest.raises(AssertionError, match="until the sun rises; last: 0"):
        chromium.wait_for(lambda: 0, "the sun rises", limit=0.0)


def test_image_measures() -> None:
    blank = np.full((10, 20, 3), 255, np.uint8)
    marked = blank.copy()
    marked[0, :10] = 0
    assert chromium.spread(blank) == 0.0
    assert chromium.spread(marked) > 10.0
    assert chromium.difference(blank, blank) == 0.0
    assert chromium.difference(blank, marked) == pytest.approx(0.05)
    assert chromium.difference(blank, marked[:5]) == 1.0

# SPDX-License-Identifier: Apache-2.0
"""Each page of mathematics shows a picture, which the package still draws."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "mathematics").glob("*.md"))
_SPEC = importlib.util.spec_from_file_location("draw", ROOT / "tools" / "draw_mathematics.py")
draw = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(draw)


def texts(svg: str) -> list[str]:
    """Return the words of a picture, without numbers."""
    found = [node.text or "" for node in ElementTree.fromstring(svg).iter() if "text" in node.tag]
    return [text for text in found if any(map(str.isalpha, text))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_is_drawn(page: Path) -> None:
    file = page.parent / "pictures" / f"{page.stem}.svg"
    assert f"](pictures/{file.name})" in page.read_text("utf-8")
    kept = file.read_text("utf-8")
    assert len(kept) < 200_000
    assert texts(kept) == texts(draw.PICTURES[page.stem]().svg)

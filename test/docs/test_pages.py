# SPDX-License-Identifier: Apache-2.0
"""Pages of the docs: links, index, pictures, formulas, generated content."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_FOLDERS = ("docs", "examples", "benchmarks", "motion_nodes/robots")
PAGES = sorted([*ROOT.glob("*.md"), *(p for f in _FOLDERS for p in (ROOT / f).rglob("*.md"))])
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def prose(page):
    """Return a page without its code."""
    return re.sub(r"`[^`\n]*`", "", _CODE.sub("", page.read_text(encoding="utf-8")))


def anchors(page):
    """Return the anchors of a page's headings on GitHub."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    names = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names}


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_reached_from_the_index():
    seen, left = set(), [ROOT / "docs" / "index.md"]
    while left:
        page = left.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        paths = (link.partition("#")[0] for link in links(page) if ":" not in link)
        left += [(page.parent / path).resolve() for path in paths if path]
    missing = {page for page in (ROOT / "docs").rglob("*.md")} - seen
    assert not missing, sorted(page.name for page in missing)


def test_pictures_are_shown_somewhere():
    shown = {Path(link).name for page in PAGES for link in links(page)}
    files = {file.name for file in (ROOT / "docs" / "pictures").iterdir()}
    assert files
    assert files <= shown


def test_formulas_are_closed():
    """GitHub renders a formula only if its dollars and braces are paired."""
    for page in (ROOT / "docs" / "mathematics").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert text.count("$$") % 2 == 0, page.name
        for block in text.split("$$")[1::2]:
            assert "$" not in block, f"{page.name}: {block}"
            bare = block.replace(r"\{", "").replace(r"\}", "")
            assert bare.count("{") == bare.count("}"), f"{page.name}: {block}"
            assert len(re.findall(r"\\begin", block)) == len(re.findall(r"\\end", block))
        for paragraph in re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL).split("\n\n"):
            assert paragraph.count("$") % 2 == 0, f"{page.name}: {paragraph}"


def test_robots_page_is_current():
    found = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "write_robot_docs.py"), "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr

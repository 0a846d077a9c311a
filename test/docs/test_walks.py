# SPDX-License-Identifier: Apache-2.0
"""The walks of docs/architecture.md name files and objects that exist, and run in that order."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")
NAMED = re.compile(r"`((?:core|kernels|ros|nodes|extras)/[\w/]+\.py)`(?:\s+`([\w.]+)`)?")
MOST_LINES = 200


def defined(file, name):
    """Whether a file defines a name, or a class with an attribute of it."""
    text = file.read_text("utf-8")
    return all(
        re.search(rf"^\s*(?:(?:async )?def|class) {part}\b|^{part}\b", text, re.MULTILINE)
        for part in name.split(".")
    )


def test_files_and_names_exist():
    named = NAMED.findall(TEXT)
    assert len(named) > 30
    files = {name: ROOT / "motion_nodes" / name for name, _ in named}
    assert [name for name, file in files.items() if not file.is_file()] == []
    assert [(name, what) for name, what in named if what and not defined(files[name], what)] == []


def test_the_three_walks_are_there_and_the_page_is_short():
    titles = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert {"A twist", "An IK request", "A MoveGroup goal"} <= set(titles)
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_names_of_a_walk_belong_to_files_named_before():
    for title in ("A twist", "An IK request", "A MoveGroup goal"):
        walk = TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]
        files = [ROOT / "motion_nodes" / name for name, _ in NAMED.findall(walk)]
        for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", walk):
            assert any(defined(file, name.split(".")[-1]) for file in files), (title, name)

# SPDX-License-Identifier: Apache-2.0
"""docs/conformance.md names a test, a source and a verdict for each behavior."""

import ast
import re
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = (FOLDER.parents[1] / "docs" / "conformance.md").read_text(encoding="utf-8")
VERDICTS = ("same", "by parameter", "ours on purpose", "not offered")


def rows() -> list[tuple[str, str, str, str]]:
    """Return peer, behavior, verdict with reasons, and test of each row of the page."""
    found = []
    for peer, table in re.findall(r"^## (.+)\n\n(?:\|.*\n){2}((?:\|.*\n)*)", PAGE, re.M):
        for line in table.splitlines():
            text, here, _, shown = (c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1])
            found.append((peer, text, here, shown.strip("`")))
    return found


def test_each_behavior_is_shown_by_a_test_that_exists():
    named = {shown for *_, here, shown in rows() if not here.startswith("not offered")}
    there = {
        f"{file.name}::{node.name}"
        for file in FOLDER.glob("test_*.py")
        if file.name != Path(__file__).name
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert named <= there, sorted(named - there)


def test_each_behavior_stands_once_and_differences_have_reasons():
    assert not [key for key, n in Counter(row[:2] for row in rows()).items() if n > 1]
    for peer, text, here, shown in rows():
        verdict, _, reason = here.partition("; ")
        assert verdict in VERDICTS, (peer, text)
        assert reason or verdict == "same", (peer, text)
        assert bool(shown) != (verdict == "not offered"), (peer, text)


def test_counts_are_those_of_the_rows_and_nearly_all_behaviors_are_the_peers():
    counts = Counter((peer, here.partition(";")[0]) for peer, _, here, _ in rows())
    for name, *numbers in re.findall(r"^\| (.+?)" + r" \| (\d+)" * 5 + r" \|$", PAGE, re.M):
        of = [sum(n for (p, w), n in counts.items() if w == v and name in (p, "all"))
              for v in VERDICTS]  # fmt: skip
        assert [int(n) for n in numbers] == [*of, sum(of)], name
    same = sum(n for (_, verdict), n in counts.items() if verdict in VERDICTS[:2])
    assert same >= 0.95 * counts.total()

# SPDX-License-Identifier: Apache-2.0
"""The programs whose lines docs/comparison.md counts run, and are as long as it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNTED = runpy.run_path(str(ROOT / "benchmarks" / "count_lines.py"))


def test_the_table_holds_what_is_counted():
    page = (ROOT / "docs" / "comparison.md").read_text("utf-8")
    for row in COUNTED["rows"]():
        assert row.split(" \u2013 ")[0] in page


@pytest.mark.long
@pytest.mark.parametrize("name", COUNTED["TASKS"])
def test_a_program_reaches_what_it_checks(name):
    pytest.importorskip("viser")
    runpy.run_path(str(ROOT / "benchmarks" / "seven_tasks" / f"{name}.py"))["page"].close()

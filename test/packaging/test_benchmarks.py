# SPDX-License-Identifier: Apache-2.0
"""Each benchmark starts as its page says: without the folder of the tests on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "benchmarks").glob("bench_*.py"))


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.stem)
def test_it_describes_its_options(script: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), "--help"]
    done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--json FILE" in done.stdout


def test_the_page_names_each_of_them() -> None:
    page = (ROOT / "benchmarks/README.md").read_text() + (ROOT / "Makefile").read_text()
    assert not [script.name for script in SCRIPTS if script.name not in page]

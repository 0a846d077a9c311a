# SPDX-License-Identifier: Apache-2.0
"""docs/conformance.md is current, and nearly all behaviors are the peers'."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.behaviours import BY_PARAMETER, SAME, Behaviour, Verdict, collect

ROOT = Path(__file__).parents[2]


def test_the_page_is_current():
    command = [sys.executable, str(ROOT / "tools" / "write_conformance.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_nearly_all_behaviors_are_the_peers():
    found = collect(ROOT / "test" / "conformance")
    same = [each for each in found if each.verdict in (SAME, BY_PARAMETER)]
    assert len(same) >= 0.95 * len(found)


@pytest.mark.parametrize("verdict", [v for v in Verdict if v is not SAME])
def test_a_difference_without_its_reason_is_refused(verdict):
    with pytest.raises(ValueError, match="must"):
        Behaviour("peer", "does something", "test.cpp", verdict)

# SPDX-License-Identifier: Apache-2.0
"""How tests are shared out among workers: nothing real-time beside another of its kind."""

from __future__ import annotations

from pathlib import Path

import shares

TESTS = Path(__file__).parents[1]


def test_places_that_are_named_are_there():
    for place in (*shares.TOGETHER, *shares.FIRST):
        assert (TESTS.parent / place).is_dir(), place


def test_simulations_and_browsers_run_one_after_the_other():
    names = {
        shares.share_of(f"test/{folder}/{file.name}::test_x[a::b]")
        for folder in ("journeys", "browser")
        for file in (TESTS / folder).glob("test_*.py")
    }
    assert len(names) == 1
    assert shares.share_of("test/nodes/test_a.py::TestB::test_c") == "test/nodes/test_a.py"


def test_what_takes_longest_begins_first():
    ids = ["test/ik/test_a.py::t", "test/nodes/test_b.py::t", "test/journeys/test_c.py::t"]
    assert sorted(ids, key=shares.rank) == ids[::-1]


def test_workers_are_bounded_by_the_machine():
    assert 2 <= shares.workers() <= 8

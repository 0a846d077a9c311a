# SPDX-License-Identifier: Apache-2.0
"""Distribution of tests among workers."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import shares

TESTS = Path(__file__).parents[1]


def test_places_that_are_named_are_there():
    for place in (*shares.TOGETHER, *shares.FIRST, *shares.COMPUTING):
        assert (TESTS.parent / place).exists(), place


def test_simulations_and_browsers_run_one_after_the_other():
    names = {
        shares.share_of(f"test/{folder}/{file.name}::test_x[a::b]")
        for folder in ("journeys", "browser")
        for file in (TESTS / folder).glob("test_*.py")
    }
    assert len(names) == 1
    assert shares.share_of("test/nodes/test_a.py::TestB::test_c") == "test/nodes/test_a.py"


def test_what_takes_longest_begins_first():
    ids = ["test/ik/test_a.py::t", "test/ros/test_d.py::t", "test/nodes/test_b.py::t"]
    ids += ["test/journeys/test_c.py::t"]
    assert sorted(ids, key=shares.rank) == ids[::-1]


def test_workers_are_bounded_by_the_machine():
    assert 3 <= shares.workers() <= 9


def test_no_process_is_started_where_tests_only_compute():
    for place in shares.COMPUTING:
        path = TESTS.parent / place
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            words = file.read_text()
            assert not re.search("^(?:import|from) rclpy", words, re.MULTILINE), file
            assert "suite" not in re.findall(r"def test_\w+\(([^)]*)\)", words), file


def test_the_last_of_several_workers_only_computes():
    def those(count: int) -> list[int]:
        return [i for i in range(count) if shares.only_computes(f"gw{i}", count)]

    assert [those(count) for count in (1, 2, 3, 4, 8)] == [[], [], [2], [3], [7]]


class Worker:
    """Stands for a worker of xdist."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.waiting: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.waiting += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.mark.parametrize("rooms", [("ik", "model"), ("nodes", "ros"), ("nodes", "ik", "ros")])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_all_tests_are_done_whatever_there_is(rooms, count):
    tests = [f"test/{room}/test_{i}.py::t{k}" for room in rooms for i in range(4) for k in range(5)]
    config = SimpleNamespace(
        getvalue=lambda _: [f"{count}*popen"], option=SimpleNamespace(loadscopereorder=True)
    )
    scheduler = shares.Shares(config)
    staff = [Worker(i) for i in range(count)]
    for worker in staff:
        scheduler.add_node(worker)
    for worker in staff:
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    done = []
    while any(worker.waiting for worker in staff):
        for worker in staff:
            if worker.waiting:
                index = worker.waiting.pop(0)
                done.append(tests[index])
                if shares.only_computes(worker.gateway.id, count):
                    assert tests[index].startswith(shares.COMPUTING)
                scheduler.mark_test_complete(worker, index)
    assert sorted(done) == sorted(tests)
    assert scheduler.tests_finished
    assert all(worker.shutting_down for worker in staff)

# SPDX-License-Identifier: Apache-2.0
"""Process accounting of real processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from motion_nodes.bringup.process_health import Activity, read_activity


@pytest.fixture
def child():
    made = []

    def start(code):
        process = subprocess.Popen([sys.executable, "-c", code])
        made.append(process)
        return process

    yield start
    for process in made:
        process.kill()
        process.wait()


def wait_for(condition, limit=20.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_one_that_computes_uses_processor_time(child):
    pid = child("while True: pass").pid
    before = read_activity(pid)
    wait_for(lambda: read_activity(pid).computed > before.computed + 0.2)


def test_one_that_is_stopped_shows_it(child):
    pid = child("import time; time.sleep(60)").pid
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: read_activity(pid).state == "T")
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: read_activity(pid).state == "S")


def test_two_on_one_processor_wait_for_it(child):
    pids = [child("while True: pass").pid for _ in range(2)]
    for pid in pids:
        os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
    before = read_activity(pids[0])
    wait_for(lambda: read_activity(pids[0]).waited > before.waited + 0.2)


def test_one_that_does_not_exist_has_an_empty_record(tmp_path):
    assert read_activity(1, tmp_path) == Activity()


def test_names_may_hold_anything(tmp_path):
    folder = tmp_path / "7" / "task" / "7"
    folder.mkdir(parents=True)
    fields = ["T", *["0"] * 10, "300", "200", *["0"] * 20]
    (tmp_path / "7" / "stat").write_text(f"7 (a) S 1 2) {' '.join(fields)}")
    (folder / "schedstat").write_text("1 2500000000 3")
    (folder / "stat").write_text("7 (a) S 1 2) R 1")
    (tmp_path / "pressure").mkdir()
    pressure = tmp_path / "pressure" / "cpu"
    pressure.write_text("some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00")
    ticks = os.sysconf("SC_CLK_TCK")
    assert read_activity(7, tmp_path) == Activity("T", 500 / ticks, 2.5, True, 0.125)
    pressure.unlink()
    assert read_activity(7, tmp_path).pressure == 0.0

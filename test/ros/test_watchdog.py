# SPDX-License-Identifier: Apache-2.0
"""A process that hangs ends by itself where no supervisor watches it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.watchdog import VARIABLE, watchdog_time

HANGING = """
import ctypes, sys, time
from ros.probe import Probe
from motion_nodes.ros import run

def holds_the_interpreter(node):
    ctypes.PyDLL(None).sleep(600)

def loops(node):
    time.sleep(600)

def nowhere(node):
    if node.ticks == 600:  # after twice the time
        print("alive", flush=True)

class Hanging(Probe):
    def tick(self, dt):
        self.ticks += 1
        if self.ticks == 5:
            print("hangs", flush=True)
        if self.ticks >= 5:
            globals()[sys.argv[1]](self)

run.run_node(Hanging)
"""
CASES = ["holds_the_interpreter", "loops"]


def started(case: str, seconds: str) -> subprocess.Popen[str]:
    """Start a node that hangs in its fifth cycle."""
    return subprocess.Popen(
        [sys.executable, "-c", HANGING, case],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[1], env=os.environ | {VARIABLE: seconds},
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.timeout(120)
def test_a_process_that_hangs_ends_and_shows_where(case: str) -> None:
    process = started(case, "1.5")
    out, err = process.communicate()
    assert out == "hangs\n"
    assert process.returncode == 1
    assert f"in {case}" in err


@pytest.mark.timeout(120)
def test_one_that_works_lives_on_and_stops_as_usual() -> None:
    process = started("nowhere", "1.5")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["hangs\n", "alive\n"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 0, err


@pytest.mark.parametrize("text", ["0", "-1", "nan", "soon"])
def test_no_time_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InvalidConfig, match=VARIABLE):
        watchdog_time()


@pytest.mark.timeout(120)
def test_no_time_ends_the_start_with_one_line() -> None:
    process = started("nowhere", "soon")
    _, err = process.communicate()
    assert process.returncode == 1
    assert f"cannot start: {VARIABLE}" in err
    assert "Traceback" not in err

# SPDX-License-Identifier: Apache-2.0
"""Report and exit code of a demo: checks that did not run have not passed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from motion_nodes.nodes.demo.arm import DemoFindings
from motion_nodes.nodes.demo.shows import SHOWS
from motion_nodes.ros import signals

CHECKS = ("arm at rest", "square driven")


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The stop event, not set."""
    event = threading.Event()
    monkeypatch.setattr(signals, "STOP", event)
    return event


@pytest.mark.parametrize(
    ("results", "stopped", "headless", "code", "said"),
    [
        ([True, True], False, True, 0, "all checks passed"),
        ([True, True], True, True, 0, "all checks passed"),
        ([True], True, True, 130, "stopped; these checks did not run: square driven"),
        ([True], True, False, 0, "stopped; these checks did not run: square driven"),
        ([], True, True, 130, "did not run: arm at rest, square driven"),
        ([True], False, True, 1, "incomplete; these checks did not run: square driven"),
        ([False], True, True, 1, "checks FAILED"),
        ([True, False], False, False, 1, "checks FAILED"),
    ],
)
def test_result_and_exit_code(stop, capsys, results, stopped, headless, code, said):
    findings = DemoFindings()
    for name, ok in zip(CHECKS, results, strict=False):
        findings.check(ok, f"the {name}: 0.01 m/s")
    if stopped:
        stop.set()
        # A measurement during an interrupted motion is no result.
        findings.check(False, "the square driven: nan m")
    assert findings.conclude(CHECKS, headless=headless) == code
    printed = capsys.readouterr().out
    assert said in printed
    assert ("all checks passed" in printed) == (code == 0 and "did not run" not in printed)


def test_each_round_has_all_checks(stop):
    findings = DemoFindings()
    findings.check(True, "the arm at rest")
    findings.begin_round()
    assert findings.missing(CHECKS) == list(CHECKS)
    assert findings.lines == ["[ok] the arm at rest"]


def test_every_show_names_its_checks():
    for name, show in SHOWS.items():
        assert show.checks, name
        assert len(set(show.checks)) == len(show.checks), name


def test_ctrl_c_in_a_headless_demo(tmp_path):
    command = [sys.executable, "-m", "motion_nodes.cli.main", "demo", "wipe", "--headless"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "wiping" in line
    os.kill(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=90.0)
    assert "did not run: the cup held, on average, of the time" in rest
    assert "all checks passed" not in rest
    assert process.returncode == 130

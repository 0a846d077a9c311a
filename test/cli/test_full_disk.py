# SPDX-License-Identifier: Apache-2.0
"""Output on a full disk ends in words; a suite goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from motion_nodes.bringup.suite import print_line
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.trainer import TrainingProgress
from motion_nodes.extras.learning.training_run import append_csv

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
MOTION = [sys.executable, "-m", "motion_nodes.cli.main"]


@pytest.mark.parametrize("words", [["robots"], ["fk", "ur5e", "--state", "home", "--json"],
                                   ["fk", "ur5e", "--state", "home"]])  # fmt: skip
def test_a_command_tells_that_its_output_cannot_be_written(words):
    with FULL.open("w") as full:
        done = subprocess.run([*MOTION, *words], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "motion: the output cannot be written: No space left on device.\n"


def test_the_end_of_a_reader_is_quiet():
    command = subprocess.Popen([*MOTION, "robots"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait() in (0, 1)


def test_lines_of_a_suite_that_cannot_be_written_are_omitted(monkeypatch):
    full = FULL.open("w", buffering=1)
    monkeypatch.setattr(sys, "stdout", full)
    print_line("ready")
    monkeypatch.undo()
    with pytest.raises(OSError):  # what was not written
        full.close()


def test_a_learning_curve_that_cannot_be_written_is_told():
    with pytest.raises(InvalidConfig, match="No space left"):
        append_csv(FULL, TrainingProgress(*range(11)))

# SPDX-License-Identifier: Apache-2.0
"""``motion demo elbow`` and ``motion demo retract`` as CI would run them: Franka in MuJoCo."""

from __future__ import annotations

import re
import sys

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(
    ("show", "said"),
    [
        ("elbow", r"the elbow went (1[0-9]|2[0-9]) cm while the tool moved by 0\.\d\d mm"),
        ("retract", r"retracted by 160 mm: the tool is 0\.\d\d mm and 0\.\d\d mrad from there"),
    ],
)
def test_a_show_checks_what_was_measured(suite, show, said):
    command = [sys.executable, "-m", "motion_nodes.cli.main", "demo", show, "--headless"]
    process = suite.run([*command, "--port", "0"])
    assert process.exit_code(within=120.0) == 0, str(process)
    assert re.search(said, process.output)
    assert "all checks hold" in process.output
    assert "FAILED" not in process.output


def test_an_unknown_show_is_told(suite):
    process = suite.run([sys.executable, "-m", "motion_nodes.cli.main", "demo", "elbw"])
    assert process.exit_code(within=30.0) == 2
    assert "Did you mean 'elbow'" in process.output

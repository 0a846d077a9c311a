# SPDX-License-Identifier: Apache-2.0
"""A robot that is given as a file reaches random goals in MuJoCo: a short part of the benchmark."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_lift_column_reaches_goals_of_its_joints_and_of_a_pose(suite, tmp_path):
    """Its column is two joints, of which one mimics the other."""
    counts = tmp_path / "counts.json"
    script = str(ROOT / "benchmarks/bench_robot_variety.py")
    command = [sys.executable, script, "--goals", "2", "--json", str(counts), "lift_column"]
    process = suite.run(command, folder=ROOT)
    assert process.exit_code(within=240.0) == 0, process
    (found,) = json.loads(counts.read_text())
    assert (found["carried_out"], found["goals"], found["contacts"]) == (2, 2, 0)
    assert found["loose"] < 0.01

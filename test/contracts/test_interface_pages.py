# SPDX-License-Identifier: Apache-2.0
"""Reference pages are up to date, and tables name every field."""

import subprocess
import sys
from pathlib import Path

import pytest
from moveit_msgs.msg import MotionPlanRequest, PlanningScene

ROOT = Path(__file__).parents[2]


def test_pages_are_current():
    found = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "write_interface_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_pages_name_every_parameter():
    from motion_nodes.nodes.registry import NODES, node_class
    from motion_nodes.ros.parameters import declared

    text = (ROOT / "docs" / "parameters.md").read_text()
    for executable in NODES:
        section = text.partition(f"## {executable}\n")[2].partition("\n## ")[0]
        for entry in declared(node_class(executable).params_type):
            assert f"`{entry.name}`" in section


PAGE = Path(__file__).parents[2] / "docs" / "planning.md"


@pytest.mark.parametrize("kind", [MotionPlanRequest, PlanningScene])
def test_the_tables_name_every_field(kind):
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in row.split("|")[1].split("`")[1::2]}
    missing = set(kind.get_fields_and_field_types()) - named
    assert not missing

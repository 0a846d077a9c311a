# SPDX-License-Identifier: Apache-2.0
"""docs/interfaces.md and docs/parameters.md are up to date with their generator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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

# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md quotes texts that the programs print."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def literals():
    """Return all string literals of the sources, with adjacent parts joined."""
    for file in (*(ROOT / "motion_nodes").rglob("*.py"), ROOT / "tools/setup_environment.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(p.value if isinstance(p, ast.Constant) else "\0" for p in node.values)


def test_quoted_texts_are_printed():
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8").replace("| text |", "")
    rows = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 20
    printed = "\n".join(literals())
    own = {"ros2: command not found", "Timeout (0:00:10)!"}  # of the shell, of Python
    assert not sorted(text for text in quoted if text not in printed and text not in own)

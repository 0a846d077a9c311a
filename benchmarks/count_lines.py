# SPDX-License-Identifier: Apache-2.0
"""Counts the lines of seven tasks here, and of the same tasks in clones of other libraries.

``python benchmarks/count_lines.py [--pyroki DIR] [--mink DIR]`` prints the table of
docs/comparison.md. Lines are those with code: no blanks, comments, docstrings.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from pathlib import Path

HERE = Path(__file__).parent / "seven_tasks"
TASKS = {
    "pose": ("one hand to a pose", ["01_basic_ik", "_solve_ik"], []),
    "two_arms": ("two hands to two poses", ["02_bimanual_ik", "_solve_ik_with_multiple_targets"],
                 ["dual_iiwa"]),
    "mobile_base": ("hand and base", ["03_mobile_ik", "_solve_ik_with_base"], ["mobile_tidybot"]),
    "obstacles": ("a pose free of collisions", ["04_ik_with_coll", "_solve_ik_with_collision"],
                  []),
    "manipulability": ("a pose far from singularities",
                       ["05_ik_with_manipulability", "_solve_ik_with_manipulability"], []),
    "online": ("a target followed online, with limits and obstacles",
               ["06_online_planning", "_online_planning"], ["arm_ur5e"]),
    "trajectory": ("a motion over a wall", ["07_trajopt", "_trajopt"], []),
}  # fmt: skip
"""By the name of the file here: what it does, examples and snippets of pyroki, and of mink."""
_SPACE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
          tokenize.ENDMARKER, tokenize.ENCODING}  # fmt: skip


def code_lines(text: str) -> int:
    """Return the number of lines with code, without comments and docstrings.

    Args:
        text: a Python file.
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SPACE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def rows(pyroki: Path | None = None, mink: Path | None = None) -> list[str]:
    """Return the rows of the table.

    Args:
        pyroki: clone of chungmin99/pyroki; None: its columns are empty.
        mink: clone of kevinzakka/mink, likewise.
    """
    found = []
    for name, (text, snippets, examples) in TASKS.items():
        cells = [str(code_lines((HERE / f"{name}.py").read_text("utf-8")))]
        for folder, files in ((pyroki, snippets), (mink, examples)):
            counts = []
            for file in files if folder is not None else ():
                place = "examples/pyroki_snippets" if file.startswith("_") else "examples"
                counts.append(code_lines((folder / place / f"{file}.py").read_text("utf-8")))
            cells.append(" + ".join(map(str, counts)) or "\u2013")
        found.append(f"| {text} | {' | '.join(cells)} |")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pyroki", type=Path)
    parser.add_argument("--mink", type=Path)
    print("\n".join(rows(**vars(parser.parse_args()))))

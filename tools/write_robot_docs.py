# SPDX-License-Identifier: Apache-2.0
"""Writes docs/robots.md from the descriptions of the shipped robots.

``python tools/write_robot_docs.py`` writes it; ``--check`` only reports whether it is current (exit
code 1 if not).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from motion_nodes.core.robot.loader import load_robot  # noqa: E402
from motion_nodes.core.robot.robot import Robot  # noqa: E402

PAGE = ROOT / "docs" / "robots.md"
HEAD = """<!-- Written by tools/write_robot_docs.py; edit the robots' own files instead. -->
# Robots

The shipped robots, as described by their files; `motion describe ROBOT` prints the same. Units:
rad or m, s, N m or N. The last line of each robot links to the sources of the numbers."""
KINDS = {
    "arm": "arm",
    "differential": "differential base",
    "holonomic": "holonomic base",
    "ackermann": "Ackermann base",
    "floating": "robot with a floating base",
}
COLUMNS = ("lower", "upper", "velocity", "acceleration", "jerk", "effort")


def page() -> str:
    """Return docs/robots.md."""
    lines = [HEAD]
    for file in sorted((ROOT / "motion_nodes" / "robots").glob("*/robot.yaml")):
        lines += ["", *section(load_robot(file))]
    return "\n".join(lines) + "\n"


def section(robot: Robot) -> Iterator[str]:
    """Yield the section of a robot."""
    folder = f"../motion_nodes/robots/{robot.directory.name}"
    frames = f"Base frame `{robot.base_frame}`"
    if robot.tool_frame:
        frames += f", tool frame `{robot.tool_frame}`"
    spheres = sum(map(len, robot.spheres.values()))
    yield f"## {robot.name}"
    yield ""
    yield f"{KINDS[robot.kind].capitalize()}. {frames}."
    yield f"Files: [{robot.directory.name}]({folder})."
    yield ""
    yield "| joint | type | lower | upper | velocity | acceleration | jerk | effort |"
    yield "|---|---|---|---|---|---|---|---|"
    for k, joint in enumerate(robot.joint_names):
        numbers = [number(getattr(robot.limits, column)[k]) for column in COLUMNS]
        passive = ", passive" if joint in robot.passive_joints else ""
        kind = robot.tree.joints[joint].kind.name.lower()
        yield f"| `{joint}` | {kind}{passive} | {' | '.join(numbers)} |"
    if robot.groups:
        yield ""
        yield "| group | aliases | joints | base | tip |"
        yield "|---|---|---|---|---|"
        for group in robot.groups.values():
            ends = (code([end]) if end else "" for end in (group.base, group.tip))
            joints = f"{len(group.joints)}: {code(group.joints)}"
            yield f"| `{group.name}` | {code(group.aliases)} | {joints} | {' | '.join(ends)} |"
    yield ""
    if robot.states:
        yield f"Named states: {code(robot.states)}."
    if spheres:
        yield f"Collision spheres: {spheres}, on {len(robot.spheres)} links."
    yield f"Sources: {', '.join(sources(robot, folder))}."


def sources(robot: Robot, folder: str) -> Iterator[str]:
    """Yield the sources of numbers, as links."""
    for what, where in robot.description.sources.items():
        file, _, chapter = where.partition("#")
        yield f"{what} [{chapter or file}]({folder}/{where})"


def code(words: Iterable[str]) -> str:
    """Return words in backquotes."""
    return ", ".join(f"`{word}`" for word in words)


def number(value: float) -> str:
    """Return a limit with four digits; empty: unlimited."""
    if not math.isfinite(value):
        return ""
    return np.format_float_positional(value, 4, fractional=False, trim="-")


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it; return the exit code."""
    text = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print("docs/robots.md is not current; run python tools/write_robot_docs.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print("wrote docs/robots.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

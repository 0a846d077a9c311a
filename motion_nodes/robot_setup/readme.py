# SPDX-License-Identifier: Apache-2.0
"""README of a new robot: measured and estimated data, and what to check."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.notes import Finding, Notes
from motion_nodes.robot_setup.picture import PICTURE_FILE
from motion_nodes.robot_setup.robot_yaml_text import URDF_FILE
from motion_nodes.robot_setup.self_collisions import SelfCollisions
from motion_nodes.robot_setup.sphere_measure import Coverage

_FILES = {
    "robot.yaml": "groups, limits, named states, drives, pairs that are not checked",
    "robot.urdf": "the URDF, with the changes below; its meshes are in `meshes/`",
    "spheres.yaml": "collision spheres; edit them with `motion spheres`",
    "rmpflow.yaml": "settings of the reactive policy",
    "robot.png": "the robot at `home`, and its collision spheres",
}
_HEADINGS = {
    "guessed": ("Guesses", "Not stated in the source; check them before moving a robot."),
    "changed": ("What was changed in the URDF", ""),
    "missing": ("What is missing", ""),
    "measured": ("What was measured", ""),
}
_REASONS = {
    "always": "touch in all configurations",
    "often": "are second neighbours and touch in most configurations",
    "gripper": "are fingers of one gripper",
    "never": "never come closer than 1 cm",
    "spheres only": "spheres overlap, the geometry does not touch",
    "default": "touch in the home state",
}


def report(
    name: str,
    file: Path,
    robot: Robot,
    findings: Notes,
    coverage: Mapping[str, Coverage],
    found: SelfCollisions,
    free_share: float,
    files: Collection[str],
) -> str:
    """Return the text of README.md.

    Args:
        name: name of the robot.
        file: the source file.
        robot: the robot.
        findings: all notes.
        coverage: coverage of the spheres, by link.
        found: result of the search for self-collisions.
        free_share: fraction of random configurations that are collision-free.
        files: names of the folder's files besides the URDF.
    """
    has = {URDF_FILE, *files}
    lines = [
        f"# {name}",
        "",
        f"Made from `{file.name}`: kind {robot.kind}, {len(robot.joint_names)} joints, base frame "
        f"`{robot.base_frame}`"
        + (f", tool frame `{robot.tool_frame}`." if robot.tool_frame else "."),
        "",
        "| file | what |",
        "|---|---|",
        *(f"| `{file_name}` | {what} |" for file_name, what in _FILES.items() if file_name in has),
        "",
    ]
    if PICTURE_FILE in has:
        lines += [f"![The robot and its collision spheres]({PICTURE_FILE})", ""]
    for kind, (heading, words) in _HEADINGS.items():
        items = [item for item in findings if item.kind == kind]
        if items or kind == "guessed":
            lines += [f"## {heading}", "", *([words, ""] if words else [])]
            lines += [_line(item) for item in items] + [""]
    if coverage:
        lines += _spheres(coverage)
        lines += _pairs(found, free_share)
    return "\n".join(lines).rstrip() + "\n"


def _line(item: Finding) -> str:
    return f"- **{item.topic}**: {item.sentence}"


def _spheres(coverage: Mapping[str, Coverage]) -> list[str]:
    lines = [
        "## Collision spheres",
        "",
        "Fractions of the geometry's surface and volume inside the spheres; volume of the spheres "
        "outside it, relative to its volume; max excess of the spheres beyond it.",
        "",
        "| link | spheres | surface | volume | excess | reach [mm] |",
        "|---|---|---|---|---|---|",
    ]
    for link, c in coverage.items():
        lines.append(
            f"| {link} | {c.count} | {c.surface:.1%} | {c.volume:.1%} | {c.excess_volume:.0%} | "
            f"{1000.0 * c.reach:.0f} |"
        )
    return [*lines, f"| all | {sum(c.count for c in coverage.values())} | | | | |", ""]


def _pairs(found: SelfCollisions, free_share: float) -> list[str]:
    lines = [
        "## Self-collisions",
        "",
        f"From {found.samples} random configurations; adjacent links are never "
        f"checked. {len(found.checked)} pairs are checked. {free_share:.0%} of random "
        "configurations are free.",
        "",
        "| not checked: they | pairs |",
        "|---|---|",
    ]
    for reason, words in _REASONS.items():
        pairs = [pair for pair, why in found.ignored.items() if why == reason]
        if pairs:
            shown = "; ".join(f"{a} - {b}" for a, b in pairs[:12])
            rest = f"; and {len(pairs) - 12} more" if len(pairs) > 12 else ""
            lines.append(f"| {words} | {shown}{rest} |")
    return [*lines, ""]

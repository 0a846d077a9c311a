# SPDX-License-Identifier: Apache-2.0
"""Repair of incomplete or incorrect URDFs, with notes.

Operates on the XML, so that the copy in the robot's folder differs from the original only in the
repairs. Errors that cannot be repaired (missing or duplicate names, loops) are reported with their
line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motion_nodes.errors import InvalidDescription
from motion_nodes.robot_setup.joint_repair import repair_joint_types, repair_mimics
from motion_nodes.robot_setup.limit_repair import repair_limits
from motion_nodes.robot_setup.link_repair import (
    numbers_in,
    repair_colours,
    repair_inertial,
    repair_materials,
    repair_shapes,
)
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.robot_setup.xacro_leftovers import put_in_variables


@dataclass(frozen=True)
class Repaired:
    """Properties of a repaired URDF for the next steps."""

    floating: bool
    """Whether the robot floats: a floating joint connects it to the world."""
    unstated_velocity: frozenset[str]
    """Joints whose missing velocity limit was added."""
    unstated_effort: frozenset[str]
    """Joints whose missing effort limit was added."""


def repair(root: Any, file: Path, findings: Notes) -> Repaired:
    """Repair a URDF in place.

    Args:
        root: the element ``<robot>``.
        file: for errors.
        findings: notes are added.

    Raises:
        InvalidDescription: names file and line of a problem that cannot be repaired.
    """
    if not root.get("name"):
        root.set("name", file.name.split(".")[0])
    put_in_variables(root, file, findings)
    repair_materials(root, findings)
    for tag in ("link", "joint"):
        _check_names(root.findall(tag), tag, file)
    joints = root.findall("joint")
    _check_tree(root, joints, file)
    _vectors(root, file, findings)
    floating = repair_joint_types(joints, file, findings)
    repair_mimics(joints, file, findings)
    unstated = repair_limits(joints, file, findings)
    for link in root.findall("link"):
        repair_inertial(link, file, findings)
        repair_shapes(link, file, findings)
    repair_colours(root, findings)
    return Repaired(floating, unstated["velocity"], unstated["effort"])


def _check_names(elements: Iterable[Any], tag: str, file: Path) -> None:
    lines: dict[str, int] = {}
    for element in elements:
        name = element.get("name")
        if not name:
            raise InvalidDescription(
                f"{file}, line {element.sourceline}: a {tag} has no name; give it one."
            )
        if name in lines:
            raise InvalidDescription(
                f"{file}, line {element.sourceline}: the {tag} '{name}' is defined twice, first in "
                f"line {lines[name]}; names must differ."
            )
        lines[name] = element.sourceline


def _check_tree(root: Any, joints: Iterable[Any], file: Path) -> None:
    """Reject URDFs that are not a tree."""
    above: dict[str, str] = {}
    links = {link.get("name") for link in root.findall("link")}
    for joint in joints:
        where = f"{file}, line {joint.sourceline}: joint '{joint.get('name')}'"
        ends = [joint.find(tag) for tag in ("parent", "child")]
        names = [end.get("link") if end is not None else None for end in ends]
        for tag, name in zip(("parent", "child"), names, strict=True):
            if name not in links:
                raise InvalidDescription(f"{where}: its {tag} link '{name}' does not exist.")
        parent, child = map(str, names)
        if child in above:
            raise InvalidDescription(
                f"{where}: link '{child}' hangs on two joints, so this is a closed loop; a URDF is "
                "a tree. Take out the joint that closes the loop."
            )
        above[child] = parent
    for link in above:
        passed = {link}
        while (link := above.get(link, "")) and link not in passed:
            passed.add(link)
        if link:
            raise InvalidDescription(
                f"{file}: the links {listed(sorted(passed))} form a closed loop; a URDF is a tree "
                "that begins at one root. Take out the joint that closes the loop."
            )
    roots = sorted(name for name in links if name not in above)
    if len(roots) > 1:
        raise InvalidDescription(
            f"{file}: {len(roots)} links hang on nothing: {listed(roots)}. A robot has one root "
            "link; join the others to it by fixed joints, or take them out."
        )


def _vectors(root: Any, file: Path, findings: Notes) -> None:
    """Complete origins and axes to three numbers by zeros, and scales by their first number."""
    for mesh in root.iter("mesh"):
        numbers = numbers_in(mesh, "scale", file) if "scale" in mesh.attrib else [1.0] * 3
        if len(numbers) not in (0, 3):
            kept = numbers[:3] if len(numbers) > 3 else numbers[:1] * 3
            mesh.set("scale", " ".join(map(repr, kept)))
            text = f"line {mesh.sourceline}: scale had {len(numbers)} numbers, 3 are needed"
            findings.add("changed", "geometry", text)
    for element in [*root.iter("origin"), *root.iter("axis")]:
        for key in ("xyz", "rpy"):
            if key not in element.attrib:
                continue
            numbers = numbers_in(element, key, file)
            if len(numbers) != 3:
                kept = ([*numbers, 0.0, 0.0, 0.0])[:3]
                element.set(key, " ".join(map(repr, kept)))
                text = f"line {element.sourceline}: {key} had {len(numbers)} numbers, 3 are needed"
                findings.add("changed", "geometry", text)

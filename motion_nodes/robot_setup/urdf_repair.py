# SPDX-License-Identifier: Apache-2.0
"""Repair of incomplete or incorrect URDFs, with notes.

Works on the XML, so that the copy in the robot's folder is the user's file with a few changes.
Problems without a sensible repair (missing or duplicate names, loops) are rejected with their line.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motion_nodes.errors import InvalidDescription
from motion_nodes.robot_setup.link_repair import (
    number_in,
    numbers_in,
    repair_colours,
    repair_inertial,
    repair_materials,
    repair_shapes,
)
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.robot_setup.xacro_leftovers import put_in_variables

VELOCITY = {"revolute": 1.0, "continuous": 1.0, "prismatic": 0.1}
"""Default velocity limits if no other joint of the robot has higher ones [rad/s or m/s]."""
EFFORT = {"revolute": 50.0, "continuous": 50.0, "prismatic": 100.0}
"""Default effort limits likewise [N m or N]."""
_MOVABLE = 0.5
"""Max friction, as a fraction of the effort limit."""
_EQUAL = 1e-3
"""Max difference of position limits that do not contradict each other [rad or m]."""
_MOVING = ("revolute", "continuous", "prismatic")
_TYPES = (*_MOVING, "fixed", "floating", "planar")


@dataclass(frozen=True)
class Repaired:
    """What the rest of the set-up needs to know of a repaired URDF."""

    floating: bool
    """Whether the robot floats: a floating joint connects it to the world."""
    unstated_velocity: frozenset[str]
    """Joints without a velocity limit, which got one."""
    unstated_effort: frozenset[str]
    """Joints without an effort limit, which got one."""


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
    floating = _joint_types(joints, file, findings)
    _mimics(joints, file, findings)
    unstated = _limits(joints, file, findings)
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
                f"{file}, line {element.sourceline}: the {tag} '{name}' stands twice, first in "
                f"line {lines[name]}; names must differ."
            )
        lines[name] = element.sourceline


def _check_tree(root: Any, joints: Iterable[Any], file: Path) -> None:
    """Reject URDFs that are not a tree: a URDF cannot describe a closed loop."""
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
    """Make origins, axes and scales three numbers: missing ones become zeros, or the first one."""
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


def _joint_types(joints: Iterable[Any], file: Path, findings: Notes) -> bool:
    free, floating = [], False
    children = {joint.find("child").get("link") for joint in joints}
    for joint in joints:
        kind = joint.get("type")
        if kind not in _TYPES:
            raise InvalidDescription(
                f"{file}, line {joint.sourceline}: joint '{joint.get('name')}' is of type "
                f"'{kind}'; a URDF has {', '.join(_TYPES)}."
            )
        if kind in ("floating", "planar"):
            joint.set("type", "fixed")
            at_root = joint.find("parent").get("link") not in children
            if kind == "floating" and at_root:
                floating = True
                text = f"{joint.get('name')} is taken as the free base of a floating robot"
                findings.add("changed", "joints", text)
                continue
            free.append(f"{joint.get('name')} ({kind})")
    if free:
        findings.add(
            "changed", "joints", f"made fixed, for they move in several directions: {listed(free)}"
        )
    return floating


def _mimics(joints: Iterable[Any], file: Path, findings: Notes) -> None:
    """Let joints mimic the actuated joint instead of another mimic joint."""
    by_name = {joint.get("name"): joint for joint in joints}
    for name, joint in by_name.items():
        mimic = joint.find("mimic")
        if mimic is None:
            continue
        if joint.get("type") == "fixed":
            joint.remove(mimic)
            continue
        multiplier, offset, passed = 1.0, 0.0, [name]
        step = joint
        while (link := step.find("mimic")) is not None and step.get("type") != "fixed":
            master = link.get("joint")
            if master not in by_name:
                raise InvalidDescription(
                    f"{file}, line {joint.sourceline}: joint '{name}' mimics '{master}', which "
                    "does not exist."
                )
            if master in passed:
                raise InvalidDescription(
                    f"{file}, line {joint.sourceline}: joint '{name}' mimics itself, over "
                    f"{listed(passed)}."
                )
            offset += multiplier * number_in(link, "offset", 0.0, file)
            multiplier *= number_in(link, "multiplier", 1.0, file)
            passed.append(master)
            step = by_name[master]
        if step.get("type") == "fixed":
            joint.remove(mimic)
            joint.set("type", "fixed")
            findings.add("changed", "joints", f"{name} made fixed: {passed[-1]}, its model, is")
        elif len(passed) > 2:
            mimic.set("joint", passed[-1])
            mimic.set("multiplier", repr(multiplier))
            mimic.set("offset", repr(offset))
            findings.add("changed", "joints", f"{name} mimics {passed[-1]} itself, not {passed[1]}")


def _limits(joints: Iterable[Any], file: Path, findings: Notes) -> dict[str, frozenset[str]]:
    """Complete the limits of moving joints; return those without one of velocity, of effort."""
    unstated: dict[str, frozenset[str]] = {}
    moving = [joint for joint in joints if joint.get("type") in _MOVING]
    _twins(moving, file, findings)
    for joint in moving:
        _positions(joint, file, findings)
    moving = [joint for joint in moving if joint.get("type") in _MOVING]
    for field, defaults, unit in (("velocity", VELOCITY, "speed"), ("effort", EFFORT, "effort")):
        known: dict[str, list[float]] = {kind: [] for kind in _MOVING}
        lacking = []
        for joint in moving:
            limit = joint.find("limit")
            value = number_in(limit, field, 0.0, file)
            if value > 0.0 and math.isfinite(value):
                known[joint.get("type")].append(value)
            else:
                lacking.append(joint)
        unstated[field] = frozenset(joint.get("name") for joint in lacking)
        guesses: dict[str, list[str]] = {}
        for joint in lacking:
            kind = joint.get("type")
            value = statistics.median(known[kind]) if known[kind] else defaults[kind]
            joint.find("limit").set(field, repr(value))
            guesses.setdefault(f"{value:g}", []).append(joint.get("name"))
        for guess, names in guesses.items():
            why = f"the URDF gives {listed(names)} no {unit}"
            findings.add("guessed", f"limits.{field}", f"{guess} ({why})")
    by_name = {joint.get("name"): joint for joint in moving}
    for joint in moving:
        _friction(joint, file, findings)
        _mimic_range(joint, by_name, file, findings)
    return unstated


def _mimic_range(joint: Any, by_name: dict[str, Any], file: Path, findings: Notes) -> None:
    """Extend the range of a mimic joint to that of the joint it mimics, which it would block."""
    mimic = joint.find("mimic")
    master = by_name.get(mimic.get("joint")) if mimic is not None else None
    if master is None or "continuous" in (joint.get("type"), master.get("type")):
        return
    multiplier = number_in(mimic, "multiplier", 1.0, file)
    offset, limit = number_in(mimic, "offset", 0.0, file), joint.find("limit")
    ends = [
        multiplier * number_in(master.find("limit"), key, 0.0, file) + offset
        for key in ("lower", "upper")
    ]
    lower, upper = (number_in(limit, key, 0.0, file) for key in ("lower", "upper"))
    if min(ends) < lower - _EQUAL or max(ends) > upper + _EQUAL:
        limit.set("lower", repr(min(lower, *ends)))
        limit.set("upper", repr(max(upper, *ends)))
        text = (
            f"{joint.get('name')}: {min(lower, *ends):.4g} to {max(upper, *ends):.4g} instead of "
            f"{lower:g} to {upper:g}, with which {master.get('name')} could not reach its limits"
        )
        findings.add("changed", "limits.position", text)


def _friction(joint: Any, file: Path, findings: Notes) -> None:
    """Reduce the friction of a joint that takes most of its effort limit, and its damping."""
    limit, dynamics = joint.find("limit"), joint.find("dynamics")
    if dynamics is None or joint.find("mimic") is not None:
        return
    friction = abs(number_in(dynamics, "friction", 0.0, file))
    damping = abs(number_in(dynamics, "damping", 0.0, file))
    effort = number_in(limit, "effort", 0.0, file)
    needed = friction + damping * number_in(limit, "velocity", 0.0, file)
    if not friction > _MOVABLE * effort:
        return
    for key, value in (("friction", friction), ("damping", damping)):
        dynamics.set(key, repr(float(f"{value * _MOVABLE * effort / needed:.4g}")))
    text = (
        f"{joint.get('name')}: friction {friction:g} and damping {damping:g} are reduced, its "
        f"effort limit is {effort:g}"
    )
    findings.add("changed", "joints", text)


def _twins(moving: Iterable[Any], file: Path, findings: Notes) -> None:
    """Set the stated limits of a continuous joint, if its twin on the same link has them.

    Otherwise one of two steered wheels would have limits and the other none.
    """
    stated: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for joint in moving:
        limit = joint.find("limit")
        if limit is None or joint.get("type") == "prismatic":
            continue
        ends = (number_in(limit, "lower", 0.0, file), number_in(limit, "upper", 0.0, file))
        if ends[0] < ends[1] < ends[0] + 2.0 * math.pi:
            kinds = stated.setdefault((joint.find("parent").get("link"), *ends), {})
            kinds.setdefault(joint.get("type"), []).append(joint)
    for (_, lower, upper), kinds in stated.items():
        if len(kinds) == 2 and len(kinds["revolute"]) == len(kinds["continuous"]):
            for joint, twin in zip(kinds["continuous"], kinds["revolute"], strict=True):
                joint.set("type", "revolute")
                text = (
                    f"{joint.get('name')} made revolute: it states limits {lower:g} to {upper:g}, "
                    f"as does {twin.get('name')}, which is"
                )
                findings.add("changed", "joints", text)


def _positions(joint: Any, file: Path, findings: Notes) -> None:
    """Set valid position limits of a joint."""
    name, kind = joint.get("name"), joint.get("type")
    limit = joint.find("limit")
    if limit is None:
        limit = joint.makeelement("limit")
        joint.append(limit)
    if kind == "continuous":
        return
    given = "lower" in limit.attrib or "upper" in limit.attrib
    lower = number_in(limit, "lower", 0.0, file)
    upper = number_in(limit, "upper", 0.0, file)
    if lower > upper:
        lower, upper = upper, lower
        findings.add("changed", "limits.position", f"{name}: lower and upper were swapped")
    if math.isinf(upper - lower) or (kind == "revolute" and upper - lower > 1000.0):
        if kind == "revolute":
            joint.set("type", "continuous")
            findings.add("changed", "joints", f"{name} made continuous: its limits are endless")
            return
        lower, upper, given = 0.0, 0.0, False
    if lower == upper and given and joint.find("mimic") is None:
        joint.set("type", "fixed")
        findings.add("changed", "joints", f"{name} made fixed: its limits are both {lower:g}")
        return
    if lower == upper:
        lower, upper = (-math.pi, math.pi) if kind == "revolute" else (0.0, 0.1)
        if joint.find("mimic") is None:
            text = f"{name}: {lower:.4g} to {upper:.4g} (the URDF gives none)"
            findings.add("guessed", "limits.position", text)
    limit.set("lower", repr(lower))
    limit.set("upper", repr(upper))

# SPDX-License-Identifier: Apache-2.0
"""Repair of a URDF's limits: missing, swapped and contradictory ones."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from motion_nodes.robot_setup.joint_repair import MOVING
from motion_nodes.robot_setup.link_repair import number_in
from motion_nodes.robot_setup.notes import Notes, listed

_VELOCITY = {"revolute": 1.0, "continuous": 1.0, "prismatic": 0.1}
"""Default velocity limits if no other joint of the robot has higher ones [rad/s or m/s]."""
_EFFORT = {"revolute": 50.0, "continuous": 50.0, "prismatic": 100.0}
"""Default effort limits if no other joint of the robot has higher ones [N m or N]."""
_MOVABLE = 0.5
"""Max friction, as a fraction of the effort limit."""
_EQUAL = 1e-3
_LEFT = 0.1
"""Min share of a joint's range in which a mimic joint with other limits can follow it."""
"""Tolerance for the comparison of position limits [rad or m]."""


def repair_limits(joints: Iterable[Any], file: Path, findings: Notes) -> dict[str, frozenset[str]]:
    """Complete the limits of moving joints; return joints without velocity and effort limits."""
    unstated: dict[str, frozenset[str]] = {}
    moving = [joint for joint in joints if joint.get("type") in MOVING]
    _twins(moving, file, findings)
    for joint in moving:
        _positions(joint, file, findings)
    moving = [joint for joint in moving if joint.get("type") in MOVING]
    for field, defaults, unit in (("velocity", _VELOCITY, "speed"), ("effort", _EFFORT, "effort")):
        known: dict[str, list[float]] = {kind: [] for kind in MOVING}
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
        repair_friction(joint, file, findings, at_speed=joint.get("name") in unstated["effort"])
        _mimic_range(joint, by_name, file, findings)
    return unstated


def _mimic_range(joint: Any, by_name: dict[str, Any], file: Path, findings: Notes) -> None:
    """Extend the range of a mimic joint that would block the mimicked joint.

    A range that leaves it some motion restricts it instead: a stated limit is not exceeded.
    """
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
    if not (min(ends) < lower - _EQUAL or max(ends) > upper + _EQUAL) or multiplier == 0.0:
        return
    common = min(upper, max(ends)) - max(lower, min(ends))
    if common >= _LEFT * (max(ends) - min(ends)):
        text = (
            f"{master.get('name')} moves as far as {joint.get('name')} can follow, "
            f"{lower:g} to {upper:g} instead of {min(ends):.4g} to {max(ends):.4g}"
        )
        findings.add("changed", "limits.position", text)
    else:
        limit.set("lower", repr(min(lower, *ends)))
        limit.set("upper", repr(max(upper, *ends)))
        text = (
            f"{joint.get('name')}: {min(lower, *ends):.4g} to {max(upper, *ends):.4g} instead of "
            f"{lower:g} to {upper:g}, with which {master.get('name')} could not reach its limits"
        )
        findings.add("changed", "limits.position", text)


def repair_friction(joint: Any, file: Path, findings: Notes, *, at_speed: bool) -> None:
    """Reduce friction and damping of a joint that consume most of its effort limit.

    Args:
        joint: the element, which is changed.
        file: file name, for errors.
        findings: notes are added.
        at_speed: include damping at the velocity limit, for estimated effort limits.
    """
    limit, dynamics = joint.find("limit"), joint.find("dynamics")
    if dynamics is None or joint.find("mimic") is not None:
        return
    friction = abs(number_in(dynamics, "friction", 0.0, file))
    damping = abs(number_in(dynamics, "damping", 0.0, file))
    effort = number_in(limit, "effort", 0.0, file)
    needed = friction + damping * number_in(limit, "velocity", 0.0, file)
    if not (needed if at_speed else friction) > _MOVABLE * effort:
        return
    for key, value in (("friction", friction), ("damping", damping)):
        dynamics.set(key, repr(float(f"{value * _MOVABLE * effort / needed:.4g}")))
    text = (
        f"{joint.get('name')}: friction {friction:g} and damping {damping:g} are reduced, its "
        f"effort limit is {effort:g}"
    )
    findings.add("changed", "joints", text)


def _twins(moving: Iterable[Any], file: Path, findings: Notes) -> None:
    """Apply the limits of a continuous joint if a revolute joint on the same link has the same.

    Otherwise only one of two steered wheels would have limits.
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

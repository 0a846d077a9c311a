# SPDX-License-Identifier: Apache-2.0
"""Repair of a URDF's joints: types and mimic relations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from motion_nodes.errors import InvalidDescription
from motion_nodes.robot_setup.link_repair import number_in
from motion_nodes.robot_setup.notes import Notes, listed

MOVING = ("revolute", "continuous", "prismatic")
"""Types of actuated joints and mimic joints."""
_TYPES = (*MOVING, "fixed", "floating", "planar")


def repair_joint_types(joints: Iterable[Any], file: Path, findings: Notes) -> bool:
    """Make joints with several degrees of freedom fixed.

    Args:
        joints: elements ``<joint>``.
        file: file name, for errors.
        findings: notes are added.

    Returns:
        Whether a floating joint at the root makes the robot a floating one.

    Raises:
        InvalidDescription: an unknown type.
    """
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
                text = f"{joint.get('name')} is the floating base of the robot"
                findings.add("changed", "joints", text)
                continue
            free.append(f"{joint.get('name')} ({kind})")
    if free:
        findings.add(
            "changed",
            "joints",
            f"made fixed, as they have several degrees of freedom: {listed(free)}",
        )
    return floating


def repair_mimics(joints: Iterable[Any], file: Path, findings: Notes) -> None:
    """Make joints mimic the actuated joint instead of another mimic joint."""
    by_name = {joint.get("name"): joint for joint in joints}
    for name, joint in by_name.items():
        mimic = joint.find("mimic")
        if mimic is None:
            continue
        if joint.get("type") == "fixed":
            joint.remove(mimic)
            continue
        _existing_master(name, mimic, by_name, findings)
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


def _existing_master(name: str, mimic: Any, by_name: Mapping[str, Any], findings: Notes) -> None:
    """Replace the name of a mimicked joint that does not exist, by adding the mimic's prefix."""
    master = mimic.get("joint")
    if master in by_name or not master:
        return
    alike = [
        other
        for other in by_name
        if other.endswith(master) and name.startswith(other.removesuffix(master))
    ]
    if len(alike) == 1:
        mimic.set("joint", alike[0])
        text = f"{name} mimics {alike[0]}: there is no {master}"
        findings.add("changed", "joints", text)


def set_limits(root: Any, field: str, values: Mapping[str, float]) -> None:
    """Set limits of joints: their velocity or effort, by joint."""
    for joint in root.findall("joint"):
        if joint.get("name") in values:
            joint.find("limit").set(field, repr(values[joint.get("name")]))


def invert_axes(root: Any, joints: Sequence[str], findings: Notes) -> None:
    """Invert axes of wheels and steering joints, so that forward and left are positive."""
    for joint in root.findall("joint"):
        mimic = joint.find("mimic")
        if mimic is not None:  # the same motion in the new signs
            own, leader = joint.get("name") in joints, mimic.get("joint") in joints
            if own != leader:
                mimic.set("multiplier", repr(-float(mimic.get("multiplier", "1"))))
            if own:
                mimic.set("offset", repr(-float(mimic.get("offset", "0"))))
        if joint.get("name") not in joints:
            continue
        axis = joint.find("axis")
        numbers = [-float(word) + 0.0 for word in axis.get("xyz").split()]
        axis.set("xyz", " ".join(f"{number:g}" for number in numbers))
        limit = joint.find("limit")
        if limit is not None and "lower" in limit.attrib and "upper" in limit.attrib:
            lower, upper = float(limit.get("lower")), float(limit.get("upper"))
            limit.set("lower", repr(-upper))
            limit.set("upper", repr(-lower))
    findings.add(
        "changed",
        "joints",
        f"axes inverted, so that forward (or left) is positive: {listed(joints)}. A driver of the "
        "real robot has to invert its signs, too",
    )

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

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.robot_setup.xacro_leftovers import put_in_variables

VELOCITY = {"revolute": 1.0, "continuous": 1.0, "prismatic": 0.1}
"""Default velocity limits if no other joint of the robot has higher ones [rad/s or m/s]."""
EFFORT = {"revolute": 50.0, "continuous": 50.0, "prismatic": 100.0}
"""Default effort limits likewise [N m or N]."""
_LEAST_MASS, _LEAST_INERTIA = 1e-6, 1e-12
"""Smaller ones are those of frames without a body, and no simulation can use them [kg, kg m^2]."""
_MOVING = ("revolute", "continuous", "prismatic")
TOO_SMALL, TOO_LARGE = 1e-4, 100.0
"""Implausible extents of a part [m]."""
_TYPES = (*_MOVING, "fixed", "floating", "planar")


@dataclass(frozen=True)
class Repaired:
    """What the rest of the set-up needs to know of a repaired URDF."""

    floating: bool
    """Whether the robot floats: a floating joint connects it to the world."""
    unstated_velocity: frozenset[str]
    """Joints without a velocity limit, which got one."""


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
    _materials(root, findings)
    for tag in ("link", "joint"):
        _check_names(root.findall(tag), tag, file)
    joints = root.findall("joint")
    _check_tree(root, joints, file)
    _vectors(root, file, findings)
    floating = _joint_types(joints, file, findings)
    _mimics(joints, file, findings)
    unstated = _limits(joints, file, findings)
    for link in root.findall("link"):
        _inertial(link, file, findings)
        _shapes(link, file, findings)
    _colours(root, findings)
    return Repaired(floating, unstated)


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


def _materials(root: Any, findings: Notes) -> None:
    """Name materials without a name, and remove textures without a file."""
    unnamed = 0
    for material in root.iter("material"):
        if not material.get("name"):
            unnamed += 1
            material.set("name", f"material_{unnamed}")
        for texture in [t for t in material.findall("texture") if not t.get("filename")]:
            material.remove(texture)
    if unnamed:
        findings.add("changed", "colours", f"{unnamed} materials had no name")


def _vectors(root: Any, file: Path, findings: Notes) -> None:
    """Make origins, axes and scales three numbers: missing ones become zeros, or the first one."""
    for mesh in root.iter("mesh"):
        numbers = _numbers(mesh, "scale", file) if "scale" in mesh.attrib else [1.0] * 3
        if len(numbers) not in (0, 3):
            kept = numbers[:3] if len(numbers) > 3 else numbers[:1] * 3
            mesh.set("scale", " ".join(map(repr, kept)))
            text = f"line {mesh.sourceline}: scale had {len(numbers)} numbers, 3 are needed"
            findings.add("changed", "geometry", text)
    for element in [*root.iter("origin"), *root.iter("axis")]:
        for key in ("xyz", "rpy"):
            if key not in element.attrib:
                continue
            numbers = _numbers(element, key, file)
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
            offset += multiplier * _number(link, "offset", 0.0, file)
            multiplier *= _number(link, "multiplier", 1.0, file)
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


def _limits(joints: Iterable[Any], file: Path, findings: Notes) -> frozenset[str]:
    """Complete the limits of moving joints; return those without a velocity limit."""
    unstated: frozenset[str] = frozenset()
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
            value = _number(limit, field, 0.0, file)
            if value > 0.0 and math.isfinite(value):
                known[joint.get("type")].append(value)
            else:
                lacking.append(joint)
        if field == "velocity":
            unstated = frozenset(joint.get("name") for joint in lacking)
        guesses: dict[str, list[str]] = {}
        for joint in lacking:
            kind = joint.get("type")
            value = statistics.median(known[kind]) if known[kind] else defaults[kind]
            joint.find("limit").set(field, repr(value))
            guesses.setdefault(f"{value:g}", []).append(joint.get("name"))
        for guess, names in guesses.items():
            why = f"the URDF gives {listed(names)} no {unit}"
            findings.add("guessed", f"limits.{field}", f"{guess} ({why})")
    return unstated


def _twins(moving: Iterable[Any], file: Path, findings: Notes) -> None:
    """Set the stated limits of a continuous joint, if its twin on the same link has them.

    Otherwise one of two steered wheels would have limits and the other none.
    """
    stated: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for joint in moving:
        limit = joint.find("limit")
        if limit is None or joint.get("type") == "prismatic":
            continue
        ends = (_number(limit, "lower", 0.0, file), _number(limit, "upper", 0.0, file))
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
    lower = _number(limit, "lower", 0.0, file)
    upper = _number(limit, "upper", 0.0, file)
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


def _inertial(link: Any, file: Path, findings: Notes) -> None:
    inertial = link.find("inertial")
    if inertial is None:
        return
    name = link.get("name")
    mass_element, inertia = inertial.find("mass"), inertial.find("inertia")
    mass = _number(mass_element, "value", 0.0, file) if mass_element is not None else 0.0
    if not mass >= _LEAST_MASS or not math.isfinite(mass):
        link.remove(inertial)
        findings.add("changed", "masses", f"{name}: mass {mass:g} kg, taken as without a mass")
        return
    if inertia is not None and _physical(inertia, file):
        return
    # Of a ball of this mass with the density of water, a typical density of robots.
    radius = (3.0 * mass / (4.0 * math.pi * 1000.0)) ** (1.0 / 3.0)
    moment = repr(float(f"{0.4 * mass * radius**2:.4g}"))
    if inertia is None:
        inertia = inertial.makeelement("inertia")
        inertial.append(inertia)
    for key in ("ixx", "iyy", "izz"):
        inertia.set(key, moment)
    for key in ("ixy", "ixz", "iyz"):
        inertia.set(key, "0")
    findings.add(
        "guessed", "masses", f"{name}: inertia {moment} kg m^2 (the URDF's is none of a real body)"
    )


def _physical(inertia: Any, file: Path) -> bool:
    xx, xy, xz, yy, yz, zz = (
        _number(inertia, key, 0.0, file) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    )
    matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if not np.isfinite(matrix).all():
        return False
    least, middle, most = np.linalg.eigvalsh(matrix)
    return bool(least >= _LEAST_INERTIA and least + middle >= most * (1.0 - 1e-6))


def _shapes(link: Any, file: Path, findings: Notes) -> None:
    """Remove shapes without a size."""
    fields = {"box": ("size",), "sphere": ("radius",), "cylinder": ("radius", "length")}
    for shape in [*link.findall("collision"), *link.findall("visual")]:
        geometry = shape.find("geometry")
        solids = [] if geometry is None else [g for g in geometry if g.tag in (*fields, "mesh")]
        if len(solids) > 1 or (solids and len(geometry) > 1):
            for other in [g for g in geometry if g is not solids[0]]:
                geometry.remove(other)
            text = f"{link.get('name')}: of several shapes in one {shape.tag} the first was kept"
            findings.add("changed", "geometry", text)
            del solids[1:]
        reason = "" if solids else "it has no geometry that a URDF knows"
        for solid in solids:
            for key in fields.get(solid.tag, ()):
                sizes = _numbers(solid, key, file)
                if not sizes or min(sizes) <= 0.0:
                    reason = f"its {solid.tag} has {key} '{solid.get(key)}'"
                elif max(sizes) < TOO_SMALL:
                    reason = f"its {solid.tag} has {key} '{solid.get(key)}' m, which is nothing"
                elif max(sizes) > TOO_LARGE:
                    raise InvalidDescription(
                        f"{file}, line {solid.sourceline}: link '{link.get('name')}': {key} of its "
                        f"{solid.tag} is '{solid.get(key)}'; sizes are in metres, up to "
                        f"{TOO_LARGE:g}."
                    )
            if solid.tag == "mesh" and not solid.get("filename"):
                reason = "its mesh has no filename"
        if reason:
            link.remove(shape)
            text = f"{link.get('name')}: a {shape.tag} shape was left out: {reason}"
            findings.add("changed", "geometry", text)


def _colours(root: Any, findings: Notes) -> None:
    """Scale colours to 0..1; those given in 0 to 255 are divided."""
    changed = 0
    for colour in root.iter("color"):
        try:
            values = [float(word) for word in (colour.get("rgba") or "").split()]
        except ValueError:
            values = []
        if len(values) != 4 or not all(map(math.isfinite, values)):
            colour.set("rgba", "0.7 0.7 0.7 1")
            changed += 1
        elif min(values) < 0.0 or max(values) > 1.0:
            rgb = [value / 255.0 if max(values[:3]) > 1.0 else value for value in values[:3]]
            clipped = [min(1.0, max(0.0, value)) for value in (*rgb, values[3])]
            colour.set("rgba", " ".join(f"{value:g}" for value in clipped))
            changed += 1
    if changed:
        findings.add("changed", "colours", f"{changed} colours brought into 0 to 1")


def _number(element: Any, key: str, default: float, file: Path) -> float:
    numbers = _numbers(element, key, file) if key in element.attrib else [default]
    if len(numbers) != 1:
        raise _no_number(element, key, file)
    return numbers[0]


def _numbers(element: Any, key: str, file: Path) -> list[float]:
    try:
        return [float(word) for word in (element.get(key) or "").split()]
    except ValueError:
        raise _no_number(element, key, file) from None


def _no_number(element: Any, key: str, file: Path) -> InvalidDescription:
    return InvalidDescription(
        f"{file}, line {element.sourceline}: {key} of <{element.tag}> is '{element.get(key)}'; a "
        "number is needed."
    )

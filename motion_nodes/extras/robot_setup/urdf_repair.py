# SPDX-License-Identifier: Apache-2.0
"""Repair of incomplete or incorrect URDFs, with notes.

Operates on the XML, so that the copy in the robot's folder differs from the original only in the
repairs. Errors that cannot be repaired (missing or duplicate names, loops) are reported with their
line. Repaired are types and mimic relations of joints, missing, swapped and contradictory limits,
and masses, shapes, colours and numbers of links.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.robot.poses import inverse, to_rpy
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.core.scene.robot_spheres import rigid_links
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.notes import Notes, listed
from motion_nodes.extras.robot_setup.xacro_expansion import put_in_variables

DENSITY = 1000.0
"""Density of links without a mass [kg/m^3]."""
_LEAST_MASS, _LEAST_INERTIA = 1e-6, 1e-12
"""Min mass and inertia of a body [kg, kg m^2]; smaller values mark frames without a body."""
TOO_SMALL, TOO_LARGE = 1e-4, 100.0
"""Implausible extents of a part [m]."""
MOVING = ("revolute", "continuous", "prismatic")
"""Types of actuated joints and mimic joints."""
_TYPES = (*MOVING, "fixed", "floating", "planar")
_VELOCITY = {"revolute": 1.0, "continuous": 1.0, "prismatic": 0.1}
"""Default velocity limits if no other joint of the robot has higher ones [rad/s or m/s]."""
_EFFORT = {"revolute": 50.0, "continuous": 50.0, "prismatic": 100.0}
"""Default effort limits if no other joint of the robot has higher ones [N m or N]."""
_TURNS = 4.0 * math.pi
"""Position limits above this look like degrees [rad]."""
_FASTEST = {"revolute": 100.0, "prismatic": 20.0}
"""Velocity limits above these look like placeholders or degrees [rad/s or m/s]."""
_FAR = 10.0
"""Position limits of sliding joints with placeholders [m]."""
_MOVABLE = 0.5
"""Max friction, as a fraction of the effort limit."""
_EQUAL = 1e-3
_LEFT = 0.1
"""Min share of a joint's range in which a mimic joint with other limits can follow it."""


def repair_materials(root: Any, findings: Notes) -> None:
    """Add missing names of materials, and remove textures without a file."""
    unnamed = 0
    for material in root.iter("material"):
        if not material.get("name"):
            unnamed += 1
            material.set("name", f"material_{unnamed}")
        for texture in [t for t in material.findall("texture") if not t.get("filename")]:
            material.remove(texture)
    if unnamed:
        findings.add("changed", "colours", f"{unnamed} materials had no name")


def repair_inertial(link: Any, file: Path, findings: Notes) -> None:
    """Repair mass and inertia of a link."""
    inertial = link.find("inertial")
    if inertial is None:
        return
    name = link.get("name")
    mass_element, inertia = inertial.find("mass"), inertial.find("inertia")
    mass = number_in(mass_element, "value", 0.0, file) if mass_element is not None else 0.0
    if not mass >= _LEAST_MASS or not math.isfinite(mass):
        link.remove(inertial)
        findings.add("changed", "masses", f"{name}: mass {mass:g} kg, a frame without a body")
        return
    if inertia is not None and _physical(inertia, file):
        return
    # Inertia of a ball of this mass with the density of water, typical of robots.
    radius = (3.0 * mass / (4.0 * math.pi * DENSITY)) ** (1.0 / 3.0)
    moment = repr(float(f"{0.4 * mass * radius**2:.4g}"))
    if inertia is None:
        inertia = inertial.makeelement("inertia")
        inertial.append(inertia)
    for key in ("ixx", "iyy", "izz"):
        inertia.set(key, moment)
    for key in ("ixy", "ixz", "iyz"):
        inertia.set(key, "0")
    findings.add(
        "guessed", "masses", f"{name}: inertia {moment} kg m^2 (the file's is not consistent)"
    )


def _physical(inertia: Any, file: Path) -> bool:
    xx, xy, xz, yy, yz, zz = (
        number_in(inertia, key, 0.0, file) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    )
    matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if not np.isfinite(matrix).all():
        return False
    least, middle, most = np.linalg.eigvalsh(matrix)
    return bool(least >= _LEAST_INERTIA and least + middle >= most * (1.0 - 1e-6))


def repair_shapes(link: Any, file: Path, findings: Notes) -> None:
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
                sizes = numbers_in(solid, key, file)
                if not sizes or min(sizes) <= 0.0:
                    reason = f"its {solid.tag} has {key} '{solid.get(key)}'"
                elif max(sizes) < TOO_SMALL:
                    reason = f"its {solid.tag} has {key} '{solid.get(key)}' m, which is negligible"
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


def repair_colours(root: Any, findings: Notes) -> None:
    """Scale colours to 0..1; colours in 0..255 are divided by 255."""
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
        findings.add("changed", "colours", f"{changed} colours scaled to 0 to 1")


def number_in(element: Any, key: str, default: float, file: Path) -> float:
    """Return the number in an attribute, or the default if it is missing."""
    numbers = numbers_in(element, key, file) if key in element.attrib else [default]
    if len(numbers) != 1:
        raise _no_number(element, key, file)
    return numbers[0]


def numbers_in(element: Any, key: str, file: Path) -> list[float]:
    """Return the numbers in an attribute."""
    try:
        return [float(word) for word in (element.get(key) or "").split()]
    except ValueError:
        raise _no_number(element, key, file) from None


def _no_number(element: Any, key: str, file: Path) -> InvalidDescription:
    return InvalidDescription(
        f"{file}, line {element.sourceline}: {key} of <{element.tag}> is '{element.get(key)}'; a "
        "number is needed."
    )


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


def add_axle(root: Any, tree: KinematicTree, base: str, x: float, findings: Notes) -> str:
    """Add a frame above the root, on the axle about whose points the base turns.

    Args:
        root: element of the URDF.
        tree: the robot.
        base: name of the base frame, a rigid part of the root.
        x: position of the axle in the base frame [m].
        findings: a note is added.

    Returns:
        The frame's name.
    """
    name = next(n for n in ("base_axle", "base_axle_frame", "axle_frame") if n not in tree.links)
    X_RB = np.eye(4)
    for above in tree.path(tree.root, base):
        X_RB = X_RB @ above.X_PJ
    X_AR = inverse(X_RB)
    X_AR[0, 3] -= x
    X_AR[2, 3] = 0.0  # the height of the root, which may be on the floor
    etree.SubElement(root, "link", name=name)
    joint = etree.SubElement(root, "joint", name=f"{name}_joint", type="fixed")
    etree.SubElement(joint, "parent", link=name)
    etree.SubElement(joint, "child", link=tree.root)
    xyz, rpy = (" ".join(f"{value:.9g}" for value in row) for row in (X_AR[:3, 3], to_rpy(X_AR)))
    etree.SubElement(joint, "origin", xyz=xyz, rpy=rpy)
    text = (
        f"{name}, added {abs(x):.4g} m {'ahead of' if x > 0.0 else 'behind'} {base}: the base "
        "turns about points of its axle, so odometry and goals of the base are those of this frame"
    )
    findings.add("changed", "frames.base", text)
    return name


def add_masses(
    root: Any, tree: KinematicTree, geometries: Mapping[str, LinkGeometry], findings: Notes
) -> bool:
    """Give a base that moves freely a mass if the file states none, and return whether it did.

    If no link has a mass, each with a geometry gets one, else those that are fixed to the root:
    boxes around the geometries, whose volume has the density of water, typical of robots.

    Args:
        root: element of the URDF.
        tree: the robot.
        geometries: geometries of its links.
        findings: a note is added.
    """
    rigid = rigid_links(tree)
    stated = [name for name, link in tree.links.items() if link.inertial is not None]
    if any(rigid[name] == tree.root for name in stated):
        return False
    given = []
    for element in root.findall("link"):
        name = element.get("name")
        if name not in geometries or (stated and rigid[name] != tree.root):
            continue
        geometry = geometries[name]
        low, high = geometry.bounds
        mass = max(DENSITY * geometry.volume, _LEAST_MASS)
        size = np.maximum(high - low, 1e-3) ** 2
        moments = mass / 12.0 * (size.sum() - size)
        inertial = etree.SubElement(element, "inertial")
        etree.SubElement(inertial, "origin", xyz=" ".join(f"{v:.6g}" for v in 0.5 * (low + high)))
        etree.SubElement(inertial, "mass", value=f"{mass:.4g}")
        zero = dict.fromkeys(("ixy", "ixz", "iyz"), "0")
        named = zip(("ixx", "iyy", "izz"), moments, strict=True)
        etree.SubElement(inertial, "inertia", {k: f"{v:.4g}" for k, v in named} | zero)
        given.append(name)
    if given:
        text = f"{listed(given)}: by volume and the density of water, as the file states none"
        findings.add("guessed", "masses", text)
    return bool(given)


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
            why = f"the file gives {listed(names)} no {unit}"
            findings.add("guessed", f"limits.{field}", f"{guess} ({why})")
    _note_implausible(moving, file, findings)
    by_name = {joint.get("name"): joint for joint in moving}
    repair_friction(moving, file, findings, at_speed=unstated["effort"])
    for joint in moving:
        _mimic_range(joint, by_name, file, findings)
    return unstated


def _note_implausible(moving: Sequence[Any], file: Path, findings: Notes) -> None:
    """Note limits that look like degrees or placeholders; they are kept."""
    turned: list[str] = []
    fast: dict[str, list[str]] = {}
    for joint in moving:
        limit, kind = joint.find("limit"), joint.get("type")
        ends = [abs(number_in(limit, key, 0.0, file)) for key in ("lower", "upper")]
        if kind == "revolute" and max(ends) > _TURNS:
            turned.append(joint.get("name"))
        speed = number_in(limit, "velocity", 0.0, file)
        if kind != "continuous" and speed > _FASTEST[kind]:
            unit = "m/s" if kind == "prismatic" else "rad/s"
            fast.setdefault(f"{speed:g} {unit}", []).append(joint.get("name"))
    if turned:
        text = f"{listed(turned)}: more than two turns; in degrees? The unit is rad"
        findings.add("guessed", "limits.position", text)
    for value, names in fast.items():
        text = f"{value} of {listed(names)}: a placeholder, or degrees? The file's value is kept"
        findings.add("guessed", "limits.velocity", text)


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


def repair_friction(
    joints: Iterable[Any], file: Path, findings: Notes, *, at_speed: Collection[str]
) -> None:
    """Reduce friction and damping of joints that consume most of their effort limits.

    Args:
        joints: the elements, which are changed.
        file: file name, for errors.
        findings: notes are added.
        at_speed: joints with estimated effort limits: damping at the velocity limit counts, too.
    """
    reduced: dict[str, list[str]] = {}
    for joint in joints:
        why = _reduced(joint, file, at_speed=joint.get("name") in at_speed)
        if why:
            reduced.setdefault(why, []).append(joint.get("name"))
    for why, names in reduced.items():
        findings.add("changed", "joints", f"{listed(names)}: {why}")


def _reduced(joint: Any, file: Path, *, at_speed: bool) -> str:
    """Reduce friction and damping of a joint if needed, and return why; empty if not."""
    limit, dynamics = joint.find("limit"), joint.find("dynamics")
    if dynamics is None or joint.find("mimic") is not None:
        return ""
    friction = abs(number_in(dynamics, "friction", 0.0, file))
    damping = abs(number_in(dynamics, "damping", 0.0, file))
    effort = number_in(limit, "effort", 0.0, file)
    needed = friction + damping * number_in(limit, "velocity", 0.0, file)
    if not (needed if at_speed else friction) > _MOVABLE * effort:
        return ""
    for key, value in (("friction", friction), ("damping", damping)):
        dynamics.set(key, repr(float(f"{value * _MOVABLE * effort / needed:.4g}")))
    return (
        f"friction {friction:g} and damping {damping:g} are reduced for an effort limit of "
        f"{effort:g}"
    )


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
    # SolidWorks' exporter writes four zeros for a limit that was not entered.
    given = ("lower" in limit.attrib or "upper" in limit.attrib) and any(
        number_in(limit, key, 0.0, file) for key in ("lower", "upper", "velocity", "effort")
    )
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
    if upper - lower > 1000.0:
        text = f"{name}: {lower:g} to {upper:g} m is a placeholder; at most {_FAR:g} m each way"
        findings.add("changed", "limits.position", text)
        lower, upper = np.clip((lower, upper), -_FAR, _FAR).tolist()
    if lower == upper and given and joint.find("mimic") is None:
        joint.set("type", "fixed")
        findings.add("changed", "joints", f"{name} made fixed: its limits are both {lower:g}")
        return
    if lower == upper:
        lower, upper = (-math.pi, math.pi) if kind == "revolute" else (0.0, 0.1)
        if joint.find("mimic") is None:
            text = f"{name}: {lower:.4g} to {upper:.4g} (the file gives none)"
            findings.add("guessed", "limits.position", text)
    limit.set("lower", repr(lower))
    limit.set("upper", repr(upper))


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

# SPDX-License-Identifier: Apache-2.0
"""Repair of a URDF's links: masses, shapes, colours, and numbers in attributes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.robot_setup.notes import Notes

_LEAST_MASS, _LEAST_INERTIA = 1e-6, 1e-12
"""Min mass and inertia of a body [kg, kg m^2]; smaller values mark frames without a body."""
TOO_SMALL, TOO_LARGE = 1e-4, 100.0
"""Implausible extents of a part [m]."""


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
        "guessed",
        "masses",
        f"{name}: inertia {moment} kg m^2 (the URDF's is not consistent)",
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

# SPDX-License-Identifier: Apache-2.0
"""The element ``<mecanum radius="0.04" angle_deg="45"/>`` in a URDF's wheel joint.

It defines the rollers of an omni or mecanum wheel, as an extension of URDF that other readers
ignore. Isaac Sim stores the same two numbers as attributes of the joint.
"""

from __future__ import annotations

import math
from typing import Any

from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.model.tree import Rollers

ELEMENT = "mecanum"
_ATTRIBUTES = ("radius", "angle_deg")


def read_rollers(root: Any, where: str) -> dict[str, Rollers]:
    """Remove the elements from the joints, and return the rollers by joint.

    Args:
        root: root element of the URDF.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: names joint and attribute.
    """
    found: dict[str, Rollers] = {}
    for joint in root.findall("joint"):
        elements = joint.findall(ELEMENT)
        place = f"{where}: joint '{joint.get('name')}'"
        if len(elements) > 1:
            raise InvalidDescription(f"{place}: has <{ELEMENT}> twice; a wheel has one rim.")
        for element in elements:
            found[joint.get("name")] = _read(element, f"{place}: <{ELEMENT}>")
            joint.remove(element)
    return found


def _read(element: Any, where: str) -> Rollers:
    """Return the rollers of one element."""
    for name in element.attrib:
        if name not in _ATTRIBUTES:
            raise InvalidDescription(
                f"{where}: '{name}' is not an attribute.{did_you_mean(name, _ATTRIBUTES)}"
            )
    if "radius" not in element.attrib:
        raise InvalidDescription(f'{where}: needs radius="..", the wheel\'s rolling radius [m].')
    radius = _number(element, "radius", where)
    if not radius > 0.0:
        raise InvalidDescription(f"{where}: radius is {radius:g}; it must be above 0.")
    angle = _number(element, "angle_deg", where) if "angle_deg" in element.attrib else 90.0
    return Rollers(radius, angle)


def _number(element: Any, name: str, where: str) -> float:
    """Return a finite number."""
    text = element.get(name)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidDescription(f"{where}: {name} is '{text}'; a finite number is needed.")
    return value

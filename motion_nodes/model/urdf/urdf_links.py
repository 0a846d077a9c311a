# SPDX-License-Identifier: Apache-2.0
"""Conversion of a URDF link (urdf_parser_py) to a validated :class:`Link`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from urdf_parser_py import urdf as urdf_parser

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.tree import (
    Box,
    Cylinder,
    Geometry,
    Inertial,
    Link,
    Mesh,
    Shape,
    Sphere,
    frozen,
)
from motion_nodes.model.urdf.urdf_joints import finite_vector, read_origin

Colour = tuple[float, float, float, float]


def read_link(link: Any, colours: Mapping[str, Any], where: str) -> Link:
    """Return a validated link.

    Args:
        link: ``urdf_parser_py.urdf.Link``.
        colours: rgba of the robot's global materials.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: names file, link and element.
    """
    where = f"{where}: link '{link.name}'"
    return Link(
        name=link.name,
        inertial=_inertial(link.inertial, where),
        visuals=tuple(
            _shape(visual, _colour(visual, colours, where), f"{where}: visual {i}")
            for i, visual in enumerate(link.visuals, start=1)
        ),
        collisions=tuple(
            _shape(collision, None, f"{where}: collision {i}")
            for i, collision in enumerate(link.collisions, start=1)
        ),
    )


def _inertial(inertial: Any, where: str) -> Inertial | None:
    """Return mass and inertia; reject unphysical ones."""
    if inertial is None:
        return None
    mass = float(inertial.mass)
    if not math.isfinite(mass) or mass <= 0.0:
        raise InvalidDescription(f"{where}: mass is {mass:.6g} kg; it must be a positive number.")
    if inertial.inertia is None:
        raise InvalidDescription(
            f"{where}: <inertial> has a mass but no <inertia ixx= ixy= ixz= iyy= iyz= izz=>."
        )
    matrix = inertial.inertia.to_matrix()
    finite_vector(np.ravel(matrix), 9, f"{where}: inertia")
    inertia = np.array(matrix, dtype=np.float64)
    _check_inertia(inertia, where)
    return Inertial(mass, read_origin(inertial.origin, f"{where}: inertial"), frozen(inertia))


def _check_inertia(inertia: Any, where: str) -> None:
    """Reject an inertia without a possible mass distribution."""
    principal = np.linalg.eigvalsh(inertia)
    shown = ", ".join(f"{value:.6g}" for value in principal)
    if principal[0] <= 0.0:
        raise InvalidDescription(
            f"{where}: inertia is not positive definite: principal moments {shown} kg m^2; "
            "all three must be positive."
        )
    if principal[0] + principal[1] < principal[2] * (1.0 - 1e-6):
        raise InvalidDescription(
            f"{where}: inertia is not physical: principal moments {shown} kg m^2; the two "
            "smaller ones must together reach the largest (triangle inequality)."
        )


def _shape(element: Any, rgba: Colour | None, where: str) -> Shape:
    """Return one visual or collision shape."""
    return Shape(
        geometry=_geometry(element.geometry, where),
        X_LG=read_origin(element.origin, where),
        rgba=rgba,
        name=element.name or "",
    )


def _geometry(geometry: Any, where: str) -> Geometry:
    """Return the primitive or mesh of a shape."""
    if isinstance(geometry, urdf_parser.Box):
        size = _sizes(geometry.size, 3, f"{where}: box size")
        return Box((size[0], size[1], size[2]))
    if isinstance(geometry, urdf_parser.Sphere):
        return Sphere(_sizes((geometry.radius,), 1, f"{where}: sphere radius")[0])
    if isinstance(geometry, urdf_parser.Cylinder):
        sizes = (geometry.radius, geometry.length)
        return Cylinder(*_sizes(sizes, 2, f"{where}: cylinder radius, length"))
    if isinstance(geometry, urdf_parser.Mesh):
        if not geometry.filename:
            raise InvalidDescription(f"{where}: mesh has an empty filename.")
        scale = finite_vector(geometry.scale or (1.0, 1.0, 1.0), 3, f"{where}: mesh scale")
        return Mesh(geometry.filename, (scale[0], scale[1], scale[2]))
    raise InvalidDescription(f"{where}: geometry must be box, sphere, cylinder or mesh.")


def _sizes(values: Any, length: int, where: str) -> tuple[float, ...]:
    """Return ``length`` positive numbers; raise an error for others."""
    numbers = finite_vector(values, length, where)
    if min(numbers) <= 0.0:
        raise InvalidDescription(f"{where} is {list(numbers)}; sizes must be positive.")
    return numbers


def _colour(visual: Any, colours: Mapping[str, Any], where: str) -> Colour | None:
    """Return the colour of a visual: its own, or that of a global material."""
    material = visual.material
    if material is None:
        return None
    own = material.color is not None and material.color.rgba is not None
    rgba = material.color.rgba if own else colours.get(material.name)
    if rgba is None:
        return None
    numbers = finite_vector(rgba, 4, f"{where}: material '{material.name}' rgba")
    if min(numbers) < 0.0 or max(numbers) > 1.0:
        raise InvalidDescription(
            f"{where}: material '{material.name}' rgba is {list(numbers)}; each must lie in 0 to 1."
        )
    return numbers[0], numbers[1], numbers[2], numbers[3]

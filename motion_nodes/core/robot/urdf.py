# SPDX-License-Identifier: Apache-2.0
"""Reads a URDF into a validated :class:`~motion_nodes.core.robot.tree.KinematicTree`.

urdf_parser_py parses the XML; this module passes it only the elements that describe the robot,
converts its failures to readable errors and adds checks.

The element ``<mecanum radius="0.04" angle_deg="45"/>`` in a wheel joint defines the rollers of an
omni or mecanum wheel, as an extension of URDF that other readers ignore. Isaac Sim stores the same
two numbers as attributes of the joint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]
from urdf_parser_py import urdf as urdf_parser
from urdf_parser_py.xml_reflection import core as xml_reflection

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot_xml import robot_root
from motion_nodes.core.robot.tree import (
    Box,
    Cylinder,
    Geometry,
    Inertial,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Mesh,
    Mimic,
    Rollers,
    Shape,
    Sphere,
    frozen,
)
from motion_nodes.core.robot.yaml_schema import read_text
from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.typing import Array

_KINDS = {
    "fixed": JointKind.FIXED,
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.CONTINUOUS,
    "prismatic": JointKind.PRISMATIC,
}
Colour = tuple[float, float, float, float]
ELEMENT = "mecanum"
_ATTRIBUTES = ("radius", "angle_deg")
_READ_ELEMENTS = ("link", "joint", "material")


def read_joint(
    joint: Any, links: Mapping[str, Link], where: str, rollers: Rollers | None = None
) -> Joint:
    """Return a validated joint.

    Args:
        joint: ``urdf_parser_py.urdf.Joint``.
        links: links of the robot by name.
        where: name of the file, for errors.
        rollers: rollers of the joint's wheel; None: none.

    Raises:
        InvalidDescription: names file, joint and attribute.
    """
    where = f"{where}: joint '{joint.name}'"
    kind = _kind(joint, where)
    if rollers is not None and kind is not JointKind.CONTINUOUS:
        raise InvalidDescription(
            f'{where}: has <mecanum>, so it turns a wheel; it must be of type="continuous".'
        )
    for end in ("parent", "child"):
        name = getattr(joint, end)
        if name not in links:
            raise InvalidDescription(
                f"{where}: {end} link '{name}' does not exist.{did_you_mean(str(name), links)}"
            )
    lower, upper, velocity, effort = _limits(joint, kind, where)
    damping, friction = _dynamics(joint, where)
    return Joint(
        name=joint.name,
        kind=kind,
        parent=joint.parent,
        child=joint.child,
        X_PJ=read_origin(joint.origin, where),
        axis=_axis(joint, kind, where),
        lower=lower,
        upper=upper,
        velocity=velocity,
        effort=effort,
        damping=damping,
        friction=friction,
        mimic=_mimic(joint, kind, where),
        rollers=rollers,
    )


def read_origin(origin: Any, where: str) -> Array:
    """Return the pose of an ``<origin>``, shape (4, 4).

    Args:
        origin: ``urdf_parser_py.urdf.Pose``; None: the identity.
        where: file and element, for errors.

    Raises:
        InvalidDescription: numbers that are not finite, or too few.
    """
    if origin is None:
        return frozen(np.eye(4))
    xyz = finite_vector(origin.xyz or (0.0, 0.0, 0.0), 3, f"{where}: origin xyz")
    rpy = finite_vector(origin.rpy or (0.0, 0.0, 0.0), 3, f"{where}: origin rpy")
    return frozen(from_xyz_rpy(xyz, rpy))


def finite_vector(values: Any, length: int, where: str) -> tuple[float, ...]:
    """Return a vector of finite numbers.

    Args:
        values: numbers.
        length: required number of values.
        where: file and field, for errors.

    Raises:
        InvalidDescription: another number of values, or values that are not finite.
    """
    numbers = tuple(float(value) for value in values)
    if len(numbers) != length or not all(map(math.isfinite, numbers)):
        raise InvalidDescription(f"{where} is {list(numbers)}; {length} finite numbers are needed.")
    return numbers


def _kind(joint: Any, where: str) -> JointKind:
    if joint.type in _KINDS:
        return _KINDS[joint.type]
    if joint.type in ("floating", "planar"):
        raise InvalidDescription(
            f"{where}: type '{joint.type}' is not supported: it moves in several directions at "
            "once. Describe a mobile base by `kind` in robot.yaml, or split the joint into "
            f"single ones. Allowed: {', '.join(_KINDS)}."
        )
    raise InvalidDescription(
        f"{where}: type '{joint.type}' is not a joint type.{did_you_mean(str(joint.type), _KINDS)}"
    )


def _axis(joint: Any, kind: JointKind, where: str) -> Array:
    """Return the unit axis; default of URDF: x."""
    if kind is JointKind.FIXED:
        return frozen(np.zeros(3))
    axis = np.array(finite_vector(joint.axis or (1.0, 0.0, 0.0), 3, f"{where}: axis xyz"))
    length = float(np.linalg.norm(axis))
    if not 1e-9 <= length < np.inf:
        size = "zero" if length < 1.0 else "too long"
        raise InvalidDescription(f"{where}: axis xyz is {size}; give a direction such as '0 0 1'.")
    return frozen(axis / length)


def _limits(joint: Any, kind: JointKind, where: str) -> tuple[float, float, float, float]:
    """Return lower, upper, velocity and effort limit."""
    if kind is JointKind.FIXED:
        return -np.inf, np.inf, np.inf, np.inf
    if joint.limit is None:
        if kind is JointKind.CONTINUOUS or joint.mimic is not None:
            return -np.inf, np.inf, np.inf, np.inf
        raise InvalidDescription(
            f"{where}: a {joint.type} joint needs <limit lower= upper= velocity= effort=>."
        )
    velocity = _positive(joint.limit.velocity, f"{where}: limit velocity")
    effort = _positive(joint.limit.effort, f"{where}: limit effort")
    if kind is JointKind.CONTINUOUS:
        return -np.inf, np.inf, velocity, effort
    lower, upper = finite_vector(
        (joint.limit.lower or 0.0, joint.limit.upper or 0.0), 2, f"{where}: limit lower, upper"
    )
    if lower > upper:
        raise InvalidDescription(
            f"{where}: limit lower {lower:.6g} is above upper {upper:.6g}; swap them."
        )
    if lower == upper:
        raise InvalidDescription(
            f"{where}: limit lower and upper are both {lower:.6g}, so it cannot move; give both, "
            'or make it type="fixed".'
        )
    return lower, upper, velocity, effort


def _positive(value: float, where: str) -> float:
    """Return a limit, which must be positive."""
    if not math.isfinite(value) or value <= 0.0:
        raise InvalidDescription(f"{where} is {value:.6g}; a positive number is needed.")
    return float(value)


def _dynamics(joint: Any, where: str) -> tuple[float, float]:
    """Return damping and friction."""
    if joint.dynamics is None:
        return 0.0, 0.0
    values = finite_vector(
        (joint.dynamics.damping or 0.0, joint.dynamics.friction or 0.0),
        2,
        f"{where}: dynamics damping, friction",
    )
    if min(values) < 0.0:
        raise InvalidDescription(
            f"{where}: dynamics damping, friction are {list(values)}; they must not be negative."
        )
    return values[0], values[1]


def _mimic(joint: Any, kind: JointKind, where: str) -> Mimic | None:
    """Return the mimicked joint, if any."""
    if joint.mimic is None or kind is JointKind.FIXED:
        return None
    if joint.mimic.joint == joint.name:
        raise InvalidDescription(f"{where}: mimics itself.")
    multiplier = 1.0 if joint.mimic.multiplier is None else joint.mimic.multiplier
    offset = joint.mimic.offset or 0.0
    multiplier, offset = finite_vector((multiplier, offset), 2, f"{where}: mimic")
    if multiplier == 0.0:
        raise InvalidDescription(
            f"{where}: mimic multiplier is 0, so it never moves; give another number, or make it "
            'type="fixed".'
        )
    return Mimic(joint.mimic.joint, multiplier, offset)


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


_log = logging.getLogger(__name__)
_parser_lock = threading.Lock()


def read_urdf(source: str | Path, where: str = "") -> KinematicTree:
    """Read links and joints of a URDF.

    Args:
        source: path, or the text itself (anything with a ``<``).
        where: name of the text, for errors; empty: the path.

    Returns:
        The tree; axes are normalized, missing origins are the identity.

    Raises:
        InvalidDescription: names the file, the element, the problem and the allowed values.
    """
    text, where = _text_of(source, where)
    root = parse_xml(text, where)
    rollers = read_rollers(root, where)
    robot = _parse(root, where)
    _check_unique((link.name for link in robot.links), "link", where)
    _check_unique((joint.name for joint in robot.joints), "joint", where)
    if not robot.links:
        raise InvalidDescription(f"{where}: the robot has no <link>; it needs at least one.")
    colours = {
        material.name: tuple(material.color.rgba)
        for material in robot.materials
        if material.color is not None and material.color.rgba is not None
    }
    links = {link.name: read_link(link, colours, where) for link in robot.links}
    joints = {
        joint.name: read_joint(joint, links, where, rollers.get(joint.name))
        for joint in robot.joints
    }
    _resolve_mimics(joints, where)
    try:
        return KinematicTree(robot.name, links, joints)
    except InvalidDescription as error:
        raise InvalidDescription(f"{where}: {error}") from None


def _text_of(source: str | Path, where: str) -> tuple[str, str]:
    """Return the XML text and its name for errors."""
    if isinstance(source, str) and "<" in source:
        return source, where or "URDF text"
    path = Path(source)
    return read_text(path), where or str(path)


def _parse(root: Any, where: str) -> Any:
    """Return the robot as parsed by urdf_parser_py."""
    for child in list(root):
        if child.tag not in _READ_ELEMENTS:
            root.remove(child)
    path = xml_reflection.Path("robot", tree=etree.ElementTree(root))
    with _quiet_parser(where):
        try:
            return urdf_parser.URDF.from_xml(root, path)
        except xml_reflection.ParseError as error:
            text = f"{_place(error.path)}: {error.e}. {_hint(str(error.e))}"
            raise InvalidDescription(f"{where}: {text}".rstrip()) from None
        except Exception as error:
            # The library asserts and raises plain exceptions; all mean an invalid file.
            text = f"{_guilty_element(root)}: {error}. {_hint(str(error))}"
            raise InvalidDescription(f"{where}: {text}".rstrip()) from None


def _guilty_element(root: Any) -> str:
    """Return the invalid element, for failures of the library that do not name it."""
    readers = {
        "link": urdf_parser.Link,
        "joint": urdf_parser.Joint,
        "material": urdf_parser.Material,
    }
    for child in root:
        try:
            readers[child.tag].from_xml(child, xml_reflection.Path(child.tag))
        except Exception:
            return f"line {child.sourceline}: {child.tag} '{child.get('name')}'"
    return "robot"


def parse_xml(text: str, where: str) -> Any:
    """Return the root element.

    Args:
        text: text of a URDF.
        where: name of the text, for errors.

    Raises:
        InvalidDescription: not a URDF, or one with xacro macros.
    """
    root = robot_root(text, where)
    if any(str(node.tag).startswith("{http://www.ros.org/wiki/xacro}") for node in root.iter()):
        raise InvalidDescription(
            f"{where}: still contains xacro macros; expand it first: xacro robot.urdf.xacro "
            "> robot.urdf"
        )
    return root


@contextlib.contextmanager
def _quiet_parser(where: str) -> Iterator[None]:
    """Redirect the library's output to the log at debug level."""
    with _parser_lock:
        before = xml_reflection.on_error
        xml_reflection.on_error = lambda message: _log.debug("%s: %s", where, message)
        try:
            yield
        finally:
            xml_reflection.on_error = before


def _place(path: object) -> str:
    """Return the library's element path without the leading slash."""
    return str(path).lstrip("/")


def _hint(text: str) -> str:
    """Return the allowed values for unclear messages of the library."""
    if "could not convert" in text:
        return "A number is needed."
    if "vector length" in text:
        return "Three numbers separated by blanks are needed (four for rgba)."
    if "joint type" in text:
        return "Allowed: fixed, revolute, continuous, prismatic."
    if "geometric" in text:
        return "Allowed in <geometry>: one of box, sphere, cylinder, mesh."
    if "Required" in text:
        return "Add it."
    return ""


def _check_unique(names: Iterable[str], kind: str, where: str) -> None:
    """Reject duplicate and empty names."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InvalidDescription(f"{where}: a {kind} has an empty name.")
        if name in seen:
            raise InvalidDescription(
                f"{where}: two {kind}s are called '{name}'; names must differ."
            )
        seen.add(name)


def _resolve_mimics(joints: dict[str, Joint], where: str) -> None:
    """Let joints that mimic a mimic joint follow the actuated joint at the end.

    Raises:
        InvalidDescription: a mimicked joint that is unknown or fixed, a circle, or a relation that
            is not finite.
    """
    for joint in list(joints.values()):
        if joint.mimic is None:
            continue
        passed, multiplier, offset, step = [joint.name], 1.0, 0.0, joint
        while step.mimic is not None:
            offset += multiplier * step.mimic.offset
            multiplier *= step.mimic.multiplier
            leader = joints.get(step.mimic.joint)
            if leader is None:
                raise InvalidDescription(
                    f"{where}: joint '{step.name}' mimics '{step.mimic.joint}', which does not "
                    f"exist.{did_you_mean(step.mimic.joint, joints)} Available: "
                    f"{', '.join(joints)}."
                )
            if leader.name in passed:
                raise InvalidDescription(
                    f"{where}: joint '{joint.name}' mimics itself, over "
                    f"{' -> '.join([*passed, leader.name])}; one of them must be without <mimic>."
                )
            passed.append(leader.name)
            step = leader
        if not step.movable:
            raise InvalidDescription(
                f"{where}: joint '{joint.name}' mimics '{step.name}', which is fixed."
            )
        if not (math.isfinite(multiplier) and math.isfinite(offset)) or multiplier == 0.0:
            raise InvalidDescription(
                f"{where}: joint '{joint.name}' moves {multiplier:g} times as far as "
                f"'{step.name}' over {' -> '.join(passed)}; a finite factor other than 0 is needed."
            )
        joints[joint.name] = dataclasses.replace(joint, mimic=Mimic(step.name, multiplier, offset))

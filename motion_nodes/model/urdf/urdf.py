# SPDX-License-Identifier: Apache-2.0
"""Reads a URDF into a validated :class:`~motion_nodes.model.tree.KinematicTree`.

urdf_parser_py parses the XML; this module passes it only the elements that describe the robot,
converts its failures to readable errors and adds checks. Joints are validated in
:mod:`motion_nodes.model.urdf.urdf_joints`, links in :mod:`motion_nodes.model.urdf.urdf_links`;
:mod:`motion_nodes.model.urdf.urdf_rollers` reads the extension ``<mecanum>``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lxml import etree  # type: ignore[import-untyped]
from urdf_parser_py import urdf as urdf_parser
from urdf_parser_py.xml_reflection import core as xml_reflection

from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.model.tree import Joint, KinematicTree, Mimic
from motion_nodes.model.urdf.robot_xml import robot_root
from motion_nodes.model.urdf.urdf_joints import read_joint
from motion_nodes.model.urdf.urdf_links import read_link
from motion_nodes.model.urdf.urdf_rollers import read_rollers

_log = logging.getLogger(__name__)
_parser_lock = threading.Lock()
_READ_ELEMENTS = ("link", "joint", "material")


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


def read_urdf_text(path: Path) -> str:
    """Return the text of a URDF file.

    Raises:
        InvalidDescription: no such file, or not UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDescription(f"{path}: is not UTF-8 text ({error.reason}).") from None
    except OSError as error:
        raise InvalidDescription(f"{path}: cannot be read: {error.strerror}.") from None


def _text_of(source: str | Path, where: str) -> tuple[str, str]:
    """Return the XML text and its name for errors."""
    if isinstance(source, str) and "<" in source:
        return source, where or "URDF text"
    path = Path(source)
    return read_urdf_text(path), where or str(path)


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

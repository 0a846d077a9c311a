# SPDX-License-Identifier: Apache-2.0
"""Safe XML reading of URDF and SRDF files, without external entities.

Faults that other readers tolerate are accepted: text before the declaration, another XML version,
undeclared prefixes.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.errors import InvalidDescription

_DECLARATION = re.compile(r"<\?xml[^>]*\?>")
_PREFIX = re.compile(r"</?([A-Za-z_][\w.-]*):|\s([A-Za-z_][\w.-]*):[\w.-]+\s*=")
_ROOT_TAG = re.compile(r"<robot\b")
_OTHER_ROOTS = {
    "html": "a web page; download the file itself ('raw')",
    "sdf": "an SDF; convert it to URDF, or use the MJCF or URDF of the same robot",
    "gazebo": "an SDF; convert it to URDF, or use the MJCF or URDF of the same robot",
    "mujoco": "an MJCF; 'motion new' makes a robot's folder of it",
    "COLLADA": "a mesh",
}
_PARTS_OF_MJCF = {
    *("mujocoinclude", "worldbody", "body", "default", "asset", "actuator", "tendon", "equality"),
    *("contact", "sensor", "keyframe"),
}
"""Root elements of files that an MJCF includes."""


def robot_root(text: str | bytes, where: str, kind: str = "a URDF") -> Any:
    """Return the root element, <robot>.

    Args:
        text: XML.
        where: name of the file, for errors.
        kind: type of the file, for errors.

    Raises:
        InvalidDescription: not XML, or another root element.
    """
    root = xml_root(text, where)
    if root is not None and root.tag in _PARTS_OF_MJCF:
        raise InvalidDescription(
            f"{where}: is a part of an MJCF (<{root.tag}>), which holds no robot by itself; name "
            "the file with <mujoco> that includes it."
        )
    if root is None or root.tag != "robot":
        found = "nothing" if root is None else f"<{root.tag}>"
        known = _OTHER_ROOTS.get(str(root.tag) if root is not None else "", "")
        hint = f": it is {known}." if known else "."
        raise InvalidDescription(
            f"{where}: {kind} starts with <robot>, this starts with {found}{hint}"
        )
    return root


def xml_root(text: str | bytes, where: str) -> Any:
    """Return the root element of XML; None: an empty text.

    Args:
        text: XML.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: not XML.
    """
    content = text.encode() if isinstance(text, str) else text
    try:
        return _parsed(content)
    except etree.XMLSyntaxError as error:
        repaired = _well_formed(content.decode("utf-8", "replace"))
        try:
            return _parsed(repaired.encode())
        except etree.XMLSyntaxError:
            raise InvalidDescription(
                f"{where}: is not XML that can be read: {error.msg}{_origin(content)}."
            ) from None


def _parsed(content: bytes) -> Any:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    return etree.fromstring(content, parser)


def _origin(content: bytes) -> str:
    """Return a hint at the type of a file that is not XML."""
    start = content[:400].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "; it is a web page: download the file itself ('raw')"
    if start.startswith(b"version https://git-lfs"):
        return "; it is a pointer of git-lfs: fetch the file with 'git lfs pull'"
    return ""


def _well_formed(text: str) -> str:
    """Return a text without the faults that other readers tolerate; keep line numbers."""
    text = _DECLARATION.sub("", text, count=1)
    begin = text.find("<")
    text = "\n" * text.count("\n", 0, max(begin, 0)) + text[max(begin, 0) :]
    used = {one or other for one, other in _PREFIX.findall(text)} - {"xml", "xmlns"}
    missing = sorted(prefix for prefix in used if f"xmlns:{prefix}=" not in text)
    declared = "".join(f' xmlns:{prefix}="undeclared:{prefix}"' for prefix in missing)
    return _ROOT_TAG.sub(f"<robot{declared}", text, count=1)


def group_urdf(
    urdf: str, tree: KinematicTree, name: str, joints: Collection[str], ends: Collection[str]
) -> str:
    """Return a URDF of the links of a group and the joints between them.

    Args:
        urdf: text of the robot's URDF.
        tree: kinematic tree of the robot.
        name: name of the group, used as name of the robot.
        joints: joints of the group; their mimic joints are included.
        ends: further links of the group, such as base and tip of a chain.
    """
    links = group_links(tree, joints, ends)
    root = robot_root(urdf, name)
    part = etree.Element("robot", name=name)
    for element in root:
        if element.tag == "link":
            kept = element.get("name") in links
        elif element.tag == "joint":
            joint = tree.joints.get(element.get("name"))
            kept = joint is not None and {joint.parent, joint.child} <= links
        else:
            kept = element.tag == "material"
        if kept:
            part.append(copy.deepcopy(element))
    return str(etree.tostring(part, encoding="unicode"))


def group_links(tree: KinematicTree, joints: Collection[str], further: Collection[str]) -> set[str]:
    """Return the links of a group: those of its joints, further ones, and all between them.

    Args:
        tree: kinematic tree of the robot.
        joints: joints of the group; their mimic joints are included.
        further: further links.
    """
    moved = [
        joint
        for joint in tree.joints.values()
        if joint.name in joints or (joint.mimic is not None and joint.mimic.joint in joints)
    ]
    ends = {link for joint in moved for link in (joint.parent, joint.child)}.union(further)
    paths = [[tree.root, *(j.child for j in tree.path(tree.root, end))] for end in ends]
    shared = 0
    while all(len(path) > shared and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    return {link for path in paths for link in path[shared - 1 :]}

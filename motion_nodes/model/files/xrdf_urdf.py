# SPDX-License-Identifier: Apache-2.0
"""Applies the modifiers of an XRDF to a URDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.model.files.xrdf_schema import AddFrame, FieldNames, Modifier, RemoveMimic
from motion_nodes.model.poses import from_xyz_quat, to_rpy
from motion_nodes.model.urdf.urdf import parse_xml


def modified_urdf(
    urdf: str, modifiers: Sequence[Modifier], where: str, names: FieldNames | None = None
) -> str:
    """Return a URDF with added frames, another root link, and independent mimic joints.

    Modifiers are applied in the order of the file.

    Args:
        urdf: text of the URDF.
        modifiers: modifiers of an XRDF.
        where: name of the file, for errors.
        names: field names of the file; None: those of an XRDF.

    Raises:
        InvalidDescription: an unknown link or joint, or an added one that already exists.
    """
    if not modifiers:
        return urdf
    root = parse_xml(urdf, where)
    for i, modifier in enumerate(modifiers):
        path = f"{where}: modifiers[{i}]." if names is None else f"{where}: "
        words = names or FieldNames()
        if modifier.add_frame is not None:
            _add_frame(root, modifier.add_frame, path + words.frames)
        elif modifier.set_base_frame is not None:
            _set_base(root, modifier.set_base_frame, path + words.base)
        elif modifier.remove_mimic_attributes is not None:
            _let_move(root, modifier.remove_mimic_attributes, path + "remove_mimic_attributes")
    etree.indent(root)
    return str(etree.tostring(root, encoding="unicode")) + "\n"


def _named(root: Any, tag: str) -> dict[str, Any]:
    return {element.get("name"): element for element in root.findall(tag)}


def _add_frame(root: Any, frame: AddFrame, path: str) -> None:
    """Add a link with its fixed joint."""
    links, joints = _named(root, "link"), _named(root, "joint")
    if frame.parent_frame_name not in links:
        raise InvalidDescription(
            f"{path}.parent_frame_name: '{frame.parent_frame_name}' is not a link of the URDF."
            f"{did_you_mean(frame.parent_frame_name, links)}"
        )
    for key, taken in (("frame_name", links), ("joint_name", joints)):
        if getattr(frame, key) in taken:
            raise InvalidDescription(
                f"{path}.{key}: '{getattr(frame, key)}' is in the URDF already; take another name."
            )
    turn = frame.fixed_transform.orientation
    X = from_xyz_quat(frame.fixed_transform.position, (*turn.xyz, turn.w))
    etree.SubElement(root, "link", name=frame.frame_name)
    joint = etree.SubElement(root, "joint", name=frame.joint_name, type="fixed")
    xyz, rpy = (" ".join(map(repr, values.tolist())) for values in (X[:3, 3], to_rpy(X)))
    etree.SubElement(joint, "origin", xyz=xyz, rpy=rpy)
    etree.SubElement(joint, "parent", link=frame.parent_frame_name)
    etree.SubElement(joint, "child", link=frame.frame_name)


def _set_base(root: Any, base: str, path: str) -> None:
    """Keep only the subtree of a link."""
    links = _named(root, "link")
    if base not in links:
        raise InvalidDescription(
            f"{path}: '{base}' is not a link of the URDF.{did_you_mean(base, links)}"
        )
    kept, waiting = {base}, [base]
    joints = root.findall("joint")
    while waiting:
        parent = waiting.pop()
        below = [_end(j, "child") for j in joints if _end(j, "parent") == parent]
        waiting += [link for link in below if link not in kept]
        kept |= set(below)
    for name, link in links.items():
        if name not in kept:
            root.remove(link)
    for joint in joints:
        if _end(joint, "parent") not in kept:
            root.remove(joint)


def _end(joint: Any, tag: str) -> str:
    """Return the link at one end of a joint."""
    element = joint.find(tag)
    return "" if element is None else str(element.get("link"))


def _let_move(root: Any, change: RemoveMimic, path: str) -> None:
    """Make a mimic joint independent, with its own limits."""
    joints = _named(root, "joint")
    mimics = [name for name, joint in joints.items() if joint.find("mimic") is not None]
    if change.joint_name not in mimics:
        raise InvalidDescription(
            f"{path}.joint_name: '{change.joint_name}' is not a mimic joint of the URDF."
            f"{did_you_mean(change.joint_name, mimics)}"
        )
    joint = joints[change.joint_name]
    joint.remove(joint.find("mimic"))
    limit = joint.find("limit")
    if limit is None:
        limit = etree.SubElement(joint, "limit", effort="0")
    lower, upper = change.position_limits
    for key, value in (("lower", lower), ("upper", upper), ("velocity", change.velocity_limit)):
        limit.set(key, repr(value))

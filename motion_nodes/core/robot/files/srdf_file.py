# SPDX-License-Identifier: Apache-2.0
"""SRDF, MoveIt's semantic description of a robot: reading, validation and writing.

Source: the SRDF specification (wiki.ros.org/srdf) and the extensions read by MoveIt 2. The SRDF
written for MoveIt's clients has the robot's groups, states and excluded pairs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from motion_nodes.core.robot.robot import Group, Robot, Sphere
from motion_nodes.core.robot.robot_xml import robot_root
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.errors import InvalidDescription, did_you_mean

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SrdfGroup:
    """Planning group: joints, links, chains and other groups, in any combination."""

    name: str
    chains: tuple[tuple[str, str], ...] = ()
    """Base and tip link of each chain."""
    joints: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Links, each of which stands for its parent joint."""
    groups: tuple[str, ...] = ()
    """Subgroups."""


@dataclass(frozen=True)
class SrdfState:
    """A named configuration of a group."""

    name: str
    group: str
    values: tuple[tuple[str, float], ...]
    """Pairs of joint and position [rad or m]."""


@dataclass(frozen=True)
class SrdfEndEffector:
    """A group attached to another one."""

    name: str
    parent_link: str
    group: str
    parent_group: str = ""


@dataclass(frozen=True)
class SrdfVirtualJoint:
    """Connection of the root link to a world frame."""

    name: str
    type: str
    """``fixed``, ``floating`` or ``planar``."""
    parent_frame: str
    child_link: str


@dataclass(frozen=True)
class SrdfPair:
    """A pair of links excluded from collision checks."""

    link1: str
    link2: str
    reason: str = ""


@dataclass(frozen=True)
class Srdf:
    """A complete file."""

    name: str
    """Name of the robot; MoveIt requires that of the URDF."""
    groups: tuple[SrdfGroup, ...] = ()
    states: tuple[SrdfState, ...] = ()
    end_effectors: tuple[SrdfEndEffector, ...] = ()
    virtual_joints: tuple[SrdfVirtualJoint, ...] = ()
    passive_joints: tuple[str, ...] = ()
    disabled: tuple[SrdfPair, ...] = ()
    spheres: tuple[tuple[str, tuple[Sphere, ...]], ...] = ()
    """Collision spheres by link: x, y, z, radius [m]."""

    def group_joints(self, name: str, tree: KinematicTree) -> tuple[str, ...]:
        """Return the movable joints of a group, including mimic joints, in the tree's order."""
        found: set[str] = set()
        for group in self._with_parts(name):
            for base, tip in group.chains:
                found |= {joint.name for joint in tree.path(base, tip)}
            found |= set(group.joints)
            found |= {tree.parent_joint[link].name for link in group.links if link != tree.root}
        above = [tree.parent_joint[link] for link in tree.frame_names[1:]]
        return tuple(joint.name for joint in above if joint.movable and joint.name in found)

    def _with_parts(self, name: str) -> Iterator[SrdfGroup]:
        group = next(group for group in self.groups if group.name == name)
        yield group
        for part in group.groups:
            yield from self._with_parts(part)


def read_srdf(file: str | Path, tree: KinematicTree) -> Srdf:
    """Read a file and check its consistency with a URDF.

    Raises:
        InvalidDescription: names the file and the line, the value and the allowed values.
    """
    path = Path(file)
    try:
        return parse_srdf(path.read_bytes(), tree, str(path))
    except OSError as error:
        raise InvalidDescription(f"{path}: cannot be read: {error.strerror}.") from None


def parse_srdf(text: str | bytes, tree: KinematicTree, where: str) -> Srdf:
    """Return the content of a text.

    Args:
        text: XML.
        tree: kinematic tree of the URDF.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: as :func:`read_srdf`.
    """
    return _Reader(tree, where).read(robot_root(text, where, "an SRDF"))


@dataclass(frozen=True)
class _Reader:
    """One file."""

    tree: KinematicTree
    where: str

    def read(self, root: Any) -> Srdf:
        names = [self._name(element) for element in root.findall("group")]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidDescription(f"{self.where}: two groups are called '{twice}'.")
        virtual = tuple(
            self._virtual(e)
            for e in root.findall("virtual_joint")
            if self._knows(e, "child_link", self.tree.links)
        )
        movable = {*self.tree.joints, *(joint.name for joint in virtual)}
        found = self._groups(root, names, movable)
        groups = [group.name for group in found]
        srdf = Srdf(
            name=root.get("name", self.tree.name),
            groups=found,
            states=tuple(
                self._state(e, movable)
                for e in root.findall("group_state")
                if self._knows(e, "group", groups)
            ),
            end_effectors=tuple(
                SrdfEndEffector(
                    self._name(e),
                    e.get("parent_link"),
                    e.get("group"),
                    e.get("parent_group", ""),
                )
                for e in root.findall("end_effector")
                if self._knows(e, "parent_link", self.tree.links)
                and self._knows(e, "group", groups)
                and (not e.get("parent_group") or self._knows(e, "parent_group", groups))
            ),
            virtual_joints=virtual,
            passive_joints=self._names(root, "passive_joint", movable),
            disabled=self._disabled(root),
            spheres=tuple(
                self._spheres(e)
                for e in root.findall("link_sphere_approximation")
                if self._knows(e, "link", self.tree.links)
            ),
        )
        self._refuse_loops(srdf)
        return srdf

    def _groups(self, root: Any, names: list[str], movable: set[str]) -> tuple[SrdfGroup, ...]:
        """Return the groups without those of unknown subgroups, as MoveIt does."""
        elements = dict(zip(names, root.findall("group"), strict=True))
        while True:
            lacking = [
                name
                for name, element in elements.items()
                if not all([self._knows(e, "name", elements) for e in element.findall("group")])
            ]
            if not lacking:
                return tuple(self._group(element, movable) for element in elements.values())
            for name in lacking:
                self._ignored(elements.pop(name), "it has subgroups that do not exist.")

    def _disabled(self, root: Any) -> tuple[SrdfPair, ...]:
        """Return the pairs without collision checks; a warning names links that do not exist."""
        found, unknown = [], set()
        for element in root.findall("disable_collisions"):
            first, second = element.get("link1"), element.get("link2")
            if first is None or second is None:
                key = "link1" if first is None else "link2"
                raise self._fail(element, f"needs the attribute {key}.")
            missing = {first, second}.difference(self.tree.links)
            if not missing:
                found.append(SrdfPair(first, second, element.get("reason", "")))
            unknown |= missing
        if unknown:
            _LOG.warning(
                "%s: disable_collisions: no link of the URDF is called %s",
                *(self.where, ", ".join(sorted(unknown))),
            )
        return tuple(found)

    def _group(self, element: Any, movable: set[str]) -> SrdfGroup:
        chains = []
        for chain in element.findall("chain"):
            ends = [self._knows(chain, key, self.tree.links) for key in ("base_link", "tip_link")]
            if not all(ends):
                continue
            base, tip = chain.get("base_link"), chain.get("tip_link")
            try:
                self.tree.path(base, tip)
            except InvalidDescription:
                text = f"tip_link '{tip}' is not below base_link '{base}' in the URDF."
                raise self._fail(chain, text) from None
            chains.append((base, tip))
        group = SrdfGroup(
            name=self._name(element),
            chains=tuple(chains),
            joints=self._names(element, "joint", movable),
            links=self._names(element, "link", self.tree.links),
            groups=tuple(self._name(e) for e in element.findall("group")),
        )
        if len(element) and not (group.chains or group.joints or group.links or group.groups):
            text = "none of its chains, joints and links is known to the URDF: it has no joints."
            _LOG.warning("%s", self._told(element, text))
        return group

    def _state(self, element: Any, movable: set[str]) -> SrdfState:
        values = []
        for joint in element.findall("joint"):
            known = self._knows(joint, "name", movable)
            if not known or joint.get("name") not in self.tree.joints:
                continue  # a virtual joint has no position here
            numbers = self._numbers(joint, "value")
            if len(numbers) != 1:
                raise self._fail(joint, f"value has {len(numbers)} numbers; one is needed.")
            values.append((joint.get("name"), numbers[0]))
        return SrdfState(self._name(element), element.get("group"), tuple(values))

    def _virtual(self, element: Any) -> SrdfVirtualJoint:
        kinds = ("fixed", "floating", "planar")
        return SrdfVirtualJoint(
            self._name(element),
            self._known(element, "type", kinds),
            element.get("parent_frame", ""),
            element.get("child_link"),
        )

    def _spheres(self, element: Any) -> tuple[str, tuple[Sphere, ...]]:
        found = []
        for sphere in element.findall("sphere"):
            centre, radius = self._numbers(sphere, "center"), self._numbers(sphere, "radius")
            if len(centre) != 3 or len(radius) != 1:
                raise self._fail(sphere, "needs a center of three numbers and a radius [m].")
            # MoveIt's convention for a link without spheres.
            if radius[0] > 0.0:
                found.append((*centre, radius[0]))
        return element.get("link"), tuple(found)  # type: ignore[return-value]

    def _refuse_loops(self, srdf: Srdf) -> None:
        parts = {group.name: group.groups for group in srdf.groups}
        for name in parts:
            waiting, seen = list(parts[name]), set()
            while waiting:
                part = waiting.pop()
                if part == name:
                    raise InvalidDescription(f"{self.where}: group '{name}' is part of itself.")
                if part not in seen:
                    seen.add(part)
                    waiting += parts[part]

    def _name(self, element: Any) -> str:
        name = element.get("name")
        if not name:
            raise self._fail(element, "needs a name.")
        return str(name)

    def _names(self, parent: Any, tag: str, among: Any) -> tuple[str, ...]:
        """Return the names of a parent's elements with a tag, without those that are unknown."""
        elements = parent.findall(tag)
        return tuple(e.get("name") for e in elements if self._knows(e, "name", among))

    def _knows(self, element: Any, key: str, among: Any) -> bool:
        """Return whether an attribute is one of given names; a warning tells one that is not.

        MoveIt logs an error and goes on without the element (srdfdom, model.cpp).
        """
        value = self._given(element, key)
        if value not in among:
            text = f"{key} '{value}' is not known.{did_you_mean(value, among)}"
            self._ignored(element, text)
        return value in among

    def _ignored(self, element: Any, text: str) -> None:
        _LOG.warning("%s It is ignored.", self._told(element, text))

    def _known(self, element: Any, key: str, among: Any) -> str:
        """Return an attribute that must be one of given names."""
        value = self._given(element, key)
        if value not in among:
            raise self._fail(element, f"{key} '{value}' is not known.{did_you_mean(value, among)}")
        return value

    def _given(self, element: Any, key: str) -> str:
        """Return an attribute that must be given."""
        value = element.get(key)
        if value is None:
            raise self._fail(element, f"needs the attribute {key}.")
        return str(value)

    def _numbers(self, element: Any, key: str) -> tuple[float, ...]:
        try:
            numbers = tuple(map(float, element.get(key, "").split()))
        except ValueError:
            numbers = (math.nan,)
        if not all(map(math.isfinite, numbers)):
            text = f"{key} is '{element.get(key)}'; finite numbers are needed."
            raise self._fail(element, text)
        return numbers

    def _fail(self, element: Any, text: str) -> InvalidDescription:
        return InvalidDescription(self._told(element, text))

    def _told(self, element: Any, text: str) -> str:
        """Return a text about an element with its place in the file."""
        name = f" '{element.get('name')}'" if element.get("name") else ""
        return f"{self.where}, line {element.sourceline}: {element.tag}{name}: {text}"


def srdf_text(srdf: Srdf) -> str:
    """Return the text of a file."""
    root = Xml.Element("robot", name=srdf.name)
    for group in srdf.groups:
        element = Xml.SubElement(root, "group", name=group.name)
        for base, tip in group.chains:
            Xml.SubElement(element, "chain", base_link=base, tip_link=tip)
        for tag, names in (("joint", group.joints), ("link", group.links), ("group", group.groups)):
            for name in names:
                Xml.SubElement(element, tag, name=name)
    for state in srdf.states:
        element = Xml.SubElement(root, "group_state", name=state.name, group=state.group)
        for joint, value in state.values:
            Xml.SubElement(element, "joint", name=joint, value=repr(value))
    for effector in srdf.end_effectors:
        fields = {key: value for key, value in vars(effector).items() if value}
        Xml.SubElement(root, "end_effector", fields)
    for virtual in srdf.virtual_joints:
        Xml.SubElement(root, "virtual_joint", vars(virtual))
    for joint in srdf.passive_joints:
        Xml.SubElement(root, "passive_joint", name=joint)
    for link, spheres in srdf.spheres:
        element = Xml.SubElement(root, "link_sphere_approximation", link=link)
        for x, y, z, radius in spheres:
            Xml.SubElement(element, "sphere", center=f"{x!r} {y!r} {z!r}", radius=repr(radius))
    for pair in srdf.disabled:
        Xml.SubElement(root, "disable_collisions", {k: v for k, v in vars(pair).items() if v})
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def srdf(robot: Robot, never_checked: Collection[tuple[str, str]]) -> str:
    """Return the text of a robot's SRDF.

    There is no virtual joint: the planning frame is the root link.

    Args:
        robot: provides groups (also under their aliases), states and passive joints.
        never_checked: pairs of links excluded from collision checks.
    """
    return srdf_text(srdf_of(robot, never_checked))


def srdf_of(robot: Robot, never_checked: Collection[tuple[str, str]]) -> Srdf:
    """Return a robot's SRDF; arguments as in :func:`srdf`."""
    groups = tuple(robot.groups.values())
    return Srdf(
        name=robot.tree.name,
        groups=tuple(found for group in groups for found in _named(group)),
        states=tuple(state for group in groups for state in _states(robot, group)),
        end_effectors=tuple(
            found for group in groups if (found := _end_effector(robot, group)) is not None
        ),
        passive_joints=robot.passive_joints,
        disabled=tuple(
            SrdfPair(a, b, "Adjacent" if _adjacent(robot, a, b) else "Never")
            for a, b in sorted(never_checked)
        ),
    )


def _named(group: Group) -> Iterator[SrdfGroup]:
    if group.base is not None and group.tip is not None:
        yield SrdfGroup(group.name, chains=((group.base, group.tip),))
    else:
        yield SrdfGroup(group.name, joints=group.joints)
    for alias in group.aliases:
        yield SrdfGroup(alias, groups=(group.name,))


def _states(robot: Robot, group: Group) -> Iterator[SrdfState]:
    for name, state in robot.states.items():
        if set(state) & set(group.joints):
            values = robot.named_state(name, group.name).tolist()
            yield SrdfState(name, group.name, tuple(zip(group.joints, values, strict=True)))


def _end_effector(robot: Robot, group: Group) -> SrdfEndEffector | None:
    """Return the end effector for a group attached to a chain, such as a gripper."""
    arm = robot.holder(group)
    if arm is None:
        return None
    parent = robot.tree.joint(arm.joints[-1]).child
    return SrdfEndEffector(f"{group.name}_end_effector", parent, group.name, arm.name)


def _adjacent(robot: Robot, a: str, b: str) -> bool:
    """Return whether one link is above the other with at most one movable joint in between."""
    for upper, lower in ((a, b), (b, a)):
        way = []
        joint = robot.tree.parent_joint.get(lower)
        while joint is not None:
            way.append(joint)
            if joint.parent == upper:
                return sum(j.movable for j in way) <= 1
            joint = robot.tree.parent_joint.get(joint.parent)
    return False

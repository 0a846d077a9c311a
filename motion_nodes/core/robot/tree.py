# SPDX-License-Identifier: Apache-2.0
"""Kinematic tree of a robot: links, joints and shapes as immutable, validated values.

Poses in the core are homogeneous matrices of shape (4, 4); ``X_AB`` is the pose of B in A. The tree
is read from a URDF by :mod:`motion_nodes.core.robot.urdf`; this module does not depend on XML.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidDescription, UnknownFrame, UnknownJoint
from motion_nodes.typing import Array


def frozen(values: object, shape: tuple[int, ...] | None = None) -> Array:
    """Return ``values`` as a read-only float array, of ``shape`` if one is given."""
    array = np.array(values, dtype=np.float64)
    if shape is not None:
        array = array.reshape(shape)
    array.setflags(write=False)
    return array


class JointKind(enum.IntEnum):
    """Joint type; the numbers are those of the packed arrays."""

    FIXED = 0
    REVOLUTE = 1
    PRISMATIC = 2
    CONTINUOUS = 3


@dataclass(frozen=True, init=False)
class Box:
    """A box, centred at the origin of its frame."""

    size: tuple[float, float, float]
    """Full edge lengths along x, y, z [m]."""

    def __init__(
        self,
        size: float | tuple[float, float, float] | Sequence[float],
        y: float | None = None,
        z: float | None = None,
    ) -> None:
        """Create from three edge lengths [m], as in ``Box(0.4, 0.02, 0.8)``, or a tuple of them."""
        edges = size if y is None and z is None else (size, y, z)
        object.__setattr__(self, "size", edges)


@dataclass(frozen=True)
class Sphere:
    """A sphere, centred at the origin of its frame."""

    radius: float
    """Radius [m]."""


@dataclass(frozen=True)
class Cylinder:
    """A cylinder about the z axis, centred at the origin of its frame."""

    radius: float
    """Radius [m]."""
    length: float
    """Full length along z [m]."""


@dataclass(frozen=True)
class Mesh:
    """A triangle mesh in a file."""

    filename: str
    """Path as in the URDF: ``package://``, ``file://``, absolute, or relative to the URDF."""
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Scale factor along each axis."""


Geometry = Box | Sphere | Cylinder | Mesh


@dataclass(frozen=True)
class Shape:
    """Geometry fixed to a link."""

    geometry: Geometry
    X_LG: Array
    """Pose of the geometry in the link, shape (4, 4)."""
    rgba: tuple[float, float, float, float] | None = None
    """Colour, each component 0 to 1; None: none in the URDF."""
    name: str = ""


@dataclass(frozen=True)
class Inertial:
    """Mass and inertia of a link."""

    mass: float
    """Mass [kg]."""
    X_LC: Array
    """Pose of the frame at the centre of mass in the link, shape (4, 4)."""
    inertia: Array
    """Rotational inertia about the centre of mass in that frame [kg m^2], shape (3, 3)."""


@dataclass(frozen=True)
class Link:
    """A rigid body."""

    name: str
    inertial: Inertial | None = None
    visuals: tuple[Shape, ...] = ()
    collisions: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: ``q = multiplier * q_joint + offset``."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0

    def leader_value(self, position: float) -> float:
        """Return the position of the leader [rad or m] at which the joint is at ``position``."""
        return (position - self.offset) / self.multiplier


@dataclass(frozen=True)
class Rollers:
    """Rollers on the rim of an omni or mecanum wheel."""

    radius: float
    """Rolling radius of the wheel, to the outside of the rollers [m]."""
    angle_deg: float = 90.0
    """Angle from the wheel axis to the axis of the roller in contact with the floor,
    counter-clockwise seen from above [deg]; 90 for an omni wheel."""


@dataclass(frozen=True)
class Joint:
    """A joint between a parent and a child link."""

    name: str
    kind: JointKind
    parent: str
    child: str
    X_PJ: Array
    """Pose of the joint frame (the child link at q = 0) in the parent link, shape (4, 4)."""
    axis: Array
    """Unit vector of rotation or translation in the joint frame, shape (3,)."""
    lower: float = -np.inf
    """Lower position limit [rad or m]; -inf for a continuous joint."""
    upper: float = np.inf
    """Upper position limit [rad or m]; inf for a continuous joint."""
    velocity: float = np.inf
    """Velocity limit [rad/s or m/s]."""
    effort: float = np.inf
    """Effort limit [N m or N]."""
    damping: float = 0.0
    """Viscous damping [N m s/rad or N s/m]."""
    friction: float = 0.0
    """Dry friction [N m or N]."""
    mimic: Mimic | None = None
    rollers: Rollers | None = None

    @property
    def movable(self) -> bool:
        """Whether the joint moves, as an actuated or mimic joint."""
        return self.kind is not JointKind.FIXED

    @property
    def law(self) -> Mimic:
        """Relation to the actuated joint that moves it; of an actuated joint, the identity."""
        return self.mimic or Mimic(self.name)


@dataclass(frozen=True)
class PackedTree:
    """Kinematic tree as flat read-only arrays, one row per frame (= link), parents before children.

    Input of kernels and code generators. Row 0 is the root; ``parent[0] == -1``.
    """

    frame_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    """Actuated joints (movable, no mimic joints), in the order of ``q``."""
    parent: NDArray[np.int32]
    """Row of the parent frame, shape (f,)."""
    kind: NDArray[np.int32]
    """Joint type: 0 fixed, 1 revolute or continuous, 2 prismatic, shape (f,)."""
    X_PJ: Array
    """Pose of the joint frame in the parent link, shape (f, 4, 4); row 0 is the identity."""
    axis: Array
    """Unit axis in the joint frame, shape (f, 3); zero for fixed joints."""
    q_index: NDArray[np.int32]
    """Index of the joint in ``q``, shape (f,); -1 for fixed joints."""
    multiplier: Array
    """Joint displacement [rad or m] = multiplier * q[q_index] + offset, shape (f,)."""
    offset: Array
    """Offset of the joint displacement [rad or m], shape (f,)."""


@dataclass(frozen=True)
class KinematicTree:
    """All links and joints of a robot as one tree.

    Raises:
        InvalidDescription: the joints do not form one tree over the links.
    """

    name: str
    links: Mapping[str, Link]
    joints: Mapping[str, Joint]
    root: str = field(init=False)
    frame_names: tuple[str, ...] = field(init=False)
    """All links, parents before children, root first."""
    joint_names: tuple[str, ...] = field(init=False)
    """Actuated joints (movable, no mimic joints), in the order of their child links."""

    def __post_init__(self) -> None:
        """Check that the joints form one tree, and sort its frames."""
        root, order = _topological_order(self.name, self.links, self.joints)
        by_child = {joint.child: joint for joint in self.joints.values()}
        actuated = tuple(
            by_child[link].name
            for link in order[1:]
            if by_child[link].movable and by_child[link].mimic is None
        )
        for joint in self.joints.values():
            if joint.mimic is not None and joint.mimic.joint not in actuated:
                raise InvalidDescription(
                    f"{self.name}: joint '{joint.name}' mimics '{joint.mimic.joint}', which is not "
                    f"an actuated joint. Available: {', '.join(actuated)}."
                )
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "frame_names", order)
        object.__setattr__(self, "joint_names", actuated)

    @functools.cached_property
    def parent_joint(self) -> Mapping[str, Joint]:
        """Parent joint of each link except the root."""
        return {joint.child: joint for joint in self.joints.values()}

    def joint(self, name: str) -> Joint:
        """Return a joint by name.

        Raises:
            UnknownJoint: lists the joints.
        """
        try:
            return self.joints[name]
        except KeyError:
            raise UnknownJoint(name, self.joints, self.name) from None

    def link(self, name: str) -> Link:
        """Return a link by name.

        Raises:
            UnknownFrame: lists the links.
        """
        try:
            return self.links[name]
        except KeyError:
            raise UnknownFrame(name, self.frame_names, self.name) from None

    def path(self, base: str, tip: str) -> tuple[Joint, ...]:
        """Return the joints from ``base`` down to ``tip``, including fixed ones.

        Args:
            base: upper link.
            tip: lower link.

        Raises:
            UnknownFrame: lists the links.
            InvalidDescription: ``tip`` is not below ``base``.
        """
        self.link(base)
        self.link(tip)
        joints: list[Joint] = []
        link = tip
        while link != base:
            joint = self.parent_joint.get(link)
            if joint is None:
                raise InvalidDescription(f"{self.name}: link '{tip}' is not below '{base}'.")
            joints.append(joint)
            link = joint.parent
        return tuple(reversed(joints))

    @functools.cached_property
    def members(self) -> Mapping[str, tuple[Joint, ...]]:
        """Joints that move with each actuated joint: itself, then its mimic joints."""
        found: dict[str, list[Joint]] = {name: [self.joints[name]] for name in self.joint_names}
        for joint in self.joints.values():
            if joint.mimic is not None and joint.movable:
                found[joint.mimic.joint].append(joint)
        return {name: tuple(joints) for name, joints in found.items()}

    def variables(self, base: str, tip: str) -> tuple[str, ...]:
        """Return the actuated joints on the way from ``base`` down to ``tip``, each once.

        A mimic joint on the way adds no variable: it moves with its leader.

        Args:
            base: upper link.
            tip: lower link.

        Raises:
            UnknownFrame: lists the links.
            InvalidDescription: ``tip`` is not below ``base``, or a mimic joint on the way follows
                a joint that is not on it, so that the joints of the way do not determine the pose.
        """
        way = [joint for joint in self.path(base, tip) if joint.movable]
        own = tuple(joint.name for joint in way if joint.mimic is None)
        for joint in way:
            if joint.mimic is not None and joint.mimic.joint not in own:
                raise InvalidDescription(
                    f"{self.name}: joint '{joint.name}' between {base} and {tip} mimics "
                    f"'{joint.mimic.joint}', which is not between them; choose a base and a tip "
                    "with both joints between them, or with neither."
                )
        return own

    @functools.cached_property
    def packed(self) -> PackedTree:
        """Tree as flat arrays for the kernels."""
        return _pack(self)


def _topological_order(
    name: str, links: Mapping[str, Link], joints: Mapping[str, Joint]
) -> tuple[str, tuple[str, ...]]:
    """Return the root and all links, parents before children, depth first in joint order."""
    children: dict[str, list[str]] = {link: [] for link in links}
    parents: dict[str, str] = {}
    for joint in joints.values():
        for end in (joint.parent, joint.child):
            if end not in links:
                raise InvalidDescription(
                    f"{name}: joint '{joint.name}' names link '{end}', which does not exist."
                )
        if joint.child in parents:
            raise InvalidDescription(f"{name}: link '{joint.child}' has two parent joints.")
        parents[joint.child] = joint.parent
        children[joint.parent].append(joint.child)
    roots = [link for link in links if link not in parents]
    if len(roots) != 1:
        raise InvalidDescription(f"{name}: needs one root link, found {roots or 'none (a loop)'}.")
    order: list[str] = []
    stack = [roots[0]]
    while stack:
        link = stack.pop()
        order.append(link)
        stack.extend(reversed(children[link]))
    if len(order) != len(links):
        raise InvalidDescription(f"{name}: links {sorted(set(links) - set(order))} form a loop.")
    return roots[0], tuple(order)


def _pack(tree: KinematicTree) -> PackedTree:
    """Flatten a tree into arrays."""
    count = len(tree.frame_names)
    row = {link: i for i, link in enumerate(tree.frame_names)}
    column = {joint: i for i, joint in enumerate(tree.joint_names)}
    parent = np.full(count, -1, np.int32)
    kind = np.zeros(count, np.int32)
    q_index = np.full(count, -1, np.int32)
    X_PJ = np.tile(np.eye(4), (count, 1, 1))
    axis = np.zeros((count, 3))
    multiplier = np.zeros(count)
    offset = np.zeros(count)
    for i, link in enumerate(tree.frame_names[1:], start=1):
        joint = tree.parent_joint[link]
        parent[i] = row[joint.parent]
        X_PJ[i] = joint.X_PJ
        if not joint.movable:
            continue
        kind[i] = 2 if joint.kind is JointKind.PRISMATIC else 1
        axis[i] = joint.axis
        mimic = joint.law
        q_index[i] = column[mimic.joint]
        multiplier[i] = mimic.multiplier
        offset[i] = mimic.offset
    for array in (parent, kind, q_index, X_PJ, axis, multiplier, offset):
        array.setflags(write=False)
    return PackedTree(
        tree.frame_names, tree.joint_names, parent, kind, X_PJ, axis, q_index, multiplier, offset
    )

# SPDX-License-Identifier: Apache-2.0
"""Kinematic trees from tables of Denavit-Hartenberg parameters, in either convention.

The conventions differ in the order of the four motions. A table does not define its convention, so
it must be given:

    standard:  T_i = Rz(theta_i) Tz(d_i) Tx(a_i) Rx(alpha_i)
    modified:  T_i = Rx(alpha_{i-1}) Tx(a_{i-1}) Rz(theta_i) Tz(d_i)

Other common names are accepted: ``classic`` and ``distal`` mean standard, ``craig`` and
``proximal`` mean modified.

Sources: J. Denavit and R. S. Hartenberg, "A kinematic notation for lower-pair mechanisms based on
matrices", J. Applied Mechanics 22, 1955; J. J. Craig, "Introduction to Robotics", 4th edition, eq.
3.6 (modified: Universal Robots publishes standard, Franka modified tables).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from motion_nodes.core.robot.poses import from_xyz_rpy, multiply, rigid_pose
from motion_nodes.core.robot.tree import Joint, JointKind, KinematicTree, Link, frozen
from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.typing import Array

Convention = Literal["standard", "classic", "distal", "modified", "craig", "proximal"]

_STANDARD = ("standard", "classic", "distal")
_MODIFIED = ("modified", "craig", "proximal")
_KINDS = {"revolute": JointKind.REVOLUTE, "prismatic": JointKind.PRISMATIC}
_Z = (0.0, 0.0, 1.0)


@dataclass(frozen=True)
class DhRow:
    """One row of a table: a joint and the link behind it (standard) or before it (modified).

    The joint position is added to its offset: ``theta`` (revolute) or ``d`` (prismatic).
    """

    a: float
    """Link length, along x [m]."""
    alpha: float
    """Link twist, about x [rad]."""
    d: float
    """Link offset, along the joint's z axis [m]."""
    theta: float = 0.0
    """Joint angle, about the joint's z axis [rad]."""
    kind: Literal["revolute", "prismatic"] = "revolute"
    lower: float = -math.inf
    """Lower position limit [rad or m]."""
    upper: float = math.inf
    """Upper position limit [rad or m]."""
    velocity: float = math.inf
    """Velocity limit [rad/s or m/s]."""


def tree_from_dh(
    rows: Sequence[DhRow],
    convention: Convention,
    *,
    name: str = "dh",
    joint_names: Sequence[str] | None = None,
    base: Array | None = None,
    tool: Array | None = None,
) -> KinematicTree:
    """Return the chain described by a table.

    Its links are ``base``, ``link0`` to ``link<n>`` (the frames of the table: ``link<i>`` after row
    i) and ``tool``; in the standard convention also ``axis<i>``, which rotates with joint i.

    Args:
        rows: table with one row per joint.
        convention: name of the table's convention.
        name: name of the tree.
        joint_names: names of the joints; default: ``joint1`` to ``joint<n>``.
        base: pose of ``link0`` in ``base`` [m], shape (4, 4); default: identity.
        tool: pose of ``tool`` in ``link<n>`` [m], shape (4, 4); default: identity.

    Raises:
        InvalidDescription: an empty table, an invalid value (names its row), or invalid joint
            names.
    """
    standard = _is_standard(convention, f"{name}: ")
    names = _names(name, rows, joint_names)
    joints = [_fixed("base_to_link0", "base", "link0", _pose("base", base))]
    for i, (row, joint) in enumerate(zip(rows, names, strict=True), start=1):
        _check_row(row, f"{name}: row {i} ('{joint}')")
        parent, child = f"link{i - 1}", f"link{i}"
        X = dh_transform(row.a, row.alpha, row.d, row.theta, convention)
        if standard:
            joints.append(_moving(joint, row, parent, f"axis{i}", np.eye(4)))
            joints.append(_fixed(f"axis{i}_to_{child}", f"axis{i}", child, X))
        else:
            joints.append(_moving(joint, row, parent, child, X))
    tip = f"link{len(rows)}"
    joints.append(_fixed(f"{tip}_to_tool", tip, "tool", _pose("tool", tool)))
    taken = {joint.name for joint in joints if not joint.movable} & set(names)
    if taken:
        raise InvalidDescription(
            f"{name}: joint name '{taken.pop()}' is reserved for a fixed joint.",
            field="joint_names",
        )
    links = ["base", *(joint.child for joint in joints)]
    return KinematicTree(name, {n: Link(n) for n in links}, {j.name: j for j in joints})


def dh_transform(a: float, alpha: float, d: float, theta: float, convention: Convention) -> Array:
    """Return the transform of one row; see the module for the formulas.

    Args:
        a: link length, along x [m].
        alpha: link twist, about x [rad].
        d: link offset, along z [m].
        theta: joint angle, about z [rad].
        convention: name of the convention.

    Returns:
        ``T_i``, shape (4, 4).

    Raises:
        InvalidDescription: an unknown convention.
    """
    standard = _is_standard(convention)
    about_x = from_xyz_rpy((a, 0.0, 0.0), (alpha, 0.0, 0.0))
    about_z = from_xyz_rpy((0.0, 0.0, d), (0.0, 0.0, theta))
    return multiply(about_z, about_x) if standard else multiply(about_x, about_z)


def _is_standard(convention: object, where: str = "") -> bool:
    """Return whether a name is one of the standard convention, ignoring case."""
    word = str(convention).strip().lower()
    if word not in _STANDARD + _MODIFIED:
        hint = did_you_mean(word, _STANDARD + _MODIFIED)
        raise InvalidDescription(
            f"{where}convention '{convention}' is not known.{hint}", field="convention"
        )
    return word in _STANDARD


def _names(name: str, rows: Sequence[DhRow], given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the joints."""
    if not rows:
        raise InvalidDescription(f"{name}: the table has no rows.", field="rows")
    names = tuple(given or (f"joint{i}" for i in range(1, len(rows) + 1)))
    if len(names) != len(rows) or len(set(names)) != len(names):
        raise InvalidDescription(
            f"{name}: {len(rows)} different joint names are needed, one a row; got "
            f"{', '.join(names)}.",
            field="joint_names",
        )
    return names


def _check_row(row: DhRow, where: str) -> None:
    """Raise an error for an invalid row."""
    if row.kind not in _KINDS:
        raise InvalidDescription(
            f"{where}: unknown kind '{row.kind}'.{did_you_mean(row.kind, _KINDS)}", field="kind"
        )
    for field in ("a", "alpha", "d", "theta"):
        if not math.isfinite(getattr(row, field)):
            raise InvalidDescription(
                f"{where}: {field} is {getattr(row, field)}; a finite number is needed.",
                field=field,
            )
    if not row.lower < row.upper:
        raise InvalidDescription(
            f"{where}: limits are {row.lower:.6g} to {row.upper:.6g}; the first must be below the "
            "second.",
            field="limits",
        )
    if not row.velocity > 0.0:
        raise InvalidDescription(
            f"{where}: velocity is {row.velocity}; it must be above 0.", field="velocity"
        )


def _pose(what: str, X: Array | None) -> Array:
    """Return a validated pose; default: the identity."""
    return np.eye(4) if X is None else rigid_pose(X, what, error=InvalidDescription)


def _moving(joint: str, row: DhRow, parent: str, child: str, X: Array) -> Joint:
    kind = _KINDS[row.kind]
    if kind is JointKind.REVOLUTE and math.isinf(row.lower) and math.isinf(row.upper):
        kind = JointKind.CONTINUOUS
    return Joint(
        joint, kind, parent, child, frozen(X), frozen(_Z), row.lower, row.upper, row.velocity
    )


def _fixed(joint: str, parent: str, child: str, X: Array) -> Joint:
    return Joint(joint, JointKind.FIXED, parent, child, frozen(X), frozen(np.zeros(3)))

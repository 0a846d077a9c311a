# SPDX-License-Identifier: Apache-2.0
"""Conversion of a URDF joint (urdf_parser_py) to a validated :class:`Joint`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Joint, JointKind, Link, Mimic, Rollers, frozen
from motion_nodes.typing import Array

_KINDS = {
    "fixed": JointKind.FIXED,
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.CONTINUOUS,
    "prismatic": JointKind.PRISMATIC,
}


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


def _limits(
    joint: Any,
    kind: JointKind,
    where: str,
) -> tuple[float, float, float, float]:
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

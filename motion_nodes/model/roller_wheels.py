# SPDX-License-Identifier: Apache-2.0
"""Wheels of a holonomic base; missing values are taken from the URDF."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.base_description import HolonomicSpec, RollerWheel
from motion_nodes.model.consistency_checks import Agreement
from motion_nodes.model.poses import compose, inverse
from motion_nodes.model.tree import KinematicTree
from motion_nodes.typing import Array


@dataclass(frozen=True)
class WheelPlace:
    """Position and axis of a wheel in the robot's base frame."""

    position: Array
    """Centre of the wheel [m], shape (3,)."""
    axis: Array
    """Unit vector of the rotation axis, shape (3,)."""


def complete(check: Agreement, spec: HolonomicSpec) -> HolonomicSpec:
    """Return the spec with joint, radius [m] and roller angle [deg] of every wheel.

    Without ``wheels`` all joints with ``<mecanum>`` in the URDF are wheels, in the URDF's order.

    Args:
        check: checks of the robot, with its tree.
        spec: the base as in the robot.yaml.

    Raises:
        InvalidDescription: no wheels, a wheel without a radius, or values that contradict the URDF.
    """
    tree = check.tree
    wheels = spec.wheels or tuple(
        RollerWheel(name) for name in tree.joint_names if tree.joints[name].rollers is not None
    )
    if not wheels:
        raise check.fail(
            "base.wheels",
            'is missing, and no joint of the URDF has <mecanum radius=".." angle_deg=".."/>.',
        )
    check.joints((wheel.joint for wheel in wheels), "base.wheels")
    return dataclasses.replace(spec, wheels=tuple(_complete(check, wheel) for wheel in wheels))


def _complete(check: Agreement, wheel: RollerWheel) -> RollerWheel:
    """Complete one wheel."""
    rollers = check.tree.joints[wheel.joint].rollers
    path = f"base.wheels: '{wheel.joint}'"
    if rollers is None:
        if wheel.radius is None:
            raise check.fail(path, 'has no radius, and no <mecanum radius=".."/> in the URDF.')
        angle = 90.0 if wheel.roller_angle_deg is None else wheel.roller_angle_deg
        return dataclasses.replace(wheel, roller_angle_deg=angle)
    for field, given, known in (
        ("radius", wheel.radius, rollers.radius),
        ("roller_angle_deg", wheel.roller_angle_deg, rollers.angle_deg),
    ):
        if given is not None and given != known:
            raise check.fail(path, f"{field} is {given:g}, but {known:g} in the URDF; keep one.")
    return RollerWheel(wheel.joint, rollers.radius, rollers.angle_deg)


def wheel_place(tree: KinematicTree, joint: str, base: str) -> WheelPlace:
    """Return the position and axis of a wheel in the base frame.

    Args:
        tree: kinematic tree of the robot.
        joint: wheel joint.
        base: link of the base frame, anywhere in the tree.

    Raises:
        UnknownJoint: lists the joints.
        UnknownFrame: lists the links.
        InvalidDescription: a movable joint between base and wheel.
    """
    X_RB, above_base = _from_root(tree, base)
    X_RP, above_wheel = _from_root(tree, tree.joint(joint).parent)
    moving = sorted(above_base ^ above_wheel)
    if moving:
        raise InvalidDescription(
            f"{tree.name}: wheel joint '{joint}' is mounted on '{moving[0]}', which moves relative "
            f"to '{base}'; the wheels of a holonomic base must be fixed."
        )
    X_BJ = compose(compose(inverse(X_RB), X_RP), tree.joints[joint].X_PJ)
    return WheelPlace(np.array(X_BJ[:3, 3]), X_BJ[:3, :3] @ tree.joints[joint].axis)


def _from_root(tree: KinematicTree, link: str) -> tuple[Array, set[str]]:
    """Return a link's pose in the root with all joints at zero, and the joints that move it."""
    X, moving = np.eye(4), set()
    for joint in tree.path(tree.root, link):
        X = compose(X, joint.X_PJ)
        if joint.movable:
            moving.add(joint.name)
    return X, moving

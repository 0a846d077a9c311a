# SPDX-License-Identifier: Apache-2.0
"""Estimation of drives and motion limits, which a URDF does not contain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.tree import JointKind, KinematicTree
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.typing import Array

DENSITY = 1000.0
"""Density of links without a mass [kg/m^3]."""
GRAVITY = 9.80665  # [m/s^2] (CGPM 1901)
ACCELERATE_WITHIN, JERK_WITHIN = 0.25, 0.025
"""Time to max velocity, and to max acceleration [s]."""
STIFF, DAMPED = 80.0, 2.0
"""Natural frequency [rad/s] and damping ratio of a position drive."""
_LEAST_INERTIA = 1e-5


def motion_limits(tree: KinematicTree, findings: Notes) -> dict[str, dict[str, float]]:
    """Return acceleration [rad/s^2] and jerk limits by joint, from the velocity limits."""
    velocity = zip(tree.joint_names, JointLimits.of_tree(tree).velocity, strict=True)
    acceleration = {name: _round(float(v) / ACCELERATE_WITHIN) for name, v in velocity}
    findings.add(
        "guessed",
        "limits",
        f"acceleration: full speed after {ACCELERATE_WITHIN} s; jerk: full acceleration after "
        f"{JERK_WITHIN} s",
    )
    jerk = {name: _round(value / JERK_WITHIN) for name, value in acceleration.items()}
    return {"acceleration": acceleration, "jerk": jerk}


def masses_of(tree: KinematicTree, volumes: Mapping[str, float], findings: Notes) -> Array:
    """Return the mass of each link [kg] in the order of ``frame_names``.

    If no link has one, masses are estimated from the volumes and the density of water.
    """
    stated = [tree.links[name].inertial for name in tree.frame_names]
    if any(stated):
        return np.array([inertial.mass if inertial else 0.0 for inertial in stated])
    findings.add("guessed", "drives", f"no link has a mass; density {DENSITY:g} kg/m^3")
    return DENSITY * np.array([volumes.get(name, 0.0) for name in tree.frame_names])


def joint_inertias(tree: KinematicTree, masses: Array, Q: Array) -> tuple[Array, Array]:
    """Return the max inertia and load of each joint over some configurations.

    Includes the inertia and load of its mimic joints, which dominate in finger linkages.

    Args:
        tree: the robot.
        masses: masses of its links [kg], shape (f,).
        Q: configurations, shape (m, n).

    Returns:
        Inertia [kg m^2 or kg] and gravity effort [N m or N] by joint, shape (n,) each.
    """
    kinematics = Kinematics(tree, generic=True)
    X = kinematics.frames_batch(Q)
    names = tree.frame_names
    centres = np.stack(
        [
            X[:, k, :3, 3]
            if (inertial := tree.links[name].inertial) is None
            else (X[:, k] @ inertial.X_LC)[:, :3, 3]
            for k, name in enumerate(names)
        ],
        axis=1,
    )
    own = np.array([_mean_moment(tree, name) for name in names])
    moved = _moved_by(tree)
    actuated = tree.joint_names
    inertia, load = np.zeros(len(actuated)), np.zeros(len(actuated))
    for name, rows in moved.items():
        joint = tree.joints[name]
        master = name if joint.mimic is None else joint.mimic.joint
        ratio = 1.0 if joint.mimic is None else abs(joint.mimic.multiplier)
        k, child = actuated.index(master), names.index(joint.child)
        axis = X[:, child, :3, :3] @ joint.axis
        if joint.kind is JointKind.PRISMATIC:
            own_inertia = masses[rows].sum()
            own_load = GRAVITY * masses[rows].sum() * np.abs(axis[:, 2]).max()
        else:
            arm = centres[:, rows] - X[:, child, None, :3, 3]
            squared = (arm**2).sum(axis=2) - np.einsum("mri,mi->mr", arm, axis) ** 2
            own_inertia = (squared @ masses[rows]).max() + own[rows].sum()
            moment = np.einsum("mri,r->mi", arm, masses[rows])
            torque = GRAVITY * np.einsum("mi,mi->m", axis, np.cross(moment, [0.0, 0.0, -1.0]))
            own_load = np.abs(torque).max()
        inertia[k] += ratio**2 * own_inertia
        load[k] += ratio * own_load
    return np.maximum(inertia, _LEAST_INERTIA), load


def drives(
    tree: KinematicTree,
    groups: Sequence[Sequence[str]],
    inertias: Mapping[str, float],
    wheels: Sequence[str],
    wheel_inertia: float,
) -> list[dict[str, Any]]:
    """Return the block ``drives``: position drives, and velocity drives for wheels.

    Args:
        tree: the robot.
        groups: joints with a position drive, which share an entry.
        inertias: inertia moved by each of them [kg m^2 or kg].
        wheels: driven wheels.
        wheel_inertia: reflected inertia of the robot per wheel [kg m^2].
    """
    block: list[dict[str, Any]] = []
    for joints in groups:
        felt = np.array([1.1 * inertias[name] for name in joints])
        block.append(
            {
                "joints": list(joints),
                "mode": "position",
                "stiffness": _rounded(STIFF**2 * felt),
                "damping": _rounded(2.0 * DAMPED * STIFF * felt),
                "armature": _rounded(felt - felt / 1.1),
                "kp": _rounded(200.0 * felt),
                "ki": _rounded(2.0 * felt),
                "kd": _rounded(15.0 * felt),
            }
        )
    if wheels:
        block.append(
            {
                "joints": list(wheels),
                "mode": "velocity",
                # Time constant of about 10 ms, within the effort limit.
                "damping": _round(wheel_inertia / 0.01),
                "armature": _round(0.1 * wheel_inertia),
            }
        )
    return block


def weak_joints(tree: KinematicTree, loads: Mapping[str, float], findings: Notes) -> None:
    """Report joints whose effort limit cannot hold their gravity load [N m or N]."""
    weak = [
        f"{name} ({tree.joints[name].effort:.3g} of {load:.3g})"
        for name, load in loads.items()
        if load > tree.joints[name].effort
    ]
    if weak:
        text = f"below the gravity load of the outstretched robot [N m or N]: {listed(weak)}"
        findings.add("missing", "limits.effort", text)


def joints_of_known_masses(tree: KinematicTree, shaped: Collection[str]) -> set[str]:
    """Return the joints that only move links whose mass the file states.

    Args:
        tree: the robot.
        shaped: links with a geometry; others may be without a mass.
    """
    unknown = {
        row
        for row, name in enumerate(tree.frame_names)
        if name in shaped
        and ((inertial := tree.links[name].inertial) is None or inertial.mass <= 0.0)
    }
    return {name for name, rows in _moved_by(tree).items() if unknown.isdisjoint(rows)}


def _mean_moment(tree: KinematicTree, link: str) -> float:
    inertial = tree.links[link].inertial
    return float(np.trace(inertial.inertia)) / 3.0 if inertial else 0.0


def _moved_by(tree: KinematicTree) -> dict[str, list[int]]:
    """Return for each moving joint the indices of the links that it moves."""
    moved: dict[str, list[int]] = {j.name: [] for j in tree.joints.values() if j.movable}
    above: dict[str, tuple[str, ...]] = {tree.root: ()}
    for row, link in enumerate(tree.frame_names):
        joint = tree.parent_joint.get(link)
        if joint is not None:
            own = (joint.name,) if joint.name in moved else ()
            above[link] = above[joint.parent] + own
        for name in above[link]:
            moved[name].append(row)
    return moved


def _round(value: float) -> float:
    return float(f"{value:.3g}")


def _rounded(values: Array) -> list[float]:
    return [_round(float(value)) for value in values]

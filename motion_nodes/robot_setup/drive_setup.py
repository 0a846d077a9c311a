# SPDX-License-Identifier: Apache-2.0
"""The block ``drives`` of a new robot: taken from its file, else estimated."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.model.tree import JointKind, KinematicTree
from motion_nodes.robot_setup import drives as drive_guess
from motion_nodes.robot_setup.groups import Groups
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.robot_setup.wheeled_base import BaseGuess

if TYPE_CHECKING:
    from motion_nodes.robot_setup.mjcf_drives import MjcfDrive

_STIFF_ENOUGH = 15.0
"""Natural frequency of a drive that follows references [rad/s]."""
_SAG = 0.04
"""Max position error of a drive under its load [rad or m]."""
_RESERVE = 3.0
"""Estimated effort limits relative to the load."""
_STUCK_DISTANCE, _STUCK_ANGLE = 5e-4, 2e-3
"""Max position error of a position drive held by friction [m, rad]."""


class MovedMasses(NamedTuple):
    """What the drives of a robot move."""

    total: float
    """Mass of the robot [kg]."""
    inertia: dict[str, float]
    """Max inertia by joint [kg m^2 or kg]."""
    load: dict[str, float]
    """Max gravity effort by joint [N m or N]."""


def moved_masses(
    tree: KinematicTree,
    geometries: Mapping[str, LinkGeometry],
    findings: Notes,
    rng: np.random.Generator,
) -> MovedMasses:
    """Return the inertia and load of the joints over random configurations.

    Args:
        tree: the robot.
        geometries: geometries of its links.
        findings: notes are added.
        rng: random generator of the configurations.
    """
    volumes = {link: geometry.volume for link, geometry in geometries.items()}
    masses = drive_guess.masses_of(tree, volumes, findings)
    limits = JointLimits.of_tree(tree)
    lower, upper = limits.lower, limits.upper
    bounded = np.isfinite(upper - lower)
    low, high = np.where(bounded, lower, -np.pi), np.where(bounded, upper, np.pi)
    inertia, load = drive_guess.joint_inertias(
        tree, masses, rng.uniform(low, high, (64, len(lower)))
    )
    return MovedMasses(
        float(masses.sum()),
        dict(zip(tree.joint_names, inertia.tolist(), strict=True)),
        dict(zip(tree.joint_names, load.tolist(), strict=True)),
    )


def drive_block(
    tree: KinematicTree,
    base: BaseGuess,
    groups: Groups,
    moved: MovedMasses,
    stated: Mapping[str, MjcfDrive],
    findings: Notes,
) -> list[dict[str, Any]]:
    """Return the block ``drives``.

    Args:
        tree: the robot.
        base: its mobile base, if any.
        groups: its groups.
        moved: what its drives move.
        stated: drives from its file, by joint.
        findings: notes are added.
    """
    drive_guess.weak_joints(tree, moved.load, findings)
    felt = dict(moved.inertia)
    radius = float(np.mean([wheel.radius for wheel in base.wheels])) if base.wheels else 0.0
    share = moved.total * radius**2 / max(1, len(base.driven))
    for joint in base.steering:
        felt[joint] = max(felt[joint], share)
    if base.kind == "floating":
        _add_body(tree, groups, moved.total, felt)
    together: list[tuple[str, ...]] = []
    for group in groups.groups:
        if not {name for joints in together for name in joints}.intersection(group.joints):
            together.append(group.joints)  # a group of both arms has the drives of each
    if base.steering:
        together.append(base.steering)
    findings.add(
        "guessed", "drives", "gains of the simulation, from masses and shapes, not from data sheets"
    )
    # The dry friction of a light link can exceed the effort of a drive tuned for its inertia.
    for name in felt:
        own = tree.joints[name]
        within = _STUCK_DISTANCE if own.kind is JointKind.PRISMATIC else _STUCK_ANGLE
        felt[name] = max(felt[name], own.friction / (within * drive_guess.STIFF**2))
    wheel_inertia = max(share + max((felt[j] for j in base.driven), default=0.0), 1e-5)
    block = drive_guess.drives(tree, together, felt, base.driven, wheel_inertia)
    _take_stated(block, stated, felt, moved.load, findings)
    return block


def sufficient_efforts(
    tree: KinematicTree,
    shaped: Collection[str],
    loads: Mapping[str, float],
    guessed: Collection[str],
    findings: Notes,
) -> dict[str, float]:
    """Return effort limits of joints whose limits cannot move their load [N m or N].

    Estimated limits get a reserve. A limit of the file that cannot hold the masses of the file is
    raised by their load: springs or weights, which the file lacks, balance such a robot.

    Args:
        tree: the robot.
        shaped: its links with a geometry.
        loads: max gravity effort by joint [N m or N].
        guessed: joints with estimated effort limits.
        findings: notes are added.
    """
    limits = {name: tree.joints[name].effort for name in loads}
    low = [n for n in loads if n in guessed and limits[n] < _RESERVE * loads[n]]
    certain = drive_guess.joints_of_known_masses(tree, shaped)
    balanced = [n for n in loads if n not in guessed and n in certain and limits[n] < loads[n]]
    raised = {name: float(f"{_RESERVE * loads[name]:.3g}") for name in low}
    raised |= {name: float(f"{limits[name] + loads[name]:.3g}") for name in balanced}
    if low:
        listing = listed(f"{name} {raised[name]:g}" for name in low)
        text = f"{_RESERVE:g} times what gravity needs at most: {listing}"
        findings.add("guessed", "limits.effort", text)
    if balanced:
        listing = listed(f"{n} {limits[n]:.3g} to {raised[n]:g}" for n in balanced)
        text = f"raised by the load, which springs or weights of the robot must balance: {listing}"
        findings.add("guessed", "limits.effort", text)
    return raised


def _add_body(tree: KinematicTree, groups: Groups, mass: float, felt: dict[str, float]) -> None:
    """Add the inertia of the body to the joints of the legs that carry it."""
    chains = [group for group in groups.groups if group.tip is not None]
    for group in chains:
        lengths = [np.linalg.norm(tree.joints[name].X_PJ[:3, 3]) for name in group.joints[1:]]
        share = mass / len(chains) * max(float(sum(lengths)), 0.1) ** 2
        for name in group.joints:
            felt[name] = max(felt[name], share)


def _take_stated(
    block: list[dict[str, Any]],
    stated: Mapping[str, MjcfDrive],
    felt: Mapping[str, float],
    carried: Mapping[str, float],
    findings: Notes,
) -> None:
    """Replace estimates by the drives of the robot's file.

    Drives that are too soft to follow references or to hold their load are not used, as is common
    in files for learned policies.
    """
    taken, soft = [], []
    for entry in block:
        for k, name in enumerate(entry["joints"]):
            drive = stated.get(name)
            if drive is None or entry["mode"] != "position":
                continue
            if drive.stiffness > 0.0:
                frequency = math.sqrt(drive.stiffness / max(felt[name] + drive.armature, 1e-9))
                if frequency < _STIFF_ENOUGH or carried[name] > _SAG * drive.stiffness:
                    soft.append(name)
                    continue
                taken.append(name)
                entry["stiffness"][k] = drive.stiffness
                entry["damping"][k] = max(drive.damping, 0.0)
                entry["armature"][k] = drive.armature
    if taken:
        findings.add("measured", "drives", f"gains stated by the file: {listed(taken)}")
    if soft:
        text = f"the file's drives are too soft to follow references; estimated: {listed(soft)}"
        findings.add("guessed", "drives", text)

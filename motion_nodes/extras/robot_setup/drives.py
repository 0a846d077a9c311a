# SPDX-License-Identifier: Apache-2.0
"""The block ``drives`` of a new robot: taken from its file, else estimated.

Estimation of drives and motion limits, which a URDF does not contain; drives of joints
from an MJCF's actuators.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.tree import JointKind, KinematicTree
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.extras.robot_setup.groups import Groups
from motion_nodes.extras.robot_setup.notes import Notes, listed
from motion_nodes.extras.robot_setup.urdf_repair import DENSITY
from motion_nodes.extras.robot_setup.wheeled_base import BaseGuess
from motion_nodes.typing import Array

GRAVITY = 9.80665  # [m/s^2] (CGPM 1901)
ACCELERATE_WITHIN, JERK_WITHIN = 0.25, 0.025
"""Time to max velocity, and to max acceleration [s]."""
STIFF, DAMPED = 80.0, 2.0
"""Natural frequency [rad/s] and damping ratio of a position drive."""
_LEAST_INERTIA = 1e-5
_STIFF_ENOUGH = 15.0
"""Natural frequency of a drive that follows references [rad/s]."""
_SAG = 0.04
"""Max position error of a drive under its load [rad or m]."""
_RESERVE = 3.0
"""Estimated effort limits relative to the load."""
_STUCK_DISTANCE, _STUCK_ANGLE = 5e-4, 2e-3
"""Max position error of a position drive held by friction [m, rad]."""
_LAG = 2.0 * DAMPED / STIFF
"""Max lag of a position drive due to the damping of the file, as great as its own [s]."""
_TRANSMISSION = mujoco.mjtTrn


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


def masses_of(
    tree: KinematicTree, geometries: Mapping[str, LinkGeometry], findings: Notes
) -> Array:
    """Return the mass of each link [kg] in the order of ``frame_names``.

    If no link has one, masses are estimated from the volumes and the density of water.
    """
    stated = [tree.links[name].inertial for name in tree.frame_names]
    if any(stated):
        return np.array([inertial.mass if inertial else 0.0 for inertial in stated])
    findings.add("guessed", "drives", f"no link has a mass; density {DENSITY:g} kg/m^3")
    volumes = {link: geometry.volume for link, geometry in geometries.items()}
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
    masses = masses_of(tree, geometries, findings)
    limits = JointLimits.of_tree(tree)
    lower, upper = limits.lower, limits.upper
    bounded = np.isfinite(upper - lower)
    low, high = np.where(bounded, lower, -np.pi), np.where(bounded, upper, np.pi)
    inertia, load = joint_inertias(tree, masses, rng.uniform(low, high, (64, len(lower))))
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
    weak_joints(tree, moved.load, findings)
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
    # Losses of a light link can exceed the effort of a drive tuned for its inertia.
    for name in felt:
        friction, damping = _losses(tree, name)
        prismatic = tree.joints[name].kind is JointKind.PRISMATIC
        within = _STUCK_DISTANCE if prismatic else _STUCK_ANGLE
        stiffness = max(friction / within, damping / _LAG)
        felt[name] = max(felt[name], stiffness / STIFF**2)
    wheel_inertia = max(share + max((felt[j] for j in base.driven), default=0.0), 1e-5)
    block = drives(tree, together, felt, base.driven, wheel_inertia)
    _take_stated(block, stated, felt, moved.load, findings)
    return block


def _losses(tree: KinematicTree, name: str) -> tuple[float, float]:
    """Return dry friction [N m or N] and damping of a joint and of those that mimic it."""
    moved = [(joint, abs(joint.law.multiplier)) for joint in tree.members[name]]
    friction = sum(ratio * joint.friction for joint, ratio in moved)
    return friction, sum(ratio**2 * joint.damping for joint, ratio in moved)


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
    certain = joints_of_known_masses(tree, shaped)
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


@dataclass(frozen=True)
class MjcfDrive:
    """A joint's actuator; control law as in robot.yaml."""

    stiffness: float
    """Position gain [N m/rad or N/m]; 0 for velocity and effort actuators."""
    damping: float
    """Velocity gain [N m s/rad or N s/m]."""
    armature: float
    """Reflected inertia [kg m^2 or kg]."""
    max_effort: float | None
    """Effort limit [N m or N]; None: unlimited."""


def joint_drives(model: mujoco.MjModel, names: Sequence[str]) -> dict[str, MjcfDrive]:
    """Return the drives of the joints that an actuator moves, directly or through a tendon.

    Args:
        model: the model.
        names: names of its joints.
    """
    found: dict[str, MjcfDrive] = {}
    for a in range(model.nu):
        gear = float(model.actuator_gear[a, 0])
        for joint, ratio in joints_moved(model, a):
            name = names[joint]
            if int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_BALL):
                # A ball joint is converted to three, of which an actuator turns one.
                about = int(np.argmax(np.abs(model.actuator_gear[a, :3])))
                name, gear = f"{name}_{'xyz'[about]}", float(model.actuator_gear[a, about])
            if name not in found:
                found[name] = _drive(model, a, joint, gear * ratio)
    return found


def joints_moved(model: mujoco.MjModel, actuator: int) -> list[tuple[int, float]]:
    """Return the joints that an actuator moves, and their ratios to its length; none: no joint."""
    target = int(model.actuator_trnid[actuator, 0])
    kind = model.actuator_trntype[actuator]
    # MuJoCo's enumerations compare equal to integers only as the left operand.
    if kind == _TRANSMISSION.mjTRN_JOINT or kind == _TRANSMISSION.mjTRN_JOINTINPARENT:
        return [(target, 1.0)]
    if kind != _TRANSMISSION.mjTRN_TENDON:
        return []
    first, count = int(model.tendon_adr[target]), int(model.tendon_num[target])
    wraps = range(first, first + count)
    return [
        (int(model.wrap_objid[w]), float(model.wrap_prm[w]))
        for w in wraps
        if model.wrap_type[w] == mujoco.mjtWrap.mjWRAP_JOINT
    ]


def _drive(model: mujoco.MjModel, actuator: int, joint: int, ratio: float) -> MjcfDrive:
    gain, bias = model.actuator_gainprm[actuator], model.actuator_biasprm[actuator]
    affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    stiffness = -float(bias[1]) * ratio**2 if affine else 0.0
    damping = -float(bias[2]) * ratio**2 if affine else 0.0
    limits = []
    if model.actuator_forcelimited[actuator]:
        limits.append(np.abs(model.actuator_forcerange[actuator]).max() * abs(ratio))
    elif not affine and model.actuator_ctrllimited[actuator]:
        most = np.abs(model.actuator_ctrlrange[actuator]).max()
        limits.append(abs(float(gain[0]) * ratio) * most)
    if model.jnt_actfrclimited[joint]:
        limits.append(np.abs(model.jnt_actfrcrange[joint]).max())
    dof = int(model.jnt_dofadr[joint])
    return MjcfDrive(
        max(stiffness, 0.0),
        max(damping, 0.0),
        float(model.dof_armature[dof]),
        float(min(limits)) if limits and min(limits) > 0.0 else None,
    )

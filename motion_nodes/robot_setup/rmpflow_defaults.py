# SPDX-License-Identifier: Apache-2.0
"""Default RMPflow settings of a new robot: the Panda's, with lengths scaled to the reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.model.rmpflow_settings import GROUPS, RmpflowSettings
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, JointKind, KinematicTree
from motion_nodes.robot_setup.groups import GroupGuess
from motion_nodes.robot_setup.notes import Notes
from motion_nodes.robot_setup.wheels import link_poses
from motion_nodes.scene.robot_spheres import rigid_links

PANDA_REACH = 0.855
"""Reach from the data sheet of the Franka Emika Panda [m]."""
_LENGTHS = {
    "target_rmp": (
        *("accel_norm_eps", "metric_alpha_length_scale"),
        "proximity_metric_boost_length_scale",
    ),
    "collision_rmp": (
        *("damping_std_dev", "repulsion_std_dev", "metric_modulation_radius"),
        *("metric_exploder_std_dev", "damping_velocity_gate_length_scale"),
    ),
}
"""Parameters in units of length [m], which scale with the size of a robot."""
_ORIENTATION = {"metric_scalar": 200.0, "proximity_metric_boost_scalar": 150.0}
"""Weights of orientations as in the settings of the shipped robots."""


def reach_of(tree: KinematicTree, group: GroupGuess) -> float:
    """Return the length of a chain from its first moving joint to its tip [m]."""
    joints = tree.path(group.base or tree.root, group.tip or tree.root)
    while joints and not joints[0].movable:
        joints = joints[1:]
    length = sum(float(np.linalg.norm(joint.X_PJ[:3, 3])) for joint in joints[1:])
    sliding = sum(j.upper - j.lower for j in joints if j.kind is JointKind.PRISMATIC)
    return float(length + sliding)


def rmpflow_settings(
    robot: Robot,
    group: GroupGuess,
    limits: JointLimits,
    spheres: Mapping[str, Array],
    findings: Notes,
) -> dict[str, Any]:
    """Return the content of rmpflow.yaml.

    Args:
        robot: the robot, with its home.
        group: the active chain, with base and tip.
        limits: limits of its joints.
        spheres: spheres by link [m], shape (s, 4).
        findings: notes are added.
    """
    tree = robot.tree
    reach = max(reach_of(tree, group), 0.05)
    scale = float(np.clip(reach / PANDA_REACH, 0.1, 2.0))
    ranges = np.where(np.isfinite(limits.upper - limits.lower), limits.upper - limits.lower, 6.28)
    fastest = float(limits.velocity.max())
    defaults = RmpflowSettings(joint_limit_buffers=(0.01,) * len(limits.names))
    params: dict[str, dict[str, Any]] = {}
    for name in GROUPS:
        values = {
            key: value
            for key, value in dataclasses.asdict(getattr(defaults, name)).items()
            if value is not None
        }
        for key in _LENGTHS.get(name, ()):
            values[key] = _round(scale * values[key])
        if name == "axis_target_rmp":
            values.update(_ORIENTATION)
        if name == "joint_velocity_cap_rmp":
            values["max_velocity"] = _round(min(4.0, fastest))
            values["velocity_damping_region"] = _round(0.3 * min(4.0, fastest))
        params[name] = values
    resolve = params.pop("canonical_resolve")
    findings.add(
        "guessed",
        "rmpflow.yaml",
        f"the Panda's settings, lengths times {scale:.2g} (reach {reach:.2g} m); the last links "
        "avoid a pillar in place of the base",
    )
    return {
        "joint_limit_buffers": [_round(min(0.01, 0.002 * float(r))) for r in ranges],
        "rmp_params": params,
        "canonical_resolve": resolve,
        "body_cylinders": [_pillar(robot, group, spheres)],
        "body_collision_controllers": _controllers(tree, group, spheres),
    }


def _pillar(robot: Robot, group: GroupGuess, spheres: Mapping[str, Array]) -> dict[str, Any]:
    """Return a capsule from the base of the chain to its second joint, in the base frame."""
    tree = robot.tree
    poses = link_poses(tree, robot.base_frame, robot.home)
    foot = poses[group.base or tree.root][:3, 3]
    head = poses[tree.joints[group.joints[0]].child][:3, 3]
    radii = spheres.get(group.base or tree.root)
    width = float(np.median(radii[:, 3])) if radii is not None and len(radii) else 0.05
    return {
        "name": "base_stem",
        "pt1": [_round(v) for v in foot],
        "pt2": [_round(v) for v in head],
        "radius": _round(width),
    }


def _controllers(
    tree: KinematicTree, group: GroupGuess, spheres: Mapping[str, Array]
) -> list[dict[str, Any]]:
    """Return balls about the frames of the last two links and of the tip."""
    frames = [tree.joints[name].child for name in group.joints[-2:]]
    if len(group.joints) < 4:
        frames = []  # a short chain cannot reach its own base
    if group.tip not in frames and frames:
        frames.append(group.tip or frames[-1])
    rigid = rigid_links(tree)
    found = []
    for frame in frames:
        near = [s for link, s in spheres.items() if rigid[link] == rigid[frame]]
        radius = float(np.median(np.concatenate(near)[:, 3])) if near else 0.03
        found.append({"name": frame, "radius": _round(radius)})
    return found


def _round(value: float) -> float:
    return float(f"{value:.3g}") + 0.0

# SPDX-License-Identifier: Apache-2.0
"""RMPflow settings of a new robot: the Panda's in proportion, and balls kept off the base."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.rmpflow_settings import BodyCapsule, BodyController, RmpflowSettings
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import KinematicTree
from motion_nodes.rmpflow.scaled_settings import settings_scale, starting_settings
from motion_nodes.robot_setup.groups import GroupGuess
from motion_nodes.robot_setup.notes import Notes
from motion_nodes.scene.robot_spheres import rigid_links
from motion_nodes.typing import Array


def rmpflow_settings(
    robot: Robot, group: GroupGuess, spheres: Mapping[str, Array], findings: Notes
) -> RmpflowSettings:
    """Return the settings of a robot with a state ``ready``, rounded.

    Args:
        robot: the robot; the group's tip is its tool.
        group: the active chain, with base and tip.
        spheres: spheres by link [m], shape (s, 4).
        findings: notes are added.
    """
    settings = starting_settings(robot, group.joints)
    findings.add(
        "guessed",
        "rmpflow.yaml",
        f"the Panda's settings for {settings_scale(robot, group.joints):.2g} times its size; the "
        "last links are kept off a pillar that stands for the base",
    )
    numbers = {name: _round(value) for name, value in settings.parameters().items()}
    return dataclasses.replace(
        settings.with_parameters(numbers),
        default_posture="ready",
        joint_limit_buffers=tuple(map(_round, settings.joint_limit_buffers)),
        body_cylinders=(_pillar(robot, group, spheres),),
        body_collision_controllers=_controllers(robot.tree, group, spheres),
    )


def _pillar(robot: Robot, group: GroupGuess, spheres: Mapping[str, Array]) -> BodyCapsule:
    """Return a capsule from the base of the chain to its first joint, in the base frame."""
    tree = robot.tree
    kinematics = Kinematics(tree, base=robot.base_frame, generic=True)
    poses = kinematics.frames(robot.home)
    place = {name: X[:3, 3] for name, X in zip(kinematics.frame_names, poses, strict=True)}
    foot = place[group.base or tree.root]
    head = place[tree.joints[group.joints[0]].child]
    radii = spheres.get(group.base or tree.root)
    width = float(np.median(radii[:, 3])) if radii is not None and len(radii) else 0.05
    ends = [(_round(x), _round(y), _round(z)) for x, y, z in (foot, head)]
    return BodyCapsule("base_stem", ends[0], ends[1], _round(width))


def _controllers(
    tree: KinematicTree, group: GroupGuess, spheres: Mapping[str, Array]
) -> tuple[BodyController, ...]:
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
        found.append(BodyController(frame, _round(radius)))
    return tuple(found)


def _round(value: float) -> float:
    return float(f"{value:.3g}") + 0.0

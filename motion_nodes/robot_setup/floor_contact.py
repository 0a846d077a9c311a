# SPDX-License-Identifier: Apache-2.0
"""Floor contact of a mobile base in simulation: rollers on its wheels, and skids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from motion_nodes.model.tree import KinematicTree
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.robot_setup.wheeled_base import BaseGuess
from motion_nodes.robot_setup.wheels import in_base, link_poses
from motion_nodes.scene.robot_spheres import rigid_links

_ROLLERS = 10
_ROLLER_RADIUS = 0.22
"""Radius of rollers relative to the wheel's radius; typical for omni wheels."""
_ROLLERS_MASS = 0.3
"""Mass of all rollers of a wheel, relative to the mass of the wheel or of a thin ring with its
inertia."""
_BEARING = 5e-6
"""Viscous damping of a roller [N m s/rad]."""
_NEAR_FLOOR = 0.1
"""Height relative to a wheel's radius below which links slide on the floor."""
_SKIDDING_FRICTION = 0.7
"""Friction of tyres that slip sideways; with more friction a base with rigid tyres hops in turns.
"""
_SKID = {"friction": 0.0, "torsional_friction": 0.0, "rolling_friction": 0.0}


def floor_contact(
    base: BaseGuess,
    tree: KinematicTree,
    geometries: Mapping[str, LinkGeometry],
    base_frame: str,
    findings: Notes,
) -> dict[str, Any]:
    """Return the block ``simulation`` of robot.yaml; empty for an arm or without special contacts.

    Wheels in several directions get rollers; without them they would block the simulated base.
    Links fixed to the base that touch the floor (the ball of a caster) slide without friction.

    Args:
        base: the base with its wheels.
        tree: the robot.
        geometries: geometries of its links.
        base_frame: frame in which z is up.
        findings: notes are added.
    """
    block: dict[str, Any] = {}
    if not base.block:
        return block
    if base.kind == "holonomic" and not any(wheel.rollers for wheel in base.wheels):
        radius = min(wheel.radius for wheel in base.wheels)
        masses = []
        for joint in base.driven:
            inertial = tree.links[tree.joints[joint].child].inertial
            # The inertia in the file can be that of a much smaller wheel.
            masses.append(
                min(inertial.mass, np.linalg.eigvalsh(inertial.inertia)[0] / radius**2)
                if inertial is not None
                else 0.0
            )
        block["rollers"] = [
            {
                "wheels": list(base.driven),
                "count": _ROLLERS,
                "radius": round(_ROLLER_RADIUS * radius, 5),
                "mass": float(f"{max(_ROLLERS_MASS * min(masses) / _ROLLERS, 1e-4):.3g}"),
                "damping": _BEARING,
            }
        ]
        findings.add("guessed", "simulation.rollers", f"{_ROLLERS} on each wheel")
    if base.kind == "differential" and len(base.driven) > 2:
        tyres = [tree.joints[joint].child for joint in base.driven]
        block["contact"] = {link: {"friction": _SKIDDING_FRICTION} for link in tyres}
        text = f"wheels skid when the base turns; friction {_SKIDDING_FRICTION:g}"
        findings.add("guessed", "simulation.contact", text)
    skids = _skids(base, tree, geometries, base_frame)
    if skids:
        block.setdefault("contact", {}).update({link: dict(_SKID) for link in skids})
        text = f"{listed(skids)} touch the floor; they slide without friction"
        findings.add("guessed", "simulation.contact", text)
    return block


def _skids(
    base: BaseGuess,
    tree: KinematicTree,
    geometries: Mapping[str, LinkGeometry],
    base_frame: str,
) -> tuple[str, ...]:
    """Return the links fixed to the base that touch the floor."""
    poses, rigid = link_poses(tree, base_frame), rigid_links(tree)
    floor = min(wheel.centre[2] - wheel.radius for wheel in base.wheels)
    near = floor + _NEAR_FLOOR * min(wheel.radius for wheel in base.wheels)
    return tuple(
        link
        for link, geometry in geometries.items()
        if rigid[link] == rigid[base_frame] and in_base(poses[link], geometry)[:, 2].min() < near
    )

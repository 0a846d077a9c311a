# SPDX-License-Identifier: Apache-2.0
"""Rollers of omni and mecanum wheels as passive bodies on the rim of their wheel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.base_description import HolonomicSpec, RollerWheel
from motion_nodes.model.robot import Robot
from motion_nodes.model.robot_yaml import ContactDescription, RollerDescription
from motion_nodes.model.tree import Inertial, Joint
from motion_nodes.sim.mjcf_contacts import exclude
from motion_nodes.sim.mjcf_shapes import COLLISION_GROUP, quat_wxyz, set_contact
from motion_nodes.typing import Array

_ROLLER_BIT = 2
"""Contact type of rollers: they collide with everything except each other."""
_IMPEDANCE = (0.999, 0.9999, 0.001)
"""MuJoCo's ``solimp`` of rollers. The softness of a contact scales with the inverse inertia of the
touching body alone; rollers are so light that with the default values a robot of 2 kg would sink by
0.7 mm and travel 1 % less than its wheels roll."""


@dataclass(frozen=True)
class RollerRing:
    """The rollers of one wheel, in the frame of its link.

    Each roller is an ellipsoid of revolution. Its length is chosen so that the contour of the wheel
    has the rolling radius both at the centre of a roller and between two:
    ``(R - r) cos(p) + sqrt(r^2 + (a^2 - r^2) sin(g)^2 sin(p)^2) = R`` for ``p = pi / count``.
    Source: support function of an ellipsoid.
    """

    axis: Array
    """Unit axis of the wheel, shape (3,)."""
    wheel_radius: float
    """R: rolling radius [m]."""
    angle: float
    """g: angle from the wheel's axis to the axis of the roller at the floor, counter-clockwise
    [rad]."""
    rollers: RollerDescription
    """Count, radius, mass and damping of the rollers."""

    @property
    def half_length(self) -> float:
        """a: half the length of a roller [m]."""
        R, r, p = self.wheel_radius, self.rollers.radius, math.pi / self.rollers.count
        reach = (R - (R - r) * math.cos(p)) ** 2 - r**2
        return math.sqrt(r**2 + reach / (math.sin(self.angle) * math.sin(p)) ** 2)

    def placements(self) -> list[tuple[Array, Array]]:
        """Return centre [m], (3,), and rotation, (3, 3), of each roller; its axis is z."""
        first = np.cross(self.axis, np.eye(3)[np.argmin(np.abs(self.axis))])
        first /= np.linalg.norm(first)
        places = []
        for turn in 2.0 * math.pi / self.rollers.count * np.arange(self.rollers.count):
            out = math.cos(turn) * first + math.sin(turn) * np.cross(self.axis, first)
            # `out` points down where the roller touches the floor.
            along = np.cross(self.axis, out)
            z = math.cos(self.angle) * self.axis + math.sin(self.angle) * along
            centre = (self.wheel_radius - self.rollers.radius) * out
            places.append((centre, np.column_stack((out, np.cross(z, out), z))))
        return places

    @property
    def inertia(self) -> Array:
        """Principal moments of inertia of one roller about its centre [kg m^2], shape (3,)."""
        a2, r2 = self.half_length**2, self.rollers.radius**2
        return self.rollers.mass / 5.0 * np.array((a2 + r2, a2 + r2, 2.0 * r2))


def ring_of(robot: Robot, joint: Joint) -> RollerRing | None:
    """Return the rollers on the wheel of a joint; None if rollers are not simulated.

    Args:
        robot: the robot.
        joint: parent joint of the wheel's link.
    """
    if not isinstance(robot.base, HolonomicSpec):
        return None
    for rollers in robot.description.simulation.rollers:
        if joint.name in rollers.wheels:
            wheel: RollerWheel = next(w for w in robot.base.wheels if w.joint == joint.name)
            # Both are set when a robot is loaded.
            assert wheel.radius is not None
            assert wheel.roller_angle_deg is not None
            angle = math.radians(wheel.roller_angle_deg)
            return RollerRing(joint.axis, wheel.radius, angle, rollers)
    return None


def add_rollers(
    spec: mujoco.MjSpec,
    wheel: mujoco.MjsBody,
    ring: RollerRing,
    contact: ContactDescription | None,
    time_step: float,
) -> None:
    """Add the rollers of a wheel as its children.

    Args:
        spec: specification of the world.
        wheel: body of the wheel, with the inertia of its hub, see :func:`hub_of`.
        ring: the rollers.
        contact: friction of the wheel; None: default friction.
        time_step: time step of the simulation [s].
    """
    robot = wheel.name.partition("/")[0]
    others = [
        body.name
        for body in spec.bodies
        if body.name.startswith(f"{robot}/") and body.name != wheel.name and body.geoms
    ]
    for k, (centre, rotation) in enumerate(ring.placements()):
        name = f"{wheel.name}/roller{k}"
        body = wheel.add_body(name=name, pos=centre, quat=quat_wxyz(rotation))
        body.mass = ring.rollers.mass
        body.ipos, body.inertia = np.zeros(3), ring.inertia
        body.explicitinertial = True
        hinge = body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0, 0, 1))
        hinge.damping[0] = ring.rollers.damping
        radius = ring.rollers.radius
        geom = body.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_ELLIPSOID,
            size=(radius, radius, ring.half_length),
            group=COLLISION_GROUP,
            contype=_ROLLER_BIT,
            rgba=(0.4, 0.5, 0.8, 0.4),
        )
        set_contact(geom, contact or ContactDescription(), time_step)
        geom.solimp[:3] = _IMPEDANCE
        for other in others:
            exclude(spec, name, other)


def hub_of(wheel: Inertial, ring: RollerRing, name: str) -> Inertial:
    """Return mass and inertia of a wheel without its rollers.

    Args:
        wheel: inertia of the whole wheel.
        ring: the rollers.
        name: name of the wheel, for the error.

    Raises:
        InvalidDescription: the rollers leave no positive mass or valid inertia for the hub.
    """
    X_LC = wheel.X_LC
    mass, moment = wheel.mass, wheel.mass * X_LC[:3, 3]
    R_LC = X_LC[:3, :3]
    inertia = R_LC @ wheel.inertia @ R_LC.T + wheel.mass * _square(X_LC[:3, 3])
    for centre, rotation in ring.placements():
        mass -= ring.rollers.mass
        moment = moment - ring.rollers.mass * centre
        inertia = inertia - rotation @ np.diag(ring.inertia) @ rotation.T
        inertia = inertia - ring.rollers.mass * _square(centre)
    X_LH = np.eye(4)
    if mass > 0.0:
        X_LH[:3, 3] = moment / mass
        inertia = inertia - mass * _square(X_LH[:3, 3])
    principal = np.linalg.eigvalsh(inertia)
    if mass <= 0.0 or principal[0] <= 0.0 or principal[2] > principal[0] + principal[1]:
        raise InvalidDescription(
            f"{name}: its {ring.rollers.count} rollers of {ring.rollers.mass:g} kg leave no valid "
            f"mass and inertia for the hub of the wheel of {wheel.mass:g} kg; reduce their mass in "
            "simulation.rollers, or correct the wheel's <inertial>."
        )
    return Inertial(mass, X_LH, inertia)


def _square(p: Array) -> Array:
    """Return the inertia of a unit mass at ``p`` about the origin, shape (3, 3)."""
    return float(p @ p) * np.eye(3) - np.outer(p, p)

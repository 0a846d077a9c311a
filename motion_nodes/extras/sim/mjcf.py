# SPDX-License-Identifier: Apache-2.0
"""Construction of a MuJoCo model from the kinematic trees and descriptions of a cell's robots.

Names in the model: ``<robot>/<link>`` for bodies, ``<robot>/<joint>`` for joints, actuators and
mimic constraints, ``<robot>/floating`` for the free joint of a wheeled base. Rollers of omni and
mecanum wheels are passive bodies on the rim of their wheel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import (
    ContactDescription,
    HolonomicSpec,
    RollerDescription,
    RollerWheel,
)
from motion_nodes.core.robot.tree import Cylinder, Inertial, Joint, JointKind, Mimic, Shape
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import FreeBody
from motion_nodes.extras.sim.free_bodies import PREFIX as FREE
from motion_nodes.extras.sim.free_bodies import add_free_bodies
from motion_nodes.extras.sim.mjcf_shapes import (
    COLLISION_GROUP,
    MeshLibrary,
    Obstacle,
    add_collision,
    add_scenery,
    add_visual,
    exclude,
    exclude_neighbours,
    exclude_touching,
    lowest_point,
    quat_wxyz,
    set_contact,
    set_pad,
)
from motion_nodes.extras.sim.surface_gripper import SurfaceGripper, add_welds
from motion_nodes.typing import Array

_ROLLER_BIT = 2
"""Contact type of rollers: they collide with everything except each other."""
_IMPEDANCE = (0.999, 0.9999, 0.001)
"""MuJoCo's ``solimp`` of rollers. The softness of a contact scales with the inverse inertia of the
touching body alone; rollers are so light that with the default values a robot of 2 kg would sink by
0.7 mm and travel 1 % less than its wheels roll."""
_NO_MASS, _NO_INERTIA = 1e-6, 1e-9
"""Mass and inertia of moving links without a mass [kg, kg m^2]: negligible compared to the armature
of their drives."""


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


@dataclass(frozen=True)
class WorldConfig:
    """Physics settings.

    Raises:
        InvalidConfig: values out of range, or obstacles with the same name.
    """

    time_step: float | None = None
    """Time step [s], above 0 to 0.02; None: the smallest of the robots' descriptions."""
    gravity: tuple[float, float, float] = STANDARD_GRAVITY
    """Gravity in the world [m/s^2]."""
    obstacles: tuple[Obstacle, ...] = ()
    """Static obstacles."""
    floor_height: float = 0.0
    """Height of the floor in the world [m]."""
    objects: tuple[FreeBody, ...] = ()
    """Objects that move freely."""
    surface_grippers: tuple[SurfaceGripper, ...] = ()
    """Surface grippers of the robots."""
    visual_shapes: bool = True
    """Whether links have visual shapes, for viewers. A step is the same without, but faster."""

    def __post_init__(self) -> None:
        if self.time_step is not None and not 0.0 < self.time_step <= 0.02:
            raise InvalidConfig(
                f"time_step is {self.time_step} s; it must be above 0 to 0.02 s.", field="time_step"
            )
        if len(self.gravity) != 3 or not np.isfinite(self.gravity).all():
            raise InvalidConfig(
                f"gravity is {self.gravity}; it must be three finite numbers [m/s^2].",
                field="gravity",
            )
        if not np.isfinite(self.floor_height):
            raise InvalidConfig(
                f"floor_height is {self.floor_height} m; it must be finite.", field="floor_height"
            )
        for what in ("obstacles", "objects", "surface_grippers"):
            names = [item.name for item in getattr(self, what)]
            if len(set(names)) != len(names):
                raise InvalidConfig(
                    f"names of {what} must be unique, got {', '.join(sorted(names))}."
                )


def build_model(
    placements: Sequence[RobotPlacement], config: WorldConfig
) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Build and compile the world.

    Args:
        placements: the robots, with unique names.
        config: physics settings.

    Returns:
        The specification (for export or changes) and the compiled model.

    Raises:
        InvalidDescription: a robot cannot be simulated; names robot and element.
    """
    spec = mujoco.MjSpec()
    _set_options(spec, config, placements)
    add_scenery(spec, config.obstacles, config.floor_height)
    for placement in placements:
        _add_robot(spec, placement, visual_shapes=config.visual_shapes)
        exclude_neighbours(spec, placement)
    add_free_bodies(spec, config.objects)
    if config.objects:
        add_welds(spec, config.surface_grippers, f"{FREE}{config.objects[0].name}")
    # A preliminary model in the home state yields self-contacts and the height of each base.
    model = _compile(spec)
    data = mujoco.MjData(model)
    set_home(model, data, placements)
    mujoco.mj_forward(model, data)
    exclude_touching(spec, model, data)
    for placement in placements:
        if is_floating(placement.robot):
            body = spec.body(f"{placement.name}/{placement.robot.tree.root}")
            ground = placement.X_WR[2, 3]
            body.pos[2] += ground - lowest_point(model, data, placement.name, ground)
    return spec, _compile(spec)


def is_floating(robot: Robot) -> bool:
    """Return whether a robot has a floating base; arms have a fixed one."""
    return robot.kind != "arm"


def set_home(
    model: mujoco.MjModel, data: mujoco.MjData, placements: Sequence[RobotPlacement]
) -> None:
    """Write the home positions of all joints, including mimic joints, to ``data.qpos``.

    Args:
        model: the world.
        data: its state, modified.
        placements: the robots.
    """
    for placement in placements:
        set_positions(data, placement, placement.robot.home)


def set_positions(data: mujoco.MjData, placement: RobotPlacement, q: Array) -> None:
    """Write the positions of all joints of a robot, including mimic joints, to ``data.qpos``.

    Args:
        data: state of the world, modified.
        placement: the robot.
        q: positions of its actuated joints [rad or m], shape (n,).
    """
    values = dict(zip(placement.robot.joint_names, q, strict=True))
    for joint in placement.robot.tree.joints.values():
        if joint.movable:
            mimic = joint.mimic or Mimic(joint.name)
            value = mimic.multiplier * values[mimic.joint] + mimic.offset
            data.joint(f"{placement.name}/{joint.name}").qpos[0] = value


def _set_options(
    spec: mujoco.MjSpec, config: WorldConfig, placements: Sequence[RobotPlacement]
) -> None:
    """Set integrator, contact model and compiler options."""
    option = spec.option
    option.timestep = config.time_step or min(
        p.robot.description.simulation.timestep for p in placements
    )
    option.gravity = config.gravity
    # This integrator treats stiffness and damping of the drives implicitly and solves contacts
    # together with them: high gains are stable, and a strong drive that pushes a light link against
    # an object does not chatter, as it does with `implicitfast`.
    # Source: MuJoCo's change log, version 3.13.
    option.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    # Elliptic cones and a higher impedance ratio reduce lateral slip of wheels.
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10.0
    # Divergence is reported to the user instead of a silent reset by MuJoCo.
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    spec.compiler.degree = False
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    spec.compiler.fusestatic = False
    spec.visual.global_.offwidth = 1280
    spec.visual.global_.offheight = 960


def _compile(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a specification; raises InvalidDescription with MuJoCo's message."""
    try:
        return spec.compile()
    except ValueError as error:
        raise InvalidDescription(f"the simulated world cannot be built: {error}") from error


def _add_robot(spec: mujoco.MjSpec, placement: RobotPlacement, *, visual_shapes: bool) -> None:
    """Add all links, joints, drives and mimic constraints of a robot."""
    robot, prefix = placement.robot, placement.name
    tree = robot.tree
    meshes = MeshLibrary(spec, prefix, robot.mesh_path)
    cut = (name for name in tree.frame_names if not _is_wheel(robot, name))
    meshes.prepare(shape.geometry for name in cut for shape in tree.links[name].collisions)
    bodies: dict[str, mujoco.MjsBody] = {}
    for link in tree.frame_names:
        joint = tree.parent_joint.get(link)
        parent = bodies[joint.parent] if joint else spec.worldbody
        X_PB = joint.X_PJ if joint else placement.X_WR
        body = parent.add_body(
            name=f"{prefix}/{link}", pos=X_PB[:3, 3], quat=quat_wxyz(X_PB[:3, :3])
        )
        bodies[link] = body
        if joint is None and is_floating(robot):
            body.add_freejoint(name=f"{prefix}/floating")
        if joint is not None and joint.movable:
            _add_joint(spec, body, robot, joint, prefix)
        _add_link(spec, body, robot, link, prefix, meshes)
        for i, shape in enumerate(tree.links[link].visuals if visual_shapes else ()):
            add_visual(body, shape, f"{prefix}/{link}/visual{i}", meshes)
    _add_all_rollers(spec, bodies, robot)
    _add_loops(spec, bodies, robot, prefix)


def _add_loops(
    spec: mujoco.MjSpec, bodies: Mapping[str, mujoco.MjsBody], robot: Robot, prefix: str
) -> None:
    """Add the constraints of closed kinematic loops: sites that coincide."""
    for i, loop in enumerate(robot.description.simulation.loops):
        names = [f"{prefix}/loop{i}_{k}" for k in range(2)]
        for name, link, point in zip(names, loop.links, loop.points, strict=True):
            bodies[link].add_site(name=name, pos=point)
        spec.add_equality(
            name=f"{prefix}/loop{i}",
            type=mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            name1=names[0],
            name2=names[1],
        )


def _add_link(
    spec: mujoco.MjSpec,
    body: mujoco.MjsBody,
    robot: Robot,
    name: str,
    prefix: str,
    meshes: MeshLibrary,
) -> None:
    """Set inertia and collision shapes of a body."""
    link = robot.tree.links[name]
    parent_joint = robot.tree.parent_joint.get(name)
    ring = ring_of(robot, parent_joint) if parent_joint is not None else None
    inertial = link.inertial
    if inertial is not None and inertial.mass > 0.0:
        if ring is not None:
            inertial = hub_of(inertial, ring, f"{robot.name}: link '{name}'")
        _set_inertial(body, inertial)
    elif parent_joint is not None and parent_joint.movable:
        # Links between the joints of one body have no mass, which MuJoCo rejects.
        body.mass, body.inertia = _NO_MASS, (_NO_INERTIA,) * 3
        body.explicitinertial = True
    contact = robot.description.simulation.contact.get(name)
    # The rollers replace the wheel's own collision shapes.
    for i, shape in enumerate(link.collisions if ring is None else ()):
        for geom in add_collision(
            body,
            shape,
            f"{prefix}/{name}/collision{i}",
            meshes,
            crowned=_is_tyre(robot, name, shape),
            whole=_is_wheel(robot, name),
        ):
            set_contact(geom, contact, spec.option.timestep)
    if contact is not None and _is_finger(robot, parent_joint):
        for geom in body.geoms:
            set_pad(geom)


def _add_all_rollers(
    spec: mujoco.MjSpec, bodies: Mapping[str, mujoco.MjsBody], robot: Robot
) -> None:
    """Add the rollers of all wheels that have rollers."""
    for link, joint in robot.tree.parent_joint.items():
        ring = ring_of(robot, joint)
        if ring is not None:
            contact = robot.description.simulation.contact.get(link)
            add_rollers(spec, bodies[link], ring, contact, spec.option.timestep)


def _is_wheel(robot: Robot, link: str) -> bool:
    """Return whether a link rotates continuously with a driven or passive wheel."""
    joint = robot.tree.parent_joint.get(link)
    wheels = (robot.base.wheel_names if robot.base else ()) + robot.passive_joints
    return joint is not None and joint.name in wheels and not np.isfinite(joint.upper)


def _is_tyre(robot: Robot, link: str, shape: Shape) -> bool:
    """Return whether a shape is the tyre of a wheel: a coaxial cylinder."""
    joint = robot.tree.parent_joint.get(link)
    return (
        joint is not None
        and joint.name in (robot.base.wheel_names if robot.base else ()) + robot.passive_joints
        and isinstance(shape.geometry, Cylinder)
        and abs(float(shape.X_LG[:3, 2] @ joint.axis)) > 0.99
    )


def _is_finger(robot: Robot, joint: Joint | None) -> bool:
    """Return whether a joint moves a finger of the gripper."""
    gripper = robot.groups.get("gripper")
    return joint is not None and gripper is not None and joint.name in gripper.joints


def _set_inertial(body: mujoco.MjsBody, inertial: Inertial) -> None:
    """Set mass, centre of mass and the inertia, rotated into the axes of the link."""
    R_LC = inertial.X_LC[:3, :3]
    inertia = R_LC @ inertial.inertia @ R_LC.T
    body.mass = inertial.mass
    body.ipos = inertial.X_LC[:3, 3]
    body.fullinertia = (*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2])
    body.explicitinertial = True


def _add_joint(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, robot: Robot, joint: Joint, prefix: str
) -> None:
    """Add a joint with limits, damping and friction, and its actuator or mimic constraint."""
    name = f"{prefix}/{joint.name}"
    prismatic = joint.kind is JointKind.PRISMATIC
    made = body.add_joint(
        name=name,
        type=mujoco.mjtJoint.mjJNT_SLIDE if prismatic else mujoco.mjtJoint.mjJNT_HINGE,
        axis=joint.axis,
        frictionloss=joint.friction,
    )
    made.damping[0] = joint.damping
    spring = robot.description.simulation.springs.get(joint.name)
    if spring is not None:
        made.stiffness[0] = spring.stiffness
        made.springref = spring.rest
    if np.isfinite(joint.lower) and np.isfinite(joint.upper):
        made.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        made.range = (joint.lower, joint.upper)
    if joint.mimic is None:
        made.armature = robot.drive(joint.name).armature
        _add_drive(spec, robot, joint, name)
        return
    mimic = spec.add_equality(
        name=name,
        type=mujoco.mjtEq.mjEQ_JOINT,
        objtype=mujoco.mjtObj.mjOBJ_JOINT,
        name1=name,
        name2=f"{prefix}/{joint.mimic.joint}",
    )
    mimic.data[:2] = (joint.mimic.offset, joint.mimic.multiplier)
    # Two time steps: the stiffest constraint that the solver supports.
    mimic.solref = (2.0 * spec.option.timestep, 1.0)


def _add_drive(spec: mujoco.MjSpec, robot: Robot, joint: Joint, name: str) -> None:
    """Add the actuator of a joint: force = ctrl - kp q - kd v, saturated.

    One actuator serves all modes: the world writes kp and kd of the current mode to the bias, and
    ``kp q* + kd v* + effort`` to the control.
    """
    limit = robot.drive(joint.name).max_effort
    drive = spec.add_actuator(
        name=name,
        target=name,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        gaintype=mujoco.mjtGain.mjGAIN_FIXED,
        biastype=mujoco.mjtBias.mjBIAS_AFFINE,
        ctrllimited=mujoco.mjtLimited.mjLIMITED_FALSE,
    )
    drive.gainprm[0] = 1.0
    if np.isfinite(limit) and limit > 0.0:
        drive.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
        drive.forcerange = (-limit, limit)

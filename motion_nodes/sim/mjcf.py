# SPDX-License-Identifier: Apache-2.0
"""Builds one MuJoCo model from the trees and descriptions of the robots in a cell.

Names in the model: ``<robot>/<link>`` for bodies, ``<robot>/<joint>`` for joints, actuators and
mimic constraints, ``<robot>/floating`` for the free joint of a wheeled base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Cylinder, Inertial, Joint, JointKind, Mimic, Shape
from motion_nodes.sim.backend import RobotPlacement
from motion_nodes.sim.mjcf_contacts import exclude_neighbours, exclude_touching, lowest_point
from motion_nodes.sim.mjcf_rollers import add_rollers, hub_of, ring_of
from motion_nodes.sim.mjcf_shapes import (
    MeshLibrary,
    Obstacle,
    add_collision,
    add_scenery,
    add_visual,
    quat_wxyz,
)


@dataclass(frozen=True)
class WorldConfig:
    """Settings of the physics.

    Raises:
        InvalidConfig: for values outside what is allowed.
    """

    time_step: float | None = None
    """[s], 0 < time_step <= 0.02; None takes the smallest that a robot's description asks for."""
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    """[m/s^2] in the world."""
    obstacles: tuple[Obstacle, ...] = ()
    floor_height: float = 0.0
    """[m] in the world."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.time_step is not None and not 0.0 < self.time_step <= 0.02:
            raise InvalidConfig(f"time_step {self.time_step} s is not within 0 to 0.02 s.")
        if len(self.gravity) != 3 or not np.isfinite(self.gravity).all():
            raise InvalidConfig(f"gravity {self.gravity} must be three finite numbers [m/s^2].")
        if not np.isfinite(self.floor_height):
            raise InvalidConfig(f"floor_height {self.floor_height} m must be a finite number.")
        names = [obstacle.name for obstacle in self.obstacles]
        if len(set(names)) != len(names):
            raise InvalidConfig(f"two obstacles have the same name: {', '.join(sorted(names))}.")


def build_model(
    placements: Sequence[RobotPlacement], config: WorldConfig
) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Build and compile the world.

    Args:
        placements: the robots; their names differ.
        config: settings of the physics.

    Returns:
        The specification (for export or changes) and the compiled model.

    Raises:
        InvalidDescription: when a robot cannot be simulated; the text names robot and part.
    """
    spec = mujoco.MjSpec()
    _set_options(spec, config, placements)
    add_scenery(spec, config.obstacles, config.floor_height)
    for placement in placements:
        _add_robot(spec, placement)
        exclude_neighbours(spec, placement)
    # A first model at home tells which links touch there and how high a base stands.
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
    """True for a robot that moves over the floor, False for one that is bolted down."""
    return robot.kind != "arm"


def set_home(
    model: mujoco.MjModel, data: mujoco.MjData, placements: Sequence[RobotPlacement]
) -> None:
    """Write the home position of all joints, mimicking ones included, into ``data.qpos``."""
    for placement in placements:
        home = dict(zip(placement.robot.joint_names, placement.robot.home, strict=True))
        for joint in placement.robot.tree.joints.values():
            if not joint.movable:
                continue
            mimic = joint.mimic or Mimic(joint.name)
            value = mimic.multiplier * home[mimic.joint] + mimic.offset
            data.joint(f"{placement.name}/{joint.name}").qpos[0] = value


def _set_options(
    spec: mujoco.MjSpec, config: WorldConfig, placements: Sequence[RobotPlacement]
) -> None:
    """Choose integrator, contact model and compiler rules."""
    option = spec.option
    option.timestep = config.time_step or min(
        p.robot.description.simulation.timestep for p in placements
    )
    option.gravity = config.gravity
    # Stiffness and damping of the drives are implicit in this integrator, and contacts are solved
    # together with them: very stiff gains stay stable, and a strong drive that pushes a light
    # link against something does not chatter, as it does with `implicitfast`.
    # Source: MuJoCo's change log, version 3.13.
    option.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    # Elliptic cones and a raised impedance ratio keep wheels from creeping sideways.
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10.0
    # A run-away is reported to the user, not silently reset by the engine.
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    spec.compiler.degree = False
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    spec.compiler.fusestatic = False
    spec.visual.global_.offwidth = 1280
    spec.visual.global_.offheight = 960


def _compile(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile, with MuJoCo's complaints as our own."""
    try:
        return spec.compile()
    except ValueError as error:
        raise InvalidDescription(f"the simulated world cannot be built: {error}") from error


def _add_robot(spec: mujoco.MjSpec, placement: RobotPlacement) -> None:
    """Add all links, joints, drives and mimic constraints of a robot."""
    robot, prefix = placement.robot, placement.name
    tree = robot.tree
    meshes = MeshLibrary(spec, prefix, robot.mesh_path)
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
    _add_all_rollers(spec, bodies, robot)


def _add_link(
    spec: mujoco.MjSpec,
    body: mujoco.MjsBody,
    robot: Robot,
    name: str,
    prefix: str,
    meshes: MeshLibrary,
) -> None:
    """Give a body its inertia and shapes."""
    link = robot.tree.links[name]
    above = robot.tree.parent_joint.get(name)
    ring = ring_of(robot, above) if above is not None else None
    inertial = link.inertial
    if inertial is not None and inertial.mass > 0.0:
        if ring is not None:
            inertial = hub_of(inertial, ring, f"{robot.name}: link '{name}'")
        _set_inertial(body, inertial)
    contact = robot.description.simulation.contact.get(name)
    # Rollers touch the floor in place of a wheel's own shapes.
    for i, shape in enumerate(link.collisions if ring is None else ()):
        add_collision(
            body,
            shape,
            contact,
            f"{prefix}/{name}/collision{i}",
            meshes,
            time_step=spec.option.timestep,
            crowned=_is_tyre(robot, name, shape),
        )
    for i, shape in enumerate(link.visuals):
        add_visual(body, shape, f"{prefix}/{name}/visual{i}", meshes)


def _add_all_rollers(
    spec: mujoco.MjSpec, bodies: Mapping[str, mujoco.MjsBody], robot: Robot
) -> None:
    """Add the rollers of all wheels that have some."""
    for link, joint in robot.tree.parent_joint.items():
        ring = ring_of(robot, joint)
        if ring is not None:
            contact = robot.description.simulation.contact.get(link)
            add_rollers(spec, bodies[link], ring, contact, spec.option.timestep)


def _is_tyre(robot: Robot, link: str, shape: Shape) -> bool:
    """True for the tyre of a driven wheel, a caster or a free wheel, turning about its axis."""
    above = robot.tree.parent_joint.get(link)
    return (
        above is not None
        and above.name in (robot.base.wheel_names if robot.base else ()) + robot.passive_joints
        and isinstance(shape.geometry, Cylinder)
        and abs(float(shape.X_LG[:3, 2] @ above.axis)) > 0.99
    )


def _set_inertial(body: mujoco.MjsBody, inertial: Inertial) -> None:
    """Write mass, centre and inertia, the latter turned into the link's axes."""
    R_LC = inertial.X_LC[:3, :3]
    inertia = R_LC @ inertial.inertia @ R_LC.T
    body.mass = inertial.mass
    body.ipos = inertial.X_LC[:3, 3]
    body.fullinertia = (*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2])
    body.explicitinertial = True


def _add_joint(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, robot: Robot, joint: Joint, prefix: str
) -> None:
    """Add a joint with its limits and losses, and its drive or mimic constraint."""
    name = f"{prefix}/{joint.name}"
    slides = joint.kind is JointKind.PRISMATIC
    made = body.add_joint(
        name=name,
        type=mujoco.mjtJoint.mjJNT_SLIDE if slides else mujoco.mjtJoint.mjJNT_HINGE,
        axis=joint.axis,
        frictionloss=joint.friction,
    )
    made.damping[0] = joint.damping
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
    # As stiff as the solver allows: two steps.
    mimic.solref = (2.0 * spec.option.timestep, 1.0)


def _add_drive(spec: mujoco.MjSpec, robot: Robot, joint: Joint, name: str) -> None:
    """Add the actuator of a joint: force = ctrl - kp q - kd v, saturated.

    The world writes kp and kd of the mode in force into the bias, and ``kp q* + kd v* + effort``
    into the control, so one actuator serves all modes.
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

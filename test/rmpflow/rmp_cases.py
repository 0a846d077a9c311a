# SPDX-License-Identifier: Apache-2.0
"""Random states, scenes and goals for tests of RMPflow."""

from dataclasses import dataclass

import numpy as np

from motion_nodes.core.reactive import numpy_policy, rmp_inputs
from motion_nodes.core.reactive.numpy_policy import Distances
from motion_nodes.core.reactive.obstacle_scene import ObstaclePacker
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.rmpflow_settings import BodyCapsule, BodyController, RmpflowSettings
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.mesh_distance import signed_distance
from motion_nodes.core.scene.scene import Scene, WorldObject, world_object
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace
from motion_nodes.kernels.rmp import rmp_memory

SOLIDS = (
    *(Sphere(0.05), Box((0.1, 0.2, 0.05)), Cylinder(0.05, 0.2), Cone(0.08, 0.2)),
    *(Capsule(0.04, 0.2), Box((0.3, 0.02, 0.2))),
)
CAPSULES = (
    BodyCapsule("stem", (0.0, 0.0, 0.333), (0.0, 0.0, 0.0), 0.05),
    BodyCapsule("tee", (0.0, 0.0, 0.333), (0.0, 0.0, 0.333), 0.15),
)
TOOLS = {"franka": "panda_hand_tcp", "ur10e": "tool0"}
CONTROLLERS = {
    "franka": ("panda_link7", "panda_hand", "panda_leftfinger"),
    "ur10e": ("wrist_3_link",),
}


@dataclass
class Case:
    model: rmp_memory.RmpModel
    settings: RmpflowSettings
    limits: JointLimits
    bounds: numpy_policy.JointBounds
    radii: np.ndarray
    home: np.ndarray


def packed(objects: list[WorldObject], X_BW: np.ndarray, twists: dict) -> rmp_memory.ObstacleArrays:
    return ObstaclePacker().packed(Scene({item.name: item for item in objects}), X_BW, twists)


def case(name: str) -> Case:
    robot = load_robot(name)
    active = robot.group("arm").joints
    settings = RmpflowSettings(
        body_cylinders=CAPSULES,
        body_collision_controllers=tuple(BodyController(c, 0.05) for c in CONTROLLERS[name]),
    )
    model, spheres = rmp_inputs.rmp_model(robot, active, TOOLS[name], settings)
    limits = robot.limits.select(active)
    lower, upper = rmp_inputs.buffered_limits(limits.lower, limits.upper, settings, active)
    cap = np.minimum(limits.velocity, 4.0)
    bounds = numpy_policy.JointBounds(lower, upper, cap, cap * 0.375)
    home = robot.home[robot.indices(list(active))]
    return Case(model, settings, limits, bounds, spheres.radii, home)


def scene(rng, count):
    """Return objects of all shapes around the robot, and the ground."""
    objects = [world_object("ground", HalfSpace(), from_xyz_rpy((0.0, 0.0, -0.05)))]
    for k in range(count):
        p = rng.normal(size=3)
        p *= rng.uniform(0.4, 1.0) / np.linalg.norm(p)
        p[2] = abs(p[2])
        X = from_xyz_rpy(p, rng.uniform(-3.0, 3.0, 3))
        objects.append(world_object(f"object{k}", SOLIDS[k % len(SOLIDS)], X))
    return objects


def state(rng, case):
    n, joints = case.model.active, case.model.arrays.joint_count
    lower, upper = np.maximum(case.limits.lower, -3.0), np.minimum(case.limits.upper, 3.0)
    q = np.concatenate((rng.uniform(lower, upper), rng.uniform(0.0, 0.04, joints - n)))
    return q, rng.normal(size=joints) * 0.5


def goal(rng, case, position=True, rotation=True):
    R = from_xyz_rpy((0.0, 0.0, 0.0), rng.uniform(-3.0, 3.0, 3))[:3, :3]
    x = rng.uniform(-0.5, 0.7, 3)
    return numpy_policy.Goal(case.home, x if position else None, R if rotation else None)


def surroundings(case, obstacles):
    model, controllers = case.model, case.settings.body_collision_controllers
    return numpy_policy.Surroundings(
        model.sphere_rows,
        model.sphere_centres,
        case.radii,
        obstacles,
        model.guard_rows,
        np.array([item.radius for item in controllers]),
        rmp_inputs.pack_capsules(case.settings.body_cylinders),
    )


# Distances and directions by the scene's functions, curvature by finite differences: independent
# of the policy's formulas.
STEP = 1e-5


def distances_by_differences(obstacles, p, v):
    """Return distances of a point at p [m] that moves with v [m/s] from all obstacles."""
    found = [
        _one(row, p, v, _SOLIDS[name](*row[12:15]), row[16:22], row[15])
        for name, rows in obstacles.rows.items()
        for row in rows
    ]
    return Distances(
        np.array([f[0] for f in found]),
        np.array([f[1] for f in found]).reshape(-1, 3),
        np.array([f[2] for f in found]),
        np.array([f[3] for f in found]),
    )


_SOLIDS = {
    "sphere": lambda x, y, z: Box((2.0 * x, 2.0 * y, 2.0 * z)),  # of no size; rounded
    "box": lambda x, y, z: Box((2.0 * x, 2.0 * y, 2.0 * z)),
    "cylinder": lambda radius, half, _: Cylinder(radius, 2.0 * half),
    "cone": lambda radius, half, _: Cone(radius, 2.0 * half),
}


def _one(row, p, v, solid, twist, rounding):
    R, offset = row[:9].reshape(3, 3), p - row[9:12]
    relative = v - (twist[:3] + np.cross(twist[3:], offset))
    local, u = R.T @ offset, R.T @ relative
    speed = float(np.linalg.norm(u))
    step = STEP * u / speed if speed > 0.0 else np.zeros(3)
    value, direction = signed_distance(solid, np.array([local, local - step, local + step]))
    bend = float((direction[2] - direction[1]) @ u) * speed / (2.0 * STEP) if speed > 0.0 else 0.0
    rate = float(direction[0] @ u)
    curvature = bend if value[0] > 0.0 else 0.0
    return float(value[0]) - rounding, R @ direction[0], rate, curvature

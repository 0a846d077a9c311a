# SPDX-License-Identifier: Apache-2.0
"""Collision exclusions between links of a robot, and the lowest point of its shapes."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np

from motion_nodes.model.tree import JointKind, KinematicTree
from motion_nodes.sim.placement import RobotPlacement


def exclude_neighbours(spec: mujoco.MjSpec, placement: RobotPlacement) -> None:
    """Disable collisions between links that are connected by a joint.

    Links connected by fixed joints count as one. MuJoCo's own filter for parent and child does not
    apply to a parent that is fixed to the world.

    Args:
        spec: specification of the world, with the robot's bodies.
        placement: the robot.
    """
    tree = placement.robot.tree
    block = _rigid_blocks(tree)
    solid: dict[str, list[str]] = {}
    for name, link in tree.links.items():
        if link.collisions:
            solid.setdefault(block[name], []).append(name)
    for joint in tree.joints.values():
        if not joint.movable:
            continue
        above = solid.get(block[joint.parent], [])
        below = solid.get(block[joint.child], [])
        for a, b in itertools.product(above, below):
            exclude(spec, f"{placement.name}/{a}", f"{placement.name}/{b}")
    exclude_ignored(spec, placement, solid)


def exclude_ignored(
    spec: mujoco.MjSpec, placement: RobotPlacement, solid: dict[str, list[str]]
) -> None:
    """Disable collisions that robot.yaml ignores, so that planning and physics agree.

    Fingers, both moved by prismatic joints, still stop each other.

    Args:
        spec: specification of the world, with the robot's bodies.
        placement: the robot.
        solid: links with collision shapes by their rigid block.
    """
    robot = placement.robot
    links = {link for names in solid.values() for link in names}
    sliding = {j.child for j in robot.tree.joints.values() if j.kind is JointKind.PRISMATIC}
    for a, b in robot.description.collision.ignore:
        if {a, b} <= links and not {a, b} <= sliding:
            exclude(spec, f"{placement.name}/{a}", f"{placement.name}/{b}")


def exclude_touching(spec: mujoco.MjSpec, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Disable collisions between links of one robot that are in contact in the home state.

    Args:
        spec: specification of the world.
        model: the model compiled from it.
        data: the home state, with contacts.
    """
    pairs: set[tuple[str, str]] = set()
    for contact in data.contact:
        a, b = sorted(model.body(int(model.geom_bodyid[geom])).name for geom in contact.geom)
        if a.partition("/")[0] == b.partition("/")[0]:
            pairs.add((a, b))
    for a, b in sorted(pairs):
        exclude(spec, a, b)


def lowest_point(model: mujoco.MjModel, data: mujoco.MjData, robot: str, default: float) -> float:
    """Return the height of the lowest point of a robot's collision shapes [m].

    Args:
        model: the world.
        data: its state, with current poses.
        robot: name of the robot, the prefix of its bodies.
        default: returned for a robot without collision shapes [m].
    """
    heights = [
        float(data.geom_xpos[i, 2]) - _reach_down(model, data, i)
        for i in range(model.ngeom)
        if model.geom_contype[i]
        and model.body(int(model.geom_bodyid[i])).name.startswith(f"{robot}/")
    ]
    return min(heights, default=default)


def _reach_down(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> float:
    """Return the extent of a geom below its centre [m] (support function)."""
    size = model.geom_size[geom]
    down = data.geom_xmat[geom].reshape(3, 3)[2]
    kind = model.geom_type[geom]
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return float(size[0])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return float(size[0] * np.hypot(down[0], down[1]) + size[1] * abs(down[2]))
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        return float(np.linalg.norm(size * down))
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return float(size @ np.abs(down))
    mesh = model.geom_dataid[geom]
    first = model.mesh_vertadr[mesh]
    vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
    return float(-(vertices @ down).min())


def _rigid_blocks(tree: KinematicTree) -> dict[str, str]:
    """Map each link to the topmost link to which it is rigidly connected."""
    block: dict[str, str] = {}
    for link in tree.frame_names:
        joint = tree.parent_joint.get(link)
        block[link] = link if joint is None or joint.movable else block[joint.parent]
    return block


def exclude(spec: mujoco.MjSpec, a: str, b: str) -> None:
    """Disable collisions between two bodies, given by their names."""
    spec.add_exclude(name=f"{a}|{b}", bodyname1=a, bodyname2=b)

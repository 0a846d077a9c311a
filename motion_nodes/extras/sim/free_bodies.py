# SPDX-License-Identifier: Apache-2.0
"""Free objects of a simulated world: rigid bodies with mass that robots push and grasp.

Cabinets with one drawer, whose handle is a bar on two posts; centre of mass and inertia
of closed meshes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import mujoco
import numpy as np

from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.convex_decomposition import signed_volumes
from motion_nodes.core.scene.mesh_distance import surface_of
from motion_nodes.core.scene.mesh_file import hulls_of
from motion_nodes.core.scene.shapes import TriangleMesh
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.cell_words import BAR, GAP, FreeBody
from motion_nodes.extras.sim.mjcf_shapes import (
    contact_reference,
    quat_wxyz,
    set_hull,
    set_primitive,
    solid_corners,
)
from motion_nodes.typing import Array

RANGE = 0.3
"""Largest opening [m]."""
FRICTION, DAMPING = 3.0, 10.0
"""Friction [N] and damping [N s/m] of the slide joint."""
_WALL, _FRONT, _POST = 0.02, 0.02, 0.012
"""Thickness of the walls, of the front and of the posts [m]."""
PREFIX = "object:"
"""Prefix of the names of these bodies in the model."""


def add_drawer(
    spec: mujoco.MjSpec,
    name: str,
    X_WH: Array,
    size: tuple[float, float, float],
    mass: float,
    solref: tuple[float, float],
) -> mujoco.MjsBody:
    """Add a cabinet with a closed drawer.

    Args:
        spec: specification of the world.
        name: name of the drawer and of its joint, which opens against the x axis of the handle.
        X_WH: pose of the centre of the handle's bar, x towards the cabinet, shape (4, 4).
        size: depth, width and height of the drawer [m].
        mass: mass of the drawer [kg].
        solref: MuJoCo's ``solref`` of its contacts.

    Returns:
        The body of the drawer; its frame is at the centre of the closed drawer.
    """
    depth, width, height = size
    front = GAP + 0.5 * BAR[0]
    X = X_WH @ _at(front + 0.5 * depth)
    cabinet = spec.worldbody.add_body(
        name=f"{name}/cabinet", pos=X[:3, 3], quat=quat_wxyz(X[:3, :3])
    )
    boxes = []
    for side in (-1.0, 1.0):
        wall = 0.5 * width + _WALL
        boxes.append((cabinet, (0.0, side * wall, 0.0), (depth, _WALL, height)))
        lid = (depth, width + 3.0 * _WALL, _WALL)
        boxes.append((cabinet, (0.0, 0.0, side * (0.5 * height + _WALL)), lid))
    body = cabinet.add_body(name=name)
    joint = body.add_joint(
        name=name,
        type=mujoco.mjtJoint.mjJNT_SLIDE,
        axis=(-1.0, 0.0, 0.0),
        range=(0.0, RANGE),
        limited=mujoco.mjtLimited.mjLIMITED_TRUE,
        frictionloss=FRICTION,
    )
    joint.damping[0] = DAMPING
    body.mass, body.inertia, body.explicitinertial = mass, (0.02, 0.02, 0.02), True
    plate = -0.5 * depth
    boxes.append((body, (plate + 0.5 * _FRONT, 0.0, 0.0), (_FRONT, width, height)))
    boxes.append((body, (plate - front, 0.0, 0.0), BAR))
    for side in (-1.0, 1.0):
        post = (plate - 0.5 * GAP, side * 0.5 * (BAR[1] - _POST), 0.0)
        boxes.append((body, post, (GAP, _POST, _POST)))
    for owner, place, edges in boxes:
        owner.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=place,
            size=[0.5 * edge for edge in edges],
            rgba=(0.7, 0.6, 0.45, 1.0),
            solref=solref,
            priority=1,  # overrides the contact parameters of the fingers
            friction=(1.0, 0.02, 0.001),
            condim=4,
        )
    return body


def handle_in_drawer(depth: float) -> Array:
    """Return the pose of the handle in its drawer, shape (4, 4).

    Args:
        depth: depth of the drawer [m].
    """
    return _at(-(0.5 * depth + GAP + 0.5 * BAR[0]))


def _at(x: float) -> Array:
    X = np.eye(4)
    X[0, 3] = x
    return X


def mass_properties(triangles: Array, mass: float) -> tuple[Array, Array]:
    """Return centre of mass and inertia of a solid of uniform density.

    The solid is a sum of tetrahedra with one corner at the origin, whose second moments are known
    in closed form (Blow and Binstock, How to find the inertia tensor of a 3D solid body, 2004).

    Args:
        triangles: corners of its surface, counterclockwise from outside [m], shape (t, 3, 3).
        mass: mass of the solid [kg].

    Returns:
        Centre of mass [m], shape (3,), and inertia about it [kg m^2], shape (3, 3).

    Raises:
        ValueError: the triangles enclose no volume.
    """
    a, b, c = (triangles[:, k] for k in range(3))
    volumes = signed_volumes(triangles)
    volume, corners = float(volumes.sum()), a + b + c
    if not volume > 0.0:
        raise ValueError("the triangles enclose no volume")
    centre = np.einsum("t,ti->i", volumes, corners) / (4.0 * volume)
    second = np.einsum("t,ti,tj->ij", volumes, corners, corners)
    for corner in (a, b, c):
        second += np.einsum("t,ti,tj->ij", volumes, corner, corner)
    spread = mass * (second / (20.0 * volume) - np.outer(centre, centre))
    return centre, np.trace(spread) * np.eye(3) - spread


def add_free_bodies(spec: mujoco.MjSpec, bodies: Iterable[FreeBody]) -> None:
    """Add objects to a specification; inertias assume a uniform density."""
    for body in bodies:
        X = body.X_WO
        if body.drawer is not None:
            reference = contact_reference(spec.option.timestep)
            add_drawer(spec, f"{PREFIX}{body.name}", X, body.drawer, body.mass, reference)
            continue
        made = spec.worldbody.add_body(
            name=f"{PREFIX}{body.name}", pos=X[:3, 3], quat=quat_wxyz(X[:3, :3])
        )
        made.add_freejoint(name=f"{PREFIX}{body.name}")
        made.mass, made.explicitinertial = body.mass, True
        made.ipos, made.iquat, made.inertia = _inertia(body)
        for k, (geometry, corners) in enumerate(_pieces(body.solid)):
            geom = made.add_geom(name=f"{PREFIX}{body.name}/{k}", rgba=body.rgba)
            if geometry is not None:
                set_primitive(geom, geometry)
            else:
                set_hull(spec, geom, corners)
            geom.friction[0] = body.friction
            geom.solref = contact_reference(spec.option.timestep)
            geom.condim = 4 if isinstance(body.solid, Box) else 6  # 6: rolling friction


def _pieces(
    solid: Box | Sphere | Cylinder | TriangleMesh,
) -> Iterator[tuple[Box | Sphere | Cylinder | None, Array]]:
    """Return a primitive, or the corners of a mesh's convex hulls [m], shape (c, 3)."""
    if isinstance(solid, TriangleMesh):
        yield from ((None, solid_corners(corners)) for corners in hulls_of(solid))
    else:
        yield solid, np.empty((0, 3))


def _inertia(body: FreeBody) -> tuple[Array, Array, Array]:
    """Return centre of mass [m], orientation (wxyz) and moments of the principal axes [kg m^2]."""
    solid = body.solid
    if not isinstance(solid, TriangleMesh):
        return np.zeros(3), np.array((1.0, 0.0, 0.0, 0.0)), _principal_moments(solid, body.mass)
    surface = surface_of(solid)
    try:
        if not surface.closed:
            raise ValueError("it has an edge that is not shared by two triangles")
        centre, inertia = mass_properties(surface.corners, body.mass)
    except ValueError as error:
        raise InvalidConfig(
            f"the mesh of object '{body.name}' encloses no volume: {error}; it must be closed, "
            "with its triangles counterclockwise from outside"
        ) from error
    moments, axes = np.linalg.eigh(inertia)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return centre, quat_wxyz(axes), moments


def _principal_moments(solid: Box | Sphere | Cylinder, m: float) -> Array:
    """Return the principal moments of inertia of a solid [kg m^2], shape (3,)."""
    if isinstance(solid, Box):
        x, y, z = np.square(solid.size)
        return np.array((y + z, x + z, x + y)) * m / 12.0
    if isinstance(solid, Sphere):
        return np.full(3, 0.4 * m * solid.radius**2)
    across = m * (3.0 * solid.radius**2 + solid.length**2) / 12.0
    return np.array((across, across, 0.5 * m * solid.radius**2))

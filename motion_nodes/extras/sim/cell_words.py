# SPDX-License-Identifier: Apache-2.0
"""Objects and cameras of a simulated cell, as words of a command line; without MuJoCo.

``motion up`` checks them before anything starts, the simulation makes them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from motion_nodes.core.robot.colors import color_in
from motion_nodes.core.robot.poses import from_xyz_rpy, rigid_pose
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Mesh, Sphere, frozen
from motion_nodes.core.scene.mesh_cache import shared_mesh
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.core.scene.shapes import TriangleMesh
from motion_nodes.errors import InvalidConfig, InvalidDescription, did_you_mean
from motion_nodes.typing import Array

BAR, GAP = (0.012, 0.12, 0.016), 0.05
"""Sizes of the handle's bar, and its distance from the front [m]."""
HANDLE = Box(BAR)
"""Shape of the bar."""
_RGBA = (0.2, 0.55, 0.8, 1.0)
_WORD = re.compile(
    r"(?P<name>[^:=@]+):=(?P<shape>\w+):(?P<size>[^:@]+):(?P<mass>[^:@]+)@(?P<at>.+)"
)
_SHAPES = {"box": (Box, 3), "sphere": (Sphere, 1), "cylinder": (Cylinder, 2), "drawer": (Box, 3),
           "mesh": (Mesh, 1)}  # fmt: skip
R_BODY_OPTICAL = np.array([(0.0, 0.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0)])
"""Axes of the optical frame (z forward) in the body of a camera (x forward), REP-103."""
_CAMERA = re.compile(r"(?:(?P<space>[\w/]+)/)?(?P<name>\w+):=(?P<link>[^@/]+)@(?P<at>.+)")


@dataclass(frozen=True)
class FreeBody:
    """A solid of uniform density.

    Raises:
        InvalidConfig: sizes, mass or friction out of range, or a pose that is not rigid.
    """

    name: str
    """Unique among the objects."""
    geometry: Box | Sphere | Cylinder | Mesh
    """Shape with its sizes [m]; the path of a mesh file is relative to the working directory."""
    mass: float
    """[kg]"""
    X_WO: Array = field(default_factory=lambda: frozen(np.eye(4)))
    """Initial pose in the world, shape (4, 4); the origin is the centre of the shape, or the origin
    of the mesh file."""
    friction: float = 0.8
    """Coefficient of sliding friction; overridden by the friction of links in robot.yaml."""
    rgba: tuple[float, float, float, float] = _RGBA
    """Colour, 0 to 1 each."""
    drawer: tuple[float, float, float] | None = None
    """Depth, width and height of a drawer [m]; the object is then its handle, which slides against
    its x axis instead of moving freely, and ``mass`` is that of the drawer."""

    def __post_init__(self) -> None:
        """Validate shape, mass and pose."""
        size = self._size()
        if not (np.isfinite(size).all() and 0.0 < min(size) and max(size) < 1e3):
            raise InvalidConfig(
                f"sizes of object '{self.name}' must be above 0 to 1000 m, got {self.geometry}."
            )
        if self.drawer is not None and not 0.05 <= min(self.drawer) <= max(self.drawer) <= 2.0:
            raise InvalidConfig(
                f"sizes of drawer '{self.name}' must be 0.05 to 2 m, got {self.drawer}."
            )
        if not 1e-6 <= self.mass <= 1e6:
            raise InvalidConfig(
                f"mass of object '{self.name}' is {self.mass} kg; it must be 1e-6 to 1e6 kg."
            )
        if not 0.0 <= self.friction <= 100.0:
            raise InvalidConfig(
                f"friction of object '{self.name}' is {self.friction}; it must be 0 to 100."
            )
        X_WO = rigid_pose(self.X_WO, f"pose of object '{self.name}'", error=InvalidConfig)
        object.__setattr__(self, "X_WO", frozen(X_WO))

    @functools.cached_property
    def solid(self) -> Box | Sphere | Cylinder | TriangleMesh:
        """Its shape; that of a mesh is read from its file.

        Raises:
            InvalidDescription: the file cannot be read.
        """
        shape = self.geometry
        if not isinstance(shape, Mesh):
            return shape
        return shared_mesh(read_mesh(Path(shape.filename), shape.scale))

    def _size(self) -> Sequence[float]:
        try:
            solid = self.solid
        except InvalidDescription as error:
            raise InvalidConfig(f"object '{self.name}': {error}") from error
        if isinstance(solid, TriangleMesh):
            return [float(x) for x in np.ptp(solid.vertices, axis=0)]
        if isinstance(solid, Box):
            return solid.size
        return (solid.radius, solid.length) if isinstance(solid, Cylinder) else (solid.radius,)


def parse_free_body(word: str) -> FreeBody:
    """Parse an object ``NAME:=SHAPE:SIZES:MASS@X,Y,Z[,YAW]``.

    Shapes are ``box`` (length, width, height), ``sphere`` (radius) and ``cylinder`` (radius,
    height), in m, kg and rad, for example ``cube:=box:0.05,0.05,0.05:0.2@0.5,0,0.025``; ``drawer``
    (depth, width, height), placed by the centre of its handle, x towards the cabinet; and ``mesh``
    (file and optional scale), for example ``cup:=mesh:cup.stl,0.001:0.2@0.5,0,0``. A name that
    contains a color, such as ``red_cube``, colors the object.

    Raises:
        InvalidConfig: names the invalid part.
    """
    found = _WORD.fullmatch(word.strip())
    if found is None or found["shape"] not in _SHAPES:
        raise InvalidConfig(
            f"'{word}' is not an object; write NAME:=SHAPE:SIZES:MASS@X,Y,Z[,YAW], with box, "
            "sphere, cylinder, drawer or mesh, such as cube:=box:0.05,0.05,0.05:0.2@0.5,0,0.025"
        )
    kind, count = _SHAPES[found["shape"]]
    file, sizes = "", found["size"]
    if kind is Mesh:
        file, _, scale = sizes.partition(",")
        sizes = scale or "1"
    try:
        size, at = ([float(x) for x in numbers.split(",")] for numbers in (sizes, found["at"]))
        mass = float(found["mass"])
    except ValueError:
        raise InvalidConfig(f"'{word}': sizes, mass and place must be numbers") from None
    if len(size) != count or len(at) not in (3, 4):
        raise InvalidConfig(
            f"'{word}': a {found['shape']} has {count} sizes, a place 3 or 4 numbers"
        )
    X = from_xyz_rpy(at[:3], (0.0, 0.0, at[3] if len(at) == 4 else 0.0))
    name = found["name"].strip()
    if kind is Mesh:
        return FreeBody(name, Mesh(str(Path(file.strip()).absolute()), (size[0],) * 3), mass, X)
    if found["shape"] == "drawer":
        return FreeBody(name, HANDLE, mass, X, drawer=(size[0], size[1], size[2]))
    geometry = Box((size[0], size[1], size[2])) if kind is Box else kind(*size)
    color = color_in(name)
    rgba = _RGBA if color is None else (*color.tolist(), 1.0)
    return FreeBody(name, geometry, mass, X, rgba=rgba)


@dataclass(frozen=True)
class MountedCamera:
    """A camera on a robot's link."""

    name: str
    namespace: str
    """Namespace of the robot; empty for a single robot."""
    link: str
    X_LC: Array = field(default_factory=lambda: frozen(np.eye(4)))
    """Pose of the camera's body in the link, looking along x with z up, shape (4, 4)."""

    @property
    def X_LO(self) -> Array:
        """Pose of the optical frame in the link, shape (4, 4)."""
        X = np.array(self.X_LC)
        X[:3, :3] = X[:3, :3] @ R_BODY_OPTICAL
        return X

    def check_link(self, robot: Robot) -> None:
        """Check that a robot has its link.

        Raises:
            InvalidConfig: names the closest one.
        """
        links = robot.tree.frame_names
        if self.link not in links:
            raise InvalidConfig(
                f"camera '{self.name}': robot '{robot.name}' has no link '{self.link}'."
                f"{did_you_mean(self.link, links)}",
                field=self.link,
            )


def parse_camera(word: str) -> MountedCamera:
    """Parse a camera ``[NAMESPACE/]NAME:=LINK@X,Y,Z[,ROLL,PITCH,YAW]`` in m and rad.

    The optical axis is the x axis of this pose, for example
    ``camera:=panda_link0@1.3,0,0.9,0,0.6,3.14``.

    Raises:
        InvalidConfig: names the invalid part.
    """
    found = _CAMERA.fullmatch(word.strip())
    if found is None:
        raise InvalidConfig(
            f"'{word}' is not a camera; write [NAMESPACE/]NAME:=LINK@X,Y,Z[,ROLL,PITCH,YAW], such "
            "as camera:=panda_link0@1.3,0,0.9,0,0.6,3.14"
        )
    try:
        at = [float(x) for x in found["at"].split(",")]
    except ValueError:
        raise InvalidConfig(f"'{word}': the pose must be numbers [m, rad]") from None
    if len(at) not in (3, 6) or not np.isfinite(at).all() or max(map(abs, at)) > 1e3:
        raise InvalidConfig(f"'{word}': the pose must be 3 or 6 finite numbers [m, rad]")
    X = from_xyz_rpy((at[0], at[1], at[2]), tuple(at[3:]) or (0.0, 0.0, 0.0))
    return MountedCamera(found["name"], found["space"] or "", found["link"], frozen(X))


def check_words(
    objects: Sequence[str], cameras: Sequence[str], robots: Mapping[str, Robot]
) -> None:
    """Check the objects and cameras of a cell.

    Args:
        objects: see :func:`parse_free_body`.
        cameras: see :func:`parse_camera`.
        robots: robots of the cell by namespace.

    Raises:
        InvalidConfig: a word cannot be read, or there is no such robot or link.
    """
    for word in objects:
        parse_free_body(word)
    for camera in map(parse_camera, cameras):
        if camera.namespace not in robots:
            raise InvalidConfig(
                f"camera '{camera.name}': there is no robot with the namespace "
                f"'{camera.namespace}'; robots: "
                f"{', '.join(f'{n}:={r.name}' if n else r.name for n, r in robots.items())}"
            )
        camera.check_link(robots[camera.namespace])

# SPDX-License-Identifier: Apache-2.0
"""A small robot for the tests of the viewer."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.tree import (
    Box,
    Cylinder,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Mesh,
    Mimic,
    Shape,
    Sphere,
    frozen,
)
from motion_nodes.typing import Array


def pose(xyz: tuple[float, float, float], rpy: tuple[float, float, float] = (0, 0, 0)) -> Array:
    """Return a pose."""
    X = np.eye(4)
    X[:3, :3] = Rotation.from_euler("xyz", rpy).as_matrix()
    X[:3, 3] = xyz
    return X


@dataclass(frozen=True)
class HandMade:
    """A robot with every kind of joint and shape."""

    tree: KinematicTree
    home: Array
    kind: str = "arm"
    folder: Path = Path("/nowhere")

    @property
    def name(self) -> str:
        return self.tree.name

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.tree.joint_names

    def mesh_path(self, filename: str) -> Path:
        path = self.folder / filename
        if not path.is_file():
            raise FileNotFoundError(f"no file {path}")
        return path


def hand_made(
    kind: str = "arm", folder: Path = Path("/nowhere"), mesh: str = "part.stl"
) -> HandMade:
    """Return a robot with revolute, prismatic, continuous, mimic and fixed joints, all shapes."""
    shapes = {
        "base": (Shape(Cylinder(0.1, 0.08), pose((0, 0, 0.04))),),
        "upper": (Shape(Box((0.08, 0.06, 0.4)), pose((0, 0, 0.2), (0, 0, 0.3)), (1, 0.5, 0, 1)),),
        "lower": (Shape(Mesh(mesh, (2, 2, 2)), pose((0, 0, 0.1))),),
        "finger": (Shape(Sphere(0.05), pose((0, 0, 0)), (0.2, 0.2, 0.2, 0.5)),),
        "twin": (),
        "wheel": (Shape(Cylinder(0.05, 0.02), pose((0, 0, 0))),),
        "cap": (Shape(Box((0.02, 0.02, 0.02)), pose((0, 0, 0))),),
    }
    y, z = frozen([0, 1, 0]), frozen([0, 0, 1])
    R, P, C, F = (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.CONTINUOUS, JointKind.FIXED)
    joints = (
        Joint("toy_pan", R, "base", "upper", pose((0, 0, 0.1), (0.1, -0.2, 0.3)), y, -2.0, 2.0),
        Joint("toy_tilt", R, "upper", "lower", pose((0, 0, 0.4), (0, 0.5, 0)), y, -2.5, 2.5),
        Joint("toy_slide", P, "lower", "finger", pose((0, 0, 0.3)), z, 0.0, 0.1),
        Joint(
            "toy_twin",
            P,
            "lower",
            "twin",
            pose((0, 0.1, 0.3)),
            z,
            mimic=Mimic("toy_slide", -2.0, 0.01),
        ),
        Joint("toy_wheel", C, "base", "wheel", pose((0, 0.2, 0.05), (1.5, 0, 0)), z),
        Joint("toy_cap", F, "finger", "cap", pose((0, 0, 0.05), (0, 0, 0.7)), z),
    )
    tree = KinematicTree(
        "toy",
        {name: Link(name, visuals=visuals) for name, visuals in shapes.items()},
        {joint.name: joint for joint in joints},
    )
    return HandMade(tree, frozen([0.3, 0.8, 0.05, 0.0]), kind, folder)

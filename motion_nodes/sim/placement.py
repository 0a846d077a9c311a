# SPDX-License-Identifier: Apache-2.0
"""Robots of a simulated cell: name and pose in the world."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import frozen
from motion_nodes.typing import Array

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class RobotPlacement:
    """A robot with its name and pose in the cell.

    Raises:
        InvalidConfig: the name is not an identifier, or the pose not a rigid transform.
    """

    robot: Robot
    """The robot."""
    name: str
    """Letters, digits and underscores; prefix of the robot's names in the world."""
    X_WR: Array = field(default_factory=lambda: frozen(np.eye(4)))
    """Pose in the world, shape (4, 4): of the root link for an arm; of the point on the ground
    below the root link for a wheeled base, which is placed on its wheels there."""

    def __post_init__(self) -> None:
        """Validate name and pose, and store a read-only copy of the pose."""
        if not _NAME.fullmatch(self.name):
            raise InvalidConfig(
                f"robot name '{self.name}' in the simulated cell must start with a letter and "
                "contain only letters, digits and underscores.",
                field=self.name,
            )
        object.__setattr__(self, "X_WR", rigid_pose(self.X_WR, f"placement of '{self.name}'"))


def root_to_base(robot: Robot) -> Array:
    """Return ``X_RB``, the pose of the base frame in the root link, shape (4, 4), read-only.

    Args:
        robot: the robot.

    Raises:
        InvalidDescription: there is a movable joint between the two.
    """
    X_RB = np.eye(4)
    for joint in robot.chain(robot.tree.root, robot.base_frame):
        if joint.movable:
            raise InvalidDescription(
                f"{robot.name}: the base frame '{robot.base_frame}' must be rigidly connected to "
                f"the root link '{robot.tree.root}', but joint '{joint.name}' is movable."
            )
        X_RB = X_RB @ joint.X_PJ
    return frozen(X_RB)


def rigid_pose(X: object, what: str) -> Array:
    """Return a validated read-only copy of a pose.

    Args:
        X: the pose, shape (4, 4).
        what: name of the input, for the error.

    Raises:
        InvalidConfig: not a finite rigid transform of shape (4, 4).
    """
    pose = np.array(X, dtype=np.float64)
    if pose.shape != (4, 4):
        raise InvalidConfig(f"{what} must be a (4, 4) matrix, got shape {pose.shape}.", field=what)
    R = pose[:3, :3]
    rigid = (
        bool(np.isfinite(pose).all())
        and np.allclose(R @ R.T, np.eye(3), atol=1e-6)
        and float(np.linalg.det(R)) > 0.0
        and np.allclose(pose[3], (0.0, 0.0, 0.0, 1.0), atol=1e-9)
    )
    if not rigid:
        raise InvalidConfig(
            f"{what} must be a rigid transform (rotation, translation, last row 0 0 0 1), "
            f"got:\n{pose}",
            field=what,
        )
    return frozen(pose)

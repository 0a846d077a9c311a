# SPDX-License-Identifier: Apache-2.0
"""Scene nodes of one robot: one per link, nested like the kinematic tree, with its shapes."""

from __future__ import annotations

import dataclasses

import numpy as np
import viser

from motion_nodes.model.link_poses import LinkPoses
from motion_nodes.model.poses import to_quat_wxyz
from motion_nodes.typing import Array
from motion_nodes.view.mesh_files import MeshFiles
from motion_nodes.view.shape_nodes import SOLID, Appearance, add_shapes, reach
from motion_nodes.view.viewed_robot import ViewedRobot

MIN_MOVE = 5e-5
"""Smaller joint displacements [rad or m] are not sent: 0.05 mm at the end of an arm of 1 m. So
encoder noise causes no messages."""
AXES = 0.1
"""Length of the axes of a link's frame [m]."""
MOBILE_MARGIN = 2.2
"""Factor on the bounding radius of a mobile robot, which needs space to drive."""
ARM_MARGIN = 1.25
"""Factor on the bounding radius of an arm, which reaches beyond its home configuration."""


class RobotView:
    """Draws one robot; not thread-safe.

    Args:
        scene: the viser scene.
        viewed: the robot.
        path: path of the robot's node, such as ``/robots/franka``.
        appearance: appearance of its shapes.
    """

    def __init__(
        self, scene: viser.SceneApi, viewed: ViewedRobot, path: str, appearance: Appearance = SOLID
    ) -> None:
        """Add all nodes in the home configuration at the robot's placement."""
        tree = viewed.model.tree
        self.meshes = MeshFiles(viewed.name, viewed.model.mesh_path)
        self._poses = LinkPoses(tree)
        self._q = np.array(viewed.model.home, dtype=np.float64)
        self._drawn = self._poses.joint_values(self._q)
        # A revolute joint changes only the orientation, a prismatic one only the position of its
        # link: one message each.
        is_prismatic = np.array(self._poses.prismatic, bool)
        moving = np.array(self._poses.moving, int)
        self._prismatic_at = np.flatnonzero(is_prismatic)
        self._revolute_at = np.flatnonzero(~is_prismatic)
        self._prismatic, self._revolute = moving[self._prismatic_at], moving[self._revolute_at]
        self.base = scene.add_frame(
            path,
            show_axes=False,
            wxyz=to_quat_wxyz(viewed.X_WR[:3, :3]),
            position=viewed.X_WR[:3, 3],
        )
        self.links: list[viser.FrameHandle] = []
        """One node per link, in the order of the tree's ``frame_names``."""
        X_PL = self._poses.in_parent(self._q)
        wxyz = to_quat_wxyz(X_PL[:, :3, :3])
        for row, name in enumerate(tree.frame_names):
            parent = path if row == 0 else self.links[tree.packed.parent[row]].name
            link_path = f"{parent}/{name.replace('/', '_')}"
            self.links.append(
                scene.add_frame(
                    link_path, show_axes=False, axes_length=AXES, axes_radius=0.04 * AXES,
                    wxyz=wxyz[row], position=X_PL[row, :3, 3],
                )
            )  # fmt: skip
            add_shapes(
                scene, f"{link_path}/visual", tree.links[name].visuals, appearance, self.meshes
            )

    @property
    def q(self) -> Array:
        """Joint positions drawn [rad or m], shape (n,)."""
        return self._q.copy()

    def draw_joints(self, q: Array) -> int:
        """Move the links whose joint has moved.

        Args:
            q: joint positions in the model's order [rad or m], shape (n,); NaN: unchanged.

        Returns:
            Number of links moved.
        """
        self._q = np.where(np.isnan(q), self._q, q)
        values = self._poses.joint_values(self._q)
        changed = np.abs(values - self._drawn) > MIN_MOVE
        if not changed.any():
            return 0
        self._drawn[changed] = values[changed]
        X_PL = self._poses.in_parent(self._q)
        rotated = self._revolute[changed[self._revolute_at]]
        for row, wxyz in zip(rotated, to_quat_wxyz(X_PL[rotated, :3, :3]), strict=True):
            self.links[row].wxyz = wxyz
        translated = self._prismatic[changed[self._prismatic_at]]
        for row in translated:
            self.links[row].position = X_PL[row, :3, 3]
        return len(rotated) + len(translated)

    def show_frames(self, shown: bool) -> None:
        """Show or hide the axes of all links."""
        for link in self.links:
            if link.show_axes != shown:
                link.show_axes = shown

    def draw_base(self, X_WB: Array) -> None:
        """Move the root link to a pose in the world, shape (4, 4)."""
        self.base.wxyz = to_quat_wxyz(X_WB[:3, :3])
        self.base.position = X_WB[:3, 3]


def ghost_of(
    scene: viser.SceneApi, viewed: ViewedRobot, path: str, appearance: Appearance
) -> RobotView:
    """Return another view of a robot, relative to the node of its base.

    Args:
        scene: the viser scene.
        viewed: the robot.
        path: path of the new node, a child of the node of the robot's base.
        appearance: appearance.
    """
    return RobotView(scene, dataclasses.replace(viewed, X_WR=np.eye(4)), path, appearance)


def bounding_sphere(viewed: ViewedRobot, meshes: MeshFiles) -> tuple[Array, float]:
    """Return a bounding sphere of a robot in its home configuration, with a margin for motion.

    Args:
        viewed: the robot.
        meshes: its mesh files.

    Returns:
        Centre in the world [m], shape (3,), and radius [m].
    """
    tree = viewed.model.tree
    X_RL = LinkPoses(tree).in_root(np.asarray(viewed.model.home, dtype=np.float64))
    corners = []
    for X, name in zip(X_RL, tree.frame_names, strict=True):
        for shape in tree.links[name].visuals:
            centre = (viewed.X_WR @ X @ shape.X_LG)[:3, 3]
            radius = reach(shape, meshes)
            corners += [centre - radius, centre + radius]
    if not corners:
        return viewed.X_WR[:3, 3].copy(), 0.5
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    radius = float(np.linalg.norm(high - low)) / 2
    return (low + high) / 2, radius * (MOBILE_MARGIN if viewed.drive else ARM_MARGIN)

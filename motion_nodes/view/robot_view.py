# SPDX-License-Identifier: Apache-2.0
"""One robot in the viser scene: a node for each link, nested as the links are, shapes below."""

from __future__ import annotations

import numpy as np
import viser

from motion_nodes.model.tree import Array
from motion_nodes.view.link_poses import LinkPoses, wxyz_from_rotation
from motion_nodes.view.mesh_files import MeshFiles
from motion_nodes.view.shape_nodes import SOLID, Look, add_shapes, reach
from motion_nodes.view.viewed_robot import ViewedRobot

LEAST_MOVE = 5e-5
"""A joint that moved less than this [rad or m] is not sent: at the end of an arm of a metre that is
a twentieth of a millimetre. What encoders add to a robot at rest costs nothing then."""
ROOM_TO_DRIVE = 2.2
"""A robot that drives is shown with so much more around it."""
ROOM_TO_MOVE = 1.25
"""The same for an arm, which reaches further than it does at home."""


class RobotView:
    """Draws one robot and moves its links; not thread-safe, one thread draws.

    Args:
        scene: the scene to add to.
        viewed: the robot.
        path: name of the robot's node, such as ``/robots/franka``.
        look: how its shapes are drawn.
    """

    def __init__(
        self, scene: viser.SceneApi, viewed: ViewedRobot, path: str, look: Look = SOLID
    ) -> None:
        """Add all nodes in the home configuration at the placement."""
        tree = viewed.model.tree
        self.meshes = MeshFiles(viewed.name, viewed.model.mesh_path)
        self._poses = LinkPoses(tree)
        self._q = np.array(viewed.model.home, dtype=np.float64)
        self._drawn = self._poses.joint_values(self._q)
        # What turns keeps its position and what slides its orientation: each costs one message.
        slides, moving = np.array(self._poses.sliding, bool), np.array(self._poses.moving, int)
        self._sliding_at, self._turning_at = np.flatnonzero(slides), np.flatnonzero(~slides)
        self._sliding, self._turning = moving[self._sliding_at], moving[self._turning_at]
        self.base = scene.add_frame(
            path,
            show_axes=False,
            wxyz=wxyz_from_rotation(viewed.X_WR[:3, :3]),
            position=viewed.X_WR[:3, 3],
        )
        self.links: list[viser.FrameHandle] = []
        """One node for each of the tree's ``frame_names``."""
        X_PL = self._poses.in_parent(self._q)
        wxyz = wxyz_from_rotation(X_PL[:, :3, :3])
        for row, name in enumerate(tree.frame_names):
            above = path if row == 0 else self.links[tree.packed.parent[row]].name
            link_path = f"{above}/{name.replace('/', '_')}"
            self.links.append(
                scene.add_frame(
                    link_path, show_axes=False, wxyz=wxyz[row], position=X_PL[row, :3, 3]
                )
            )
            add_shapes(scene, f"{link_path}/visual", tree.links[name].visuals, look, self.meshes)

    @property
    def q(self) -> Array:
        """Joint positions as drawn, shape (n,)."""
        return self._q.copy()

    def draw_joints(self, q: Array) -> int:
        """Move the links whose joint moved.

        Args:
            q: joint positions in the model's order [rad or m], shape (n,); NaN leaves one as it is.

        Returns:
            How many links were moved.
        """
        self._q = np.where(np.isnan(q), self._q, q)
        values = self._poses.joint_values(self._q)
        changed = np.abs(values - self._drawn) > LEAST_MOVE
        if not changed.any():
            return 0
        self._drawn[changed] = values[changed]
        X_PL = self._poses.in_parent(self._q)
        turned = self._turning[changed[self._turning_at]]
        for row, orientation in zip(turned, wxyz_from_rotation(X_PL[turned, :3, :3]), strict=True):
            self.links[row].wxyz = orientation
        slid = self._sliding[changed[self._sliding_at]]
        for row in slid:
            self.links[row].position = X_PL[row, :3, 3]
        return len(turned) + len(slid)

    def draw_base(self, X_WB: Array) -> None:
        """Put the root link at ``X_WB`` in the world."""
        self.base.wxyz = wxyz_from_rotation(X_WB[:3, :3])
        self.base.position = X_WB[:3, 3]


def bounding_ball(viewed: ViewedRobot, meshes: MeshFiles) -> tuple[Array, float]:
    """Return centre, shape (3,), and radius [m] of what to show of a robot at home in the world."""
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
    return (low + high) / 2, radius * (ROOM_TO_DRIVE if viewed.drive else ROOM_TO_MOVE)

# SPDX-License-Identifier: Apache-2.0
"""The same evaluation of RMPflow with pinocchio's kinematics, and all pairs at once in NumPy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin

from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.rmp.rmp_distance import distance
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays, obstacle_shapes
from motion_nodes.rmpflow import numpy_policy
from motion_nodes.rmpflow.compiled_policy import Evaluator
from motion_nodes.rmpflow.rmp_inputs import pack_capsules

Array = np.ndarray


class WithPinocchio:
    """As a good program would be written with pinocchio: one pass of kinematics, then arrays."""

    def __init__(self, ours: Evaluator, robot: Any) -> None:
        """Take model, settings and joints of an evaluator of ours."""
        self.ours = ours
        self.model = pin.buildModelFromXML(robot.urdf)
        self.data = self.model.createData()
        names = [self.model.names[k] for k in range(1, self.model.njoints)]
        self._order = [ours.joint_names.index(name) for name in names]
        self._active = [names.index(name) for name in ours.active]
        spheres, guards = ours.spheres, ours.settings.body_collision_controllers
        self._frames = [self.model.getFrameId(name) for name in spheres.links]
        self._guards = [self.model.getFrameId(item.name) for item in guards]
        self._guard_radii = np.array([item.radius for item in guards])
        self._capsules = ObstacleArrays({"box": pack_capsules(ours.settings.body_cylinders)})
        self._tool = self.model.getFrameId(ours._tool)

    def acceleration(self, q: Array, qd: Array) -> Array:
        """Return what :meth:`Evaluator.acceleration` returns."""
        ours, n = self.ours, len(self._active)
        whole_q, whole_qd = q[self._order], qd[self._order].copy()
        pin.computeJointJacobians(self.model, self.data, whole_q)
        pin.forwardKinematics(self.model, self.data, whole_q, whole_qd, np.zeros(len(whole_q)))
        pin.updateFramePlacements(self.model, self.data)
        reports = [
            *numpy_policy._joint_leaves(ours.settings, ours.bounds, ours.goal, q[:n], qd[:n]),
            *numpy_policy._tool_leaves(
                SimpleNamespace(tool_row=0, active=n), ours.settings, ours.goal, _Tool(self)
            ),
        ]
        M = sum(leaf.M for leaf in reports)
        rhs = sum(leaf.force for leaf in reports)
        for frames, centres, radii, obstacles in (
            (self._frames, ours.spheres.centres, ours.spheres.radii, ours.obstacles),
            (self._guards, np.zeros((len(self._guards), 3)), self._guard_radii, self._capsules),
        ):
            more_M, more_rhs = self._collisions(frames, centres, radii, obstacles)
            M, rhs = M + more_M, rhs + more_rhs
        most = ours.settings.canonical_resolve.max_acceleration_norm
        return numpy_policy.capped(np.linalg.solve(M, rhs), most)

    def _collisions(
        self, frames: list[int], centres: Array, radii: Array, obstacles: ObstacleArrays
    ) -> tuple[Array, Array]:
        p, v, bias, J = self._points(np.array(frames, int), centres)
        M, force = np.zeros((J.shape[2],) * 2), np.zeros(J.shape[2])
        for name, rows in obstacles.rows.items():
            if not len(rows):
                continue
            d = distance(NUMPY, obstacle_shapes()[name], [x[:, None] for x in p.T],
                         [x[:, None] for x in v.T], [x[None] for x in rows.T])  # fmt: skip
            n = np.stack(np.broadcast_arrays(*d.n), axis=-1)
            wish, weight = numpy_policy.collision(
                d.value - radii[:, None], d.rate, self.ours.settings.collision_rmp
            )
            metric = np.einsum("sk,ski,skj->sij", weight, n, n)
            pull = np.einsum("sk,ski->si", weight * (wish - d.curvature), n)
            M += np.einsum("sia,sij,sjb->ab", J, metric, J)
            force += np.einsum("sia,si->a", J, pull - np.einsum("sij,sj->si", metric, bias))
        return M, force

    def _points(self, frames: Array, centres: Array) -> tuple[Array, Array, Array, Array]:
        """Return positions, velocities, J-dot qd and Jacobians of points, a frame at a time."""
        count = len(frames)
        p, v, bias = (np.empty((count, 3)) for _ in range(3))
        J = np.empty((count, 3, len(self._active)))
        for frame in map(int, np.unique(frames)):
            here = frames == frame
            X, J_frame = self.data.oMf[frame], self._frame_jacobian(frame)
            twist, drift = self._motion(frame)
            arms, w = centres[here] @ X.rotation.T, twist.angular
            p[here], v[here] = X.translation + arms, twist.linear + np.cross(w, arms)
            turned = np.cross(drift.angular, arms) + np.cross(w, np.cross(w, arms))
            bias[here] = drift.linear + turned
            J[here] = J_frame[:3] + np.cross(J_frame[3:].T, arms[:, None, :]).swapaxes(1, 2)
        return p, v, bias, J

    def _motion(self, frame: int) -> tuple[Any, Any]:
        axes = pin.LOCAL_WORLD_ALIGNED
        twist = pin.getFrameVelocity(self.model, self.data, frame, axes)
        return twist, pin.getFrameClassicalAcceleration(self.model, self.data, frame, axes)

    def _frame_jacobian(self, frame: int) -> Array:
        J = pin.getFrameJacobian(self.model, self.data, frame, pin.LOCAL_WORLD_ALIGNED)
        return np.asarray(J[:, self._active])

    def point(self, frame: int, centre: Array) -> tuple[Array, Array, Array]:
        """Return position, velocity and J-dot qd of a point that is fixed to a frame."""
        X = self.data.oMf[frame]
        twist, bias = self._motion(frame)
        arm, w = X.rotation @ centre, twist.angular
        velocity = twist.linear + np.cross(w, arm)
        turned = np.cross(bias.angular, arm) + np.cross(w, np.cross(w, arm))
        return X.translation + arm, velocity, bias.linear + turned

    def jacobian(self, frame: int, point: Array) -> tuple[Array, Array]:
        """Return linear and angular Jacobian of a point of a frame, shape (3, n) each."""
        J = self._frame_jacobian(frame)
        arm = point - self.data.oMf[frame].translation
        return J[:3] + np.cross(J[3:].T, arm).T, J[3:]


class _Tool:
    """The tool as the leaves of the tool look at it."""

    def __init__(self, peer: WithPinocchio) -> None:
        self._peer, frame = peer, peer._tool
        model, data = peer.model, peer.data
        twist = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        bias = pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        self.R, self.w, self.wd = [data.oMf[frame].rotation], [twist.angular], [bias.angular]

    def point(self, row: int, centre: Array) -> tuple[Array, Array, Array]:
        return self._peer.point(self._peer._tool, centre)

    def jacobian(self, row: int, point: Array) -> tuple[Array, Array]:
        return self._peer.jacobian(self._peer._tool, point)

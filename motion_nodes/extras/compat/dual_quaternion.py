# SPDX-License-Identifier: Apache-2.0
"""Unit dual quaternions: poses as eight numbers, and forward kinematics with them.

A dual quaternion ``D = r + e d`` (with ``e e = 0``) is an array of shape (..., 8): the real part
``r`` and the dual part ``d``, each scalar last (x, y, z, w). The pose of B in A with rotation r and
translation t [m] is ``D_AB = r + e t r / 2``, so ``D_AC = multiply(D_AB, D_BC)``, as for matrices.
``D`` and ``-D`` are the same pose. All functions are vectorized.

Sources: K. Daniilidis, "Hand-eye calibration using dual quaternions", Int. J. Robotics Research
18(3), 1999; L. Kavan et al., "Geometric skinning with approximate dual quaternion blending", ACM
Trans. Graphics 27(4), 2008.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.errors import InvalidCommand, UnknownFrame
from motion_nodes.typing import Array

_SMALL = 0.05
"""Half angles below this [rad] use a series; its next term is below machine precision."""
# Index of the element at each place of the left multiplication matrix of a quaternion.
_ELEMENT = np.array([[3, 2, 1, 0], [2, 3, 0, 1], [1, 0, 3, 2], [0, 1, 2, 3]])
_SIGN = np.array(
    [[1.0, -1.0, 1.0, 1.0], [1.0, 1.0, -1.0, 1.0], [-1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, 1.0]]
)
# The same for a dual quaternion: the real part acts on both parts, the dual part on the real one.
_ELEMENT_8 = np.block([[_ELEMENT, _ELEMENT], [_ELEMENT + 4, _ELEMENT]])
_SIGN_8 = np.block([[_SIGN, 0.0 * _SIGN], [_SIGN, _SIGN]])
_CONJUGATE = np.array([-1.0, -1.0, -1.0, 1.0])
STEP = 1e-5
"""Step [rad or m] that balances truncation (quadratic) and rounding error (inverse)."""


def identity() -> Array:
    """Return the identity dual quaternion, shape (8,)."""
    return np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])


def from_pose(X_AB: Array) -> Array:
    """Return the dual quaternions of homogeneous matrices.

    Args:
        X_AB: homogeneous matrices, shape (..., 4, 4).

    Returns:
        Dual quaternions with a non-negative scalar part of the rotation, shape (..., 8).
    """
    X = np.asarray(X_AB, dtype=np.float64)
    return from_quat_and_xyz(to_quat_xyzw(X), X[..., :3, 3])


def from_quat_and_xyz(quat_xyzw: Array, xyz: Array) -> Array:
    """Return the dual quaternions of rotations and translations.

    Args:
        quat_xyzw: unit quaternions, shape (..., 4).
        xyz: translations [m], shape (..., 3).

    Returns:
        Unit dual quaternions, shape (..., 8).
    """
    r = np.asarray(quat_xyzw, dtype=np.float64)
    return np.concatenate([r, 0.5 * _product(_pure(xyz), r)], axis=-1)


def to_pose(D_AB: Array) -> Array:
    """Return the homogeneous matrices, shape (..., 4, 4), of unit dual quaternions."""
    D = np.asarray(D_AB, dtype=np.float64)
    x, y, z, w = np.moveaxis(D[..., :4], -1, 0)
    X = np.zeros((*D.shape[:-1], 4, 4))
    X[..., 0, 0], X[..., 0, 1], X[..., 0, 2] = (
        1.0 - 2.0 * (y * y + z * z),
        2.0 * (x * y - z * w),
        2.0 * (x * z + y * w),
    )
    X[..., 1, 0], X[..., 1, 1], X[..., 1, 2] = (
        2.0 * (x * y + z * w),
        1.0 - 2.0 * (x * x + z * z),
        2.0 * (y * z - x * w),
    )
    X[..., 2, 0], X[..., 2, 1], X[..., 2, 2] = (
        2.0 * (x * z - y * w),
        2.0 * (y * z + x * w),
        1.0 - 2.0 * (x * x + y * y),
    )
    X[..., :3, 3] = translation(D)
    X[..., 3, 3] = 1.0
    return X


def translation(D_AB: Array) -> Array:
    """Return the translations ``2 d r*`` [m], shape (..., 3), of unit dual quaternions."""
    return np.asarray(2.0 * _product(D_AB[..., 4:], _conjugate(D_AB[..., :4]))[..., :3])


def multiply(*factors: Array) -> Array:
    """Return the product of dual quaternions, shape (..., 8), from left to right.

    Without factors it is the identity.
    """
    return functools.reduce(_multiply_two, factors, identity())


def inverse(D_AB: Array) -> Array:
    """Return ``D_BA``, shape (..., 8), of unit dual quaternions: both parts conjugated."""
    return np.concatenate([_conjugate(D_AB[..., :4]), _conjugate(D_AB[..., 4:])], axis=-1)


def normalise(D: Array) -> Array:
    """Return the closest unit dual quaternions, shape (..., 8), to remove drift of products.

    Source: Kavan et al., section 3.4: ``|r| = 1`` and r orthogonal to d.

    Raises:
        InvalidCommand: a real part of zero, or numbers that are not finite.
    """
    r, d = D[..., :4], D[..., 4:]
    length = np.linalg.norm(r, axis=-1, keepdims=True)
    if not (np.isfinite(D).all() and (length > 1e-12).all()):
        raise InvalidCommand(
            "a dual quaternion with a real part of zero, or with numbers that are not finite, is "
            "not a pose."
        )
    r, d = r / length, d / length
    return np.concatenate([r, d - np.sum(r * d, axis=-1, keepdims=True) * r], axis=-1)


def exp(twist: ArrayLike) -> Array:
    """Return the displacement by a constant twist during one second.

    Args:
        twist: linear [m] and angular [rad] part, shape (..., 6), in the frame in which the
            displacement is given.

    Returns:
        Unit dual quaternions, shape (..., 8).

    Source: Daniilidis, section 3: ``exp((omega + e v) / 2)``, with the sine and cosine of the dual
    half angle expanded.
    """
    half = 0.5 * np.asarray(twist, dtype=np.float64)
    a, b = half[..., 3:], half[..., :3]
    angle = np.linalg.norm(a, axis=-1, keepdims=True)
    along = np.sum(a * b, axis=-1, keepdims=True)
    sinc, slope = _sinc_and_slope(angle)
    parts = [sinc * a, np.cos(angle), sinc * b + slope * along * a, -sinc * along]
    return np.concatenate(parts, axis=-1)


def log(D: Array) -> Array:
    """Return the twist of a unit dual quaternion: inverse of :func:`exp`.

    Args:
        D: unit dual quaternions, shape (..., 8).

    Returns:
        Linear [m] and angular [rad] part, shape (..., 6); the angle is at most pi.
    """
    D = np.asarray(D, dtype=np.float64)
    D = np.where(D[..., 3:4] < 0.0, -D, D)
    r, d = D[..., :3], D[..., 4:7]
    angle = np.arctan2(np.linalg.norm(r, axis=-1, keepdims=True), D[..., 3:4])
    sinc, slope = _sinc_and_slope(angle)
    a = r / sinc
    along = -D[..., 7:8] / sinc
    b = (d - slope * along * a) / sinc
    return 2.0 * np.concatenate([b, a], axis=-1)


class DualQuaternionKinematics:
    """Forward kinematics of a tree as products of dual quaternions from the root to each link.

    :class:`~motion_nodes.core.robot.kinematics.Kinematics` computes the same poses faster; this
    class is for applications of dual quaternions (screws, blending, interpolation).
    """

    joint_names: tuple[str, ...]
    """Joints, in the order of ``q``."""
    frame_names: tuple[str, ...]
    """All links, root first."""

    def __init__(self, tree: KinematicTree) -> None:
        self._tree = tree.packed
        self._name = tree.name
        self.joint_names = tree.joint_names
        self.frame_names = tree.frame_names
        self._placed = from_pose(self._tree.X_PJ)
        # Twist of each row per unit of its joint.
        twists = np.zeros((len(self.frame_names), 6))
        twists[self._tree.kind == 1, 3:] = self._tree.axis[self._tree.kind == 1]
        twists[self._tree.kind == 2, :3] = self._tree.axis[self._tree.kind == 2]
        self._twists = twists

    def frames(self, q: ArrayLike) -> Array:
        """Return the pose of every link in the root.

        Args:
            q: joint positions [rad or m], shape (n,).

        Returns:
            Unit dual quaternions in the order of ``frame_names``, shape (f, 8).

        Raises:
            InvalidCommand: ``q`` is not one finite number per joint.
        """
        values = self._values(q)
        local = _multiply_two(self._placed, exp(self._twists * values[:, np.newaxis]))
        D = np.empty_like(local)
        for row, parent in enumerate(self._tree.parent):
            D[row] = local[row] if parent < 0 else _multiply_two(D[parent], local[row])
        return normalise(D)

    def frame(self, q: ArrayLike, name: str) -> Array:
        """Return the pose of one link in the root, shape (8,).

        Args:
            q: joint positions [rad or m], shape (n,).
            name: name of the link.

        Raises:
            UnknownFrame: lists the links.
            InvalidCommand: ``q`` is not one finite number per joint.
        """
        if name not in self.frame_names:
            raise UnknownFrame(name, self.frame_names, self._name)
        values = self._values(q)
        row, D = self.frame_names.index(name), identity()
        while row >= 0:
            local = _multiply_two(self._placed[row], exp(self._twists[row] * values[row]))
            D, row = _multiply_two(local, D), int(self._tree.parent[row])
        return normalise(D)

    def _values(self, q: ArrayLike) -> Array:
        """Return the position of each row's parent joint [rad or m]; 0 without a joint."""
        given = finite_numbers(q, self.joint_names, "q")
        tree = self._tree
        moved = np.append(given, 0.0)[tree.q_index]
        return np.asarray(np.where(tree.q_index < 0, 0.0, tree.multiplier * moved + tree.offset))


def _sinc_and_slope(angle: Array) -> tuple[Array, Array]:
    """Return ``sinc(x) = sin(x) / x``, and its derivative divided by x."""
    x = np.where(angle == 0.0, 1.0, angle)
    sinc = np.where(angle == 0.0, 1.0, np.sin(x) / x)
    square = angle**2
    series = -1.0 / 3.0 + square / 30.0 - square**2 / 840.0 + square**3 / 45360.0
    slope = np.where(np.abs(angle) < _SMALL, series, (np.cos(x) - sinc) / x**2)
    return sinc, slope


def _multiply_two(D_AB: Array, D_BC: Array) -> Array:
    left = D_AB[..., _ELEMENT_8] * _SIGN_8
    return np.asarray((left @ D_BC[..., np.newaxis])[..., 0])


def _product(p: Array, q: Array) -> Array:
    """Return products of quaternions, scalar last."""
    return np.asarray(((p[..., _ELEMENT] * _SIGN) @ q[..., np.newaxis])[..., 0])


def _conjugate(q: Array) -> Array:
    return np.asarray(q * _CONJUGATE)


def _pure(v: Array) -> Array:
    """Return pure quaternions of vectors."""
    v = np.asarray(v, dtype=np.float64)
    return np.concatenate([v, np.zeros((*v.shape[:-1], 1))], axis=-1)


def numeric_jacobian(pose: Callable[[Array], Array], q: ArrayLike, step: float = STEP) -> Array:
    """Return the geometric Jacobian of a pose by central differences.

    :meth:`motion_nodes.core.robot.kinematics.Kinematics.jacobian` is exact and a thousand times
    faster; this function needs only a function such as ``lambda q: kinematics.pose(q, "tool")``.

    Angular velocities are logarithms of the rotation between neighbours: differences of matrices,
    quaternions or angles are not angular velocities.

    Args:
        pose: returns homogeneous matrices ``X_BF``, shape (4, 4).
        q: joint positions [rad or m], shape (n,).
        step: step of the differences [rad or m].

    Returns:
        Jacobian expressed in B, shape (6, n): linear velocity of the frame's origin, then angular
        velocity.

    Raises:
        InvalidCommand: ``q`` is not a vector of finite numbers, or ``step`` is not above 0.
    """
    at = np.asarray(q, dtype=np.float64)
    if at.ndim != 1 or not np.isfinite(at).all():
        raise InvalidCommand(f"joint values must be a vector of finite numbers, got {q!r}.")
    if not 0.0 < step < np.inf:
        raise InvalidCommand(f"step is {step}; it must be above 0.", field="step")
    J = np.empty((6, at.size))
    for k in range(at.size):
        shift = np.zeros(at.size)
        shift[k] = step
        X_ahead, X_behind = pose(at + shift), pose(at - shift)
        turned = np.eye(4)
        turned[:3, :3] = X_ahead[:3, :3] @ X_behind[:3, :3].T
        J[:3, k] = X_ahead[:3, 3] - X_behind[:3, 3]
        J[3:, k] = log(from_pose(turned))[3:]
    return J / (2.0 * step)

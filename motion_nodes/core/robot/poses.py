# SPDX-License-Identifier: Apache-2.0
"""Poses as homogeneous (4, 4) matrices: creation, composition, inversion and conversion.

``X_AB`` is the pose of frame B in frame A; ``compose(X_AB, X_BC)`` is ``X_AC``. Quaternions are
scalar last (``quat_xyzw``). Single rotation vectors (axis times angle) are converted in plain
floats, faster than NumPy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription
from motion_nodes.tolerances import NO_ROTATION
from motion_nodes.typing import Array

Vector = Sequence[float] | Array
MIN_QUATERNION = 1e-12
"""Quaternions with all components below this count as zero."""


def from_xyz_rpy(xyz: Vector = (0.0, 0.0, 0.0), rpy: Vector = (0.0, 0.0, 0.0)) -> Array:
    """Return the pose of a translation and roll, pitch, yaw.

    Args:
        xyz: translation [m], shape (3,).
        rpy: rotation about the fixed x, then y, then z axis [rad], shape (3,).

    Returns:
        Shape (4, 4).

    Source: URDF specification, element ``origin``: R = Rz(yaw) Ry(pitch) Rx(roll).
    """
    (cr, cp, cy), (sr, sp, sy) = _cosines_and_sines(rpy)
    X = np.eye(4)
    X[:3, :3] = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    X[:3, 3] = xyz
    return X


def from_xyz_quat(xyz: Vector, quat_xyzw: Vector) -> Array:
    """Return the pose of a translation and a quaternion.

    Args:
        xyz: translation [m], shape (3,).
        quat_xyzw: rotation, scalar last, shape (4,), normalized or not.

    Returns:
        Shape (4, 4).

    Raises:
        ValueError: a quaternion that is zero or not finite.
    """
    quaternion = np.asarray(quat_xyzw, dtype=np.float64)
    # Scaled by the largest component first: squares may overflow or underflow.
    scale = float(np.abs(quaternion).max()) if quaternion.shape == (4,) else math.nan
    if not math.isfinite(scale) or scale < MIN_QUATERNION:
        raise ValueError(
            f"quaternion {np.atleast_1d(quaternion).tolist()} is not a rotation: give four finite "
            "numbers x y z w that are not all zero."
        )
    scaled = quaternion / scale
    x, y, z, w = scaled / np.linalg.norm(scaled)
    X = np.eye(4)
    X[:3, :3] = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )
    X[:3, 3] = xyz
    return X


def pose(
    xyz: Vector = (0.0, 0.0, 0.0), rpy: Vector | None = None, quat_xyzw: Vector | None = None
) -> Array:
    """Return a pose from a translation and a rotation (roll, pitch, yaw or a quaternion).

    Args:
        xyz: translation [m], shape (3,).
        rpy: rotation about the fixed x, then y, then z axis [rad], shape (3,).
        quat_xyzw: rotation as quaternion, scalar last, shape (4,), normalized or not.

    Returns:
        Homogeneous matrix, shape (4, 4).

    Raises:
        InvalidCommand: wrong lengths, numbers that are not finite, a zero quaternion, or both
            ``rpy`` and ``quat_xyzw``.
    """
    if rpy is not None and quat_xyzw is not None:
        raise InvalidCommand("give the rotation of a pose as rpy or as quat_xyzw, not as both.")
    turn = rpy if rpy is not None else (0.0, 0.0, 0.0)
    for name, values, count in (("xyz", xyz, 3), ("rpy", turn, 3), ("quat_xyzw", quat_xyzw, 4)):
        if values is None:
            continue
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if numbers.shape != (count,) or not np.isfinite(numbers).all():
            raise InvalidCommand(
                f"{name} of a pose must be {count} finite numbers, got {values!r}."
            )
    if quat_xyzw is None:
        return from_xyz_rpy(xyz, turn)
    try:
        return from_xyz_quat(xyz, quat_xyzw)
    except ValueError as error:
        raise InvalidCommand(str(error)) from None


def to_quat_xyzw(X_AB: Array) -> Array:
    """Return the unit quaternions (x, y, z, w), w >= 0, of poses or rotation matrices.

    The largest of the four elements is computed first, which avoids division by small numbers.

    Args:
        X_AB: poses (..., 4, 4) or rotation matrices (..., 3, 3).

    Returns:
        Shape (..., 4).

    Source: S. W. Shepperd, Quaternion from rotation matrix, J. Guidance and Control 1(3), 1978.
    """
    R = np.asarray(X_AB, dtype=np.float64)[..., :3, :3]
    if R.ndim == 2:
        # Plain floats: about twenty times faster than small arrays.
        return np.array(_one_quaternion(*R.tolist()))
    xx, yy, zz = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    xy, yx, xz, zx = R[..., 0, 1], R[..., 1, 0], R[..., 0, 2], R[..., 2, 0]
    yz, zy = R[..., 1, 2], R[..., 2, 1]
    trace = xx + yy + zz
    candidates = np.empty((*R.shape[:-2], 4, 4))
    traces = np.stack((xx, yy, zz, trace), axis=-1)
    for i in range(4):
        candidates[..., i, i] = 1.0 + 2.0 * traces[..., i] - trace if i < 3 else 1.0 + trace
    for i, j, value in (
        (0, 1, xy + yx), (0, 2, xz + zx), (1, 2, yz + zy),
        (0, 3, zy - yz), (1, 3, xz - zx), (2, 3, yx - xy),
    ):  # fmt: skip
        candidates[..., i, j] = candidates[..., j, i] = value
    largest = np.argmax(traces, axis=-1)
    rows = candidates.reshape(-1, 4, 4)
    chosen = rows[np.arange(len(rows)), largest.ravel()].reshape(*R.shape[:-2], 4)
    chosen = chosen / np.linalg.norm(chosen, axis=-1, keepdims=True)
    return np.asarray(np.where(chosen[..., 3:] < 0.0, -chosen, chosen))


def to_quat_wxyz(X_AB: Array) -> Array:
    """Return the unit quaternions (w, x, y, z), w >= 0, of poses or rotation matrices.

    Args:
        X_AB: poses (..., 4, 4) or rotation matrices (..., 3, 3).

    Returns:
        Shape (..., 4).
    """
    return np.roll(to_quat_xyzw(X_AB), 1, axis=-1)


def _one_quaternion(
    row_x: list[float], row_y: list[float], row_z: list[float]
) -> tuple[float, float, float, float]:
    """Return the quaternion of one rotation; same algorithm as :func:`to_quat_xyzw`."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = row_x, row_y, row_z
    trace = xx + yy + zz
    largest = max(xx, yy, zz, trace)
    if largest == xx:
        found = (1.0 + 2.0 * xx - trace, yx + xy, zx + xz, zy - yz)
    elif largest == yy:
        found = (yx + xy, 1.0 + 2.0 * yy - trace, zy + yz, xz - zx)
    elif largest == zz:
        found = (zx + xz, zy + yz, 1.0 + 2.0 * zz - trace, yx - xy)
    else:
        found = (zy - yz, xz - zx, yx - xy, 1.0 + trace)
    x, y, z, w = found
    scale = math.copysign(1.0 / math.sqrt(x * x + y * y + z * z + w * w), w)
    if w == 0.0:
        scale = abs(scale)
    return x * scale, y * scale, z * scale, w * scale


def rotation_about(axis: Array, angle: Array) -> Array:
    """Return the matrices of rotations about unit axes.

    Args:
        axis: unit vectors, shape (..., 3).
        angle: angles [rad], shape (...).

    Returns:
        Shape (..., 3, 3).

    Source: Rodrigues' formula; Lynch and Park, "Modern Robotics", eq. 3.51.
    """
    c, s = np.cos(angle)[..., None, None], np.sin(angle)[..., None, None]
    x, y, z = axis[..., 0], axis[..., 1], axis[..., 2]
    o = np.zeros_like(x)
    skew = np.stack((o, -z, y, z, o, -x, -y, x, o), axis=-1).reshape(*x.shape, 3, 3)
    outer = axis[..., :, None] * axis[..., None, :]
    return np.asarray(c * np.eye(3) + s * skew + (1.0 - c) * outer)


def to_rpy(X_AB: Array) -> Array:
    """Return roll, pitch, yaw [rad], shape (3,), of a pose (4, 4) or rotation matrix (3, 3).

    At pitch = +-90 degrees only roll + yaw or roll - yaw is determined; roll is then 0.
    """
    R = np.asarray(X_AB, dtype=np.float64)[:3, :3]
    cos_pitch = math.hypot(R[0, 0], R[1, 0])
    pitch = math.atan2(-R[2, 0], cos_pitch)
    if cos_pitch < 1e-9:
        return np.array((0.0, pitch, math.atan2(-R[0, 1], R[1, 1])))
    return np.array((math.atan2(R[2, 1], R[2, 2]), pitch, math.atan2(R[1, 0], R[0, 0])))


def compose(X_AB: Array, X_BC: Array) -> Array:
    """Return ``X_AC = X_AB X_BC``, shape (4, 4)."""
    return np.asarray(X_AB @ X_BC, dtype=np.float64)


def multiply(*poses: Array) -> Array:
    """Return the product of poses from left to right; without poses the identity.

    Args:
        poses: shape (4, 4) each, such as ``X_AB, X_BC, X_CD``.

    Returns:
        Their product, such as ``X_AD``, shape (4, 4).

    Raises:
        InvalidCommand: not a matrix of this shape.
    """
    return functools.reduce(compose, (_matrices(X, ndim=2) for X in poses), np.eye(4))


def inverse(X_AB: Array) -> Array:
    """Return the inverses of poses.

    Args:
        X_AB: poses of B in A, shape (..., 4, 4).

    Returns:
        ``X_BA``, of the same shape.

    Raises:
        InvalidCommand: not matrices of this shape.
    """
    if getattr(X_AB, "shape", ())[-2:] != (4, 4):
        X_AB = _matrices(X_AB)
    if X_AB.ndim > 2:
        R = np.swapaxes(X_AB[..., :3, :3], -1, -2)
        X = np.zeros(X_AB.shape)
        X[..., :3, :3], X[..., 3, 3] = R, 1.0
        X[..., :3, 3] = -(R @ X_AB[..., :3, 3, None])[..., 0]
        return X
    R_BA = X_AB[:3, :3].T
    X_BA = np.eye(4)
    X_BA[:3, :3] = R_BA
    X_BA[:3, 3] = -R_BA @ X_AB[:3, 3]
    return X_BA


def _matrices(X: ArrayLike, ndim: int | None = None) -> Array:
    """Return poses, shape (..., 4, 4), as an array; ``ndim``: number of its dimensions."""
    try:
        array = np.asarray(X, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape[-2:] != (4, 4) or ndim not in (None, array.ndim):
        raise InvalidCommand(f"a pose is a matrix of shape (4, 4), got {X!r:.60}.", field="pose")
    return array


def as_pose(value: ArrayLike, what: str, ndim: int = 2) -> Array:
    """Return a pose as float64 array of shape (4, 4), or poses of shape (m, 4, 4).

    Args:
        value: the pose, or poses.
        what: its name, for errors.
        ndim: number of dimensions: 2 for a pose, 3 for poses.

    Raises:
        InvalidCommand: wrong shape, or not numeric. Orthonormality is not checked.
    """
    try:
        X = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        X = np.empty(0)
    if X.ndim != ndim or X.shape[-2:] != (4, 4):
        shape = np.shape(value) if isinstance(value, np.ndarray) else type(value).__name__
        raise InvalidCommand(
            f"{what}: required is {'a pose' if ndim == 2 else 'an array (m, 4, 4) of poses'}, a "
            f"homogeneous matrix of shape (4, 4), as of motion_nodes.pose(); got {shape}.",
            field=what,
        )
    return X


def rigid_pose(
    value: ArrayLike,
    what: str,
    tolerance: float = 1e-6,
    error: type[InvalidCommand | InvalidConfig | InvalidDescription] = InvalidCommand,
) -> Array:
    """Return a validated pose, shape (4, 4).

    Args:
        value: the pose.
        what: its name, for errors.
        tolerance: max deviation of the rotation from an orthonormal one, per element of R^T R.
        error: type of the error.

    Raises:
        InvalidCommand: (or ``error``) wrong shape, not finite, mirrored or not orthonormal, or
            another last row than 0 0 0 1.
    """
    try:
        X = as_pose(value, what)
        R = X[:3, :3]
        rigid = np.isfinite(X).all() and np.abs(R.T @ R - np.eye(3)).max() <= tolerance
        if not rigid or np.linalg.det(R) < 0.0 or X[3].tolist() != [0.0, 0.0, 0.0, 1.0]:
            raise bad_pose(X, what)
    except InvalidCommand as wrong:
        raise wrong if error is InvalidCommand else error(str(wrong), field=what) from None
    return X


def bad_pose(X: Array, what: str) -> InvalidCommand:
    """Return the error for an invalid pose, with the reason.

    Args:
        X: the pose, shape (4, 4).
        what: its name.
    """
    if not np.isfinite(X).all():
        return InvalidCommand(
            f"{what} holds numbers that are not finite: {X.tolist()}.", field=what
        )
    R = X[:3, :3]
    turned = float(np.linalg.det(R))
    return InvalidCommand(
        f"{what} is not a valid pose: its rotation must be orthonormal with determinant 1 (the "
        f"determinant is {turned:.6g}, R^T R differs from the identity by "
        f"{np.abs(R.T @ R - np.eye(3)).max():.3g}) and its last row 0 0 0 1 (it is "
        f"{X[3].tolist()}). motion_nodes.core.robot.poses makes poses from quaternions.",
        field=what,
    )


def _cosines_and_sines(angles: Vector) -> tuple[list[float], list[float]]:
    """Return the cosines and the sines of three angles [rad]."""
    return [math.cos(a) for a in angles], [math.sin(a) for a in angles]


def rotation_vector(R: Array) -> tuple[float, float, float]:
    """Return the rotation vector [rad], shape (3,), of a rotation matrix: its logarithm.

    It is computed from the quaternion by its largest element, so angles near 0 and pi are no
    special cases; the quaternion need not be normalized.

    Args:
        R: rotation matrix, shape (3, 3), or the first three rows of a pose, shape (3, 4).

    Sources: S. W. Shepperd, "Quaternion from rotation matrix", J. Guidance and Control 1(3), 1978;
    J. Sola, "Quaternion kinematics for the error-state Kalman filter", 2017, eq. 105.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = R[:3, :3].tolist()
    trace = xx + yy + zz
    if trace >= max(xx, yy, zz):
        w, x, y, z = 1.0 + trace, zy - yz, xz - zx, yx - xy
    elif xx >= max(yy, zz):
        w, x, y, z = zy - yz, 1.0 + 2.0 * xx - trace, yx + xy, xz + zx
    elif yy >= zz:
        w, x, y, z = xz - zx, yx + xy, 1.0 + 2.0 * yy - trace, zy + yz
    else:
        w, x, y, z = yx - xy, xz + zx, zy + yz, 1.0 + 2.0 * zz - trace
    s = math.hypot(x, y, z)
    factor = 2.0 * math.atan2(s, abs(w)) / s if s > 0.0 else 0.0
    factor = math.copysign(factor, w)
    return factor * x, factor * y, factor * z


def turned(R: Array, vector: Array) -> Array:
    """Return a rotation matrix, rotated by a rotation vector in the fixed frame.

    Args:
        R: rotation matrix, shape (3, 3).
        vector: rotation vector [rad], shape (3,).

    Returns:
        Rotation matrix, shape (3, 3).
    """
    angle = float(np.linalg.norm(vector))
    if angle < NO_ROTATION:
        return R.copy()
    return rotation_about(vector / angle, np.asarray(angle)) @ R


def rate_of_rotation_vector(phi: Array) -> Array:
    """Return the matrix from angular velocity to the rate of a rotation vector, shape (3, 3).

    Args:
        phi: rotation vector [rad] of at most pi, shape (3,).

    Source: T. Barfoot, "State Estimation for Robotics", 2017, eq. 7.76 (inverse left Jacobian).
    """
    x, y, z = phi.tolist()
    angle = math.hypot(x, y, z)
    half = angle / 2.0
    cotangent = half / math.tan(half) if angle > 1e-3 else 1.0 - angle**2 / 12.0
    ratio = (1.0 - cotangent) / angle**2 if angle > 1e-3 else 1.0 / 12.0
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(cotangent * np.eye(3) + ratio * np.outer(phi, phi) - 0.5 * skew)

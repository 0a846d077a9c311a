# SPDX-License-Identifier: Apache-2.0
"""Components of task constraints: positions, rotations and view angles, with their derivatives.

Source: T. Barfoot, "State Estimation for Robotics", 2017, eq. 7.76 (rate of the rotation vector).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.jit import bare_part, part
from motion_nodes.typing import Array

NONE = -1
BOX, BALL, CYLINDER = 0, 1, 2
"""Position components: x, y, z; the norm; the distance from the z axis, and z."""
EULER, VECTOR, ANGLE, SENSOR, TARGET = 0, 1, 2, 3, 4
"""Rotation components: intrinsic x, y, z angles; rotation vector; its norm; line of sight with P as
the sensor or as the target: view angle, then range angle."""
_TINY = 1e-9


class Work(NamedTuple):
    """Scratch memory for one configuration."""

    X: Array
    """Pose of P in R, shape (4, 4)."""
    J: Array
    """Jacobian of P in R, shape (6, n)."""
    values: Array
    """Components, shape (6,)."""
    gradients: Array
    """Derivatives of the components with respect to the twist of P in R, shape (6, 6)."""
    errors: Array
    """Excess over the violated bounds [m or rad], shape (rows,)."""
    rows: Array
    """Jacobian of the violated components, shape (rows, n)."""
    A: Array
    """Normal matrix of a Newton step, shape (n, n)."""
    step: Array
    """Newton step [rad or m], shape (n,)."""
    scratch: Array
    """Jacobian of the link of P, shape (6, n)."""
    link: Array
    """Pose of the link of P, shape (4, 4)."""
    point: Array
    """Pose of P in the base, shape (4, 4)."""
    base: Array
    """Pose of the base in R, shape (4, 4)."""
    carrier: Array
    """Pose of the link that carries R, shape (4, 4)."""
    carried: Array
    """Jacobian of the link that carries R, shape (6, n)."""
    q: Array
    """A configuration between two others [rad or m], shape (n,)."""


@part
def make_work(tasks: int, n: int) -> Work:
    """Return scratch memory for a number of task constraints on n joints."""
    return Work(
        np.empty((4, 4)),
        np.empty((6, n)),
        np.empty(6),
        np.empty((6, 6)),
        np.empty(6 * tasks + 1),
        np.empty((6 * tasks + 1, n)),
        np.empty((n, n)),
        np.empty(n),
        np.empty((6, n)),
        np.empty((4, 4)),
        np.empty((4, 4)),
        np.empty((4, 4)),
        np.zeros((4, 4)),
        np.empty((6, n)),
        np.empty(n),
    )


@bare_part
def position_components(kind: int, work: Work) -> None:
    """Write the position components [m] and their derivatives."""
    X, values, g = work.X, work.values, work.gradients
    x, y, z = X[0, 3], X[1, 3], X[2, 3]
    if kind == BOX:
        for i in range(3):
            values[i] = X[i, 3]
            g[i, i] = 1.0
    elif kind == BALL:
        radius = math.sqrt(x * x + y * y + z * z)
        values[0] = radius
        for i in range(3):
            g[0, i] = X[i, 3] / max(radius, _TINY)
    elif kind == CYLINDER:
        radius = math.sqrt(x * x + y * y)
        values[0], values[2] = radius, z
        g[0, 0], g[0, 1], g[2, 2] = x / max(radius, _TINY), y / max(radius, _TINY), 1.0


@bare_part
def rotation_components(kind: int, work: Work) -> None:
    """Write the rotation components [rad] and their derivatives."""
    if kind == EULER:
        _euler(work)
    elif kind == VECTOR or kind == ANGLE:
        _rotation_vector(kind == ANGLE, work)
    elif kind == SENSOR or kind == TARGET:
        _sight(kind == SENSOR, work)


@bare_part
def _euler(work: Work) -> None:
    """Write the intrinsic angles a, b, c about x, y, z: R = Rx(a) Ry(b) Rz(c)."""
    R, values, g = work.X, work.values, work.gradients
    cosine = math.sqrt(R[0, 0] * R[0, 0] + R[0, 1] * R[0, 1])
    a, b = math.atan2(-R[1, 2], R[2, 2]), math.atan2(R[0, 2], cosine)
    values[3], values[4], values[5] = a, b, math.atan2(-R[0, 1], R[0, 0])
    sa, ca, sb, cb = math.sin(a), math.cos(a), R[0, 2], max(cosine, 1e-3)
    # omega = a' ex + b' Rx ey + c' Rx Ry ez, solved for the rates.
    g[5, 4], g[5, 5] = -sa / cb, ca / cb
    g[4, 4], g[4, 5] = ca, sa
    g[3, 3], g[3, 4], g[3, 5] = 1.0, -sb * g[5, 4], -sb * g[5, 5]


@bare_part
def _rotation_vector(norm: bool, work: Work) -> None:
    """Write the rotation vector or its norm, from the largest element of the quaternion."""
    R, values, g = work.X, work.values, work.gradients
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    if trace >= max(R[0, 0], R[1, 1], R[2, 2]):
        w = 1.0 + trace
        x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    elif R[0, 0] >= max(R[1, 1], R[2, 2]):
        w, x = R[2, 1] - R[1, 2], 1.0 + 2.0 * R[0, 0] - trace
        y, z = R[1, 0] + R[0, 1], R[0, 2] + R[2, 0]
    elif R[1, 1] >= R[2, 2]:
        w, y = R[0, 2] - R[2, 0], 1.0 + 2.0 * R[1, 1] - trace
        x, z = R[1, 0] + R[0, 1], R[2, 1] + R[1, 2]
    else:
        w, z = R[1, 0] - R[0, 1], 1.0 + 2.0 * R[2, 2] - trace
        x, y = R[0, 2] + R[2, 0], R[2, 1] + R[1, 2]
    s = math.sqrt(x * x + y * y + z * z)
    angle = 2.0 * math.atan2(s, abs(w))
    scale = math.copysign(angle / s, w) if s > _TINY else 0.0
    x, y, z = scale * x, scale * y, scale * z
    if norm:
        values[3] = angle
        scale = 1.0 / angle if angle > _TINY else 0.0
        g[3, 3], g[3, 4], g[3, 5] = scale * x, scale * y, scale * z
        return
    values[3], values[4], values[5] = x, y, z
    c = 1.0 / 12.0
    if angle > 1e-3:
        c = 1.0 / (angle * angle) - 1.0 / (2.0 * angle * math.tan(0.5 * angle))
    square = angle * angle
    g[3, 3], g[4, 4], g[5, 5] = (
        1.0 + c * (x * x - square),
        1.0 + c * (y * y - square),
        1.0 + c * (z * z - square),
    )
    g[3, 4], g[3, 5] = c * x * y + 0.5 * z, c * x * z - 0.5 * y
    g[4, 3], g[4, 5] = c * x * y - 0.5 * z, c * y * z + 0.5 * x
    g[5, 3], g[5, 4] = c * x * z + 0.5 * y, c * y * z - 0.5 * x


@bare_part
def _sight(sensor: bool, work: Work) -> None:
    """Write view angle (between the axes of sensor and target) and range angle.

    The axes are z of both frames: the sensor looks along its own; the target's points to the
    sensor.
    """
    X, values, g = work.X, work.values, work.gradients
    ax, ay, az = X[0, 2], X[1, 2], X[2, 2]
    values[3] = math.acos(min(1.0, max(-1.0, -az)))
    sine = max(math.sqrt(ax * ax + ay * ay), 1e-3)
    g[3, 3], g[3, 4] = ay / sine, -ax / sine
    length = math.sqrt(X[0, 3] ** 2 + X[1, 3] ** 2 + X[2, 3] ** 2)
    far = max(length, _TINY)
    px, py, pz = X[0, 3] / far, X[1, 3] / far, X[2, 3] / far
    cosine = -(ax * px + ay * py + az * pz) if sensor else pz
    cosine = min(1.0, max(-1.0, cosine))
    values[4] = math.acos(cosine)
    sine = max(math.sqrt(1.0 - cosine * cosine), 1e-3)
    # d cos / d position, then d cos / d rotation
    if sensor:
        dot = -cosine
        g[4, 0], g[4, 1], g[4, 2] = (
            (ax - dot * px) / (far * sine),
            (ay - dot * py) / (far * sine),
            (az - dot * pz) / (far * sine),
        )
        g[4, 3], g[4, 4], g[4, 5] = (
            (ay * pz - az * py) / sine,
            (az * px - ax * pz) / sine,
            (ax * py - ay * px) / sine,
        )
    else:
        g[4, 0], g[4, 1], g[4, 2] = (
            pz * px / (far * sine),
            pz * py / (far * sine),
            (pz * pz - 1.0) / (far * sine),
        )

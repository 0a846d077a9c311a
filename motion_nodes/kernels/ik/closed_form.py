# SPDX-License-Identifier: Apache-2.0
"""All joint angles of a 6R arm for a given displacement, in closed form.

The arm is a product of exponentials: ``D = e1 e2 e3 e4 e5 e6`` is the displacement of its last link
from the zero configuration, where ``e_i`` rotates about the line through the point ``p_i`` with
direction ``h_i``, as located at zero. Two kinds of arms are supported:

- a *spherical wrist*: the last three axes intersect in a point, see
  :mod:`motion_nodes.kernels.ik.spherical_wrist`.
- *three parallel axes*, the second to the fourth, and the last two intersect in a point w. Source:
  K. P. Hawkins, "Analytic inverse kinematics for the Universal Robots UR-5/UR-10 arms", Georgia
  Tech, 2013, here coordinate-free.

Angles are exact up to rounding if the axes satisfy these conditions exactly. Results are
candidates: they are not verified here.
"""

from __future__ import annotations

from motion_nodes.kernels.ik.spherical_wrist import spherical_wrist
from motion_nodes.kernels.ik.subproblems import (
    Vector,
    across,
    along,
    angle_to,
    angles_to_distance,
    angles_to_plane,
    back,
    dot,
    length,
    minus,
    row,
    times,
    turned,
    within,
)
from motion_nodes.kernels.jit import part
from motion_nodes.typing import Array

THREE_PARALLEL = 0
MOST = 8
"""Max number of solutions of any arm."""


@part
def closed_form(
    form: int,
    h: Array,
    p: Array,
    R: Array,
    t: Vector,
    usual: Array,
    room: Array,
    slack: float,
    out: Array,
) -> int:
    """Write all candidate solutions of an arm.

    Args:
        form: ``THREE_PARALLEL``, or a constant of :mod:`motion_nodes.kernels.ik.spherical_wrist`.
        h: unit directions of the axes, shape (6, 3).
        p: points on the axes, shape (6, 3) [m]; intersecting axes: their intersection; parallel
            axes: points in one plane perpendicular to them.
        R: rotation of the displacement, shape (3, 3).
        t: translation of the displacement [m], shape (3,).
        usual: values of joints that are undetermined (singular configurations) [rad], shape (6,).
        room: lower limits and ranges of the joints [rad], shape (2, 6). Most candidates outside are
            omitted; written ones may still be outside.
        slack: tolerance by which a cosine may exceed 1, because of rounding or of axes that satisfy
            the conditions only approximately.
        out: the candidates [rad], shape (MOST, 6).

    Returns:
        Number of candidates written.
    """
    if form == THREE_PARALLEL:
        return _three_parallel(h, p, R, t, usual, room, slack, out)
    return spherical_wrist(form, h, p, R, t, usual, room, slack, out)


@part
def _three_parallel(
    h: Array, p: Array, R: Array, t: Vector, usual: Array, room: Array, slack: float, out: Array
) -> int:
    """Solve an arm with axes 2, 3, 4 parallel and 5, 6 intersecting."""
    h1, h2, h3, h5, h6 = row(h, 0), row(h, 1), row(h, 2), row(h, 4), row(h, 5)
    p1, p2, p3, p4, w = row(p, 0), row(p, 1), row(p, 2), row(p, 3), row(p, 4)
    way3, way4 = dot(h2, h3), dot(h2, row(h, 3))
    side, arm, reach = across(h2), minus(p4, p3), minus(p2, p3)
    # Joints 2 to 4 preserve the height of w along h2, so joint 1 must establish it.
    W = along(times(R, w), 1.0, t)
    wrist = minus(W, p1)
    n1, a1, b1 = angles_to_plane(h2, h1, wrist, dot(h2, minus(w, p1)), -usual[0], slack)
    count = 0
    for i1 in range(n1):
        q1 = -(b1 if i1 else a1)
        if not within(room, 0, q1):
            continue
        # They also preserve h2: its angle to h6 depends on joint 5 alone.
        height = dot(h2, turned(h1, -q1, times(R, h6)))
        n5, a5, b5 = angles_to_plane(h2, h5, h6, height, usual[4], slack)
        for i5 in range(n5):
            q5 = b5 if i5 else a5
            if not within(room, 4, q5):
                continue
            seen = back(R, turned(h1, q1, h2))
            q6 = angle_to(h6, seen, turned(h5, -q5, h2), usual[5])
            if not within(room, 5, q6):
                continue
            # Total rotation of joints 2 to 4.
            y = times(R, turned(h6, -q6, turned(h5, -q5, side)))
            total = angle_to(h2, side, turned(h1, -q1, y), 0.0)
            # Position of axis 4 after joints 2 and 3: a planar two-link arm.
            g = turned(h6, -q6, turned(h5, -q5, minus(p4, w)))
            g = along(times(R, g), 1.0, wrist)
            g = along(minus(p1, p2), 1.0, turned(h1, -q1, g))
            n3, a3, b3 = angles_to_distance(h3, arm, reach, length(g), usual[2], slack)
            for i3 in range(n3):
                q3 = b3 if i3 else a3
                if not within(room, 2, q3):
                    continue
                q2 = angle_to(h2, minus(turned(h3, q3, arm), reach), g, usual[1])
                out[count, 0], out[count, 1], out[count, 2] = q1, q2, q3
                out[count, 3] = way4 * (total - q2 - way3 * q3)
                out[count, 4], out[count, 5] = q5, q6
                count += 1
    return count

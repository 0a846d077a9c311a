# SPDX-License-Identifier: Apache-2.0
"""Memory of the rollouts: a table of integers and addresses, in units of 8 bytes.

All arrays are float32 unless noted; everything is in SI units and in the robot's base frame. A
block is one sample per lane; the values of its samples are adjacent.
"""

from __future__ import annotations

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.memory_layout import FieldLayout, Fields

ROW = 20
"""Values per obstacle: rotation (9, row-major) and translation (3) from the base frame to its own,
sizes of its formula (3), rounding radius, then its bounding sphere: centre (3) and radius."""
JOINT_FIELDS = ("qd", "qdd", "speed", "acceleration", "jerk", "posture", "scale")
"""Velocity and acceleration at the start, limits of velocity, acceleration and jerk, posture, and
weight of the joint in the distance from the goal."""
WEIGHTS = (
    *("margin", "self_margin", "world", "self", "collision", "position", "rotation", "goal"),
    *(
        "effort",
        "posture",
        "terminal",
        "tail",
        "tail_limit",
        "dt",
        "response",
        "discount",
        "clearance",
        "away",
    ),
)
"""Margins [m]; weights of the terms of the cost; time step [s]; response of the tracking law [1/s];
discount of the cost per step; min distance of a free configuration [m]; inverse of the distance
from the goal within which the costs of the margins decrease."""
OUTPUTS = ("cost", "clearance", "blocked", "distance", "free")
"""Results per sample: cost; min distance over the horizon, at most the margin [m]; cost of
collisions on the straight line from its end to its goal; distance of its end from its goal; number
of free configurations on that line before the first one that is not."""

FIELDS = FieldLayout(
    place=1,  # address of the robot's function: joint positions in lanes -> poses of groups
    joints=1,  # number of active joints, the first inputs of that function
    inputs=1,
    standing=1,  # positions of the other joints [rad or m]
    groups=1,
    bodies=1,
    spheres=1,
    world_bodies=1,  # number of bodies that avoid the world; they are the first ones
    body_groups=1,  # int32
    body_firsts=1,  # first sphere of each body, and the total, int32
    body_centres=1,  # bounding spheres in the groups' frames, (bodies, 3)
    body_radii=1,
    sphere_centres=1,  # (spheres, 3)
    sphere_radii=1,
    pairs=1,
    pair_bodies=1,  # (pairs, 2) int32
    tool_group=1,
    tool=1,  # position of the tool in its group (3), of its target (3), R* R_GT^T (9)
    steps=1,
    knots=1,
    tail=1,  # number of configurations on the straight line to the goal
    tail_step=1,  # step whose obstacles are checked against these configurations
    blocks=1,
    joint_values=1,  # (joints, JOINT_FIELDS)
    weights=1,  # in the order of WEIGHTS
    starts=1,  # positions at the start, (blocks, joints, lanes)
    basis=1,  # attractor at each step as a combination of knots, (steps, knots)
    attractors=1,  # (blocks, knots, joints, lanes)
    goals=1,  # (blocks, joints, lanes)
    out=1,  # (blocks, OUTPUTS, lanes)
    obstacles=1,  # of each shape the address of an array (steps, count, ROW), and count, int64
)


def table_of(flow: FunctionBuilder) -> Fields:
    """Return the table, the argument ``h`` of a function."""
    return Fields(flow.pointer("h"), FIELDS)

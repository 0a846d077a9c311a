# SPDX-License-Identifier: Apache-2.0
"""Objects before an arm, with which its tasks can be tried at once in the simulation."""

from __future__ import annotations

import math

from motion_nodes.model.robot import Robot

REACH_SHARE = 0.33
"""Distance of the objects from the base of the arm, as a share of its stretched length."""
LARGE_ARM = 0.8
"""Stretched length from which objects have their full size [m]."""
EXAMPLES = ("put the red cube on the shelf", "pick up the can", "stack the blue cube on the shelf")
"""Sentences for these objects."""


def table_objects(robot: Robot, floor_height: float) -> tuple[str, ...]:
    """Return the objects of a table scene, as ``motion up --object`` takes them.

    Two cubes, a can and a shelf stand before the arm, on the floor if it is at the height of the
    root link, else on a table.

    Args:
        robot: an arm with fingers, fixed, at the origin of the world.
        floor_height: height of the floor in the world [m].
    """
    group = robot.groups["arm"]
    length = _stretched(robot, group.joints, group.tip)
    scale = 1.0 if length >= LARGE_ARM else max(0.5, length / LARGE_ARM)
    d, edge = REACH_SHARE * length, round(0.04 * scale, 3)
    can, shelf = (round(0.025 * scale, 3), round(0.1 * scale, 3)), round(0.2 * scale, 3)
    words = [
        _word("red_cube", "box", (edge,) * 3, 0.1, (d, 0.33 * d), edge),
        _word("blue_cube", "box", (edge,) * 3, 0.1, (1.1 * d, 0.05 * d), edge),
        _word("can", "cylinder", can, 0.1, (0.85 * d, 0.6 * d), can[1]),
        _word("shelf", "box", (shelf, shelf, 0.5 * shelf), 20.0, (1.1 * d, -0.5 * d), 0.5 * shelf),
    ]
    if floor_height < 0.0:
        # Its top is at the height of the root link, beyond the mount of the arm.
        depth, width = 0.9 * d, 1.9 * d
        center = (1.05 * d, 0.05 * d)
        table = _word("table", "box", (depth, width, -floor_height), 200.0, center, floor_height)
        words.insert(0, table)
    return tuple(words)


def _word(
    name: str,
    shape: str,
    size: tuple[float, ...],
    mass: float,
    at: tuple[float, float],
    height: float,
) -> str:
    sizes = ",".join(f"{x:.4g}" for x in size)
    return f"{name}:={shape}:{sizes}:{mass:g}@{at[0]:.3f},{at[1]:.3f},{0.5 * height:.4f}"


def _stretched(robot: Robot, joints: tuple[str, ...], tip: str | None) -> float:
    """Return the sum of the distances between the joints of an arm, up to its tip [m]."""
    tree, length = robot.tree, 0.0
    link = tip or tree.joints[joints[-1]].child
    parents = {joint.child: joint for joint in tree.joints.values()}
    while link in parents:
        joint = parents[link]
        length += math.sqrt(float((joint.X_PJ[:3, 3] ** 2).sum()))
        if joint.name == joints[0]:
            break
        link = joint.parent
    return length

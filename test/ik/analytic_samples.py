# SPDX-License-Identifier: Apache-2.0
"""Arms with closed forms: known ones by DH tables, others by the arrangement of their axes."""

from dataclasses import replace

import numpy as np

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Joint, JointKind, KinematicTree, Link, frozen
from motion_nodes.extras.compat.dh import DhRow, tree_from_dh

RIGHT = np.pi / 2
TOOL = from_xyz_rpy((0.02, -0.03, 0.11), (0.3, -0.7, 1.1))
X, Y, Z = np.eye(3)


def dh_chain(name, table, lower=-np.pi, upper=np.pi) -> IkChain:
    """Return the chain of a standard table (a, alpha, d)."""
    rows = [replace(DhRow(*row), lower=lower, upper=upper) for row in table]
    return IkChain(tree_from_dh(rows, "standard", name=name, tool=TOOL), "base", "tool")


def line_chain(name, h, p, lower=-np.pi, upper=np.pi) -> IkChain:
    """Return a chain whose axes have these directions and points at zero."""
    return IkChain(line_tree(name, h, p, lower, upper), "link0", "tool")


def line_tree(name, h, p, lower=-np.pi, upper=np.pi) -> KinematicTree:
    """Return the tree of such a chain."""
    joints, before = {}, np.zeros(3)
    for i, (axis, point) in enumerate(zip(h, p, strict=True), start=1):
        axis = np.asarray(axis, float) / np.linalg.norm(axis)
        at = from_xyz_rpy(point - before)
        joints[f"joint{i}"] = Joint(
            f"joint{i}",
            JointKind.REVOLUTE,
            f"link{i - 1}",
            f"link{i}",
            frozen(at),
            frozen(axis),
            lower,
            upper,
        )
        before = point
    last = f"link{len(h)}"
    joints["tool"] = Joint("tool", JointKind.FIXED, last, "tool", frozen(TOOL), frozen(np.zeros(3)))
    links = ["link0", *(joint.child for joint in joints.values())]
    return KinematicTree(name, {n: Link(n) for n in links}, joints)


def backwards(h, p):
    """Return the axes of an arm mounted by its tip."""
    return [-axis for axis in h[::-1]], p[::-1]


def random_axes(rng, count):
    h = rng.normal(size=(count, 3))
    return [*(h / np.linalg.norm(h, axis=1)[:, None])]


def wrist_arm(seed, first_three):
    """Return axes: three given ones (directions, points), and a spherical wrist."""
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.3, 0.6, 3)
    h, p = first_three(rng)
    axes = random_axes(rng, 3)
    along = rng.uniform(-0.3, 0.3, 3)
    return [*h, *axes], [*p, *(w + s * axis for s, axis in zip(along, axes, strict=True))]


def meeting(rng):
    h = random_axes(rng, 3)
    at = rng.uniform(-0.3, 0.3, 3)
    return h, [at + 0.2 * h[0], at - 0.1 * h[1], rng.uniform(-0.3, 0.3, 3)]


def parallel_12(rng):
    h = random_axes(rng, 2)
    return [h[0], -h[0], h[1]], rng.uniform(-0.4, 0.4, (3, 3))


def parallel_23(rng):
    h = random_axes(rng, 2)
    return [h[0], h[1], -h[1]], rng.uniform(-0.4, 0.4, (3, 3))


def anyhow(rng):
    return random_axes(rng, 3), rng.uniform(-0.4, 0.4, (3, 3))


def three_parallel(seed):
    rng = np.random.default_rng(seed)
    h1, h2, h5, h6 = random_axes(rng, 4)
    p = [*rng.uniform(-0.5, 0.5, (5, 3))]
    return [h1, h2, -h2, h2, h5, h6], [*p, p[4] + 0.1 * h5 - 0.2 * h6]


def iiwa() -> IkChain:
    """Return an arm with a shoulder and a wrist of three axes each, and an elbow."""
    heights = (0.34, 0.34, 0.34, 0.74, 1.14, 1.14, 1.14)
    axes = (Z, Y, Z, -Y, Z, Y, Z)
    return line_chain("iiwa", axes, [height * Z for height in heights], -2.9, 2.9)


SIX = {
    "ur10e": lambda: IkChain.of_group(load_robot("ur10e"), "arm"),
    # Universal Robots, "DH parameters for calculations of kinematics and dynamics": UR5.
    "ur5": lambda: dh_chain(
        "ur5",
        [
            (0, RIGHT, 0.089159),
            (-0.425, 0, 0),
            (-0.39225, 0, 0),
            (0, RIGHT, 0.10915),
            (0, -RIGHT, 0.09465),
            (0, 0, 0.0823),
        ],
    ),
    # P. Corke, B. Armstrong-Helouvry, "A search for consensus among model parameters reported for
    # the PUMA 560 robot", ICRA 1994.
    "puma560": lambda: dh_chain(
        "puma560",
        [
            (0, RIGHT, 0),
            (0.4318, 0, 0),
            (0.0203, -RIGHT, 0.15005),
            (0, RIGHT, 0.4318),
            (0, -RIGHT, 0),
            (0, 0, 0),
        ],
    ),
    # Like an industrial arm with a shoulder offset: axes 1 and 2 do not meet.
    "shoulder_ahead": lambda: dh_chain(
        "shoulder_ahead",
        [
            (0.15, RIGHT, 0.45),
            (0.59, 0, 0),
            (0.13, RIGHT, 0),
            (0, -RIGHT, 0.64),
            (0, RIGHT, 0),
            (0, 0, 0.095),
        ],
    ),
    "meeting": lambda: line_chain("meeting", *wrist_arm(1, meeting)),
    "parallel_12": lambda: line_chain("parallel_12", *wrist_arm(2, parallel_12)),
    "parallel_23": lambda: line_chain("parallel_23", *wrist_arm(3, parallel_23)),
    "anyhow": lambda: line_chain("anyhow", *wrist_arm(4, anyhow)),
    "three_parallel": lambda: line_chain("three_parallel", *three_parallel(5)),
    "meeting_back": lambda: line_chain("meeting_back", *backwards(*wrist_arm(6, meeting))),
    "parallel_12_back": lambda: line_chain("p12_back", *backwards(*wrist_arm(7, parallel_12))),
    "parallel_23_back": lambda: line_chain("p23_back", *backwards(*wrist_arm(8, parallel_23))),
    "anyhow_back": lambda: line_chain("anyhow_back", *backwards(*wrist_arm(9, anyhow))),
    "three_parallel_back": lambda: line_chain("three_back", *backwards(*three_parallel(10))),
}
"""Arms of six joints by name."""

SEVEN = {
    "franka": lambda: IkChain.of_group(load_robot("franka"), "arm"),
    "iiwa": iiwa,
}
"""Arms of seven joints by name."""

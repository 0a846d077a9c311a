# SPDX-License-Identifier: Apache-2.0
"""Analytic solvers of inverse kinematics that are measured side by side.

Each returns all solutions that it finds for a pose, called as its documentation shows. What brings
a pose to a solver's own frames is done before the clock runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.ik.analytic.lines import lines_of
from motion_nodes.ik.analytic.solver import AnalyticIk
from motion_nodes.ik.chain import IkChain
from motion_nodes.model.poses import from_xyz_rpy, inverse

VALUES = 25
"""Values of the Panda's last joint that are tried."""

Pose = np.ndarray
Configurations = Sequence[np.ndarray] | np.ndarray


@dataclass(frozen=True)
class Contender:
    """A solver for one arm."""

    solve: Callable[[Pose], Configurations]
    """From a pose in its own frames to configurations."""
    before: Pose
    """Its base: what a pose is multiplied by from the left."""
    behind: Pose
    """Its tip: what a pose is multiplied by from the right."""


def placed(
    solve: Callable[[Pose], Configurations],
    forward: Callable[[np.ndarray], Pose],
    chain: IkChain,
    tolerance: float = 1e-6,
) -> Contender:
    """Return a solver with its frames found by its own forward kinematics.

    Raises:
        ImportError: its arm is another one.
    """
    q1, q2 = chain.centre + 0.1, chain.centre - 0.2
    for turn in (0.0, np.pi):
        before = from_xyz_rpy((0, 0, 0), (0, 0, turn))
        behind = inverse(before @ chain.kinematics.pose(q1, chain.tip)) @ forward(q1)
        away = before @ chain.kinematics.pose(q2, chain.tip) @ behind - forward(q2)
        if np.abs(away).max() < tolerance:
            return Contender(solve, before, behind)
    raise ImportError(f"its arm differs from ours by {np.abs(away).max():.2g}")


def ours(chain: IkChain) -> Contender:
    """Return this package's."""
    solver = AnalyticIk(chain)
    values = _last_joint(chain) if solver.free_joint else None

    def solve(X: Pose) -> Configurations:
        return solver.solutions(X, free_values=values, turns="nearest")

    return Contender(solve, np.eye(4), np.eye(4))


def eaik(chain: IkChain) -> Contender:
    """Return EAIK: C++, for arms of six, without limits."""
    if len(chain.joint_names) != 6:
        raise ImportError("it is for arms of six joints")
    from eaik.IK_HP import HPRobot

    lines, home = lines_of(chain)
    offsets = np.diff(np.vstack([np.zeros(3), lines.p, home[:3, 3]]), axis=0)
    robot = HPRobot(lines.h, offsets)
    if not robot.hasKnownDecomposition():
        raise ImportError("it knows no form for this arm")

    def solve(X: Pose) -> Configurations:
        return robot.IK(X).Q

    return placed(solve, robot.fwdKin, chain)


def ssik(chain: IkChain) -> Contender:
    """Return ssik: C++, with limits, each solution checked; samples joint 7 as it sees fit."""
    if chain.robot_name == "franka":
        from ssik.prebuilt import franka_panda_ik as arm
    else:
        from ssik.prebuilt import ur10e_ik as arm

    def solve(X: Pose) -> Configurations:
        return [found.q for found in arm.solve(X, enumerate_windings=False)]

    return placed(solve, arm.fk, chain)


def ur_analytic_ik(chain: IkChain) -> Contender:
    """Return ur-analytic-ik: C++, without limits."""
    if chain.robot_name != "ur10e":
        raise ImportError("it is for arms of Universal Robots")
    from ur_analytic_ik import ur10e

    return placed(ur10e.inverse_kinematics, lambda q: ur10e.forward_kinematics(*q), chain, 1e-4)


def frankik(chain: IkChain) -> Contender:
    """Return frankik: C++, the Panda only."""
    if chain.robot_name != "franka":
        raise ImportError("it is for the Panda")
    import frankik as arm

    def solve(X: Pose) -> Configurations:
        found = arm.ik_sample_q7(X, None, False, VALUES, 332.0, True)
        return [q for q in found if not np.isnan(q).any()]

    # It is solved for the flange, while its forward kinematics is that of the hand's tip.
    flange = from_xyz_rpy((0, 0, -0.1034), (0, 0, np.pi / 4))
    return placed(solve, lambda q: arm.fk(q) @ flange, chain)


def geofik(chain: IkChain) -> Contender:
    """Return GeoFIK: C++, the Panda only, without limits; called for each value of joint 7."""
    if chain.robot_name != "franka":
        raise ImportError("it is for the Panda")
    import geofikpy as arm

    values = _last_joint(chain)

    def solve(X: Pose) -> Configurations:
        place, turn, found = X[:3, 3], X[:3, :3].ravel(), []
        for value in values:
            solutions, count = arm.franka_ik_q7(place, turn, value)
            found += solutions[:count]
        return np.array(found)

    return placed(solve, arm.franka_fk, chain)


def _last_joint(chain: IkChain) -> np.ndarray:
    return np.linspace(chain.lower[-1], chain.upper[-1], VALUES)


CONTENDERS: dict[str, Callable[[IkChain], Contender]] = {
    "motion_nodes analytic": ours,
    "EAIK (C++)": eaik,
    "ssik (C++)": ssik,
    "ur-analytic-ik (C++)": ur_analytic_ik,
    "frankik (C++)": frankik,
    "GeoFIK (C++)": geofik,
}

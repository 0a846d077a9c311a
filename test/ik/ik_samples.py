# SPDX-License-Identifier: Apache-2.0
"""Chains for the tests of inverse kinematics, with tip poses by Pinocchio as oracle."""

import functools

import numpy as np
from kernels.random_trees import Oracle, random_tree

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkSettings, IkTolerance
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import inverse

TIGHT = IkTolerance(1e-6, 1e-6)


load = functools.cache(load_robot)


@functools.cache
def solver_of(robot: str = "franka", tolerance: IkTolerance = TIGHT) -> LeastSquaresIk:
    chain = IkChain.of_group(load(robot), "arm")
    return LeastSquaresIk(chain, IkSettings(tolerance=tolerance, timeout=5.0))


@functools.cache
def oracle_of(robot: str = "franka") -> Oracle:
    return Oracle(load(robot).tree)


def pose_of(robot: str, chain: IkChain, q: np.ndarray) -> np.ndarray:
    """Return the pose of a chain's tip in its base by Pinocchio, shape (4, 4)."""
    model = load(robot)
    everything = model.home.copy()
    everything[model.indices(list(chain.joint_names))] = q
    return oracle_of(robot).pose(everything, chain.tip, chain.base)


def draw(chain: IkChain, count: int, seed: int) -> np.ndarray:
    """Return joint values within the limits, shape (count, n)."""
    rng = np.random.default_rng(seed)
    low, high = np.maximum(chain.lower, -np.pi), np.minimum(chain.upper, np.pi)
    return rng.uniform(low, high, (count, len(low)))


class RandomChain:
    """A random tree with limits, as a chain between two of its frames, and its oracle."""

    def __init__(self, seed: int, joints: int, base: str | None = None) -> None:
        self.tree = random_tree(seed, joints)
        rng = np.random.default_rng(seed)
        names = self.tree.joint_names
        self.lower, self.upper = rng.uniform(-2.5, -0.5, joints), rng.uniform(0.5, 2.5, joints)
        wide = np.full(joints, np.inf)
        limits = JointLimits(names, self.lower, self.upper, wide, wide, wide, wide)
        self.tip = max(self.tree.frame_names, key=self._moving)
        self.chain = IkChain(self.tree, base or self.tree.root, self.tip, limits=limits)
        self.oracle = Oracle(self.tree)

    def _moving(self, frame: str) -> int:
        return len(self.tree.path(self.tree.root, frame))

    def pose(self, q: np.ndarray) -> np.ndarray:
        everything = np.zeros(len(self.tree.joint_names))
        for name, value in zip(self.chain.joint_names, q, strict=True):
            everything[self.tree.joint_names.index(name)] = value
        X_RB = self.oracle.pose(everything, self.chain.base)
        return inverse(X_RB) @ self.oracle.pose(everything, self.tip)

# SPDX-License-Identifier: Apache-2.0
"""Analytic solvers of the sample arms, and a check of their lists of solutions."""

import functools

import numpy as np
from ik.analytic_samples import SEVEN, SIX

from motion_nodes.core.ik.analytic_solver import AnalyticIk
from motion_nodes.core.ik.chain import IkChain


@functools.cache
def solver(name: str, free_joint: str | None = None) -> AnalyticIk:
    return AnalyticIk((SIX | SEVEN)[name](), free_joint=free_joint)


def draw(chain: IkChain, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(chain.lower, chain.upper, (count, len(chain.lower)))


def with_the_free_joint_known(ik: AnalyticIk, q: np.ndarray) -> dict:
    if ik.free_joint is None:
        return {}
    return {"free_values": [q[ik.joint_names.index(ik.free_joint)]]}


def check(ik: AnalyticIk, Q: np.ndarray, X: np.ndarray) -> None:
    """Check that every row is a solution by forward kinematics, within the limits, and distinct."""
    chain = ik.chain
    assert (Q >= chain.lower).all()
    assert (Q <= chain.upper).all()
    for q in Q:
        Y = chain.kinematics.pose(q, chain.tip)
        np.testing.assert_allclose(Y[:3, 3], X[:3, 3], rtol=0, atol=1.1e-9)
        np.testing.assert_allclose(Y[:3, :3], X[:3, :3], rtol=0, atol=1.5e-9)
    for i, q in enumerate(Q):
        assert all(np.abs(q - other).max() > 1e-7 for other in Q[:i])

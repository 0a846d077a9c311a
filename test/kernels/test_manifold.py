# SPDX-License-Identifier: Apache-2.0
"""Task constraints in kernels: values by SciPy, derivatives by differences, projection."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import motion_nodes as mn
from motion_nodes.core.planning.constraint_set import ConstraintSet
from motion_nodes.core.planning.path_constraints import ROTATIONS, SHAPES
from motion_nodes.core.robot.poses import inverse
from motion_nodes.kernels.search import manifold as kernel

ARM = mn.load_robot("franka")["arm"]
LINK = "panda_hand"
TOLERANCES = (0.1, 0.1, 0.1, 0.2, 0.2, 0.2)
pytestmark = pytest.mark.timeout(900)  # compiles on a new machine
RNG = np.random.default_rng(4)


def random_pose() -> np.ndarray:
    X = np.eye(4)
    X[:3, :3] = Rotation.random(random_state=RNG).as_matrix()
    X[:3, 3] = RNG.normal(size=3)
    return X


def measured(constraints: ConstraintSet, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tasks = len(constraints.manifold.both)
    values, jacobian = np.empty((tasks, 6)), np.empty((tasks, 6, len(q)))
    kernel.components(constraints.manifold, q, values, jacobian)
    return values, jacobian


@pytest.fixture(scope="module")
def every():
    """Each shape with each rotation, and lines of sight; random frames."""
    lower = tuple(-x for x in TOLERANCES)
    given = [
        mn.TaskSpaceRegion(LINK, random_pose(), lower, TOLERANCES, random_pose(), shape, rotation)
        for shape in SHAPES
        for rotation in ROTATIONS
    ]
    given += [
        mn.LineOfSight(LINK, random_pose(), random_pose(), k, 0.3, 0.3) for k in (True, False)
    ]
    return given, ConstraintSet(ARM.checker(), given)


def test_components_are_those_of_the_poses(every):
    given, constraints = every
    for q in ARM.random(20, seed=1):
        values, _ = measured(constraints, q)
        for constraint, found in zip(given[:-2], values[:-2], strict=True):
            X = inverse(constraint.X_BR) @ ARM.fk(q, LINK) @ constraint.X_LT
            turn = Rotation.from_matrix(X[:3, :3])
            p = X[:3, 3]
            if constraint.shape == "box":
                assert found[:3] == pytest.approx(p, abs=1e-9)
            elif constraint.shape == "ball":
                assert found[0] == pytest.approx(np.linalg.norm(p), abs=1e-9)
            else:
                assert (found[0], found[2]) == pytest.approx((math.hypot(*p[:2]), p[2]), abs=1e-9)
            if constraint.rotation == "euler_xyz":
                assert found[3:] == pytest.approx(turn.as_euler("XYZ"), abs=1e-7)
            elif constraint.rotation == "rotation_vector":
                assert found[3:] == pytest.approx(turn.as_rotvec(), abs=1e-7)
            else:
                assert found[3] == pytest.approx(turn.magnitude(), abs=1e-7)
        for sight, found in zip(given[-2:], values[-2:], strict=True):
            moving, fixed = ARM.fk(q, LINK) @ sight.X_LP, sight.X_BR
            sensor, target = (moving, fixed) if sight.sensor_on_link else (fixed, moving)
            towards = target[:3, 3] - sensor[:3, 3]
            towards /= np.linalg.norm(towards)
            view = math.acos(np.clip(sensor[:3, 2] @ -target[:3, 2], -1.0, 1.0))
            within = math.acos(np.clip(sensor[:3, 2] @ towards, -1.0, 1.0))
            assert found[3:5] == pytest.approx((view, within), abs=1e-7)


def test_derivatives_agree_with_differences(every):
    _, constraints = every
    step = 1e-6
    for q in ARM.random(10, seed=2):
        _, jacobian = measured(constraints, q)
        for i in range(len(q)):
            d = np.zeros(len(q))
            d[i] = step
            rate = (measured(constraints, q + d)[0] - measured(constraints, q - d)[0]) / (2 * step)
            smooth = np.abs(rate) < 1e3  # angles jump by a turn
            assert jacobian[:, :, i][smooth] == pytest.approx(rate[smooth], abs=1e-4)


def test_projected_configurations_satisfy_the_constraints():
    up = mn.TaskSpaceRegion.rotation_within(LINK, np.diag([1.0, -1.0, -1.0]), (0.1, 0.1, math.inf))
    constraints = ConstraintSet(ARM.checker(), [up, mn.JointBand("panda_joint1", -0.5, 0.5)])
    Q, converged = constraints.projected(ARM.random(200, seed=3))
    assert converged.mean() > 0.9
    assert (constraints.excess(Q[converged]) <= 1.0).all()
    assert np.abs(Q[converged, 0]).max() <= 0.5
    tilt = np.arccos(np.clip(-ARM.fk_batch(Q[converged], LINK)[:, 2, 2], -1.0, 1.0))
    assert tilt.max() <= math.hypot(0.1, 0.1)


def test_one_of_several_regions_is_enough():
    here, there = ARM.fk(ARM.state("ready"), LINK), mn.pose(xyz=(0.3, 0.4, 0.5))
    upper = (0.05, 0.0, 0.0, math.inf, math.inf, math.inf)
    lower = tuple(-x for x in upper)
    near, far = (mn.TaskSpaceRegion(LINK, X, lower, upper, shape="ball") for X in (here, there))
    both = ConstraintSet(ARM.checker(), [near, far])
    either = ConstraintSet(ARM.checker(), [mn.RegionUnion((far, near))])
    q = ARM.state("ready")
    assert either.excess([q])[0] == 0.0
    assert not either.violations(q)
    (wrong,) = both.violations(q)
    assert wrong.excess == pytest.approx(np.linalg.norm(here[:3, 3] - there[:3, 3]) - 0.05)
    Q, converged = either.projected(ARM.random(50, seed=5))
    assert converged.mean() > 0.8, "near the middle, Newton steps may alternate between both"
    assert all(not either.violations(q) for q in Q[converged])


def test_regions_relative_to_a_moving_link():
    """Values by the poses of both links, derivatives by differences."""
    X_LR, X_LT = random_pose(), random_pose()
    upper = (0.1,) * 6
    region = mn.TaskSpaceRegion(
        LINK,
        X_LR,
        [-x for x in upper],
        upper,
        X_LT,
        rotation="rotation_vector",
        reference_link="panda_link3",
    )
    constraints = ConstraintSet(ARM.checker(), [region])
    for q in ARM.random(10, seed=5):
        values, jacobian = measured(constraints, q)
        X = inverse(ARM.fk(q, "panda_link3") @ X_LR) @ ARM.fk(q, LINK) @ X_LT
        turn = Rotation.from_matrix(X[:3, :3]).as_rotvec()
        assert values[0] == pytest.approx([*X[:3, 3], *turn], abs=1e-9)
        for k, step in enumerate(1e-6 * np.eye(len(q))):
            ahead, behind = (measured(constraints, q + s * step)[0][0] for s in (1.0, -1.0))
            assert (ahead - behind) / 2e-6 == pytest.approx(jacobian[0, :, k], abs=1e-5)

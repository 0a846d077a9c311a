# SPDX-License-Identifier: Apache-2.0
"""Trees from Denavit-Hartenberg tables, against known poses and robots of the suite."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.random_trees import Oracle
from raised_errors import about

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse, multiply
from motion_nodes.errors import InvalidCommand, InvalidDescription
from motion_nodes.extras.compat.dh import DhRow, dh_transform, tree_from_dh
from motion_nodes.extras.compat.dual_quaternion import numeric_jacobian

RIGHT = np.pi / 2

# Franka Control Interface documentation, "Denavit-Hartenberg parameters" (Craig's convention).
PANDA = [
    DhRow(a, alpha, d)
    for a, d, alpha in [
        (0, 0.333, 0),
        (0, 0, -RIGHT),
        (0, 0.316, RIGHT),
        (0.0825, 0, RIGHT),
        (-0.0825, 0.384, -RIGHT),
        (0, 0, RIGHT),
        (0.088, 0, RIGHT),
    ]
]
FLANGE = from_xyz_rpy((0, 0, 0.107))

# Universal Robots, "DH parameters for calculations of kinematics and dynamics": UR10e (standard).
UR10E = [
    DhRow(a, alpha, d)
    for a, d, alpha in [
        (0, 0.1807, RIGHT),
        (-0.6127, 0, 0),
        (-0.57155, 0, 0),
        (0, 0.17415, RIGHT),
        (0, 0.11985, -RIGHT),
        (0, 0.11655, 0),
    ]
]


def panda() -> Kinematics:
    return Kinematics(tree_from_dh(PANDA, "modified", tool=FLANGE))


@pytest.mark.parametrize(
    ("q", "xyz", "R"),
    [
        ([0, -0.785, 0, -2.356, 0, 1.571, 0.785], [0.30702, 0, 0.59027], None),
        ([0] * 7, [0.088, 0, 0.926], None),
        (
            np.array([0, -1, 0, -3, 0, 2, 1]) * np.pi / 4,
            [0.306891, 0, 0.590282],
            [[0.7071, -0.7071, 0], [-0.7071, -0.7071, 0], [0, 0, -1]],
        ),
    ],
)
def test_the_panda_where_it_is_known_to_be(q, xyz, R):
    X = panda().pose(q, "tool")
    np.testing.assert_allclose(X[:3, 3], xyz, atol=5e-6)
    if R is not None:
        np.testing.assert_allclose(X[:3, :3], R, atol=1e-4)


def test_the_tables_are_the_robots_of_the_suite():
    rng = np.random.default_rng(1)
    ours = Kinematics(load_robot("franka").tree)
    for q in rng.uniform(-2, 2, (5, 7)):
        expected = ours.pose([*q, 0, 0], "panda_link8")
        np.testing.assert_allclose(panda().pose(q, "tool"), expected, atol=1e-12)
    ur = Kinematics(tree_from_dh(UR10E, "standard"))
    ours = Kinematics(load_robot("ur10e").tree, base="base")
    for q in rng.uniform(-2, 2, (5, 6)):
        np.testing.assert_allclose(ur.pose(q, "tool"), ours.pose(q, "tool0"), atol=1e-9)


@pytest.mark.parametrize("convention", ["standard", "modified"])
@pytest.mark.parametrize("seed", range(4))
def test_frames_are_products_of_the_rows(convention, seed):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["revolute", "prismatic"], 5)
    rows = [DhRow(*rng.uniform(-1, 1, 4), kind=str(kind)) for kind in kinds]
    base, tool = from_xyz_rpy([1, 2, 3], [0.1, 0.2, 0.3]), from_xyz_rpy([0, 0, 1], [1, 0, 0])
    tree = tree_from_dh(rows, convention, base=base, tool=tool)
    kinematics, oracle = Kinematics(tree), Oracle(tree)
    q = rng.uniform(-2, 2, 5)
    X = base
    for i, (row, value) in enumerate(zip(rows, q, strict=True), start=1):
        slides = row.kind == "prismatic"
        d, theta = row.d + value * slides, row.theta + value * (not slides)
        X = X @ dh_transform(row.a, row.alpha, d, theta, convention)
        np.testing.assert_allclose(kinematics.pose(q, f"link{i}"), X, atol=1e-13)
        np.testing.assert_allclose(oracle.pose(q, f"link{i}"), X, atol=1e-13)
    np.testing.assert_allclose(kinematics.pose(q, "tool"), X @ tool, atol=1e-13)
    np.testing.assert_allclose(
        kinematics.jacobian(q, "tool"), oracle.jacobian(q, "tool"), atol=1e-12
    )


def test_the_two_conventions_order_the_same_motions():
    about_x = from_xyz_rpy((0.3, 0, 0), (0.7, 0, 0))
    about_z = from_xyz_rpy((0, 0, 0.2), (0, 0, -0.4))
    standard = dh_transform(0.3, 0.7, 0.2, -0.4, "standard")
    modified = dh_transform(0.3, 0.7, 0.2, -0.4, "modified")
    np.testing.assert_allclose(standard, multiply(about_z, about_x), atol=1e-15)
    np.testing.assert_allclose(modified, multiply(about_x, about_z), atol=1e-15)
    np.testing.assert_allclose(inverse(modified) @ about_x @ about_z, np.eye(4), atol=1e-15)


def test_limits_and_names_go_into_the_tree():
    rows = [DhRow(0, 0, 1, lower=-1, upper=2, velocity=3), DhRow(0, 0, 1)]
    tree = tree_from_dh(rows, "modified", name="two", joint_names=["left", "right"])
    left = tree.joint("left")
    assert (left.lower, left.upper, left.velocity) == (-1, 2, 3)
    assert tree.joint("right").kind.name == "CONTINUOUS"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "rows"),
        (
            [DhRow(0, 0, 0)],
            {"convention": "criag"},
            "convention",
        ),
        ([DhRow(0, np.nan, 0)], {}, "alpha"),
        ([DhRow(0, 0, 0, kind="revolut")], {}, "kind"),
        ([DhRow(0, 0, 0, lower=2, upper=1)], {}, "limits"),
        ([DhRow(0, 0, 0, velocity=0)], {}, "velocity"),
        ([DhRow(0, 0, 0)], {"joint_names": ["a", "b"]}, "joint_names"),
        ([DhRow(0, 0, 0)] * 2, {"joint_names": ["a", "a"]}, "joint_names"),
        ([DhRow(0, 0, 0)], {"joint_names": ["base_to_link0"]}, "joint_names"),
        ([DhRow(0, 0, 0)], {"tool": np.eye(3)}, "tool"),
        ([DhRow(0, 0, 0)], {"base": 2 * np.eye(4)}, "base"),
    ],
)
def test_bad_tables_are_refused(rows, options, message):
    with pytest.raises(InvalidDescription, check=about(message)):
        tree_from_dh(rows, **{"convention": "modified", "name": "two", **options})


@pytest.mark.parametrize(
    ("names", "convention"),
    [(("classic", "distal", "Standard"), "standard"), (("craig", "proximal"), "modified")],
)
def test_usual_names_of_the_conventions(names, convention):
    other = {"standard": "modified", "modified": "standard"}[convention]
    row, values = DhRow(0.3, 0.7, 0.2), (0.3, 0.7, 0.2, -0.4)
    for name in names:
        np.testing.assert_array_equal(
            dh_transform(*values, name), dh_transform(*values, convention)
        )
        assert np.abs(dh_transform(*values, name) - dh_transform(*values, other)).max() > 0.05
        found, wanted = (Kinematics(tree_from_dh([row], word)) for word in (name, convention))
        np.testing.assert_array_equal(found.pose([0.5], "tool"), wanted.pose([0.5], "tool"))


@pytest.mark.parametrize("name", ["", "clasic", "Denavit", None, 3])
def test_unknown_conventions_are_refused_with_the_allowed_names(name):
    with pytest.raises(InvalidDescription):
        dh_transform(0.3, 0.7, 0.2, -0.4, name)


def test_the_length_of_q_is_checked():
    with pytest.raises(InvalidCommand):
        panda().pose([0] * 6, "tool")


@pytest.mark.parametrize("robot", ["franka", "ur10e"])
def test_the_numeric_jacobian_is_the_generated_one(robot):
    tree = load_robot(robot).tree
    kinematics = Kinematics(tree)
    tip = tree.frame_names[-1]
    for q in np.random.default_rng(2).uniform(-3, 3, (5, len(tree.joint_names))):
        J = numeric_jacobian(lambda q: kinematics.pose(q, tip), q)
        np.testing.assert_allclose(J, kinematics.jacobian(q, tip), atol=1e-9)


def test_the_numeric_jacobian_refuses_what_is_no_vector():
    with pytest.raises(InvalidCommand):
        numeric_jacobian(lambda q: np.eye(4), [np.nan])
    with pytest.raises(InvalidCommand):
        numeric_jacobian(lambda q: np.eye(4), [1.0], step=0.0)

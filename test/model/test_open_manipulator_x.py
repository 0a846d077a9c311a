# SPDX-License-Identifier: Apache-2.0
"""OpenManipulator-X against a closed form with ROBOTIS' numbers."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot

ROBOT = load_robot("open_manipulator_x")
SHOULDER = np.array([0.012, 0.0595])
"""Position of joint 2 in the base frame: x, z [m]."""
UPPER, FOREARM, HAND = (0.024, 0.128), (0.124, 0.0), (0.126, 0.0)
"""Offsets from joint to joint, and to the tool, at zero: forward, up [m]."""


def test_tool_is_that_of_a_turned_planar_chain() -> None:
    kinematics = Kinematics(ROBOT.tree)
    limits = ROBOT.limits
    for q in np.random.default_rng(5).uniform(limits.lower, limits.upper, (20, 5)):
        place, pitch = np.array([0.0, SHOULDER[1]]), 0.0
        for angle, (forward, up) in zip(q[1:4], (UPPER, FOREARM, HAND), strict=True):
            pitch += angle  # Positive angles bend forward.
            place += [
                forward * np.cos(pitch) + up * np.sin(pitch),
                up * np.cos(pitch) - forward * np.sin(pitch),
            ]
        X = kinematics.pose(q, "end_effector_link")
        expected = [SHOULDER[0] + place[0] * np.cos(q[0]), place[0] * np.sin(q[0]), place[1]]
        np.testing.assert_allclose(X[:3, 3], expected, atol=1e-9)
        assert X[2, 0] == pytest.approx(-np.sin(pitch), abs=1e-9)


def test_fingers_move_alike() -> None:
    kinematics = Kinematics(ROBOT.tree)
    q = ROBOT.named_state("open")
    left = kinematics.pose(q, "gripper_left_link")[:3, 3]
    right = kinematics.pose(q, "gripper_right_link")[:3, 3]
    assert np.linalg.norm(left - right) == pytest.approx(2.0 * (0.021 + 0.019))

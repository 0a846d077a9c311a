# SPDX-License-Identifier: Apache-2.0
"""Bounds of external input, and checks whose cost is linear in its size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from motion_nodes.core.robot import bounds
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.errors import InvalidCommand


@pytest.mark.parametrize("scale", [1e-11, 1e-3, 1.0, 1e3, 1e154, 1e155, 1e300, 1.7e308])
def test_the_norm_of_a_quaternion_does_not_overflow(scale):
    unit = np.array([0.5, -0.5, 0.5, 0.5])
    assert np.allclose(from_xyz_quat((0, 0, 0), unit * scale), from_xyz_quat((0, 0, 0), unit))


@pytest.mark.parametrize("quaternion", [(0, 0, 0, 0), (1e-13,) * 4, (math.inf, 0, 0, 0),
                                        (math.nan, 0, 0, 1), (1.0, 0.0, 0.0)])  # fmt: skip
def test_no_rotation_is_refused(quaternion):
    with pytest.raises(ValueError):
        from_xyz_quat((0, 0, 0), quaternion)


def test_numbers_beyond_a_bound_are_named():
    values = np.array([[0.0, math.nan], [math.inf, -2e4]])
    with pytest.raises(InvalidCommand):
        bounds.check_numbers(values, bounds.VELOCITY, "velocities", ["a", "b"])
    values[1, 1] = 1e4
    bounds.check_numbers(values, bounds.VELOCITY, "velocities")
    bounds.check_numbers([], bounds.VELOCITY, "velocities")


class Counting(str):
    """A name that counts how often names are hashed or compared."""

    calls = 0

    def __hash__(self) -> int:
        Counting.calls += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Counting.calls += 1
        return super().__eq__(other)


def test_looking_for_repeated_names_is_linear():
    def calls(count: int) -> int:
        names = [Counting(f"joint{i}") for i in range(count)]
        Counting.calls = 0
        assert bounds.repeated(names) == []
        return Counting.calls

    assert calls(20_000) <= 12 * calls(2000)
    assert bounds.repeated(["a", "b", "a", "c", "a", "b"]) == ["a", "b"]

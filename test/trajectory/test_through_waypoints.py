# SPDX-License-Identifier: Apache-2.0
"""Motions through waypoints by all methods; random paths; paths that are too long."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from raised_errors import about
from trajectory.retime_limits import JERK, arm_limits, excess, fault_of, limits_of, random_path

from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.through_waypoints import (
    METHODS,
    JointTrajectoryGenerator,
    WaypointOptions,
    through_waypoints,
)
from motion_nodes.core.trajectory.time_parameterization import MOST_PIECES, retime
from motion_nodes.errors import InvalidConfig

POINTS = np.random.default_rng(0).uniform(-2.0, 2.0, (10, 7))


@pytest.mark.parametrize("jerk_limited", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_scaled_limits_and_uses_one_of_them_up(method, jerk_limited):
    limits = arm_limits(JERK)
    options = WaypointOptions(method, jerk_limited, 0.5, 0.3)
    motion = through_waypoints(POINTS, limits, options)
    bounds = dataclasses.replace(
        limits,
        velocity=0.5 * limits.velocity,
        acceleration=0.3 * limits.acceleration,
        jerk=0.3 * limits.jerk if jerk_limited else np.full(7, np.inf),
    )
    assert excess(motion, bounds) <= 1e-6
    assert max(motion.limit_use(bounds)) > 0.98
    assert motion.duration > through_waypoints(POINTS, limits, WaypointOptions(method)).duration


def test_saturation_does_without_limits_of_acceleration_and_the_others_say_so():
    limits = limits_of(np.ones(7), np.inf)
    assert through_waypoints(POINTS, limits, WaypointOptions("saturation")).duration > 0.0
    with pytest.raises(InvalidConfig):
        through_waypoints(POINTS, limits, WaypointOptions("lines"))


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(InvalidConfig, check=about("method")):
        WaypointOptions("saturated")


def test_what_would_take_minutes_is_refused_at_once():
    many = np.cumsum(np.full((100_000, 7), 1e-5), axis=0)
    many[::2] += 1e-4
    limits = arm_limits(JERK)
    with pytest.raises(Infeasible, match=f"at most {MOST_PIECES} are timed. Thin the waypoints"):
        retime(many, limits)
    generator = JointTrajectoryGenerator(limits)
    assert generator.compute_c_space_trajectory(many) is None
    assert "omit jerk limits" in generator.failure


@pytest.mark.parametrize("with_jerk", [False, True])
def test_random_paths_with_repeated_waypoints_and_returns(with_jerk):
    for seed in range(40):
        points, limits, blending = random_path(seed, with_jerk, most=16)
        assert not fault_of(retime(points, limits, blending=blending), points, limits)

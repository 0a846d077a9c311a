# SPDX-License-Identifier: Apache-2.0
"""Path verification: certainty between samples, thin obstacles, limits."""

from __future__ import annotations

import numpy as np
import pytest
from barrier_scene import GOAL, START, barrier_checker, fine_path

from motion_nodes.core.planning.path_verification import PathVerifier
from motion_nodes.core.planning.planar_world import PlanarWorld, Wall
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.planning.rrt_connect import RrtConnect


def test_free_path_passes_and_is_certain_between_samples() -> None:
    checker = barrier_checker()
    result = RrtConnect().plan(PlanRequest(checker, START, (JointGoal(GOAL),), timeout=60.0))
    assert result.path is not None
    fine = fine_path(result.path, checker)
    assert checker.are_free(fine).all()
    looked = PathVerifier(checker).verify(result.path)
    assert looked.free
    assert looked.reason == ""
    assert looked.certain > 0.9
    assert 0 < looked.configurations < len(fine)


def test_way_through_an_obstacle_is_refused_in_words() -> None:
    looked = PathVerifier(barrier_checker()).verify(np.stack([START, GOAL]))
    assert not looked.free
    assert "deep in" in looked.reason
    assert "% of the path" in looked.reason


def test_wall_between_two_configurations_that_are_checked_is_found() -> None:
    # The checker's own steps are far longer than the wall is thick.
    world = PlanarWorld([Wall((5.03, 5.0), (0.002, 10.0))], radius=0.001, resolution=0.1)
    path = np.array([[4.0, 5.0], [6.0, 5.0]])
    assert world.checker.edge_free(path[0], path[1])
    looked = PathVerifier(world.checker).verify(path)
    assert not looked.free
    assert "wall_1" in looked.reason


def test_path_that_slides_along_a_wall_is_checked_to_the_end() -> None:
    # 0.1 mm beside the wall, samples prove little between them; the path is free nevertheless.
    world = PlanarWorld([Wall((5.0, 2.0), (10.0, 1.0))], radius=0.05, resolution=0.01)
    beside = np.array([[1.0, 2.5501], [2.0, 2.5501]])
    looked = PathVerifier(world.checker).verify(beside)
    assert looked.free
    assert looked.certain < 0.5
    assert looked.configurations >= 1000


def test_outside_the_limits_or_not_finite_is_refused() -> None:
    checker = barrier_checker()
    outside = GOAL.copy()
    outside[3] = 0.5
    looked = PathVerifier(checker).verify(np.stack([START, outside]))
    assert not looked.free
    assert "panda_joint4" in looked.reason
    assert not PathVerifier(checker).verify(np.stack([START, START * np.nan])).free


@pytest.mark.parametrize("path", [START[None], np.stack([START, START])])
def test_path_without_a_way_is_looked_at(path: np.ndarray) -> None:  # type: ignore[type-arg]
    assert PathVerifier(barrier_checker()).verify(path).free

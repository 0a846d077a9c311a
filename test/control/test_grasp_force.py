# SPDX-License-Identifier: Apache-2.0
"""Force-controlled grasps: contact, slip, load and loss, by scripted sequences."""

from __future__ import annotations

import math

import pytest

from motion_nodes.core.control.gripper import MARGIN, RAISE, GraspForce, GraspSettings, GraspState
from motion_nodes.errors import InvalidConfig

SETTINGS = GraspSettings(grasp_force=4.0, friction=0.5)
DT = 0.004
NAN = math.nan


def held(max_force: float = 20.0, settings: GraspSettings = SETTINGS) -> GraspForce:
    """Return a settled grasp of two fingers around an object 40 mm wide."""
    grasp = GraspForce(settings, max_force, 2)
    grasp.hold(0.02, -1.0)
    run(grasp, 0.3)
    return grasp


def run(grasp, seconds, opening=0.02, effort=None, load=NAN, certain=None):
    certain = load if certain is None else certain
    for _ in range(round(seconds / DT)):
        grasp.step(opening, grasp.force if effort is None else effort, load, DT, certain)


def test_it_begins_with_the_grasp_force_within_the_max():
    assert GraspForce(SETTINGS, 20.0, 2).force == 4.0
    assert GraspForce(SETTINGS, 3.0, 2).force == 3.0
    assert GraspForce(GraspSettings(), 20.0, 2).force == 20.0
    grasp = GraspForce(SETTINGS, 20.0, 2)
    assert [grasp.pushing(effort) for effort in (NAN, 0.0, 1.9, 2.1)] == [False, False, False, True]
    run(grasp, 1.0, effort=0.0)
    assert grasp.state is GraspState.EMPTY, "nothing is held yet"


def test_what_rests_between_the_fingers_is_held_with_the_same_force():
    grasp = held()
    run(grasp, 2.0, load=1.0)
    assert (grasp.state, grasp.force, grasp.slips) == (GraspState.HOLDING, 4.0, 0)


def test_a_load_raises_the_force_that_friction_needs():
    grasp = held()
    run(grasp, 1.0, load=8.0)
    assert grasp.state is GraspState.HOLDING
    assert grasp.force == pytest.approx(MARGIN * 8.0 / (2 * 0.5), rel=1e-3)
    run(grasp, 1.0, load=0.0)
    assert grasp.force == pytest.approx(9.6, rel=1e-3), "it is not lowered"


def test_a_load_beyond_the_max_force_is_reported_with_both():
    grasp = held(max_force=6.0)
    run(grasp, 1.0, load=8.0)
    assert grasp.state is GraspState.OVERLOADED
    assert grasp.force == 6.0
    assert "8 N" in grasp.reason
    assert "6" in grasp.reason
    run(grasp, 1.0, opening=0.012, load=0.0)
    assert grasp.state is GraspState.LOST, "what is overloaded may still be lost"


def test_a_load_that_is_not_certain_is_not_too_high():
    grasp = held(max_force=6.0)
    run(grasp, 1.0, load=8.0, certain=3.0)
    assert (grasp.state, grasp.force) == (GraspState.HOLDING, 6.0)


def test_a_slip_raises_the_force_and_corrects_the_friction():
    grasp = held()
    run(grasp, 0.5, load=3.0)
    assert grasp.force == 4.0
    run(grasp, 0.1, opening=0.0192, load=3.0)
    assert grasp.slips == 1
    assert grasp.friction == pytest.approx(3.0 / 8.0, rel=0.05)
    assert grasp.force >= RAISE * 4.0
    run(grasp, 1.0, opening=0.0192, load=3.0)
    assert (grasp.state, grasp.slips) == (GraspState.HOLDING, 1)


def test_a_slip_at_the_max_force_is_reported():
    grasp = held(max_force=4.0)
    run(grasp, 0.1, opening=0.0192)
    assert grasp.state is GraspState.OVERLOADED
    assert grasp.reason


@pytest.mark.parametrize("case", [{"opening": 0.012}, {"effort": 0.2}])
def test_it_is_lost_when_the_fingers_close_on_or_push_no_more(case):
    grasp = held()
    run(grasp, 0.4, **case)
    assert grasp.state is GraspState.LOST
    assert not grasp.holding
    force = grasp.force
    run(grasp, 0.4, opening=0.0, load=50.0)
    assert (grasp.state, grasp.force) == (GraspState.LOST, force)


def test_without_measured_efforts_the_fingers_alone_are_watched():
    grasp = GraspForce(SETTINGS, math.inf, 2)
    grasp.hold(0.02, -1.0)
    run(grasp, 1.0, effort=NAN)
    assert grasp.state is GraspState.HOLDING
    run(grasp, 0.1, opening=0.01, effort=NAN)
    assert grasp.state is GraspState.LOST


def test_it_holds_from_inside_too():
    grasp = GraspForce(SETTINGS, 20.0, 2)
    grasp.hold(0.02, 1.0)
    run(grasp, 0.5)
    run(grasp, 0.1, opening=0.018)
    assert grasp.slips == 0
    run(grasp, 0.1, opening=0.025)
    assert grasp.state is GraspState.LOST


@pytest.mark.parametrize(
    "values",
    [{"grasp_force": -1.0}, {"friction": 0.0}, {"slip_distance": NAN}, {"loss_distance": 1e300}],
)
def test_settings_out_of_range_are_refused(values):
    with pytest.raises(InvalidConfig):
        GraspSettings(**values)

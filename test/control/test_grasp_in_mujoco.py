# SPDX-License-Identifier: Apache-2.0
"""Force-controlled grasps and external wrenches in MuJoCo."""

from __future__ import annotations

import numpy as np
import pytest
from control.grasping_arm import PLACE, ROBOT, TOOL, GraspingArm, Item

from motion_nodes.core.control.contact_wrench import WrenchGuard, WrenchLimits
from motion_nodes.core.control.gripper import GraspSettings, GraspState, GripStatus
from motion_nodes.errors import InvalidConfig

G = 9.80665


def lifted(item: Item, *, grasp_force: float = 5.0, max_effort: float = np.inf) -> GraspingArm:
    hand = GraspingArm(item, GraspSettings(grasp_force=grasp_force), max_effort)
    assert hand.grip() is GripStatus.STALLED
    assert hand.q[7] == pytest.approx(0.5 * item.width, abs=1e-3)
    hand.go(hand.configuration(PLACE[2] + 0.5 * item.height + 0.12), 0.1)
    hand.run(lambda: False, 0.6)
    return hand


@pytest.mark.long
@pytest.mark.parametrize(("mass", "round"), [(0.2, False), (1.0, True)])
def test_what_is_heavy_is_held_harder(mass, round):
    hand = lifted(Item(0.04, 0.07, mass, 0.6, round))
    assert hand.held
    assert (hand.grasp.state, hand.grasp.slips) == (GraspState.HOLDING, 0)
    assert hand.grasp.load == pytest.approx(mass * G, rel=0.05)
    assert hand.grasp.force >= mass * G / (2 * 0.4)
    assert np.abs(hand.world.state("arm").effort[hand.indices]).min() == pytest.approx(
        hand.grasp.force, rel=0.05
    )


@pytest.mark.long
def test_what_slips_away_is_noticed():
    hand = lifted(Item(0.04, 0.07, 1.5, 0.1), max_effort=20.0)
    assert not hand.held
    assert hand.grasp.state is GraspState.LOST
    assert hand.grasp.reason


@pytest.mark.long
def test_a_constant_force_that_is_not_enough_is_noticed():
    hand = lifted(Item(0.04, 0.07, 1.0, 1.0), grasp_force=0.0, max_effort=8.0)
    assert hand.held
    assert hand.grasp.force == 8.0
    assert hand.grasp.state is GraspState.OVERLOADED


def test_a_force_on_the_tool_is_measured_under_position_control():
    hand = GraspingArm(Item(0.02, 0.04, 0.1, 0.8), GraspSettings())
    hand.go(hand.configuration(0.5), 0.3)
    body = hand.world.data.body(f"arm/{ROBOT.tree.parent_joint[TOOL].parent}")
    X = hand.arm.fk(hand.q[:7])
    for force in ((0.0, 0.0, 0.0), (12.0, -5.0, 8.0)):
        body.xfrc_applied[:3] = force
        body.xfrc_applied[3:] = np.cross(X[:3, 3] - body.xipos, force)
        hand.run(lambda: False, 1.0)
        for wrench in (hand.contact.value, hand.contact.certain, hand.contact.steady):
            np.testing.assert_allclose(wrench, (*force, 0.0, 0.0, 0.0), atol=0.4)
    assert hand.contact.steady_time > 0.5
    hand.contact.update(hand.world.time + 0.002, hand.q, hand.q * 0.0, hand.residual, known=False)
    assert np.isnan(hand.contact.value).all()
    assert np.isnan(hand.contact.certain).all()


def test_a_contact_is_reported_once_until_it_grows():
    guard = WrenchGuard(WrenchLimits(max_force=20.0))
    pushes = [(force, bool(guard.check(np.array((0.0, force, 0.0, 99.0, 0.0, 0.0)))))
              for force in (0.0, 19.0, 21.0, 24.0, 20.5, 30.0, 31.0, 5.0, 21.0)]  # fmt: skip
    assert [force for force, reported in pushes if reported] == [21.0, 30.0, 21.0]
    assert not guard.check(np.full(6, np.nan))
    assert not WrenchGuard(WrenchLimits()).check(np.full(6, 1e6))
    assert "torque" in WrenchGuard(WrenchLimits(max_torque=5.0)).check(np.full(6, 6.0))


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_limits_out_of_range_are_refused(value):
    with pytest.raises(InvalidConfig):
        WrenchLimits(max_force=value)

# SPDX-License-Identifier: Apache-2.0
"""Grippers: motions, force-controlled grasps by scripted sequences and in MuJoCo."""

import math

import numpy as np
import pytest
from control.grasping_arm import PLACE, ROBOT, TOOL, GraspingArm, Item
from raised_errors import about

from motion_nodes.core.control.contact_wrench import WrenchGuard, WrenchLimits
from motion_nodes.core.control.gripper import (
    MARGIN,
    RAISE,
    FingerGap,
    GraspForce,
    GraspSettings,
    GraspState,
    GripperConfig,
    GripperMove,
    GripStatus,
)
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand, InvalidConfig

CONFIG = GripperConfig(lower=0.0, upper=0.04)


def close(goal, stop_at, speed=0.05, dt=0.01, seconds=20.0):
    move, position, elapsed = GripperMove(goal, CONFIG), 0.04, 0.0
    while elapsed < seconds:
        free = position > stop_at
        position = max(position - speed * dt, stop_at)
        elapsed += dt
        status = move.evaluate(position, -speed if free else 0.0, dt)
        if status is not GripStatus.MOVING:
            return status, elapsed
    return move.status, elapsed


@pytest.mark.parametrize(
    ("name", "open_at"), [("franka", 0.08), ("open_manipulator_x", 0.058), ("so101", 1.5)]
)
def test_the_gap_counts_the_travel_of_mimic_fingers_from_the_closed_state(name, open_at):
    robot = load_robot(name)
    joints = robot.groups["gripper"].joints
    closed, opened = (robot.named_state(state, "gripper") for state in ("close", "open"))
    gap = FingerGap(robot.tree, joints, closed)
    assert gap.at(closed) == 0.0
    assert gap.at(opened) == pytest.approx(open_at)
    assert gap.at(float(opened[0])) == pytest.approx(open_at)
    # A gripper whose joint closes upwards.
    assert FingerGap(robot.tree, joints, opened).at(closed) == pytest.approx(open_at)


def test_an_empty_hand_reaches_its_goal():
    status, _ = close(0.01, 0.0)
    assert status is GripStatus.REACHED


def test_an_object_stalls_it_after_the_stall_time():
    status, elapsed = close(0.0, 0.02)
    assert status is GripStatus.STALLED
    assert elapsed == pytest.approx(0.4 + CONFIG.stall_timeout, abs=0.03)


def test_fingers_that_wait_for_their_reference_do_not_stall():
    """An object is released: the reference returns from 0 through the surface at 0.02."""
    move, reference = GripperMove(0.04, CONFIG), 0.0
    for _ in range(400):
        reference = min(reference + 0.05 * 0.004, 0.04)
        status = move.evaluate(
            max(reference, 0.02), 0.05 * (reference > 0.02), 0.004, reference=reference
        )
    assert status is GripStatus.REACHED


def test_fingers_that_pause_at_each_measurement_do_not_stall():
    """A drive whose references are late stops after each of them."""
    move, position = GripperMove(0.01, CONFIG), 0.04
    while (status := move.evaluate(position, 0.0, 0.05)) is GripStatus.MOVING:
        position -= 0.0012
    assert status is GripStatus.REACHED


@pytest.mark.parametrize("reference", [0.03, 0.0199])
def test_fingers_blocked_at_or_before_their_reference_stall(reference):
    """A guard may hold the reference where the fingers are."""
    move = GripperMove(0.04, CONFIG)
    for _ in range(100):
        status = move.evaluate(0.02, 0.0, 0.004, reference=reference)
    assert status is GripStatus.STALLED


def test_creeping_for_ever_times_out():
    move = GripperMove(0.0, CONFIG)
    for _ in range(1100):
        status = move.evaluate(0.03, 0.01, 0.01)
    assert status is GripStatus.TIMED_OUT
    assert move.evaluate(0.0, 0.0, 0.01) is GripStatus.TIMED_OUT


@pytest.mark.parametrize(("goal", "text"), [(0.2, "position"), (float("nan"), "position")])
def test_bad_goals_are_refused(goal, text):
    with pytest.raises(InvalidCommand, check=about(text)):
        GripperMove(goal, CONFIG)


def test_goals_at_the_edge_are_brought_inside():
    assert GripperMove(0.0415, CONFIG).goal == 0.04


@pytest.mark.parametrize(
    "settings", [{"upper": -1.0}, {"stall_timeout": 0.0}, {"goal_tolerance": float("nan")}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InvalidConfig):
        GripperConfig(**({"lower": 0.0, "upper": 0.04} | settings))


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

# SPDX-License-Identifier: Apache-2.0
"""Arms that collide with an unknown floor, in MuJoCo with default settings."""

import dataclasses

import numpy as np
import pytest
from control.guarded_arm import PERIOD, GuardedArm

from motion_nodes.core.control.active_trajectories import FollowStatus
from motion_nodes.core.control.joint_command import JointCommand

INTO_THE_FLOOR = {
    "franka": {"panda_joint2": 1.2, "panda_joint4": -1.6},
    "ur10e": {"shoulder_lift_joint": 0.4},
}


def goal_of(arm: GuardedArm, changes: dict[str, float]) -> np.ndarray:
    goal = arm.robot.home.copy()
    for joint, value in changes.items():
        goal[arm.joints.index(joint)] = value
    return goal


def arm_joints(arm: GuardedArm) -> slice:
    return slice(0, len(arm.robot.group("arm").joints))


def last_faster_than(arm: GuardedArm, speed: float) -> float:
    """Return the last time at which a joint of the arm was faster than ``speed`` [s]."""
    speeds = np.abs(np.array(arm.speeds))[:, arm_joints(arm)].max(axis=1)
    return PERIOD * float(np.flatnonzero(speeds > speed)[-1])


@pytest.mark.parametrize("by_effort", [True, False], ids=["efforts", "positions"])
@pytest.mark.parametrize("name", ["franka", "ur10e"])
def test_it_stops_names_the_joint_holds_gently_and_goes_on(name, by_effort):
    arm = GuardedArm(name, by_effort=by_effort)
    run = arm.go(goal_of(arm, INTO_THE_FLOOR[name]), speed=0.5)
    while not run.status.ended:
        arm.step()
    ended = len(arm.positions) * PERIOD
    arm.run(2.0)
    assert run.status is FollowStatus.PATH_TOLERANCE_VIOLATED
    blocked = run.text.removeprefix("blocked: joint ").split()[0]
    assert blocked in arm.joints
    assert arm.runner.fault == run.text
    touched = PERIOD * int(np.argmax(arm.touching))
    assert ended - touched < (0.03 if by_effort else 0.2)
    speeds = np.abs(np.array(arm.speeds))[round(touched / PERIOD) :, arm_joints(arm)].max(axis=1)
    assert PERIOD * int(np.argmax(speeds < 0.1)) < 0.3, "the arm stops"
    # Then the reference returns, at its acceleration limits.
    assert last_faster_than(arm, 0.1) - touched < (0.4 if name == "franka" and by_effort else 0.6)
    # The reference is at the measured positions, so that the arm does not press.
    chosen = arm_joints(arm)
    gap = (arm.references[-1] - arm.positions[-1])[chosen]
    assert np.abs(gap).max() < 2e-3
    # References kept their limits throughout.
    limits = arm.controller.limits
    v = np.diff(np.array(arm.references), axis=0)[:, chosen] / PERIOD
    a = np.diff(v, axis=0) / PERIOD
    assert (np.abs(v).max(axis=0) <= limits.velocity[chosen] * 1.001).all()
    assert (np.abs(a).max(axis=0) <= limits.acceleration[chosen] * 1.05).all()
    # A motion away from the floor is accepted at once, and succeeds.
    back = arm.go(arm.robot.home, speed=0.5)
    while not back.status.ended:
        arm.step()
    assert back.status is FollowStatus.SUCCEEDED, back.text


def test_a_stream_is_stopped_and_not_obeyed_until_it_begins_anew():
    arm = GuardedArm("franka")
    stream = arm.runner.begin_stream("~/reference")
    end = goal_of(arm, INTO_THE_FLOOR["franka"])
    message = JointCommand(positions=end)
    for _ in range(round(2.5 / PERIOD)):
        arm.runner.follow_stream(message, stream)
        arm.step()
    assert arm.runner.holders[0].startswith("blocked: joint panda_joint")
    assert np.abs(arm.references[-1] - arm.positions[-1])[:7].max() < 2e-3
    assert np.abs(arm.speeds[-1][:7]).max() < 0.01
    arm.runner.follow_stream(
        JointCommand(positions=arm.robot.home), arm.runner.begin_stream("~/reference")
    )
    arm.run(2.0)
    assert arm.runner.fault == ""
    assert np.abs(arm.positions[-1] - arm.robot.home)[:7].max() < 5e-3


@pytest.mark.long
def test_fast_free_motions_trigger_nothing():
    for name in ("franka", "ur10e"):
        arm = GuardedArm(name)
        rng = np.random.default_rng(3)
        chosen = arm_joints(arm)
        for _ in range(4):
            goal = arm.robot.home.copy()
            goal[chosen] += rng.uniform(-0.5, 0.5, len(goal[chosen]))
            limits = arm.controller.limits
            run = arm.go(goal.clip(limits.lower, limits.upper))
            while not run.status.ended:
                arm.step()
            assert run.status is FollowStatus.SUCCEEDED, run.text


@pytest.mark.long
def test_sag_does_not_add_up():
    """Without feed-forward joints sag below their references; stops must not accumulate the sag."""
    arm = GuardedArm("franka", by_effort=False, feed_forward=False)
    arm.run(0.5)
    hangs = (arm.references[-1] - arm.positions[-1])[:7]
    assert np.abs(hangs).max() > 1e-3, "it sags"
    first = arm.references[-1].copy()
    for _ in range(4):
        run = arm.go(arm.positions[-1] + 0.0, speed=0.5)
        arm.runner.cancel(run, "canceled")
        arm.run(0.6)
    assert np.abs(arm.references[-1] - first)[:7].max() < 1e-9
    # Nor after a contact has ended: the sag from before is kept.
    arm.runner.resync.request(np.arange(7), contact=True)
    arm.run(1.0)
    assert np.abs(arm.references[-1] - first)[:7].max() < 2e-3


def test_a_grip_is_no_blocked_joint():
    arm = GuardedArm("franka")
    fingers = [7, 8]
    settings = arm.runner.guard.settings
    assert np.isinf(settings.tolerance[fingers]).all()
    tight = np.full(9, 0.002)
    arm.runner.guard.settings = dataclasses.replace(settings, tolerance=tight)
    lower = arm.robot.home[7]
    claim = arm.runner.claim(
        JointCommand(names=[arm.joints[i] for i in fingers], positions=[0.0, 0.0]), "a grip", 20.0
    )
    # An object is between them: the measured fingers do not move.
    position = arm.robot.home.copy()
    for _ in range(300):
        reference = arm.runner.step(PERIOD, position, np.zeros(9))
    assert reference.positions[7] == pytest.approx(0.0, abs=1e-9)
    assert position[7] == lower
    assert not claim.lost
    assert arm.runner.fault == ""
    arm.runner.release(claim, stop=True)
    for _ in range(200):
        reference = arm.runner.step(PERIOD, position, np.zeros(9))
    assert reference.positions[7] == pytest.approx(0.0, abs=1e-9), "it continues to hold"
    arm.runner.command(JointCommand(names=[arm.joints[7]], positions=[0.01]), "a stream")
    for _ in range(200):
        arm.runner.step(PERIOD, position, np.zeros(9))
    assert "blocked" in arm.runner.fault, "other commands of the fingers are monitored"


@pytest.mark.parametrize("share", [0.0, 0.5, None], ids=["no push", "a push", "unknown"])
def test_late_references_are_told_from_contacts(share):
    arm = GuardedArm("franka")
    guard = arm.runner.guard
    settings = guard.settings
    position, rest = arm.robot.home, np.zeros(9)
    residual = None if share is None else np.where(np.arange(9) == 1, share * 52.0, 0.0)
    guard.note_preload(rest)
    blocked, reference = None, position.copy()
    while blocked is None:
        reference[1] += 0.001
        guard.note(reference, np.full(9, 0.1), PERIOD)
        blocked = guard.check(position, settings.tolerance, np.zeros(9, dtype=bool), residual)
    assert (blocked.joint, blocked.by_effort) == (1, False)
    assert blocked.pushes is (share != 0.0)
    assert ("no contact" in blocked.text("panda_joint2", revolute=True)) is not blocked.pushes

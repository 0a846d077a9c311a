# SPDX-License-Identifier: Apache-2.0
"""Impedance control under the arbiter: holders of the joints, and no jumps at its start and end."""

from __future__ import annotations

import numpy as np
import pytest
from control.guarded_arm import PERIOD, GuardedArm

from motion_nodes.core.control.cartesian_impedance import CartesianImpedance
from motion_nodes.core.control.joint_command import ControlMode, JointCommand
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.sim.drive_targets import JointTargets


class Arm(GuardedArm):
    """A guarded arm with an impedance law."""

    def __init__(self) -> None:
        super().__init__("franka")
        self.law = CartesianImpedance(self.robot)
        self.sent: list[np.ndarray] = []

    def step(self) -> None:
        state = self.world.state("arm")
        self.time += PERIOD
        reference = self.runner.step(
            PERIOD, state.position, state.velocity, effort=np.array(state.effort)
        )
        efforts = np.where(
            np.isnan(reference.efforts), self.dynamics.gravity(state.position), reference.efforts
        )
        self.world.command("arm", JointTargets(reference.positions, reference.velocities, efforts))
        self.world.step(round(PERIOD / self.world.time_step))
        self.positions.append(state.position.copy())
        self.speeds.append(state.velocity.copy())
        self.efforts.append(state.effort.copy())
        self.references.append(reference.positions.copy())

    def comply(self, name: str = "target") -> np.ndarray:
        return self.runner.comply(self.law, self.runner.begin_stream(name))


@pytest.fixture
def arm() -> Arm:
    made = Arm()
    made.run(0.5)
    return made


def test_it_begins_without_motion_and_holds(arm):
    before = arm.positions[-1]
    assert not len(arm.comply())
    arm.run(2.0)
    assert np.abs(arm.positions[-1] - before)[:7].max() < 2e-3
    assert np.isnan(arm.references[-1][:7]).all()
    assert np.isfinite(arm.references[-1][7:]).all(), "fingers stay under position control"
    efforts = np.array(arm.efforts)[-600:, :7]
    assert np.abs(np.diff(efforts, axis=0)).max() < 1.0


def test_it_is_led_and_a_trajectory_takes_the_joints_back(arm):
    arm.comply()
    arm.run(0.2)
    target = arm.law.status.pose.copy()
    target[:3, 3] += (0.05, 0.1, -0.05)
    arm.law.set_target(target)
    arm.run(2.0)
    assert np.abs(arm.law.status.pose - target).max() < 2e-3
    run = arm.go(arm.robot.home, speed=0.3)
    arm.step()
    assert arm.runner.compliance.law is None
    assert set(arm.runner.holders[:7]) == {"the test"}
    while not run.follower.status.ended:
        arm.step()
    assert run.follower.text == ""
    assert np.abs(arm.positions[-1] - arm.robot.home)[:7].max() < 0.01


@pytest.mark.long
@pytest.mark.parametrize("way", ["stop", "stream", "abort"])
def test_a_moving_arm_brakes_within_its_limits(arm, way):
    arm.comply()
    arm.run(0.1)
    target = arm.law.status.pose.copy()
    target[:3, 3] += (0.0, 0.3, 0.0)
    arm.law.set_target(target)
    arm.run(0.5)
    assert np.abs(arm.speeds[-1]).max() > 0.2
    if way == "stop":
        arm.runner.stop_all("a stop")
    elif way == "abort":
        arm.runner.abort_all("a loss")
    else:  # one joint is enough
        first = arm.positions[-1][0]
        stream = arm.runner.begin_stream("other")
        arm.runner.follow_stream(JointCommand(names=["panda_joint1"], positions=[first]), stream)
    count = len(arm.speeds)
    arm.run(1.0)
    v = np.array(arm.speeds)[count - 1 :, :7]
    a = np.abs(np.diff(v, axis=0)) / PERIOD
    assert (a.max(axis=0) < 2.0 * arm.controller.limits.acceleration[:7]).all()
    assert np.abs(v[-1]).max() < 0.01
    assert np.isfinite(arm.references[-1]).all()


def test_a_stream_that_was_preempted_does_not_come_back(arm):
    stream = arm.runner.begin_stream("target")
    arm.runner.comply(arm.law, stream)
    arm.run(0.1)
    arm.runner.take(["panda_joint2"], "somebody")
    assert len(arm.runner.comply(arm.law, stream)) == 1
    assert arm.runner.compliance.law is None
    assert not len(arm.comply("again"))
    assert arm.runner.compliance.law is arm.law


def test_joints_under_another_control_mode_are_refused(arm):
    arm.controller.switch_mode(ControlMode.VELOCITY, ["panda_joint3"])
    with pytest.raises(InvalidCommand):
        arm.comply()
    assert arm.runner.compliance.law is None

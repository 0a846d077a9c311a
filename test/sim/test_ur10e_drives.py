# SPDX-License-Identifier: Apache-2.0
"""The drives of the UR10e in MuJoCo: holding, step responses, tracking of a stream."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld


@pytest.fixture(scope="module")
def ur10e() -> Robot:
    return load_robot("ur10e")


def test_every_named_state_is_held(ur10e: Robot) -> None:
    world = MujocoWorld([RobotPlacement(ur10e, "r")])
    for state in ur10e.state_names:
        q = ur10e.named_state(state)
        world.reset()
        world.command("r", JointTargets(q))
        world.step(2000)
        sample = world.state("r")
        np.testing.assert_allclose(sample.position, q, atol=0.003, err_msg=state)
        assert np.abs(sample.velocity).max() < 1e-6
        assert len(world.data.contact) == 0


@pytest.mark.parametrize("size", [0.1, -0.5])
def test_a_bare_step_of_any_joint_does_not_overshoot(ur10e: Robot, size: float) -> None:
    world = MujocoWorld([RobotPlacement(ur10e, "r")])
    for joint in range(6):
        q = ur10e.named_state("ready").copy()
        world.reset()
        world.command("r", JointTargets(q))
        world.step(1500)
        start = world.state("r").position[joint]
        q[joint] += size
        world.command("r", JointTargets(q))
        path = []
        for _ in range(600):
            world.step()
            path.append(world.state("r").position[joint])
        progress = (np.array(path) - start) / size
        assert progress.max() < 1.03, joint
        assert np.diff(progress).min() > -0.002, joint
        np.testing.assert_allclose(progress[-1], 1.0, atol=0.01)


def test_a_smooth_stream_is_followed_far_from_the_torque_limits(ur10e: Robot) -> None:
    """Positions and velocities every 4 ms, as sent by the joint controller."""
    world = MujocoWorld([RobotPlacement(ur10e, "r")])
    start = ur10e.named_state("ready")
    goal = start + np.array((1.0, 0.5, -0.7, 0.8, -0.9, 1.5))
    duration = 2.0
    world.command("r", JointTargets(start))
    world.step(1500)
    held = world.state("r").position - start
    worst, effort = 0.0, 0.0
    steps = round(duration / 0.004)
    for k in range(1, steps + 1):
        s = k / steps
        q = start + (goal - start) * (10 * s**3 - 15 * s**4 + 6 * s**5)
        v = (goal - start) * (30 * s**2 - 60 * s**3 + 30 * s**4) / duration
        world.command("r", JointTargets(q, v))
        world.step(2)
        sample = world.state("r")
        worst = max(worst, np.abs(sample.position - q - held).max())
        effort = max(effort, (np.abs(sample.effort) / ur10e.limits.effort).max())
    assert worst < 0.01
    assert effort < 0.7

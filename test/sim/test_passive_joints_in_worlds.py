# SPDX-License-Identifier: Apache-2.0
"""Passive joints, such as those of casters, in both simulations."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.sim.backend import MockWorld, RobotBackend, RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

nan = np.nan


@pytest.fixture(scope="module")
def carter() -> Robot:
    return load_robot("nova_carter")


def command(robot: Robot, **values: float) -> np.ndarray:
    """Return an array over all joints with NaN where nothing is given."""
    array = np.full(len(robot.joint_names), nan)
    for name, value in values.items():
        array[robot.joint_names.index(name)] = value
    return array


@pytest.mark.parametrize("kind", [MujocoWorld, MockWorld])
@pytest.mark.parametrize("channel", ["position", "velocity", "effort"])
def test_a_command_to_a_passive_joint_is_refused_whole(
    carter: Robot, kind: type[RobotBackend], channel: str
) -> None:
    world = kind([RobotPlacement(carter, "r")])
    values = command(carter, joint_wheel_left=1.0, joint_swing_left=0.1)
    with pytest.raises(InvalidCommand):
        world.command("r", JointTargets(**{channel: values}))
    world.step(100)
    np.testing.assert_allclose(world.state("r").velocity[:2], 0.0, atol=1e-3)


def test_passive_joints_feel_no_effort_but_are_reported(carter: Robot) -> None:
    world = MujocoWorld([RobotPlacement(carter, "r")])
    speeds = command(carter, joint_wheel_left=3.0, joint_wheel_right=3.0)
    world.command("r", JointTargets(velocity=speeds))
    world.step(1000)
    sample = world.state("r")
    where = [carter.joint_names.index(name) for name in carter.passive_joints]
    np.testing.assert_array_equal(sample.effort[where], 0.0)
    rolling = {
        name: sample.velocity[i] for name, i in zip(carter.passive_joints, where, strict=True)
    }
    # 0.42 m/s on wheels of 0.0755 m.
    assert rolling["joint_caster_left"] == pytest.approx(0.42 / 0.0755, rel=0.02)
    assert rolling["joint_caster_right"] == pytest.approx(0.42 / 0.0755, rel=0.02)


@pytest.mark.parametrize("start", [2.8, -1.5])
def test_casters_turn_round_and_trail(carter: Robot, start: float) -> None:
    world = MujocoWorld([RobotPlacement(carter, "r")])
    for side in ("left", "right"):
        world.data.joint(f"r/joint_swing_{side}").qpos[0] = start
    speeds = command(carter, joint_wheel_left=4.0, joint_wheel_right=4.0)
    world.command("r", JointTargets(velocity=speeds))
    world.step(2500)
    for side in ("left", "right"):
        swing = world.state("r").position[carter.joint_names.index(f"joint_swing_{side}")]
        assert abs(np.arctan2(np.sin(swing), np.cos(swing))) < 0.05


def test_all_four_wheels_stand_on_the_floor(carter: Robot) -> None:
    world = MujocoWorld([RobotPlacement(carter, "r")])
    world.step(1000)
    touching = {
        world.model.body(int(world.model.geom_bodyid[geom])).name
        for contact in world.data.contact
        for geom in contact.geom
    } - {"world"}
    assert touching == {
        "r/wheel_left", "r/wheel_right", "r/caster_wheel_left", "r/caster_wheel_right",
    }  # fmt: skip

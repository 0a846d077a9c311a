# SPDX-License-Identifier: Apache-2.0
"""RMPflow leads arms with PD drives in MuJoCo: it follows, and a ball in its way is not touched."""

import mujoco
import numpy as np
import pytest

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Sphere
from motion_nodes.rmpflow.follower_settings import RobotMotion
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.scene.scene import Scene, world_object
from motion_nodes.sim import mujoco_world
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.placement import RobotPlacement

PERIOD = 0.004
RADIUS = 0.06


class Cell:
    """A robot in MuJoCo, led by a follower, with a ball that goes where it is put."""

    def __init__(self, name, monkeypatch, own=True):
        build = mujoco_world.build_model

        def with_ball(placements, config):
            spec, _ = build(placements, config)
            body = spec.worldbody.add_body(name="ball", mocap=True, pos=(0.0, 0.0, 9.0))
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(RADIUS, 0.0, 0.0))
            return spec, spec.compile()

        monkeypatch.setattr(mujoco_world, "build_model", with_ball)
        self.robot = load_robot(name)
        self.policy = RmpflowPolicy(self.robot, ignore_robot_state_updates=own)
        self.follower = Follower(self.policy)
        self.world = mujoco_world.MujocoWorld([RobotPlacement(self.robot, name)])
        self.ball_geom = self.world.model.body("ball").geomadr[0]
        self.name, self.now, self.touched = name, 0.0, 0
        joints = self.policy.active_joints, self.policy.watched_joints
        self.active, self.watched = (self.robot.indices(names) for names in joints)
        ready = self.robot.named_state("ready")
        self.world.command(name, JointTargets(ready))
        self.world.step(1500)
        self.X = self.policy.tool_pose(ready[self.active]).copy()
        self.follower.follow_posture(ready[self.active], 0.0)

    def step(self, target, ball=None):
        """Pass a period; return how far the tool is from the target."""
        if ball is not None:
            self.world.data.mocap_pos[0] = ball
            item = world_object("ball", Sphere(RADIUS), from_xyz_rpy(ball))
            self.policy.set_scene(Scene(objects={"ball": item}))
        self.X[:3, 3] = target
        self.follower.follow_pose(self.X.copy(), self.now)
        state = self.world.state(self.name)
        q, qd = state.position, state.velocity
        motion = RobotMotion(q[self.active], qd[self.active], q[self.watched], qd[self.watched])
        told = self.follower.step(motion, PERIOD, self.now)
        if told is not None:
            positions, velocities = np.full((2, len(q)), np.nan)
            positions[self.active], velocities[self.active] = told
            self.world.command(self.name, JointTargets(positions, velocities))
        self.world.step(round(PERIOD / self.world.time_step))
        self.now += PERIOD
        self.touched += sum(self.ball_geom in contact.geom for contact in self.world.data.contact)
        place = self.policy.tool_pose(self.world.state(self.name).position[self.active])
        return float(np.linalg.norm(place[:3, 3] - target))


@pytest.mark.parametrize(("name", "own"), [("franka", True), ("ur10e", False)])
def test_a_target_at_a_tenth_of_a_metre_per_second_is_followed(name, own, monkeypatch):
    """By its own state, and by that of a robot that sags and lags under its drives."""
    cell = Cell(name, monkeypatch, own)
    begin, lags = cell.X[:3, 3].copy(), []
    for k in range(1000):
        angle = max(0.0, k * PERIOD - 0.5)
        offset = 0.1 * np.array((0.0, np.sin(angle), 1.0 - np.cos(angle)))
        lags.append(cell.step(begin + offset))
    assert max(lags[400:]) < 0.01


def test_a_ball_that_comes_is_not_touched_and_the_target_found_again(monkeypatch):
    cell = Cell("franka", monkeypatch)
    target, away = cell.X[:3, 3].copy(), []
    for k in range(1500):
        ball = target + np.array((0.0, -0.6 + 0.2 * k * PERIOD, 0.0))
        away.append(cell.step(target, ball))
    assert max(away) > 0.08
    assert cell.touched == 0
    assert away[-1] < 0.01


def test_the_ball_would_be_felt(monkeypatch):
    """The check of contacts above is no empty one."""
    cell = Cell("franka", monkeypatch)
    cell.world.data.mocap_pos[0] = cell.X[:3, 3]
    cell.world.step(2)
    assert any(cell.ball_geom in contact.geom for contact in cell.world.data.contact)

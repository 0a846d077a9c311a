# SPDX-License-Identifier: Apache-2.0
"""An arm wipes an uneven table: its suction cup holds a sponge, pressed on with 10 N.

Impedance control leads the tool along the table; the force downwards is controlled. The judge is
the physics: the forces of MuJoCo's contacts between sponge and table.
"""

from __future__ import annotations

import dataclasses
import itertools

import mujoco
import numpy as np

from motion_nodes.control.impedance.cartesian_impedance import CartesianImpedance
from motion_nodes.control.impedance.impedance_settings import ImpedanceSettings
from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box, Sphere
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.free_bodies import FreeBody
from motion_nodes.sim.mjcf import WorldConfig
from motion_nodes.sim.mjcf_shapes import Obstacle
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement
from motion_nodes.sim.surface_gripper import SurfaceGripper

START = np.array([0.0, -1.2, 1.6, -1.97, -1.57, 0.0])  # [rad] The tool points downwards.
RADIUS, MASS = 0.04, 0.2  # of the sponge [m, kg]
HEIGHT, LENGTH = 0.2, 0.5  # of the table [m]
FORCE, SPEED = 10.0, 0.05  # [N], [m/s]
SETTINGS = ImpedanceSettings(
    stiffness=(1500.0, 1500.0, 1500.0, 100.0, 100.0, 100.0),
    damping=(np.nan, np.nan, 60.0, np.nan, np.nan, np.nan),  # little: the tool has to follow bumps
    frame="base", force_gain=10.0, max_velocity=SPEED,
    payload_mass=MASS, payload_center=(0.0, 0.0, RADIUS),
)  # fmt: skip


def height(y: float) -> float:
    """Return the height of the table [m]: waves of 10 and 5 mm."""
    waves = 0.01 * np.sin(2.0 * np.pi * y / 0.2) + 0.005 * np.sin(2.0 * np.pi * y / 0.13)
    return float(HEIGHT + waves)


def table(x: float, y: float) -> tuple[Obstacle, ...]:
    """Return slabs that approximate the table around a place [m]."""
    ends, slabs = np.linspace(y - LENGTH / 2, y + LENGTH / 2, 17), []
    for k, (a, b) in enumerate(itertools.pairwise(ends)):
        rise = height(b) - height(a)
        slope = float(np.arctan2(rise, b - a))
        top = np.array((x, (a + b) / 2, (height(a) + height(b)) / 2))
        centre = top - 0.02 * np.array((0.0, -np.sin(slope), np.cos(slope)))
        size = (0.3, float(np.hypot(b - a, rise)) + 0.004, 0.04)
        slabs.append(Obstacle(f"slab{k}", Box(size), from_xyz_rpy(centre, (slope, 0.0, 0.0))))
    return tuple(slabs)


class Wiper:
    """A UR10e with a suction cup and a sponge, under impedance control in MuJoCo."""

    def __init__(self) -> None:
        robot = load_robot("ur10e")
        self.law = CartesianImpedance(robot, settings=SETTINGS)
        X = self.law.space.at(START, np.zeros(6)).X_BT
        self.place = X[:3, 3]
        sponge = FreeBody("sponge", Sphere(RADIUS), MASS, from_xyz_rpy(
            self.place + (RADIUS + 0.002) * X[:3, 2]), friction=0.3)  # fmt: skip
        self.world = MujocoWorld([RobotPlacement(robot, "arm")], WorldConfig(
            time_step=0.002, obstacles=table(*self.place[:2]), objects=(sponge,),
            surface_grippers=(SurfaceGripper("cup", "arm", "tool0"),),
        ))  # fmt: skip
        model, data = self.world.model, self.world.data
        for joint, value in zip(robot.joint_names, START, strict=True):
            data.joint(f"arm/{joint}").qpos[0] = value
        mujoco.mj_forward(model, data)
        self.sponge = model.geom("object:sponge/0").id
        model.geom_solref[self.sponge], model.geom_priority[self.sponge] = (0.02, 1.0), 1
        self.world.act({"cup": 1.0})

    def run(self, seconds: float) -> list[float]:
        """Advance; return the vertical force of the sponge on the table at each step [N]."""
        forces = []
        for _ in range(round(seconds / self.world.time_step)):
            q, v, efforts = (np.array(values) for values in self.world.state("arm"))
            tau = self.law.step(q, v, self.world.time_step, efforts)
            self.world.command("arm", JointTargets(None, None, tau))
            self.world.step()
            forces.append(self.force())
        return forces

    def force(self) -> float:
        """Return the vertical force of all contacts of the sponge [N]."""
        model, data = self.world.model, self.world.data
        total, wrench = 0.0, np.zeros(6)
        for i, contact in enumerate(data.contact):
            if self.sponge in contact.geom:
                mujoco.mj_contactForce(model, data, i, wrench)
                upwards = contact.frame.reshape(3, 3)[:, 2] @ wrench[:3]
                total += float(upwards if contact.geom[1] == self.sponge else -upwards)
        return total

    def go(self, y: float, z: float) -> None:
        """Set the target of the tool, straight below or beside where it began [m]."""
        target = self.law.space.at(START, np.zeros(6)).X_BT
        target[1:3, 3] = self.place[1] + y, z
        self.law.set_target(target)


def test_an_uneven_table_is_wiped_with_the_force_that_was_asked() -> None:
    wiper = Wiper()
    wiper.run(0.1)
    wiper.go(-0.2, HEIGHT + 2.0 * RADIUS + 0.05)
    wiper.run(6.0)
    wiper.law.set_settings(dataclasses.replace(SETTINGS, force_axes=("z",)))
    wiper.law.set_wrench((0.0, 0.0, -FORCE, 0.0, 0.0, 0.0))
    wiper.run(3.0)
    wiper.go(0.2, HEIGHT)
    forces = np.array(wiper.run(0.4 / SPEED + 1.0))
    within = float(np.mean(np.abs(forces - FORCE) < 0.2 * FORCE))
    print(f"force {forces.mean():.2f} N on average, {forces.min():.2f} to {forces.max():.2f} N;")
    print(f"within 20 % of {FORCE:g} N for {100.0 * within:.1f} % of the time")
    assert wiper.world.grippers["cup"].gripped == ("sponge",)
    assert wiper.law.status is not None
    assert wiper.law.status.pose[1, 3] > wiper.place[1] + 0.19
    assert abs(forces.mean() - FORCE) < 0.05 * FORCE
    assert within > 0.95

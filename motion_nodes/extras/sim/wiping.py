# SPDX-License-Identifier: Apache-2.0
"""An arm that wipes an uneven table in MuJoCo: impedance control along it, force control onto it.

A UR10e holds a sponge by its suction cup. The reported forces are the contact forces between sponge
and table in MuJoCo, not the estimates of the controller.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np

from motion_nodes.core.control.cartesian_impedance import CartesianImpedance
from motion_nodes.core.control.pose_targets import ImpedanceSettings
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import FreeBody
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mjcf_shapes import Obstacle
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.surface_gripper import SurfaceGripper
from motion_nodes.typing import Array

START = np.array([0.0, -1.2, 1.6, -1.97, -1.57, 0.0])
"""Joint positions at the start, with the tool pointing down [rad]."""
RADIUS, MASS = 0.04, 0.2
"""Radius [m] and mass [kg] of the sponge."""
HEIGHT, LENGTH, STROKE = 0.2, 0.5, 0.4
"""Height and length of the table, and length of the stroke [m]."""
SLABS = 128
"""Number of flat segments of the table; with fewer segments the force peaks at their edges."""
SETTLE = 3.0
"""Rise time of the force reference [s]."""


@dataclass(frozen=True)
class WipingConfig:
    """Settings of the surface and of the stroke."""

    force: float = 10.0
    """Normal force reference [N]."""
    speed: float = 0.05
    """Speed of the tool along the table [m/s]."""
    bump: float = 0.01
    """Amplitude of the longer waves of the table [m]; the shorter ones have half of it."""

    def __post_init__(self) -> None:
        """Check the values; raises InvalidConfig."""
        for name, low, high in (("force", 1.0, 50.0), ("speed", 0.005, 0.2), ("bump", 0.0, 0.02)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidConfig(f"{name} is {value}; allowed: {low:g} to {high:g}", field=name)

    def height(self, y: float) -> float:
        """Return the height of the table at a position along the stroke [m]."""
        waves = np.sin(2.0 * np.pi * y / 0.2) + 0.5 * np.sin(2.0 * np.pi * y / 0.13)
        return float(HEIGHT + self.bump * waves)


@dataclass(frozen=True, eq=False)
class WipedStroke:
    """Samples of a stroke, shape (k,) each."""

    times: Array
    """[s]"""
    places: Array
    """Position of the tool along the stroke [m]."""
    forces: Array
    """Vertical force of all contacts of the sponge with the table [N]."""
    estimated: Array
    """Normal force estimated by the controller [N]."""
    desired: float
    """[N]"""

    def within(self, share: float) -> float:
        """Return the fraction of time with the force within a relative tolerance."""
        return float(np.mean(np.abs(self.forces - self.desired) <= share * self.desired))


class WipingCell:
    """The simulation: an arm with a sponge above the table."""

    def __init__(self, config: WipingConfig | None = None) -> None:
        """Create the simulation, and grip the sponge."""
        self.config = config or WipingConfig()
        self.robot = robot = load_robot("ur10e")
        self.settings = ImpedanceSettings(
            stiffness=(1500.0, 1500.0, 1500.0, 100.0, 100.0, 100.0),
            # Compliant along the force: the tool has to follow bumps.
            damping=(np.nan, np.nan, 60.0, np.nan, np.nan, np.nan),
            frame="base", force_gain=10.0,
            # A velocity step would press the tool on; the velocity ramps up in half a second.
            max_velocity=self.config.speed, max_acceleration=2.0 * self.config.speed,
            payload_mass=MASS, payload_center=(0.0, 0.0, RADIUS),
        )  # fmt: skip
        self.law = CartesianImpedance(robot, settings=self.settings)
        self._X_start = self.law.space.at(START, np.zeros(len(START))).X_BT
        self.place = self._X_start[:3, 3]
        self.table = self._slabs()
        at = self.place + (RADIUS + 0.002) * self._X_start[:3, 2]
        sponge = FreeBody("sponge", Sphere(RADIUS), MASS, from_xyz_rpy(at), friction=0.3)
        self.world = MujocoWorld([RobotPlacement(robot, "arm")], WorldConfig(
            time_step=0.002, obstacles=self.table, objects=(sponge,),
            surface_grippers=(SurfaceGripper("cup", "arm", "tool0"),),
        ))  # fmt: skip
        model, data = self.world.model, self.world.data
        for joint, value in zip(robot.joint_names, START, strict=True):
            data.joint(f"arm/{joint}").qpos[0] = value
        # The drives hold the start; the controller starts from their efforts.
        start = self.law.space.at(START, np.zeros(len(START)))
        self.world.command("arm", JointTargets(START, None, start.bias))
        mujoco.mj_forward(model, data)
        self._sponge = model.geom("object:sponge/0").id
        model.geom_solref[self._sponge] = (0.02, 1.0)  # soft
        model.geom_priority[self._sponge] = 1
        self.world.act({"cup": 1.0})

    @property
    def held(self) -> bool:
        """Whether the cup holds the sponge."""
        return self.world.grippers["cup"].gripped == ("sponge",)

    def wipe(self) -> Iterator[WipedStroke | None]:
        """Press the sponge on and wipe; yields after each step, and the stroke at the end."""
        half, speed = 0.5 * STROKE, self.config.speed
        yield from self._run(0.1)
        self._go(-half, HEIGHT + 2.0 * RADIUS + 0.05)
        yield from self._run(half / speed + 2.0)
        self.law.set_settings(dataclasses.replace(self.settings, force_axes=("z",)))
        self.law.set_wrench((0.0, 0.0, -self.config.force, 0.0, 0.0, 0.0))
        yield from self._run(SETTLE)
        self._go(half, HEIGHT)
        samples = []
        for _ in self._run(STROKE / speed + 1.0):
            status = self.law.status
            assert status is not None
            place, estimated = status.pose[1, 3] - self.place[1], status.external_wrench[2]
            samples.append((self.world.time, place, self.force(), estimated))
            yield None
        times, places, forces, estimated = np.array(samples).T
        yield WipedStroke(times, places, forces, estimated, self.config.force)

    def force(self) -> float:
        """Return the vertical force of all contacts of the sponge [N]."""
        model, data = self.world.model, self.world.data
        total, wrench = 0.0, np.zeros(6)
        for i, contact in enumerate(data.contact):
            if self._sponge in contact.geom:
                mujoco.mj_contactForce(model, data, i, wrench)
                upwards = contact.frame.reshape(3, 3)[:, 2] @ wrench[:3]
                total += float(upwards if contact.geom[1] == self._sponge else -upwards)
        return total

    def _run(self, seconds: float) -> Iterator[None]:
        dt = self.world.time_step
        for _ in range(round(seconds / dt)):
            q, v, efforts = (np.array(values) for values in self.world.state("arm")[:3])
            tau = self.law.step(q, v, dt, efforts)
            self.world.command("arm", JointTargets(None, None, tau))
            self.world.step()
            yield None

    def _go(self, y: float, z: float) -> None:
        """Set the target of the tool, as an offset from its initial pose [m]."""
        target = self._X_start.copy()
        target[1:3, 3] = self.place[1] + y, z
        self.law.set_target(target)

    def _slabs(self) -> tuple[Obstacle, ...]:
        """Return boxes that approximate the table around the start."""
        x, y = self.place[:2]
        ends, slabs = np.linspace(y - LENGTH / 2, y + LENGTH / 2, SLABS + 1), []
        for k, (a, b) in enumerate(itertools.pairwise(ends)):
            low, high = self.config.height(a), self.config.height(b)
            slope = float(np.arctan2(high - low, b - a))
            top = np.array((x, (a + b) / 2, (low + high) / 2))
            centre = top - 0.02 * np.array((0.0, -np.sin(slope), np.cos(slope)))
            size = (0.3, float(np.hypot(b - a, high - low)) + 0.002, 0.04)
            slabs.append(Obstacle(f"slab{k}", Box(size), from_xyz_rpy(centre, (slope, 0.0, 0.0))))
        return tuple(slabs)

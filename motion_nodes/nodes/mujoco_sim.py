# SPDX-License-Identifier: Apache-2.0
"""MuJoCo simulation of one or more robots, with the topics of a driver."""

from __future__ import annotations

import dataclasses

from motion_nodes.model.placement import parse_placements
from motion_nodes.nodes.cell.contact_report import ContactReport
from motion_nodes.nodes.cell.scene_following import SceneFollowing
from motion_nodes.nodes.simulation import SimulationNode, SimulationParams
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.parameters import param
from motion_nodes.ros.run import run_node
from motion_nodes.sim.backend import RobotBackend
from motion_nodes.sim.mjcf import WorldConfig, is_floating
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement


@dataclasses.dataclass(frozen=True, kw_only=True)
class MujocoSimParams(SimulationParams):
    """Parameters of the MuJoCo simulation."""

    floor_height: float = param(
        0.0,
        doc="Height of the floor in the world frame, in which root links of arms are at z = 0.",
        unit="m",
        ge=-100.0,
        le=100.0,
        read_only=True,
    )
    scene_bodies: bool = param(
        False,
        doc="Simulate the objects of the robots' planning scenes as rigid bodies.",
        read_only=True,
    )


class MujocoSimNode(SimulationNode[MujocoSimParams]):
    """Simulates robots with MuJoCo."""

    params_type = MujocoSimParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("mujoco_sim", ros_args=ros_args)
        self._scenes: SceneFollowing | None = None

    def make_cell(self, placements: list[RobotPlacement]) -> RobotBackend:
        """Return a MuJoCo world."""
        height = self.params.floor_height
        on_floor = [_on_floor(p, height) if is_floating(p.robot) else p for p in placements]
        self._world = MujocoWorld(on_floor, WorldConfig(floor_height=height))
        return self._world

    def configure(self) -> None:
        """Create the cell, and the subscriptions of planning scenes if enabled."""
        super().configure()
        self._contacts = ContactReport(self._world)
        if self.params.scene_bodies:
            places = parse_placements(self.params.robots)
            robots = list(zip(places, self._world.placements, strict=True))
            self._scenes = SceneFollowing(self, self._world, robots)

    def activate(self) -> None:
        """Start the simulation and the updates of bodies."""
        super().activate()
        if self._scenes is not None:
            self._scenes.start()

    def halt(self) -> None:
        """Stop the updates of bodies."""
        if self._scenes is not None:
            self._scenes.stop()
        super().halt()

    def release(self) -> None:
        """Destroy the subscriptions."""
        if self._scenes is not None:
            self._scenes.destroy()
        self._scenes = None
        super().release()

    def tick(self, dt: float) -> None:
        """Advance the simulation and record contacts."""
        if self._scenes is not None:
            self._scenes.tick()
        super().tick(dt)
        self._contacts.tick()

    def diagnose(self, report: Report) -> None:
        """Report the real-time factor, contacts and bodies."""
        super().diagnose(report)
        self._contacts.diagnose(report)
        if self._scenes is not None:
            self._scenes.diagnose(report)


def _on_floor(placement: RobotPlacement, height: float) -> RobotPlacement:
    """Return the placement of a wheeled robot at the height of the floor."""
    X_WR = placement.X_WR.copy()
    X_WR[2, 3] = height
    return RobotPlacement(placement.robot, placement.name, X_WR)


def main() -> None:
    """Run the node as a process of its own."""
    run_node(MujocoSimNode)

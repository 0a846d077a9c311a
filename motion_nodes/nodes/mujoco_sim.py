# SPDX-License-Identifier: Apache-2.0
"""MuJoCo simulation of one or more robots, behind the topics of a real robot's driver."""

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
        doc="Height of the floor in the world, in which root links of arms stand at z = 0.",
        unit="m",
        ge=-100.0,
        le=100.0,
        read_only=True,
    )
    scene_bodies: bool = param(
        False,
        doc="Objects of the robots' planning scenes are bodies that links can touch.",
        read_only=True,
    )


class MujocoSimNode(SimulationNode[MujocoSimParams]):
    """Robots with physics."""

    params_type = MujocoSimParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("mujoco_sim", ros_args=ros_args)
        self._scenes: SceneFollowing | None = None

    def make_cell(self, placements: list[RobotPlacement]) -> RobotBackend:
        """Return a MuJoCo world."""
        height = self.params.floor_height
        stands = [_on_floor(p, height) if is_floating(p.robot) else p for p in placements]
        self._world = MujocoWorld(stands, WorldConfig(floor_height=height))
        return self._world

    def configure(self) -> None:
        """Build the cell, and follow the planning scenes of its robots where that is wanted."""
        super().configure()
        self._contacts = ContactReport(self._world)
        if self.params.scene_bodies:
            places = parse_placements(self.params.robots)
            robots = list(zip(places, self._world.placements, strict=True))
            self._scenes = SceneFollowing(self, self._world, robots)

    def activate(self) -> None:
        """Start pacing from now, and following."""
        super().activate()
        if self._scenes is not None:
            self._scenes.start()

    def halt(self) -> None:
        """Stop following; the loop goes on until it is stopped."""
        if self._scenes is not None:
            self._scenes.stop()
        super().halt()

    def release(self) -> None:
        """Take the subscriptions down."""
        if self._scenes is not None:
            self._scenes.destroy()
        self._scenes = None
        super().release()

    def tick(self, dt: float) -> None:
        """Advance, and look who touches whom."""
        if self._scenes is not None:
            self._scenes.tick()
        super().tick(dt)
        self._contacts.tick()

    def diagnose(self, report: Report) -> None:
        """Say how fast simulated time runs, and which contacts there were."""
        super().diagnose(report)
        self._contacts.diagnose(report)
        if self._scenes is not None:
            self._scenes.diagnose(report)


def _on_floor(placement: RobotPlacement, height: float) -> RobotPlacement:
    """Return a wheeled robot's placement with its spot on the floor."""
    X_WR = placement.X_WR.copy()
    X_WR[2, 3] = height
    return RobotPlacement(placement.robot, placement.name, X_WR)


def main() -> None:
    """Run the node as a process of its own."""
    run_node(MujocoSimNode)

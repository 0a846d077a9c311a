# SPDX-License-Identifier: Apache-2.0
"""MuJoCo simulation of one or more robots, behind the topics of a real robot's driver."""

from __future__ import annotations

from motion_nodes.nodes.simulation import SimulationNode
from motion_nodes.ros.run import run_node
from motion_nodes.sim.backend import RobotBackend, RobotPlacement
from motion_nodes.sim.mujoco_world import MujocoWorld


class MujocoSimNode(SimulationNode):
    """Robots with physics."""

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("mujoco_sim", ros_args=ros_args)

    def make_cell(self, placements: list[RobotPlacement]) -> RobotBackend:
        """Return a MuJoCo world."""
        return MujocoWorld(placements)


def main() -> None:
    """Run the node as a process of its own."""
    run_node(MujocoSimNode)

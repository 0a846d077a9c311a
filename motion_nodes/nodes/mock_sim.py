# SPDX-License-Identifier: Apache-2.0
"""Mock simulation: robots that follow commands exactly, with the topics of a driver."""

from __future__ import annotations

from motion_nodes.extras.sim.backend import MockWorld, RobotBackend, RobotPlacement
from motion_nodes.nodes.simulation import SimulationNode, SimulationParams


class MockSimNode(SimulationNode[SimulationParams]):
    """Simulates robots without physics."""

    params_type = SimulationParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("mock_sim", ros_args=ros_args)

    def make_cell(self, placements: list[RobotPlacement]) -> RobotBackend:
        """Return a mock world."""
        return MockWorld(placements)

# SPDX-License-Identifier: Apache-2.0
"""Base class of nodes for one robot: loads its description first."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import declare_early, declared, param


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobotParams(NodeParams):
    """Parameters of a node for one robot."""

    robot: str = param(
        doc="Robot model: name of a shipped robot, or path of a robot.yaml file or its folder.",
        read_only=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FramedParams(RobotParams):
    """Parameters of a node that publishes or receives frame names."""

    tf_frame_prefix: str = param(
        "",
        doc="Prefix of all frame names; '~' is replaced by the node's namespace.",
        read_only=True,
    )


R = TypeVar("R", bound=RobotParams)


class RobotNode(MotionNode[R]):
    """A node with a ``robot``, whose description gives defaults of parameters."""

    robot: Robot

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return defaults by field name for parameters that the robot's description gives."""
        return {}

    def prepare(self) -> dict[str, Any]:
        """Load the robot of the parameter ``robot``."""
        name = self.early_text("robot")
        if not name:
            raise InvalidConfig(
                "parameter 'robot' must name a robot, such as -p robot:=franka", field="robot"
            )
        self.robot = load_description(name)
        return self.robot_defaults(self.robot)

    def early_text(self, name: str) -> str:
        """Return a text parameter on which the defaults of others depend."""
        if not self.has_parameter(name):
            entry = next(e for e in declared(self.params_type) if e.name == name)
            declare_early(self, name, "", entry.descriptor())
        return str(self.get_parameter(name).value)

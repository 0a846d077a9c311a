# SPDX-License-Identifier: Apache-2.0
"""Differential-drive base (``diff_drive_controller``): twists to wheel velocities, odometry.

Interface of ros2_controllers' diff_drive_controller (docs/interfaces.md).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from motion_nodes.core.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import DifferentialSpec
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.parameters import core_params, settings_from
from motion_nodes.ros.wheeled.wheeled_base_node import WheeledBaseNode
from motion_nodes.ros.wheeled.wheeled_base_params import WheeledBaseParams, base_defaults


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(DifferentialConfig, read_only=("left_wheel_names", "right_wheel_names"))
class DifferentialParams(WheeledBaseParams):
    """Parameters of a differential base, named as in ros2_controllers."""


class DifferentialBaseNode(WheeledBaseNode[DifferentialParams]):
    """Controls a differential-drive base."""

    params_type = DifferentialParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("diff_drive_controller", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return geometry, limits and frames of the robot's description."""
        spec = robot.base
        if not isinstance(spec, DifferentialSpec):
            raise InvalidConfig(
                f"robot '{robot.name}' is of kind '{robot.kind}', not differential; "
                "it has no base for this node"
            )
        return base_defaults(robot) | {
            "left_wheel_names": spec.left_wheel_names,
            "right_wheel_names": spec.right_wheel_names,
            "wheel_radius": spec.wheel_radius,
            "wheel_separation": spec.wheel_separation,
            "left_wheel_radius_multiplier": spec.left_wheel_radius_multiplier,
            "right_wheel_radius_multiplier": spec.right_wheel_radius_multiplier,
        }

    def check(self, params: DifferentialParams) -> str | None:
        """Validate the parameters; both sides need the same number of wheels."""
        given = dataclasses.asdict(params)
        left, right = len(given["left_wheel_names"]), len(given["right_wheel_names"])
        if left != right:
            return f"left_wheel_names has {left} entries and right_wheel_names {right}"
        return super().check(params)

    def make_base(self, params: DifferentialParams) -> DifferentialBase:
        """Return the kinematics."""
        return DifferentialBase(settings_from(params, DifferentialConfig))

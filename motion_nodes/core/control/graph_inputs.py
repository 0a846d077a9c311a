# SPDX-License-Identifier: Apache-2.0
"""Inputs of an articulation controller in a dataflow graph, and the resulting command.

Each input keeps its value until it is set again; executing the graph evaluates the command. Source:
inputs of Isaac Sim's OmniGraph node "Articulation Controller", except that a selection of joint
index 0 alone selects that joint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from motion_nodes.core.control.joint_command import (
    CheckedCommand,
    JointCommand,
    check_command,
)
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.errors import InvalidCommand, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GraphInputs:
    """Values of the inputs; empty: not set."""

    robot_path: str = ""
    """Robot, by its namespace; takes precedence over ``target_prim``."""
    target_prim: str = ""
    """Robot, by its namespace."""
    joint_names: tuple[str, ...] = ()
    """Joints by name; takes precedence over ``joint_indices``. If both are empty: all joints, in
    order."""
    joint_indices: tuple[int, ...] = ()
    """Joints by index in the robot's order."""
    position_command: tuple[float, ...] = ()
    """Position per selected joint, NaN for none [rad or m]."""
    velocity_command: tuple[float, ...] = ()
    """Velocity per selected joint, NaN for none [rad/s or m/s]."""
    effort_command: tuple[float, ...] = ()
    """Effort per selected joint, NaN for none [N m or N]."""

    def target(self, robots: Mapping[str, T]) -> T:
        """Return the robot of the inputs; without a namespace, the only robot.

        Raises:
            InvalidCommand: unknown namespace; or no namespace, and several robots.
        """
        named = self.robot_path or self.target_prim
        if not named and len(robots) == 1:
            return next(iter(robots.values()))
        known = {name.strip("/"): robot for name, robot in robots.items()}
        if named.strip("/") in known and named:
            return known[named.strip("/")]
        shown = [f"/{name}" for name in known]
        if not named:
            raise InvalidCommand(
                f"give robot_path or target_prim; the robots are: {', '.join(shown)}"
            )
        which = "robot_path" if self.robot_path else "target_prim"
        raise InvalidCommand(f"{which} '{named}' is not a known robot.{did_you_mean(named, shown)}")

    def command(self, limits: JointLimits) -> CheckedCommand | None:
        """Return the command to all joints of a robot, or None if there is none.

        Args:
            limits: limits of the robot's joints, which also define their names.

        Raises:
            InvalidCommand: an input is invalid.
            UnknownJoint: unknown joint.
        """
        checked = check_command(
            JointCommand(
                names=self.joint_names or None,
                indices=self.joint_indices or None,
                positions=self.position_command or None,
                velocities=self.velocity_command or None,
                efforts=self.effort_command or None,
            ),
            limits,
        )
        channels = (checked.positions, checked.velocities, checked.efforts)
        return None if np.isnan(channels).all() else checked

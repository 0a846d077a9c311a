# SPDX-License-Identifier: Apache-2.0
"""The inputs of an articulation controller in a dataflow graph, and the command they make.

Each input keeps its value until it is given another; whoever executes the graph asks for the
command then. Source: Isaac Sim, OmniGraph node "Articulation Controller" (its inputs), with a
selection of joint index 0 alone taken as what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from motion_nodes.control.joint_command import (
    CheckedCommand,
    JointCommand,
    check_command,
)
from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.model.limits import JointLimits

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GraphInputs:
    """The values of the inputs; empty means not given."""

    robot_path: str = ""
    """Which robot, by its namespace; wins over ``target_prim``."""
    target_prim: str = ""
    """Likewise."""
    joint_names: tuple[str, ...] = ()
    """Which joints; wins over ``joint_indices``. Neither: all of them, in order."""
    joint_indices: tuple[int, ...] = ()
    """Which joints, by their place among the robot's."""
    position_command: tuple[float, ...] = ()
    """One for each chosen joint, NaN for none [rad or m]."""
    velocity_command: tuple[float, ...] = ()
    """Likewise [rad/s or m/s]."""
    effort_command: tuple[float, ...] = ()
    """Likewise [N m or N]."""

    def target(self, robots: Mapping[str, T]) -> T:
        """Return the robot that the inputs name, by its namespace; the only one if they name none.

        Raises:
            InvalidCommand: no robot of that namespace; none named where there are several.
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
                f"neither robot_path nor target_prim says which robot is meant: {', '.join(shown)}"
            )
        which = "robot_path" if self.robot_path else "target_prim"
        raise InvalidCommand(f"{which} '{named}' is no robot here.{did_you_mean(named, shown)}")

    def command(self, limits: JointLimits) -> CheckedCommand | None:
        """Return what is asked of all joints of a robot, or None where nothing is.

        Args:
            limits: of the robot's joints, which also name them.

        Raises:
            InvalidCommand: whatever is wrong with any of the inputs; there is no command then.
            UnknownJoint: for a name that is not among the joints.
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

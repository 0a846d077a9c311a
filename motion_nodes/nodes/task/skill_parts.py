# SPDX-License-Identifier: Apache-2.0
"""Parts of one robot that its skills share."""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.core.scene.world import World
from motion_nodes.nodes.task.arm_motions import ArmMotions, CompliantMotions
from motion_nodes.nodes.task.navigated_base import NavigatedBase
from motion_nodes.nodes.task.observed_objects import ObservedObjects
from motion_nodes.nodes.task.task_params import TaskServerParams
from motion_nodes.ros.node import MotionNode


@dataclass(frozen=True)
class SkillParts:
    """Clients and observations of one robot, on a mobile base or not."""

    node: MotionNode[TaskServerParams]
    motions: ArmMotions
    compliance: CompliantMotions
    objects: ObservedObjects
    world: World
    """Its planning scene."""
    touching: frozenset[str]
    """Links that may touch the held object."""
    base: NavigatedBase | None = None

    @property
    def params(self) -> TaskServerParams:
        """The current parameters of the node."""
        return self.node.params

    def cancel(self) -> None:
        """Cancel the active motions."""
        self.motions.cancel()
        if self.base is not None:
            self.base.cancel()

    def cancel_all(self) -> None:
        """Cancel the motions of all clients."""
        self.motions.cancel_all()
        if self.base is not None:
            self.base.cancel_all()

# SPDX-License-Identifier: Apache-2.0
"""Skills of the base of a mobile manipulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from motion_nodes.base_navigation.planar_geometry import Pose2
from motion_nodes.base_navigation.pose_motions import legs_to
from motion_nodes.nodes.task.holding import Holding
from motion_nodes.nodes.task.navigated_base import NavigatedBase
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.nodes.task.skill_parts import SkillParts
from motion_nodes.tasks.skill_poses import stand_poses
from motion_nodes.tasks.task_codes import TaskCode
from motion_nodes.tasks.task_runner import SkillFailed
from motion_nodes.tasks.world_state import WorldState

ARRIVED = 0.5
"""Time at rest after a drive until objects are observed again [s]."""


class MobileSkills:
    """Drives of the base that carries an arm."""

    def __init__(self, parts: SkillParts, holding: Holding, base: NavigatedBase) -> None:
        """Create the skills."""
        self._parts, self._holding, self._base = parts, holding, base
        self._motions, self._objects = parts.motions, parts.objects

    def navigate(self, location: str, state: WorldState, phase: Callable[[str], None]) -> Work:
        """Drive to an object or a place."""
        base, target = self._base, state.objects.get(location)
        if target is None and location not in state.places:
            raise SkillFailed(f"'{location}' is no object and no place", TaskCode.UNKNOWN_LOCATION)
        phase("fold")
        yield from self._holding.free(self._motions.to_state("home"))
        # The navigator checks the outline of this state only.
        here = base.in_odom_now()
        if here is None:
            raise SkillFailed(
                "the pose of the base is not known: no odometry, or none that is new",
                TaskCode.STATE_UNKNOWN,
            )

        def goals(start: Pose2) -> Iterator[Pose2]:
            if target is None:
                yield here.inverse().compose(base.in_odom(state.places[location]))
                return
            x, y = target.X_WO[:2, 3].tolist()
            seen = start.inverse().compose(Pose2(x, y))
            for pose in stand_poses(np.array(seen[:2]), self._parts.params.stand_off):
                yield start.compose(Pose2(*pose))

        legs = legs_to(goals, base.outlines.around(state))
        if not legs:
            raise SkillFailed(
                f"no free drive to '{location}' without a detour was found", TaskCode.NO_DRIVE
            )
        for leg in legs:
            phase("drive")
            yield from base.drive(here.compose(leg))
        end = self._objects.now() + ARRIVED
        while self._objects.now() < end:
            yield
        phase("check")
        # The held object moved with the base: detections during the drive are outdated.
        yield from self._holding.measure()

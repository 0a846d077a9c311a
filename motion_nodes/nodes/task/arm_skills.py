# SPDX-License-Identifier: Apache-2.0
"""Skills of an arm with two parallel fingers, each a sequence of phases with a check after each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from motion_nodes.model.poses import inverse
from motion_nodes.model.tree import Array
from motion_nodes.nodes.task.arm_motions import SLOW
from motion_nodes.nodes.task.holding import LOST_DISTANCE, LOST_WIDTH, Holding
from motion_nodes.nodes.task.reachability import Reachability, raised
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.tasks.grasps import GraspPose, places_at, places_on
from motion_nodes.tasks.task_codes import TaskCode
from motion_nodes.tasks.task_plan import PlanStep
from motion_nodes.tasks.task_runner import SkillFailed
from motion_nodes.tasks.world_state import ObjectState, WorldState, half_extents, point_of

GAP = 2e-3
"""Height above the surface at which an object is released [m]."""
MOVED = 0.01
"""Distance by which an object may have moved before it is grasped [m]."""
OFF_CENTRE = 0.003
"""Distance by which an object may have moved before the fingers close [m]."""
POUR_ANGLE = 1.9
"""Angle by which a container is tilted [rad]."""
PUSH = 0.10
"""Length of a push [m]."""
PUSH_HEIGHT = 0.015
"""Min height of the tool above the surface when it pushes [m]."""
_DIRECTIONS = {
    "forward": (1.0, 0.0), "backward": (-1.0, 0.0), "left": (0.0, 1.0), "right": (0.0, -1.0),
}  # fmt: skip


class ArmSkills(Holding):
    """Starts skills of one arm."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Create the skills; arguments as for :class:`~motion_nodes.nodes.task.holding.Holding`."""
        super().__init__(*args, **options)
        motions = self._motions
        self._reach = Reachability(motions.arm, self._world, motions.positions)

    def warm_up(self) -> None:
        """Compile the kernels for the selection of grasps."""
        self._reach.warm_up()

    def work_of(self, step: PlanStep, state: WorldState, phase: Callable[[str], None]) -> Work:
        """Return the work of a step.

        Args:
            step: the step.
            state: observed state.
            phase: called with the name of each phase.

        Raises:
            SkillFailed: the robot has no such skill.
        """
        method = getattr(self, f"_{step.skill}", None)
        if method is None:
            raise SkillFailed(f"this robot cannot {step.skill}", TaskCode.UNSUPPORTED_SKILL)
        return self._resumed(method(state=state, phase=phase, **step.args), state, phase)

    def _home(self, state: WorldState, phase: Callable[[str], None]) -> Work:
        phase("move")
        yield from self._motions.to_state("home")

    def _locate(self, object: str, state: WorldState, phase: Callable[[str], None]) -> Work:
        found = state.objects[object].X_WO[:3, 3]
        phase(f"at {found[0]:.3f}, {found[1]:.3f}, {found[2]:.3f}")
        yield

    def _pick(self, object: str, state: WorldState, phase: Callable[[str], None]) -> Work:
        target, motions = state.objects[object], self._motions
        tool = motions.tool_pose()
        if state.held == object and tool is not None:  # gripped again
            yield from self._lift(tool, phase)
            return
        self._grasped = None
        phase("approach")
        grasp, q = yield from self._reach.grasp(target, motions.max_width)
        yield from motions.open()
        yield from motions.to_joints(q, "approach")
        self._require_unmoved(target)
        phase("pre_grasp")
        self._objects.hide(target)
        try:
            yield from motions.straight(grasp.X_WG, what="pre_grasp", speed=SLOW)
            phase("grasp")
            grasp, target = yield from self._centred(grasp, target)
            yield from self._grasp(grasp, target)
        finally:
            if self._grasped is None:
                self._objects.show(target)
        yield from self._lift(grasp.X_WG, phase)

    def _lift(self, X_WT: Array, phase: Callable[[str], None]) -> Work:
        """Lift the held object from a pose of the tool, shape (4, 4)."""
        phase("lift")
        yield from self._motions.straight(raised(X_WT), what="lift")
        yield from self._measure()

    def _centred(self, grasp: GraspPose, target: ObjectState) -> Work:
        """Align the open fingers with an object that has moved; return grasp and object."""
        seen = yield from self._fresh(target.name)
        if seen is None:
            return grasp, target
        moved = (seen.X_WO[:3, 3] - target.X_WO[:3, 3]) * [1.0, 1.0, 0.0]
        if float(np.linalg.norm(moved)) > OFF_CENTRE:
            X_WG = np.array(grasp.X_WG)
            X_WG[:3, 3] += moved
            grasp = replace(grasp, X_WG=X_WG)
            yield from self._motions.straight(X_WG, what="pre_grasp", speed=SLOW)
        return grasp, seen

    def _grasp(self, grasp: GraspPose, target: ObjectState) -> Work:
        """Close the fingers, check that the object is between them, and attach it."""
        motions = self._motions
        width = yield from self._grip(target, grasp.X_WG, grasp.width)
        if self._check_grasp() and width < max(LOST_WIDTH, 0.5 * grasp.width):
            yield from motions.open()
            yield from motions.straight(raised(grasp.X_WG), what="retreat")
            raise SkillFailed(
                f"nothing between the fingers: {1e3 * width:.0f} mm apart, "
                f"'{target.name}' is {1e3 * grasp.width:.0f} mm wide",
                TaskCode.NOT_GRASPED,
            )
        self._hold(target, grasp.X_WG)

    def _place(
        self, object: str, location: str, state: WorldState, phase: Callable[[str], None]
    ) -> Work:
        surface, motions = state.objects.get(location), self._motions
        point = None if surface is not None else point_of(location)
        if surface is None and point is None:
            raise SkillFailed(
                f"'{location}' is neither a known object nor a point", TaskCode.UNKNOWN_LOCATION
            )
        phase("find place")
        item = yield from self._held_item(object, state)
        if surface is not None:
            poses = places_on(surface, item, state.objects)
        else:
            poses = places_at(point or (), item, state.objects)
        if not poses:
            raise SkillFailed(f"there is no room for '{object}' on '{location}'", TaskCode.NO_ROOM)
        for pose in poses:
            pose[2, 3] += GAP
        X_OT = inverse(self._pose_in_tool(object))
        pose, q = yield from self._reach.place(poses, X_OT)
        phase("move")
        yield from motions.to_joints(q, "move")
        phase("let down")
        yield from motions.straight(pose @ X_OT, what="let down", speed=SLOW)
        phase("release")
        released = replace(item, X_WO=pose)
        yield from self._release(released)
        phase("retreat")
        try:
            yield from motions.straight(raised(pose @ X_OT), what="retreat")
        finally:
            self._objects.show(released)
        phase("check")
        yield from self._require_placed(released)

    def _pour(
        self, source: str, target: str, state: WorldState, phase: Callable[[str], None]
    ) -> Work:
        phase("move")
        item = yield from self._held_item(source, state)
        bowl, reach = state.objects[target], half_extents(item.shape)
        above = np.array(item.X_WO)
        above[:2, 3] = bowl.X_WO[:2, 3]
        above[2, 3] = bowl.top + 0.05 + float(np.linalg.norm(reach))
        start, tilted, q = yield from self._reach.pour(
            above, inverse(self._pose_in_tool(source)), POUR_ANGLE
        )
        yield from self._motions.to_joints(q, "move")
        phase("tilt")
        yield from self._motions.straight(tilted, what="tilt", speed=SLOW)
        phase("bring upright")
        yield from self._motions.straight(start, what="bring upright", speed=SLOW)

    def _push(
        self, object: str, direction: str, state: WorldState, phase: Callable[[str], None]
    ) -> Work:
        target, motions = state.objects[object], self._motions
        along = np.array([*_DIRECTIONS[direction], 0.0])
        away = float(np.abs(target.X_WO[:3, :3].T @ along) @ half_extents(target.shape))
        at = target.X_WO[:3, 3] - along * (away + 0.03)
        at[2] = max(at[2], target.bottom + PUSH_HEIGHT)
        phase("approach")
        begin, end, q = yield from self._reach.push(at, at + along * (PUSH + 0.02), target)
        yield from motions.close()
        yield from motions.to_joints(q, "approach")
        self._require_unmoved(target)
        phase("push")
        self._objects.hide(target)
        moved = np.array(target.X_WO)
        try:
            yield from motions.straight(begin, end, raised(end), what="push", speed=SLOW)
            moved[:3, 3] += along * PUSH
        finally:
            self._objects.show(replace(target, X_WO=moved))
        now = yield from self._fresh(object)
        if now is not None and (now.X_WO[:3, 3] - target.X_WO[:3, 3]) @ along < 0.5 * PUSH:
            raise SkillFailed(f"'{object}' did not follow", TaskCode.NOT_PLACED)

    # ---- observations

    def _require_unmoved(self, target: ObjectState) -> None:
        seen = self._objects.detected(target.name)
        if seen is None:
            if self._objects.detects(target.name):
                raise SkillFailed(f"'{target.name}' is no longer detected", TaskCode.NOT_DETECTED)
            return
        moved = float(np.linalg.norm(seen.X_WO[:3, 3] - target.X_WO[:3, 3]))
        if moved > MOVED:
            raise SkillFailed(
                f"'{target.name}' has moved by {1e3 * moved:.0f} mm", TaskCode.OBJECT_MOVED
            )

    def _require_placed(self, item: ObjectState) -> Work:
        seen = yield from self._fresh(item.name)
        if seen is None:
            return
        away = float(np.linalg.norm(seen.X_WO[:3, 3] - item.X_WO[:3, 3]))
        if away > LOST_DISTANCE:
            raise SkillFailed(
                f"'{item.name}' is {1e3 * away:.0f} mm from its place", TaskCode.NOT_PLACED
            )

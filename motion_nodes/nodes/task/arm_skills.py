# SPDX-License-Identifier: Apache-2.0
"""Skills of an arm with two parallel fingers, each a sequence of phases with a check after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from motion_nodes.model.poses import from_xyz_rpy, inverse
from motion_nodes.model.tree import Array
from motion_nodes.nodes.task.arm_motions import ArmMotions
from motion_nodes.nodes.task.observed_objects import ObservedObjects
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.scene.world import World
from motion_nodes.tasks.grasps import GraspPose, grasps_of, places_on
from motion_nodes.tasks.task_plan import PlanStep
from motion_nodes.tasks.task_runner import SkillFailed
from motion_nodes.tasks.world_state import ObjectState, WorldState, half_extents

APPROACH = 0.10
"""Length of the straight motion before a grasp and after it [m]."""
GAP = 2e-3
"""Distance by which an object is let down above its surface [m]."""
LOST_WIDTH = 4e-3
"""Distance of the fingers below which nothing is between them [m]."""
POUR_ANGLE = 1.9
"""Angle by which a container is tilted [rad]."""
PUSH = 0.10
"""Length of a push [m]."""
_DIRECTIONS = {
    "forward": (1.0, 0.0), "backward": (-1.0, 0.0), "left": (0.0, 1.0), "right": (0.0, -1.0),
}  # fmt: skip


class ArmSkills:
    """Starts skills of one arm."""

    def __init__(
        self,
        motions: ArmMotions,
        objects: ObservedObjects,
        world: World,
        touching: frozenset[str],
        check_grasp: Callable[[], bool],
    ) -> None:
        """Create the skills.

        Args:
            motions: of the arm.
            objects: around it.
            world: its planning scene.
            touching: links that may touch what is held.
            check_grasp: whether a grasp with closed fingers has failed.
        """
        self._check_grasp = check_grasp
        self._motions, self._objects, self._world = motions, objects, world
        self._touching = touching
        self._grasped: tuple[str, Array] | None = None
        """What is held, and its pose in the tool."""

    def warm_up(self) -> None:
        """Compile what the choice of grasps needs."""
        arm = self._motions.arm
        arm.ik(arm.fk(arm.state("home")), seed="home", world=self._world)

    def work_of(self, step: PlanStep, state: WorldState, phase: Callable[[str], None]) -> Work:
        """Return the work of a step.

        Args:
            step: the step.
            state: as it was observed.
            phase: called with the name of each phase.

        Raises:
            SkillFailed: the robot has no such skill.
        """
        method = getattr(self, f"_{step.skill}", None)
        if method is None:
            raise SkillFailed(f"this robot cannot {step.skill}")
        work: Work = method(state=state, phase=phase, **step.args)
        return work

    def _home(self, state: WorldState, phase: Callable[[str], None]) -> Work:
        phase("move")
        yield from self._motions.to_state("home")

    def _locate(self, object: str, state: WorldState, phase: Callable[[str], None]) -> Work:
        found = state.objects[object].X_WO[:3, 3]
        phase(f"at {found[0]:.3f}, {found[1]:.3f}, {found[2]:.3f}")
        yield

    def _pick(self, object: str, state: WorldState, phase: Callable[[str], None]) -> Work:
        target, motions = state.objects[object], self._motions
        phase("approach")
        grasp, q = self._reachable(target)
        yield from motions.open()
        yield from motions.to_joints(q, "approach")
        phase("pre_grasp")
        self._objects.hide(target)
        try:
            yield from motions.straight(grasp.X_WG, what="pre_grasp")
            phase("grasp")
            width = yield from motions.close()
            if self._check_grasp() and width < max(LOST_WIDTH, 0.5 * grasp.width):
                yield from motions.open()
                raise SkillFailed(
                    f"nothing between the fingers: {1e3 * width:.0f} mm apart, "
                    f"'{object}' is {1e3 * grasp.width:.0f} mm wide"
                )
        except SkillFailed:
            self._objects.show(target)
            raise
        X_TO = inverse(grasp.X_WG) @ target.X_WO
        self._grasped = object, X_TO
        self._objects.attach(target, motions.arm.tip or "", X_TO, self._touching)
        phase("lift")
        yield from motions.straight(_raised(grasp.X_WG), what="lift")

    def _place(
        self, object: str, location: str, state: WorldState, phase: Callable[[str], None]
    ) -> Work:
        item, surface = self._held_item(object, state), state.objects.get(location)
        if surface is None:
            raise SkillFailed(f"'{location}' is no object to put something on")
        motions, X_OT = self._motions, inverse(self._pose_in_tool(object))
        phase("find place")
        poses = places_on(surface, item, state.objects)
        if not poses:
            raise SkillFailed(f"there is no room for '{object}' on '{location}'")
        pose, q = self._reachable_place(poses, X_OT)
        phase("move")
        yield from motions.to_joints(q, "move")
        phase("let down")
        yield from motions.straight(pose @ X_OT, what="let down")
        phase("release")
        self._objects.detach(ObjectState(object, pose, item.shape))
        yield from motions.open()
        self._grasped = None
        phase("retreat")
        yield from motions.straight(_raised(pose @ X_OT), what="retreat")

    def _pour(
        self, source: str, target: str, state: WorldState, phase: Callable[[str], None]
    ) -> Work:
        item, bowl = self._held_item(source, state), state.objects[target]
        reach = half_extents(item.shape)
        above = np.array(item.X_WO)
        above[:3, 3] = bowl.X_WO[:3, 3]
        above[2, 3] = bowl.top + 0.05 + float(np.hypot(reach[0], reach[2]))
        X_OT = inverse(self._pose_in_tool(source))
        phase("move")
        start = above @ X_OT
        yield from self._motions.to_joints(self._solution(start, "pour"), "move")
        phase("tilt")
        tilted = start @ from_xyz_rpy((0.0, 0.0, 0.0), (0.0, POUR_ANGLE, 0.0))
        yield from self._motions.straight(tilted, what="tilt")
        phase("bring upright")
        yield from self._motions.straight(start, what="bring upright")

    def _push(
        self, object: str, direction: str, state: WorldState, phase: Callable[[str], None]
    ) -> Work:
        target, motions = state.objects[object], self._motions
        along = np.array([*_DIRECTIONS[direction], 0.0])
        away = float(np.abs(target.X_WO[:3, :3].T @ along) @ half_extents(target.shape))
        begin = np.diag([1.0, -1.0, -1.0, 1.0])
        begin[:3, 3] = target.X_WO[:3, 3] - along * (away + 0.03)
        end = np.array(begin)
        end[:3, 3] += along * (PUSH + 0.02)
        phase("approach")
        yield from motions.close()
        yield from motions.to_joints(self._solution(_raised(begin), "push"), "approach")
        phase("push")
        self._objects.hide(target)
        try:
            yield from motions.straight(begin, end, _raised(end), what="push")
        finally:
            moved = np.array(target.X_WO)
            moved[:3, 3] += along * PUSH
            self._objects.show(ObjectState(object, moved, target.shape))

    # ---- choices

    def _reachable(self, target: ObjectState) -> tuple[GraspPose, Array]:
        """Return a grasp that the arm reaches, and joint positions of the approach to it."""
        grasps = grasps_of(target, self._motions.max_width)
        if not grasps:
            raise SkillFailed(
                f"'{target.name}' does not fit between the fingers, which open to "
                f"{1e3 * self._motions.max_width:.0f} mm"
            )
        for grasp in grasps:
            q = self._try(_raised(grasp.X_WG))
            if q is not None and self._try(grasp.X_WG, q, collisions=False) is not None:
                return grasp, q
        raise SkillFailed(f"no grasp of '{target.name}' is within reach and collision-free")

    def _reachable_place(self, poses: list[Array], X_OT: Array) -> tuple[Array, Array]:
        for pose in self._let_down(poses):
            q = self._try(_raised(pose @ X_OT))
            if q is not None and self._try(pose @ X_OT, q) is not None:
                return pose, q
        raise SkillFailed("no place there is within reach and collision-free")

    @staticmethod
    def _let_down(poses: list[Array]) -> Iterator[Array]:
        for pose in poses:
            lowered = np.array(pose)
            lowered[2, 3] += GAP
            yield lowered

    def _solution(self, X_BT: Array, what: str) -> Array:
        q = self._try(X_BT)
        if q is None:
            raise SkillFailed(f"{what}: the pose is not within reach and collision-free")
        return q

    def _try(
        self, X_BT: Array, seed: Array | None = None, *, collisions: bool = True
    ) -> Array | None:
        arm = self._motions.arm
        seed = (
            arm.state("ready" if "ready" in arm.state_names else "home") if seed is None else seed
        )
        result = arm.ik(X_BT, seed=seed, world=self._world if collisions else None)
        return result.q if result.success else None

    def _held_item(self, name: str, state: WorldState) -> ObjectState:
        if name not in state.objects:
            raise SkillFailed(f"'{name}' is not seen any more")
        return state.objects[name]

    def _pose_in_tool(self, name: str) -> Array:
        if self._grasped is not None and self._grasped[0] == name:
            return self._grasped[1]
        body = self._world.scene.attached.get(name)
        if body is None or body.link != self._motions.arm.tip:
            raise SkillFailed(f"'{name}' is not held by the tool")
        return body.X_LO


def _raised(pose: Array) -> Array:
    above = np.array(pose)
    above[2, 3] += APPROACH
    return above

# SPDX-License-Identifier: Apache-2.0
"""Skills of an arm with two parallel fingers, each a sequence of phases with a check after each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from motion_nodes.core.robot.poses import inverse, rotation_vector
from motion_nodes.core.robot.tree import Cylinder, Sphere
from motion_nodes.extras.tasks.skill_poses import GraspPose, blocks, places_at, places_on
from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState, half_extents, point_of
from motion_nodes.nodes.task.arm_motions import SLOW
from motion_nodes.nodes.task.holding import LOST_DISTANCE, LOST_WIDTH, UNKNOWN_LOAD, WIDEST, Holding
from motion_nodes.nodes.task.reachability import Reachability, raised
from motion_nodes.nodes.task.remote_work import Phase, Work
from motion_nodes.nodes.task.skill_parts import (
    MOVED,
    SkillParts,
    at_rest,
    not_detected,
    require_unmoved,
    watched,
)
from motion_nodes.typing import Array

GAP = 2e-3
"""Height above the surface at which an object is released [m]."""
APPROACHES = 4
"""Number of approaches of a pick to an object that moves meanwhile."""
NEAR = np.full(3, MOVED)
"""Displacement of an object for which a straight correction above it is enough [m]."""
PLAY = np.array((0.008, np.inf, 0.01))
"""Displacement for which open fingers around it need not be moved: across their motion, along it
(limited by their gap), and in height [m]."""
FINGER_GAP = 0.004
"""Min gap between open fingers and an object [m]."""
TURNED = 0.15
"""Rotation of an object after which another grasp is chosen [rad]."""
OFF_CENTRE = 0.003
"""Displacement of an object that is corrected above it [m]."""
ASKEW = 4e-3
"""Excess of the finger distance over an object's width from which it is gripped again [m]."""
FALLEN = 0.015
"""Difference of the height of a placed object from which it has fallen down or over [m]."""
POUR_ANGLE = 1.9
"""Angle by which a container is tilted [rad]."""
PUSH = 0.10
"""Length of a push [m]."""
PUSH_SPEED = 0.1
"""Speed of a push with impedance control [m/s]."""
PUSH_SETTINGS = {"frame": "base", "stiffness": [1000.0, 60.0], "max_force": 20.0}
STIFF_PUSH_FORCE = 50.0
"""Force at the tool at which a push without impedance control ends [N]."""
PUSH_HEIGHT = 0.015
"""Min height of the tool above the surface when it pushes [m]."""
_DIRECTIONS = {
    "forward": (1.0, 0.0), "backward": (-1.0, 0.0), "left": (0.0, 1.0), "right": (0.0, -1.0),
}  # fmt: skip


class _NotGrasped(SkillFailed):
    """An object has to be approached again, from where it is now."""

    def __init__(self, seen: ObjectState, text: str, code: TaskCode) -> None:
        super().__init__(f"'{seen.name}' {text}", code)
        self.seen = seen


class ArmSkills:
    """Skills of one arm by planned motions."""

    def __init__(self, parts: SkillParts, holding: Holding, reach: Reachability) -> None:
        self._parts, self._holding, self._reach = parts, holding, reach
        self._motions, self._objects = parts.motions, parts.objects

    def home(self, state: WorldState, phase: Phase) -> Work:
        """Move to the home state."""
        phase("move")
        yield from self._holding.free(self._motions.to_state("home"))

    def locate(self, object: str, state: WorldState, phase: Phase) -> Work:
        """Report where an object is."""
        found = state.objects[object].X_WO[:3, 3]
        phase(f"at {found[0]:.3f}, {found[1]:.3f}, {found[2]:.3f}")
        yield

    def pick(self, object: str, state: WorldState, phase: Phase) -> Work:
        """Grasp an object and lift it."""
        target, motions = state.objects[object], self._motions
        tool = motions.tool_pose()
        if state.held == object and tool is not None:  # gripped again
            yield from self._lift(tool, phase)
            return
        self._holding.grasped = None
        for attempt in range(APPROACHES):
            phase("approach")
            try:
                grasp, target = yield from self._approach(target)
                phase("pre_grasp")
                self._objects.hide(target)
                grasp, target = yield from self._descend(grasp, target)
                phase("grasp")
                yield from self._grasp(grasp, target)
                break
            except _NotGrasped as error:
                if attempt == APPROACHES - 1:
                    raise
                phase(f"again: {error}")
                target = error.seen
            finally:
                if self._holding.grasped is None:
                    self._objects.show(self._objects.detected(object) or target)
        yield from self._lift(grasp.X_WG, phase)

    def _approach(self, target: ObjectState) -> Work:
        """Move the open fingers above an object; return the grasp, and the object as seen there."""
        motions = self._motions
        grasp, q = yield from self._reach.grasp(target, motions.max_width)
        yield from motions.open()
        near = partial(self._require_near, grasp, target, NEAR)
        yield from watched(self._parts, self._holding.free(motions.to_joints(q, "approach")), near)
        seen = yield from self._holding.fresh(target.name)
        if seen is None:
            return grasp, target
        near()
        shift = seen.X_WO[:3, 3] - target.X_WO[:3, 3]
        if float(np.linalg.norm(shift)) > OFF_CENTRE:
            X_WG = np.array(grasp.X_WG)
            X_WG[:3, 3] += shift
            grasp = replace(grasp, X_WG=X_WG)
            yield from self._holding.free(
                motions.straight(raised(X_WG), what="approach", speed=SLOW)
            )
        return grasp, seen

    def _descend(self, grasp: GraspPose, target: ObjectState) -> Work:
        """Move the open fingers down around an object; back up if it moves or is touched."""
        begin, near = self._motions.tool_pose(), partial(self._require_near, grasp, target, PLAY)
        down = self._holding.free(self._motions.straight(grasp.X_WG, what="pre_grasp", speed=SLOW))
        try:
            near()
            yield from watched(self._parts, down, near)
            seen = yield from self._holding.fresh(target.name)
            near()
        except SkillFailed:
            yield from self._back_up(raised(grasp.X_WG) if begin is None else begin)
            raise
        return grasp, target if seen is None else seen

    def _back_up(self, begin: Array) -> Work:
        """Move straight up, to the height at which a descent began."""
        yield from at_rest(self._parts)
        tool = self._motions.tool_pose()
        if tool is None or tool[2, 3] > begin[2, 3] - OFF_CENTRE:
            return
        above = np.array(tool)
        above[2, 3] = begin[2, 3]
        # What has come between the fingers is in contact with them.
        up = self._motions.straight(above, what="retreat", checked=False)
        yield from self._holding.free(up, UNKNOWN_LOAD)

    def _require_near(self, grasp: GraspPose, target: ObjectState, play: Array) -> None:
        """Fail if an object was moved or turned, or the open fingers closed meanwhile."""
        width, seen = self._motions.width, self._objects.detected(target.name)
        if width is not None and width < grasp.width and self._motions.max_width <= WIDEST:
            raise SkillFailed(
                f"the fingers closed to {1e3 * width:.0f} mm meanwhile", TaskCode.GRIPPER_FAILED
            )
        if seen is None:
            if self._objects.detects(target.name):
                raise not_detected(self._objects, target.name)
            return
        R = grasp.X_WG[:3, :3]
        away = R.T @ (seen.X_WO[:3, 3] - target.X_WO[:3, 3])
        between = 0.5 * (self._motions.max_width - grasp.width) - FINGER_GAP
        allowed = np.minimum(play, (np.inf, max(between, OFF_CENTRE), np.inf))
        turn = _turn(target, seen)
        if (np.abs(away) > allowed).any() or turn > TURNED:
            how = f"moved by {1e3 * np.linalg.norm(away):.0f} mm"
            if turn > TURNED:
                how = f"turned by {np.degrees(turn):.0f} degrees"
            raise _NotGrasped(seen, f"has {how}", TaskCode.OBJECT_MOVED)

    def _lift(self, X_WT: Array, phase: Phase) -> Work:
        """Lift the held object from a pose of the tool, shape (4, 4)."""
        phase("lift")
        lift = self._motions.straight(raised(X_WT), what="lift")
        yield from self._holding.free(lift, UNKNOWN_LOAD)  # it rests on something until then
        yield from self._holding.measure()
        self._holding.weigh()

    def _grasp(self, grasp: GraspPose, target: ObjectState) -> Work:
        """Close the fingers, check that the object is between them, and attach it."""
        motions = self._motions
        width = yield from self._holding.grip(target, grasp.X_WG, grasp.width)
        if self._parts.params.check_grasp and width < max(LOST_WIDTH, 0.5 * grasp.width):
            yield from motions.open()
            yield from self._holding.free(motions.straight(raised(grasp.X_WG), what="retreat"))
            raise SkillFailed(
                f"nothing between the fingers: {1e3 * width:.0f} mm apart, "
                f"'{target.name}' is {1e3 * grasp.width:.0f} mm wide",
                TaskCode.NOT_GRASPED,
            )
        rigid = motions.max_width <= WIDEST  # otherwise the fingers' distance is an angle
        if self._parts.params.check_grasp and rigid and width > grasp.width + ASKEW:
            yield from motions.open()
            yield from self._holding.free(motions.straight(raised(grasp.X_WG), what="retreat"))
            seen = yield from self._holding.fresh(target.name)
            # The fingers hold it at its edges: it would slip out.
            text = f"{1e3 * width:.0f} mm apart instead of {1e3 * grasp.width:.0f} mm"
            text = f"is askew between the fingers: {text}"
            raise _NotGrasped(seen or target, text, TaskCode.NOT_GRASPED)
        self._holding.hold(target, grasp.X_WG)

    def place(self, object: str, location: str, state: WorldState, phase: Phase) -> Work:
        """Put the held object down."""
        surface, motions = state.objects.get(location), self._motions
        point = None if surface is not None else point_of(location)
        if surface is None and point is None:
            raise SkillFailed(
                f"'{location}' is neither a known object nor a point", TaskCode.UNKNOWN_LOCATION
            )
        phase("find place")
        item = yield from self._holding.held_item(object, state)
        if surface is not None:
            poses = places_on(surface, item, state.objects)
        else:
            poses = places_at(point or (), item, state.objects)
        if not poses:
            raise SkillFailed(f"there is no room for '{object}' on '{location}'", TaskCode.NO_ROOM)
        for pose in poses:
            pose[2, 3] += GAP
        X_OT = inverse(self._holding.pose_in_tool(object))
        pose, q = yield from self._reach.place(poses, X_OT)
        released = replace(item, X_WO=pose)
        free = partial(self._require_free, released, surface, state)
        phase("move")
        yield from watched(self._parts, self._holding.free(motions.to_joints(q, "move")), free)
        phase("let down")
        down = motions.straight(pose @ X_OT, what="let down", speed=SLOW)
        try:
            free()
            yield from self._holding.checked(down, free)
        except SkillFailed:
            yield from self._back_up(raised(pose @ X_OT))
            raise
        phase("release")
        yield from self._holding.release(released)
        phase("retreat")
        try:
            yield from self._holding.free(motions.straight(raised(pose @ X_OT), what="retreat"))
        finally:
            self._objects.show(released)
        phase("check")
        yield from self._require_placed(released)

    def pour(self, source: str, target: str, state: WorldState, phase: Phase) -> Work:
        """Tilt the held container over another one."""
        phase("move")
        item = yield from self._holding.held_item(source, state)
        bowl, reach = state.objects[target], half_extents(item.shape)
        above = np.array(item.X_WO)
        above[:2, 3] = bowl.X_WO[:2, 3]
        above[2, 3] = bowl.top + 0.05 + float(np.linalg.norm(reach))
        start, tilted, q = yield from self._reach.pour(
            above, inverse(self._holding.pose_in_tool(source)), POUR_ANGLE
        )
        above_it = partial(require_unmoved, self._objects, bowl, hidden=True)
        tilt, upright = (
            self._holding.free(self._motions.straight(pose, what=what, speed=SLOW))
            for pose, what in ((tilted, "tilt"), (start, "bring upright"))
        )
        yield from self._holding.checked(self._motions.to_joints(q, "move"), above_it)
        phase("tilt")
        try:
            yield from watched(self._parts, tilt, above_it)
        except SkillFailed:
            yield from upright
            raise
        phase("bring upright")
        yield from upright

    def push(self, object: str, direction: str, state: WorldState, phase: Phase) -> Work:
        """Push an object over its surface."""
        target, motions = state.objects[object], self._motions
        along = np.array([*_DIRECTIONS[direction], 0.0])
        away = float(np.abs(target.X_WO[:3, :3].T @ along) @ half_extents(target.shape))
        at = target.X_WO[:3, 3] - along * (away + 0.03)
        at[2] = max(at[2], target.bottom + PUSH_HEIGHT)
        phase("approach")
        begin, end, q = yield from self._reach.push(at, at + along * (PUSH + 0.02), target)
        yield from motions.close()
        beside_it = partial(require_unmoved, self._objects, target)
        yield from self._holding.checked(motions.to_joints(q, "approach"), beside_it)
        down = motions.straight(begin, what="approach", speed=SLOW)
        yield from self._holding.checked(down, beside_it)
        phase("push")
        self._objects.hide(target)
        moved = np.array(target.X_WO)
        try:
            yield from self._push_to(begin, end)
            moved[:3, 3] += along * PUSH
            yield from self._back_up(raised(end))
        except SkillFailed:
            yield from self._back_up(raised(begin))
            raise
        finally:
            self._objects.show(replace(target, X_WO=moved))
        now = yield from self._holding.fresh(object)
        way = np.zeros(3) if now is None else now.X_WO[:3, 3] - target.X_WO[:3, 3]
        if now is not None and (way @ along < 0.5 * PUSH or np.linalg.norm(way) > 2.0 * PUSH):
            raise SkillFailed(
                f"'{object}' has moved by {1e3 * np.linalg.norm(way):.0f} mm instead of "
                f"{1e3 * PUSH:.0f} mm {direction}",
                TaskCode.NOT_PLACED,
            )

    def _push_to(self, begin: Array, end: Array) -> Work:
        """Move the tool along a push, compliantly where the arm has impedance control.

        A stiff arm that is pushed back also deflects down or up. Friction then jams the object
        between the finger and the surface, with hundreds of newtons.

        Args:
            begin: pose of the tool now, shape (4, 4).
            end: pose after the push.
        """
        compliance = self._parts.compliance
        try:
            yield from compliance.begin(PUSH_SETTINGS)
        except SkillFailed:  # the arm has none
            stiff = self._motions.straight(end, what="push", speed=SLOW)
            yield from self._holding.bounded(stiff, STIFF_PUSH_FORCE)
            return
        try:
            yield from compliance.follow([begin, end], PUSH_SPEED)
            yield from compliance.end()
        finally:
            compliance.abort()

    # ---- observations

    def _require_placed(self, item: ObjectState) -> Work:
        seen = yield from self._holding.fresh(item.name)
        if seen is None:
            return
        away = float(np.linalg.norm(seen.X_WO[:3, 3] - item.X_WO[:3, 3]))
        if away > LOST_DISTANCE:
            raise SkillFailed(
                f"'{item.name}' is {1e3 * away:.0f} mm from its place", TaskCode.NOT_PLACED
            )
        fallen = max(abs(seen.bottom - item.bottom), abs(seen.top - item.top))
        if fallen > FALLEN:
            raise SkillFailed(
                f"'{item.name}' has fallen over or down at its place: its height differs by "
                f"{1e3 * fallen:.0f} mm",
                TaskCode.NOT_PLACED,
            )

    def _require_free(
        self, item: ObjectState, surface: ObjectState | None, before: WorldState
    ) -> None:
        """Fail if a place is no longer as it was chosen."""
        if surface is not None:
            require_unmoved(self._objects, surface, hidden=True)
        for name, other in self._objects.states(self._objects.now()).items():
            known = before.objects.get(name)
            moved = known is None or np.linalg.norm((known.X_WO - other.X_WO)[:3, 3]) > MOVED
            ignored = name == item.name or (surface is not None and name == surface.name)
            if moved and not ignored and blocks(other, item):
                raise SkillFailed(f"'{name}' is where '{item.name}' was to go", TaskCode.NO_ROOM)


def _turn(before: ObjectState, after: ObjectState) -> float:
    """Return the angle by which an object was turned, except about axes of symmetry [rad]."""
    R = before.X_WO[:3, :3].T @ after.X_WO[:3, :3]
    if isinstance(before.shape, Sphere) and before.mesh is None:
        return 0.0
    if isinstance(before.shape, Cylinder) and before.mesh is None:
        return float(np.arccos(np.clip(abs(R[2, 2]), 0.0, 1.0)))
    return float(np.linalg.norm(rotation_vector(R)))

# SPDX-License-Identifier: Apache-2.0
"""The object held by a gripper: attached, measured, kept after a stop or a failure, and watched.

:meth:`Holding.watch` is the one place that decides whether it is still held, in every cycle of the
node, at rest, in any skill and in motions of other clients. It is lost if the fingers have closed
or opened, if the controller reports the grasp as lost, or if the detector sees it elsewhere. Then
the motion under way is stopped, the object is detached, and the active skill fails with the reason.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.core.robot.poses import inverse
from motion_nodes.extras.tasks.task_codes import NO_REASON, Reason, SkillFailed, TaskCode
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState
from motion_nodes.nodes.task.remote_work import Phase, Work
from motion_nodes.nodes.task.skill_parts import SkillParts, not_detected, watched
from motion_nodes.typing import Array

CLEARANCE = 3e-3
"""Height offset of an attached object [m]."""
LOST_WIDTH = 4e-3
"""Finger distance below which the gripper is empty [m]."""
LOOSE_WIDTH = 4e-3
"""Excess of the finger distance over an object's width from which it is released [m]."""
SLIPPED_WIDTH = 6e-3
"""Decrease of the finger distance from which a held object is lost, or half its width [m]."""
WIDEST = 0.3
"""Max finger distance of a hand whose joints measure it [m]; a larger value is an angle [rad]."""
SLIPPED_CYCLES = 2
"""Number of successive measurements of it."""
FORGOTTEN_TIME = 2.0
"""Time after which an object is not held that another client has detached [s]."""
LOST_DISTANCE = 0.05
"""Max distance of a detected object from its pose in the hand; beyond it, it is lost [m]."""
CLASPED_DISTANCE = 0.1
"""Distance of a lost object from the tool within which the fingers may still touch it [m]."""
MISSES = 3
"""Number of successive detections beyond that distance after which an object is lost."""
TRAIL = 2.0
"""Max age of a detection, during which poses of the hand are kept [s]."""
STAMP_TOLERANCE = 0.1
"""Max error of the stamp of a detection [s]."""
FRESH_TIMEOUT = 5.0
"""Max time until an object is detected again [s]."""
HIDDEN_TIMEOUT = 1.0
"""Max time until an object is detected again that is reported with an old stamp [s]."""


FREE_FORCE = 12.0
"""Force at the tool at which a free motion ends, beside that of the load [N]."""
LOAD_SHARE = 3.5
"""Largest force of a load in motion, as a multiple of that at rest."""
UNKNOWN_LOAD, LARGEST_LOAD = 6.0, 30.0
"""Force of a load at rest that is not measured, and the largest one [N]."""


@dataclass(frozen=True, eq=False)
class Grasped:
    """The object in the hand."""

    name: str
    X_TO: Array
    """Pose of the object in the tool, shape (4, 4)."""
    width: float | None = None
    """Distance of the fingers on it [m]; None: not measured."""
    load: float | None = None
    """Force of it at rest [N], measured where it touched nothing else; None: not measured."""


class Holding:
    """The gripper of one arm and the object that it holds."""

    def __init__(self, parts: SkillParts) -> None:
        """Start with the object attached in the planning scene."""
        self._parts = parts
        self._motions, self._objects, self._world = parts.motions, parts.objects, parts.world
        self.grasped: Grasped | None = None
        self._interrupted: ObjectState | None = None
        """The object that the fingers were grasping or releasing when interrupted."""
        self.clasped = False
        """Whether the fingers hold a fixed object, such as a handle, or touch a lost one."""
        self.moving_fingers = False
        """Whether the fingers open or close, or the object is offered: nothing is lost then."""
        self._trail: deque[tuple[float, Array]] = deque()
        """Times, and where the object would be in the hand then."""
        self._checked = self._attached_at = 0.0
        self._misses = self._slips = 0
        self.lost: Reason = NO_REASON
        """Why the object of the current task was lost; until a skill has failed with it."""

    @property
    def grip_unsure(self) -> bool:
        """Whether closing or opening the fingers on the held object was interrupted."""
        return self._interrupted is not None

    # ---- fingers

    def grip(self, target: ObjectState, X_WT: Array, width: float) -> Work:
        """Close the fingers on an object; return their distance [m].

        An object that may be held after a stop or a failure is attached, and gripped again later.

        Args:
            target: the object.
            X_WT: pose of the tool, shape (4, 4).
            width: of the object between the fingers [m].
        """
        self.moving_fingers = True
        try:
            found = yield from self._motions.close()
        except (GeneratorExit, SkillFailed):
            if self._may_hold(width):
                self.hold(target, X_WT)
                self._interrupted = target
            raise
        finally:
            self.moving_fingers = False
        return found

    def hold(self, target: ObjectState, X_WT: Array) -> None:
        """Store and attach the held object."""
        self.grasped = Grasped(target.name, inverse(X_WT) @ target.X_WO, self._motions.width)
        self._motions.grasp_report()  # those so far are about the fingers before
        self._watch_anew()
        self._attach(target, X_WT)

    def release(self, item: ObjectState) -> Work:
        """Open the fingers and detach an object; if it is still held, it stays attached."""
        width = self._motions.width
        self.moving_fingers = True
        try:
            yield from self._motions.open()
            self._require_opened(width)
        except (GeneratorExit, SkillFailed):
            if width is None or self._may_hold(width):
                self._interrupted = item
                raise
            self._let_go(item)
            self._objects.show(item)
            raise
        finally:
            self.moving_fingers = False
        self._let_go(item)

    def _require_opened(self, before: float | None) -> None:
        """Fail if the finger distance [m] is that before opening: fingers also stall inside."""
        found = self._motions.width
        if before is None or found is None:
            return
        if found < min(before + LOOSE_WIDTH, self._motions.max_width - LOOSE_WIDTH):
            raise SkillFailed(
                f"the fingers did not open: they are {1e3 * found:.0f} mm apart",
                TaskCode.GRIPPER_FAILED,
            )

    def _let_go(self, item: ObjectState) -> None:
        self._objects.detach(item)
        self.grasped = self._interrupted = None

    def _may_hold(self, width: float) -> bool:
        """Return whether the finger distance is about an object's width [m]; True if unknown."""
        found = self._motions.width
        if found is None:
            return True  # unknown: the next skill checks it
        if found > width + LOOSE_WIDTH:
            return False
        return not self._parts.params.check_grasp or found > max(LOST_WIDTH, 0.5 * width)

    def resumed(self, work: Work, state: WorldState, phase: Phase) -> Work:
        """Execute a skill, after completing the finger motion of an interrupted one.

        Raises:
            SkillFailed: the fingers should hold an object, but are empty.
        """
        if self.clasped:
            phase("let go")
            yield from self._motions.open()
            self.clasped = False
        item, self._interrupted = self._interrupted, None
        if item is not None and state.held == item.name:
            phase("grip again")
            self._interrupted = item  # until it has succeeded
            self.moving_fingers = True
            try:
                width = yield from self._motions.close()
            finally:
                self.moving_fingers = False
            self._interrupted = None
            if self._parts.params.check_grasp and width < LOST_WIDTH:
                self._drop(f"'{item.name}' is no longer between the fingers")
                raise SkillFailed(self._take_loss(), TaskCode.OBJECT_LOST)
            if self.grasped is not None:
                self.grasped = replace(self.grasped, width=self._motions.width)
                self._watch_anew()
        return (yield from self._until_lost(work))

    def _until_lost(self, work: Work) -> Work:
        """Execute a skill until it ends, or the held object is lost."""
        while not self.lost:
            try:
                next(work)
            except StopIteration as end:
                return end.value
            yield
        work.close()
        raise SkillFailed(self._take_loss(), TaskCode.OBJECT_LOST)

    def _take_loss(self) -> str:
        reason, self.lost = self.lost, NO_REASON
        return reason.text

    # ---- motions

    def free(self, motion: Work, load: float | None = None) -> Work:
        """Execute a motion that should touch nothing: a larger force at the tool stops the arm.

        Args:
            motion: the motion.
            load: force of the held object at rest [N]; None: as it was weighed, else as it is
                measured now.
        """
        limit = FREE_FORCE
        if load is None and self.grasped is not None:
            load = self.grasped.load
        if load is not None or self._objects.held is not None:
            limit += LOAD_SHARE * min(self._load if load is None else load, LARGEST_LOAD)
        return (yield from self.bounded(motion, limit))

    def checked(self, motion: Work, check: Callable[[], None]) -> Work:
        """Execute a free motion as :func:`.watched` does, and check once more at its end."""
        yield from watched(self._parts, self.free(motion), check)
        check()

    def bounded(self, motion: Work, force: float) -> Work:
        """Execute a motion; a larger force at the tool [N] stops the arm."""
        yield from self._motions.learn_force_limit()
        self._motions.limit_force(force)
        try:
            return (yield from motion)
        finally:
            self._motions.limit_force(None)

    def weigh(self) -> None:
        """Measure the load of the held object, which touches nothing else, with the arm at rest."""
        if self.grasped is not None:
            self.grasped = replace(self.grasped, load=self._load)

    @property
    def _load(self) -> float:
        """Force of the held object on the arm, which is at rest [N]."""
        force = self._parts.compliance.force
        found = np.nan if force is None else float(np.linalg.norm(force))
        return found if np.isfinite(found) else UNKNOWN_LOAD

    # ---- held object

    def _attach(self, item: ObjectState, X_WT: Array) -> None:
        """Attach an object to the tool at a pose, with a height offset.

        The offset avoids a collision with its support surface, after a grasp or a failed lift.
        """
        higher = np.array(item.X_WO)
        higher[2, 3] += CLEARANCE
        self._objects.attach(
            item, self._motions.arm.tip or "", inverse(X_WT) @ higher, self._parts.touching
        )

    def watch(self) -> None:
        """Decide whether the object is still held; in every cycle of the node."""
        if self.moving_fingers:
            return
        grasped = self._adopted() if self.grasped is None else self.grasped
        if grasped is None or self._interrupted is not None:
            return
        if self._objects.held == grasped.name:
            self._attached_at = time.monotonic()
        elif time.monotonic() > self._attached_at + FORGOTTEN_TIME:
            self.grasped = None  # another client has detached it
            return
        why = self._slipped(grasped) or self._motions.grasp_report() or self._away(grasped)
        if why:
            self._parts.cancel()
            self._parts.cancel_all()
            self._drop(f"'{grasped.name}' was dropped: {why}")

    def _adopted(self) -> Grasped | None:
        """Return an object that is attached to the tool since before the start of this node."""
        name, tool = self._objects.held, self._motions.tool_pose()
        body = None if name is None else self._world.scene.attached.get(name)
        seen = None if name is None else self._objects.detected(name)
        if body is None or seen is None or tool is None or body.link != self._motions.arm.tip:
            return None
        if float(np.linalg.norm((tool @ body.X_LO - seen.X_WO)[:3, 3])) > LOST_DISTANCE:
            return None  # attached by a client for its own purpose
        self.grasped = Grasped(seen.name, body.X_LO, self._motions.width)
        self._watch_anew()
        return self.grasped

    def _watch_anew(self) -> None:
        self._trail.clear()
        self._misses = self._slips = 0
        self._attached_at = time.monotonic()

    def _slipped(self, grasped: Grasped) -> str:
        """Return how the fingers show that the object is gone, or an empty string."""
        found, before = self._motions.width, grasped.width
        if found is None or before is None or self._motions.max_width > WIDEST:
            return ""
        opened = found > before + LOOSE_WIDTH
        closed = (
            found < before - min(SLIPPED_WIDTH, 0.5 * before) and self._parts.params.check_grasp
        )
        self._slips = self._slips + 1 if opened or closed else 0
        if self._slips < SLIPPED_CYCLES:
            return ""
        how = "opened" if opened else "closed"
        return f"the fingers {how} from {1e3 * before:.0f} to {1e3 * found:.0f} mm"

    def _away(self, grasped: Grasped) -> str:
        """Return where the detector sees the object, if not in the hand, or an empty string.

        Detections are older than joint states: they are compared with the hand at their time.
        """
        now, tool = self._objects.now(), self._motions.tool_pose()
        seen = self._objects.detected(grasped.name)
        if tool is None:
            return ""
        trail = self._trail
        trail.append((now, (tool @ grasped.X_TO)[:3, 3]))
        while trail[0][0] < now - TRAIL or trail[0][0] > now:  # simulated time may begin again
            trail.popleft()
        if seen is None or seen.stamp <= self._checked <= now:
            return ""
        self._checked = seen.stamp
        away = [
            float(np.linalg.norm(at - seen.X_WO[:3, 3]))
            for t, at in trail if abs(t - seen.stamp) < STAMP_TOLERANCE
        ]  # fmt: skip
        self._misses = self._misses + 1 if away and min(away) > LOST_DISTANCE else 0
        if self._misses < MISSES:
            return ""
        return f"it is {1e3 * min(away):.0f} mm from the hand"

    def _drop(self, reason: str) -> None:
        """Detach the lost object, and add it to the scene where it was detected."""
        assert self.grasped is not None
        name, self.grasped, self._interrupted = self.grasped.name, None, None
        self.lost = Reason(TaskCode.OBJECT_LOST, reason)
        seen, tool = self._objects.detected(name), self._motions.tool_pose()
        if seen is not None and tool is not None:
            away = float(np.linalg.norm((tool - seen.X_WO)[:3, 3]))
            self.clasped = away < CLASPED_DISTANCE
        self._objects.lose(name)

    def measure(self) -> Work:
        """Update the pose of the held object in the hand from a detection, with the arm at rest."""
        grasped = self.grasped
        if grasped is None:
            return
        seen, tool = (yield from self.fresh(grasped.name)), self._motions.tool_pose()
        if seen is None or tool is None:
            return
        distance = float(np.linalg.norm((tool @ grasped.X_TO - seen.X_WO)[:3, 3]))
        if distance > LOST_DISTANCE:
            self._drop(f"'{grasped.name}' was dropped: it is {1e3 * distance:.0f} mm from the hand")
            raise SkillFailed(self._take_loss(), TaskCode.OBJECT_LOST)
        self.grasped = replace(grasped, X_TO=inverse(tool) @ seen.X_WO)
        self._attach(seen, tool)

    def held_item(self, name: str, state: WorldState) -> Work:
        """Return a held object with its current pose."""
        yield from self.measure()
        item, tool = state.objects.get(name), self._motions.tool_pose()
        if item is None:
            raise not_detected(self._objects, name)
        return item if tool is None else replace(item, X_WO=tool @ self.pose_in_tool(name))

    def pose_in_tool(self, name: str) -> Array:
        """Return the pose of a held object in the tool, shape (4, 4)."""
        grasped = self.grasped
        if grasped is not None and grasped.name == name:
            return grasped.X_TO
        body = self._world.scene.attached.get(name)
        if body is None or body.link != self._motions.arm.tip:
            raise SkillFailed(f"'{name}' is not held by the tool", TaskCode.NOT_HELD)
        return body.X_LO

    def fresh(self, name: str) -> Work:
        """Return an object as it is detected from now on; None without a detector.

        None also if the detector reports it with an older stamp: the robot occludes it.
        """
        objects = self._objects
        since = objects.now()
        while objects.detects(name):
            seen = objects.detected(name)
            if seen is not None and seen.stamp > since:
                return seen
            now = objects.now()
            if seen is not None and now > since + HIDDEN_TIMEOUT and objects.reported_at > since:
                return None
            if now > since + FRESH_TIMEOUT:
                raise not_detected(objects, name, since)
            yield
        return None

# SPDX-License-Identifier: Apache-2.0
"""Skills in contact with the environment or a person: wipe, open a drawer, hand over."""

from __future__ import annotations

from functools import partial

import numpy as np

from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY
from motion_nodes.core.robot.poses import inverse
from motion_nodes.extras.tasks.skill_poses import backed, handle_grasps, moved, strokes_over
from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.extras.tasks.world_state import WorldState
from motion_nodes.nodes.task.arm_motions import SLOW
from motion_nodes.nodes.task.holding import LOST_DISTANCE, LOST_WIDTH, Holding
from motion_nodes.nodes.task.reachability import RETREAT, Reachability, raised
from motion_nodes.nodes.task.remote_work import Phase, Work
from motion_nodes.nodes.task.skill_parts import SkillParts, require_unmoved
from motion_nodes.typing import Array

WIPE_FORCE, WIPE_SPEED = 5.0, 0.05
"""Force onto a surface [N], and speed along it [m/s]."""
WIPE_SETTINGS = {
    "frame": "base",
    "stiffness": [1000.0, 1000.0, 1000.0, 60.0, 60.0, 60.0],
    # Along the force: the tool approaches with 25 mm/s.
    "damping": [np.nan, np.nan, 200.0, np.nan, np.nan, np.nan],
    "max_acceleration": 0.2,
}
WIPE_GAP = 0.005
"""Distance from the surface at which the weight of the object is measured [m]."""
SETTLE_TIME = 0.5
"""Time at rest before the zero of a force is measured [s]."""
SETTLE_AGAIN = 0.2
"""Time until the force is measured with a changed payload [s]."""
STEADY_TIME, STEADY_FORCE, STEADY_TIMEOUT = 0.2, 0.5, 4.0
"""Time [s] after which the median of a force is close enough [N] to the last one; timeout [s]."""
TOUCH = 0.5
"""Fraction of the force from which a surface counts as touched."""
TOUCH_TIMEOUT = 6.0
"""Max time until it is touched [s]."""
MIN_COVERED, MIN_TOUCHED = 0.5, 0.8
"""Min share of a surface that is wiped, and of the path in contact."""
PULL, PULL_SPEED, PULL_FORCE = 0.2, 0.08, 50.0
"""Length of a pull [m], its speed [m/s], and the max force [N]."""
PULL_SETTINGS = {"frame": "base", "stiffness": [800.0, 60.0], "max_force": PULL_FORCE}
PULLED = 0.8
"""Min displacement of a handle, as a share of the length."""
TAKEN_FORCE = 6.0
"""Change of the force at the tool by which a person takes an object [N]."""
TAKEN_TIME = 0.1
"""Time for which it must be exceeded [s]."""
OFFER_TIMEOUT = 30.0
"""Timeout of a handover [s]."""


class ContactSkills:
    """Skills that need impedance control or a measured wrench."""

    def __init__(self, parts: SkillParts, holding: Holding, reach: Reachability) -> None:
        self._parts, self._holding, self._reach = parts, holding, reach
        self._motions, self._objects = parts.motions, parts.objects
        self._compliance = parts.compliance

    def wipe(self, object: str, surface: str, state: WorldState, phase: Phase) -> Work:
        """Press the held object onto a surface, and move over it."""
        motions, compliance, under = self._motions, self._compliance, state.objects[surface]
        phase("find strokes")
        item = yield from self._holding.held_item(object, state)
        X_OT = inverse(self._holding.pose_in_tool(object))
        strokes = strokes_over(under, item)
        if not strokes:
            raise SkillFailed(
                f"'{surface}' has no horizontal top that '{object}' can wipe", TaskCode.DOES_NOT_FIT
            )
        parts = yield from self._reach.strokes(strokes, X_OT, under)
        covered = sum(len(part) for part, _ in parts) / sum(map(len, strokes))
        if covered < MIN_COVERED:
            raise SkillFailed(
                f"only {100 * covered:.0f} % of '{surface}' is within reach and collision-free",
                TaskCode.OUT_OF_REACH,
            )
        above_it = partial(require_unmoved, self._objects, under, hidden=True)
        touched: list[bool] = []
        for k, (part, above) in enumerate(parts):
            phase(f"approach {k + 1} of {len(parts)}")
            start = np.array(part[0])
            start[2, 3] += WIPE_GAP
            yield from self._holding.checked(motions.to_joints(above, "approach"), above_it)
            down = motions.straight(start, what="approach", speed=SLOW)
            yield from self._holding.checked(down, above_it)
            phase(f"wipe {k + 1} of {len(parts)}")
            self._objects.hide(under)
            try:
                yield from compliance.begin(WIPE_SETTINGS)
                yield from self._press(part, surface, inverse(X_OT), touched)
                yield from compliance.end()
                phase("retreat")
                yield from self._holding.free(motions.straight(raised(part[-1]), what="retreat"))
            finally:
                compliance.abort()
                self._objects.show(under)
        share = float(np.mean(touched))
        if share < MIN_TOUCHED:
            raise SkillFailed(
                f"'{surface}' was touched for only {100 * share:.0f} % of the path",
                TaskCode.CONTACT,
            )
        phase(f"wiped {100 * covered:.0f} % of the surface")

    def _press(self, part: list[Array], surface: str, X_TO: Array, touched: list[bool]) -> Work:
        """Press down, and move over a surface; append whether it is touched, in each cycle."""
        compliance = self._compliance
        # Compensate the object's weight, which would move the tool under force control.
        weight = yield from self._settled_force(SETTLE_TIME)
        yield from compliance.change({
            "force_axes": ["z"],
            "payload.mass": max(0.0, float(weight[2]) / STANDARD_GRAVITY[2]),
            "payload.center": X_TO[:3, 3].tolist(),
        })  # fmt: skip
        tare = yield from self._settled_force(SETTLE_AGAIN)
        end = self._objects.now() + TOUCH_TIMEOUT
        pushed = 0
        while pushed < 3:
            # The tool exerts the negative of the measured force, tare included.
            compliance.press((0.0, 0.0, -tare[2] - WIPE_FORCE))
            yield from compliance.wait(0.05)
            force = compliance.force
            pushed = pushed + 1 if force is not None and _touches(force, tare) else 0
            if self._objects.now() > end:
                raise SkillFailed(
                    f"'{surface}' was not touched within {TOUCH_TIMEOUT:g} s", TaskCode.CONTACT
                )
        for _ in compliance.follow(part, WIPE_SPEED):
            force = compliance.force
            touched.append(force is not None and _touches(force, tare))
            yield

    def _settled_force(self, seconds: float) -> Work:
        """Return the steady force at the tool after a time at rest [s], shape (3,) [N].

        Late or irregular measurements disturb the estimate briefly.

        Raises:
            SkillFailed: it is not measured, or not steady.
        """
        yield from self._compliance.wait(seconds)
        end, before = self._objects.now() + STEADY_TIMEOUT, None
        while self._objects.now() < end:
            samples = []
            for _ in self._compliance.wait(STEADY_TIME):
                if (force := self._compliance.force) is not None:
                    samples.append(force)
                yield
            if not samples:
                raise SkillFailed("the force at the tool is not measured", TaskCode.STATE_UNKNOWN)
            found = np.median(samples, axis=0)
            if before is not None and float(np.abs(found - before).max()) < STEADY_FORCE:
                return found
            before = found
        raise SkillFailed(
            f"the force at the tool is not steady within {STEADY_TIMEOUT:g} s",
            TaskCode.STATE_UNKNOWN,
        )

    def open_drawer(self, object: str, state: WorldState, phase: Phase) -> Work:
        """Grasp a handle and pull it."""
        motions, compliance, handle = self._motions, self._compliance, state.objects[object]
        phase("approach")
        grasps = handle_grasps(handle, motions.max_width)
        if not grasps:
            raise SkillFailed(
                f"'{object}' is no handle that fits between the fingers", TaskCode.DOES_NOT_FIT
            )
        grasp, q = yield from self._reach.pull(grasps, PULL, handle)
        X, away = grasp.X_WG, -grasp.X_WG[:3, 2]
        yield from motions.open()
        there = partial(require_unmoved, self._objects, handle)
        yield from self._holding.checked(motions.to_joints(q, "approach"), there)
        phase("grasp")
        self._objects.hide(handle)
        way = np.zeros(3)
        try:
            yield from self._holding.free(motions.straight(X, what="grasp", speed=SLOW))
            self._holding.clasped = True
            width = yield from motions.close()
            if self._parts.params.check_grasp and width < max(LOST_WIDTH, 0.5 * grasp.width):
                raise SkillFailed(
                    f"nothing between the fingers: {1e3 * width:.0f} mm apart", TaskCode.NOT_GRASPED
                )
            phase("pull")
            before = motions.tool_pose()
            begin = X if before is None else before
            yield from compliance.begin(PULL_SETTINGS)
            yield from compliance.follow([begin, backed(begin, PULL)], PULL_SPEED)
            yield from compliance.wait(1.0)
            yield from compliance.end()
            after = motions.tool_pose()
            way = away * (PULL if after is None else float((after - begin)[:3, 3] @ away))
            phase("release")
            yield from motions.open()
            self._holding.clasped = False
            begin = backed(X, PULL) if after is None else after
            phase("retreat")
            back = motions.straight(backed(begin, RETREAT), what="retreat", speed=SLOW)
            yield from self._holding.free(back)
        finally:
            compliance.abort()
            self._objects.show(moved(handle, way))
        phase("check")
        seen = yield from self._holding.fresh(object)
        if seen is not None:
            way = seen.X_WO[:3, 3] - handle.X_WO[:3, 3]
        if (followed := float(way @ away)) < PULLED * PULL:
            raise SkillFailed(
                f"'{object}' moved by {1e3 * followed:.0f} of {1e3 * PULL:.0f} mm, pulled with up "
                f"to {PULL_FORCE:g} N",
                TaskCode.NOT_PLACED,
            )

    def handover(self, object: str, state: WorldState, phase: Phase) -> Work:
        """Hold an object out until a person takes it."""
        phase("move")
        yield from self._holding.held_item(object, state)
        yield from self._holding.free(self._motions.to_state("home"))
        try:
            tare = yield from self._settled_force(SETTLE_TIME)
        except SkillFailed as error:
            if not self._objects.detects(object):
                raise SkillFailed(
                    f"a pull cannot be measured: {error}", TaskCode.STATE_UNKNOWN
                ) from error
            tare = None
        phase("offer")
        self._holding.moving_fingers = True  # whoever takes it may pull it out
        try:
            yield from self._offered(object, tare)
        finally:
            self._holding.moving_fingers = False
        phase("release")
        yield from self._holding.release(state.objects[object])
        seen = self._objects.detected(object)
        if seen is not None:
            self._objects.show(seen)
        elif not self._objects.detects(object):
            self._objects.forget(object)

    def _offered(self, object: str, tare: Array | None) -> Work:
        """Wait until a person takes the object, or pulls at it."""
        compliance = self._compliance
        end, pulled_at = self._objects.now() + OFFER_TIMEOUT, None
        while not self._taken(object):
            force, now = compliance.force, self._objects.now()
            strong = force is not None and tare is not None and (
                float(np.linalg.norm(force - tare)) > TAKEN_FORCE
            )  # fmt: skip
            pulled_at = (now if pulled_at is None else pulled_at) if strong else None
            if pulled_at is not None and now > pulled_at + TAKEN_TIME:
                break
            if now > end:
                raise SkillFailed(
                    f"'{object}' was not taken within {OFFER_TIMEOUT:g} s", TaskCode.TIMEOUT
                )
            yield

    def _taken(self, name: str) -> bool:
        """Return whether a detected object is no longer in the hand."""
        tool = self._motions.tool_pose()
        if tool is None or not self._objects.detects(name):
            return False
        seen = self._objects.detected(name)
        if seen is None:
            return True
        away = (tool @ self._holding.pose_in_tool(name) - seen.X_WO)[:3, 3]
        return float(np.linalg.norm(away)) > LOST_DISTANCE


def _touches(force: Array, tare: Array) -> bool:
    return bool(force[2] - tare[2] > TOUCH * WIPE_FORCE)

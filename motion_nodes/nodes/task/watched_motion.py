# SPDX-License-Identifier: Apache-2.0
"""Motions that depend on where objects are: they end when an object that matters has moved."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from motion_nodes.extras.tasks.task_codes import TaskCode
from motion_nodes.extras.tasks.task_runner import SkillFailed
from motion_nodes.extras.tasks.world_state import ObjectState
from motion_nodes.nodes.task.observed_objects import ObservedObjects
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.nodes.task.skill_parts import SkillParts

MOVED = 0.01
"""Displacement from which an object has moved [m]."""
DETECTIONS = 2
"""Number of successive detections on which a motion is stopped."""
REST_CYCLES, REST_TIMEOUT = 4, 2.0
"""Number of cycles at rest after a stop, and max time until then [s]."""


def watched(parts: SkillParts, motion: Work, check: Callable[[], None]) -> Work:
    """Execute a motion; stop it when a check of two successive detections fails.

    Args:
        parts: of the robot.
        motion: the motion.
        check: called after each message of the detector; raises SkillFailed.

    Raises:
        SkillFailed: of the motion, or of the check, with the arm at rest.
    """
    objects, failures = parts.objects, 0
    checked = objects.reported_at
    for _ in motion:
        if objects.reported_at != checked:
            checked = objects.reported_at
            try:
                check()
                failures = 0
            except SkillFailed:
                failures += 1
                if failures >= DETECTIONS:
                    parts.motions.cancel()
                    motion.close()
                    yield from at_rest(parts)
                    raise
        yield


def watched_to_end(parts: SkillParts, motion: Work, check: Callable[[], None]) -> Work:
    """Execute a motion as :func:`watched` does, and check once more at its end."""
    yield from watched(parts, motion, check)
    check()


def at_rest(parts: SkillParts) -> Work:
    """Wait until the tool does not move, at most REST_TIMEOUT."""
    motions, objects = parts.motions, parts.objects
    end, last, still = objects.now() + REST_TIMEOUT, motions.tool_pose(), 0
    while still < REST_CYCLES and objects.now() < end:
        yield
        now = motions.tool_pose()
        if last is None or now is None:
            return
        still = still + 1 if float(np.abs(now - last).max()) < 1e-4 else 0
        last = now


def not_detected(objects: ObservedObjects, name: str, since: float = -math.inf) -> SkillFailed:
    """Return why an object cannot be observed.

    Args:
        objects: the detections.
        name: of the object.
        since: time from which it is waited for [s].
    """
    if objects.reported_at <= since:
        silent = objects.now() - objects.reported_at
        text = f"the detector has reported nothing for {silent:.0f} s"
        return SkillFailed(text, TaskCode.NOT_DETECTED)
    if name in objects.ambiguous:
        return SkillFailed(objects.ambiguity(name), TaskCode.AMBIGUOUS_OBJECT)
    return SkillFailed(f"'{name}' is no longer detected", TaskCode.NOT_DETECTED)


def require_unmoved(objects: ObservedObjects, target: ObjectState, *, hidden: bool = False) -> None:
    """Fail if an object that stands still was moved since it was observed.

    Args:
        objects: the detections.
        target: the object, as it was observed.
        hidden: whether it may be out of the detector's sight.

    Raises:
        SkillFailed: it has moved, or is no longer detected.
    """
    seen = objects.detected(target.name)
    if seen is None:
        if objects.detects(target.name) and not hidden:
            raise not_detected(objects, target.name)
        return
    moved = float(np.linalg.norm(seen.X_WO[:3, 3] - target.X_WO[:3, 3]))
    if moved > MOVED:
        raise SkillFailed(
            f"'{target.name}' has moved by {1e3 * moved:.0f} mm", TaskCode.OBJECT_MOVED
        )

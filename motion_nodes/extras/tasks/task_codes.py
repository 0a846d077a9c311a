# SPDX-License-Identifier: Apache-2.0
"""Reasons of tasks as codes: why a task, a step or a request did not succeed.

Each reason is a code, for programs, with a sentence, for people. Codes are names in ``~/status``,
and numbers in results of ``~/execute_task``; numbers are never reused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from motion_nodes.errors import MotionError


class TaskCode(IntEnum):
    """Code of a reason."""

    NONE = 0
    """There is no reason: not ended, or succeeded."""
    FAILED = 1
    """A failure without a code of its own."""

    # The request
    NOT_UNDERSTOOD = 10
    """The sentence contains no known verb, or a part is missing."""
    UNKNOWN_OBJECT = 11
    """An object is not known, or not with the given properties."""
    AMBIGUOUS_OBJECT = 12
    """Several objects fit the description."""
    UNKNOWN_LOCATION = 13
    """A location is neither a known object, nor a place, nor a point."""
    INVALID_PLAN = 14
    """The plan is no list of known skills with their arguments."""
    UNSUPPORTED_SKILL = 15
    """The robot lacks what the skill needs."""
    BUSY = 16
    """Another task is under way."""
    STOPPED = 17
    """The robot is stopped."""

    # Preconditions
    ALREADY_HELD = 20
    """The object is in the gripper already."""
    GRIPPER_FULL = 21
    """The gripper holds another object."""
    NOT_HELD = 22
    """The gripper does not hold the object."""
    NOT_MOVABLE = 23
    """The object cannot be moved."""
    SAME_OBJECT = 24
    """Both arguments are the same object."""

    # Geometry
    OUT_OF_REACH = 30
    """No inverse kinematics to the object or place."""
    IN_COLLISION = 31
    """Each motion to the object or place collides."""
    DOES_NOT_FIT = 32
    """The object does not fit between the fingers."""
    NO_ROOM = 33
    """No free area is large enough."""
    NO_DRIVE = 34
    """No free path for the base."""

    # Execution
    NOT_DETECTED = 40
    """The object is no longer detected, or nothing is."""
    OBJECT_MOVED = 41
    """The object moved meanwhile."""
    NOT_GRASPED = 42
    """The fingers closed without the object."""
    OBJECT_LOST = 43
    """The held object was lost."""
    NOT_PLACED = 44
    """The object is not where it was put, or did not follow."""
    GRIPPER_FAILED = 45
    """The fingers did not reach their position."""
    MOTION_FAILED = 46
    """The planner or the controller did not complete a motion."""
    CONTACT = 47
    """The robot touched something, or did not touch what it should."""
    TIMEOUT = 48
    """A step took too long, or no response arrived."""
    NODE_MISSING = 49
    """A node that the skill needs is not active, or has ended."""
    STATE_UNKNOWN = 50
    """Joint states, odometry or forces are missing or old."""

    # End from outside
    CANCELED = 60
    """A client canceled the task."""
    STOPPED_MEANWHILE = 61
    """A stop ended the task."""
    SHUT_DOWN = 62
    """The task server was deactivated."""
    REPLACED = 63
    """Another task came before the plan was confirmed."""

    @property
    def word(self) -> str:
        """Name in messages; empty for :attr:`NONE`."""
        return self.name.lower() if self else ""


@dataclass(frozen=True)
class Reason:
    """A code with its sentence; false if there is none."""

    code: TaskCode = TaskCode.NONE
    text: str = ""
    """One sentence for people."""

    def __bool__(self) -> bool:
        return self.code is not TaskCode.NONE

    def __str__(self) -> str:
        return self.text


NO_REASON = Reason()


class TaskError(MotionError):
    """A task, a step or a request that did not succeed, with its code."""

    def __init__(self, text: str, code: TaskCode = TaskCode.FAILED) -> None:
        self.code = code
        super().__init__(text)

    @property
    def reason(self) -> Reason:
        """Code and sentence."""
        return Reason(self.code, str(self))


class SkillFailed(TaskError):
    """A skill that did not succeed; the text is the reason."""


def reason_of(error: MotionError) -> Reason:
    """Return the reason that an error states; :attr:`TaskCode.FAILED` without a code."""
    return error.reason if isinstance(error, TaskError) else Reason(TaskCode.FAILED, str(error))

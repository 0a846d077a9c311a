# SPDX-License-Identifier: Apache-2.0
"""The skills that plans consist of: arguments, preconditions and effects.

Preconditions and effects refer to the known objects and the held one. They are evaluated before a
plan begins, for the whole sequence, and again before each step, on the state observed then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from motion_nodes.tasks.task_codes import NO_REASON, Reason, TaskCode
from motion_nodes.tasks.world_state import WorldState

ArgumentKind = Literal["object", "location", "direction"]
"""``object``: name of an object; ``location``: name of an object, a surface or a place;
``direction``: one of :data:`DIRECTIONS`."""

DIRECTIONS = ("forward", "backward", "left", "right")
"""Directions of a push, in the base frame of the robot."""

Arguments = Mapping[str, str]


@dataclass(frozen=True)
class SkillArgument:
    """One argument of a skill."""

    name: str
    kind: ArgumentKind
    doc: str
    """Description for people and language models."""


@dataclass(frozen=True)
class Skill:
    """A skill; its implementation is registered separately under the same name."""

    name: str
    doc: str
    """Description for people and language models."""
    arguments: tuple[SkillArgument, ...] = ()
    timeout: float = 60.0
    """Max duration of an execution [s]."""
    unmet: Callable[[Arguments, WorldState], Reason] = lambda arguments, state: NO_REASON
    """Returns the precondition that is not met; no reason if all are met."""
    effect: Callable[[Arguments, WorldState], WorldState] = lambda arguments, state: state
    """Returns the state after a successful execution."""

    def argument(self, name: str) -> SkillArgument | None:
        """Return an argument by its name, or None."""
        return next((entry for entry in self.arguments if entry.name == name), None)


def _hand_is_empty(arguments: Arguments, state: WorldState) -> Reason:
    if state.held is None:
        return NO_REASON
    same = state.held == arguments["object"]
    code = TaskCode.ALREADY_HELD if same else TaskCode.GRIPPER_FULL
    return Reason(code, f"the gripper already holds '{state.held}'")


def _pickable(arguments: Arguments, state: WorldState) -> Reason:
    name = arguments["object"]
    if name in state.objects and not state.objects[name].movable:
        return Reason(TaskCode.NOT_MOVABLE, f"'{name}' cannot be moved")
    if state.held == name and state.grip_unsure:
        return NO_REASON  # gripped again
    return _hand_is_empty(arguments, state)


def _holds(name: str, state: WorldState) -> Reason:
    if state.held == name:
        return NO_REASON
    holds = f"it holds '{state.held}'" if state.held else "it is empty"
    return Reason(TaskCode.NOT_HELD, f"the gripper does not hold '{name}'; {holds}")


def _held(arguments: Arguments, state: WorldState) -> Reason:
    return _holds(arguments["object"], state)


def _placeable(arguments: Arguments, state: WorldState) -> Reason:
    if arguments["object"] == arguments["location"]:
        return Reason(TaskCode.SAME_OBJECT, "an object cannot be placed on itself")
    return _held(arguments, state)


def _pourable(arguments: Arguments, state: WorldState) -> Reason:
    if arguments["source"] == arguments["target"]:
        return Reason(TaskCode.SAME_OBJECT, "source and target are the same object")
    return _holds(arguments["source"], state)


def _wipeable(arguments: Arguments, state: WorldState) -> Reason:
    if arguments["object"] == arguments["surface"]:
        return Reason(TaskCode.SAME_OBJECT, "an object cannot wipe itself")
    return _held(arguments, state)


def _drivable(arguments: Arguments, state: WorldState) -> Reason:
    if state.has_base:
        return NO_REASON
    return Reason(TaskCode.UNSUPPORTED_SKILL, "the robot has no mobile base")


HOLDING = {"place": "object", "pour": "source", "wipe": "object", "handover": "object"}
"""Skills that begin with an object in the gripper, and the argument that names it."""
_OBJECT = SkillArgument("object", "object", "Name of the object.")

SKILLS: Mapping[str, Skill] = MappingProxyType({
    skill.name: skill
    for skill in (
        Skill("locate", "Look for an object and report its pose.", (_OBJECT,), timeout=10.0),
        Skill(
            "pick",
            "Grasp an object and lift it.",
            (_OBJECT,),
            unmet=_pickable,
            effect=lambda arguments, state: state.holding(arguments["object"]),
        ),
        Skill(
            "place",
            "Put the held object down on a surface, an object or at a point.",
            (
                _OBJECT,
                SkillArgument(
                    "location", "location", "Where to put it: an object, or x,y or x,y,z [m]."
                ),
            ),
            unmet=_placeable,
            effect=lambda arguments, state: state.holding(None),
        ),
        Skill(
            "pour",
            "Tilt the held container over another one, and bring it upright again.",
            (
                SkillArgument("source", "object", "The held container."),
                SkillArgument("target", "object", "Container to pour into."),
            ),
            unmet=_pourable,
        ),
        Skill(
            "push",
            "Push an object over its surface by 10 cm.",
            (_OBJECT, SkillArgument("direction", "direction", "Where to push it.")),
            unmet=_pickable,
        ),
        Skill(
            "wipe",
            "Move the held object over the top of another one, pressed on with a constant force.",
            (
                SkillArgument("object", "object", "What is held to wipe with, such as a sponge."),
                SkillArgument("surface", "object", "Object whose top is wiped."),
            ),
            timeout=180.0,
            unmet=_wipeable,
        ),
        Skill(
            "open_drawer",
            "Grasp a handle from the front, and pull it towards the robot by 20 cm.",
            (SkillArgument("object", "object", "The handle."),),
            unmet=_hand_is_empty,
        ),
        Skill(
            "handover",
            "Hold an object out to a person, and let go when they pull or take it.",
            (_OBJECT,),
            timeout=90.0,
            unmet=_held,
            effect=lambda arguments, state: state.holding(None),
        ),
        Skill(
            "navigate",
            "Drive the robot's base to a place.",
            (SkillArgument("location", "location", "Where to drive."),),
            timeout=120.0,
            unmet=_drivable,
        ),
        Skill("home", "Move the arm to its home position."),
    )
})  # fmt: skip
"""By name. All of them are offered to language models; robots need not be able to do all."""

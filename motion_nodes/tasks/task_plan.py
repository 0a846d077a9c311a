# SPDX-License-Identifier: Apache-2.0
"""Plans as data: a JSON schema, strict validation, and a check of the whole sequence.

A plan is an ordered list of ``{"skill": NAME, "args": {NAME: VALUE}}``, the format of the sources'
planner. Text that a language model returns is data: it is parsed, validated and checked before any
of it is executed, and never evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from motion_nodes.errors import did_you_mean
from motion_nodes.tasks.skills import DIRECTIONS, SKILLS, Skill, SkillArgument
from motion_nodes.tasks.task_codes import Reason, TaskCode, TaskError
from motion_nodes.tasks.world_state import POINT_PATTERN, WorldState, point_of

MAX_STEPS = 50
"""Max number of steps in a plan."""
MAX_TEXT = 100_000
"""Max number of characters of a plan."""


_UNKNOWN = {
    "object": TaskCode.UNKNOWN_OBJECT,
    "location": TaskCode.UNKNOWN_LOCATION,
    "direction": TaskCode.INVALID_PLAN,
}
"""Code of an argument that is not known, by its kind."""


class InvalidPlan(TaskError, ValueError):
    """The plan is invalid; no step was executed."""

    def __init__(
        self, problem: str, step: int | None = None, code: TaskCode = TaskCode.INVALID_PLAN
    ) -> None:
        """Create the error.

        Args:
            problem: what is wrong and what is allowed.
            step: index of the step; None for the whole plan.
            code: of the reason.
        """
        self.step = step
        super().__init__(problem if step is None else f"step {step + 1}: {problem}", code)


@dataclass(frozen=True)
class PlanStep:
    """One skill with its arguments; immutable."""

    skill: str
    args: Mapping[str, str]

    def __post_init__(self) -> None:
        """Make the arguments immutable."""
        object.__setattr__(self, "args", MappingProxyType(dict(self.args)))

    def __str__(self) -> str:
        """Return it as a call."""
        return f"{self.skill}({', '.join(self.args.values())})"

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"skill": self.skill, "args": dict(self.args)}


Plan = tuple[PlanStep, ...]


def plan_schema(state: WorldState | None = None) -> dict[str, Any]:
    """Return the JSON schema of plans, for language models and tools.

    Args:
        state: restricts names to known objects and places; None: any names.
    """
    return {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_STEPS,
        "items": {"oneOf": [_step_schema(skill, state) for skill in SKILLS.values()]},
    }


def parse_plan(data: str | bytes | Sequence[Any]) -> Plan:
    """Return the plan that text or plain data contains.

    Args:
        data: JSON text, or a list of steps.

    Raises:
        InvalidPlan: not JSON, not a list, too long, or a step with an unknown skill, unknown,
            missing or wrong arguments; names the nearest valid word.
    """
    if isinstance(data, str | bytes):
        if len(data) > MAX_TEXT:
            raise InvalidPlan(f"{len(data)} characters given; a plan has at most {MAX_TEXT}")
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InvalidPlan(f"not JSON: {error}") from None
    if not isinstance(data, list | tuple):
        raise InvalidPlan(f"a plan is a list of steps, not {_kind(data)}")
    if not data:
        raise InvalidPlan("the plan has no steps")
    if len(data) > MAX_STEPS:
        raise InvalidPlan(f"the plan has {len(data)} steps; allowed are {MAX_STEPS}")
    return tuple(_step(i, entry) for i, entry in enumerate(data))


def check_plan(plan: Plan, state: WorldState) -> WorldState:
    """Check that each step's names are known and its preconditions met by those before it.

    Args:
        plan: parsed.
        state: now.

    Returns:
        The expected state after the plan.

    Raises:
        InvalidPlan: names the step and what is not met.
    """
    for i, step in enumerate(plan):
        reason = step_problem(step, state)
        if reason:
            raise InvalidPlan(reason.text, i, reason.code)
        state = SKILLS[step.skill].effect(step.args, state)
    return state


def step_problem(step: PlanStep, state: WorldState) -> Reason:
    """Return why a step cannot begin in a state; no reason if it can."""
    skill = SKILLS[step.skill]
    for argument in skill.arguments:
        value = step.args[argument.name]
        allowed = _allowed(argument, state)
        if value not in allowed and not (_points(skill, argument) and point_of(value)):
            points = " Or a point: x,y or x,y,z [m]." if _points(skill, argument) else ""
            text = f"{argument.kind} '{value}' is not known.{did_you_mean(value, allowed)}{points}"
            return Reason(_UNKNOWN[argument.kind], text)
    return skill.unmet(step.args, state)


def _points(skill: Skill, argument: SkillArgument) -> bool:
    """Return whether an argument may be a point."""
    return skill.name == "place" and argument.kind == "location"


def _allowed(argument: SkillArgument, state: WorldState) -> Sequence[str]:
    if argument.kind == "direction":
        return DIRECTIONS
    return tuple(state.objects) if argument.kind == "object" else state.locations


def _step(index: int, entry: object) -> PlanStep:
    if not isinstance(entry, Mapping):
        raise InvalidPlan(f"a step is an object with 'skill' and 'args', not {_kind(entry)}", index)
    for key in entry:
        if key not in ("skill", "args"):
            raise InvalidPlan(f"field {key!r} is not known. Fields: skill, args.", index)
    name, args = entry.get("skill"), entry.get("args", {})
    if not isinstance(name, str) or name not in SKILLS:
        raise InvalidPlan(f"skill {name!r} is not known.{did_you_mean(str(name), SKILLS)}", index)
    if not isinstance(args, Mapping):
        raise InvalidPlan(f"args of {name} is {_kind(args)}, not an object", index)
    skill = SKILLS[name]
    known = [argument.name for argument in skill.arguments]
    for key in args:
        if key not in known:
            hint = did_you_mean(str(key), known)
            raise InvalidPlan(f"{name} has no argument {key!r}.{hint}", index)
    for argument in skill.arguments:
        value = args.get(argument.name)
        if not isinstance(value, str) or not 0 < len(value) <= 1000:
            code = _UNKNOWN[argument.kind] if value == "" else TaskCode.INVALID_PLAN
            text = f"{name} needs the argument '{argument.name}' as text: {argument.doc}"
            raise InvalidPlan(text, index, code)
    return PlanStep(name, {key: str(args[key]) for key in known})


def _step_schema(skill: Skill, state: WorldState | None) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for argument in skill.arguments:
        entry: dict[str, Any] = {"type": "string", "description": argument.doc}
        if argument.kind == "direction":
            entry["enum"] = list(DIRECTIONS)
        elif state is not None:
            names = {"enum": list(_allowed(argument, state))}
            points = _points(skill, argument)
            entry |= {"anyOf": [names, {"pattern": POINT_PATTERN}]} if points else names
        properties[argument.name] = entry
    arguments = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "description": skill.doc,
        "properties": {"skill": {"const": skill.name}, "args": arguments},
        "required": ["skill", "args"] if properties else ["skill"],
        "additionalProperties": False,
    }


def _kind(data: object) -> str:
    kinds = {
        dict: "an object",
        list: "a list",
        str: "text",
        type(None): "null",
        bool: "a truth value",
    }
    return kinds.get(type(data), "a number" if isinstance(data, int | float) else str(type(data)))

# SPDX-License-Identifier: Apache-2.0
"""Plans of skills as data: JSON schema, strict validation, check of the whole sequence, progress.

A plan is an ordered list of ``{"skill": NAME, "args": {NAME: VALUE}}``, the format of the sources'
planner. Text that a language model returns is data: it is parsed, validated and checked before any
of it is executed, and never evaluated.

Preconditions and effects of skills refer to the known objects and the held one. They are evaluated
before a plan begins, for the whole sequence, and again before each step, on what is observed then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from motion_nodes.errors import did_you_mean
from motion_nodes.extras.tasks.task_codes import NO_REASON, Reason, TaskCode, TaskError
from motion_nodes.extras.tasks.world_state import POINT_PATTERN, WorldState, point_of

ArgumentKind = Literal["object", "location", "direction"]
"""``object``: name of an object; ``location``: name of an object, a surface or a place;
``direction``: one of :data:`DIRECTIONS`."""
DIRECTIONS = ("forward", "backward", "left", "right")
"""Directions of a push, in the base frame of the robot."""
Arguments = Mapping[str, str]
HOLDING = {"place": "object", "pour": "source", "wipe": "object", "handover": "object"}
"""Skills that begin with an object in the gripper, and the argument that names it."""
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


@dataclass(frozen=True)
class TaskOrder:
    """A task to be executed or planned."""

    task: str
    """A sentence, or a plan as JSON."""
    plan_only: bool = False
    """Whether to plan and check it without executing it."""

    def as_text(self) -> str:
        """Return it as the text of a command."""
        return json.dumps({"task": self.task, "plan_only": True}) if self.plan_only else self.task


def parse_order(text: str) -> TaskOrder:
    """Return the order in the text of a command.

    Args:
        text: a sentence; a plan as a JSON list; or a JSON object with ``task`` (a sentence or a
            plan) and ``plan_only``.

    Raises:
        InvalidPlan: not such an object, or a field of a wrong type.
    """
    if len(text) > MAX_TEXT:
        raise InvalidPlan(f"{len(text)} characters given; a task has at most {MAX_TEXT}")
    if not text.lstrip().startswith("{"):
        return TaskOrder(text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPlan(f"not JSON: {error}") from None
    task, plan_only = data.get("task"), data.get("plan_only", False)
    plain = isinstance(task, str) and isinstance(plan_only, bool)
    if not plain or data.keys() - {"task", "plan_only"}:
        raise InvalidPlan(
            "a task as an object has the fields 'task' (text: a sentence or a JSON list of steps) "
            "and 'plan_only' (true or false)"
        )
    return TaskOrder(task, plan_only)


RUNNING = "running"


@dataclass(frozen=True)
class TaskProgress:
    """One message of ``~/status``."""

    task: str = ""
    state: str = "idle"
    """``idle``, ``planned``, ``running``, ``succeeded``, ``failed``, ``canceled``, ``refused``, or
    what it waits for."""
    reason: str = ""
    """Why it failed or was refused."""
    plan: Plan = ()
    step: int = 0
    """Number of completed steps of the plan."""
    phase: str = ""
    """Phase of the current step."""
    events: tuple[str, ...] = ()
    """Events, oldest first."""
    objects: tuple[str, ...] = ()
    """Names of known objects."""
    held: str | None = None
    """Name of the held object."""
    code: str = ""
    """Code of the reason (:class:`~motion_nodes.extras.tasks.task_codes.TaskCode`)."""
    attempt: int = 0
    """Number of the current step's attempt, from 1 on."""
    plans: int = 1
    """Number of plans so far."""
    examples: tuple[str, ...] = ()
    """Sentences that fit the known objects."""

    @property
    def waits(self) -> bool:
        """Whether the plan waits for a confirmation."""
        return self.state.startswith("waiting")

    @classmethod
    def of(cls, text: str) -> TaskProgress:
        """Return the status in a message.

        Raises:
            InvalidPlan: not such a status.
        """
        try:
            data: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidPlan(f"not JSON: {error}") from None
        if not isinstance(data, Mapping):
            raise InvalidPlan("a status is an object")
        steps, step, held = data.get("plan") or (), data.get("step", 0), data.get("held")
        lists = [data.get(name, []) for name in ("events", "objects", "examples")]
        counts = [step, data.get("attempt", 0), data.get("plans", 1)]
        if not all(isinstance(n, int) for n in counts) or not all(
            isinstance(x, list) for x in lists
        ):
            raise InvalidPlan(
                "in a status, step, attempt and plans are whole numbers, events, objects and "
                "examples are lists"
            )
        return cls(
            task=str(data.get("task", "")),
            state=str(data.get("state", "")),
            reason=str(data.get("reason", "")),
            plan=parse_plan(steps) if steps else (),
            step=step,
            phase=str(data.get("phase", "")),
            events=tuple(map(str, lists[0])),
            objects=tuple(map(str, lists[1])),
            held=None if held is None else str(held),
            code=str(data.get("code", "")),
            attempt=counts[1],
            plans=counts[2],
            examples=tuple(map(str, lists[2])),
        )


def steps_for(skill: str, args: Mapping[str, str], held: str | None) -> Plan:
    """Return a plan of one skill and those it requires: an object is picked before it is placed.

    Args:
        skill: name of the skill.
        args: its arguments.
        held: name of the held object.
    """
    # Imported on demand, with py-trees: displays of the status need neither.
    from motion_nodes.extras.tasks.task_runner import repaired
    from motion_nodes.extras.tasks.world_state import WorldState

    return repaired((PlanStep(skill, args),), WorldState(held=held), "")

# SPDX-License-Identifier: Apache-2.0
"""Functions for language models: names, descriptions and arguments.

JSON schema and strict validation of the arguments are derived from one table. Clients may not
validate and models invent names, so every value is validated before use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from motion_nodes.core.robot.bounds import JOINT_POSITION
from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.tolerances import LIMIT_ROUNDING

MAX_TEXT = 10_000
"""Max number of characters of a text."""
MAX_ENTRIES = 100
"""Max number of entries of a mapping from names to numbers."""
ArgumentType = Literal["text", "number", "numbers", "flag", "numbers_by_name"]
MAX_REACH = 100.0
"""Max coordinate of a goal in the base frame [m]."""
INSTRUCTIONS = """\
You control a robot. Call robot_state and planning_scene first. Units are SI: metres, radians,
seconds. Functions that move the robot need two calls: with dry_run true (default) they plan, check
and describe the motion and return a token; with dry_run false, the same arguments and that token
they execute it. Read the description before the second call. Call stop whenever anything is
unexpected. Errors state what is allowed."""


@dataclass(frozen=True)
class FunctionArgument:
    """One argument of a function."""

    name: str
    type: ArgumentType
    doc: str
    """Description with units and frame."""
    default: Any = None
    """Default value; None: chosen by the function."""
    required: bool = False
    lower: float = -math.inf
    """Min of each number."""
    upper: float = math.inf
    """Max of each number."""
    count: int = 0
    """Number of elements of a list."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        number: dict[str, Any] = {"type": "number"}
        if math.isfinite(self.lower):
            number["minimum"] = self.lower
        if math.isfinite(self.upper):
            number["maximum"] = self.upper
        shape: dict[str, Any] = {
            "text": {"type": "string", "maxLength": MAX_TEXT},
            "number": number,
            "numbers": {
                "type": "array", "items": number, "minItems": self.count, "maxItems": self.count,
            },
            "flag": {"type": "boolean"},
            "numbers_by_name": {
                "type": "object", "additionalProperties": number, "minProperties": 1,
                "maxProperties": MAX_ENTRIES,
            },
        }[self.type]  # fmt: skip
        default = {} if self.default is None else {"default": self.default}
        return shape | {"description": self.doc} | default

    def checked(self, value: Any) -> Any:
        """Return a value after validation.

        Raises:
            InvalidCommand: wrong type or number of elements, or out of range.
        """
        if self.type == "flag":
            self._require(isinstance(value, bool), value, "true or false")
        elif self.type == "text":
            good = isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT
            self._require(good, value, f"a text of 1 to {MAX_TEXT} characters")
        elif self.type == "number":
            return self._number(value, self.name)
        elif self.type == "numbers":
            good = isinstance(value, list | tuple) and len(value) == self.count
            self._require(good, value, f"a list of {self.count} numbers")
            return tuple(self._number(entry, f"{self.name}[{i}]") for i, entry in enumerate(value))
        else:
            good = isinstance(value, Mapping) and 0 < len(value) <= MAX_ENTRIES
            self._require(good, value, f"1 to {MAX_ENTRIES} numbers by name")
            return {str(k): self._number(v, f"{self.name}['{k}']") for k, v in value.items()}
        return value

    def _number(self, value: Any, where: str) -> float:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        inside = min(max(value, self.lower), self.upper) if good else math.nan
        if not (good and math.isfinite(value) and abs(value - inside) <= LIMIT_ROUNDING):
            limits = f" from {self.lower:g} to {self.upper:g}" if math.isfinite(self.upper) else ""
            raise InvalidCommand(f"{where} is {_shown(value)}; allowed: a number{limits}.")
        return float(inside)

    def _require(self, good: bool, value: Any, allowed: str) -> None:
        if not good:
            raise InvalidCommand(f"{self.name} is {_shown(value)}; allowed: {allowed}. {self.doc}")


def object_schema(arguments: Sequence[FunctionArgument]) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments."""
    return {
        "type": "object",
        "properties": {argument.name: argument.schema() for argument in arguments},
        "required": [argument.name for argument in arguments if argument.required],
        "additionalProperties": False,
    }


def checked_arguments(
    function: str, arguments: Sequence[FunctionArgument], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of all arguments; defaults for missing ones.

    Args:
        function: name of the function, for errors.
        arguments: arguments of the function.
        given: values by name, from a client; null: missing.

    Raises:
        InvalidCommand: unknown or missing arguments, wrong types, numbers outside their range.
    """
    known = [argument.name for argument in arguments]
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise InvalidCommand(f"{function} has no argument {_shown(name)}.{hint}")
    values = {}
    for argument in arguments:
        value = given.get(argument.name)
        if value is not None:
            values[argument.name] = argument.checked(value)
        elif argument.required:
            raise InvalidCommand(f"{function} needs the argument '{argument.name}': {argument.doc}")
        else:
            values[argument.name] = argument.default
    return values


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


GROUP = FunctionArgument("group", "text", "Planning group; default: the arm.")
SCALING = (
    FunctionArgument(
        "velocity", "number", "Scaling factor of the velocity limits; default: the max allowed.",
        lower=0.01, upper=1.0,
    ),
    FunctionArgument(
        "acceleration", "number", "Scaling factor of the acceleration limits; default: velocity.",
        lower=0.01, upper=1.0,
    ),
)  # fmt: skip
CONFIRMATION = (
    FunctionArgument(
        "dry_run", "flag", "True: plan, check and describe without moving; returns a token.", True
    ),
    FunctionArgument("token", "text", "Token of the dry run, if dry_run is false."),
)


@dataclass(frozen=True)
class AgentFunction:
    """One function."""

    name: str
    doc: str
    arguments: tuple[FunctionArgument, ...] = ()
    moves: bool = False
    """Whether the function moves the robot and therefore needs a dry run."""

    @property
    def all_arguments(self) -> tuple[FunctionArgument, ...]:
        """All arguments, including those of dry runs."""
        return self.arguments + (CONFIRMATION if self.moves else ())


FUNCTIONS = {
    function.name: function
    for function in (
        AgentFunction(
            "robot_state",
            "Measured joint positions [rad or m], pose of the tip of each group in the base frame, "
            "attached objects, running motion, whether a stop is latched, limits of this server.",
        ),
        AgentFunction(
            "named_states", "Named states of each group, with joint positions [rad or m].",
        ),
        AgentFunction(
            "planning_scene",
            "Objects around the robot: shape, size [m], pose in the base frame, attached link.",
        ),
        AgentFunction(
            "move_to_state", "Move a group to a named state without collisions.",
            (FunctionArgument("state", "text", "Name of the state, see named_states.",
                              required=True), GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "move_to_joints",
            "Move joints to positions without collisions; other joints keep theirs.",
            (FunctionArgument("joints", "numbers_by_name", "Position of each joint [rad or m].",
                              required=True, lower=-JOINT_POSITION.max, upper=JOINT_POSITION.max),
             GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "move_to_pose",
            "Move the tip of a group to a pose in the base frame without collisions.",
            (FunctionArgument("position", "numbers", "x, y, z in the base frame [m].",
                              required=True, count=3, lower=-MAX_REACH, upper=MAX_REACH),
             FunctionArgument("rpy", "numbers", "Roll, pitch, yaw about the fixed axes of the base "
                              "frame [rad]; default: any orientation.",
                              count=3, lower=-10.0, upper=10.0),
             GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "grip", "Move the fingers of the gripper; they stop at an object between them.",
            (FunctionArgument("opening", "number", "0: closed, 1: open.",
                              required=True, lower=0.0, upper=1.0),
             FunctionArgument("max_effort", "number", "Max effort of each finger [N or N m]; "
                              "0: that of the drives.", 0.0, lower=0.0, upper=1e4)),
            moves=True,
        ),
        AgentFunction(
            "run_task",
            "Execute a task with skills (locate, pick, place, pour, push, home), each checked "
            "before, during and after execution; failures are repaired a limited number of times. "
            "The dry run returns the plan of skills; motions are planned at the start of each "
            "skill.",
            (FunctionArgument("task", "text", "A sentence with names of objects, such as 'put the "
                              "red box into the tray', or a plan: a JSON list of "
                              "{\"skill\": NAME, \"args\": {NAME: VALUE}}.", required=True),),
            moves=True,
        ),
        AgentFunction("cancel", "Cancel the running motion or task; the robot comes to rest."),
        AgentFunction(
            "stop",
            "Stop all robots of the suite immediately; they reject commands until resume. May be "
            "called at any time. A software stop, not an emergency stop.",
        ),
        AgentFunction(
            "resume",
            "Release a stop of this server: robots accept commands again; no motion is resumed. "
            "Stops by others must be released by a person.",
        ),
    )
}  # fmt: skip
"""By name."""

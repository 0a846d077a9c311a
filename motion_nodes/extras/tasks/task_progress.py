# SPDX-License-Identifier: Apache-2.0
"""Status of a task server, as its clients read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from motion_nodes.extras.tasks.task_plan import InvalidPlan, Plan, PlanStep, parse_plan

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

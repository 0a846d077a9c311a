# SPDX-License-Identifier: Apache-2.0
"""Requests of tasks: a sentence or a plan, and whether it is only planned."""

from __future__ import annotations

import json
from dataclasses import dataclass

from motion_nodes.tasks.task_plan import MAX_TEXT, InvalidPlan


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

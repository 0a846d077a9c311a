# SPDX-License-Identifier: Apache-2.0
"""Task planners: built-in rules, or any language model behind a function.

A model only proposes text, which is parsed, validated and checked like any other plan; errors are
returned to the model, a bounded number of times.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Protocol

from motion_nodes.tasks.drives import with_drives
from motion_nodes.tasks.language import parse_sentence
from motion_nodes.tasks.skills import SKILLS
from motion_nodes.tasks.task_plan import InvalidPlan, Plan, check_plan, parse_plan, plan_schema
from motion_nodes.tasks.world_state import WorldState

Complete = Callable[[str], str]
"""A language model: prompt in, text out. It may raise, return invalid text, or not return."""


class TaskPlanner(Protocol):
    """Turns a sentence into a plan."""

    def plan(self, sentence: str, state: WorldState, failure: str = "") -> Plan:
        """Return a validated plan.

        Args:
            sentence: the task.
            state: now.
            failure: why the previous plan failed; empty for the first one.

        Raises:
            NotUnderstood: the sentence is not understood.
            InvalidPlan: no valid plan was found.
        """


class RulePlanner:
    """Plans by the rules of :mod:`motion_nodes.tasks.language`."""

    def plan(self, sentence: str, state: WorldState, failure: str = "") -> Plan:
        """Return the plan; see :class:`TaskPlanner`."""
        plan = with_drives(parse_sentence(sentence, state), state)
        check_plan(plan, state)
        return plan


@dataclass
class ModelPlanner:
    """Plans by a language model; falls back to the rules if it fails."""

    complete: Complete
    attempts: int = 3
    """Max number of proposals."""
    timeout: float = 30.0
    """Max time for each [s]."""
    fallback: TaskPlanner | None = field(default_factory=RulePlanner)
    """Used if the model yields no valid plan; None: the error is raised."""
    rejected: list[str] = field(default_factory=list)
    """Why proposals were rejected, newest last."""

    def plan(self, sentence: str, state: WorldState, failure: str = "") -> Plan:
        """Return the plan; see :class:`TaskPlanner`."""
        self.rejected.clear()
        reason = failure
        for _ in range(self.attempts):
            try:
                plan = parse_plan(self._proposal(_prompt(sentence, state, reason)))
                check_plan(plan, state)
                return plan
            except InvalidPlan as error:
                reason = str(error)
                self.rejected.append(reason)
        if self.fallback is not None:
            return self.fallback.plan(sentence, state, failure)
        raise InvalidPlan(f"no valid plan in {self.attempts} proposals; the last: {reason}")

    def _proposal(self, prompt: str) -> str:
        answer: Future[str] = Future()

        def ask() -> None:
            try:
                answer.set_result(self.complete(prompt))
            except Exception as error:
                answer.set_exception(error)

        # Not by an executor, whose threads a process joins at its end: the model may not return.
        threading.Thread(target=ask, name="language-model", daemon=True).start()
        try:
            text = answer.result(self.timeout)
        except FutureTimeout:
            raise InvalidPlan(f"the language model did not answer in {self.timeout:g} s") from None
        except Exception as error:
            raise InvalidPlan(f"the language model failed: {error}") from None
        if not isinstance(text, str):
            raise InvalidPlan("the language model returned no text")
        return _json_in(text)


def _json_in(text: str) -> str:
    """Return the list in a text that may be wrapped in a code block."""
    begin, end = text.find("["), text.rfind("]")
    return text[begin : end + 1] if 0 <= begin < end else text


def _prompt(sentence: str, state: WorldState, reason: str) -> str:
    skills = "\n".join(
        f"- {s.name}({', '.join(a.name for a in s.arguments)}): {s.doc}" for s in SKILLS.values()
    )
    lines = [
        "Plan a task for a robot as a JSON list of steps. Return JSON only.",
        f"Skills:\n{skills}",
        f"Objects: {', '.join(state.objects) or 'none'}.",
        f"Places: {', '.join(state.places) or 'none'}.",
        f"The gripper holds {state.held or 'nothing'}.",
        f"Schema: {json.dumps(plan_schema(state))}",
        f"Task: {sentence}",
    ]
    if reason:
        lines.append(f"The plan before failed: {reason}")
    return "\n".join(lines)

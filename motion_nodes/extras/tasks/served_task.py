# SPDX-License-Identifier: Apache-2.0
"""One task of a server: from its text to its end.

Its planner is a set of built-in rules, or any language model behind a function. A model only
proposes text, which is parsed, validated and checked like any other plan; errors are returned to
the model, a bounded number of times.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, Protocol

from motion_nodes.extras.tasks.language import example_sentences, parse_sentence
from motion_nodes.extras.tasks.task_codes import NO_REASON, Reason, TaskCode
from motion_nodes.extras.tasks.task_plan import (
    SKILLS,
    InvalidPlan,
    Plan,
    check_plan,
    parse_plan,
    plan_schema,
)
from motion_nodes.extras.tasks.task_runner import TaskRunner, TaskStatus, with_drives
from motion_nodes.extras.tasks.world_state import WorldState

MAX_TEXT_SHOWN = 1000
"""Max length of the text in a status."""
EVENTS_SHOWN = 20
"""Max number of events in a status."""
CANCELED = Reason(TaskCode.CANCELED, "the task was canceled")
Complete = Callable[[str], str]
"""A language model: prompt in, text out. It may raise, return invalid text, or not return."""


@dataclass
class ServedTask:
    """A task with its plan; it waits for a confirmation while it has no runner."""

    text: str = ""
    """Sentence or plan, as it was received."""
    number: int = 0
    """Number of the task since the start of the server."""
    plan: Plan = ()
    plan_only: bool = False
    """Whether the plan is not executed."""
    refusal: Reason = NO_REASON
    """Reason of the rejection, if it was rejected."""
    runner: TaskRunner | None = None
    """Executes the plan, from its start on."""
    canceled: Reason = NO_REASON
    """Why it was canceled before it began, if it was."""
    notes: list[str] = field(default_factory=list)
    """Orders that were refused while it waited."""

    @property
    def state(self) -> str:
        """State, as clients read it."""
        if self.refusal:
            return "refused"
        if self.runner is not None:
            return self.runner.state.value
        if self.canceled:
            return TaskStatus.CANCELED.value
        if not self.plan:
            return "idle"
        return "planned" if self.plan_only else "waiting for ~/confirm"

    @property
    def waits(self) -> bool:
        """Whether the plan waits for a confirmation."""
        return self.runner is None and not self.ended and bool(self.plan)

    @property
    def running(self) -> bool:
        """Whether it is being executed."""
        return self.runner is not None and self.runner.state is TaskStatus.RUNNING

    @property
    def ended(self) -> bool:
        """Whether the task has ended."""
        if self.runner is not None:
            return not self.running
        return bool(self.refusal or self.canceled) or self.plan_only

    @property
    def reason(self) -> Reason:
        """Why it was refused, failed or was canceled."""
        return self.refusal or self.canceled or (
            NO_REASON if self.runner is None else self.runner.reason
        )  # fmt: skip

    @property
    def progress(self) -> str:
        """Current step and its phase, as text."""
        runner = self.runner
        if runner is None or runner.step >= len(runner.plan):
            return self.state
        phase = f": {runner.phase}" if runner.phase else ""
        return f"{runner.plan[runner.step]}{phase}"

    def cancel(self, reason: Reason = CANCELED) -> None:
        """End it for a reason."""
        if self.runner is not None:
            self.runner.cancel(reason)
        elif not self.ended:
            self.canceled = reason

    def status(self, world: WorldState) -> dict[str, Any]:
        """Return the status as plain data.

        Args:
            world: current state.
        """
        runner = self.runner
        plan = self.plan if runner is None else runner.plan
        found: dict[str, Any] = {
            "task": self.text[:MAX_TEXT_SHOWN],
            "number": self.number,
            "state": self.state,
            "reason": self.reason.text,
            "code": self.reason.code.word,
            "plan": [] if self.canceled else [step.as_data() for step in plan],
            "objects": sorted(world.objects),
            "held": world.held,
            "examples": example_sentences(world),
            "events": self.notes[-EVENTS_SHOWN:],
        }
        if runner is not None:
            events = [event.text for event in runner.events[-EVENTS_SHOWN:]]
            found |= {
                "step": runner.step, "phase": runner.phase, "attempt": runner.attempt,
                "plans": runner.plans, "events": events,
            }  # fmt: skip
        return found


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
    """Plans by the rules of :mod:`motion_nodes.extras.tasks.language`."""

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

# SPDX-License-Identifier: Apache-2.0
"""One task of a server: from its text to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from motion_nodes.tasks.language import example_sentences
from motion_nodes.tasks.task_codes import NO_REASON, Reason, TaskCode
from motion_nodes.tasks.task_plan import Plan
from motion_nodes.tasks.task_runner import TaskRunner, TaskStatus
from motion_nodes.tasks.world_state import WorldState

MAX_TEXT_SHOWN = 1000
"""Max length of the text in a status."""
EVENTS_SHOWN = 20
"""Max number of events in a status."""


CANCELED = Reason(TaskCode.CANCELED, "the task was canceled")


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
        }
        if runner is not None:
            events = [event.text for event in runner.events[-EVENTS_SHOWN:]]
            found |= {
                "step": runner.step, "phase": runner.phase, "attempt": runner.attempt,
                "plans": runner.plans, "events": events,
            }  # fmt: skip
        return found

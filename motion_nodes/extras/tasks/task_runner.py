# SPDX-License-Identifier: Apache-2.0
"""Executes plans of skills as a behavior tree; failed steps are retried, failed plans replanned.

Each step is a behavior that first observes the world, so poses are never older than the step, and
checks its preconditions. A failed step is retried; if it fails again, the world is observed, and
the rest of the task is planned again. After a bounded number of plans the task ends with the reason
of each failure.

Drives that a plan of a mobile manipulator needs: to what is out of reach before it is
used.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import py_trees
from py_trees.common import Status

from motion_nodes.errors import MotionError
from motion_nodes.extras.tasks.task_codes import NO_REASON, Reason, SkillFailed, TaskCode
from motion_nodes.extras.tasks.task_plan import (
    HOLDING,
    SKILLS,
    Plan,
    PlanStep,
    check_plan,
    step_problem,
)
from motion_nodes.extras.tasks.world_state import WorldState

USED = {
    "pick": "object", "place": "location", "pour": "target", "push": "object", "wipe": "surface",
    "open_drawer": "object",
}  # fmt: skip
"""Skills that need an object within reach, and the argument that names it."""
TOLERANCE = 0.05
"""Distance beyond ``stand_off`` up to which an object counts as within reach [m]."""
MAX_EVENTS = 1000
"""Max length of the event log."""


def with_drives(plan: Plan, state: WorldState) -> Plan:
    """Return a plan with a drive before each step whose object is out of reach.

    Args:
        plan: of any robot; those of robots without a base are returned as they are.
        state: with the objects in the base frame.
    """
    return tuple(_with_drives(plan, state)) if state.has_base else plan


def _with_drives(plan: Plan, state: WorldState) -> Iterator[PlanStep]:
    at: tuple[float, float] | None = (0.0, 0.0)  # of the base; None: not known
    for step in plan:
        if step.skill == "navigate":
            at = _beside(step.args["location"], at, state)
        name = step.args.get(USED.get(step.skill, ""), "")
        if name in state.objects and name != state.held and not _reaches(name, at, state):
            yield PlanStep("navigate", {"location": name})
            at = _beside(name, at, state)
        yield step


def _reaches(name: str, at: tuple[float, float] | None, state: WorldState) -> bool:
    if at is None:
        return False
    x, y = state.objects[name].X_WO[:2, 3].tolist()
    return math.hypot(x - at[0], y - at[1]) <= state.stand_off + TOLERANCE


def _beside(
    name: str, at: tuple[float, float] | None, state: WorldState
) -> tuple[float, float] | None:
    """Return where the base is after a drive to an object; None: a place, or not known."""
    if name not in state.objects or at is None:
        return None
    x, y = state.objects[name].X_WO[:2, 3].tolist()
    away = math.hypot(x - at[0], y - at[1])
    share = max(0.0, away - state.stand_off) / away if away > 0.0 else 0.0
    return at[0] + share * (x - at[0]), at[1] + share * (y - at[1])


class SkillExecution(Protocol):
    """A skill that is being executed."""

    phase: str
    """Current phase, such as ``approach``."""

    def poll(self) -> bool:
        """Return whether it has succeeded; False while it runs.

        Raises:
            SkillFailed: with the reason.
        """

    def cancel(self) -> None:
        """Cancel it; the robot stops."""


class SkillRobot(Protocol):
    """A robot that executes skills and observes the world."""

    def observe(self) -> WorldState:
        """Return the current state.

        Raises:
            SkillFailed: nothing is observed.
        """

    def start(self, step: PlanStep, state: WorldState) -> SkillExecution:
        """Begin a step.

        Raises:
            SkillFailed: it cannot begin.
        """

    def now(self) -> float:
        """Return the current time [s]."""


class TaskStatus(enum.Enum):
    """State of a task."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True)
class TaskEvent:
    """One entry of the log."""

    time: float
    """[s]"""
    text: str


@dataclass(frozen=True)
class TaskLimits:
    """Bounds of repairs."""

    retries: int = 1
    """Max number of retries of a failed step."""
    plans: int = 3
    """Max number of plans of a task, the first one included."""


class TaskRunner:
    """One task; call :meth:`tick` regularly until its state is no longer RUNNING."""

    def __init__(self, robot: SkillRobot, plan: Plan, limits: TaskLimits | None = None) -> None:
        """Start a validated plan.

        Args:
            robot: executes skills.
            plan: the plan.
            limits: bounds of repairs.
        """
        self._robot = robot
        self._limits = limits or TaskLimits()
        self.state = TaskStatus.RUNNING
        self.reason = NO_REASON
        """Why the task failed or was canceled."""
        self.plan = plan
        """Steps of the current plan."""
        self.events: list[TaskEvent] = []
        """Events, oldest first."""
        self._plans = 1
        self._begin(plan)

    @property
    def step(self) -> int:
        """Index of the current step in :attr:`plan`."""
        return sum(behavior.done for behavior in self._behaviors)

    @property
    def attempt(self) -> int:
        """Number of the current step's attempt, from 1 on; 0 before the first one."""
        current = next((b for b in self._behaviors if not b.done), None)
        return 0 if current is None else current.attempt

    @property
    def plans(self) -> int:
        """Number of plans so far."""
        return self._plans

    @property
    def phase(self) -> str:
        """Phase of the current skill."""
        current = next((b for b in self._behaviors if not b.done), None)
        return "" if current is None else current.phase

    def tick(self) -> TaskStatus:
        """Advance the task; return its state."""
        if self.state is not TaskStatus.RUNNING:
            return self.state
        self._tree.tick_once()
        if self._tree.status is Status.SUCCESS:
            self._end(TaskStatus.SUCCEEDED, NO_REASON)
        elif self._tree.status is Status.FAILURE:
            self._repair()
        return self.state

    def cancel(self, reason: Reason) -> None:
        """Cancel the current skill and end the task for a reason."""
        if self.state is TaskStatus.RUNNING:
            self._tree.stop(Status.INVALID)
            self._end(TaskStatus.CANCELED, reason)

    def log(self, text: str) -> None:
        """Add an event."""
        self.events.append(TaskEvent(self._robot.now(), text))
        del self.events[:-MAX_EVENTS]

    # ---- inside

    def _begin(self, plan: Plan) -> None:
        self.plan = plan
        self._behaviors = [SkillBehavior(step, self._robot, self.log) for step in plan]
        self._tree = py_trees.composites.Sequence(
            "task",
            memory=True,
            children=[
                py_trees.decorators.Retry(f"retry {b.name}", b, self._limits.retries + 1)
                for b in self._behaviors
            ],
        )
        self.log(f"plan: {', '.join(map(str, plan))}")

    def _repair(self) -> None:
        failed = next(b for b in self._behaviors if not b.done)
        code, reason = failed.reason.code, f"{failed.step}: {failed.reason}"
        if self._plans >= self._limits.plans:
            last = f"{reason} (plan {self._plans} of {self._limits.plans})"
            self._end(TaskStatus.FAILED, Reason(code, last))
            return
        if failed.lost and not any(map(_held_by, self.plan[self.step :])):
            self._end(TaskStatus.FAILED, Reason(code, reason))  # nothing left brings it back
            return
        self._plans += 1
        try:
            state = self._robot.observe()
            plan = repaired(self.plan[self.step :], state, reason)
            check_plan(plan, state)
        except MotionError as error:
            self._end(TaskStatus.FAILED, Reason(code, f"{reason}; no new plan: {error}"))
            return
        self.log(f"replanning after {reason}")
        self._begin(plan)

    def _end(self, state: TaskStatus, reason: Reason) -> None:
        self.state, self.reason = state, reason
        self.log(f"{state.value}{': ' if reason else ''}{reason}")


class SkillBehavior(py_trees.behaviour.Behaviour):
    """One step of a plan as a behavior."""

    def __init__(self, step: PlanStep, robot: SkillRobot, log: Callable[[str], None]) -> None:
        super().__init__(str(step))
        self.step, self._robot, self._log = step, robot, log
        self._execution: SkillExecution | None = None
        self._deadline = 0.0
        self.reason = NO_REASON
        """Why the last attempt failed."""
        self.done = False
        """Whether it has succeeded."""
        self.attempt = 0
        """Number of attempts so far."""

    @property
    def phase(self) -> str:
        """Phase of the execution."""
        return "" if self._execution is None else self._execution.phase

    @property
    def lost(self) -> bool:
        """Whether the held object was lost in the last attempt; a pick may be repeated."""
        return self.reason.code is TaskCode.OBJECT_LOST and self.step.skill != "pick"

    def initialise(self) -> None:
        """Observe the world, check the preconditions, and begin."""
        self._execution = None
        if self.lost:
            return  # repeated, it would end as if nothing had happened
        before, self.reason = self.reason, NO_REASON
        self.attempt += 1
        self._deadline = self._robot.now() + SKILLS[self.step.skill].timeout
        try:
            state = self._robot.observe()
            self.reason = step_problem(self.step, state)
            if not self.reason:
                self._execution = self._robot.start(self.step, state)
                self._log(f"{self.step} begins")
            elif before:  # a consequence of the first failure
                self._log(f"{self.step} cannot begin again: {self.reason}")
                self.reason = before
        except SkillFailed as error:
            self.reason = error.reason

    def update(self) -> Status:
        """Return the status of the execution."""
        if self._execution is None:
            return self._failed()
        if self._robot.now() > self._deadline:
            late = f"not done within {SKILLS[self.step.skill].timeout:g} s"
            self.reason = Reason(TaskCode.TIMEOUT, late)
            return self._failed()
        try:
            self.done = self._execution.poll()
        except SkillFailed as error:
            text = f"{self.phase}: {error}" if self.phase else str(error)
            self.reason = Reason(error.code, text)
            return self._failed()
        if not self.done:
            return Status.RUNNING
        self._log(f"{self.step} done")
        self._execution = None
        return Status.SUCCESS

    def terminate(self, new_status: Status) -> None:
        """Cancel an execution that is interrupted."""
        if new_status is not Status.RUNNING and self._execution is not None and not self.done:
            self._execution.cancel()
            self._execution = None

    def _failed(self) -> Status:
        self._log(f"{self.step} failed: {self.reason}")
        return Status.FAILURE


def repaired(rest: Plan, state: WorldState, reason: str) -> Plan:
    """Return the rest of a plan, with the skills it requires after a failure.

    An object that was lost on the way to its place is picked again; one that is held already is
    not picked once more, unless the fingers were interrupted.
    """
    plan, observed = list[PlanStep](), state
    for step in rest:
        held = step.skill == "pick" and state.held == step.args["object"]
        if held and not state.grip_unsure:
            continue
        needed = _held_by(step)
        if needed is not None and state.held != needed and not _picks(plan, needed):
            plan.append(PlanStep("pick", {"object": needed}))
        plan.append(step)
        state = SKILLS[step.skill].effect(step.args, state)
    return with_drives(tuple(plan), observed)


def _held_by(step: PlanStep) -> str | None:
    """Return the object that a step needs in the gripper."""
    argument = HOLDING.get(step.skill)
    return None if argument is None else step.args[argument]


def _picks(plan: Sequence[PlanStep], name: str) -> bool:
    return bool(plan) and plan[-1].skill == "pick" and plan[-1].args["object"] == name

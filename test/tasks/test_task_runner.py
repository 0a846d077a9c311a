# SPDX-License-Identifier: Apache-2.0
"""Execution of plans against a scripted robot: retries, repairs, bounds, cancel."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.tree import Box
from motion_nodes.extras.tasks.served_task import ServedTask
from motion_nodes.extras.tasks.task_codes import Reason, TaskCode
from motion_nodes.extras.tasks.task_plan import SKILLS, PlanStep, parse_plan
from motion_nodes.extras.tasks.task_runner import SkillFailed, TaskLimits, TaskRunner, TaskStatus
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState

CUBE = Box((0.05, 0.05, 0.05))
PLAN = parse_plan(
    [
        {"skill": "pick", "args": {"object": "cube"}},
        {"skill": "place", "args": {"object": "cube", "location": "table"}},
    ]
)


class ScriptedExecution:
    phase = "approach"

    def __init__(self, robot: ScriptedRobot, step: PlanStep, failure: str) -> None:
        self.robot, self.step, self.failure, self.polls = robot, step, failure, 0

    def poll(self) -> bool:
        self.polls += 1
        if self.failure == "never":
            return False
        if self.failure and self.polls > 1:
            raise SkillFailed(self.failure, TaskCode.MOTION_FAILED)
        if self.polls < 3:
            return False
        self.robot.state = SKILLS[self.step.skill].effect(self.step.args, self.robot.state)
        return True

    def cancel(self) -> None:
        self.robot.canceled += 1


class ScriptedRobot:
    """Executes each step in three polls, with failures from a list."""

    def __init__(self, *failures: str) -> None:
        self.failures, self.canceled, self.time = list(failures), 0, 0.0
        self.started: list[str] = []
        self.observations = 0
        self.state = WorldState(
            objects={n: ObjectState(n, np.eye(4), CUBE, movable=n != "table")
                     for n in ("cube", "table")}
        )  # fmt: skip

    def observe(self) -> WorldState:
        self.observations += 1
        return self.state

    def start(self, step: PlanStep, state: WorldState) -> ScriptedExecution:
        self.started.append(step.skill)
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "lost":
            self.state = self.state.holding(None)
        return ScriptedExecution(self, step, failure)

    def now(self) -> float:
        self.time += 0.1
        return self.time


def run(robot: ScriptedRobot, plan=PLAN, limits: TaskLimits | None = None, ticks: int = 2000):
    runner = TaskRunner(robot, plan, limits=limits)
    for _ in range(ticks):
        if runner.tick() is not TaskStatus.RUNNING:
            break
    return runner


def test_steps_in_order_with_fresh_observations() -> None:
    robot = ScriptedRobot()
    runner = run(robot)
    assert runner.state is TaskStatus.SUCCEEDED
    assert robot.started == ["pick", "place"]
    assert robot.observations >= 2


def test_failed_step_is_retried() -> None:
    robot = ScriptedRobot("slipped")
    assert run(robot).state is TaskStatus.SUCCEEDED
    assert robot.started == ["pick", "pick", "place"]


def test_dropped_object_is_picked_again() -> None:
    robot = ScriptedRobot("", "lost")
    runner = run(robot)
    assert runner.state is TaskStatus.SUCCEEDED
    # At the second attempt to place the precondition fails, so the task is replanned.
    assert robot.started == ["pick", "place", "pick", "place"]


def test_the_reason_is_the_failure_not_what_follows_from_it() -> None:
    """A place that has dropped the object cannot begin again: the gripper is empty."""
    runner = run(ScriptedRobot(*3 * ("", "lost")))
    assert runner.state is TaskStatus.FAILED
    assert runner.reason.code is TaskCode.MOTION_FAILED
    assert "lost" in runner.reason.text
    assert any("cannot begin again: the gripper does not hold" in e.text for e in runner.events)


@pytest.mark.parametrize(("retries", "plans"), [(0, 1), (1, 3), (2, 2)])
def test_failures_are_bounded(retries: int, plans: int) -> None:
    robot = ScriptedRobot(*["blocked"] * 100)
    runner = run(robot, limits=TaskLimits(retries=retries, plans=plans))
    assert runner.state is TaskStatus.FAILED
    assert runner.reason.code is TaskCode.MOTION_FAILED
    assert "blocked" in runner.reason.text
    assert len(robot.started) == (retries + 1) * plans


def test_vanished_object_ends_the_task_with_its_reason() -> None:
    robot = ScriptedRobot("moved", "moved")
    runner = TaskRunner(robot, PLAN)
    for _ in range(4):
        runner.tick()
    robot.state = WorldState(objects={"table": robot.state.objects["table"]})
    for _ in range(200):
        runner.tick()
    assert runner.state is TaskStatus.FAILED
    assert runner.reason.code is TaskCode.UNKNOWN_OBJECT
    assert "cube" in runner.reason.text


def test_step_that_never_ends_is_canceled_at_its_timeout() -> None:
    robot = ScriptedRobot("never", "never")
    runner = run(robot, limits=TaskLimits(retries=0, plans=1))
    assert runner.state is TaskStatus.FAILED
    assert robot.canceled == 1


def test_cancel_stops_the_step() -> None:
    robot = ScriptedRobot("never")
    runner = TaskRunner(robot, PLAN)
    runner.tick()
    runner.cancel(Reason(TaskCode.STOPPED_MEANWHILE, "stopped by the page"))
    assert runner.state is TaskStatus.CANCELED
    assert runner.reason == Reason(TaskCode.STOPPED_MEANWHILE, "stopped by the page")
    assert robot.canceled == 1
    assert runner.tick() is TaskStatus.CANCELED


def test_failures_stay_in_the_log() -> None:
    runner = run(ScriptedRobot("slipped"))
    texts = [event.text for event in runner.events]
    assert any("slipped" in text for text in texts)
    assert texts[-1] == "succeeded"


def test_states_of_a_served_task() -> None:
    world = ScriptedRobot().state
    assert ServedTask().status(world)["state"] == "idle"
    why = Reason(TaskCode.NOT_UNDERSTOOD, "no such skill")
    refused = ServedTask("dance", 1, refusal=why)
    assert (refused.state, refused.ended, refused.reason) == ("refused", True, why)
    assert refused.status(world)["code"] == "not_understood"
    assert ServedTask("x", 1, PLAN, plan_only=True).state == "planned"
    waiting = ServedTask("x", 1, PLAN)
    assert waiting.waits
    assert not waiting.ended
    waiting.cancel()
    assert (waiting.state, waiting.waits, waiting.status(world)["plan"]) == ("canceled", False, [])


def test_progress_of_a_served_task_until_it_is_canceled() -> None:
    robot = ScriptedRobot()
    task = ServedTask("x", 1, PLAN)
    task.runner = TaskRunner(robot, PLAN)
    task.runner.tick()
    assert (task.progress, task.running) == ("pick(cube): approach", True)
    task.cancel()
    assert (task.state, task.ended, robot.canceled) == ("canceled", True, 1)

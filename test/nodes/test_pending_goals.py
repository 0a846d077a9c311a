# SPDX-License-Identifier: Apache-2.0
"""Goals of the navigator that are pending, and goals that the planner replaces."""

import math
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from moveit_msgs.msg import MotionPlanRequest, RobotState

from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.nodes.clients.ros_robot_link import RosRobotLink
from motion_nodes.nodes.navigation import navigation_requests
from motion_nodes.nodes.navigation.navigation_requests import (
    Codes,
    FrameNotKnown,
    NavigationRejected,
)
from motion_nodes.nodes.planner.move_action import MotionChange
from motion_nodes.ros.messages.plan_messages import PlanJob, PlannedMotion, trajectory_message


class Goal:
    """A goal; its frame becomes known at the n-th attempt."""

    def __init__(self, known_at: int, fault: Exception | None = None) -> None:
        self.known_at, self.fault = known_at, fault
        self.attempts, self.started, self.refusal = 0, False, None
        self.ended = False
        self.may_plan = threading.Event()
        self.may_plan.set()

    def plan(self) -> int:
        assert self.may_plan.wait(10.0)
        self.attempts += 1
        if self.attempts < self.known_at:
            raise FrameNotKnown(Codes.TF_ERROR, "frame")
        if self.fault is not None:
            raise self.fault
        return self.attempts

    def start(self, plan: int) -> None:
        assert plan == self.attempts
        self.started = True

    def refuse(self, error: Exception) -> None:
        self.refusal = error


@pytest.fixture
def waits(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(navigation_requests.time, "monotonic", lambda: clock.now)
    timer = SimpleNamespace(running=True)
    timer.cancel = lambda: setattr(timer, "running", False)
    timer.reset = lambda: setattr(timer, "running", True)
    triggered = threading.Event()
    node = SimpleNamespace(
        create_timer=lambda *_, **__: timer,
        destroy_timer=lambda _: None,
        create_guard_condition=lambda *_: SimpleNamespace(trigger=triggered.set),
        destroy_guard_condition=lambda _: None,
    )
    found = SimpleNamespace(clock=clock, timer=timer, triggered=triggered, map=False)
    found.queue = navigation_requests.PendingGoals(node, lambda: found.map)
    yield found
    found.queue.destroy()


def retry(waits, times=1):
    for _ in range(times):
        waits.clock.now += navigation_requests.RETRY_PERIOD
        waits.queue._retry()


def test_a_known_frame_starts_at_once(waits):
    goal = Goal(1)
    waits.queue.begin(goal)
    assert goal.started
    assert not waits.timer.running


def test_a_frame_that_appears_in_time_starts_then(waits):
    goal = Goal(4)
    waits.queue.begin(goal)
    assert waits.timer.running
    retry(waits, 3)
    assert goal.started
    assert goal.refusal is None
    assert not waits.timer.running


def test_a_frame_that_does_not_appear_is_refused_once(waits):
    goal = Goal(1000)
    waits.queue.begin(goal)
    retry(waits, 30)
    assert isinstance(goal.refusal, FrameNotKnown)
    assert waits.clock.now > navigation_requests.TRANSFORM_WAIT
    assert (
        goal.attempts <= 2 + navigation_requests.TRANSFORM_WAIT / navigation_requests.RETRY_PERIOD
    )


@pytest.mark.parametrize("fault", [NavigationRejected(3, "tight"), TimeoutError("loop")])
def test_other_reasons_refuse_at_once(waits, fault):
    goal = Goal(1, fault)
    waits.queue.begin(goal)
    assert goal.refusal is fault
    assert not waits.timer.running


def test_a_newer_goal_that_started_is_not_preempted_by_one_that_waited(waits):
    old, new = Goal(3), Goal(1)
    waits.queue.begin(old)
    waits.queue.begin(new)
    retry(waits, 3)
    assert new.started
    assert not old.started
    assert type(old.refusal) is NavigationRejected


def test_a_newer_goal_that_is_refused_changes_nothing(waits):
    old, new = Goal(3), Goal(1, NavigationRejected(3, "tight"))
    waits.queue.begin(old)
    waits.queue.begin(new)
    retry(waits, 3)
    assert old.started


def test_a_newer_goal_that_is_canceled_while_it_waits_changes_nothing(waits):
    old, new = Goal(4), Goal(1000)
    waits.queue.begin(old)
    waits.queue.begin(new)
    new.ended = True
    retry(waits, 4)
    assert old.started
    assert not new.started
    assert new.refusal is None


def served(waits):
    """Serve the executor once a plan is there."""
    assert waits.triggered.wait(10.0)
    waits.triggered.clear()
    waits.queue._planned.run()


def test_plans_on_a_map_do_not_block_the_executor(waits):
    waits.map = True
    slow, next_one = Goal(1), Goal(2)
    slow.may_plan.clear()
    waits.queue.begin(slow)
    waits.queue.begin(next_one)
    assert not slow.started
    slow.may_plan.set()
    served(waits)
    assert slow.started
    while next_one.attempts < 1 or not waits.timer.running:
        served(waits)
    retry(waits)
    served(waits)
    assert next_one.started


@pytest.mark.parametrize("destroyed", [False, True])
def test_what_ended_while_it_was_planned_does_not_start(waits, destroyed):
    waits.map = True
    goal = Goal(1)
    goal.may_plan.clear()
    waits.queue.begin(goal)
    if destroyed:
        waits.queue.destroy()
    else:
        goal.ended = True
    goal.may_plan.set()
    served(waits)
    assert goal.attempts == 1
    assert not goal.started
    assert goal.refusal is None


def test_a_fault_of_a_plan_refuses_the_goal(waits):
    waits.map = True
    waits.queue._node.get_logger = lambda: SimpleNamespace(error=lambda _: None)
    goal = Goal(1, ZeroDivisionError("fault"))
    waits.queue.begin(goal)
    served(waits)
    assert isinstance(goal.refusal, NavigationRejected)


def test_a_next_motion_is_not_newer_than_goals_that_started(waits):
    first, newer = Goal(1), Goal(1)
    waits.queue.begin(first)
    first.started = False
    waits.queue.proceed(first)
    assert first.started
    waits.queue.begin(newer)
    assert newer.started


def test_positions_that_are_not_numbers_are_not_known():
    link: Any = RosRobotLink.__new__(RosRobotLink)
    state = SimpleNamespace(name=["shoulder", "elbow"], position=[0.5, math.nan])
    scene = SimpleNamespace(robot_state=SimpleNamespace(joint_state=state))
    link._scene_now = lambda _: scene
    assert link.positions() == {"shoulder": 0.5}


FRANKA = load_robot("franka")
ARM = FRANKA.group("arm")
FINGERS = FRANKA.indices(FRANKA.group("gripper").joints)
TIME_STEP = PlanOptions().time_step


class Requests:
    """Plans straight lines, and records the states that are checked for collisions."""

    def __init__(self) -> None:
        self.robot = FRANKA
        self.scenes = SimpleNamespace(scene=Scene(), scene_with=lambda change, state: Scene())
        self.state = SimpleNamespace(newest=lambda: (self.q, ""))
        self.q = FRANKA.home.copy()
        self.checked: list[np.ndarray] = []

    def checker(self, group, scene, q):
        self.checked.append(q.copy())
        checker = CollisionChecker(FRANKA, group.joints, scene=scene)
        checker.set_positions(q)
        return checker

    def payload(self, tip):
        return None

    def plan(self, job: PlanJob, cancelled) -> PlannedMotion:
        q = self.q.copy()
        given = job.request.start_state.joint_state
        if given.name:
            q[FRANKA.indices(given.name)] = given.position
        goal = FRANKA.home[ARM.indices] + [1.5, -0.1 * len(self.checked), 0, 0, 0, 0, 0]
        points = retime([q[ARM.indices], goal], ARM.limits).points(TIME_STEP)
        return PlannedMotion(job, ARM, q, RobotState(), trajectory_message(points), 0.0, "")


def test_a_change_is_planned_and_checked_for_the_current_state_of_the_other_joints():
    requests, began = Requests(), []
    params = SimpleNamespace(
        allowed_planning_time=5.0,
        effort_share=0.0,
        preferred_clearance=0.0,
    )
    host = SimpleNamespace(
        requests=requests, params=params, now_ns=lambda: 1_000_000_000 + len(began) * 200_000_000
    )
    planned = requests.plan(PlanJob(MotionPlanRequest()), lambda: False)
    changes: list[PlannedMotion] = []
    change = MotionChange(host, planned, 0.3, lambda: False, lambda new, _: changes.append(new))
    # The gripper closes, or another arm moves, while the arm is on its way.
    requests.q[FINGERS] = 0.013
    requests.checked.clear()
    began.append(True)
    sent = SimpleNamespace(message=planned.trajectory.joint_trajectory, delay=0.0)
    assert change.change(sent, "box") is not None
    assert requests.checked
    assert all((q[FINGERS] == 0.013).all() for q in requests.checked)
    assert (changes[0].q[FINGERS] == 0.013).all()

# SPDX-License-Identifier: Apache-2.0
"""A motion that is changed while it is executed: which state of the robot it is planned for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from moveit_msgs.msg import MotionPlanRequest, RobotState

from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.nodes.planner.motion_change import MotionChange
from motion_nodes.nodes.planner.plan_jobs import PlanJob, PlannedMotion
from motion_nodes.ros.messages.plan_messages import trajectory_message

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
        allowed_planning_time=5.0, effort_share=0.0, payload_mass=0.0, preferred_clearance=0.0
    )
    host = SimpleNamespace(
        requests=requests,
        params=params,
        now_ns=lambda: 1_000_000_000 + len(began) * 200_000_000,
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

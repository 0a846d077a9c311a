# SPDX-License-Identifier: Apache-2.0
"""Each goal of each action of an arm gets exactly one result, however it ends."""

from __future__ import annotations

from typing import Any

import pytest
from control_msgs.action import FollowJointTrajectory, GripperCommand, ParallelGripperCommand
from joint_client import ARM, HOME, JointClient, smooth
from moveit_msgs.action import ExecuteTrajectory, MoveGroup, MoveGroupSequence, Pickup, Place
from moveit_msgs.msg import MotionPlanRequest, MotionSequenceItem
from nav2_msgs.action import DummyBehavior
from one_result import Goals, count
from planner_client import Planner, at

pytestmark = pytest.mark.timeout(3600)


def request(kind: str = "PTP") -> MotionPlanRequest:
    made = MotionPlanRequest(
        group_name="arm", pipeline_id="pilz_industrial_motion_planner", planner_id=kind
    )
    made.goal_constraints = [at({name: HOME[name] for name in ARM})]
    return made


def arm_goals() -> dict[str, Goals]:
    """Return type, goals that are reached, and goals that move, of each action of an arm."""

    def follow(seconds: float, by: float) -> FollowJointTrajectory.Goal:
        goal = {name: HOME[name] for name in ARM}
        goal["panda_joint1"] += by
        return FollowJointTrajectory.Goal(trajectory=smooth(goal, seconds))

    def grip(kind: Any, position: float) -> Any:
        goal = kind.Goal()
        goal.command.position = position if kind is GripperCommand else [position]
        return goal

    def move(by: float) -> MoveGroup.Goal:
        goal = MoveGroup.Goal(request=request())
        goal.request.goal_constraints = [
            at({**{name: HOME[name] for name in ARM}, "panda_joint1": HOME["panda_joint1"] + by})
        ]
        return goal

    def execute(seconds: float, by: float) -> ExecuteTrajectory.Goal:
        goal = ExecuteTrajectory.Goal()
        goal.trajectory.joint_trajectory = follow(seconds, by).trajectory
        return goal

    def sequence(by: float) -> MoveGroupSequence.Goal:
        goal = MoveGroupSequence.Goal()
        goal.request.items = [MotionSequenceItem(req=move(by).request)] if by else []
        return goal

    def there_and_back(k: int) -> float:
        return 0.02 * (k % 2 + 1)

    controller = "/joint_trajectory_controller/follow_joint_trajectory"
    return {
        controller: (
            FollowJointTrajectory,
            lambda k: follow(0.001, 0.0),
            lambda k: follow(2.0, there_and_back(k)),
        ),
        **{
            f"/{name}": (kind, lambda k, t=kind: grip(t, 0.04), lambda k, t=kind: grip(t, 0.02))
            for kind, name in (
                (GripperCommand, "gripper_action_controller/gripper_cmd"),
                (GripperCommand, "gripper_action_controller/gripper_command"),
                (ParallelGripperCommand, "parallel_gripper_action_controller/gripper_cmd"),
            )
        },
        "/execute_trajectory": (
            ExecuteTrajectory,
            lambda k: execute(0.001, 0.0),
            lambda k: execute(2.0, there_and_back(k)),
        ),
        "/move_action": (MoveGroup, lambda k: move(0.0), lambda k: move(there_and_back(k))),
        "/sequence_move_group": (
            MoveGroupSequence,
            lambda k: sequence(0.0),
            lambda k: sequence(there_and_back(k)),
        ),
    }


@pytest.fixture(scope="module")
def arm(module_suite, module_client):
    module_suite.node(
        "articulation_controller", robot="franka", use_sim_time=True, update_rate=100.0
    )
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node("rrt_planner", robot="franka", use_sim_time=True)
    made = JointClient(module_client)
    made.wait_for()
    Planner(made).wait()
    made.go_home()
    yield made
    made.close()


@pytest.mark.parametrize("name", list(arm_goals()))
def test_of_an_arm(arm, name):
    count(arm.client, name, arm_goals()[name])


def test_of_tasks(module_suite, module_client, arm):
    module_suite.node("task_server", robot="franka", use_sim_time=True)
    module_client.wait_for_diagnosis("/task_server", "", within=60.0)
    for kind, name in (
        (Pickup, "pickup"), (Place, "place"), (DummyBehavior, "execute_task"),
    ):  # fmt: skip

        def goal(_k: int, kind: Any = kind) -> Any:
            made = kind.Goal()
            if kind is DummyBehavior:
                made.command.data = "dance"
            return made

        count(module_client, f"/task_server/{name}", (kind, goal, goal))

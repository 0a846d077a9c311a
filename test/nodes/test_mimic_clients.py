# SPDX-License-Identifier: Apache-2.0
"""Clients with a robot description of their own name mimic joints, too, over ROS."""

from types import SimpleNamespace
from typing import Any

import pytest
from action_calls import ActionCalls
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory, ParallelGripperCommand
from moveit_msgs.action import ExecuteTrajectory, MoveGroup
from moveit_msgs.msg import Constraints, JointConstraint, MoveItErrorCodes
from moveit_msgs.srv import GetPositionFK
from ros_client import BEST_EFFORT
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.control.gripper import GripperConfig

LEFT, RIGHT = "gripper_left_joint", "gripper_right_joint"
CONTROLLER = "/joint_trajectory_controller"
PARALLEL = "parallel_gripper_action_controller/gripper_cmd"
Codes = MoveItErrorCodes


@pytest.fixture(scope="module")
def gripper(module_suite, module_client):
    """An arm whose second finger mimics the first."""
    module_suite.bring_up("open_manipulator_x", backend="mock")
    states = module_client.listen(JointState, "/joint_states", BEST_EFFORT)
    module_client.wait(lambda: bool(states), "joint states")
    actions = {root: ActionCalls(module_client, root) for root in ("", CONTROLLER)}
    yield SimpleNamespace(client=module_client, states=states, actions=actions)
    for calls in actions.values():
        calls.close()


def fingers(gripper: Any) -> dict[str, float]:
    gripper.states.clear()
    gripper.client.wait(lambda: bool(gripper.states), "a joint state")
    message = gripper.states.newest
    return dict(zip(message.name, message.position, strict=True))


def run(gripper: Any, root: str, kind: Any, name: str, goal: Any) -> Any:
    return gripper.actions[root].send(kind, name, goal).result()[1]


def goal_of(**joints: float) -> MoveGroup.Goal:
    goal = MoveGroup.Goal()
    goal.request.group_name = "gripper"
    goal.request.start_state.is_diff = True
    goal.request.allowed_planning_time = 5.0
    goal.request.goal_constraints = [
        Constraints(
            joint_constraints=[
                JointConstraint(
                    joint_name=name, position=value, tolerance_above=1e-4, tolerance_below=1e-4
                )
                for name, value in joints.items()
            ]
        )
    ]
    return goal


def trajectory(*rows: list[float]) -> JointTrajectory:
    points = [
        JointTrajectoryPoint(positions=row, time_from_start=Duration(sec=i))
        for i, row in enumerate(rows)
    ]
    return JointTrajectory(joint_names=[LEFT, RIGHT], points=points)


def test_planner_goals_of_both_fingers(gripper):
    done = run(gripper, "", MoveGroup, "move_action", goal_of(**{LEFT: 0.01, RIGHT: 0.01}))
    assert done.error_code.val == Codes.SUCCESS, done.error_code.message
    now = fingers(gripper)
    assert now[LEFT] == pytest.approx(0.01, abs=1e-3)
    assert now[RIGHT] == pytest.approx(now[LEFT])
    refused = run(gripper, "", MoveGroup, "move_action", goal_of(**{LEFT: 0.0, RIGHT: 0.015}))
    assert refused.error_code.val == Codes.INVALID_GOAL_CONSTRAINTS
    assert "0.015" in refused.error_code.message
    assert fingers(gripper) == pytest.approx(now, abs=2e-3)


@pytest.mark.long
def test_trajectories_of_both_fingers(gripper):
    start = fingers(gripper)[LEFT]
    goal = FollowJointTrajectory.Goal(trajectory=trajectory([start, start], [0.005, 0.005]))
    done = run(gripper, CONTROLLER, FollowJointTrajectory, "follow_joint_trajectory", goal)
    assert done.error_code == FollowJointTrajectory.Result.SUCCESSFUL, done.error_string
    assert fingers(gripper)[RIGHT] == pytest.approx(0.005, abs=1e-3)
    before = fingers(gripper)
    goal = ExecuteTrajectory.Goal()
    goal.trajectory.joint_trajectory = trajectory([0.005, 0.005], [0.0, 0.012])
    refused = run(gripper, "", ExecuteTrajectory, "execute_trajectory", goal)
    assert refused.error_code.val == Codes.INVALID_MOTION_PLAN
    assert "0.012" in refused.error_code.message
    assert fingers(gripper) == pytest.approx(before, abs=2e-3)


def test_gripper_commands_of_both_fingers(gripper):
    goal = ParallelGripperCommand.Goal()
    goal.command.name, goal.command.position = [LEFT, RIGHT], [0.012, 0.012]
    done = run(gripper, "", ParallelGripperCommand, PARALLEL, goal)
    assert done.reached_goal
    assert fingers(gripper)[RIGHT] == pytest.approx(0.012, abs=GripperConfig.goal_tolerance + 1e-4)
    before = fingers(gripper)
    goal.command.position = [0.012, 0.0]
    refused = run(gripper, "", ParallelGripperCommand, PARALLEL, goal)
    assert not refused.reached_goal
    assert fingers(gripper) == pytest.approx(before, abs=2e-3)


def test_states_with_both_fingers(gripper):
    request = GetPositionFK.Request(fk_link_names=["end_effector_link"])
    request.robot_state.joint_state.name = [LEFT, RIGHT]
    request.robot_state.joint_state.position = [0.01, 0.01]
    answer = gripper.client.call(GetPositionFK, "/compute_fk", request)
    assert answer.error_code.val == Codes.SUCCESS
    request.robot_state.joint_state.position = [0.0, 0.015]
    answer = gripper.client.call(GetPositionFK, "/compute_fk", request)
    assert answer.error_code.val == Codes.INVALID_ROBOT_STATE
    assert "0.015" in answer.error_code.message

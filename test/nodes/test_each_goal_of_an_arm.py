# SPDX-License-Identifier: Apache-2.0
"""Each goal of each action of an arm gets exactly one result, however it ends."""

from typing import Any

import pytest
from control_msgs.action import FollowJointTrajectory, GripperCommand, ParallelGripperCommand
from joint_client import ABORTED, ARM, CANCELED, HOME, SUCCEEDED, smooth
from moveit_msgs.action import ExecuteTrajectory, MoveGroup, MoveGroupSequence, Pickup, Place
from moveit_msgs.msg import CollisionObject, MotionPlanRequest, MotionSequenceItem, PlaceLocation
from nav2_msgs.action import DummyBehavior
from one_result import Goals, count
from planner_client import at, planning_cell
from task_client import TaskClient

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import world_object
from motion_nodes.ros import qos
from motion_nodes.ros.scene.collision_objects import object_message

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
    for planner in planning_cell(module_suite, module_client):
        yield planner.arm


@pytest.mark.parametrize("name", list(arm_goals()))
def test_of_an_arm(arm, name):
    count(arm.client, name, arm_goals()[name])


@pytest.fixture(scope="module")
def tasks(module_suite, module_client, arm):
    """The task server of the arm, with a cube within reach."""
    module_suite.node("task_server", robot="franka", use_sim_time=True, check_grasp=False)
    module_client.wait_for_diagnosis("/task_server", "", within=60.0)
    made = TaskClient(module_client)
    objects = module_client.publisher(CollisionObject, "/collision_object", qos.REQUESTS)
    cube = world_object(
        "cube", Box((0.04, 0.04, 0.04)), from_xyz_rpy((0.45, 0.15, 0.02), (0.0, 0.0, 0.0))
    )
    module_client.repeat(
        lambda: objects.publish(object_message(cube, "panda_link0")),
        lambda: "cube" in made.status.get("objects", ()), "the cube", rate=0.5,
    )  # fmt: skip
    yield made
    made.actions.close()


def task_goals() -> dict[str, Goals]:
    """Return type, goals that are reached, and goals that move, of each action of tasks."""

    def pick(*, plan_only: bool) -> Pickup.Goal:
        goal = Pickup.Goal(target_name="cube")
        goal.planning_options.plan_only = plan_only
        return goal

    def execute(text: str) -> DummyBehavior.Goal:
        goal = DummyBehavior.Goal()
        goal.command.data = text
        return goal

    def place(*, plan_only: bool) -> Place.Goal:
        goal = Place.Goal(attached_object_name="cube")
        goal.place_locations = [PlaceLocation()]
        goal.place_locations[0].place_pose.header.frame_id = "panda_link0"
        goal.place_locations[0].place_pose.pose.position.x = 0.45
        goal.place_locations[0].place_pose.pose.position.y = -0.15
        goal.place_locations[0].place_pose.pose.orientation.w = 1.0
        goal.planning_options.plan_only = plan_only
        return goal

    return {
        "execute_task": (
            DummyBehavior, lambda k: execute("go home"), lambda k: execute("pick up the cube")
        ),
        "pickup": (Pickup, lambda k: pick(plan_only=True), lambda k: pick(plan_only=False)),
        "place": (Place, lambda k: place(plan_only=True), lambda k: place(plan_only=False)),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(task_goals()))
def test_of_tasks(arm, tasks, name):
    if name == "place":
        tasks.ask("pick up the cube", "succeeded")
    found = count(arm.client, f"/task_server/{name}", task_goals()[name])
    assert set(found["reached"]) == {SUCCEEDED}
    assert SUCCEEDED in found["reached, preempting"]
    assert set(found["canceled at once"]) == {CANCELED}
    assert CANCELED in found["preempted"]
    assert set(found["preempted"]) <= {CANCELED, ABORTED}, "one task at a time"

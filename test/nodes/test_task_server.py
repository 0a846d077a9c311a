# SPDX-License-Identifier: Apache-2.0
"""The task server over DDS: a sentence moves an object of the planning scene onto another one."""

import sys
from math import nan
from typing import Any

import anyio
import numpy as np
import pytest
from action_msgs.msg import GoalStatus, GoalStatusArray
from joint_client import ABORTED, CANCELED, CONTROLLER, SUCCEEDED, Call, JointClient
from mcp import ClientSession, StdioServerParameters, stdio_client
from moveit_msgs.action import Pickup, Place
from moveit_msgs.msg import (
    CollisionObject,
    Constraints,
    Grasp,
    JointConstraint,
    PlaceLocation,
    PlanningSceneComponents,
)
from moveit_msgs.msg import MoveItErrorCodes as Codes
from moveit_msgs.srv import GetPlanningScene
from nav2_msgs.action import DummyBehavior
from own_domain import ENVIRONMENT
from ros_client import LATCHED, RosClient
from std_msgs.msg import Empty, String
from std_srvs.srv import Trigger
from task_client import SERVER, TaskClient

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import world_object
from motion_nodes.extras.agent_tools.function_table import FUNCTIONS
from motion_nodes.extras.tasks.task_codes import TaskCode
from motion_nodes.ros import qos
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.scene.collision_objects import object_message


@pytest.fixture(scope="module")
def tasks(module_suite, module_client):
    without = ("rmpflow_policy", "trajectory_generator", "controller_manager", "ik_service")
    module_suite.bring_up("franka", backend="mock", tasks=True, without=without, rate=100.0)
    # Its configuration compiles the inverse kinematics.
    module_client.wait_for_diagnosis(SERVER, "", within=90.0)
    made = TaskClient(module_client)
    put(
        made,
        *(
            world_object(name, Box(size), from_xyz_rpy(at, (0.0, 0.0, 0.0)))
            for name, size, at in (
                ("red_cube", (0.04, 0.04, 0.04), (0.45, 0.15, 0.02)),
                ("shelf", (0.25, 0.25, 0.2), (0.5, -0.25, 0.1)),
                ("beam", (0.2, 0.2, 0.05), (0.6, 0.4, 0.025)),
            )
        ),
    )
    yield made
    made.actions.close()


def put(tasks: TaskClient, *items: Any) -> None:
    """Add objects to the scene until the server knows them: the first may precede discovery."""
    objects = tasks.client.publisher(CollisionObject, "/collision_object", qos.REQUESTS)

    def send() -> None:
        for item in items:
            objects.publish(object_message(item, "panda_link0"))

    def known() -> bool:
        return {item.name for item in items} <= set(tasks.status.get("objects", ()))

    tasks.client.repeat(send, known, "the objects", rate=0.5)


def placed(frame: str, x: float = 0.5) -> PlaceLocation:
    location = PlaceLocation()
    location.place_pose.header.frame_id = frame
    location.place_pose.pose.position.x = x
    location.place_pose.pose.orientation.w = 1.0
    return location


def cube_position(client: RosClient) -> np.ndarray:
    request = GetPlanningScene.Request()
    request.components.components = PlanningSceneComponents.WORLD_OBJECT_GEOMETRY
    scene = client.call(GetPlanningScene, "/get_planning_scene", request).scene
    cube = next(o for o in scene.world.collision_objects if o.id == "red_cube")
    return np.array([cube.pose.position.x, cube.pose.position.y, cube.pose.position.z])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("dance", "not_understood"), ("pick up the banana", "unknown_object"),
        ("pick up the green cube", "unknown_object"),
        ("put the red cube on the moon", "not_understood"),
        ("[", "invalid_plan"), ('[{"skill": "fly", "args": {}}]', "invalid_plan"),
        ('[{"skill": "place", "args": {"object": "red_cube", "location": "shelf"}}]', "not_held"),
        ('[{"skill": "place", "args": {"object": "red_cube", "location": "moon"}}]',
         "unknown_location"),
        ("go to the shelf", "unsupported_skill"), ("x" * 5000, "not_understood"),
    ],
)  # fmt: skip
def test_tasks_that_are_refused(tasks, text, code):
    status = tasks.ask(text, "refused")
    assert status["code"] == code
    assert status["reason"]
    assert status["plan"] == []


def test_too_wide_object_fails_with_its_reason_after_bounded_plans(tasks):
    status = tasks.ask("pick up the beam", "failed")
    assert status["code"] == "does_not_fit"
    assert "fingers" in status["reason"]
    assert sum("begins" in event for event in status["events"]) <= 6


@pytest.mark.long
def test_sentence_puts_the_cube_on_the_shelf(tasks):
    before = cube_position(tasks.client)
    status = tasks.ask("把红色方块放到 shelf 上", "succeeded")
    assert [step["skill"] for step in status["plan"]] == ["pick", "place"]
    after = cube_position(tasks.client)
    assert np.linalg.norm(after - before) > 0.2
    assert after[2] == pytest.approx(0.22, abs=0.01)
    assert np.abs(after[:2] - [0.5, -0.25]).max() < 0.13
    assert status["held"] is None


@pytest.mark.long
def test_cancel_ends_the_task_with_the_arm_at_rest(tasks):
    arm = JointClient(tasks.client)
    motions = tasks.client.listen(
        GoalStatusArray, f"{CONTROLLER}/follow_joint_trajectory/_action/status", LATCHED
    )

    def motion() -> int:
        return motions.newest.status_list[-1].status if motions else GoalStatus.STATUS_UNKNOWN

    tasks.ask("go home", "succeeded")  # far from the cube
    tasks.heard.clear()
    tasks.commands.publish(String(data="pick up the red cube"))
    tasks.until(lambda s: s["state"] == "running" and s["phase"] == "approach")
    tasks.client.wait(lambda: motion() == GoalStatus.STATUS_EXECUTING, "a motion of the arm")
    assert tasks.client.call(Trigger, f"{SERVER}/cancel").success
    tasks.until(lambda s: s["state"] == "canceled")
    tasks.client.wait(lambda: motion() in (CANCELED, ABORTED), "the end of its motion")
    arm.rest()
    assert motion() in (CANCELED, ABORTED)
    assert tasks.status["state"] == "canceled"


def test_pick_and_place_are_actions_with_phases(tasks):
    goal = Pickup.Goal(target_name="red_cube", group_name="panda_arm")
    call = tasks.actions.send(Pickup, "pickup", goal)
    status, result = call.result(90.0)
    assert (status, result.error_code.val) == (SUCCEEDED, Codes.SUCCESS), result.error_code
    phases = {message.feedback.state for message in call.feedback}
    assert {"pick(red_cube): approach", "pick(red_cube): lift"} <= phases
    tasks.until(lambda s: s["held"] == "red_cube")

    location = PlaceLocation()
    location.place_pose.header.frame_id = "panda_link0"
    location.place_pose.pose = pose_message(from_xyz_rpy((0.45, 0.1, 0.02)))
    goal = Place.Goal(attached_object_name="red_cube", place_locations=[location])
    status, result = tasks.actions.send(Place, "place", goal).result(90.0)
    assert (status, result.error_code.val) == (SUCCEEDED, Codes.SUCCESS), result.error_code
    assert np.abs(cube_position(tasks.client) - [0.45, 0.1, 0.02]).max() < 0.01


@pytest.mark.long
def test_tasks_in_words_are_an_action_and_one_runs_at_a_time(tasks):
    def execute(text: str) -> Call:
        goal = DummyBehavior.Goal(command=String(data=text))
        return tasks.actions.send(DummyBehavior, "execute_task", goal)

    call = execute("pick up the red cube")
    assert call.accepted()
    tasks.until(lambda s: s["state"] == "running" and s["phase"] == "approach")
    status, result = execute("go home").result()
    assert (status, result.error_code) == (ABORTED, TaskCode.BUSY)
    assert "under way" in result.error_msg
    assert call.cancel()
    status, result = call.result()
    assert (status, result.error_code) == (CANCELED, TaskCode.CANCELED)
    assert result.error_msg
    assert execute("go home").result(60.0)[1].error_code == 0


@pytest.mark.parametrize(
    ("name", "goal", "code"),
    [
        ("pickup", Pickup.Goal(target_name="banana"), Codes.INVALID_OBJECT_NAME),
        ("pickup", Pickup.Goal(), Codes.INVALID_OBJECT_NAME),
        ("pickup", Pickup.Goal(target_name="red_cube", group_name="leg"), Codes.INVALID_GROUP_NAME),
        ("pickup", Pickup.Goal(target_name="red_cube", possible_grasps=[Grasp()]),
         Codes.INVALID_GOAL_CONSTRAINTS),
        ("pickup", Pickup.Goal(target_name="red_cube", path_constraints=Constraints(
            joint_constraints=[JointConstraint()])), Codes.INVALID_GOAL_CONSTRAINTS),
        ("place", Place.Goal(attached_object_name="red_cube", support_surface_name="shelf"),
         Codes.FAILURE),
        ("place", Place.Goal(attached_object_name="red_cube", place_locations=[placed("moon")]),
         Codes.FRAME_TRANSFORM_FAILURE),
        ("place", Place.Goal(attached_object_name="red_cube", place_locations=[placed("", nan)]),
         Codes.INVALID_GOAL_CONSTRAINTS),
        ("place", Place.Goal(attached_object_name="red_cube", place_locations=2 * [placed("")]),
         Codes.INVALID_GOAL_CONSTRAINTS),
    ],
)  # fmt: skip
def test_goals_that_are_refused(tasks, name, goal, code):
    status, result = tasks.actions.send(Pickup if name == "pickup" else Place, name, goal).result()
    assert (status, result.error_code.val) == (ABORTED, code), result.error_code
    assert result.error_code.message
    assert tasks.status["state"] != "running"


def test_a_refused_order_keeps_the_plan_that_waits(tasks):
    client = tasks.client
    assert client.set_parameters(SERVER, confirm=True).successful
    try:
        waiting = tasks.ask("go home", "waiting for ~/confirm")
        for text in ("dance", "pick up the banana", "["):
            tasks.ask(text, "refused")
            tasks.until(lambda s: s["number"] == waiting["number"])
        goal = Pickup.Goal(target_name="banana")
        status, result = tasks.actions.send(Pickup, "pickup", goal).result()
        assert (status, result.error_code.val) == (ABORTED, Codes.INVALID_OBJECT_NAME)
        tasks.until(lambda s: len(s["events"]) == 4 and s["number"] == waiting["number"])
        assert "banana" in tasks.status["events"][-1]
        assert tasks.status["plan"] == waiting["plan"]
        assert client.call(Trigger, f"{SERVER}/confirm").success
        tasks.until(lambda s: s["state"] == "succeeded")
    finally:
        assert client.set_parameters(SERVER, confirm=False).successful


@pytest.mark.long
def test_a_language_model_drives_the_suite_over_mcp(tasks):
    """A real MCP client over stdin and stdout, as applications start the server."""
    anyio.run(_session_of_a_model, tasks)


async def _session_of_a_model(tasks: TaskClient) -> None:
    command = [sys.executable, "-m", "motion_nodes.cli.main", "mcp", "franka"]
    server = StdioServerParameters(command=command[0], args=command[1:], env=ENVIRONMENT)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        assert {tool.name for tool in (await session.list_tools()).tools} == set(FUNCTIONS)

        async def call(name: str, **given: Any) -> dict[str, Any]:
            result = await session.call_tool(name, given)
            assert not result.is_error, result.content[0].text
            return result.structured_content

        async def move(name: str, **given: Any) -> dict[str, Any]:
            token = (await call(name, **given))["token"]
            return await call(name, **given, dry_run=False, token=token)

        async def refusal(name: str, **given: Any) -> str:
            result = await session.call_tool(name, given)
            assert result.is_error, result.structured_content
            return str(result.content[0].text)

        seen = {item["name"] for item in (await call("planning_scene"))["objects"]}
        assert {"red_cube", "shelf", "beam"} <= seen
        goal = {"position": [0.4, 0.1, 0.5], "rpy": [3.1416, 0.0, 0.0]}
        start = (await call("robot_state"))["groups"]["arm"]
        dry = await call("move_to_pose", **goal)
        assert (await call("robot_state"))["groups"]["arm"] == start, "a dry run moves nothing"
        await call("move_to_pose", **goal, dry_run=False, token=dry["token"])
        reached = (await call("robot_state"))["groups"]["arm"]
        assert reached["tip"]["position"] == pytest.approx(goal["position"], abs=5e-3)
        assert reached["joints"] == pytest.approx(dry["final_joints"], abs=5e-3)
        assert await refusal("move_to_pose", position=[3.0, 0.0, 0.5])
        unknown = await session.call_tool("run_task", {"task": "pick up the banana"})
        assert "banana" in unknown.content[0].text
        assert unknown.is_error
        assert unknown.structured_content["code"] == "unknown_object"

        before = cube_position(tasks.client)
        plan = (await call("run_task", task="put the red cube on the shelf"))["plan"]
        assert [step["skill"] for step in plan] == ["pick", "place"]
        assert cube_position(tasks.client) == pytest.approx(before, abs=2e-3), "a dry run"
        await move("run_task", task="put the red cube on the shelf")
        assert cube_position(tasks.client)[2] == pytest.approx(0.22, abs=0.01)

        # A stop interrupts a motion at any time, and only its sender may end it.
        away = {"joints": {"panda_joint1": 2.0}, "velocity": 0.1}
        token = (await call("move_to_joints", **away))["token"]
        reasons: list[str] = []

        async def interrupted() -> None:
            reasons.append(await refusal("move_to_joints", **away, dry_run=False, token=token))

        async with anyio.create_task_group() as motions:
            motions.start_soon(interrupted)
            while not (await call("robot_state"))["under_way"]:
                await anyio.sleep(0.05)
            assert any("at rest" in line for line in (await call("stop"))["stopped"])
        assert "stopped by motion mcp" in reasons[0]
        assert (await call("robot_state"))["stopped"]
        await call("resume")
        stops = tasks.client.publisher(Empty, "/stop", qos.REQUESTS)
        tasks.client.wait(stops.get_subscription_count, "receivers of the stop")
        while not (await call("robot_state"))["stopped"]:
            stops.publish(Empty())  # the first may precede discovery
            await anyio.sleep(0.1)
        token = (await call("grip", opening=0.5))["token"]
        assert "stopped" in await refusal("grip", opening=0.5, dry_run=False, token=token)
        assert "person" in await refusal("resume")
        tasks.client.call(Trigger, "/joint_trajectory_controller/resume")

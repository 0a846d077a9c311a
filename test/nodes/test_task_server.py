# SPDX-License-Identifier: Apache-2.0
"""The task server over DDS: a sentence moves an object of the planning scene onto another one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from moveit_msgs.msg import CollisionObject, PlanningSceneComponents
from moveit_msgs.srv import GetPlanningScene
from ros_processes import RosClient, Suite
from std_msgs.msg import String
from std_srvs.srv import Trigger
from task_client import SERVER, TaskClient

from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box
from motion_nodes.ros import qos
from motion_nodes.ros.scene.collision_objects import object_message
from motion_nodes.scene.scene import world_object


@pytest.fixture(scope="module")
def tasks(module_suite: Suite, module_client: RosClient) -> Iterator[TaskClient]:
    without = ("rmpflow_policy", "trajectory_generator", "controller_manager", "ik_service")
    module_suite.bring_up("franka", backend="mock", tasks=True, without=without)
    # Its configuration compiles inverse kinematics with exact checks.
    module_client.wait_for_diagnosis(SERVER, "", within=90.0)
    made = TaskClient(module_client)
    objects = module_client.publisher(CollisionObject, "/collision_object", qos.REQUESTS)
    for name, size, at in (
        ("red_cube", (0.04, 0.04, 0.04), (0.45, 0.15, 0.02)),
        ("shelf", (0.25, 0.25, 0.2), (0.5, -0.25, 0.1)),
        ("beam", (0.2, 0.2, 0.05), (0.6, 0.4, 0.025)),
    ):
        item = world_object(name, Box(size), from_xyz_rpy(at, (0.0, 0.0, 0.0)))
        objects.publish(object_message(item, "panda_link0"))
    made.until(lambda s: {"red_cube", "shelf", "beam"} <= set(s["objects"]))
    return made


def cube_position(client: RosClient) -> np.ndarray:
    request = GetPlanningScene.Request()
    request.components.components = PlanningSceneComponents.WORLD_OBJECT_GEOMETRY
    scene = client.call(GetPlanningScene, "/get_planning_scene", request).scene
    cube = next(o for o in scene.world.collision_objects if o.id == "red_cube")
    return np.array([cube.pose.position.x, cube.pose.position.y, cube.pose.position.z])


@pytest.mark.parametrize(
    "text",
    [
        "dance", "pick up the banana", "[", '[{"skill": "fly", "args": {}}]',
        '[{"skill": "place", "args": {"object": "red_cube", "location": "shelf"}}]',
        "go to the shelf", "x" * 5000,
    ],
)  # fmt: skip
def test_tasks_that_are_refused(tasks: TaskClient, text: str) -> None:
    status = tasks.ask(text, "refused")
    assert status["reason"]
    assert status["plan"] == []


def test_too_wide_object_fails_with_its_reason_after_bounded_plans(tasks: TaskClient) -> None:
    status = tasks.ask("pick up the beam", "failed")
    assert "fingers" in status["reason"]
    assert sum("begins" in event for event in status["events"]) <= 6


def test_sentence_puts_the_cube_on_the_shelf(tasks: TaskClient) -> None:
    before = cube_position(tasks.client)
    status = tasks.ask("把红色方块放到 shelf 上", "succeeded")
    assert [step["skill"] for step in status["plan"]] == ["pick", "place"]
    after = cube_position(tasks.client)
    assert np.linalg.norm(after - before) > 0.2
    assert after[2] == pytest.approx(0.22, abs=0.01)
    assert np.abs(after[:2] - [0.5, -0.25]).max() < 0.13
    assert status["held"] is None


def test_a_full_place_ends_the_task_within_its_budget(tasks: TaskClient) -> None:
    objects = tasks.client.publisher(CollisionObject, "/collision_object", qos.REQUESTS)
    lid = world_object("lid", Box((0.2, 0.2, 0.02)), from_xyz_rpy((0.5, 0.4, 0.11)))
    pile = world_object("pile", Box((0.2, 0.2, 0.1)), from_xyz_rpy((0.5, 0.4, 0.05)))
    for item in (pile, lid):
        objects.publish(object_message(item, "panda_link0"))
    tasks.until(lambda s: {"lid", "pile"} <= set(s["objects"]))
    status = tasks.ask("put the red cube on the pile", "failed")
    assert "no room" in status["reason"]
    assert status["held"] == "red_cube"
    assert sum("place(red_cube, pile) begins" in event for event in status["events"]) <= 6
    assert tasks.ask("put it on the shelf", "succeeded")["held"] is None


def test_cancel_ends_the_task_with_the_arm_at_rest(tasks: TaskClient) -> None:
    tasks.heard.clear()
    tasks.commands.publish(String(data="pick up the red cube"))
    tasks.until(lambda s: s["state"] == "running" and s["phase"] == "approach")
    assert tasks.client.call(Trigger, f"{SERVER}/cancel").success
    tasks.until(lambda s: s["state"] == "canceled")

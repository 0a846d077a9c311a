# SPDX-License-Identifier: Apache-2.0
"""Obstacles that appear during execution: the motion is replanned, with or without a stop."""

import numpy as np
import pytest
from joint_client import ABORTED, ARM, FRANKA, HOME, SUCCEEDED, JointClient, trajectory
from moveit_msgs.msg import CollisionObject, MoveItErrorCodes, PlanningScene
from moveit_msgs.srv import GetPlanningScene
from planner_client import Planner, box

from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, world_object

Codes = MoveItErrorCodes
LEFT = {**{name: HOME[name] for name in ARM}, "panda_joint1": -0.9}
RIGHT = LEFT | {"panda_joint1": 0.9}
POST = ((0.06, 0.06, 0.7), (0.36, 0.0, 0.35))
"""Size and place of a post in the way from LEFT to RIGHT."""
CLEARANCE = 0.001
"""Min distance of the robot from the post, by spheres [m]; 5 mm are preferred."""
SLOW = 0.15
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def arm(module_suite, module_client):
    """A robot without physics, its controller and the planner."""
    module_suite.node("mock_sim", robots=["franka"])
    module_suite.node("articulation_controller", robot="franka", use_sim_time=True)
    # Long enough for planning under load.
    module_suite.node("rrt_planner", robot="franka", use_sim_time=True, replan_lead=0.6)
    made = JointClient(module_client)
    made.wait_for()
    yield made
    made.close()


@pytest.fixture(scope="module")
def objects(arm):
    return arm.client.publisher(CollisionObject, "/collision_object")


@pytest.fixture
def planner(arm, objects):
    """The robot is at LEFT, the world is empty."""
    made = Planner(arm)
    made.wait()
    objects.publish(CollisionObject(operation=CollisionObject.REMOVE))
    arm.client.wait(lambda: not scene(arm.client).world.collision_objects, "an empty world")
    status, result = made.move(LEFT).result(within=30.0)
    assert status == SUCCEEDED, result.error_code.message
    arm.rest()
    arm.clear()
    return made


def scene(client):
    return client.call(GetPlanningScene, "/get_planning_scene").scene


def post_in_the_way() -> CollisionChecker:
    size, (x, y, z) = POST
    X = np.eye(4)
    X[:3, 3] = (x, y, z)
    scene = Scene(objects={"post": world_object("post", Box(size), X)})
    checker = CollisionChecker(FRANKA, scene=scene)
    checker.set_sphere_margin(CLEARANCE)
    return checker


def too_close(arm: JointClient) -> list[list[str]]:
    """Return contacts in each recorded joint state that is too close to the post."""
    checker = post_in_the_way()
    found = []
    for message in arm.states.messages:
        joints = dict(zip(message.name, message.position, strict=True))
        q = np.array([joints[name] for name in checker.joint_names])
        if not checker.is_free(q):
            found.append(checker.problems(q))
    return found


def on_the_way(planner, **options):
    """Start a motion from LEFT to RIGHT, and return once the robot moves."""
    fields = {"max_velocity_scaling_factor": SLOW, "allowed_planning_time": 5.0}
    call = planner.move(RIGHT, options=options, **fields)
    assert call.accepted()
    planner.arm.moving(0.05)
    return call


@pytest.mark.long
def test_the_robot_goes_around_what_comes_in_its_way(planner, objects):
    call = on_the_way(planner, replan=True)
    objects.publish(box("post", *POST))
    status, result = call.result(within=60.0)
    assert status == SUCCEEDED, result.error_code.message
    planner.arm.arrives(RIGHT)
    states = [message.feedback.state for message in call.feedback]
    assert any(s.startswith("REPLANNING: ") and "post" in s for s in states)
    assert states.count("MONITOR") >= 2
    assert not too_close(planner.arm)


@pytest.mark.long
def test_it_does_not_stop_where_there_is_time_to_replan(planner, objects):
    call = on_the_way(planner, replan=True)
    planner.arm.commands.clear()
    objects.publish(box("post", *POST))
    status, result = call.result(within=60.0)
    assert status == SUCCEEDED, result.error_code.message
    planner.arm.arrives(RIGHT)
    states = [message.feedback.state for message in call.feedback]
    assert any("post" in s and "without a stop" in s for s in states), states
    assert not too_close(planner.arm)
    assert not [s for s in states if s.startswith("REPLANNING") and "without" not in s]
    speeds, accelerations = stream(planner.arm)
    # Commands from before the motion may still have been queued when the list was cleared.
    begin = int(np.argmax(speeds > 0.05))
    assert speeds[begin : np.argmax(speeds) + 1].min() > 0.05
    assert (accelerations <= 1.05 * FRANKA.limits.select(ARM).acceleration).all()


def stream(arm: JointClient) -> tuple[np.ndarray, np.ndarray]:
    """Max speed of each command, shape (k,), and max acceleration of each joint, shape (n,)."""
    heard = [m for m in arm.commands.messages if set(ARM) <= set(m.name)]
    times = np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in heard])
    columns = [heard[0].name.index(name) for name in ARM]
    q = np.array([m.position for m in heard])[:, columns]
    steps = np.diff(times)[:, None]
    v = np.diff(q, axis=0) / steps
    # Mean velocities are those of the middles of their steps, which differ if commands were lost.
    a = np.diff(v, axis=0) / (0.5 * (steps[1:] + steps[:-1]))
    return np.abs(v).max(axis=1), np.abs(a).max(axis=0)


def test_without_replanning_it_stops_and_says_why(planner, objects):
    call = on_the_way(planner)
    objects.publish(box("post", *POST))
    status, result = call.result()
    assert status == ABORTED
    assert result.error_code.val == Codes.MOTION_PLAN_INVALIDATED_BY_ENVIRONMENT_CHANGE
    assert "post" in result.error_code.message
    planner.arm.rest()
    assert not too_close(planner.arm)
    assert result.executed_trajectory.joint_trajectory.points


def test_a_trajectory_of_a_client_stops_before_what_comes(planner, objects):
    answer = planner.plan(RIGHT, max_velocity_scaling_factor=SLOW)
    assert answer.error_code.val == Codes.SUCCESS
    call = planner.execute(answer.trajectory.joint_trajectory)
    assert call.accepted()
    planner.arm.moving(0.05)
    objects.publish(box("post", *POST))
    status, result = call.result()
    assert status == ABORTED
    assert result.error_code.val == Codes.MOTION_PLAN_INVALIDATED_BY_ENVIRONMENT_CHANGE
    planner.arm.rest()
    assert not too_close(planner.arm)


@pytest.mark.long
def test_a_plan_is_made_again_if_the_robot_left_its_start(planner):
    diff = PlanningScene(is_diff=True)
    diff.robot_state.is_diff = True
    diff.world.collision_objects = [box("post", *POST)]
    # RRTstar always uses a part of its planning time.
    fields = {"planner_id": "RRTstar", "allowed_planning_time": 4.0}
    call = planner.move(RIGHT, options={"planning_scene_diff": diff}, **fields)
    assert call.accepted()
    planner.client.wait(lambda: call.feedback, "PLANNING")
    wrist = LEFT["panda_joint7"] + 0.1
    aside = trajectory([*LEFT], [[*(LEFT | {"panda_joint7": wrist}).values()]], [0.3])
    status, answer = planner.arm.follow(aside).result()
    assert status == SUCCEEDED, answer.error_string
    status, result = call.result(within=60.0)
    assert status == SUCCEEDED, result.error_code.message
    planner.arm.arrives(RIGHT)
    planned = result.planned_trajectory.joint_trajectory
    start = dict(zip(planned.joint_names, planned.points[0].positions, strict=True))
    assert start["panda_joint7"] == pytest.approx(wrist, abs=0.02)

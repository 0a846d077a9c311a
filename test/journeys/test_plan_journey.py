# SPDX-License-Identifier: Apache-2.0
"""Journey D: a Franka in MuJoCo moves around a box, with requests as of MoveIt clients."""

import math
import time
from typing import Any

import numpy as np
import pytest
from action_msgs.msg import GoalStatusArray
from joint_client import ABORTED, ARM, FRANKA, HOME, SUCCEEDED, JointClient
from moveit_msgs.msg import CollisionObject, MoveItErrorCodes
from planner_client import Planner, as_pymoveit2_asks, box
from ros_client import BEST_EFFORT, RELIABLE, Heard
from scene.random_scenes import coal_distance
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.robot_spheres import link_parts

Codes = MoveItErrorCodes
TIP = FRANKA.group("arm").tip
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
WALL = ((0.3, 0.04, 0.5), (0.45, 0.0, 0.25))
"""Size and place of a wall between the two sides."""
SIDE = {**{name: HOME[name] for name in ARM}, "panda_joint1": -0.9}
OTHER_SIDE = SIDE | {"panda_joint1": 0.9}
POST = ((0.06, 0.06, 0.7), (0.36, 0.0, 0.35))
"""Size and place of a post in the way between these sides."""
OFF = 1e-3
"""[m] The tool's distance from its goal when the arm rests."""
CLEARANCE = 0.02
DOWN = Rotation.from_euler("x", math.pi)
LEFT = (0.3, 0.3, 0.3)
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def arm(module_suite, module_client):
    module_suite.bring_up("franka", rate=100.0)
    made = JointClient(module_client)
    made.wait_for()
    Planner(made).wait()
    # The robot's spheres approximate its geometry, not to the millimetre.
    assert module_client.set_parameters("/move_group", clearance=CLEARANCE).successful
    yield made
    made.close()


@pytest.fixture(scope="module")
def objects(arm):
    return arm.client.publisher(CollisionObject, "/collision_object")


@pytest.fixture(scope="module")
def way(arm):
    """The joint states since the start of the test."""
    return arm.client.listen(JointState, "/joint_states", BEST_EFFORT)


@pytest.fixture
def planner(arm, objects, way):
    """The arm on the right, with a wall between it and the left."""
    made = Planner(arm)
    objects.publish(CollisionObject(operation=CollisionObject.REMOVE))
    status, result = made.move(SIDE).result(within=30.0)
    assert status == SUCCEEDED, result.error_code.message
    objects.publish(box("wall", *WALL))
    arm.rest()
    way.clear()
    return made


def tool(arm: JointClient) -> np.ndarray:
    """Return the pose of the tool by measured joints, shape (4, 4)."""
    joints = arm.rest()
    return KINEMATICS.pose([joints[name] for name in FRANKA.joint_names], TIP)


def off(arm: JointClient, place: Any) -> tuple[float, float]:
    """Return the distance of the tool from a position [m] and its tilt from pointing down [deg]."""
    X = tool(arm)
    turned = DOWN.inv() * Rotation.from_matrix(X[:3, :3])
    return float(np.linalg.norm(X[:3, 3] - place)), math.degrees(turned.magnitude())


def nearest(way: Heard, size: Any, place: Any) -> float:
    """Return the min distance of the links' true geometry from a box [m], by coal."""
    X_W = np.eye(4)
    X_W[:3, 3] = place
    least = math.inf
    assert len(way) > 50
    for message in way.messages[::4]:
        joints = dict(zip(message.name, message.position, strict=True))
        poses = KINEMATICS.frames([joints[name] for name in FRANKA.joint_names])
        for name in FRANKA.tree.links:
            if name not in KINEMATICS.frame_names:
                continue
            X_BL = poses[KINEMATICS.frame_names.index(name)]
            for part in link_parts(FRANKA, name):
                away = coal_distance(part.solid, X_BL @ part.X_OS, Box(size), X_W)
                least = min(least, away)
    return least


def test_the_tool_goes_around_a_wall_to_a_pose(planner, arm, way):
    status, result = as_pymoveit2_asks(planner, LEFT, DOWN.as_quat()).result(within=30.0)
    assert status == SUCCEEDED, result.error_code.message
    distance, angle = off(arm, LEFT)
    assert distance < OFF
    assert angle < 0.2
    assert nearest(way, *WALL) > 0.0


def test_stop_reaches_the_controller_at_once(planner, arm):
    """pymoveit2 stops by a topic, and expects ABORTED with PREEMPTED."""
    client = arm.client
    statuses = client.listen(
        GoalStatusArray, f"{arm.controller}/follow_joint_trajectory/_action/status", RELIABLE
    )
    publisher = client.publisher(String, "/trajectory_execution_event")
    call = as_pymoveit2_asks(planner, LEFT, DOWN.as_quat(), max_velocity_scaling_factor=0.05)
    assert call.accepted()
    arm.moving(0.01)
    here = arm.joints
    ended = (5, 6)
    before = len(statuses.messages)
    sent = time.monotonic()
    publisher.publish(String(data="stop"))
    client.wait(
        lambda: any(m.status_list[-1].status in ended for m in statuses.messages[before:]),
        "the controller's end of the trajectory",
    )
    print(f"stop to the controller's end: {1e3 * (time.monotonic() - sent):.1f} ms")
    status, result = call.result()
    assert (status, result.error_code.val) == (ABORTED, Codes.PREEMPTED)
    # The way to the goal takes 1.7 rad of the first joint.
    arm.rest()
    assert arm.away(here) < 0.3


@pytest.mark.long
def test_an_obstacle_that_comes_is_gone_around(planner, arm, objects, way):
    objects.publish(CollisionObject(operation=CollisionObject.REMOVE))
    client = arm.client
    call = planner.move(
        OTHER_SIDE,
        options={"replan": True},
        max_velocity_scaling_factor=0.15,
        allowed_planning_time=5.0,
    )
    assert call.accepted()
    arm.moving(0.05)
    objects.publish(box("post", *POST))
    status, result = call.result(within=60.0)
    assert status == SUCCEEDED, result.error_code.message
    assert any(m.feedback.state.startswith("REPLANNING") for m in call.feedback)
    client.spin(0.2)
    arm.arrives(OTHER_SIDE)
    assert nearest(way, *POST) > 0.0

# SPDX-License-Identifier: Apache-2.0
"""compute_ik and check_state_validity with a planning scene that another node owns."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scene_requests as requests
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import (
    AttachedCollisionObject,
    ContactInformation,
    MoveItErrorCodes,
    PlanningScene,
    RobotState,
)
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene, GetPositionIK, GetStateValidity
from ros_client import RosClient, values_of
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.ros.messages.moveit_messages import pose_message

pytestmark = pytest.mark.long

Codes = MoveItErrorCodes
FRANKA = load_robot("franka")
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
TIP = FRANKA.group("arm").tip
READY = FRANKA.named_state("ready").copy()
OWNER = [sys.executable, str(Path(__file__).parents[1] / "scene_owner.py")]
OWNER += ["--ros-args", "-p", "robot:=franka"]


def state(q: np.ndarray) -> RobotState:
    message = RobotState()
    message.joint_state.name = list(FRANKA.joint_names)
    message.joint_state.position = q.tolist()
    return message


class Services:
    """Kinematics and the scene as a client sees them."""

    def __init__(self, client: RosClient) -> None:
        self.client = client

    def ik(self, X: np.ndarray, avoid: bool = True, seed: np.ndarray = READY, **fields: Any) -> Any:
        request = GetPositionIK.Request()
        ik = request.ik_request
        ik.group_name, ik.avoid_collisions, ik.robot_state = "arm", avoid, state(seed)
        ik.pose_stamped = PoseStamped(pose=pose_message(X))
        # For loaded machines.
        ik.timeout.sec = 2
        for name, value in fields.items():
            setattr(ik, name, value)
        return self.client.call(GetPositionIK, "/compute_ik", request)

    def validity(self, q: np.ndarray, group: str = "arm", **fields: Any) -> Any:
        request = GetStateValidity.Request(robot_state=state(q), group_name=group, **fields)
        return self.client.call(GetStateValidity, "/check_state_validity", request)

    def apply(self, scene: PlanningScene) -> None:
        """Apply a scene, and wait until the kinematics node has received it."""
        request = ApplyPlanningScene.Request(scene=scene)
        answer = self.client.call(ApplyPlanningScene, "/apply_planning_scene", request)
        assert answer.success, self.process.output
        got = self.client.call(GetPlanningScene, "/get_planning_scene").scene
        objects = len(got.world.collision_objects)
        attached = len(got.robot_state.attached_collision_objects)
        self.wait_for(objects, attached)

    def wait_for(self, objects: int, attached: int = 0) -> None:
        def seen() -> bool:
            status = self.client.diagnostics("/ik_service")
            values = values_of(status) if status else {}
            told = "planning scene" in status.message if status else True
            return not told and (values.get("objects"), values.get("attached objects")) == (
                str(objects), str(attached)
            )  # fmt: skip

        self.client.wait(seen, f"{objects} objects, {attached} attached ones in the diagnostics")


@pytest.fixture(scope="module")
def services(module_suite, module_client):
    """A robot without physics and its kinematics; the scene's owner comes later."""
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node("ik_service", robot="franka")
    states = module_client.listen(JointState, "/joint_states")
    module_client.wait(lambda: states.newest, "joint states")
    module_client.wait(lambda: module_client.state("/ik_service") == "active", "the service")
    return Services(module_client)


@pytest.fixture(scope="module")
def owned(services, module_suite):
    """The same with an owner of the scene."""
    services.process = module_suite.run(OWNER)
    services.client.wait_for_diagnosis("/scene_owner", "")
    services.wait_for(0)
    client = services.client

    def get():
        return client.call(GetPlanningScene, "/get_planning_scene").scene

    client.wait(lambda: get().robot_state.joint_state.name, "an owner that knows the state")
    return services


@pytest.fixture
def scene(owned):
    """The same with nothing in the scene."""
    owned.apply(PlanningScene())
    return owned


def tip(q: np.ndarray) -> np.ndarray:
    return KINEMATICS.pose(q, TIP)


def positions(answer: Any) -> np.ndarray:
    joints = answer.solution.joint_state
    values = dict(zip(joints.name, joints.position, strict=True))
    return np.array([values[name] for name in FRANKA.joint_names])


def touching_itself() -> np.ndarray:
    """Return a state within the limits with a deep self-collision of two links of the arm."""
    checker = CollisionChecker(FRANKA)
    rng = np.random.default_rng(3)
    limits = FRANKA.limits
    while True:
        q = READY.copy()
        q[:7] = rng.uniform(limits.lower, limits.upper)[:7]
        if any(c.kind == "self" and c.depth > 0.02 for c in checker.explain(q)):
            return q


def test_without_a_scene_the_robot_itself_is_checked_and_that_is_said(services):
    answer = services.ik(tip(READY))
    assert answer.error_code.val == Codes.SUCCESS
    assert "only the robot itself was checked" in answer.error_code.message
    assert not services.ik(tip(READY), avoid=False).error_code.message
    q = touching_itself()
    told = services.validity(q)
    assert not told.valid
    checker = CollisionChecker(FRANKA)
    expected = {frozenset(c.pair) for c in checker.exact.explain(q)}
    pairs = {frozenset((c.contact_body_1, c.contact_body_2)) for c in told.contacts}
    assert pairs == expected
    assert all(c.body_type_1 == ContactInformation.ROBOT_LINK for c in told.contacts)
    assert told.contacts[0].depth > 0.02
    # From there the search has to find another way.
    answer = services.ik(tip(q), seed=q)
    if answer.error_code.val == Codes.SUCCESS:
        assert checker.is_free(positions(answer))
    else:
        assert "touches" in answer.error_code.message
    found = services.ik(tip(q), avoid=False, seed=q)
    np.testing.assert_allclose(positions(found), q, atol=1e-3)


def test_a_target_inside_an_object_is_refused_with_the_pair(scene):
    X = tip(READY)
    scene.apply(requests.diff(requests.box("crate", (0.2, 0.2, 0.2), X[:3, 3])))
    answer = scene.ik(X)
    assert answer.error_code.val == Codes.NO_IK_SOLUTION
    assert "touches crate" in answer.error_code.message, answer.error_code.message
    assert not answer.solution.joint_state.name
    assert scene.ik(X, avoid=False).error_code.val == Codes.SUCCESS
    # As soon as it has gone, and as soon as it may be touched, there is a solution.
    scene.apply(requests.diff(requests.moved("crate", (0.0, 0.0, 3.0))))
    scene.client.wait(lambda: scene.ik(X).error_code.val == Codes.SUCCESS, "a way")
    scene.apply(requests.diff(requests.moved("crate", X[:3, 3])))
    scene.client.wait(lambda: scene.ik(X).error_code.val == Codes.NO_IK_SOLUTION, "no way")
    got = scene.client.call(GetPlanningScene, "/get_planning_scene").scene
    scene.apply(requests.with_collisions_allowed(got, "crate", True))
    scene.client.wait(lambda: scene.ik(X).error_code.val == Codes.SUCCESS, "a way")


def test_what_is_carried_counts_until_it_is_put_down(scene):
    shelf_at = tip(READY)[:3, 3] + (0.0, 0.0, -0.25)
    shelf = requests.box("shelf", (0.3, 0.3, 0.02), shelf_at)
    bottle = requests.cylinder("bottle", 0.3, 0.02, (0.0, 0.0, 0.13), frame=TIP)
    scene.apply(requests.diff(shelf))
    scene.client.wait(lambda: scene.validity(READY).valid, "nothing touched")
    taken = requests.attached(
        "bottle", TIP, ["panda_hand", "panda_leftfinger", "panda_rightfinger"]
    )
    taken.object = bottle
    scene.apply(requests.diff(attached=[taken]))
    told = scene.validity(READY)
    assert not told.valid
    (contact,) = told.contacts
    assert {contact.contact_body_1, contact.contact_body_2} == {"bottle", "shelf"}
    types = {
        contact.contact_body_1: contact.body_type_1,
        contact.contact_body_2: contact.body_type_2,
    }
    assert types["bottle"] == ContactInformation.ROBOT_ATTACHED
    assert types["shelf"] == ContactInformation.WORLD_OBJECT
    assert "bottle touches shelf" in scene.ik(tip(READY)).error_code.message
    scene.apply(requests.diff(attached=[requests.detached("bottle")]))
    scene.apply(requests.diff(requests.removed("bottle")))
    scene.client.wait(lambda: scene.validity(READY).valid, "nothing carried")


def test_what_the_request_itself_attaches(scene):
    """States other than the current one may be queried."""
    X = tip(READY)
    scene.apply(requests.diff(requests.box("shelf", (0.3, 0.3, 0.02), X[:3, 3] - (0, 0, 0.25))))
    asked = state(READY)
    bottle = AttachedCollisionObject(link_name=TIP, touch_links=["panda_hand"])
    bottle.object = requests.cylinder("bottle", 0.3, 0.02, (0.0, 0.0, 0.2), frame=TIP)
    asked.attached_collision_objects = [bottle]
    request = GetStateValidity.Request(robot_state=asked, group_name="arm")
    assert not scene.client.call(GetStateValidity, "/check_state_validity", request).valid
    assert scene.validity(READY).valid
    bottle.link_name = "nowhere"
    answer = scene.ik(X, robot_state=asked)
    assert answer.error_code.val == Codes.INVALID_ROBOT_STATE
    assert "'nowhere' is not known" in answer.error_code.message


def test_a_target_pose_in_collision_moves_nothing(scene):
    X = tip(READY)
    client = scene.client
    heard = client.listen(JointState, "/joint_trajectory_controller/reference")
    targets = client.publisher(PoseStamped, "/ik_service/target_pose")
    target = PoseStamped(pose=pose_message(X))
    scene.apply(requests.diff(requests.box("crate", (0.2, 0.2, 0.2), X[:3, 3])))
    client.repeat_for(lambda: targets.publish(target), 0.5)
    assert not heard.messages

    def told() -> bool:
        return "touches crate" in values_of(client.diagnostics("/ik_service")).get(
            "last warning", ""
        )

    client.wait(told, "the reason")
    assert client.set_parameters("/ik_service", avoid_collisions=False).successful
    client.repeat(lambda: targets.publish(target), lambda: heard.messages, "the joints")
    assert client.set_parameters("/ik_service", avoid_collisions=True).successful
    scene.apply(requests.diff(requests.removed("crate")))
    heard.clear()
    client.repeat(lambda: targets.publish(target), lambda: heard.messages, "the joints")


@pytest.mark.long
def test_an_owner_that_starts_anew_is_followed(scene, module_suite):
    X = tip(READY)
    crate = requests.diff(requests.box("crate", (0.2, 0.2, 0.2), X[:3, 3]))
    scene.apply(crate)
    assert scene.ik(X).error_code.val == Codes.NO_IK_SOLUTION
    scene.process.stop()

    def gone() -> bool:
        message = scene.ik(X).error_code.message
        return "its last state was checked" in message and "crate" in message

    scene.client.wait(gone, "the owner to be missed")
    scene.process = module_suite.run(OWNER)
    scene.client.wait(lambda: scene.ik(X).error_code.val == Codes.SUCCESS, "the new scene", 60.0)
    scene.apply(crate)
    scene.client.wait(lambda: scene.ik(X).error_code.val == Codes.NO_IK_SOLUTION, "the crate")
    # A killed node stays in the graph for a while, beside the next one.
    scene.process.kill()
    scene.process = module_suite.run(OWNER)
    scene.client.wait(lambda: scene.ik(X).error_code.val == Codes.SUCCESS, "the new scene", 60.0)

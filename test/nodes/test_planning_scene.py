# SPDX-License-Identifier: Apache-2.0
"""The planning scene over DDS: services, topics, published changes, and followers."""

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
import scene_requests as requests
from builtin_interfaces.msg import Time
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    PlanningScene,
    PlanningSceneComponents,
    PlanningSceneWorld,
)
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_client import LATCHED, RELIABLE, RosClient
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty as EmptyMessage
from std_msgs.msg import String
from std_srvs.srv import Empty

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.scene.voxels import OCTOMAP, voxels
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.diagnostics import Warnings
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.scene.scene_update import octomap_message

pytestmark = pytest.mark.long

FRANKA = load_robot("franka")
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
HAND = "panda_hand_tcp"
OWNER = Path(__file__).parents[1] / "scene_owner.py"
C = PlanningSceneComponents
THOUSANDS = QoSProfile(depth=10_000, reliability=ReliabilityPolicy.RELIABLE)
"""A publisher keeps what it sent at once until the owner has acknowledged it."""


class SceneClient:
    """The scene as a client sees it."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self.heard = client.listen(PlanningScene, "/monitored_planning_scene", RELIABLE)
        self.states = client.node.create_publisher(JointState, "/joint_states", 10)
        self._publishers: dict[str, Any] = {}

    def get(self, components: int = 0) -> PlanningScene:
        request = GetPlanningScene.Request()
        request.components.components = components
        return self.client.call(GetPlanningScene, "/get_planning_scene", request, 60.0).scene

    def apply(self, scene: PlanningScene) -> bool:
        request = ApplyPlanningScene.Request(scene=scene)
        # Ten thousand objects take seconds on a loaded machine.
        return self.client.call(ApplyPlanningScene, "/apply_planning_scene", request, 60.0).success

    def send(self, *messages: Any) -> None:
        for message in messages:
            topic = TOPICS[type(message)]
            if topic not in self._publishers:
                self._publishers[topic] = self.client.publisher(type(message), topic, THOUSANDS)
            self._publishers[topic].publish(message)

    def stand(self, q: np.ndarray) -> None:
        """Publish joint states until the owner has received them."""
        message = JointState(name=list(FRANKA.joint_names), position=q.tolist())

        def known() -> bool:
            positions = self.get(C.ROBOT_STATE).robot_state.joint_state.position
            return len(positions) == len(q) and np.allclose(positions, q)

        self.client.repeat(lambda: self.states.publish(message), known, "the robot's state")

    @property
    def objects(self) -> dict[str, CollisionObject]:
        return {o.id: o for o in self.get().world.collision_objects}

    @property
    def attached(self) -> dict[str, AttachedCollisionObject]:
        return {a.object.id: a for a in self.get().robot_state.attached_collision_objects}

    def wait_for(self, names: set[str]) -> None:
        self.client.wait(lambda: set(self.objects) == names, f"the objects {names}")

    def changes(self) -> list[PlanningScene]:
        """Return published changes other than robot states."""
        return [
            m
            for m in self.heard.messages
            if m.world.collision_objects
            or m.robot_state.attached_collision_objects
            or m.allowed_collision_matrix.entry_names
        ]


TOPICS = {
    PlanningScene: "/planning_scene",
    PlanningSceneWorld: "/planning_scene_world",
    CollisionObject: "/collision_object",
    AttachedCollisionObject: "/attached_collision_object",
}


@pytest.fixture(scope="module")
def shared(module_suite, module_client):
    """A node that owns a scene, and its client."""
    module_suite.run([sys.executable, str(OWNER), "--ros-args", "-p", "robot:=franka"])
    made = SceneClient(module_client)
    module_client.wait_for_diagnosis("/scene_owner", "")
    made.stand(FRANKA.home)
    return made


@pytest.fixture
def scene(shared):
    """The same, with nothing in the scene."""
    assert shared.apply(PlanningScene())
    shared.heard.clear()
    return shared


def pose(message) -> np.ndarray:
    p, r = message.position, message.orientation
    return from_xyz_quat((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))


def test_changes_are_told_at_once_and_as_changes(scene):
    assert scene.apply(requests.diff(requests.box("box", (0.05,) * 3, (0.5, 0.0, 0.3))))
    assert scene.apply(requests.diff(requests.moved("box", (0.5, 0.0, 0.4))))
    assert scene.apply(requests.diff(attached=[requests.attached("box", HAND)]))
    assert scene.apply(requests.diff(attached=[requests.detached("box")]))
    assert scene.apply(requests.diff(requests.removed("box")))
    scene.client.wait(lambda: len(scene.changes()) >= 5, "five changes")
    told = scene.changes()
    assert all(m.is_diff and m.robot_state.is_diff for m in told)
    assert [m.world.collision_objects[0].operation if m.world.collision_objects else None
            for m in told] == [
        CollisionObject.ADD, CollisionObject.MOVE, None, CollisionObject.ADD,
        CollisionObject.REMOVE,
    ]  # fmt: skip
    bodies = [m.robot_state.attached_collision_objects for m in told]
    assert [len(b) for b in bodies] == [0, 0, 1, 1, 0]
    assert bodies[2][0].object.primitives, "RViz needs the shapes"
    assert bodies[3][0].object.operation == CollisionObject.REMOVE


def test_the_robots_state_is_told_while_it_moves(scene):
    """RViz displays the robot by these."""
    goal = FRANKA.named_state("transport")
    message = JointState(name=list(FRANKA.joint_names), position=goal.tolist())

    def told() -> bool:
        return any(
            len(m.robot_state.joint_state.position) == len(goal)
            and np.allclose(m.robot_state.joint_state.position, goal)
            for m in scene.heard.messages
        )

    scene.client.repeat(lambda: scene.states.publish(message), told, "the state")
    newest = scene.heard.newest
    assert newest.is_diff
    assert newest.robot_state.is_diff
    assert list(newest.robot_state.joint_state.name) == list(FRANKA.joint_names)
    scene.stand(FRANKA.home)


def test_semantics_for_clients_that_come_late(scene):
    heard = scene.client.listen(String, "/robot_description_semantic", LATCHED)
    scene.client.wait(lambda: heard.newest is not None, "the semantics")
    root = Xml.fromstring(heard.newest.data)
    assert root.attrib["name"] == "franka"
    groups = {g.attrib["name"]: g for g in root.findall("group")}
    assert {"arm", "panda_arm", "gripper", "hand"} <= set(groups)
    assert groups["arm"].find("chain").attrib == {"base_link": "panda_link0", "tip_link": HAND}


def test_octomaps_are_followed_and_cleared(scene, follower):
    client = scene.client
    made = voxels(0.05, [[10, 0, 10], [10, 1, 10]])
    message = requests.diff()
    message.world.octomap.octomap = octomap_message(made, "panda_link0", Time(), 0.05)
    assert scene.apply(message)

    def followed():
        follower.update()
        return OCTOMAP in follower.world.scene.objects

    client.wait(followed, "the octomap in the follower")
    assert follower.world.scene.objects[OCTOMAP].parts[0].solid.equals(made)
    heard = client.listen(EmptyMessage, "/octomap_cleared", RELIABLE)
    client.wait(lambda: client.node.count_publishers("/octomap_cleared"), "the owner")
    # Repeated: the first notice may be from before the owner has discovered its subscriber.
    client.repeat(
        lambda: client.call(Empty, "/clear_octomap"),
        lambda: heard.newest is not None,
        "the notice",
        rate=2.0,
    )
    client.wait(lambda: not followed(), "the octomap to go")


@pytest.fixture
def follower(scene):
    """A copy of the scene in this process, updated while the client waits."""
    node = scene.client.node
    node.warn = Warnings(node)
    frames = RobotFrames(KINEMATICS, None, "")  # the owner's messages need no /tf
    made = SceneFollower(node, FRANKA, KINEMATICS, frames)

    def ready() -> bool:
        made.update()
        # It requests the scene again at the first message; the owner publishes every second.
        return made.synchronised and made._number is not None

    scene.client.wait(ready, "the copy")
    yield made
    made.destroy()


def same(follower, scene) -> bool:
    """Whether copy and owner agree on names, poses and links."""
    now, got = follower.scene, scene.get()
    objects = {o.id: o for o in got.world.collision_objects}
    attached = {a.object.id: a for a in got.robot_state.attached_collision_objects}
    return (
        set(now.objects) == set(objects)
        and set(now.attached) == set(attached)
        and all(np.allclose(now.objects[n].X_WO, pose(o.pose)) for n, o in objects.items())
        and all(
            now.attached[n].link == a.link_name and np.allclose(now.attached[n].X_LO,
                                                                pose(a.object.pose))
            for n, a in attached.items()
        )
    )  # fmt: skip


def random_change(rng: np.random.Generator) -> Any:
    name, xyz = f"o{rng.integers(6)}", rng.uniform(-1, 1, 3)
    return [
        requests.box(name, rng.uniform(0.05, 0.2, 3), xyz),
        requests.moved(name, xyz),
        requests.removed(name),
        requests.attached(name, str(rng.choice([HAND, "panda_link3"]))),
        requests.detached(name),
    ][rng.integers(5)]


def test_a_follower_keeps_in_step(scene, follower):
    rng = np.random.default_rng(21)
    for _ in range(8):
        scene.send(*(random_change(rng) for _ in range(25)))
        scene.client.wait(lambda: same(follower, scene), "the two to tell the same")
    assert follower.synchronised
    assert follower.note == ""


def test_a_follower_that_lost_changes_asks_again(scene, follower):
    """More changes than its subscription holds, while none is taken."""
    for i in range(150):
        assert scene.apply(requests.diff(requests.sphere(f"s{i}", 0.01, (1.0, 0.0, 0.01 * i))))
    follower.update()
    assert not follower.synchronised
    assert "not synchronized" in follower.note
    scene.client.wait(lambda: same(follower, scene) and follower.synchronised, "all of them")
    assert len(follower.scene.objects) == 150
    assert scene.apply(requests.diff(requests.removed("")))
    scene.client.wait(lambda: not follower.scene.objects, "none of them")
    assert follower.synchronised


def test_changes_while_the_whole_scene_is_under_way(scene, follower):
    """Changes received twice, or while the response is under way, lead to the same scene."""
    rng = np.random.default_rng(4)
    for _ in range(6):
        follower._lost = True  # as if something had been lost
        follower._requested_at = -np.inf
        follower.update()
        assert follower._request is not None
        for _ in range(10):
            scene.send(random_change(rng))
            scene.client.spin(0.005)
            follower.update()
        try:
            scene.client.wait(lambda: follower.synchronised and same(follower, scene), "the same")
        except AssertionError as error:
            copy, whole = follower.scene, scene.get()
            pytest.fail(
                f"{error}; {follower.note!r}, messages of {follower._name!r} up to "
                f"{follower._number}; copy: {sorted(copy.objects)}, attached "
                f"{sorted(copy.attached)}; owner: {whole.name!r}, "
                f"{sorted(o.id for o in whole.world.collision_objects)}, attached "
                f"{sorted(a.object.id for a in whole.robot_state.attached_collision_objects)}"
            )

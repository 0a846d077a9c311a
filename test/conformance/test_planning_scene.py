# SPDX-License-Identifier: Apache-2.0
"""Behaviors of MoveIt's planning scene, over the services and topics of move_group."""

from typing import Any

import numpy as np
import pytest
import scene_requests as requests
from joint_client import FRANKA
from moveit_msgs.msg import CollisionObject, ObjectColor, PlanningScene, PlanningSceneComponents
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene, LoadMap, SaveMap

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.scene.octomap_file import octomap_bytes, read_octomap
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.scene.voxels import Voxels, voxels
from motion_nodes.errors import UnknownFrame
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.scene.scene_messages import SceneMessages
from motion_nodes.ros.scene.scene_update import SceneFrames, voxels_of

KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
HAND = "panda_hand"


class NoTree:
    """An empty /tf."""

    def update(self) -> None:
        """Do nothing."""

    def pose(self, base: str, name: str) -> Any:
        raise UnknownFrame(name, ())


class Client:
    """A scene that messages change and describe, as apply_planning_scene does."""

    def __init__(self) -> None:
        frames = SceneFrames(KINEMATICS, RobotFrames(KINEMATICS, NoTree(), ""), lambda: FRANKA.home)
        self.messages, self.scene = SceneMessages(FRANKA, frames), Scene()

    def apply(self, *objects: Any, **fields: Any) -> bool:
        """Apply a diff with objects of the world and attached ones; return its success."""
        diff = PlanningScene(is_diff=True, **fields)
        diff.robot_state.is_diff = True
        for item in objects:
            if isinstance(item, CollisionObject):
                diff.world.collision_objects.append(item)
            else:
                diff.robot_state.attached_collision_objects.append(item)
        self.scene, found = self.messages.apply(self.scene, diff)
        return bool(found.success)

    @property
    def whole(self) -> PlanningScene:
        """The scene as get_planning_scene returns it."""
        home = dict(zip(FRANKA.joint_names, FRANKA.home.tolist(), strict=True))
        return self.messages.message(self.scene, home)

    @property
    def world(self) -> set[str]:
        """Names of the objects of the world."""
        return set(self.scene.objects)

    @property
    def attached(self) -> set[str]:
        """Names of the attached objects."""
        return set(self.scene.attached)


@pytest.fixture
def client():
    return Client()


BALL = requests.sphere("ball", 0.05, (0.5, 0.0, 0.5))


def test_poses_of_objects_and_shapes(client):
    bare = requests.sphere("bare", 0.05, (0.5, 0.0, 0.5))
    if bare.primitive_poses:
        pose = bare.primitive_poses[0]
    else:
        pose = bare.pose
    by_shape, by_object = CollisionObject(id="by_shape"), CollisionObject(id="by_object")
    for item in (by_shape, by_object):
        item.header.frame_id, item.primitives = FRANKA.base_frame, bare.primitives
    by_shape.primitive_poses, by_object.pose = [pose], pose
    assert client.apply(by_shape, by_object)
    for name in ("by_shape", "by_object"):
        assert client.scene.objects[name].X_WO[:3, 3] == pytest.approx((0.5, 0.0, 0.5))
    read = {item.id: item for item in client.whole.world.collision_objects}
    assert read["by_shape"].pose.position.z == pytest.approx(0.5)


def test_scenes_are_restored(client):
    assert client.apply(BALL, requests.box("box", (0.1, 0.1, 0.1), (0.5, 0.3, 0.2)))
    whole = client.whole
    other = Client()
    other.scene, found = other.messages.apply(other.scene, whole)
    assert found.success
    assert other.world == {"ball", "box"}
    for part in ("world", "robot_state", "allowed_collision_matrix", "object_colors"):
        assert getattr(other.whole, part) == getattr(whole, part), part
    assert client.apply(requests.sphere("third", 0.1, (0.6, 0.0, 0.4)))
    assert client.world == {"ball", "box", "third"}
    client.scene, found = client.messages.apply(client.scene, whole)
    assert client.world == {"ball", "box"}


def test_attaching(client):
    assert client.apply(BALL, requests.box("box", (0.1, 0.1, 0.1), (0.5, 0.3, 0.2)))
    assert client.apply(requests.attached("ball", HAND))
    assert (client.world, client.attached) == ({"box"}, {"ball"})
    assert client.apply(requests.attached("box", HAND))
    assert (client.world, client.attached) == (set(), {"ball", "box"})
    assert client.apply(requests.detached("ball"))
    assert (client.world, client.attached) == ({"ball"}, {"box"})


def test_metadata_of_attached_objects(client):
    ball = requests.sphere("ball", 0.05, (0.5, 0.0, 0.5))
    ball.type.key, ball.type.db = "blue_sphere_type", "{'type':'CustomDB'}"
    colour = ObjectColor(id="ball")
    colour.color.b = colour.color.a = 1.0
    assert client.apply(ball, object_colors=[colour])

    def kept(item: Any) -> bool:
        colours = {entry.id: entry.color for entry in client.whole.object_colors}
        return item.type == ball.type and colours["ball"] == colour.color

    assert kept(client.whole.world.collision_objects[0])
    assert client.apply(requests.attached("ball", HAND))
    assert kept(client.whole.robot_state.attached_collision_objects[0].object)
    assert not client.apply(requests.removed("ball"))
    assert client.attached == {"ball"}
    assert client.apply(requests.detached("ball"))
    assert kept(client.whole.world.collision_objects[0])


def test_objects_that_do_not_exist(client):
    assert client.apply(requests.removed("ghost"))
    assert not client.apply(requests.moved("ghost", (0.0, 0.0, 0.0)))
    assert not client.apply(requests.attached("ghost", HAND))
    assert client.world == client.attached == set()


@pytest.mark.parametrize("name", ["ball", ""])
def test_allowed_collisions(client, name):
    assert client.apply(BALL)
    allowed = requests.with_collisions_allowed(client.whole, "ball", True)
    assert client.apply(allowed_collision_matrix=allowed.allowed_collision_matrix)

    def known() -> bool:
        matrix = client.whole.allowed_collision_matrix
        return "ball" in {*matrix.entry_names, *matrix.default_entry_names}

    assert known()
    assert client.apply(requests.attached("ball", HAND))
    assert client.apply(requests.detached("ball"))
    assert known()
    assert client.apply(requests.removed(name))
    assert client.world == set()
    assert not known()


def test_invalid_objects(client):
    flat = requests.box("flat", (0.1, 0.1, 0.1), (0.5, 0.0, 0.5))
    flat.primitives[0].dimensions = [0.1]
    more = requests.box("more", (0.1, 0.1, 0.1), (0.5, 0.0, 0.5))
    more.primitive_poses = [more.pose, more.pose]
    none = CollisionObject(id="none")
    for item in (flat, more, none):
        assert not client.apply(item), item.id
    assert client.world == set()


def test_changes_of_objects(client):
    assert client.apply(BALL)
    assert client.apply(requests.moved("ball", (0.1, 0.2, 0.9)))
    assert client.scene.objects["ball"].X_WO[:3, 3] == pytest.approx((0.1, 0.2, 0.9))
    more = requests.sphere("ball", 0.1, (0.1, 0.2, 1.0), operation=CollisionObject.APPEND)
    assert client.apply(more)
    assert len(client.scene.objects["ball"].parts) == 2
    assert client.apply(BALL)
    assert len(client.scene.objects["ball"].parts) == 1


def test_detaching_all(client):
    for link in ("", HAND):
        assert client.apply(BALL)
        assert client.apply(requests.attached("ball", HAND))
        message = requests.detached()
        message.link_name = link
        assert client.apply(message)
        assert (client.world, client.attached) == ({"ball"}, set())


# ---- over DDS


def test_the_scene_of_move_group(module_suite, module_client):
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node("rrt_planner", robot="franka", use_sim_time=True)
    ros = module_client
    heard = ros.listen(PlanningScene, "/monitored_planning_scene")

    def names(*parts: int) -> set[str]:
        wanted = PlanningSceneComponents(components=sum(parts))
        found = ros.call(
            GetPlanningScene, "/get_planning_scene", GetPlanningScene.Request(components=wanted)
        ).scene
        return {item.id for item in found.world.collision_objects}

    names_only = PlanningSceneComponents.WORLD_OBJECT_NAMES
    diff = PlanningScene(is_diff=True)
    diff.robot_state.is_diff = True
    diff.world.collision_objects = [BALL]
    request = ApplyPlanningScene.Request(scene=diff)
    assert ros.call(ApplyPlanningScene, "/apply_planning_scene", request).success
    assert names(names_only) == {"ball"}
    assert names(PlanningSceneComponents.ROBOT_STATE) == set()
    ros.wait(
        lambda: any("ball" in {o.id for o in m.world.collision_objects} for m in heard.messages),
        "the change",
    )
    sender = ros.publisher(CollisionObject, "/collision_object")
    sender.publish(requests.box("box", (0.1, 0.1, 0.1), (0.5, 0.3, 0.2)))
    ros.wait(lambda: names(names_only) == {"ball", "box"}, "the box")
    diff.world.collision_objects = [requests.moved("ghost", (0.0, 0.0, 0.0))]
    assert not ros.call(ApplyPlanningScene, "/apply_planning_scene", request).success


def test_octomaps_in_files(module_suite, module_client, tmp_path):
    """The octomap is saved, and a loaded one replaces it; the suite is that of the test before."""
    ros, file = module_client, tmp_path / "map.bt"

    def call(kind: Any, name: str, path: Any) -> bool:
        return bool(ros.call(kind, name, kind.Request(filename=str(path))).success)

    def octomap() -> Voxels | None:
        wanted = PlanningSceneComponents(components=PlanningSceneComponents.OCTOMAP)
        request = GetPlanningScene.Request(components=wanted)
        found = ros.call(GetPlanningScene, "/get_planning_scene", request).scene
        message = found.world.octomap.octomap
        return voxels_of(message) if message.id else None

    def load(solid: Voxels | None) -> None:
        file.write_bytes(octomap_bytes(solid))
        assert call(LoadMap, "/load_map", file)

    first, second = voxels(0.05, [[20, 0, 10], [21, 0, 10]]), voxels(0.1, [[9, 9, 9]])
    load(first)
    found = octomap()
    assert found is not None
    assert np.array_equal(found.cells, first.cells)
    saved = tmp_path / "saved.bt"
    assert call(SaveMap, "/save_map", saved)
    load(second)
    found = octomap()
    assert found is not None
    assert (found.resolution, found.cells.tolist()) == (0.1, [[9, 9, 9]])
    back = read_octomap(saved.read_bytes(), "saved")
    assert back is not None
    assert np.array_equal(back.cells, first.cells)
    load(None)
    assert octomap() is None
    file.write_text("nothing")
    assert not call(LoadMap, "/load_map", file)
    assert not call(SaveMap, "/save_map", file)
    assert not call(LoadMap, "/load_map", tmp_path / "missing.bt")
    assert not call(SaveMap, "/save_map", tmp_path / "map.txt")
    assert not call(SaveMap, "/save_map", "map.bt")

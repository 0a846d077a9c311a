# SPDX-License-Identifier: Apache-2.0
"""Scene messages to and from scenes: all shapes, operations, frames, matrices; and bad ones."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import scene_requests as requests
from geometry_msgs.msg import Point, Pose, TransformStamped
from hypothesis import given, settings
from hypothesis import strategies as st
from moveit_msgs.msg import (
    AllowedCollisionEntry,
    AllowedCollisionMatrix,
    CollisionObject,
    LinkPadding,
    ObjectColor,
    PlanningScene,
    PlanningSceneComponents,
    PlanningSceneWorld,
)
from shape_msgs.msg import Mesh, MeshTriangle, Plane, SolidPrimitive
from std_msgs.msg import ColorRGBA

from motion_nodes.errors import MotionError, UnknownFrame
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy, inverse
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.ros.moveit_messages import pose_message
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene_allowed import allowed_from
from motion_nodes.ros.scene_frames import SceneFrames
from motion_nodes.ros.scene_messages import SceneMessages
from motion_nodes.scene.allowed import AllowedCollisions, pair_of
from motion_nodes.scene.scene import Scene, difference, world_object
from motion_nodes.scene.shapes import (
    Capsule,
    Cone,
    HalfSpace,
    TriangleMesh,
    bounding_radius,
    triangle_mesh,
)
from motion_nodes.scene.world import World

FRANKA = load_robot("franka")
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
X_B_SHELF = from_xyz_rpy((0.4, -0.2, 0.1), (0.3, -0.2, 1.0))
HAND = "panda_hand_tcp"


class Tree:
    """A /tf with one frame."""

    def update(self):
        pass

    def pose(self, parent, child):
        if child != "shelf":
            raise UnknownFrame(child, ["shelf"], "/tf")
        return X_B_SHELF, None


class Robot:
    """A robot whose joints may be unknown."""

    def __init__(self):
        self.q = FRANKA.home.copy()

    def positions(self):
        if self.q is None:
            raise MotionError("waiting for joint_states")
        return self.q

    def pose(self, link):
        return KINEMATICS.pose(self.q, link)


@pytest.fixture
def robot():
    return Robot()


@pytest.fixture
def messages(robot):
    frames = SceneFrames(KINEMATICS, RobotFrames(KINEMATICS, Tree(), ""), robot.positions)
    return SceneMessages(FRANKA, frames)


def done(messages, scene, *sent):
    """The scene after messages that must all be carried out without a word."""
    for message in sent:
        scene, findings = messages.apply(scene, message)
        assert findings.success, findings.refused
        assert not findings.warnings
    return scene


def refused(messages, scene, message):
    """What is said of a message that must change nothing."""
    after, findings = messages.apply(scene, message)
    assert after is scene
    (text,) = findings.refused
    return text


def corner_cloud(item):
    """Points of an object's parts in the world, for what is the same however it is described."""
    points = np.array([(x, y, z, 1.0) for x in (-1, 1) for y in (-1, 0.5) for z in (-1, 2.0)])
    return np.concatenate([points @ (item.X_WO @ part.X_OS).T for part in item.parts])


def test_the_shapes_of_pymoveit2_stand_where_it_says(messages):
    xyz, rpy = (0.5, 0.1, 0.3), (0.1, -0.4, 2.0)
    scene = done(
        messages,
        Scene(),
        requests.box("box", (0.1, 0.2, 0.3), xyz, rpy=rpy),
        requests.sphere("ball", 0.1, xyz),
        requests.cylinder("can", 0.3, 0.05, xyz, rpy=rpy),
        requests.cone("hat", 0.3, 0.05, xyz, frame="shelf"),
        requests.cube_mesh("cube", 0.2, xyz, rpy),
    )
    solids = {name: item.parts[0].solid for name, item in scene.objects.items()}
    assert solids["box"] == Box((0.1, 0.2, 0.3))
    assert solids["ball"] == Sphere(0.1)
    assert solids["can"] == Cylinder(radius=0.05, length=0.3)
    assert solids["hat"] == Cone(radius=0.05, height=0.3)
    assert isinstance(solids["cube"], TriangleMesh)
    assert bounding_radius(solids["cube"]) == pytest.approx(0.1 * math.sqrt(3.0))
    for item in scene.objects.values():
        np.testing.assert_array_equal(item.parts[0].X_OS, np.eye(4))
    np.testing.assert_allclose(scene.objects["box"].X_WO, from_xyz_rpy(xyz, rpy), atol=1e-12)
    np.testing.assert_allclose(scene.objects["hat"].X_WO, X_B_SHELF @ from_xyz_rpy(xyz), atol=1e-12)


@given(
    normal=st.tuples(*[st.floats(-3.0, 3.0)] * 3).filter(lambda n: np.linalg.norm(n) > 0.1),
    offset=st.floats(-2.0, 2.0),
    point=st.tuples(*[st.floats(-5.0, 5.0)] * 3),
)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_a_plane_holds_what_is_below_it(normal, offset, point):
    frames = SceneFrames(KINEMATICS, RobotFrames(KINEMATICS, Tree(), ""), lambda: FRANKA.home)
    message = CollisionObject(id="floor", planes=[Plane(coef=[*normal, offset])])
    scene, findings = SceneMessages(FRANKA, frames).apply(Scene(), message)
    assert findings.success
    item = scene.objects["floor"]
    (part,) = item.parts
    assert part.solid == HalfSpace()
    height = (inverse(item.X_WO @ part.X_OS) @ np.append(point, 1.0))[2]
    distance = (np.dot(normal, point) + offset) / np.linalg.norm(normal)
    assert height == pytest.approx(distance, abs=1e-9)


def test_poses_of_shapes_count_from_the_object(messages):
    message = requests.box("shelf_board", (0.1, 0.1, 0.1), (0.5, 0.0, 0.2), rpy=(0.0, 0.0, 1.0))
    message.primitives.append(SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.1]))
    message.primitive_poses.append(pose_message(from_xyz_rpy((0.1, 0.2, 0.0))))
    item = done(messages, Scene(), message).objects["shelf_board"]
    np.testing.assert_allclose(item.parts[0].X_OS, from_xyz_rpy((0.1, 0.2, 0.0)), atol=1e-12)
    np.testing.assert_array_equal(item.parts[1].X_OS, np.eye(4)), "those that lack one"


def test_a_single_shape_that_is_placed_instead_of_its_object_is_moved_with_it(messages):
    message = CollisionObject(id="box")
    message.primitives.append(SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1, 0.1, 0.1]))
    message.primitive_poses.append(pose_message(from_xyz_rpy((0.5, 0.0, 0.2))))
    scene = done(messages, Scene(), message)
    np.testing.assert_allclose(scene.objects["box"].X_WO, from_xyz_rpy((0.5, 0.0, 0.2)))
    scene = done(messages, scene, requests.moved("box", (0.0, 0.5, 0.2)))
    item = scene.objects["box"]
    np.testing.assert_allclose((item.X_WO @ item.parts[0].X_OS)[:3, 3], (0.0, 0.5, 0.2))


def test_append_adds_shapes_where_the_message_says(messages):
    first = requests.box("rack", (0.1, 0.1, 0.1), (0.5, 0.0, 0.0), rpy=(0.0, 0.0, 0.5))
    more = requests.sphere("rack", 0.05, (0.5, 0.0, 0.3), operation=CollisionObject.APPEND)
    scene = done(messages, Scene(), first, more)
    item = scene.objects["rack"]
    np.testing.assert_allclose(item.X_WO, from_xyz_rpy((0.5, 0.0, 0.0), (0.0, 0.0, 0.5)))
    np.testing.assert_allclose((item.X_WO @ item.parts[1].X_OS)[:3, 3], (0.5, 0.0, 0.3), atol=1e-12)
    alone = done(messages, Scene(), more).objects["rack"]
    assert len(alone.parts) == 1


def test_moving_in_a_links_frame(messages, robot):
    scene = done(messages, Scene(), requests.box("box", (0.1, 0.1, 0.1), (0.5, 0.0, 0.2)))
    parts = scene.objects["box"].parts
    scene = done(messages, scene, requests.moved("box", (0.0, 0.0, 0.1), frame=HAND))
    want = robot.pose(HAND) @ from_xyz_rpy((0.0, 0.0, 0.1))
    np.testing.assert_allclose(scene.objects["box"].X_WO, want, atol=1e-12)
    assert scene.objects["box"].parts is parts
    # An object is a frame too.
    on_top = requests.sphere("ball", 0.05, (0.0, 0.0, 0.2), frame="box")
    ball = done(messages, scene, on_top).objects["ball"]
    np.testing.assert_allclose(ball.X_WO, want @ from_xyz_rpy((0.0, 0.0, 0.2)), atol=1e-12)


def test_moving_with_poses_of_shapes(messages):
    message = requests.box("box", (0.1, 0.1, 0.1), (0.5, 0.0, 0.2))
    move = requests.moved("box", (0.1, 0.0, 0.0))
    move.primitive_poses.append(pose_message(from_xyz_rpy((0.0, 0.0, 0.7))))
    scene = done(messages, Scene(), message)
    moved = done(messages, scene, move).objects["box"]
    np.testing.assert_allclose(moved.parts[0].X_OS[:3, 3], (0.0, 0.0, 0.7))
    move.primitive_poses.append(Pose())
    assert "2 poses of shapes and has 1" in refused(messages, scene, move)


def test_removing(messages):
    scene = done(
        messages,
        Scene(),
        requests.sphere("a", 0.1, (1.0, 0.0, 0.0)),
        requests.sphere("b", 0.1, (2.0, 0.0, 0.0)),
        requests.sphere("c", 0.1, (3.0, 0.0, 0.0)),
        requests.attached("c", HAND),
    )
    assert set(done(messages, scene, requests.removed("a")).objects) == {"b"}
    everything = done(messages, scene, requests.removed(""))
    assert not everything.objects
    assert set(everything.attached) == {"c"}
    same, findings = messages.apply(scene, requests.removed("bb"))
    assert same is scene
    assert findings.success
    assert (
        "'bb' is to be removed and is not in the world. Did you mean 'b'?" in findings.warnings[0]
    )


def test_what_is_repeated_is_no_change(messages):
    sent = [
        requests.box("box", (0.1, 0.2, 0.3), (0.5, 0.1, 0.2), rpy=(0.1, 0.2, 0.3)),
        requests.cube_mesh("cube", 0.1, (0.3, 0.3, 0.3), (0.5, 0.6, 0.7)),
    ]
    scene = done(messages, Scene(), *sent)
    assert done(messages, scene, *sent) is scene
    scene = done(messages, scene, requests.attached("box", HAND))
    assert done(messages, scene, requests.attached("box", HAND)) is scene
    moved = done(messages, scene, requests.moved("cube", (0.0, 0.5, 0.0)))
    assert difference(scene, moved).moved == ("cube",)


def test_attached_by_id_stands_still_and_then_goes_with_the_hand(messages, robot):
    scene = done(messages, Scene(), requests.box("box", (0.05,) * 3, (0.5, 0.0, 0.4)))
    X_WO = scene.objects["box"].X_WO
    scene = done(messages, scene, requests.attached("box", HAND, ["panda_leftfinger"]))
    assert not scene.objects
    body = scene.attached["box"]
    np.testing.assert_allclose(robot.pose(HAND) @ body.X_LO, X_WO, atol=1e-12)
    assert body.touch_links == {"panda_leftfinger"}
    robot.q = FRANKA.named_state("transport").copy()
    handed = done(messages, scene, requests.attached("box", "panda_link5")).attached["box"]
    before, after = robot.pose(HAND) @ body.X_LO, robot.pose("panda_link5") @ handed.X_LO
    np.testing.assert_allclose(after, before, atol=1e-12)
    put_down = done(messages, scene, requests.detached("box"))
    assert not put_down.attached
    np.testing.assert_allclose(put_down.objects["box"].X_WO, before, atol=1e-12)


def test_attached_with_shapes_in_any_frame(messages, robot):
    message = requests.attached("tool", "panda_hand")
    message.object = requests.cylinder("tool", 0.2, 0.01, (0.5, 0.0, 0.5), frame="shelf")
    body = done(messages, Scene(), message).attached["tool"]
    want = X_B_SHELF @ from_xyz_rpy((0.5, 0.0, 0.5))
    np.testing.assert_allclose(robot.pose("panda_hand") @ body.X_LO, want, atol=1e-12)
    # In the frame of its link no joint needs to be known.
    robot.q = None
    message.object.header.frame_id = "panda_hand"
    body = done(messages, Scene(), message).attached["tool"]
    np.testing.assert_allclose(body.X_LO, from_xyz_rpy((0.5, 0.0, 0.5)), atol=1e-12)
    more = copy.deepcopy(message)
    more.object = requests.sphere(
        "tool", 0.02, (0.5, 0.0, 0.7), frame="panda_hand", operation=CollisionObject.APPEND
    )
    more.touch_links = ["panda_rightfinger"]
    scene = done(messages, Scene(), message, more)
    body = scene.attached["tool"]
    assert [type(part.solid) for part in body.parts] == [Cylinder, Sphere]
    np.testing.assert_allclose((body.X_LO @ body.parts[1].X_OS)[:3, 3], (0.5, 0.0, 0.7))
    assert body.touch_links == {"panda_rightfinger"}


def test_detaching_all_or_those_of_a_link(messages):
    scene = Scene()
    for name, link in (("a", HAND), ("b", HAND), ("c", "panda_link3")):
        scene = done(
            messages,
            scene,
            requests.sphere(name, 0.1, (1.0, 0.0, 0.0)),
            requests.attached(name, link),
        )
    of_link = requests.detached()
    of_link.link_name = HAND
    assert set(done(messages, scene, of_link).attached) == {"c"}
    free = done(messages, scene, requests.detached())
    assert not free.attached
    assert set(free.objects) == {"a", "b", "c"}
    same, findings = messages.apply(free, requests.detached("a"))
    assert same is free
    assert "nothing attached is called so" in findings.warnings[0]
    wrong = requests.detached("c")
    wrong.link_name = HAND
    assert "'c' is attached to panda_link3, not to panda_hand_tcp" in refused(
        messages, scene, wrong
    )


nan = math.nan


def broken(**fields):
    message = requests.box("box", (0.1, 0.1, 0.1), (0.5, 0.0, 0.2))
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def zero_quaternion():
    message = broken()
    message.pose.orientation.w = 0.0
    return message


def mesh(vertices, triangles):
    made = Mesh(
        vertices=[Point(x=float(x), y=float(y), z=float(z)) for x, y, z in vertices],
        triangles=[MeshTriangle(vertex_indices=np.uint32(t)) for t in triangles],
    )
    return broken(primitives=[], meshes=[made])


CORNERS = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (requests.box("box", (0.1, nan, 0.1), (0.5, 0.0, 0.2)), "size y of a box is nan"),
        (requests.box("box", (0.1, 0.1), (0.5, 0.0, 0.2)), "has 2 dimensions; its type needs 3"),
        (requests.sphere("box", -1.0, (0.5, 0.0, 0.2)), "radius of a sphere is -1.0 m"),
        (requests.cylinder("box", 0.0, 0.1, (0.5, 0.0, 0.2)), "length of a cylinder is 0.0 m"),
        (requests.box("box", (0.1,) * 3, (nan, 0.0, 0.2)), "not finite"),
        (requests.box("box", (0.1,) * 3, (1e9, 0.0, 0.2)), "given in metres"),
        (zero_quaternion(), "no rotation"),
        (requests.box("box", (0.1,) * 3, (1.0, 0.0, 0.0), frame="moon"), "'moon' is not known"),
        (requests.primitive("box", SolidPrimitive.PRISM, (0.1,)), "is a prism, which is not"),
        (requests.primitive("box", 77, (0.1,)), "is a type 77, which is not supported"),
        (broken(primitives=[]), "has no shapes"),
        (broken(id=""), "give it a name"),
        (broken(id="<octomap>"), "give it a name"),
        (broken(operation=b"\x09"), "has the operation 9"),
        (broken(primitive_poses=[Pose(), Pose()]), "2 primitive_poses and 1 shapes"),
        (mesh(CORNERS, []), "no triangle with an area"),
        (mesh(CORNERS, [(0, 1, 1)]), "no triangle with an area"),
        (mesh(CORNERS, [(0, 1, 3)]), "names vertex 3; it has 3"),
        (mesh([(nan, 0, 0), *CORNERS], [(1, 2, 3)]), "not finite"),
        (broken(planes=[Plane(coef=[0.0, 0.0, 0.0, 1.0])]), "the first three a direction"),
        (broken(planes=[Plane(coef=[0.0, nan, 1.0, 1.0])]), "must be finite"),
        (requests.moved("bax", (0.0, 0.0, 0.0)), "no object 'bax'. Did you mean 'box'?"),
        (requests.moved("tool", (0.0, 0.0, 0.0)), "attached to panda_hand_tcp: detach it first"),
        (requests.sphere("tool", 0.1, (0.0, 0.0, 0.0)), "attached to panda_hand_tcp: detach it"),
        (requests.attached("ball", HAND), "no object of the world"),
        (requests.attached("box", "panda_link99"), "'panda_link99' is not known"),
        (requests.attached("box", ""), "frame '' is not known"),
        (requests.attached("", HAND), "has no id"),
    ],
)
def test_bad_objects_are_refused_in_words_and_change_nothing(messages, message, text):
    scene = done(
        messages,
        Scene(),
        requests.sphere("box", 0.3, (0.5, 0.0, 0.2)),
        requests.sphere("tool", 0.1, (0.0, 0.0, 0.5)),
        requests.attached("tool", HAND),
    )
    assert text in refused(messages, scene, message)


def test_where_the_robot_is_must_be_known_for_its_frames_only(messages, robot):
    robot.q = None
    scene = done(messages, Scene(), requests.box("box", (0.1,) * 3, (0.5, 0.0, 0.2)))
    in_hand = requests.sphere("ball", 0.1, (0.0, 0.0, 0.0), frame=HAND)
    assert "waiting for joint_states" in refused(messages, scene, in_hand)
    assert "waiting for joint_states" in refused(messages, scene, requests.attached("box", HAND))


def test_unknown_touch_links_and_subframes_are_told(messages):
    scene = done(messages, Scene(), requests.box("box", (0.1,) * 3, (0.5, 0.0, 0.2)))
    message = requests.attached("box", HAND, ["panda_leftfinger", "panda_thumb"])
    scene, findings = messages.apply(scene, message)
    assert scene.attached["box"].touch_links == {"panda_leftfinger"}
    assert "'panda_thumb' is not known" in findings.warnings[0]
    named = requests.box("cup", (0.1,) * 3, (0.5, 0.0, 0.2))
    named.subframe_names, named.subframe_poses = ["handle"], [Pose()]
    assert "subframes" in messages.apply(scene, named)[1].warnings[0]


def filled(messages):
    """A scene with everything."""
    world = World()
    rng = np.random.default_rng(5)
    solids = {
        "box": Box((0.1, 0.2, 0.3)),
        "ball": Sphere(0.1),
        "can": Cylinder(0.1, 0.3),
        "hat": Cone(0.1, 0.2),
        "floor": HalfSpace(),
        "cube": triangle_mesh(requests.CUBE_CORNERS, requests.CUBE_FACES),
        "pill": Capsule(0.05, 0.2),
    }
    for name, solid in solids.items():
        X = from_xyz_rpy(rng.uniform(-1, 1, 3), rng.uniform(-2, 2, 3))
        world.add(world_object(name, solid, X, rgba=(0.5, 0.25, 0.0, 1.0), kind="thing\n{}"))
    world.add(world_object("hidden", Sphere(1.0), enabled=False))
    scene = done(messages, world.scene, requests.attached("can", HAND, ["panda_leftfinger"]))
    world.replace(scene)
    world.allow([("box", "panda_hand"), ("ball", "floor")])
    world.set_allowed(world.scene.allowed.with_default("hat", True))
    return world.scene


def test_a_scene_there_and_back(messages):
    scene = filled(messages)
    back, findings = messages.apply(Scene(), messages.message(scene, {}))
    assert findings.success, findings.refused
    assert set(back.objects) == set(scene.objects) - {"hidden"}
    for name, item in back.objects.items():
        old = scene.objects[name]
        assert item.rgba == old.rgba
        assert item.kind == old.kind
        if name != "pill":
            np.testing.assert_allclose(corner_cloud(item), corner_cloud(old), atol=1e-9)
    kinds = [type(part.solid) for part in back.objects["pill"].parts]
    assert kinds == [Cylinder, Sphere, Sphere]
    np.testing.assert_allclose(
        [part.X_OS[2, 3] for part in back.objects["pill"].parts], [0.0, -0.1, 0.1], atol=1e-12
    )
    body, old = back.attached["can"], scene.attached["can"]
    np.testing.assert_allclose(body.X_LO, old.X_LO, atol=1e-12)
    assert (body.link, body.touch_links, body.rgba) == (old.link, old.touch_links, old.rgba)
    assert back.allowed.defaults == {"hat": True}
    names = [*scene.objects, *messages.links]
    for a in names:
        for b in names:
            if a < b and pair_of(a, b) not in messages.never_checked:
                assert back.allowed.allows(a, b) == scene.allowed.allows(a, b)
    # The same scene once more changes nothing at all.
    assert messages.apply(back, messages.message(back, {}))[0] is back


def test_diffs_lead_another_scene_along(messages, robot):
    """Random changes, told as diffs only; the follower need not know where the robot stands."""
    frames = SceneFrames(KINEMATICS, RobotFrames(KINEMATICS, Tree(), ""), lambda: FRANKA.home)
    others = SceneMessages(FRANKA, frames)
    robot.q = FRANKA.named_state("transport")
    rng = np.random.default_rng(11)
    names = ["a", "b", "c", "d"]
    now, follower = Scene(), Scene()
    told = 0
    for _ in range(150):
        name, xyz = str(rng.choice(names)), rng.uniform(-1, 1, 3)
        sent = [
            requests.sphere(name, 0.1, xyz),
            requests.moved(name, xyz),
            requests.removed(name),
            requests.attached(name, str(rng.choice([HAND, "panda_link3"]))),
            requests.detached(name),
        ][rng.integers(5)]
        after = messages.apply(now, sent)[0]
        if rng.random() < 0.3:
            pairs = after.allowed.with_pairs([(name, "panda_hand")], bool(rng.integers(2)))
            after = Scene(after.objects, after.attached, pairs, after.revision + 1)
        diff = difference(now, after)
        now = after
        if not diff.empty:
            told += 1
            follower, findings = others.apply(follower, messages.diff_message(now, diff))
            assert findings.success, findings.refused
        assert set(follower.objects) == set(now.objects)
        assert set(follower.attached) == set(now.attached)
        for key, item in now.objects.items():
            np.testing.assert_allclose(follower.objects[key].X_WO, item.X_WO, atol=1e-9)
        for key, body in now.attached.items():
            assert follower.attached[key].link == body.link
            np.testing.assert_allclose(follower.attached[key].X_LO, body.X_LO, atol=1e-9)
        for key in names:
            allowed = now.allowed.allows(key, "panda_hand")
            assert follower.allowed.allows(key, "panda_hand") == allowed
    assert told > 60


def test_a_whole_scene_is_taken_whole_or_not_at_all(messages):
    scene = filled(messages)
    message = messages.message(scene, {})
    message.world.collision_objects[2].primitives[0].dimensions[0] = nan
    after, findings = messages.apply(scene, message)
    assert after is scene
    assert not findings.success
    empty, findings = messages.apply(scene, requests.emptied(messages.message(scene, {})))
    assert findings.success
    assert not empty.objects
    assert not empty.attached
    # Of a change what is right is carried out.
    bad, good = requests.sphere("x", nan, (0, 0, 0)), requests.sphere("y", 0.1, (0, 0, 0))
    after, findings = messages.apply(scene, requests.diff(bad, good))
    assert not findings.success
    assert set(after.objects) - set(scene.objects) == {"y"}


def test_world_messages_replace_the_world_only(messages):
    scene = filled(messages)
    only = PlanningSceneWorld(collision_objects=[requests.sphere("one", 0.1, (1.0, 0.0, 0.0))])
    after, findings = messages.apply(scene, only)
    assert findings.success
    assert set(after.objects) == {"one"}
    assert after.attached == scene.attached
    only.collision_objects.append(requests.sphere("two", 0.0, (1.0, 0.0, 0.0)))
    assert messages.apply(scene, only)[0] is scene


def test_attaching_with_the_removal_that_moveits_tutorial_sends_too(messages):
    scene = done(messages, Scene(), requests.box("box", (0.05,) * 3, (0.5, 0.0, 0.4)))
    taken = requests.attached("box", HAND)
    taken.object = requests.box("box", (0.05,) * 3, (0.0, 0.0, 0.1), frame=HAND)
    after, findings = messages.apply(
        scene, requests.diff(requests.removed("box"), attached=[taken])
    )
    assert findings.success
    assert set(after.attached) == {"box"}
    assert not after.objects


def test_a_robot_state_that_is_no_change_tells_all_that_is_attached(messages):
    scene = done(
        messages,
        Scene(),
        requests.sphere("a", 0.1, (1.0, 0.0, 0.0)),
        requests.sphere("b", 0.1, (2.0, 0.0, 0.0)),
        requests.attached("a", HAND),
    )
    message = requests.diff(attached=[requests.attached("b", HAND)])
    assert set(messages.apply(scene, message)[0].attached) == {"a", "b"}
    message.robot_state.is_diff = False
    assert set(messages.apply(scene, message)[0].attached) == {"b"}
    message = requests.diff(attached=[requests.detached("a")])
    message.robot_state.is_diff = False
    after, findings = messages.apply(scene, message)
    assert after is scene
    assert "must be marked as a change" in findings.refused[0]


def test_components(messages):
    scene = filled(messages)
    positions = dict(zip(FRANKA.joint_names, FRANKA.home.tolist(), strict=True))
    C = PlanningSceneComponents
    everything = messages.message(scene, positions, 0)
    assert len(everything.world.collision_objects) == 6
    assert everything.robot_state.joint_state.position.tolist() == list(positions.values())
    assert [a.object.id for a in everything.robot_state.attached_collision_objects] == ["can"]
    assert len(everything.object_colors) == 7
    assert everything.robot_model_name == "franka"
    names = messages.message(scene, positions, C.WORLD_OBJECT_NAMES)
    assert {o.id for o in names.world.collision_objects} == set(scene.objects) - {"hidden"}
    assert not any(o.primitives or o.meshes for o in names.world.collision_objects)
    assert not names.robot_state.joint_state.name
    assert not names.allowed_collision_matrix.entry_names
    state = messages.message(scene, positions, C.ROBOT_STATE)
    assert state.robot_state.joint_state.name
    assert not state.robot_state.attached_collision_objects
    matrix = messages.message(scene, positions, C.ALLOWED_COLLISION_MATRIX)
    assert set(messages.links) <= set(matrix.allowed_collision_matrix.entry_names)
    assert not matrix.world.collision_objects


def test_letting_the_whole_robot_touch_something_as_pymoveit2_does(messages):
    scene = done(messages, Scene(), requests.box("box", (0.1,) * 3, (0.5, 0.0, 0.2)))
    for allow in (True, False, True):
        sent = requests.with_collisions_allowed(messages.message(scene, {}), "box", allow)
        after, findings = messages.apply(scene, sent)
        assert findings.success
        assert all(after.allowed.allows("box", link) == allow for link in messages.links)
        assert after.objects["box"] is scene.objects["box"]
        scene = after
    # Its neighbours in the tree need no word, and what is said of the object goes with it.
    assert len(scene.allowed.pairs) == len(messages.links)
    assert not done(messages, scene, requests.removed("box")).allowed.pairs


def test_pairs_of_links_that_are_never_checked(messages):
    assert pair_of("panda_link3", "panda_link4") in messages.never_checked
    assert pair_of("panda_link5", "panda_link7") in messages.never_checked
    assert pair_of("panda_link0", "panda_hand") not in messages.never_checked
    matrix = messages.message(Scene(), {}).allowed_collision_matrix
    names = list(matrix.entry_names)
    row = matrix.entry_values[names.index("panda_link3")].enabled
    assert row[names.index("panda_link4")]
    assert not row[names.index("panda_hand")]
    assert allowed_from(matrix, messages.never_checked) == AllowedCollisions()


@given(data=st.data())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_a_matrix_says_for_each_pair_what_it_says(data):
    names = ["a", "b", "c", "d"]
    rows = data.draw(st.lists(st.lists(st.booleans(), min_size=4, max_size=4),
                              min_size=4, max_size=4))  # fmt: skip
    table = np.triu(np.array(rows)) | np.triu(np.array(rows), 1).T
    defaults = data.draw(st.dictionaries(st.sampled_from([*names, "e"]), st.booleans()))
    message = AllowedCollisionMatrix(
        entry_names=names,
        entry_values=[AllowedCollisionEntry(enabled=row) for row in table.tolist()],
        default_entry_names=list(defaults),
        default_entry_values=list(defaults.values()),
    )
    said = allowed_from(message)
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            if i != j:
                assert said.allows(a, b) == table[i, j]
    assert said.allows("e", "f") == defaults.get("e", False)


@pytest.mark.parametrize(
    "matrix",
    [
        AllowedCollisionMatrix(entry_names=["a", "b"]),
        AllowedCollisionMatrix(
            entry_names=["a", "b"],
            entry_values=[AllowedCollisionEntry(enabled=[True])] * 2,
        ),
        AllowedCollisionMatrix(default_entry_names=["a"]),
    ],
)
def test_bad_matrices(messages, matrix):
    scene = filled(messages)
    message = PlanningScene(is_diff=True, allowed_collision_matrix=matrix)
    after, findings = messages.apply(scene, message)
    assert after is scene
    assert "allowed collision matrix" in findings.refused[0]


def test_colours_padding_octomaps_models_and_fixed_frames(messages):
    scene = done(messages, Scene(), requests.box("box", (0.1,) * 3, (0.5, 0.0, 0.2)))
    message = requests.diff()
    message.object_colors = [
        ObjectColor(id="box", color=ColorRGBA(r=1.0, g=0.5, b=0.0, a=1.0)),
        ObjectColor(id="gone", color=ColorRGBA(r=1.0)),
    ]
    after, findings = messages.apply(scene, message)
    assert findings.success
    assert after.objects["box"].rgba == (1.0, 0.5, 0.0, 1.0)
    again = done(messages, after, requests.box("box", (0.2,) * 3, (0.5, 0.0, 0.2)))
    assert again.objects["box"].rgba == (1.0, 0.5, 0.0, 1.0)
    message.object_colors[0].color.r = nan
    after, findings = messages.apply(scene, message)
    assert "must be from 0 to 1" in findings.warnings[0]
    assert after is scene
    message = requests.diff()
    message.link_padding = [LinkPadding(link_name="panda_hand", padding=0.1)]
    message.world.octomap.octomap.data = [1, 2]
    message.robot_model_name = "ur10e"
    after, findings = messages.apply(scene, message)
    assert after is scene
    assert [text.split()[0] for text in findings.refused] == ["octomaps", "padding"]
    assert "this is 'franka'" in findings.warnings[0]
    table = TransformStamped(child_frame_id="table")
    table.header.frame_id = "panda_link0"
    table.transform.translation.x = 2.0
    message = requests.diff(requests.sphere("ball", 0.1, (0.5, 0.0, 0.0), frame="table"))
    message.fixed_frame_transforms = [table]
    after, findings = messages.apply(scene, message)
    assert findings.success
    assert after.objects["ball"].X_WO[0, 3] == pytest.approx(2.5)
    table.header.frame_id = "moon"
    table.child_frame_id = "crater"
    assert "'crater' is not used" in messages.apply(scene, message)[1].warnings[0]


def test_ten_thousand_objects_in_one_message(messages):
    sent = [requests.sphere(f"o{i}", 0.01, (i * 0.01, 0.0, 0.0)) for i in range(10_000)]
    scene, findings = messages.apply(Scene(), requests.diff(*sent))
    assert findings.success
    assert len(scene.objects) == 10_000
    after = done(messages, scene, requests.moved("o77", (0.0, 0.0, 1.0)))
    assert difference(scene, after).moved == ("o77",)


def test_frames_with_a_prefix_are_the_robots_own(robot):
    """As several robots share one /tf."""
    frames = SceneFrames(KINEMATICS, RobotFrames(KINEMATICS, Tree(), "left"), robot.positions)
    messages = SceneMessages(FRANKA, frames)
    scene = done(
        messages,
        Scene(),
        requests.sphere("a", 0.1, (0.0, 0.0, 0.1), frame="left/panda_hand_tcp"),
        requests.sphere("b", 0.1, (0.5, 0.0, 0.0), frame="left/panda_link0"),
        requests.attached("b", "left/panda_hand", ["left/panda_leftfinger"]),
    )
    want = robot.pose(HAND) @ from_xyz_rpy((0.0, 0.0, 0.1))
    np.testing.assert_allclose(scene.objects["a"].X_WO, want, atol=1e-12)
    body = scene.attached["b"]
    assert (body.link, body.touch_links) == ("panda_hand", {"panda_leftfinger"})
    other = requests.sphere("c", 0.1, (0.0, 0.0, 0.0), frame="right/panda_hand_tcp")
    assert "right/panda_hand_tcp" in refused(messages, scene, other)

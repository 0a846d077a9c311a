# SPDX-License-Identifier: Apache-2.0
"""Scene messages to and from scenes: shapes, operations, frames, scenery, faults."""

import copy
import math

import numpy as np
import pytest
import scene_requests as requests
from geometry_msgs.msg import Point, Pose
from hypothesis import given, settings
from hypothesis import strategies as st
from moveit_msgs.msg import CollisionObject, PlanningScene, PlanningSceneWorld
from scene_translation import (  # noqa: F401
    FRANKA,
    HAND,
    KINEMATICS,
    X_B_SHELF,
    Robot,
    Tree,
    corner_cloud,
    done,
    refused,
)
from shape_msgs.msg import Mesh, MeshTriangle, Plane, SolidPrimitive
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import Scene, difference
from motion_nodes.core.scene.scenery import FLOOR, floor_of
from motion_nodes.core.scene.shapes import Cone, HalfSpace, TriangleMesh, bounding_radius
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.scene.scene_messages import SceneMessages
from motion_nodes.ros.scene.scene_update import SceneFrames


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
    np.testing.assert_array_equal(item.parts[1].X_OS, np.eye(4), err_msg="those that lack one")


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
    assert "has 1 shapes, but the MOVE has 2 poses" in refused(messages, scene, move)


def test_poses_of_shapes_that_were_appended_are_given_by_type(messages):
    first = requests.box("rack", (0.1,) * 3, (0.0, 0.0, 0.0))
    first.meshes = requests.cube_mesh("rack", 0.1, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)).meshes
    more = requests.sphere("rack", 0.05, (0.0, 0.0, 0.0), operation=CollisionObject.APPEND)
    move = requests.moved("rack", (0.0, 0.0, 0.0))
    move.primitive_poses = [pose_message(from_xyz_rpy((x, 0.0, 0.0))) for x in (1.0, 2.0)]
    move.mesh_poses = [pose_message(from_xyz_rpy((3.0, 0.0, 0.0)))]
    parts = done(messages, Scene(), first, more, move).objects["rack"].parts
    found = {type(part.solid): part.X_OS[0, 3] for part in parts}
    assert found == {Box: 1.0, Sphere: 2.0, TriangleMesh: 3.0}


def test_a_plane_keeps_its_coefficients_when_it_moves(messages):
    """A vertical wall at x = 0.5 must not become the floor."""
    wall = CollisionObject(id="wall", planes=[Plane(coef=[1.0, 0.0, 0.0, -0.5])])
    scene = done(messages, Scene(), wall)
    move = CollisionObject(id="wall", operation=CollisionObject.MOVE, plane_poses=[Pose()])
    assert "plane" in refused(messages, scene, move)
    scene = done(messages, scene, requests.moved("wall", (0.2, 0.0, 0.0)))
    item = scene.objects["wall"]
    X = item.X_WO @ item.parts[0].X_OS
    np.testing.assert_allclose(X[:3, 2], (1.0, 0.0, 0.0), atol=1e-12)
    assert X[0, 3] == pytest.approx(0.7)


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
        "'bb' cannot be removed: it is not in the world. Did you mean 'b'?" in findings.warnings[0]
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
    assert "it is not attached" in findings.warnings[0]
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
        (requests.box("box", (0.1,) * 3, (1e9, 0.0, 0.2)), "position.x is 1e+09; allowed is"),
        (zero_quaternion(), "not a rotation"),
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
        (broken(planes=[Plane(coef=[0.0, 0.0, 0.0, 1.0])]), "non-zero normal"),
        (broken(planes=[Plane(coef=[0.0, nan, 1.0, 1.0])]), "must be finite"),
        (requests.moved("bax", (0.0, 0.0, 0.0)), "no object 'bax'. Did you mean 'box'?"),
        (requests.moved("tool", (0.0, 0.0, 0.0)), "attached to panda_hand_tcp; detach it first"),
        (requests.sphere("tool", 0.1, (0.0, 0.0, 0.0)), "attached to panda_hand_tcp; detach it"),
        (requests.attached("ball", HAND), "not an object of the world"),
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


def test_unknown_touch_links_are_told(messages):
    scene = done(messages, Scene(), requests.box("box", (0.1,) * 3, (0.5, 0.0, 0.2)))
    message = requests.attached("box", HAND, ["panda_leftfinger", "panda_thumb"])
    scene, findings = messages.apply(scene, message)
    assert scene.attached["box"].touch_links == {"panda_leftfinger"}
    assert "'panda_thumb' is not known" in findings.warnings[0]


def cup(names=("handle",), poses=1, xyz=(0.5, 0.0, 0.2)):
    """Return a box with subframes, the first one 0.1 m above its center."""
    named = requests.box("cup", (0.1,) * 3, xyz)
    named.subframe_names = list(names)
    named.subframe_poses = [
        pose_message(from_xyz_rpy((0.0, 0.0, 0.1 * (i + 1)))) for i in range(poses)
    ]
    return named


def test_subframes_are_frames_and_follow_their_object_from_world_to_hand_and_back(messages, robot):
    scene = done(messages, Scene(), cup())
    ball = requests.sphere("ball", 0.01, (0.0, 0.0, 0.0), frame="cup/handle")
    assert np.allclose(done(messages, scene, ball).objects["ball"].X_WO[:3, 3], (0.5, 0.0, 0.3))
    held = done(messages, scene, requests.attached("cup", HAND))
    X_BL, body = KINEMATICS.pose(robot.q, HAND), held.attached["cup"]
    in_hand = done(messages, held, ball).objects["ball"]
    assert np.allclose(in_hand.X_WO[:3, 3], (X_BL @ body.X_LO)[:3, 3] + (0.0, 0.0, 0.1))
    again = messages.apply(scene, cup())[0]
    assert again is scene, "equal subframes are no change"
    # A follower's copy has them too.
    copied = done(messages, Scene(), messages.message(held, {}))
    assert [frame.name for frame in copied.attached["cup"].subframes] == ["handle"]
    back = requests.attached("cup", HAND)
    back.object.operation = CollisionObject.REMOVE
    freed = done(messages, held, back)
    assert freed.objects["cup"].subframes == scene.objects["cup"].subframes
    changed = done(messages, scene, cup(("rim", "handle"), 2))
    assert difference(scene, changed).changed == ("cup",)


@pytest.mark.parametrize("names", [("a",), ("a", "a"), ("a/b", "c"), ("", "c")])
def test_invalid_subframes_are_refused(messages, names):
    assert "subframe" in refused(messages, Scene(), cup(names, 2))


def test_unused_fields_of_attached_objects_are_named(messages):
    message = requests.attached("cup", HAND)
    message.object, message.weight = cup(), 0.3
    message.detach_posture.points = [JointTrajectoryPoint()]
    warnings = " ".join(messages.apply(Scene(), message)[1].warnings)
    assert "weight" in warnings
    assert "detach_posture" in warnings


SCENERY = floor_of(FRANKA)


@pytest.fixture
def owner():
    """Message handling of an owner of a scene with a floor."""
    frames = SceneFrames(KINEMATICS, RobotFrames(KINEMATICS, Tree(), ""), lambda: FRANKA.home)
    return SceneMessages(FRANKA, frames, "owner", SCENERY)


def floor_stands(scene) -> bool:
    return FLOOR in scene.objects and scene.allowed.allows("panda_link0", FLOOR)


@pytest.mark.parametrize(
    "message",
    [
        PlanningScene(),
        PlanningSceneWorld(),
        requests.removed(""),
        requests.diff(requests.removed("")),
    ],
)
def test_what_removes_everything_leaves_the_floor_and_says_so(owner, message):
    before, _ = owner.apply(SCENERY.scene(), requests.box("box", (0.1, 0.1, 0.1), (0.5, 0.0, 0.5)))
    assert set(before.objects) == {"box", FLOOR}
    after, findings = owner.apply(before, message)
    assert set(after.objects) == {FLOOR}
    assert floor_stands(after)
    assert findings.success
    assert any(f"'{FLOOR}'" in text for text in findings.warnings)


def test_a_scene_that_was_got_and_is_sent_back_changes_nothing(owner):
    scene = SCENERY.scene()
    message = owner.message(scene, {})
    after, findings = owner.apply(scene, message)
    assert after is scene
    assert not findings.refused
    assert not findings.warnings
    emptied, findings = owner.apply(scene, requests.emptied(message))
    assert floor_stands(emptied)
    assert findings.warnings


def test_a_matrix_that_forgets_the_foot_does_not_block_the_robot(owner):
    message = owner.message(SCENERY.scene(), {})
    for entry in message.allowed_collision_matrix.entry_values:
        entry.enabled = [False] * len(entry.enabled)
    after, _ = owner.apply(SCENERY.scene(), message)
    assert floor_stands(after)


@pytest.mark.parametrize("whole", [False, True])
def test_it_is_removed_by_its_name_and_stays_away(owner, whole):
    message = PlanningScene(is_diff=not whole)
    message.robot_state.is_diff = True
    message.world.collision_objects = [requests.removed(FLOOR)]
    after, findings = owner.apply(SCENERY.scene(), message)
    assert not after.objects
    assert not any(FLOOR in pair for pair in after.allowed.pairs)
    assert not findings.warnings
    again, findings = owner.apply(after, PlanningScene())
    assert not again.objects
    assert not findings.warnings


def test_it_can_be_replaced_and_not_be_moved(owner):
    scene, findings = owner.apply(SCENERY.scene(), requests.moved(FLOOR, (0.0, 0.0, 0.1)))
    assert findings.refused
    assert scene.objects[FLOOR] is SCENERY.objects[FLOOR]
    lower = CollisionObject(id=FLOOR, planes=[Plane(coef=[0.0, 0.0, 1.0, 0.2])])
    scene, findings = owner.apply(scene, lower)
    assert not findings.refused
    X = scene.objects[FLOOR].X_WO @ scene.objects[FLOOR].parts[0].X_OS
    np.testing.assert_allclose(X, from_xyz_rpy((0.0, 0.0, -0.2)), atol=1e-12)
    assert floor_stands(scene)


def test_who_follows_gets_it_with_what_may_touch_it(owner):
    frames = SceneFrames(KINEMATICS, RobotFrames(KINEMATICS, Tree(), ""), lambda: FRANKA.home)
    follower = SceneMessages(FRANKA, frames)
    message = owner.message(SCENERY.scene(), {})
    followed, findings = follower.apply(floor_of(FRANKA, -1.0).scene(), message)
    assert not findings.refused
    assert floor_stands(followed)
    assert followed.objects[FLOOR].kind == SCENERY.objects[FLOOR].kind

# SPDX-License-Identifier: Apache-2.0
"""Round trips of full scenes, diffs and matrices as messages; and invalid messages."""

import dataclasses
import math

import numpy as np
import pytest
import scene_requests as requests
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from hypothesis import given, settings
from hypothesis import strategies as st
from moveit_msgs.msg import (
    AllowedCollisionEntry,
    AllowedCollisionMatrix,
    LinkPadding,
    LinkScale,
    ObjectColor,
    PlanningScene,
    PlanningSceneComponents,
    PlanningSceneWorld,
)
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
from std_msgs.msg import ColorRGBA

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import (
    AllowedCollisions,
    LinkMargin,
    Scene,
    difference,
    pair_of,
    world_object,
)
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, triangle_mesh
from motion_nodes.core.scene.voxels import OCTOMAP, voxels
from motion_nodes.core.scene.world import World
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.scene.scene_messages import SceneMessages, allowed_from
from motion_nodes.ros.scene.scene_update import SceneFrames, octomap_message

nan = math.nan


def filled(messages):
    """Return a scene with all kinds of contents."""
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
        item = world_object(name, solid, X, rgba=(0.5, 0.25, 0.0, 1.0))
        world.add(dataclasses.replace(item, kind="thing\n{}"))
    world.add(dataclasses.replace(world_object("hidden", Sphere(1.0)), enabled=False))
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
    # The same scene again is no change.
    assert messages.apply(back, messages.message(back, {}))[0] is back


def test_diffs_lead_another_scene_along(messages, robot):
    """Random changes, sent as diffs only; the follower does not need the state of the robot."""
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
    # The valid part of a diff is applied.
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
    assert "must be a diff" in findings.refused[0]


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
    # Adjacent links need no entries, and entries of the object are removed with it.
    assert len(scene.allowed.pairs) == len(messages.links)
    assert not done(messages, scene, requests.removed("box")).allowed.pairs


def test_pairs_of_links_that_are_never_checked(messages):
    assert pair_of("panda_link3", "panda_link4") in messages.never_checked
    assert pair_of("panda_leftfinger", "panda_rightfinger") in messages.never_checked
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
            entry_names=["a", "b"], entry_values=[AllowedCollisionEntry(enabled=[True])] * 2
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


def test_padding_and_scale_are_kept_published_and_removed(messages):
    message = requests.diff()
    message.link_padding = [LinkPadding(link_name="panda_hand", padding=0.1)]
    message.link_scale = [LinkScale(link_name="panda_hand", scale=1.5)]
    message.link_scale += [LinkScale(link_name="panda_link5", scale=1.0)]
    scene = done(messages, Scene(), message)
    assert dict(scene.margins) == {"panda_hand": LinkMargin(0.1, 1.5)}
    # A follower's copy, by the full scene and by diffs.
    copied = done(messages, Scene(), messages.message(scene, {}))
    assert copied.margins == scene.margins
    off = requests.diff()
    off.link_padding = [LinkPadding(link_name="panda_hand")]
    off.link_scale = [LinkScale(link_name="panda_hand", scale=1.0)]
    after = done(messages, scene, off)
    assert not after.margins
    diff = messages.diff_message(after, difference(scene, after))
    assert not done(messages, copied, diff).margins
    fresh = PlanningScene()
    fresh.robot_state.is_diff = True
    assert not messages.apply(scene, fresh)[0].margins, "a full scene replaces them"


@pytest.mark.parametrize(("padding", "scale"), [(nan, 1.0), (-0.1, 1.0), (1e3, 1.0), (0.0, 0.0)])
def test_invalid_margins_are_refused(messages, padding, scale):
    message = requests.diff()
    message.link_padding = [LinkPadding(link_name="panda_hand", padding=padding)]
    message.link_scale = [LinkScale(link_name="panda_hand", scale=scale)]
    after, findings = messages.apply(Scene(), message)
    assert not after.margins
    assert findings.refused
    message.link_padding = [LinkPadding(link_name="panda_thumb", padding=0.01)]
    assert "panda_thumb" in messages.apply(Scene(), message)[1].refused[0]


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
    message.link_padding = [LinkPadding(link_name="panda_hand", padding=-0.1)]
    message.world.octomap.octomap.data = [1, 2]
    message.robot_model_name = "ur10e"
    after, findings = messages.apply(scene, message)
    assert after is scene
    assert [text.split()[0] for text in findings.refused] == ["link_padding:", "octomap:"]
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
    assert "'crater' is ignored" in messages.apply(scene, message)[1].warnings[0]
    table.header.frame_id = "panda_link0"
    for number in (nan, math.inf, 1e300):
        table.transform.translation.x = number
        message = requests.diff(requests.sphere("ball", 0.1, (0.5, 0.0, 0.0), frame="crater"))
        message.fixed_frame_transforms = [table]
        after, findings = messages.apply(scene, message)
        assert after is scene
        assert not findings.success


def octomap(solid, frame="panda_link0", x=0.0, binary=True):
    message = requests.diff()
    message.world.octomap.header.frame_id = frame
    message.world.octomap.origin.position.x = x
    message.world.octomap.octomap = octomap_message(solid, frame, Time(), 0.05, binary)
    return message


@pytest.mark.parametrize("binary", [True, False])
def test_octomaps_there_and_back(messages, binary):
    made = voxels(0.05, np.random.default_rng(1).integers(4, 15, (200, 3)))
    scene = done(messages, Scene(), octomap(made, x=0.1, binary=binary))
    item = scene.objects[OCTOMAP]
    assert item.parts[0].solid.equals(made)
    assert item.X_WO[:3, 3].tolist() == [0.1, 0.0, 0.0]
    assert done(messages, scene, octomap(made, x=0.1)) is scene
    whole = messages.message(scene, {})
    assert not whole.world.collision_objects
    assert done(messages, Scene(), whole).objects[OCTOMAP].parts[0].solid.equals(made)
    other = done(messages, scene, octomap(voxels(0.05, [[1, 2, 3]])))
    change = messages.diff_message(other, difference(scene, other))
    followed = done(messages, scene, change).objects[OCTOMAP]
    assert followed.parts[0].solid.cells.tolist() == [[1, 2, 3]]
    gone = done(messages, other, octomap(None))
    assert OCTOMAP not in gone.objects
    change = messages.diff_message(gone, difference(other, gone))
    assert OCTOMAP not in done(messages, other, change).objects
    names = PlanningSceneComponents(components=PlanningSceneComponents.OCTOMAP)
    only = messages.message(scene, {}, names.components)
    assert only.world.octomap.octomap.data
    assert not only.name


def test_bad_octomaps(messages):
    scene = done(messages, Scene(), octomap(voxels(0.05, [[1, 2, 3]])))
    for change in (
        lambda m: setattr(m.octomap, "id", "Quadtree"),
        lambda m: setattr(m.octomap, "resolution", nan),
        lambda m: setattr(m.octomap, "resolution", 0.0),
        lambda m: setattr(m.octomap, "data", [3] * 77),
        lambda m: setattr(m.octomap, "binary", False),
        lambda m: setattr(m.header, "frame_id", "moon"),
        lambda m: setattr(m.origin.position, "y", nan),
        lambda m: setattr(m.origin.orientation, "w", 0.0),
    ):
        message = octomap(voxels(0.05, [[3, 3, 3]]))
        change(message.world.octomap)
        after, findings = messages.apply(scene, message)
        assert after is scene
        assert findings.refused


def test_ten_thousand_objects_in_one_message(messages):
    sent = [requests.sphere(f"o{i}", 0.01, (i * 0.01, 0.0, 0.0)) for i in range(10_000)]
    scene, findings = messages.apply(Scene(), requests.diff(*sent))
    assert findings.success
    assert len(scene.objects) == 10_000
    after = done(messages, scene, requests.moved("o77", (0.0, 0.0, 1.0)))
    assert difference(scene, after).moved == ("o77",)


def test_frames_with_a_prefix_are_the_robots_own(robot):
    """As with several robots on one /tf."""
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

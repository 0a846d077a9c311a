# SPDX-License-Identifier: Apache-2.0
"""Scenery in messages: replacing or removing all objects keeps it, with a warning."""

from __future__ import annotations

import numpy as np
import pytest
import scene_requests as requests
from moveit_msgs.msg import CollisionObject, PlanningScene, PlanningSceneWorld
from scene_translation import FRANKA, KINEMATICS, Tree
from shape_msgs.msg import Plane

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.scenery import FLOOR, floor_of
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.scene_messages import SceneMessages
from motion_nodes.ros.scene.scene_update import SceneFrames

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

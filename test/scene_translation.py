# SPDX-License-Identifier: Apache-2.0
"""Translation of a Franka's scene messages, for tests without nodes."""

import numpy as np
import pytest

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import MotionError, UnknownFrame
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.scene.scene_messages import SceneMessages
from motion_nodes.ros.scene.scene_update import SceneFrames

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
    """Return the scene after messages, which must have no errors or warnings."""
    for message in sent:
        scene, findings = messages.apply(scene, message)
        assert findings.success, findings.refused
        assert not findings.warnings
    return scene


def refused(messages, scene, message):
    """Return the errors about a message, which must not change the scene."""
    after, findings = messages.apply(scene, message)
    assert after is scene
    (text,) = findings.refused
    return text


def corner_cloud(item):
    """Return points of an object's parts in the world, independent of its description."""
    points = np.array([(x, y, z, 1.0) for x in (-1, 1) for y in (-1, 0.5) for z in (-1, 2.0)])
    return np.concatenate([points @ (item.X_WO @ part.X_OS).T for part in item.parts])

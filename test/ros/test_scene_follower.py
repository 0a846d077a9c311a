# SPDX-License-Identifier: Apache-2.0
"""A copy of another node's planning scene: scenes that are readable in part, lost services."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import scene_requests as requests
from moveit_msgs.msg import CollisionObject, PlanningScene
from moveit_msgs.srv import GetPlanningScene
from rclpy.task import Future
from scene_translation import FRANKA, KINEMATICS
from shape_msgs.msg import SolidPrimitive

from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene import scene_follower
from motion_nodes.ros.scene.scene_follower import SceneFollower


class Owner:
    """Stands for the topic and the service of a scene's owner."""

    publishers = 1

    def __init__(self) -> None:
        self.available = True
        self.requests: list[Future] = []
        self.warnings: list[str] = []
        self._sent: list[tuple[PlanningScene, int]] = []
        self._number = 0

    def publish(self, *objects: CollisionObject) -> None:
        """Send a diff."""
        self._number += 1
        self._sent.append((requests.diff(*objects), self._number))

    def respond(self, *objects: CollisionObject) -> None:
        """Respond to the newest request with a complete scene."""
        response = GetPlanningScene.Response()
        response.scene.world.collision_objects = list(objects)
        self.requests[-1].set_result(response)

    def numbered(self) -> list[tuple[PlanningScene, int]]:
        sent, self._sent = self._sent, []
        return sent

    def service_is_ready(self) -> bool:
        return self.available

    def call_async(self, _request: Any) -> Future:
        self.requests.append(Future())
        return self.requests[-1]

    def remove_pending_request(self, _future: Future) -> None:
        pass

    def create_client(self, *_: Any, **__: Any) -> Owner:
        return self

    def warn(self, _kind: str, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """The time of the follower, which the test advances."""
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(scene_follower, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


@pytest.fixture
def follower(owner, clock, monkeypatch) -> SceneFollower:
    monkeypatch.setattr(scene_follower, "PolledSubscription", lambda *_: owner)
    return SceneFollower(owner, FRANKA, KINEMATICS, RobotFrames(KINEMATICS, None, ""))


def prism(name: str) -> CollisionObject:
    return requests.primitive(name, SolidPrimitive.PRISM, (0.1, 0.1))


def box(name: str) -> CollisionObject:
    return requests.box(name, (0.1, 0.1, 0.1), (0.5, 0.0, 0.2))


def test_an_object_that_cannot_be_read_hides_no_others(owner, clock, follower):
    """MoveIt's scenes may contain shapes that are not supported here."""
    follower.update()
    owner.respond(box("a"), prism("b"), box("c"))
    follower.update()
    assert set(follower.world.scene.objects) == {"a", "c"}
    assert follower.synchronised
    assert "'b'" in follower.note, "clients are told what was not checked"
    assert any("'b'" in text for text in owner.warnings)
    owner.publish(requests.removed("b"))
    clock.now += 10.0
    follower.update()
    owner.respond(box("a"), box("c"))
    follower.update()
    assert follower.synchronised
    assert not follower.note


def test_a_change_that_cannot_be_read_is_reported_to_clients(owner, clock, follower):
    follower.update()
    owner.respond(box("a"))
    follower.update()
    assert not follower.note
    owner.publish(prism("b"))
    clock.now += 10.0
    follower.update()
    assert not follower.synchronised
    owner.respond(box("a"), prism("b"))
    follower.update()
    assert "'b'" in follower.note


def test_a_complete_scene_replaces_the_copy(owner, clock, follower):
    follower.update()
    owner.respond(box("a"), box("b"))
    follower.update()
    kept = follower.world.scene.objects["b"]
    owner.available = False
    clock.now += 10.0
    follower.update()
    assert not follower.synchronised
    owner.available = True
    clock.now += 10.0
    follower.update()
    owner.respond(box("b"), box("c"))
    follower.update()
    assert set(follower.world.scene.objects) == {"b", "c"}
    assert follower.world.scene.objects["b"] is kept, "an equal object is not a change"


def test_diffs_are_not_kept_for_a_service_that_is_gone(owner, clock, follower):
    follower.update()
    assert len(owner.requests) == 1
    owner.available = False
    for _ in range(20):
        clock.now += 1.0
        owner.publish(box("a"))
        follower.update()
    assert len(follower._since) <= 1
    owner.available = True
    clock.now += 10.0
    follower.update()
    assert len(owner.requests) == 2

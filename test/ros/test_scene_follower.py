# SPDX-License-Identifier: Apache-2.0
"""Copies of another node's planning scene, and the order of its messages."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scene_requests as requests
from moveit_msgs.msg import CollisionObject, PlanningScene
from moveit_msgs.srv import GetPlanningScene
from rclpy.task import Future
from scene_translation import FRANKA, HAND, KINEMATICS, messages, robot  # noqa: F401
from shape_msgs.msg import SolidPrimitive

from motion_nodes.core.scene.scene import Scene
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.scene import scene_follower
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.scene.scene_messages import OBJECT_TIMEOUT, Arrivals, EarlyAttachments


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
def owner():
    return Owner()


@pytest.fixture
def clock(monkeypatch):
    """The time of the follower, which the test advances."""
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(scene_follower, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


@pytest.fixture
def follower(owner, clock, monkeypatch):
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


BOX = requests.box("box", (0.1, 0.1, 0.1), (0.5, 0.0, 0.3))
MOVED = requests.moved("box", (0.5, 0.1, 0.3))
ATTACHED = requests.attached("box", HAND)


class Topic:
    """A topic that may receive messages while others are read."""

    def __init__(self) -> None:
        self.waiting: list[tuple[str, int]] = []
        self.looked_at = lambda: None

    def come(self, message: str) -> None:
        self.waiting.append((message, time.time_ns()))

    def times(self) -> list[tuple[str, int, int]]:
        taken, self.waiting = self.waiting, []
        self.looked_at()
        return [(message, 0, arrived) for message, arrived in taken]


def test_messages_of_several_topics_keep_their_order():
    first, second = Topic(), Topic()
    for message, topic in zip("abcdef", itertools.cycle([second, first, first]), strict=False):
        topic.come(message)
    assert "".join(Arrivals([first, second]).take()) == "abcdef"


def test_what_comes_while_topics_are_looked_at_is_held_back():
    """The object arrives on a topic already read, its attachment on one not yet read."""
    objects, attached = Topic(), Topic()
    arrivals = Arrivals([objects, attached])

    def meanwhile() -> None:
        objects.looked_at = lambda: None
        objects.come("object")
        attached.come("attachment")

    objects.looked_at = meanwhile
    assert arrivals.take() == []
    attached.come("later")
    assert arrivals.take() == ["object", "attachment", "later"]
    assert arrivals.take() == []


def test_a_clock_that_is_put_back_holds_nothing_for_long():
    topic = Topic()
    topic.waiting.append(("ahead", time.time_ns() + 3600 * 10**9))
    arrivals = Arrivals([topic])
    assert arrivals.take() == []
    assert arrivals.take() == ["ahead"]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock_of_message_order():
    return Clock()


@pytest.fixture
def early(clock_of_message_order):
    return EarlyAttachments(clock_of_message_order)


@pytest.mark.parametrize("order", list(itertools.permutations([BOX, ATTACHED])))
@pytest.mark.parametrize("together", [True, False])
def test_attached_in_whichever_order_they_come(messages, early, order, together):  # noqa: F811
    scene = Scene()
    for batch in [order] if together else [[message] for message in order]:
        scene, findings = messages.apply(scene, *batch, early=early)
        assert findings.success, findings.refused
    assert list(scene.attached) == ["box"]
    assert not scene.objects
    assert not early.given_up()


def test_the_object_is_moved_before_it_is_taken_up(messages, early):  # noqa: F811
    in_order, _ = messages.apply(Scene(), BOX, MOVED, ATTACHED, early=early)
    late, findings = messages.apply(Scene(), ATTACHED, BOX, MOVED, early=early)
    assert findings.success
    np.testing.assert_allclose(late.attached["box"].X_LO, in_order.attached["box"].X_LO)


def test_it_is_said_that_it_waits_and_that_it_is_given_up(messages, early, clock_of_message_order):  # noqa: F811
    scene, findings = messages.apply(Scene(), ATTACHED, early=early)
    assert findings.success
    assert "'box' is attached as soon as it is added" in findings.warnings[0]
    clock_of_message_order.now = 0.9 * OBJECT_TIMEOUT
    assert not early.given_up()
    clock_of_message_order.now = 1.1 * OBJECT_TIMEOUT
    given_up = early.given_up()
    assert given_up == [ATTACHED]
    _, findings = messages.apply(scene, *given_up)
    assert "is not an object of the world" in findings.refused[0]
    scene, _ = messages.apply(scene, BOX, early=early)
    assert list(scene.objects) == ["box"], "it came too late"


@pytest.mark.parametrize("name", ["box", ""])
def test_what_waits_can_be_taken_back(messages, early, name):  # noqa: F811
    scene, _ = messages.apply(Scene(), ATTACHED, requests.detached(name), early=early)
    scene, _ = messages.apply(scene, BOX, early=early)
    assert list(scene.objects) == ["box"]


def test_another_is_not_taken_back_and_a_whole_scene_forgets_all(messages, early):  # noqa: F811
    scene, _ = messages.apply(Scene(), ATTACHED, requests.detached("ball"), BOX, early=early)
    assert list(scene.attached) == ["box"]
    whole = requests.diff()
    whole.is_diff = False
    scene, _ = messages.apply(Scene(), ATTACHED, whole, BOX, early=early)
    assert list(scene.objects) == ["box"]


def test_without_anything_to_wait_by_it_is_refused(messages):  # noqa: F811
    _, findings = messages.apply(Scene(), ATTACHED, BOX)
    assert not findings.success

# SPDX-License-Identifier: Apache-2.0
"""Messages of several topics keep their order; attachments wait for their objects."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import scene_requests as requests
from scene_translation import HAND, messages, robot  # noqa: F401

from motion_nodes.core.scene.scene import Scene
from motion_nodes.ros.scene.scene_messages import OBJECT_TIMEOUT, Arrivals, EarlyAttachments

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
def clock():
    return Clock()


@pytest.fixture
def early(clock):
    return EarlyAttachments(clock)


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


def test_it_is_said_that_it_waits_and_that_it_is_given_up(messages, early, clock):  # noqa: F811
    scene, findings = messages.apply(Scene(), ATTACHED, early=early)
    assert findings.success
    assert "'box' is attached as soon as it is added" in findings.warnings[0]
    clock.now = 0.9 * OBJECT_TIMEOUT
    assert not early.given_up()
    clock.now = 1.1 * OBJECT_TIMEOUT
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

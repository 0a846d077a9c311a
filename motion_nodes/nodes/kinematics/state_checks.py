# SPDX-License-Identifier: Apache-2.0
"""Collision checkers of robot states, for several threads."""

from __future__ import annotations

import threading

import numpy as np
from moveit_msgs.msg import ContactInformation

from motion_nodes.model.robot import Robot
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.contacts import Contact
from motion_nodes.scene.exact_warm_up import after_compilation
from motion_nodes.scene.moved_links import scene_for
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array


class StateChecks:
    """Checkers by group, each prepared once per planning scene."""

    def __init__(self, robot: Robot) -> None:
        """Create without checkers."""
        self._robot = robot
        self._lock = threading.Lock()
        self._ready: dict[tuple[str, ...], tuple[Scene, CollisionChecker]] = {}
        self._compiled = threading.Event()
        self._compiled.set()

    @property
    def compiled(self) -> bool:
        """Whether the checks are compiled; until then requests wait for them."""
        return self._compiled.is_set()

    def wait(self) -> None:
        """Wait until the checks are compiled, some seconds once per machine."""
        self._compiled.wait()

    def warm_up(self) -> None:
        """Prepare the checks of the groups with a tip; compile them first, in a thread."""
        self._compiled = after_compilation(self._prepare)

    def _prepare(self) -> None:
        chains = [group.joints for group in self._robot.groups.values() if group.tip is not None]
        for joints in ((), *chains):
            self.checker(joints, self._robot.home, Scene())

    def checker(self, joints: tuple[str, ...], q: Array, scene: Scene) -> CollisionChecker:
        """Return a checker of configurations of all joints, for use in one thread.

        Args:
            joints: only pairs whose distance these joints can change are checked; empty for all.
            q: positions of all joints [rad or m], shape (n,).
            scene: to check against; the newest one is cached.
        """
        self.wait()
        with self._lock:
            known, checker = self._ready.get(joints, (None, None))
            if checker is None:
                checker = CollisionChecker(self._robot, self._robot.joint_names)
            if known is not scene:
                checker = checker.snapshot()
                checker.set_scene(scene_for(self._robot, joints, scene) if joints else scene)
                # Prepares the scene's tables, which the snapshots share.
                checker.exact.is_free(q)
                self._ready[joints] = scene, checker
        return checker.snapshot()


def in_words(contact: Contact) -> str:
    """Describe a contact without numbers, so that equal contacts have equal texts."""
    first, second = contact.pair
    return f"{first} touches {second}"


def contact_message(contact: Contact, scene: Scene, frame: str) -> ContactInformation:
    """Return a contact between links and objects as a message.

    Args:
        contact: not a violated joint limit.
        scene: that the objects belong to.
        frame: reference frame of the position.
    """
    message = ContactInformation(depth=contact.depth)
    message.header.frame_id = frame
    message.contact_body_1, message.contact_body_2 = contact.pair
    message.body_type_1, message.body_type_2 = (_body_type(n, scene) for n in contact.pair)
    p, n = message.position, message.normal
    p.x, p.y, p.z = contact.position.tolist()
    # Contact.normal points from the second body to the first, the message's normal vice versa.
    n.x, n.y, n.z = np.negative(contact.normal).tolist()
    return message


def _body_type(name: str, scene: Scene) -> int:
    if name in scene.objects:
        return int(ContactInformation.WORLD_OBJECT)
    if name in scene.attached:
        return int(ContactInformation.ROBOT_ATTACHED)
    return int(ContactInformation.ROBOT_LINK)

# SPDX-License-Identifier: Apache-2.0
"""Collision checks of a robot's states against a scene, for several threads."""

from __future__ import annotations

import threading

import numpy as np
from moveit_msgs.msg import ContactInformation

from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.contacts import Contact
from motion_nodes.scene.exact_warm_up import compile_exact_checks
from motion_nodes.scene.moved_links import scene_for
from motion_nodes.scene.scene import Scene


class StateChecks:
    """Hands out checkers, prepared for a scene once."""

    def __init__(self, robot: Robot) -> None:
        """Check states of ``robot``."""
        self._robot = robot
        self._lock = threading.Lock()
        self._ready: dict[tuple[str, ...], tuple[Scene, CollisionChecker]] = {}

    def warm_up(self) -> None:
        """Compile what checks need, and prepare those of the groups with a tip."""
        compile_exact_checks()
        chains = [group.joints for group in self._robot.groups.values() if group.tip is not None]
        for joints in ((), *chains):
            self.checker(joints, self._robot.home, Scene())

    def checker(self, joints: tuple[str, ...], q: Array, scene: Scene) -> CollisionChecker:
        """Return a checker of all joints, for one thread.

        Args:
            joints: whose doing counts: what they cannot change does not; none: everything counts.
            q: where all joints are, shape (n,).
            scene: to check against; the newest is remembered.
        """
        with self._lock:
            known, checker = self._ready.get(joints, (None, None))
            if checker is None:
                checker = CollisionChecker(self._robot, self._robot.joint_names)
            if known is not scene:
                checker = checker.snapshot()
                checker.set_scene(scene_for(self._robot, joints, scene) if joints else scene)
                # Once here, so that its copies need not prepare the scene again.
                checker.exact.is_free(q)
                self._ready[joints] = scene, checker
        return checker.snapshot()


def in_words(contact: Contact) -> str:
    """Return who touches whom; without numbers, so that equal ones can be counted."""
    first, second = contact.pair
    return f"{first} touches {second}"


def contact_message(contact: Contact, scene: Scene, frame: str) -> ContactInformation:
    """Return a contact of links, objects and what is carried as a message.

    Args:
        contact: not one of a limit.
        scene: the names of whose objects tell what each is.
        frame: that its positions are given in.
    """
    message = ContactInformation(depth=contact.depth)
    message.header.frame_id = frame
    message.contact_body_1, message.contact_body_2 = contact.pair
    message.body_type_1, message.body_type_2 = (_body_type(n, scene) for n in contact.pair)
    p, n = message.position, message.normal
    p.x, p.y, p.z = contact.position.tolist()
    # Ours points from the second to the first; the message's from the first to the second.
    n.x, n.y, n.z = np.negative(contact.normal).tolist()
    return message


def _body_type(name: str, scene: Scene) -> int:
    if name in scene.objects:
        return int(ContactInformation.WORLD_OBJECT)
    if name in scene.attached:
        return int(ContactInformation.ROBOT_ATTACHED)
    return int(ContactInformation.ROBOT_LINK)

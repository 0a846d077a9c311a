# SPDX-License-Identifier: Apache-2.0
"""Attaching objects of the planning scene to the robot, and detaching them, from the page."""

from __future__ import annotations

import time

from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, PlanningScene

from motion_nodes.errors import MotionError
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.viewer.viewer_planning import WatchedPlanning
from motion_nodes.nodes.viewer.viewer_validity import WatchedValidity
from motion_nodes.ros.scene.collision_objects import detached_message
from motion_nodes.scene.touch_links import touch_links
from motion_nodes.typing import Array
from motion_nodes.view.browser import BrowserViewer

CONFIRMATION_TIMEOUT = 3.0
"""Time within which the owner of the scene must apply a change [s]."""


class WatchedAttachment:
    """Sends changes of the attached objects, and reports why they are refused."""

    def __init__(
        self, robot: Robot, name: str, planning: WatchedPlanning, validity: WatchedValidity
    ) -> None:
        """Create the sender.

        Args:
            robot: that carries the objects.
            name: of the robot on the page.
            planning: its planning scene.
            validity: checks the robot with what it carries.
        """
        self._robot, self._name, self._planning = robot, name, planning
        self._validity = validity
        self._sent: tuple[str, str, float] | None = None
        """Object, link (empty: none) and deadline of the newest change, until it is applied."""

    def send(self, viewer: BrowserViewer, name: str, link: str, q: Array) -> None:
        """Attach an object at its present pose relative to a link, or detach it.

        Args:
            viewer: the page.
            name: of the object.
            link: the link; empty: detach.
            q: positions of all joints [rad or m], shape (n,).
        """
        try:
            message = attachment_diff(self._robot, name, link)
        except MotionError as error:
            self._report(viewer, name, str(error))
            return
        # The owner refuses the same without a response, as it receives a topic.
        findings = self._planning.tried(message, q)
        if findings:
            self._report(viewer, name, "; ".join(findings))
            return
        if self._planning.publish(viewer, message):
            self._sent = (name, link, time.monotonic() + CONFIRMATION_TIMEOUT)

    def show(self, viewer: BrowserViewer, q: Array) -> None:
        """Report the outcome of the newest change.

        Args:
            viewer: the page.
            q: measured positions of all joints [rad or m], shape (n,); NaN: unknown.
        """
        if self._sent is None:
            return
        name, link, deadline = self._sent
        body = self._planning.follower.scene.attached.get(name)
        if link == ("" if body is None else body.link):
            self._sent = None
            if link:
                self._validity.check_carried(viewer, name, q)
        elif time.monotonic() > deadline:
            self._sent = None
            verb = "attached" if link else "detached"
            self._report(
                viewer, name, f"'{name}' was not {verb}: see the messages of the robot's planner."
            )

    def _report(self, viewer: BrowserViewer, name: str, text: str) -> None:
        viewer.notify(f"{self._name}: {name}", text)


def attachment_diff(robot: Robot, name: str, link: str) -> PlanningScene:
    """Return a diff that attaches an object of the world to a link, or detaches it.

    Args:
        robot: that carries the object; the links of its gripper may touch it.
        name: of the object.
        link: the link; empty: detach.

    Raises:
        UnknownFrame: there is no such link.
    """
    message = PlanningScene(is_diff=True)
    message.robot_state.is_diff = True
    if link:
        change = AttachedCollisionObject(
            link_name=link, touch_links=sorted(touch_links(robot, link))
        )
        # Without shapes: the owner takes those of the object, at its present pose.
        change.object = CollisionObject(id=name, operation=CollisionObject.ADD)
    else:
        change = detached_message(name)
    message.robot_state.attached_collision_objects = [change]
    return message

# SPDX-License-Identifier: Apache-2.0
"""What people ask for on the page, and where it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from motion_nodes.model.tree import Array
from motion_nodes.scene.scene import WorldObject
from motion_nodes.view.ui_queue import Intents


@dataclass(frozen=True)
class TargetWish:
    """A pose that somebody wants the tool to have."""

    X_BT: Array
    """Pose of the tool in the robot's scene frame, shape (4, 4)."""
    follower: str
    """Who is to bring it there; one of the robot's ``followers``."""
    verb: str = "follow"
    """``follow`` while it is dragged; ``plan``, ``go`` and ``stop`` where it is planned for."""


@dataclass(frozen=True)
class PanelEvents:
    """Where the panel of a robot reports to; called on viser's event loop."""

    joint_target: Callable[[str, float], None]
    named_state: Callable[[str], None]
    drive_changed: Callable[[], None]
    target: Callable[[TargetWish], None]
    scene_object: Callable[[str, WorldObject | None], None]
    recover: Callable[[], None]
    redraw: Callable[[], None]
    """Have changes drawn soon."""


class Wishes:
    """The callbacks of a viewer, which are None at first.

    They are called one after the other on a single thread of the viewer, never at the same time;
    when one is slow, values that were overtaken are left out. An exception in one is logged.
    """

    def __init__(self) -> None:
        """Start with nobody listening."""
        self.on_joint_target: Callable[[str, str, float], None] | None = None
        """Robot, joint and position [rad or m] that somebody set with a slider."""
        self.on_named_state: Callable[[str, str], None] | None = None
        """Robot and named state whose button was pressed."""
        self.on_twist: Callable[[str, float, float, float], None] | None = None
        """Robot, vx, vy [m/s] and wz [rad/s] in its base frame; repeated at 15 Hz while driving,
        then three zeros."""
        self.on_target: Callable[[str, TargetWish], None] | None = None
        """Robot and where its tool is wanted."""
        self.on_object: Callable[[str, str, WorldObject | None], None] | None = None
        """Robot, name of an object of its scene, and the object as somebody wants it: new, with
        another pose, or None where it is to go."""
        self.on_recover: Callable[[str], None] | None = None
        """Robot that is to be recovered from a collision."""
        self.on_stop: Callable[[], object] | None = None
        """All robots are to stop; called at once, on viser's event loop, as is the next."""
        self.on_resume: Callable[[], object] | None = None
        """Commands are to be taken again."""

    def send_twist(self, name: str, vx: float = 0.0, vy: float = 0.0, wz: float = 0.0) -> None:
        """Tell of a twist; on the thread of the callbacks."""
        if self.on_twist is not None:
            self.on_twist(name, vx, vy, wz)

    def events(
        self,
        name: str,
        intents: Intents,
        drive_changed: Callable[[], None],
        redraw: Callable[[], None],
    ) -> PanelEvents:
        """Return where the panel of one robot reports to.

        Args:
            name: of the robot.
            intents: the thread on which callbacks are called.
            drive_changed: called when a drive pad has something to send.
            redraw: called when something on the page is to be drawn anew.
        """

        def joint_target(joint: str, value: float) -> None:
            intents.put(("joint", name, joint), lambda: self._joint_target(name, joint, value))

        def named_state(state: str) -> None:
            intents.put(("state", name), lambda: self._named_state(name, state))

        def target(wish: TargetWish) -> None:
            intents.put(("target", name, wish.verb), lambda: self._target(name, wish))

        def scene_object(key: str, item: WorldObject | None) -> None:
            intents.put(("object", name, key), lambda: self._object(name, key, item))

        def recover() -> None:
            intents.put(("recover", name), lambda: self._recover(name))

        return PanelEvents(
            joint_target, named_state, drive_changed, target, scene_object, recover, redraw
        )

    def _joint_target(self, name: str, joint: str, value: float) -> None:
        if self.on_joint_target is not None:
            self.on_joint_target(name, joint, value)

    def _named_state(self, name: str, state: str) -> None:
        if self.on_named_state is not None:
            self.on_named_state(name, state)

    def _target(self, name: str, wish: TargetWish) -> None:
        if self.on_target is not None:
            self.on_target(name, wish)

    def _recover(self, name: str) -> None:
        if self.on_recover is not None:
            self.on_recover(name)

    def _object(self, name: str, key: str, item: WorldObject | None) -> None:
        if self.on_object is not None:
            self.on_object(name, key, item)

# SPDX-License-Identifier: Apache-2.0
"""An arm of a running motion_nodes suite as a LeRobot robot.

Each action is brought within the limits, the way to it and the way to rest behind it are checked
for collisions by the suite, and it is streamed to the joint controller, which follows it within the
limits of velocity, acceleration and jerk. Where the way is not free, the arm holds.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any

import numpy as np
from lerobot.cameras.utils import make_cameras_from_configs
from lerobot.robots import Robot

from motion_nodes.core.control.action_filter import ActionFilter
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import JointKind
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.nodes.clients.action_link import ActionLink, LinkFailed

from .config_motion_nodes_arm import MotionNodesArmConfig

MIN_FPS = 10.0
"""Below that the controller would come to rest between two actions [Hz]."""
_log = logging.getLogger(__name__)


class MotionNodesArm(Robot):  # type: ignore[misc]
    """Positions of joints, and pictures of LeRobot's cameras; actions are joint positions."""

    config_class = MotionNodesArmConfig
    name = "motion_nodes_arm"

    def __init__(self, config: MotionNodesArmConfig) -> None:
        """Read the robot's description; :meth:`connect` finds the suite.

        Raises:
            InvalidConfig: a rate that is too low, or an unknown group.
        """
        super().__init__(config)
        self.config = config
        if not config.fps >= MIN_FPS:
            raise InvalidConfig(f"fps is {config.fps:g}; allowed are {MIN_FPS:g} and more")
        robot = load_robot(config.robot)
        joints = robot.group(config.group).joints
        if config.fingers and "gripper" in robot.groups:
            joints += tuple(j for j in robot.groups["gripper"].joints if j not in joints)
        self.joints = joints
        limits = robot.limits.select(joints)
        self._filter = ActionFilter(limits, config.fps, speed=config.speed)
        angles = [robot.tree.joint(j).kind is not JointKind.PRISMATIC for j in joints]
        degrees = math.degrees(1.0) if config.degrees else 1.0
        self._scale = np.where(angles, degrees, 1.0)
        self.cameras = make_cameras_from_configs(config.cameras)
        self._link: Any = None
        self._sent_at: float | None = None
        self._held = ""
        """Why the arm holds; empty if it follows."""

    # ---- features

    @property
    def _joint_features(self) -> dict[str, type]:
        return {f"{joint}.pos": float for joint in self.joints}

    @property
    def observation_features(self) -> dict[str, Any]:
        """Names and types of the observations."""
        pictures = {
            name: (camera.height, camera.width, 3) for name, camera in self.config.cameras.items()
        }
        return {**self._joint_features, **pictures}

    @property
    def action_features(self) -> dict[str, type]:
        """Names and types of the actions."""
        return self._joint_features

    # ---- connection

    @property
    def is_connected(self) -> bool:
        """Whether the suite was found and all cameras are open."""
        return self._link is not None and all(c.is_connected for c in self.cameras.values())

    def connect(self, calibrate: bool = True) -> None:
        """Find the suite and open the cameras; nothing moves.

        Args:
            calibrate: not used: the suite's drivers are calibrated.

        Raises:
            LinkFailed: no suite, or a part of it is missing.
        """
        if self._link is not None:
            raise InvalidCommand(f"{self} is connected already")
        config = self.config
        link = ActionLink(config.namespace, config.group, self.joints)
        try:
            link.wait(config.connect_timeout, checked=config.check_collisions)
            for camera in self.cameras.values():
                camera.connect()
        except BaseException:
            link.close()
            raise
        self._link, self._sent_at = link, None
        self.configure()

    @property
    def is_calibrated(self) -> bool:
        """Always: calibration is that of the suite's driver."""
        return True

    def calibrate(self) -> None:
        """Do nothing; see :attr:`is_calibrated`."""

    def configure(self) -> None:
        """Do nothing: the suite is configured by its own parameters."""

    def disconnect(self) -> None:
        """Close the link and the cameras; the arm comes to rest and is held by the suite."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        for camera in self.cameras.values():
            if camera.is_connected:
                camera.disconnect()

    # ---- observations and actions

    def get_observation(self) -> dict[str, Any]:
        """Return measured positions and pictures.

        Raises:
            LinkFailed: not connected, or the robot reports no positions.
        """
        measured = self._connected().positions()
        values = np.array([measured[joint] for joint in self.joints]) * self._scale
        found: dict[str, Any] = dict(zip(self._joint_features, values.tolist(), strict=True))
        for name, camera in self.cameras.items():
            found[name] = camera.async_read()
        return found

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Stream an action; return what was sent instead.

        Args:
            action: a position of each joint; its features are :attr:`action_features`.

        Raises:
            InvalidCommand: joints are missing or not known, values that are not finite, or the
                suite is stopped.
            LinkFailed: not connected, or the robot reports no positions.
        """
        link, wanted = self._connected(), self._values(action)
        now = time.monotonic()
        if self._sent_at is None or now - self._sent_at > 1.0:
            # A policy that begins, or begins again, does so where the robot stands.
            measured = link.positions()
            self._filter.start([measured[joint] for joint in self.joints])
            self._sent_at = now
        proposed = self._filter.propose(wanted, now - self._sent_at)
        reason = self._obstacle(proposed.way)
        if reason:
            proposed = self._filter.hold()
        link.send(proposed.position, proposed.velocity)
        self._filter.accept(proposed)
        self._sent_at = now
        self._report(reason, proposed.changes)
        sent = (proposed.position * self._scale).tolist()
        return dict(zip(self._joint_features, sent, strict=True))

    # ---- inside

    def _connected(self) -> Any:
        if self._link is None:
            raise LinkFailed(f"{self} is not connected: call connect() first")
        return self._link

    def _values(self, action: dict[str, Any]) -> Any:
        missing = [name for name in self._joint_features if name not in action]
        foreign = [name for name in action if name not in self._joint_features]
        if missing or foreign:
            raise InvalidCommand(
                f"an action has the features {', '.join(self._joint_features)}; missing: "
                f"{', '.join(missing) or 'none'}; not known: {', '.join(foreign) or 'none'}"
            )
        return np.array([float(action[name]) for name in self._joint_features]) / self._scale

    def _obstacle(self, way: Any) -> str:
        """Return why the arm must hold; empty if its way is free."""
        if not self.config.check_collisions or not len(way):
            return ""
        try:
            return str(self._link.problem(way, self.config.check_timeout))
        except LinkFailed as error:
            return str(error)

    def _report(self, reason: str, changes: tuple[str, ...]) -> None:
        if reason and reason != self._held:
            _log.warning("the arm holds: %s", reason)
        elif self._held and not reason:
            _log.warning("the arm follows again")
        self._held = reason
        if changes:
            _log.debug("changed: %s", "; ".join(changes))

# SPDX-License-Identifier: Apache-2.0
"""Show "surprise": a crate appears on the path of a Franka, seen by a depth camera only.

RMPflow moves the tool from side to side. The crate exists in the simulation, not in any message, so
the arm avoids it by the octomap alone. Times are simulated times.
"""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import PoseStamped, TransformStamped
from octomap_msgs.msg import Octomap
from sensor_msgs.msg import JointState
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.world import World
from motion_nodes.nodes.demo.arm import ClientNode, DemoFindings
from motion_nodes.nodes.demo.follow import target_at
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.names import OCCUPANCY_MAPPER, REACTIVE_POLICY
from motion_nodes.ros.scene.scene_update import voxels_of
from motion_nodes.typing import Array

ARM = "franka"
CRATE = "crate"
SIZE = (0.1, 0.1, 0.35)
CAMERA = f"{ARM}/camera:=panda_link0@1.4,0,0.9,0,0.6,3.1416"
OBJECT = f"{CRATE}:=box:{','.join(map(str, SIZE))}:2@3,3,{0.5 * SIZE[2]}"
AWAY = np.array([3.0, 3.0, 0.5 * SIZE[2]])
THERE = np.array([0.5, 0.0, 0.5 * SIZE[2]])
SIDES = (np.array([0.45, 0.35, 0.25]), np.array([0.45, -0.35, 0.25]))
"""Targets of the tool [m]."""
ARRIVED = 0.02
"""Distance from a target at which it is reached [m]."""
CHECKS = ("both sides", "is in the octomap", "goes around it", "is not touched", "it is removed",
          "the path is clear again")  # fmt: skip
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
WITHIN = 25.0
"""Max duration of a motion [s]."""
SEEN_WITHIN, GONE_WITHIN = 2.0, 2.0
"""Time until the crate is in the octomap, and out of it [s]."""
REAL_LIMIT = 150.0
"""Max real time of a step, on a machine that is slower than the simulation [s]."""
_TARGET_PERIOD = 0.05


class SurpriseClient(ClientNode):
    """Sends targets, moves the crate, and records states and octomaps."""

    def __init__(self) -> None:
        super().__init__()
        robot = load_description(ARM)
        group = robot.group("arm")
        self._joints, self._tool = group.joints, group.tip or ""
        self._kinematics = Kinematics(robot.tree, self._joints, base=robot.base_frame)
        self.checker = CollisionChecker(robot, "arm")
        self._frame = f"{ARM}/{robot.base_frame}"
        self.now = 0.0
        """Simulated time of the newest state [s]."""
        self.q: Array | None = None
        self.path: list[Array] = []
        """Joint positions since the last clear."""
        self.occupied = False
        """Whether the newest octomap contains anything."""
        self._crate: Array | None = None
        create = self.node.create_publisher
        self._target = create(PoseStamped, f"/{ARM}/{REACTIVE_POLICY}/reference", qos.STREAM)
        self._placed = create(TransformStamped, "/mujoco_sim/move_object", qos.REQUESTS)
        self.subscribe(JointState, f"/{ARM}/joint_states", self._on_state, qos.STATES)
        self.subscribe(MarkerArray, "/mujoco_sim/objects", self._on_objects, qos.STREAM)
        mapper = f"/{ARM}/{OCCUPANCY_MAPPER}"
        self.subscribe(Octomap, f"{mapper}/octomap_binary", self._on_octomap, qos.LATCHED)

    @property
    def ready(self) -> bool:
        """Whether all nodes of the show are running."""
        return (
            self.q is not None
            and self._crate is not None
            and self._target.get_subscription_count() > 0
            and self._placed.get_subscription_count() > 0
            and self.node.count_publishers(f"/{ARM}/monitored_planning_scene") > 0
            and self.node.count_publishers(f"/{ARM}/{OCCUPANCY_MAPPER}/octomap_binary") > 0
            and self.node.count_subscribers(f"/{ARM}/camera/depth/image_rect_raw") > 0
        )

    @property
    def tool(self) -> Array:
        """Position of the tool in the base frame [m], shape (3,)."""
        assert self.q is not None
        return self._kinematics.pose(self.q, self._tool)[:3, 3]

    @property
    def crate_moved(self) -> float:
        """Distance of the crate from its place [m]."""
        return np.inf if self._crate is None else float(np.linalg.norm(self._crate - THERE))

    def is_at(self, target: Array) -> bool:
        """Return whether the tool is at a target [m], shape (3,)."""
        return float(np.linalg.norm(self.tool - target)) < ARRIVED

    def put_crate(self, position: Array) -> None:
        """Put the crate at a position in the world [m], shape (3,)."""
        message = TransformStamped(child_frame_id=CRATE)
        move = message.transform.translation
        move.x, move.y, move.z = map(float, position)
        message.transform.rotation.w = 1.0
        self._placed.publish(message)

    def go(self, target: Array) -> bool:
        """Send a target until the tool has arrived; return whether it has, in :data:`WITHIN`."""
        begin = self.now
        sent = -np.inf

        def arrived() -> bool:
            nonlocal sent
            if self.now - sent > _TARGET_PERIOD:
                sent = self.now
                self._target.publish(target_at(target, self._frame, self.now))
            return self.now - begin > WITHIN or self.is_at(target)

        self.wait(arrived, REAL_LIMIT)
        return self.is_at(target)

    def wait_for_map(self, occupied: bool, within: float) -> float:
        """Return the time until the octomap contains the crate, or no longer does [s]."""
        begin = self.now
        self.wait(lambda: self.occupied == occupied or self.now - begin > within, REAL_LIMIT)
        return self.now - begin if self.occupied == occupied else np.inf

    def _on_state(self, message: JointState) -> None:
        positions = dict(zip(message.name, message.position, strict=False))
        if all(name in positions for name in self._joints):
            self.q = np.array([positions[name] for name in self._joints])
            self.now = stamp_ns(message) * 1e-9
            self.path.append(self.q)

    def _on_objects(self, message: MarkerArray) -> None:
        for marker in message.markers:
            if marker.ns == CRATE:
                p = marker.pose.position
                self._crate = np.array([p.x, p.y, p.z])

    def _on_octomap(self, message: Octomap) -> None:
        self.occupied = voxels_of(message) is not None


def show_surprise(client: SurpriseClient, findings: DemoFindings) -> None:
    """Run the show once."""
    left, right = SIDES
    client.put_crate(AWAY)
    client.wait_for_map(occupied=False, within=WITHIN)
    findings.check(client.go(left) and client.go(right), "no obstacle: both sides are reached")
    client.put_crate(THERE)
    seen = client.wait_for_map(occupied=True, within=WITHIN)
    findings.check(
        seen < SEEN_WITHIN,
        f"a crate appears unannounced; it is in the octomap after {seen:.2f} s "
        f"(limit {SEEN_WITHIN:g} s)",
    )
    client.path.clear()
    arrived = client.go(left) and client.go(right)
    nearest = clearance(client)
    findings.check(arrived, "the arm goes around it, there and back")
    findings.check(
        nearest > 0.0 and client.crate_moved < 0.005,
        f"it is not touched: closest {1e3 * nearest:.0f} mm, moved {1e3 * client.crate_moved:.1f}",
    )
    client.put_crate(AWAY)
    gone = client.wait_for_map(occupied=False, within=WITHIN)
    findings.check(
        gone < GONE_WITHIN,
        f"it is removed; its voxels are gone after {gone:.2f} s (limit {GONE_WITHIN:g} s)",
    )
    findings.check(client.go(left), "the path is clear again")


def clearance(client: SurpriseClient) -> float:
    """Return the min distance of the arm's spheres from the true crate on its path [m]."""
    world, X = World(), np.eye(4)
    X[:3, 3] = THERE
    world.add(CRATE, Box(SIZE), X)
    client.checker.set_scene(world.scene)
    return min(float(client.checker.sphere_distances(q).distance.min()) for q in client.path[::5])

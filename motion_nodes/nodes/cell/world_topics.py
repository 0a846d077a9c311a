# SPDX-License-Identifier: Apache-2.0
"""Topics of a simulated world: objects of planning scenes in; contacts and true poses out.

Reports of unexpected contacts in a simulation; true poses of the simulation's free objects, as
markers named after them.

Simulated bodies for the objects of the robots' planning scenes. Each robot has its own planning
scene. The bodies are the union of all scenes, with the robot's namespace as prefix of their names.
A thread reads the scenes; the loop applies the changes.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Sequence
from typing import Any

from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.placement import Placement
from motion_nodes.core.robot.tree import Box, Mesh, Sphere
from motion_nodes.core.scene.mesh_preparation import MeshPreparation, all_parts, large_meshes
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import MotionError, UnknownFrame
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_contacts import ContactLog
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.scene_bodies import SceneBody, bodies_of, body_name, load_hulls
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.typing import Array

PERIOD = 0.02
"""Period of scene updates [s]."""
REVIVE_TICKS = 10
"""Cycles between two attempts to enable contacts of bodies that robots penetrated."""
MAX_LISTED = 5
"""Max number of bodies without contacts in a report."""
MAX_CONTACTS_LISTED = 8
"""Max number of pairs in a report."""
WHEELED_PERIOD = 5
"""Cycles between two checks with wheeled robots, whose wheels are always in contact."""
FRAME = "world"


class _NoTransforms:
    """Replacement of /tf: monitored scenes only use frames of the robot."""

    def update(self) -> None:
        """Do nothing."""

    def destroy(self) -> None:
        """Do nothing."""

    def pose(self, parent: str, child: str) -> tuple[Array, int | None]:
        """Raise.

        Raises:
            UnknownFrame: always.
        """
        raise UnknownFrame(child, (), parent)


class SceneFollowing:
    """Updates the bodies of a cell from the planning scenes of its robots."""

    def __init__(
        self,
        node: MotionNode[Any],
        cell: MujocoWorld,
        robots: Sequence[tuple[Placement, RobotPlacement]],
    ) -> None:
        """Subscribe; call :meth:`start` on activation.

        Args:
            node: the simulation.
            cell: with the bodies, which change only in the node's loop.
            robots: of the cell; only the scenes of arms are used.
        """
        self._node, self._cell = node, cell
        self._followed = [
            (place, placed, _follower(node, place, placed))
            for place, placed in robots
            if any(group.tip is not None for group in placed.robot.groups.values())
        ]
        self._scenes: list[Scene] = [Scene()] * len(self._followed)
        self._meshes = MeshPreparation()
        self._waiting = False
        """Whether bodies are left out because their meshes are being prepared."""
        self._pending: dict[str, SceneBody] | None = None
        """All bodies, until the loop has applied them."""
        self._faults: dict[str, str] = {}
        self._ticks = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the updates."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, name="scene-bodies", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the updates; bodies are kept."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def destroy(self) -> None:
        """Stop and unsubscribe."""
        self.stop()
        self._meshes.close()
        for _, _, follower in self._followed:
            follower.destroy()

    def tick(self) -> None:
        """Apply changes; in the node's loop."""
        bodies, self._pending = self._pending, None
        if bodies is not None:
            try:
                self._cell.set_bodies(bodies)
            except (MotionError, ValueError) as error:
                self._node.warn("scene bodies", f"scene bodies are not up to date: {error}")
        elif self._faults:
            self._ticks += 1
            if self._ticks % REVIVE_TICKS:
                return
            self._cell.revive_bodies()
        else:
            return
        faults = self._cell.body_faults
        for name, reason in faults.items():
            if self._faults.get(name) != reason:
                self._node.warn(f"body {name}", f"body '{name}' has no contacts: {reason}")
        self._faults = faults

    def diagnose(self, report: Report) -> None:
        """Report the number of bodies, and those without contacts."""
        faults = self._faults
        report.value("scene bodies", len(self._cell.bodies))
        report.value("scene bodies without contacts", len(faults))
        for name, reason in list(faults.items())[:MAX_LISTED]:
            report.note("WARN", f"body '{name}' has no contacts: {reason}")

    def _work(self) -> None:
        while not self._stop.wait(PERIOD):
            try:
                self._update()
            except Exception:
                text = traceback.format_exc()
                self._node.warn("scene bodies", f"scene bodies are not up to date:\n{text}")

    def _update(self) -> None:
        """Read the scenes; changed bodies replace those that the loop has not applied yet."""
        scenes = [follower.scene for _, _, follower in self._followed]
        unchanged = all(a is b for a, b in zip(scenes, self._scenes, strict=True))
        if unchanged and not self._waiting:
            return
        ready = self._meshes.ready(
            large_meshes(part for scene in scenes for part in all_parts(scene))
        )
        if unchanged and not ready:
            return
        bodies: dict[str, SceneBody] = {}
        for (place, placed, _), scene in zip(self._followed, scenes, strict=True):
            bodies |= bodies_of(scene, placed, place.namespace)
            # Objects of the simulation are already simulated.
            for name in self._cell.objects:
                bodies.pop(body_name(place.namespace, name), None)
        if not ready:
            bodies = {name: body for name, body in bodies.items() if self._prepared(body)}
        for body in bodies.values():
            load_hulls(body)
        self._scenes, self._pending, self._waiting = scenes, bodies, not ready

    def _prepared(self, body: SceneBody) -> bool:
        """Return whether the meshes of a body can be simulated without a delay."""
        return self._meshes.ready(large_meshes(body.parts))


def _follower(node: MotionNode[Any], place: Placement, placed: RobotPlacement) -> SceneFollower:
    robot = placed.robot
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    frames = RobotFrames(kinematics, _NoTransforms(), "")
    return SceneFollower(node, robot, kinematics, frames, place.namespace)


class ContactReport:
    """Records and reports unexpected contacts of a cell."""

    def __init__(self, cell: MujocoWorld) -> None:
        """Start an empty record."""
        self._cell = cell
        self._log = ContactLog()
        rolling = any(placement.robot.kind != "arm" for placement in cell.placements)
        self._period, self._ticks = WHEELED_PERIOD if rolling else 1, 0
        self._reported = -1.0
        self._time = 0.0

    def tick(self) -> None:
        """Record the contacts of the last physics step."""
        self._ticks += 1
        if self._ticks % self._period:
            return
        time = self._cell.time
        if time < self._time:
            self._log.clear()
            self._reported = -1.0
        self._time = time
        self._log.add(time, self._cell.contacts())

    def diagnose(self, report: Report) -> None:
        """Report contacts since the last report, and a summary since the start or a reset."""
        records = dict(self._log.records)
        recent = [pair for pair, record in records.items() if record.last > self._reported]
        self._reported = self._time
        for a, b in list(recent)[:MAX_CONTACTS_LISTED]:
            report.note("WARN", f"contact: {a} with {b}")
        depth = max((r.depth for r in records.values()), default=0.0)
        force = max((r.force for r in records.values()), default=0.0)
        report.value("contacts", sum(r.episodes for r in records.values()))
        report.value("contact depth max [m]", depth)
        report.value("contact force max [N]", force)
        pairs = sorted(records.items(), key=lambda item: -item[1].depth)[:MAX_CONTACTS_LISTED]
        report.value(
            "contact pairs",
            "; ".join(
                f"{a} - {b}: {r.episodes} x, {1e3 * r.depth:.2f} mm, {r.force:.0f} N"
                for (a, b), r in pairs
            ),
        )


class ObjectMarkers:
    """Publishes ``~/objects``."""

    def __init__(self, node: MotionNode[Any], world: MujocoWorld) -> None:
        """Create the publisher and a marker for each object."""
        self._world = world
        self._out = node.advertise(MarkerArray, "~/objects")
        self._message = MarkerArray(markers=[self._marker(name) for name in world.objects])

    def publish(self, nanoseconds: int) -> None:
        """Publish the poses at a time [ns]."""
        for marker in self._message.markers:
            marker.pose = pose_message(self._world.object_pose(marker.ns))
            set_stamp(marker, nanoseconds)
        self._out.publish(self._message)

    def _marker(self, name: str) -> Marker:
        marker, shape = Marker(ns=name), self._world.free_body(name).geometry
        marker.header.frame_id = FRAME
        if isinstance(shape, Mesh):
            marker.type, size = Marker.MESH_RESOURCE, shape.scale
            marker.mesh_resource = f"file://{shape.filename}"
        elif isinstance(shape, Box):
            marker.type, size = Marker.CUBE, shape.size
        elif isinstance(shape, Sphere):
            marker.type, size = Marker.SPHERE, (2.0 * shape.radius,) * 3
        else:
            marker.type = Marker.CYLINDER
            size = (2.0 * shape.radius, 2.0 * shape.radius, shape.length)
        marker.scale.x, marker.scale.y, marker.scale.z = size
        color = self._world.free_body(name).rgba
        marker.color.r, marker.color.g, marker.color.b, marker.color.a = color
        return marker

# SPDX-License-Identifier: Apache-2.0
"""Objects known to the task server: the planning scene, and poses from a detector.

A detector publishes a MarkerArray, one marker per object, named by its namespace, as the simulation
does with its true poses. Detected objects are added to the planning scene as collision objects.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.mesh_cache import shared_mesh
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.core.scene.scene import AttachedBody, WorldObject, world_object
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.extras.tasks.world_state import CompositeObject, ObjectState, Shape, composite_of
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.moveit_messages import pose_of
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.scene.collision_objects import (
    attached_message,
    detached_message,
    object_message,
    removed_message,
)
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.typing import Array

MAX_FILES = 100
"""Max number of cached files."""
MAX_SIZE = 50_000_000
"""Max size of a file [byte]."""
_SCHEME = "file://"
MOVED = 2e-3
"""Change of a detected pose that is written to the planning scene [m or rad]."""
PERIOD = 0.2
"""Min time between two updates of the planning scene [s]."""
SHOWN_WITHIN = 5.0
"""Time in which an object that was written to the planning scene appears there [s]."""
FIXED = 0.3
"""Objects with a side above this are surfaces, which are not picked [m]."""
MAX_COLOR = 32
"""Max length of the color of an object (text of its marker)."""


class DetectedMeshes:
    """Cache of mesh files; failures are cached, too."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[float, ...]], CompositeObject | MotionError] = {}

    def of(self, marker: Marker) -> CompositeObject:
        """Return the shape of a marker of the type MESH_RESOURCE.

        Raises:
            MotionError: the file cannot be read.
        """
        scale = (marker.scale.x, marker.scale.y, marker.scale.z)
        key = (marker.mesh_resource, scale)
        if key not in self._known:
            if len(self._known) >= MAX_FILES:
                self._known.clear()
            try:
                self._known[key] = _read(*key)
            except MotionError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, MotionError):
            raise found
        return found


def _read(resource: str, scale: tuple[float, float, float]) -> CompositeObject:
    path = Path(resource.removeprefix(_SCHEME))
    if not resource.startswith(_SCHEME) or not path.is_absolute():
        raise InvalidCommand(f"its mesh is '{resource[:200]}'; it must be {_SCHEME}/PATH")
    try:
        usable = path.is_file() and path.stat().st_size <= MAX_SIZE
    except OSError as error:  # such as a name that is too long
        raise InvalidCommand(f"its mesh '{resource[:200]}': {error.strerror}") from None
    if not usable:
        raise InvalidCommand(f"its mesh {path} is no file of at most {MAX_SIZE // 10**6} MB")
    made = composite_of(world_object("mesh", shared_mesh(read_mesh(path, scale))))
    assert made is not None  # a mesh has bounds
    return made


class ObservedObjects:
    """Objects of one robot's planning scene."""

    def __init__(
        self,
        node: MotionNode[Any],
        follower: SceneFollower,
        robot: Robot,
        base_pose: Callable[[], Array | None],
        topic: str,
    ) -> None:
        """Subscribe.

        Args:
            node: the node.
            follower: of the planning scene.
            robot: the robot; poses of objects are relative to its base.
            base_pose: returns the pose of its base in the frame of the detector, shape (4, 4);
                None: not known.
            topic: of the detector; empty: none.
        """
        self._node, self._follower = node, follower
        self._frame, self._base_pose = robot.base_frame, base_pose
        self._markers = node.poll(MarkerArray, topic, qos.NEWEST) if topic else None
        self._objects_out = node.advertise(CollisionObject, "collision_object", qos.REQUESTS)
        self._attached_out = node.advertise(
            AttachedCollisionObject, "attached_collision_object", qos.REQUESTS
        )
        self._detected: dict[str, ObjectState] = {}
        self._once_detected: set[str] = set()
        self.ambiguous: tuple[str, ...] = ()
        """Ambiguous names among the newest detections; these are not used."""
        self.reported_at = -math.inf
        """Time of the newest message of the detector [s]."""
        self._written: dict[str, Array] = {}
        self._written_at = -1.0
        self._composites: dict[str, CompositeObject] = {}
        """Objects of the scene, also held ones, that are no single box, cylinder or sphere."""
        self._meshes = DetectedMeshes()
        self._seen_meshes: dict[str, CompositeObject] = {}
        """Detected objects that are meshes."""
        self._kept: dict[str, ObjectState] = {}
        """Last states of objects that are hidden, held, or not yet in the scene again."""
        self._shown_at = -math.inf
        self._released: str | None = None
        """Object that was detached; the scene may still contain it as attached."""
        self.hidden: str | None = None
        """Object that is not written to the scene, because the gripper is about to touch it."""

    @property
    def held(self) -> str | None:
        """Name of the attached object, or None."""
        attached = self._follower.world.scene.attached
        return next((name for name in attached if name != self._released), None)

    def update(self, now: float) -> None:
        """Read detections and write those that moved to the planning scene; in each cycle."""
        message = self._markers.newest() if self._markers is not None else None
        if message is not None:
            self._read(message)
        if self._released not in self._follower.world.scene.attached:
            self._released = None
        # After a reset, simulated time begins again.
        if 0.0 <= now - self._written_at < PERIOD:
            return
        self._written_at = now
        for name, state in self._detected.items():
            if name not in (self.hidden, self.held) and self._moved(name, state.X_WO):
                self.show(state)

    def now(self) -> float:
        """Return the time that stamps of detections are compared with [s]."""
        return self._node.now()

    def detected(self, name: str) -> ObjectState | None:
        """Return an object of the newest detections, with their stamp; None if not detected."""
        return self._detected.get(name)

    def ambiguity(self, name: str) -> str:
        """Return why detections of an ambiguous name are not used."""
        return (
            f"several detected objects are named '{name}', none of them is used; the namespace of "
            "a marker must name one object"
        )

    def detects(self, name: str) -> bool:
        """Return whether the detector has ever reported an object."""
        return name in self._once_detected

    def states(self, now: float) -> dict[str, ObjectState]:
        """Return all objects, with poses in the base frame; attached ones with their last pose.

        Objects that the detector reported once, and no longer reports, are left out unless they are
        held; they remain obstacles.
        """
        scene = self._follower.world.scene
        found: dict[str, ObjectState] = {}
        for name, item in scene.objects.items():
            state = self._state_of(item, now)
            if state is not None:
                found[name] = state
        if not 0.0 <= now - self._shown_at <= SHOWN_WITHIN:
            self._kept = {n: s for n, s in self._kept.items() if n in (self.hidden, self.held)}
        known = self._kept | found | self._detected
        lost = self._once_detected - self._detected.keys() - {self.held}
        return {name: state for name, state in known.items() if name not in lost}

    def show(self, state: ObjectState) -> None:
        """Add an object to the planning scene."""
        if self.hidden == state.name:
            self.hidden = None
        self._kept[state.name], self._shown_at = state, self.now()
        self._written[state.name] = np.array(state.X_WO)
        composite, X_WO = self._composite(state.name), np.array(state.X_WO)
        item = (
            world_object(state.name, state.shape, X_WO)
            if composite is None
            else composite.at(state.name, X_WO)
        )
        self._objects_out.publish(object_message(item, self._frame))

    def hide(self, state: ObjectState) -> None:
        """Remove an object from the planning scene until :meth:`show` or :meth:`attach`."""
        self.hidden = state.name
        self._kept[state.name] = state
        self._written.pop(state.name, None)
        self._objects_out.publish(removed_message(state.name, self._frame))

    def attach(self, state: ObjectState, link: str, X_LO: Array, touching: frozenset[str]) -> None:
        """Attach an object to a link."""
        composite = self._composite(state.name)
        if composite is None:
            parts = world_object(state.name, state.shape).parts
        else:
            parts, X_LO = composite.parts, composite.in_link(X_LO)
        self._attached_out.publish(
            attached_message(AttachedBody(state.name, link, X_LO, parts, touching))
        )
        self.hidden, self._released, self._shown_at = None, None, self.now()

    def detach(self, state: ObjectState) -> None:
        """Detach an object, and leave it out of the scene until :meth:`show`."""
        self._released = state.name
        self._attached_out.publish(detached_message(state.name))
        self.hide(state)

    def lose(self, name: str) -> None:
        """Detach an object that was dropped; it is shown where it is detected, if it is."""
        self._released = name
        self._attached_out.publish(detached_message(name))
        self._written.pop(name, None)
        seen = self._detected.get(name)
        if seen is not None:
            self.hide(seen)
            self.show(seen)
        else:
            self._objects_out.publish(removed_message(name, self._frame))
            self._kept.pop(name, None)

    def forget(self, name: str) -> None:
        """Discard an object that was hidden and is not detected."""
        self.hidden = None if self.hidden == name else self.hidden
        self._kept.pop(name, None)

    def _composite(self, name: str) -> CompositeObject | None:
        """Return the shape of an object that is no primitive; None for others."""
        return (self._seen_meshes if self.detects(name) else self._composites).get(name)

    def _state_of(self, item: WorldObject, now: float) -> ObjectState | None:
        """Return the state of an object of the scene; None if it has no bounds."""
        solid, name = item.parts[0].solid, item.name
        if len(item.parts) == 1 and isinstance(solid, Box | Cylinder | Sphere):
            self._composites.pop(name, None)
            pose = item.X_WO @ item.parts[0].X_OS
            return ObjectState(name, pose, solid, now, _movable(solid))
        known = self._composites.get(name)
        if known is None or known.parts is not item.parts:
            known = composite_of(item)
            if known is None:
                return None
            self._composites[name] = known
        X_WB, movable = item.X_WO @ known.X_OB, _movable(known.box)
        return ObjectState(name, X_WB, known.box, now, movable, known.solids, known.mesh)

    def _read(self, message: MarkerArray) -> None:
        X_WB = self._base_pose()
        if X_WB is None:
            return
        X_BW, self._detected = inverse(X_WB), {}
        self.reported_at = self.now()
        markers = [marker for marker in message.markers if marker.action == Marker.ADD]
        counts = Counter(marker.ns for marker in markers)
        self.ambiguous = tuple(sorted(name for name, count in counts.items() if count > 1))
        for name in self.ambiguous:
            self._node.warn(f"marker {name}", self.ambiguity(name))
        for marker in markers:
            if counts[marker.ns] > 1:
                continue
            try:
                if not marker.ns:
                    raise InvalidCommand("its namespace, the name of the object, is empty")
                self._detected[marker.ns] = self._state(marker, X_BW)
            except MotionError as error:
                self._node.warn(f"marker {marker.ns}", f"detected object ignored: {error}")
        self._once_detected |= self._detected.keys()

    def _state(self, marker: Marker, X_BW: Array) -> ObjectState:
        X_BO = X_BW @ pose_of(marker.pose, f"the pose of '{marker.ns}'")[0]
        stamp = 1e-9 * stamp_ns(marker) or self.now()
        self._seen_meshes.pop(marker.ns, None)
        shape = _shape(marker)
        if shape is not None:
            movable = _movable(shape)
            return ObjectState(
                marker.ns, X_BO, shape, stamp, movable, color=marker.text[:MAX_COLOR]
            )
        known = self._seen_meshes[marker.ns] = self._meshes.of(marker)
        box = known.box
        return ObjectState(marker.ns, X_BO @ known.X_OB, box, stamp, _movable(box), mesh=known.mesh)

    def _moved(self, name: str, pose: Array) -> bool:
        before = self._written.get(name)
        return before is None or float(np.abs(pose - before).max()) > MOVED


def _movable(shape: Shape) -> bool:
    size = shape.size if isinstance(shape, Box) else (2.0 * shape.radius,)
    return max(size) <= FIXED


def _shape(marker: Marker) -> Shape | None:
    """Return the shape of a marker; None for a mesh."""
    x, y, z = marker.scale.x, marker.scale.y, marker.scale.z
    if not all(np.isfinite((x, y, z))) or min(x, y, z) <= 0.0:
        raise MotionError(f"its size is {x}, {y}, {z} m")
    if marker.type == Marker.MESH_RESOURCE:
        return None
    if marker.type == Marker.SPHERE:
        return Sphere(0.5 * x)
    return Cylinder(0.5 * x, z) if marker.type == Marker.CYLINDER else Box((x, y, z))

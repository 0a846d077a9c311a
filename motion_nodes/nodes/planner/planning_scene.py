# SPDX-License-Identifier: Apache-2.0
"""Planning scene of a robot: changed by MoveIt's topics and services, published for other nodes.

Other nodes and RViz follow it on ``monitored_planning_scene``. Poses may be given in frames of the
robot, of /tf and of objects, and are stored in the robot's base frame.

Scene geometry is saved to and loaded from MoveIt's files. URDF and SRDF are parameters of the
planner, where clients of MoveIt read them from move_group.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    MoveItErrorCodes,
    PlanningScene,
    PlanningSceneComponents,
    PlanningSceneWorld,
    RobotState,
)
from moveit_msgs.srv import (
    ApplyPlanningScene,
    GetPlanningScene,
    LoadGeometryFromFile,
    LoadMap,
    SaveGeometryToFile,
    SaveMap,
)
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node
from std_msgs.msg import Empty as EmptyMessage
from std_msgs.msg import String
from std_srvs.srv import Empty

from motion_nodes.core.robot.files.srdf_file import srdf
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.meshes import with_absolute_meshes
from motion_nodes.core.scene.mesh_preparation import MeshPreparation, all_parts, large_meshes
from motion_nodes.core.scene.moveit_scene_file import SUFFIX, read_scene_text, scene_text
from motion_nodes.core.scene.octomap_file import MAGIC, octomap_bytes, read_octomap
from motion_nodes.core.scene.scene import Scene, WorldObject, difference, world_object
from motion_nodes.core.scene.scenery import Scenery
from motion_nodes.core.scene.voxels import OCTOMAP, Voxels, moved
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidDescription, MotionError
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.servers import ServiceThreads
from motion_nodes.ros.current_state import CurrentStateMonitor, RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.names import OCTOMAP_CLEARED
from motion_nodes.ros.node import MotionNode, RobotNode
from motion_nodes.ros.scene.scene_messages import (
    Arrivals,
    EarlyAttachments,
    SceneMessages,
    SceneWarnings,
)
from motion_nodes.ros.scene.scene_update import SceneFrames, fill_world
from motion_nodes.typing import Array

MOTION_THRESHOLD = 1e-4
"""Min joint motion after which the robot state is published again [rad or m]."""
QUIET_AFTER = 2.0
"""Time without a change [s] after which robot and scene are quiet."""
REPUBLISH_PERIOD = 1.0
"""Publish period of the state of a robot at rest, for late subscribers [s]."""
MAX_SIZE = 256 * 1024 * 1024
"""Max size of a file that is read [bytes]."""


def declare_descriptions(node: Node, urdf: str, srdf: str) -> None:
    """Declare the read-only parameters ``robot_description`` and ``robot_description_semantic``.

    Args:
        node: the planner; parameters that are already declared are kept.
        urdf: the robot's URDF, with absolute paths of meshes.
        srdf: its groups, states and disabled collisions.
    """
    for name, text, what in (
        ("robot_description", urdf, "URDF of the robot."),
        ("robot_description_semantic", srdf, "SRDF of the robot."),
    ):
        if not node.has_parameter(name):
            descriptor = ParameterDescriptor(description=what, read_only=True)
            # Overrides of a MoveIt launch file are ignored: the planner uses its own description.
            node.declare_parameter(name, text, descriptor, ignore_override=True)


class PlanningSceneOwner:
    """Owns the planning scene of a robot; thread-safe."""

    def __init__(
        self,
        node: RobotNode[Any],
        kinematics: Kinematics,
        frames: RobotFrames,
        state: CurrentStateMonitor,
        scenery: Scenery | None = None,
    ) -> None:
        """Create the topics; :meth:`serve` adds the services, :meth:`announce` publishes.

        Args:
            node: of the endpoints and the robot; its parameter ``state_publish_rate`` is the
                publish rate of the robot state during motion [Hz].
            kinematics: of all its joints, relative to its base frame.
            frames: of the robot and /tf.
            state: of the robot.
            scenery: objects present from the start, which are removed only by name.
        """
        self._node, self._state = node, state
        robot = self._robot = node.robot
        # Unique, so that followers recognize a restarted owner.
        self.name = f"{robot.tree.name}_{secrets.token_hex(4)}"
        scene_frames = SceneFrames(kinematics, frames, self._positions)
        scenery = scenery or Scenery()
        self._scenery = scenery
        self.messages = SceneMessages(robot, scene_frames, self.name, scenery)
        self.world = World(scenery.scene())
        """Current scene, and its interface for changes in this process."""
        self._lock = threading.RLock()
        # Not node.poll, which drops messages from before the activation.
        self._topics = [
            PolledSubscription(node, kind, name, profile)
            for kind, name, profile in (
                (PlanningScene, "planning_scene", qos.SCENES),
                (PlanningSceneWorld, "planning_scene_world", qos.SCENES),
                (CollisionObject, "collision_object", qos.SCENE_OBJECTS),
                (AttachedCollisionObject, "attached_collision_object", qos.SCENE_OBJECTS),
            )
        ]
        self._arrivals, self._early = Arrivals(self._topics), EarlyAttachments()
        self._meshes, self._unprepared = MeshPreparation(), False
        self._published = self.world.scene
        self._published_positions: Array = np.full(len(robot.joint_names), np.nan)
        self._published_at = -np.inf
        self._busy_at = -np.inf
        self._monitored = node.advertise(PlanningScene, "monitored_planning_scene", qos.SCENES)
        self._cleared = node.advertise(EmptyMessage, OCTOMAP_CLEARED, qos.REQUESTS)
        self._semantic = node.advertise(String, "robot_description_semantic", qos.LATCHED)
        self._srdf = srdf(robot, self.messages.never_checked)
        declare_descriptions(node, with_absolute_meshes(robot.urdf, robot.directory), self._srdf)

    @property
    def scene(self) -> Scene:
        """Current scene, with all received changes."""
        self.update()
        return self.world.scene

    @property
    def topics(self) -> Sequence[PolledSubscription[Any]]:
        """Subscriptions of changes, which :meth:`update` reads."""
        return self._topics

    @property
    def quiet(self) -> bool:
        """Whether the robot rests and no change of the scene has been received for a while."""
        return time.monotonic() - self._busy_at > QUIET_AFTER

    def serve(self, threads: ServiceThreads) -> None:
        """Add the services."""
        profile = qos.SERVICES
        threads.serve(GetPlanningScene, "get_planning_scene", self._get, profile)
        threads.serve(ApplyPlanningScene, "apply_planning_scene", self._apply, profile)
        threads.serve(Empty, "clear_octomap", self._clear_octomap, profile)

    def announce(self) -> None:
        """Publish the whole scene; on activation."""
        self._semantic.publish(String(data=self._srdf))
        with self._lock:
            self._published = self.world.scene
            self._monitored.publish(self.messages.message(self._published, self._joints()))

    def tick(self) -> None:
        """Apply received changes, publish them and the robot state; in the node's loop."""
        self.update()
        positions, fault = self._state.newest()
        age = time.monotonic() - self._published_at
        motion = np.abs(positions - self._published_positions).max(initial=0.0)
        at_rest = motion < MOTION_THRESHOLD
        if not at_rest:
            self._busy_at = time.monotonic()
        if fault or age < (
            REPUBLISH_PERIOD if at_rest else 1.0 / self._node.params.state_publish_rate
        ):
            return
        self._published_positions, self._published_at = positions, time.monotonic()
        message = self.messages.state_message(self._named(positions))
        message.robot_state.joint_state.header.stamp = self._node.get_clock().now().to_msg()
        with self._lock:
            self._monitored.publish(message)

    def update(self) -> None:
        """Apply the received messages in order of arrival, and publish the changes."""
        with self._lock:
            received = self._arrivals.take()
            if received:
                self._busy_at = time.monotonic()
                self._change(*received)
            expired = self._early.given_up()
            if expired:
                self._change(*expired, waiting=False)  # which rejects them
            if self._unprepared:
                self._prepare_meshes()
            self._publish_changes()

    def scene_with(self, change: PlanningScene | None, state: RobotState | None = None) -> Scene:
        """Return the scene of a request.

        Both arguments are applied as differences, regardless of is_diff: clients that set joint
        positions do not intend to detach objects.

        Args:
            change: planning scene of the request; None: unchanged.
            state: start state of the request, whose attached objects are added.

        Raises:
            RequestRejected: an invalid change.
        """
        messages = [] if state is None else list(state.attached_collision_objects)
        if change is not None:
            change.is_diff = change.robot_state.is_diff = True
            messages.insert(0, change)
        if not messages:
            return self.scene
        scene, findings = self.messages.apply(self.scene, *messages)
        for text in findings.warnings:
            self._node.warn("scene of a request", f"scene of a request: {text}")
        if findings.refused:
            raise RequestRejected(
                MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
                f"the request's planning scene: {'; '.join(findings.refused)}",
            )
        return scene

    def own_objects(self) -> tuple[WorldObject, ...]:
        """Return the objects of the world, without scenery and octomap."""
        scenery = self._scenery.objects
        return tuple(o for n, o in self.scene.objects.items() if n not in scenery and n != OCTOMAP)

    def add_objects(self, objects: Iterable[WorldObject]) -> list[str]:
        """Add objects, or none of them if one is rejected.

        Args:
            objects: with poses in the planning frame; objects of the same names are replaced.

        Returns:
            Why they are rejected; empty if they are added.
        """
        scene = Scene({item.name: item for item in objects})
        components = PlanningSceneComponents
        message = self.messages.message(
            scene, {}, components.WORLD_OBJECT_GEOMETRY | components.OBJECT_COLORS
        )
        message.is_diff = message.robot_state.is_diff = True
        with self._lock:
            self.update()
            after, findings = self.messages.apply(self.world.scene, message)
            if findings.success and after is not self.world.scene:
                self.world.replace(after)
                self._publish_changes()
        return findings.refused

    def octomap(self) -> Voxels | None:
        """Return the occupied voxels in the planning frame; None without an octomap."""
        item = self.scene.objects.get(OCTOMAP)
        if item is None:
            return None
        solid = item.parts[0].solid
        assert isinstance(solid, Voxels)
        return moved(solid, item.X_WO)

    def replace_octomap(self, solid: Voxels | None) -> None:
        """Replace the octomap by voxels in the planning frame; None removes it."""
        message = PlanningScene(is_diff=True, robot_state=RobotState(is_diff=True))
        item = None if solid is None else world_object(OCTOMAP, solid, np.eye(4))
        fill_world(message.world, item, "")
        with self._lock:
            self.update()
            self._change(message)
            self._publish_changes()

    def diagnose(self, report: Report) -> None:
        """Report the number of objects."""
        scene = self.world.scene
        report.value("objects", len(scene.objects))
        report.value("attached objects", len(scene.attached))
        report.value("scene revision", scene.revision)

    def destroy(self) -> None:
        """Destroy the subscriptions; the node destroys its publishers."""
        self._meshes.close()
        for topic in self._topics:
            topic.destroy()

    # ---- inside

    def _positions(self) -> Array:
        positions, fault = self._state.newest()
        if fault:
            raise MotionError(f"the robot's state is not known: {fault}")
        return positions

    def _named(self, positions: Array) -> dict[str, float]:
        return dict(zip(self._robot.joint_names, positions.tolist(), strict=True))

    def _joints(self) -> dict[str, float]:
        positions, fault = self._state.newest()
        return {} if fault else self._named(positions)

    def _change(self, *messages: Any, waiting: bool = True) -> SceneWarnings:
        """Apply messages; with the lock held."""
        before = self.world.scene
        early = self._early if waiting else None
        after, findings = self.messages.apply(before, *messages, early=early)
        if after is not before:
            self.world.replace(after)
            self._prepare_meshes()
        for text in findings.refused:
            self._node.warn("scene", f"planning scene: rejected: {text}")
        for text in findings.warnings:
            self._node.warn("scene", f"planning scene: {text}")
        return findings

    def _prepare_meshes(self) -> None:
        """Prepare the derived data of meshes before one is attached; with the lock held.

        Otherwise the loops of followers would stall while they compute it.
        """
        meshes = large_meshes(all_parts(self.world.scene))
        self._unprepared = not self._meshes.ready(meshes)

    def _publish_changes(self) -> None:
        """Publish the difference from the last published scene; with the lock held."""
        scene = self.world.scene
        if scene is self._published:
            return
        diff = difference(self._published, scene)
        self._published = scene
        if not diff.empty and self._node.active:
            self._monitored.publish(self.messages.diff_message(scene, diff))

    def _get(self, request: Any, response: Any) -> Any:
        components = request.components.components
        response.scene = self.messages.message(self.scene, self._joints(), components)
        response.scene.robot_state.joint_state.header.stamp = self._node.get_clock().now().to_msg()
        return response

    def _apply(self, request: Any, response: Any) -> Any:
        with self._lock:
            self.update()
            response.success = self._change(request.scene).success
            self._publish_changes()
        return response

    def _clear_octomap(self, request: Any, response: Any) -> Any:
        """Remove the octomap, and have mappers clear theirs."""
        with self._lock:
            self.update()
            self._cleared.publish(EmptyMessage())
            if OCTOMAP in self.world.scene.objects:
                self.world.remove(OCTOMAP)
            self._publish_changes()
        return response


class SceneFiles:
    """Serves files of objects and octomaps; the responses have no text, so reasons are logged."""

    def __init__(
        self, node: MotionNode[Any], scenes: PlanningSceneOwner, threads: ServiceThreads
    ) -> None:
        self._node = node
        self._scenes = scenes
        profile = qos.SERVICES
        threads.serve(SaveGeometryToFile, "save_geometry_to_file", self._save, profile)
        threads.serve(LoadGeometryFromFile, "load_geometry_from_file", self._load, profile)
        threads.serve(SaveMap, "save_map", self._save_map, profile)
        threads.serve(LoadMap, "load_map", self._load_map, profile)

    def _save(self, request: Any, response: Any) -> Any:
        """Write the objects of the world, without scenery, octomap and attached objects."""

        def save(file: str) -> str:
            objects = self._scenes.own_objects()
            save_scene(file, objects, self._scenes.name)
            return f"{len(objects)} objects saved to {file}"

        return self._answer("save_geometry_to_file", save, request.file_path_and_name, response)

    def _load(self, request: Any, response: Any) -> Any:
        """Add the objects of a file, or none; those of the same names are replaced."""

        def load(file: str) -> str:
            objects = load_scene_file(file)
            refused = self._scenes.add_objects(objects)
            if refused:
                raise InvalidCommand(f"nothing is loaded: {'; '.join(refused)}")
            return f"{len(objects)} objects loaded from {file}"

        return self._answer("load_geometry_from_file", load, request.file_path_and_name, response)

    def _save_map(self, request: Any, response: Any) -> Any:
        """Write the octomap."""

        def save(file: str) -> str:
            solid = self._scenes.octomap()
            path = writable_path(file, ".bt")
            if path.exists() and not path.read_bytes().startswith(MAGIC):
                raise InvalidCommand(f"'{path}' is no file of OctoMap; it is not replaced")
            write_aside(path, octomap_bytes(solid))
            return f"{0 if solid is None else len(solid.cells)} voxels saved to {file}"

        return self._answer("save_map", save, request.filename, response)

    def _load_map(self, request: Any, response: Any) -> Any:
        """Replace the octomap."""

        def load(file: str) -> str:
            solid = read_octomap(readable_path(file).read_bytes(), file)
            self._scenes.replace_octomap(solid)
            return f"{0 if solid is None else len(solid.cells)} voxels loaded from {file}"

        return self._answer("load_map", load, request.filename, response)

    def _answer(self, service: str, job: Callable[[str], str], file: str, response: Any) -> Any:
        """Execute a job with the requested file; log its result or its error."""
        try:
            done = job(file)
        except (MotionError, OSError) as error:
            self._node.warn(service, f"{service}: {error}")
        else:
            self._node.get_logger().info(done)
            response.success = True
        return response


def save_scene(name: str, objects: tuple[WorldObject, ...], scene: str) -> None:
    """Write a scene file; an existing file is replaced only if it is one.

    Args:
        name: absolute path that ends with ``.scene``, in an existing folder.
        objects: to write.
        scene: name of the scene.

    Raises:
        InvalidCommand: a path that is not allowed.
        InvalidDescription: an existing file that is not a scene file.
        OSError: the file cannot be written.
    """
    path = writable_path(name, SUFFIX)
    if path.exists():
        load_scene_file(name)
    write_aside(path, scene_text(objects, scene).encode())


def writable_path(name: str, suffix: str) -> Path:
    """Return the path of a file that may be written.

    Args:
        name: absolute path that ends with the suffix, in an existing folder.
        suffix: of the file.

    Raises:
        InvalidCommand: a path that is not allowed.
    """
    path = _absolute(name)
    if path.suffix != suffix:
        raise InvalidCommand(f"'{name}' does not end with '{suffix}'; other files are not written")
    if not path.parent.is_dir():
        raise InvalidCommand(f"'{path.parent}' is not a folder; create it first")
    if path.is_symlink():
        raise InvalidCommand(f"'{path}' is a symbolic link; give the path of the file itself")
    return path


def write_aside(path: Path, content: bytes) -> None:
    """Write a file as a whole: a reader sees the old or the new one.

    Raises:
        OSError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_scene_file(name: str) -> tuple[WorldObject, ...]:
    """Return the objects of a scene file.

    Args:
        name: absolute path.

    Raises:
        InvalidCommand: a path that is not absolute, no regular file, or a file that is too large.
        InvalidDescription: it is not a scene file; names the line.
        OSError: the file cannot be read.
    """
    path = readable_path(name)
    try:
        return read_scene_text(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise InvalidDescription(f"{path} is not a text file") from None


def readable_path(name: str) -> Path:
    """Return the path of a file that may be read.

    Raises:
        InvalidCommand: a path that is not absolute, no regular file, or a file that is too large.
    """
    path = _absolute(name)
    if not path.is_file():
        raise InvalidCommand(f"'{path}' is not a file")
    size = path.stat().st_size
    if size > MAX_SIZE:
        raise InvalidCommand(f"'{path}' has {size} bytes; allowed are {MAX_SIZE}")
    return path


def _absolute(name: str) -> Path:
    if "\0" in name:
        raise InvalidCommand("a path must not contain the character 0")
    path = Path(name)
    if not path.is_absolute():
        raise InvalidCommand(
            f"'{name}' is not an absolute path; the node's working directory is not the client's"
        )
    return path

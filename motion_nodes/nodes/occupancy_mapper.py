# SPDX-License-Identifier: Apache-2.0
"""Occupancy mapper: builds the octomap of a robot's planning scene from depth cameras.

The loop reads the newest image of each camera, with the poses of camera and robot at its stamp. An
image whose transforms or joint states have not arrived waits for them for a short time. The robot,
attached objects and the objects of the planning scene are excluded from the map.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from moveit_msgs.msg import ContactInformation, PlanningScene
from moveit_msgs.srv import GetStateValidity
from octomap_msgs.msg import Octomap
from octomap_msgs.srv import GetOctomap
from rclpy.clock import Clock, ClockType
from sensor_msgs.msg import Image, PointCloud2
from std_msgs.msg import Empty as EmptyMessage
from std_srvs.srv import Empty
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.robot.bounds import EARTH_LENGTH
from motion_nodes.core.scene.distance_field import DistanceField
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.scene.voxels import OCTOMAP, Voxels
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.extras.perception.occupancy_map import OccupancyMap
from motion_nodes.extras.perception.settings import MapSettings
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.camera_messages import cloud_message, depth_message
from motion_nodes.ros.messages.markers import Markers
from motion_nodes.ros.names import OCTOMAP_CLEARED, STOP_TOPIC
from motion_nodes.ros.node import MotionNode, RobotNode
from motion_nodes.ros.parameters import core_params, param, settings_from
from motion_nodes.ros.robot_cameras import CameraInput, CameraParams, RobotCameras, View
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.scene.scene_update import octomap_message
from motion_nodes.typing import Array

POLICIES = ("keep", "decay", "block")
MARKER_PERIOD = 0.5
"""Min time between two messages of markers [s]."""
MOST_POINTS = 100_000
"""Max number of points of a request for distances."""
LOST_AFTER = 1.0
"""Time after which an octomap that is missing in the planning scene is published again [s]."""
FOLLOW_PERIOD = 0.1
"""Period at which the pose of a base in the map is read [s]."""
FOLLOW_STEPS = 5
"""Voxels by which the base moves before the region does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(MapSettings, read_only=("resolution", "region_min", "region_max", "max_memory"))
class MapperParams(CameraParams):
    """Parameters of the occupancy mapper."""

    update_rate: float = param(
        30.0, doc="Rate at which images are processed.", unit="Hz", gt=0.0, le=200.0, read_only=True
    )
    publish_rate: float = param(
        30.0, doc="Max rate of octomaps; each is published after a change.", unit="Hz", gt=0.0,
        le=100.0,
    )  # fmt: skip
    map_frame: str = param(
        "",
        doc="Frame of the map, such as odom for a moving base; empty: the robot's base frame.",
        read_only=True,
    )
    camera_stopped: str = param(
        "keep",
        doc="If a camera stops: keep the map, let its voxels decay (after decay_time, or after "
        "camera_timeout if that is 0), or block motion by a stop of all robots until a resume.",
        one_of=POLICIES,
    )
    slice_rate: float = param(
        5.0, doc="Rate of ~/distance_slice and ~/distance_slice_points, while there are "
            "subscribers.", unit="Hz", gt=0.0, le=100.0, read_only=True,
    )  # fmt: skip
    slice_height: float = param(
        0.3, doc="Height of these slices in the map's frame; the nearest one in the region counts.",
        unit="m", ge=-1e3, le=1e3,
    )  # fmt: skip
    resolution: float
    decay_time: float
    robot_padding: float


class DistanceOutputs:
    """Distances to the map's voxels for other nodes: a service, and a slice as image and cloud.

    In the executor; the loop only hands out a copy of the occupied voxels.
    """

    def __init__(self, node: OccupancyMapperNode) -> None:
        """Create the endpoints.

        Args:
            node: the mapper.
        """
        self._node = node
        self._known: tuple[int, DistanceField] | None = None
        self._image = node.advertise(Image, "~/distance_slice", qos.STREAM)
        self._cloud = node.advertise(PointCloud2, "~/distance_slice_points", qos.STREAM)
        node.serve(GetStateValidity, "~/get_distances", self._on_get)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(1.0 / node.params.slice_rate, self._publish, clock=steady)

    def destroy(self) -> None:
        """Destroy the timer."""
        self._node.destroy_timer(self._timer)

    def _field(self) -> DistanceField:
        """Return the field of the map as it is now."""
        made = self._node.map
        revision, occupied, first = self._node.in_loop(
            lambda: (made.revision, made.occupied, made.first)
        )
        if self._known is None or self._known[0] != revision:
            field = DistanceField(occupied, first, made.settings.resolution)
            self._known = revision, field
        return self._known[1]

    def _on_get(self, request: Any, response: Any) -> Any:
        """Return distance and gradient at each point; none if a point or the frame is invalid."""
        given = request.robot_state.multi_dof_joint_state
        frame, names = self._node.map_frame, list(given.joint_names)
        try:
            points = np.array([(t.translation.x, t.translation.y, t.translation.z)
                               for t in given.transforms]).reshape(-1, 3)  # fmt: skip
            if len(points) > MOST_POINTS or not (np.abs(points) <= EARTH_LENGTH.max).all():
                raise InvalidCommand(
                    f"{len(points)} points are given, or one is not finite or too far away; "
                    f"allowed are {MOST_POINTS}"
                )
            X_MF = self._node.frame_in_map(given.header.frame_id)
            points = points @ X_MF[:3, :3].T + X_MF[:3, 3]
            field = self._field()
        except (MotionError, TimeoutError) as error:
            self._node.warn("distances", f"get_distances refused: {error}")
            return response
        distances, gradients = field.distance(points), field.gradient(points)
        stamp = self._node.get_clock().now().to_msg()
        for k, (point, away) in enumerate(zip(points.tolist(), gradients.tolist(), strict=True)):
            found = ContactInformation(depth=-float(distances[k]), contact_body_2=OCTOMAP)
            found.header.frame_id, found.header.stamp = frame, stamp
            found.position.x, found.position.y, found.position.z = point
            found.normal.x, found.normal.y, found.normal.z = away
            found.contact_body_1 = names[k] if k < len(names) else ""
            found.body_type_2 = ContactInformation.WORLD_OBJECT
            response.contacts.append(found)
        response.valid = bool((distances > 0.0).all())
        return response

    def _publish(self) -> None:
        """Publish the slice for subscribers."""
        image, cloud = (out.get_subscription_count() for out in (self._image, self._cloud))
        if not (image or cloud):
            return
        try:
            field = self._field()
        except TimeoutError:
            return
        height = self._node.params.slice_height
        values = field.slice_at(height)
        frame, stamp = self._node.map_frame, self._node.get_clock().now().to_msg()
        if image:
            # As a map is shown: x to the right, y upward.
            self._image.publish(depth_message(values.T[::-1], frame, stamp))
        if cloud:
            i, j = np.indices(values.shape).reshape(2, -1)
            x, y = (field.first[:2, None] + field.edge * np.stack((i, j))).astype(np.float32)
            z = np.full(len(x), height, np.float32)
            rows = np.column_stack((x, y, z, values.ravel()))
            self._cloud.publish(cloud_message(rows, frame, stamp, "intensity"))


class MapperOutputs:
    """Publishers of the map."""

    def __init__(self, node: MotionNode[Any], frame: str, resolution: float) -> None:
        """Create the publishers.

        Args:
            node: the mapper.
            frame: of the map.
            resolution: edge of a voxel [m].
        """
        self._node, self._frame, self._resolution = node, frame, resolution
        self._scene = node.advertise(PlanningScene, "planning_scene", qos.SCENES)
        self._binary = node.advertise(Octomap, "~/octomap_binary", qos.LATCHED)
        self._full = node.advertise(Octomap, "~/octomap_full", qos.LATCHED)
        self._points = node.advertise(PointCloud2, "~/occupied_points", qos.LATCHED)
        self._markers = node.advertise(MarkerArray, "~/markers", qos.LATCHED)
        self._markers_at = -np.inf
        self._unshown: Voxels | None = None
        self._to_show = False

    def message(self, solid: Voxels | None, binary: bool = True) -> Octomap:
        """Return the map as a message."""
        stamp = self._node.get_clock().now().to_msg()
        return octomap_message(solid, self._frame, stamp, self._resolution, binary)

    def publish(self, solid: Voxels | None) -> None:
        """Publish a map; None if nothing is occupied."""
        scene = PlanningScene(is_diff=True)
        scene.robot_state.is_diff = True
        octomap = scene.world.octomap
        octomap.octomap = self.message(solid)
        octomap.header.frame_id = self._frame
        octomap.header.stamp = octomap.octomap.header.stamp
        octomap.origin.orientation.w = 1.0
        self._scene.publish(scene)
        self._binary.publish(octomap.octomap)
        if self._full.get_subscription_count():
            self._full.publish(self.message(solid, binary=False))
        if self._points.get_subscription_count():
            centres = _centres(solid).astype(np.float32)
            self._points.publish(cloud_message(centres, self._frame, octomap.header.stamp))
        self._unshown, self._to_show = solid, True

    def show(self) -> None:
        """Publish the markers if there are subscribers."""
        now = time.monotonic()
        if not self._to_show or now - self._markers_at < MARKER_PERIOD:
            return
        if not self._markers.get_subscription_count():
            return
        self._markers_at, self._to_show = now, False
        markers = Markers(self._frame, self._node.get_clock().now().to_msg())
        markers.cubes("occupied", _centres(self._unshown), self._resolution)
        self._markers.publish(markers.message)

    def hide(self) -> None:
        """Delete the markers."""
        stamp = self._node.get_clock().now().to_msg()
        self._markers.publish(Markers(self._frame, stamp).message)


def _centres(solid: Voxels | None) -> np.ndarray:
    if solid is None:
        return np.empty((0, 3))
    return np.asarray((solid.cells + 0.5) * solid.resolution, np.float64)


class OccupancyMapperNode(RobotNode[MapperParams]):
    """Maps the images of one robot's cameras."""

    params_type = MapperParams

    @classmethod
    def handles_images(cls) -> bool:
        """Return True: it receives the images of the robot's cameras."""
        return True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("occupancy_mapper", ros_args=ros_args)
        self._inputs: RobotCameras | None = None

    def check(self, params: MapperParams) -> str | None:
        """Validate the settings of the map."""
        try:
            settings_from(params, MapSettings)
        except InvalidConfig as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Allocate the map and create the endpoints."""
        params = self.params
        self._map = OccupancyMap(settings_from(params, MapSettings))
        # Compiles the kernels, or loads them from the cache.
        self._map.add_view(np.zeros((1, 3), np.float32), np.eye(4), 0.0)
        self._map.elapse(0.0)
        self._map = OccupancyMap(self._map.settings)
        inputs = self._inputs = RobotCameras(self, params.map_frame)
        self._poses, self._checker = inputs.poses, inputs.checker
        self._cameras = inputs.cameras
        self._scene = Scene()
        self._known_from: Scene | None = None
        self._outputs = MapperOutputs(self, self._poses.frame, params.resolution)
        self._distances = DistanceOutputs(self)
        self._cleared = self.poll(EmptyMessage, OCTOMAP_CLEARED, qos.REQUESTS)
        self._stop = self.advertise(EmptyMessage, STOP_TOPIC, qos.REQUESTS)
        self.serve(Empty, "~/clear", self._on_clear)
        self.serve(GetOctomap, "~/get_octomap", self._on_get)
        self._published: Voxels | None = None
        self._published_at, self._revision = -np.inf, -1
        self._view_time = 0.0
        self._blocked = False
        self._start: Array | None = None
        self._offset: Array = np.zeros(3)
        self._base = self._shown_from = np.eye(4)
        self._followed_at = -np.inf

    def release(self) -> None:
        """Destroy the subscriptions."""
        if self._inputs is not None:
            self._distances.destroy()
            self._inputs.destroy()
        self._inputs = None

    def activate(self) -> None:
        """Start with an empty map."""
        self._blocked = False
        self._restart()

    def tick(self, dt: float) -> None:
        """Map the newest images, and publish changes."""
        inputs = self._inputs
        if inputs is None:
            return
        inputs.update()
        self._follow_base()
        self._update_scene(inputs.follower.world.scene)
        if self._cleared.newest() is not None:
            self._map.clear()
        for camera in self._cameras:
            inputs.read(camera, self._add)
        self._age()
        self._publish(inputs.follower)

    def halt(self) -> None:
        """Delete the markers; the planning scene keeps the last octomap."""
        self._outputs.hide()

    def parameters_changed(self, params: MapperParams) -> None:
        """Apply new settings to the same map."""
        self._map.configure(settings_from(params, MapSettings))
        self._known_from = None

    def time_jumped(self, before: float, after: float) -> None:
        """Clear the map, which may be outdated."""
        self._restart()

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown."""
        return "" if self._inputs is None else self._inputs.waiting_for()

    def diagnose(self, report: Report) -> None:
        """Report cameras, map and planning scene."""
        if self._inputs is not None:
            self._inputs.diagnose(report, "mapped")
        if self._blocked:
            report.note("WARN", "motion is blocked: a camera stopped")
        solid = self._published
        report.value("occupied voxels", 0 if solid is None else len(solid.cells))
        report.value("time per image [ms]", 1e3 * self._view_time)
        if self._inputs is not None:
            if not self._inputs.follower.owned:
                report.note("WARN", "there is no planning scene to publish the octomap to")
            self._inputs.follower.diagnose(report)

    # ---- for the parts of the node

    @property
    def map(self) -> OccupancyMap:
        """The map; only in the loop."""
        return self._map

    @property
    def map_frame(self) -> str:
        """Full name of the map's frame."""
        return self._poses.frame

    def frame_in_map(self, frame: str) -> Array:
        """Return the pose of a frame in the map now, shape (4, 4); empty: the map's frame.

        Raises:
            MotionError: it is unknown.
        """
        if frame.lstrip("/") in ("", self._poses.frame):
            return np.eye(4)
        return self._poses.camera_at(frame, self.now())

    # ---- inside

    def _restart(self) -> None:
        self._map.clear()
        self._start, self._offset = None, np.zeros(3)
        self._map.shift(self._offset)
        if self._inputs is not None:
            self._inputs.restart()

    def _follow_base(self) -> None:
        """Move the region and the objects of the scene with a base that moves in the map."""
        now = time.monotonic()
        if self._poses.frame_is_base or now - self._followed_at < FOLLOW_PERIOD:
            return
        self._followed_at = now
        try:
            X_MB = self._poses.base_at(self.now() - self.params.transform_tolerance)
        except MotionError:
            return  # images wait for it, or are dropped with the reason
        if self._start is None:
            self._start = self._base = X_MB
        if _moved(self._base, X_MB, self.params.resolution):
            self._base, self._known_from = X_MB, None
        offset = X_MB[:3, 3] - self._start[:3, 3]
        if np.abs(offset - self._offset).max() > FOLLOW_STEPS * self.params.resolution:
            self._offset, self._known_from = offset, None
            self._map.shift(offset)

    def _update_scene(self, scene: Scene) -> None:
        """Read attached bodies and known objects."""
        if scene is self._known_from:
            return
        try:
            if scene.attached != self._scene.attached:
                self._checker.set_scene(Scene(attached=scene.attached))
            self._scene = scene
            known = [item for item in scene.objects.values() if item.name != OCTOMAP]
            fixed = self._poses.frame_is_base
            X_MB = self._poses.base_at(self.now()) if fixed else self._base
            self._map.set_known_objects(known, X_MB)
            self._known_from = scene
        except MotionError as error:
            self.warn("scene", f"objects of the planning scene are not excluded: {error}")

    def _add(self, _camera: CameraInput, view: View, stamp: float) -> None:
        """Map an image."""
        X_MC, X_MB = self._poses.camera_at(view.frame, stamp), self._poses.base_at(stamp)
        spheres = self._spheres(stamp, X_MB)
        begin = time.monotonic()
        self._map.add_view(view.points, X_MC, stamp, spheres)
        self._view_time = time.monotonic() - begin

    def _spheres(self, stamp: float, X_MB: Array) -> Array:
        """Return the spheres of robot and load in the map at a time, shape (s, 4).

        Spheres of the load are padded: voxels next to it are probably its own surface.
        """
        q = self._poses.history.at(stamp, self.params.transform_tolerance)
        spheres = self._checker.sphere_positions(q)
        loads = self._scene.attached
        carried = [body in loads for body in self._checker.sphere_bodies]
        spheres[carried, 3] += self.params.robot_padding
        centres = spheres[:, :3] @ X_MB[:3, :3].T + X_MB[:3, 3]
        return np.column_stack((centres, spheres[:, 3]))

    def _age(self) -> None:
        """Let voxels decay, and apply the policy for stopped cameras."""
        params = self.params
        stopped = [c.topic for c in self._cameras if c.age > params.camera_timeout]
        if not stopped or params.camera_stopped == "decay":
            rest = params.decay_time or (params.camera_timeout if stopped else 0.0)
            self._map.elapse(self.now(), rest)
        if not stopped:
            self._blocked = False
        elif params.camera_stopped == "block" and not self._blocked:
            self._blocked = True
            self._stop.publish(EmptyMessage())
            self.get_logger().error(f"all robots are stopped: no images on {', '.join(stopped)}")

    def _publish(self, follower: SceneFollower) -> None:
        """Publish the map if it changed, or if the planning scene lost it."""
        now = time.monotonic()
        self._outputs.show()
        if now - self._published_at < 1.0 / self.params.publish_rate:
            return
        lost = (
            self._published is not None
            and now - self._published_at > LOST_AFTER
            and follower.synchronised
            and OCTOMAP not in follower.world.scene.objects
        )
        # The scene has the map in the base's frame, in which it moves.
        again = lost or (
            self._published is not None
            and _moved(self._shown_from, self._base, self.params.resolution)
        )
        if self._map.revision == self._revision and not again:
            return
        solid, before, self._revision = self._map.voxels(), self._published, self._map.revision
        if not again and _same(solid, before):
            return
        self._published, self._published_at, self._shown_from = solid, now, self._base
        self._outputs.publish(solid)

    def _on_clear(self, _request: Any, response: Any) -> Any:
        self.in_loop(self._map.clear)
        return response

    def _on_get(self, _request: Any, response: Any) -> Any:
        response.map = self._outputs.message(self.in_loop(self._map.voxels))
        return response


def _moved(X_MA: Array, X_MB: Array, resolution: float) -> bool:
    """Return whether a point 1 m from the base moved by half a voxel between two of its poses."""
    turned = float(np.abs(X_MA[:3, :3] - X_MB[:3, :3]).max())
    way = float(np.abs(X_MA[:3, 3] - X_MB[:3, 3]).max())
    return way + turned > 0.5 * resolution


def _same(a: Voxels | None, b: Voxels | None) -> bool:
    return a is b or (a is not None and b is not None and a.equals(b))

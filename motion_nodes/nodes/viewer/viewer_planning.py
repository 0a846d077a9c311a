# SPDX-License-Identifier: Apache-2.0
"""Planning scene and plans of one robot on the viewer's page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from moveit_msgs.msg import CollisionObject, DisplayTrajectory, ObjectColor, PlanningScene
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.errors import MotionError
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.displayed_paths import displayed_path, trajectory_path
from motion_nodes.ros.names import PLANNER, under
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.collision_objects import moved_message, object_message, removed_message
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.scene.scene import WorldObject
from motion_nodes.typing import Array
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.marker_view import Drawing

PLANS = "display_planned_path"
TRAJECTORIES = "trajectory_generator/trajectory"
TREES = f"{PLANNER}/markers"
RECOVER = f"{PLANNER}/recover"
MAX_MARKERS = 64
"""Max number of displayed markers of a message."""


class WatchedPlanning:
    """Planning topics of one robot."""

    def __init__(
        self,
        node: MotionNode[Any],
        robot: Robot,
        name: str,
        namespace: str,
        kinematics: Kinematics,
        frames: RobotFrames,
    ) -> None:
        """Create the endpoints.

        Args:
            node: the viewer.
            robot: displayed.
            name: of the robot on the page.
            namespace: of the robot's topics.
            kinematics: of all its joints, relative to its base frame.
            frames: of the robot and /tf.
        """
        self._node, self._robot, self._name, self._namespace = node, robot, name, namespace
        self._plans = node.poll(DisplayTrajectory, under(namespace, PLANS), qos.NEWEST)
        self._trajectories = node.poll(JointTrajectory, under(namespace, TRAJECTORIES), qos.NEWEST)
        self.follower = SceneFollower(node, robot, kinematics, frames, namespace)
        self._changes = node.advertise(
            PlanningScene, under(namespace, "planning_scene"), qos.SCENES
        )
        self._recover = node.create_client(
            Trigger, under(namespace, RECOVER), qos_profile=qos.SERVICES
        )
        self._trees: PolledSubscription[MarkerArray] | None = None
        self._revision = 0

    def show(self, viewer: BrowserViewer, q: Array) -> None:
        """Update the page.

        Args:
            viewer: the page.
            q: positions of all joints [rad or m], shape (n,), for those that are not in a plan.
        """
        scene = self.follower.scene
        if scene.revision != self._revision:
            self._revision = scene.revision
            viewer.update_scene(self._name, scene)
        names = self._robot.joint_names
        for topic, subscription, path_of in (
            (PLANS, self._plans, displayed_path),
            (TRAJECTORIES, self._trajectories, trajectory_path),
        ):
            message = subscription.newest()
            if message is None:
                continue
            try:
                viewer.update_plan(self._name, *path_of(message, names, q))
            except MotionError as error:
                self._warn(topic, error)
        self._show_tree(viewer)

    def send_object(self, viewer: BrowserViewer, name: str, item: WorldObject | None) -> None:
        """Add, move or remove (None) an object of the planning scene."""
        self._change_scene(viewer, {name: item})

    def send_scene(self, viewer: BrowserViewer, items: tuple[WorldObject, ...]) -> None:
        """Add objects to the planning scene."""
        self._change_scene(viewer, {item.name: item for item in items})

    def _change_scene(
        self, viewer: BrowserViewer, changes: Mapping[str, WorldObject | None]
    ) -> None:
        """Publish objects by name as one diff; None: remove it."""
        message = PlanningScene(is_diff=True)
        message.robot_state.is_diff = True
        message.world.collision_objects = [
            self._change(name, item) for name, item in changes.items()
        ]
        for name, item in changes.items():
            if item is not None and item.rgba is not None:
                colour = ObjectColor(id=name)
                rgba = colour.color
                rgba.r, rgba.g, rgba.b, rgba.a = map(float, item.rgba)
                message.object_colors.append(colour)
        self.publish(viewer, message)

    def publish(self, viewer: BrowserViewer, message: PlanningScene) -> bool:
        """Publish a diff of the planning scene.

        Args:
            viewer: the page, which shows that nobody receives it.
            message: the diff.

        Returns:
            Whether it was published.
        """
        received = bool(self._changes.get_subscription_count())
        viewer.set_scene_message(
            self._name,
            "" if received else "This robot has no planning scene: is its planner running?",
        )
        if received:
            self._changes.publish(message)
        return received

    def tried(self, message: PlanningScene, q: Array) -> list[str]:
        """Return why a diff would be refused, or have no effect; empty if it would be applied.

        Args:
            message: the diff.
            q: positions of all joints [rad or m], shape (n,); NaN: unknown.
        """
        if not np.isfinite(q).all():
            return ["the robot's state is not known"]
        _, findings = self.follower.messages.standing(q).apply(self.follower.scene, message)
        return [*findings.refused, *findings.warnings]

    def send_recover(self, viewer: BrowserViewer) -> None:
        """Call the planner's ``~/recover`` and display the result."""
        if not self._recover.service_is_ready():
            viewer.set_recovery_message(
                self._name, f"No service {self._recover.srv_name}: is the planner running?"
            )
            return
        viewer.set_recovery_message(self._name, "recovering")

        def done(future: Any) -> None:
            response = future.result()
            if response is not None:
                viewer.set_recovery_message(self._name, response.message)

        self._recover.call_async(Trigger.Request()).add_done_callback(done)

    def destroy(self) -> None:
        """Unsubscribe."""
        self.follower.destroy()
        if self._trees is not None:
            self._trees.destroy()
            self._trees = None

    def _change(self, name: str, item: WorldObject | None) -> CollisionObject:
        frame = self._robot.base_frame
        if item is None:
            return removed_message(name, frame)
        known = self.follower.scene.objects.get(name)
        if known is not None and known.parts is item.parts:
            return moved_message(item, frame)
        return object_message(item, frame)

    def _show_tree(self, viewer: BrowserViewer) -> None:
        """Show the search tree, which planners publish only while subscribed."""
        enabled = viewer.wants_tree(self._name)
        if enabled and self._trees is None:
            topic = under(self._namespace, TREES)
            self._trees = PolledSubscription(self._node, MarkerArray, topic, qos.LATCHED)
        if not enabled and self._trees is not None:
            self._trees.destroy()
            self._trees = None
        message = self._trees.newest() if self._trees is not None else None
        if message is None:
            return
        try:
            viewer.update_tree(self._name, drawings_of(message))
        except MotionError as error:
            self._warn(TREES, error)

    def _warn(self, topic: str, error: MotionError) -> None:
        self._node.warn(f"{self._name}: {topic}", f"{self._name}: {topic}: {error}")


def drawings_of(message: MarkerArray) -> list[Drawing]:
    """Return the lines and points of a message; other markers are ignored.

    Raises:
        InvalidCommand: points that are not finite, or an odd number of points of a line list.
    """
    drawings = []
    for marker in message.markers[:MAX_MARKERS]:
        if marker.action != Marker.ADD:
            continue
        points = np.array([(p.x, p.y, p.z) for p in marker.points], np.float64).reshape(-1, 3)
        c = marker.color
        rgb = (_byte(c.r), _byte(c.g), _byte(c.b))
        if marker.type == Marker.LINE_LIST:
            drawings.append(Drawing(points, rgb, size=1.5))
        elif marker.type == Marker.LINE_STRIP and len(points) > 1:
            pairs = np.stack([points[:-1], points[1:]], axis=1).reshape(-1, 3)
            drawings.append(Drawing(pairs, rgb, size=3.0))
        elif marker.type in (Marker.POINTS, Marker.SPHERE_LIST):
            drawings.append(Drawing(points, rgb, lines=False, size=float(marker.scale.x)))
    return drawings


def _byte(share: float) -> int:
    """Return a colour component, 0 to 1, as a byte."""
    return round(255 * min(max(float(np.nan_to_num(share)), 0.0), 1.0))

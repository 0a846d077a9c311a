# SPDX-License-Identifier: Apache-2.0
"""Planning scene and plans of one robot on the viewer's page.

Objects of the scene are attached and detached from the page. Collisions are reported at the
positions that the page commands, which the joint controller does not check.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    DisplayTrajectory,
    ObjectColor,
    PlanningScene,
)
from moveit_msgs.srv import GetStateValidity
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scene import WorldObject, touch_links
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.extras.viewer.live_robot import LiveRobot
from motion_nodes.extras.viewer.planning_view import Drawing
from motion_nodes.nodes.viewer.viewer_displays import byte_of
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.names import PLANNER, under
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.scene.collision_objects import (
    detached_message,
    moved_message,
    object_message,
    removed_message,
)
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.typing import Array

SERVICE = "check_state_validity"
COMMANDED = (
    "At the commanded positions, {bodies} are in collision. The sliders and named states of this "
    "tab move the joints without avoiding obstacles."
)
"""Notification of a collision at commanded positions."""
PLANS = "display_planned_path"
TRAJECTORIES = "trajectory_generator/trajectory"
TREES = f"{PLANNER}/markers"
RECOVER = f"{PLANNER}/recover"
MAX_MARKERS = 64
"""Max number of displayed markers of a message."""
CONFIRMATION_TIMEOUT = 3.0
"""Time within which the owner of the scene must apply a change [s]."""


class WatchedValidity:
    """Client of the kinematics service of one arm; one request at a time, the newest."""

    def __init__(
        self, node: MotionNode[Any], robot: Robot, namespace: str, jobs: ExecutorQueue
    ) -> None:
        """Create the client.

        Args:
            node: the viewer.
            robot: whose positions are checked.
            namespace: of the robot's topics.
            jobs: queue of the executor.
        """
        self._node, self._robot, self._jobs = node, robot, jobs
        self._client = node.create_client(
            GetStateValidity, under(namespace, SERVICE), qos_profile=qos.SERVICES
        )
        self._pending: tuple[GetStateValidity.Request, str] | None = None
        self._requested = False
        self._reported = ""

    def check(
        self, page: LiveRobot, positions: Mapping[str, float], q: Array, finding: str = COMMANDED
    ) -> None:
        """Notify the page if positions are in collision, once for each pair of bodies.

        Args:
            page: the robot on the page.
            positions: commanded positions by joint [rad or m].
            q: measured positions of all joints, shape (n,); NaN: unknown.
            finding: text of the notification, with ``{bodies}``.
        """
        names = self._robot.joint_names
        values = np.array(
            [positions.get(name, value) for name, value in zip(names, q, strict=True)]
        )
        if not np.isfinite(values).all():
            return
        # Measured positions may exceed a limit slightly, which is no collision.
        values = self._robot.limits.clip(values)
        request = GetStateValidity.Request()
        request.robot_state.joint_state.name = list(names)
        request.robot_state.joint_state.position = values.tolist()
        self._jobs.submit(lambda: self._request(page, request, finding))

    def check_carried(self, page: LiveRobot, name: str, q: Array) -> None:
        """Notify the page if the robot is in collision with an object that it carries from now on.

        Args:
            page: the robot on the page.
            name: of the attached object.
            q: measured positions of all joints, shape (n,); NaN: unknown.
        """
        self._jobs.submit(lambda: setattr(self, "_reported", ""))
        self.check(page, {}, q, f"With '{name}' attached, {{bodies}} are in collision.")

    def destroy(self) -> None:
        """Destroy the client."""
        self._node.destroy_client(self._client)

    def _request(self, page: LiveRobot, request: GetStateValidity.Request, finding: str) -> None:
        if self._requested:
            self._pending = request, finding
            return
        if not self._client.service_is_ready():
            return
        self._requested = True

        def answered(future: Any) -> None:
            self._requested = False
            if future.result() is not None:
                self._report(page, future.result(), finding)
            following, self._pending = self._pending, None
            if following is not None:
                self._request(page, *following)

        self._client.call_async(request).add_done_callback(answered)

    def _report(self, page: LiveRobot, response: GetStateValidity.Response, finding: str) -> None:
        bodies = [f"{c.contact_body_1} and {c.contact_body_2}" for c in response.contacts[:1]]
        text = "" if response.valid else "".join(bodies)
        if text and text != self._reported:
            page.notify("collision", finding.format(bodies=text))
        self._reported = text


def displayed_path(message: Any, joint_names: Sequence[str], q: Array) -> tuple[Array, Array]:
    """Return the joint positions of a displayed path over time.

    Args:
        message: a DisplayTrajectory, whose trajectories are concatenated; joints of other robots
            are ignored.
        joint_names: the robot's joints.
        q: positions of joints that the message does not contain [rad or m], shape (n,).

    Returns:
        Times from the start [s], shape (m,), and positions of all joints, shape (m, n).

    Raises:
        InvalidCommand: there are no points, a point has a wrong number of positions, or a value is
            not finite.
    """
    start = message.trajectory_start.joint_state
    row = np.array(q, dtype=np.float64)
    for name, value in zip(start.name, start.position, strict=False):
        if name in joint_names:
            row[joint_names.index(name)] = value
    return _joined([t.joint_trajectory for t in message.trajectory], joint_names, row, [row.copy()])


def trajectory_path(message: Any, joint_names: Sequence[str], q: Array) -> tuple[Array, Array]:
    """Return the joint positions of a JointTrajectory over time; see :func:`displayed_path`."""
    return _joined([message], joint_names, np.array(q, dtype=np.float64), [])


def _joined(
    trajectories: Sequence[Any], joint_names: Sequence[str], row: Array, rows: list[Array]
) -> tuple[Array, Array]:
    """Return times and rows of concatenated trajectories, after the given rows."""
    index = {name: i for i, name in enumerate(joint_names)}
    times, begin, given = [0.0] * len(rows), 0.0, len(rows)
    for trajectory in trajectories:
        names = trajectory.joint_names
        known = [(k, index[name]) for k, name in enumerate(names) if name in index]
        for point in trajectory.points:
            if len(point.positions) != len(names):
                raise InvalidCommand(
                    f"a displayed path has a point of {len(point.positions)} positions for "
                    f"{len(names)} joints",
                    field="positions",
                )
            for k, i in known:
                row[i] = point.positions[k]
            rows.append(row.copy())
            stamp = point.time_from_start
            times.append(begin + stamp.sec + 1e-9 * stamp.nanosec)
        begin = times[-1] if times else 0.0
    if len(rows) == given:
        raise InvalidCommand("a displayed path has no points", field="points")
    if not np.isfinite(rows).all():
        raise InvalidCommand(
            "a displayed path has positions that are not finite", field="positions"
        )
    return np.array(times), np.array(rows)


class WatchedPlanning:
    """Planning topics of one robot."""

    def __init__(
        self,
        node: MotionNode[Any],
        robot: Robot,
        namespace: str,
        kinematics: Kinematics,
        frames: RobotFrames,
    ) -> None:
        """Create the endpoints.

        Args:
            node: the viewer.
            robot: displayed.
            namespace: of the robot's topics.
            kinematics: of all its joints, relative to its base frame.
            frames: of the robot and /tf.
        """
        self._node, self._robot, self._namespace = node, robot, namespace
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

    def show(self, page: LiveRobot, q: Array) -> None:
        """Update the page.

        Args:
            page: the robot on the page.
            q: positions of all joints [rad or m], shape (n,), for those that are not in a plan.
        """
        scene = self.follower.scene
        if scene.revision != self._revision:
            self._revision = scene.revision
            page.update_scene(scene)
        names = self._robot.joint_names
        for topic, subscription, path_of in (
            (PLANS, self._plans, displayed_path),
            (TRAJECTORIES, self._trajectories, trajectory_path),
        ):
            message = subscription.newest()
            if message is None:
                continue
            try:
                page.update_plan(*path_of(message, names, q))
            except MotionError as error:
                self._warn(page, topic, error)
        self._show_tree(page)

    def send_object(self, page: LiveRobot, name: str, item: WorldObject | None) -> None:
        """Add, move or remove (None) an object of the planning scene."""
        self._change_scene(page, {name: item})

    def send_scene(self, page: LiveRobot, items: tuple[WorldObject, ...]) -> None:
        """Add objects to the planning scene."""
        self._change_scene(page, {item.name: item for item in items})

    def _change_scene(self, page: LiveRobot, changes: Mapping[str, WorldObject | None]) -> None:
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
        self.publish(page, message)

    def publish(self, page: LiveRobot, message: PlanningScene) -> bool:
        """Publish a diff of the planning scene.

        Args:
            page: the robot on the page, which shows that nobody receives it.
            message: the diff.

        Returns:
            Whether it was published.
        """
        received = bool(self._changes.get_subscription_count())
        lost = "This robot has no planning scene: is its planner running?"
        page.set_scene_message("" if received else lost)
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

    def send_recover(self, page: LiveRobot) -> None:
        """Call the planner's ``~/recover`` and display the result."""
        if not self._recover.service_is_ready():
            missing = f"No service {self._recover.srv_name}: is the planner running?"
            page.set_recovery_message(missing)
            return
        page.set_recovery_message("recovering")

        def done(future: Any) -> None:
            response = future.result()
            if response is not None:
                page.set_recovery_message(response.message)

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

    def _show_tree(self, page: LiveRobot) -> None:
        """Show the search tree, which planners publish only while subscribed."""
        enabled = page.wants_tree
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
            page.update_tree(_drawings_of(message))
        except MotionError as error:
            self._warn(page, TREES, error)

    def _warn(self, page: LiveRobot, topic: str, error: MotionError) -> None:
        where = f"{page.viewed.name}: {topic}"
        self._node.warn(where, f"{where}: {error}")


def _drawings_of(message: MarkerArray) -> list[Drawing]:
    """Return the lines and points of a message; other markers are ignored."""
    drawings = []
    for marker in message.markers[:MAX_MARKERS]:
        if marker.action != Marker.ADD:
            continue
        points = np.array([(p.x, p.y, p.z) for p in marker.points], np.float64).reshape(-1, 3)
        c = marker.color
        rgb = (byte_of(c.r), byte_of(c.g), byte_of(c.b))
        if marker.type == Marker.LINE_LIST:
            drawings.append(Drawing(points, rgb, size=1.5))
        elif marker.type == Marker.LINE_STRIP and len(points) > 1:
            pairs = np.stack([points[:-1], points[1:]], axis=1).reshape(-1, 3)
            drawings.append(Drawing(pairs, rgb, size=3.0))
        elif marker.type in (Marker.POINTS, Marker.SPHERE_LIST):
            drawings.append(Drawing(points, rgb, lines=False, size=float(marker.scale.x)))
    return drawings


class WatchedAttachment:
    """Sends changes of the attached objects, and reports why they are refused."""

    def __init__(self, robot: Robot, planning: WatchedPlanning, validity: WatchedValidity) -> None:
        """Create the sender.

        Args:
            robot: that carries the objects.
            planning: its planning scene.
            validity: checks the robot with what it carries.
        """
        self._robot, self._planning, self._validity = robot, planning, validity
        self._q: Array = np.full(len(robot.joint_names), np.nan)
        self._sent: tuple[str, str, float] | None = None
        """Object, link (empty: none) and deadline of the newest change, until it is applied."""

    def send(self, page: LiveRobot, name: str, link: str) -> None:
        """Attach an object at its present pose relative to a link, or detach it.

        Args:
            page: the robot on the page.
            name: of the object.
            link: the link; empty: detach.
        """
        try:
            message = attachment_diff(self._robot, name, link)
        except MotionError as error:
            page.notify(name, str(error))
            return
        # The owner refuses the same without a response, as it receives a topic.
        findings = self._planning.tried(message, self._q)
        if findings:
            page.notify(name, "; ".join(findings))
            return
        if self._planning.publish(page, message):
            self._sent = (name, link, time.monotonic() + CONFIRMATION_TIMEOUT)

    def show(self, page: LiveRobot, q: Array) -> None:
        """Report the outcome of the newest change.

        Args:
            page: the robot on the page.
            q: measured positions of all joints [rad or m], shape (n,); NaN: unknown.
        """
        self._q = q
        if self._sent is None:
            return
        name, link, deadline = self._sent
        body = self._planning.follower.scene.attached.get(name)
        if link == ("" if body is None else body.link):
            self._sent = None
            if link:
                self._validity.check_carried(page, name, q)
        elif time.monotonic() > deadline:
            self._sent = None
            verb = "attached" if link else "detached"
            page.notify(name, f"'{name}' was not {verb}: see the messages of the robot's planner.")


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

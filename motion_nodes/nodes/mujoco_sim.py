# SPDX-License-Identifier: Apache-2.0
"""MuJoCo simulation of one or more robots, with the topics of a driver.

Surface grippers have topics, a service and an action. A gripped object is attached to the gripper's
link in the planning scene of its robot, and removed from the scene when it is released.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.action import GripperCommand
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import TransformStamped, WrenchStamped
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject
from std_srvs.srv import SetBool

from motion_nodes.core.robot.placement import Placement, parse_placements
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.scene.scene import AttachedBody, world_object
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.extras.sim.backend import RobotBackend, RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_camera, parse_free_body
from motion_nodes.extras.sim.mjcf import WorldConfig, is_floating
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.sensors import CameraSettings
from motion_nodes.extras.sim.surface_gripper import (
    AXES,
    GripState,
    SurfaceGripper,
    SurfaceGripperSettings,
)
from motion_nodes.nodes.cell_topics import (
    CameraTopics,
    ContactReport,
    LaserTopics,
    ObjectMarkers,
    SceneFollowing,
)
from motion_nodes.nodes.simulation import SimulationNode, SimulationParams
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.servers import (
    ActionGoal,
    ActionOutcome,
    LoopActionServer,
    respond_from_loop,
)
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.rotations import matrix_of
from motion_nodes.ros.names import SURFACE_GRIPPER
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.parameters import core_params, param, settings_from
from motion_nodes.ros.scene.collision_objects import attached_message, detached_message

OPENING = 1e-3
"""Positions of GripperCommand above it open [m]."""
OBJECT_PERIOD = 0.05
"""Period of ~/objects [s]."""
PUSH_TIME = 0.2
"""Time for which a force on an object acts [s]."""


@dataclass(eq=False)
class _SurfaceGrip:
    """Execution of a goal."""

    goal: ActionGoal
    topics: SurfaceGripperTopics
    closing: bool
    canceled: bool = False

    @property
    def ended(self) -> bool:
        return self.canceled or self.topics.state is not GripState.CLOSING


class _GripServer(LoopActionServer[_SurfaceGrip]):
    def __init__(self, topics: SurfaceGripperTopics, node: MotionNode[Any], name: str) -> None:
        self._topics = topics
        super().__init__(node, [(GripperCommand, name)])

    def start(self, goal: ActionGoal) -> _SurfaceGrip | None:
        position = float(goal.request.command.position)
        closing = position <= OPENING
        try:
            if not np.isfinite(position):
                raise InvalidCommand(f"the position is {position}; 0 closes, above 0.001 opens")
            self._topics.node.in_loop(lambda: self._topics.set(closing))
        except (MotionError, TimeoutError) as error:
            self._topics.node.warn(SURFACE_GRIPPER, f"gripper goal refused: {error}")
            goal.finish(ActionOutcome.ABORTED, goal.result)
            return None
        return _SurfaceGrip(goal, self._topics, closing)

    def stop(self, work: _SurfaceGrip) -> None:
        work.canceled = True
        self._topics.set(False)

    def answer(self, work: _SurfaceGrip) -> None:
        result, held = work.goal.result, bool(self._topics.gripped)
        result.reached_goal = not work.closing or held
        result.stalled = work.closing and held
        result.position = 0.0 if held else 1.0
        outcome = ActionOutcome.SUCCEEDED if result.reached_goal else ActionOutcome.ABORTED
        work.goal.finish(ActionOutcome.CANCELED if work.canceled else outcome, result)


class SurfaceGripperTopics:
    """Interface of one surface gripper."""

    def __init__(
        self, node: MotionNode[Any], world: MujocoWorld, gripper: str, place: Placement
    ) -> None:
        """Create the endpoints.

        Args:
            node: the simulation.
            world: with the gripper.
            gripper: its name in the world.
            place: of its robot.
        """
        self.node, self._world = node, world
        self._run = world.grippers[gripper]
        prefix = f"{place.namespace}/" if place.namespace else ""
        own = f"{prefix}{SURFACE_GRIPPER}"
        self._status = node.advertise(DiagnosticStatus, f"{own}/status", qos.STATUS)
        self._attached = node.advertise(
            AttachedCollisionObject, f"{prefix}attached_collision_object", qos.REQUESTS
        )
        self._objects = node.advertise(CollisionObject, f"{prefix}collision_object", qos.REQUESTS)
        node.serve(SetBool, f"{own}/activate", self._on_activate)
        self._server: _GripServer | None = _GripServer(self, node, f"{own}/gripper_cmd")
        self._published: tuple[GripState, tuple[str, ...], str] | None = None
        self._held: tuple[str, ...] = ()

    @property
    def state(self) -> GripState:
        """State of the gripper."""
        return self._run.state

    @property
    def gripped(self) -> tuple[str, ...]:
        """Names of the held objects."""
        return self._run.gripped

    def set(self, closing: bool) -> None:
        """Close or open; in the loop.

        Raises:
            InvalidCommand: the simulation is not active.
        """
        if not self.node.active:
            raise InvalidCommand("the simulation is not active")
        self._world.act({self._run.gripper.name: 1.0 if closing else -1.0})

    def tick(self) -> None:
        """Publish changes; in the loop."""
        run = self._run
        reason = "" if run.state is GripState.CLOSING else run.reason
        now = (run.state, run.gripped, reason)
        if now == self._published:
            return
        if reason and (self._published is None or reason != self._published[2]):
            self.node.get_logger().warning(f"{SURFACE_GRIPPER}: {reason}")
        self._published = now
        for name in now[1]:
            if name not in self._held:
                self._attached.publish(self._attachment(name))
        for name in self._held:
            if name not in now[1]:
                self._attached.publish(detached_message(name))
                self._objects.publish(CollisionObject(id=name, operation=CollisionObject.REMOVE))
        self._held = now[1]
        self._status.publish(
            DiagnosticStatus(
                name=SURFACE_GRIPPER,
                message=self.state.name.lower(),
                hardware_id=run.gripper.body,
                values=[
                    KeyValue(key="state", value=str(int(self.state))),
                    KeyValue(key="gripped objects", value=", ".join(now[1])),
                    KeyValue(key="attachments lost", value=str(run.lost)),
                    KeyValue(key="reason", value=reason),
                ],
            )
        )

    def destroy(self) -> None:
        """Destroy the action server."""
        if self._server is not None:
            self._server.destroy()
        self._server = None

    def _attachment(self, name: str) -> AttachedCollisionObject:
        gripper, world = self._run.gripper, self._world
        body, X_WL = world.data.body(gripper.body), np.eye(4)
        X_WL[:3, :3], X_WL[:3, 3] = body.xmat.reshape(3, 3), body.xpos
        X_LO = inverse(X_WL) @ world.object_pose(name)
        parts = world_object(name, world.free_body(name).solid).parts
        held = AttachedBody(name, gripper.link, X_LO, parts, frozenset(self._touching()))
        return attached_message(held)

    def _touching(self) -> list[str]:
        """Return the link of the gripper, and those fixed to it."""
        robot = next(p.robot for p in self._world.placements
                     if p.name == self._run.gripper.robot)  # fmt: skip
        link = self._run.gripper.link
        touching = [link]
        while (joint := robot.tree.parent_joint.get(touching[-1])) is not None:
            touching.append(joint.parent)
            if joint.movable:
                break
        return touching

    def _on_activate(self, request: Any, response: Any) -> Any:
        def job() -> str:
            self.set(bool(request.data))
            return "closing" if request.data else "open"

        return respond_from_loop(self.node, response, job)


def gripper_link(word: str, places: tuple[Placement, ...]) -> tuple[int, str]:
    """Return the robot's index and the link of a word ``[NAMESPACE/]LINK``.

    Raises:
        InvalidConfig: no robot has the namespace.
    """
    namespace, _, link = word.strip().rpartition("/")
    for i, place in enumerate(places):
        if place.namespace == namespace.strip("/"):
            return i, link
    names = ", ".join(f"'{place.namespace}'" for place in places)
    raise InvalidConfig(
        f"surface_grippers: '{word}' names the namespace '{namespace}'; robots are in {names}"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(CameraSettings, "camera", read_only=("width", "height", "field_of_view"))
@core_params(SurfaceGripperSettings, "surface_gripper")
class MujocoSimParams(SimulationParams):
    """Parameters of the MuJoCo simulation."""

    floor_height: float = param(
        0.0,
        doc="Height of the floor in the world frame, in which root links of arms are at z = 0.",
        unit="m", ge=-100.0, le=100.0, read_only=True,
    )  # fmt: skip
    scene_bodies: bool = param(
        False,
        doc="Simulate the objects of the robots' planning scenes as rigid bodies.",
        read_only=True,
    )
    objects: tuple[str, ...] = param(
        (), doc="Objects that move freely, each as NAME:=SHAPE:SIZES:MASS@X,Y,Z[,YAW] in m, kg and "
        "rad, with the shapes box, sphere, cylinder, drawer and mesh (file, scale): "
        "cube:=box:0.05,0.05,0.05:0.2@0.5,0,0.025.", read_only=True,
    )  # fmt: skip
    cameras: tuple[str, ...] = param(
        (),
        doc="Depth cameras on links, each as [NAMESPACE/]NAME:=LINK@X,Y,Z[,ROLL,PITCH,YAW] in m "
        "and rad, looking along the x axis: camera:=panda_link0@1.3,0,0.9,0,0.6,3.14.",
        read_only=True,
    )
    camera_rate: float = param(
        10.0, name="camera.rate", doc="Image rate of the cameras.", unit="Hz", gt=0.0, le=60.0
    )
    surface_grippers: tuple[str, ...] = param(
        (),
        doc="Links with a surface gripper, one for each robot, as [NAMESPACE/]LINK.",
        read_only=True,
    )
    surface_gripper_axis: str = param(
        "z", name="surface_gripper.axis", doc="Axis of the link along which it grips.",
        one_of=AXES, read_only=True,
    )  # fmt: skip
    surface_gripper_points: tuple[float, ...] = param(
        (0.0, 0.0, 0.0), name="surface_gripper.points",
        doc="Attachment points in the link: x, y, z of each.", unit="m", ge=-10.0, le=10.0,
        read_only=True,
    )  # fmt: skip


class MujocoSimNode(SimulationNode[MujocoSimParams]):
    """Simulates robots with MuJoCo."""

    params_type = MujocoSimParams

    @classmethod
    def handles_images(cls) -> bool:
        """Return whether the command line gives cameras."""
        return any(word.startswith("cameras:=") for word in sys.argv)

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("mujoco_sim", ros_args=ros_args)
        self._scenes: SceneFollowing | None = None
        self._suction: list[SurfaceGripperTopics] = []
        self._objects: ObjectMarkers | None = None
        self._objects_at = -1.0
        self._cameras: CameraTopics | None = None

    def make_cell(self, placements: list[RobotPlacement]) -> RobotBackend:
        """Return a MuJoCo world."""
        height = self.params.floor_height
        on_floor = [_on_floor(p, height) if is_floating(p.robot) else p for p in placements]
        config = WorldConfig(
            floor_height=height,
            objects=tuple(parse_free_body(word) for word in self.params.objects if word),
            surface_grippers=self._surface_grippers(placements),
            visual_shapes=False,
        )
        self._world = MujocoWorld(on_floor, config)
        return self._world

    def _surface_grippers(self, placements: list[RobotPlacement]) -> tuple[SurfaceGripper, ...]:
        params, places = self.params, parse_placements(self.params.robots)
        numbers = params.surface_gripper_points
        if not numbers or len(numbers) % 3:
            raise InvalidConfig(
                f"surface_gripper.points has {len(numbers)} values; it must have x, y, z of each",
                field="surface_gripper.points",
            )
        points = tuple((x, y, z) for x, y, z in zip(*[iter(numbers)] * 3, strict=True))
        made, settings = [], settings_from(params, SurfaceGripperSettings, "surface_gripper_")
        for word in filter(None, params.surface_grippers):
            i, link = gripper_link(word, places)
            name = placements[i].name
            made.append(
                SurfaceGripper(name, name, link, points, params.surface_gripper_axis, settings)
            )
        return tuple(made)

    def configure(self) -> None:
        """Create the cell, and the subscriptions of planning scenes if enabled."""
        super().configure()
        self._contacts = ContactReport(self._world)
        self._objects = ObjectMarkers(self, self._world) if self._world.objects else None
        by_robot = dict(
            zip((p.name for p in self._world.placements), parse_placements(self.params.robots),
                strict=True)
        )  # fmt: skip
        self._suction = [
            SurfaceGripperTopics(self, self._world, name, by_robot[run.gripper.robot])
            for name, run in self._world.grippers.items()
        ]
        cameras = [parse_camera(word) for word in self.params.cameras if word]
        if cameras:
            names = {place.namespace: name for name, place in by_robot.items()}
            self._cameras = CameraTopics(self, self._world, cameras, names, list(by_robot.values()))
        scanned = any(p.robot.description.laser_scanners for p in self._world.placements)
        self._lasers = LaserTopics(self, self._world, by_robot) if scanned else None
        if self._world.objects:
            self._moved = self.poll(TransformStamped, "~/move_object", qos.REQUESTS)
            self._pushed = self.poll(WrenchStamped, "~/push_object", qos.REQUESTS)
        if self.params.scene_bodies:
            places = parse_placements(self.params.robots)
            robots = list(zip(places, self._world.placements, strict=True))
            self._scenes = SceneFollowing(self, self._world, robots)

    def activate(self) -> None:
        """Start the simulation, the updates of bodies and the cameras."""
        super().activate()
        if self._cameras is not None:
            self._cameras.start()
        if self._scenes is not None:
            self._scenes.start()

    def halt(self) -> None:
        """Stop the updates of bodies and the cameras."""
        if self._cameras is not None:
            self._cameras.stop()
        if self._scenes is not None:
            self._scenes.stop()
        super().halt()

    def release(self) -> None:
        """Destroy the subscriptions."""
        if self._scenes is not None:
            self._scenes.destroy()
        self._scenes = self._cameras = None
        for gripper in self._suction:
            gripper.destroy()
        self._suction = []
        super().release()

    def tick(self, dt: float) -> None:
        """Advance the simulation and record contacts."""
        if self._scenes is not None:
            self._scenes.tick()
        if self._world.objects:
            self._move_objects()
            self._push_objects()
        super().tick(dt)
        self._contacts.tick()
        if self._cameras is not None:
            self._cameras.tick(self._stamp())
        if self._lasers is not None:
            self._lasers.tick(self._stamp())
        for gripper in self._suction:
            gripper.tick()
        if self._objects is not None and abs(self.cell.time - self._objects_at) > OBJECT_PERIOD:
            self._objects_at = self.cell.time
            self._objects.publish(self._stamp())

    def idles(self) -> bool:
        """Return whether the next cycles change nothing but the time."""
        return self._cameras is None and self._lasers is None and super().idles()

    def silent(self) -> list[PolledSubscription[Any]]:
        """Return subscriptions of which any message changes the cell; without commands."""
        return [self._moved, self._pushed] if self._world.objects else []

    def _move_objects(self) -> None:
        """Put objects at requested poses in the world."""
        for message in self._moved.all():
            t, q = message.transform.translation, message.transform.rotation
            try:
                X = matrix_of((t.x, t.y, t.z), (q.x, q.y, q.z, q.w))
                self._world.place_object(message.child_frame_id, X)
            except (MotionError, ValueError) as error:
                self.warn("move_object", f"~/move_object: {error}")

    def _push_objects(self) -> None:
        """Apply requested forces; each acts until the next message, or for PUSH_TIME."""
        for message in self._pushed.all():
            f, t = message.wrench.force, message.wrench.torque
            try:
                wrench = np.array((f.x, f.y, f.z, t.x, t.y, t.z))
                self._world.push_object(message.header.frame_id, wrench, PUSH_TIME)
            except MotionError as error:
                self.warn("push_object", f"~/push_object: {error}")

    def parameters_changed(self, params: MujocoSimParams) -> None:
        """Apply real-time factor, latency, and the settings of surface grippers."""
        super().parameters_changed(params)
        settings = settings_from(params, SurfaceGripperSettings, "surface_gripper_")
        for run in self._world.grippers.values():
            run.settings = settings

    def diagnose(self, report: Report) -> None:
        """Report the real-time factor, contacts and bodies."""
        super().diagnose(report)
        self._contacts.diagnose(report)
        if self._scenes is not None:
            self._scenes.diagnose(report)
        if self._cameras is not None:
            self._cameras.diagnose(report)
        if self._lasers is not None:
            self._lasers.diagnose(report)


def _on_floor(placement: RobotPlacement, height: float) -> RobotPlacement:
    """Return the placement of a robot with a floating base at the height of the floor."""
    X_WR = placement.X_WR.copy()
    X_WR[2, 3] = height
    return RobotPlacement(placement.robot, placement.name, X_WR)

# SPDX-License-Identifier: Apache-2.0
"""Topics, service and action of one simulated surface gripper.

A gripped object is attached to the gripper's link in the planning scene of its robot, and removed
from the scene when it is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.action import GripperCommand
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject
from std_srvs.srv import SetBool

from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.model.placement import Placement
from motion_nodes.model.poses import inverse
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.action_servers import ActionGoal, ActionOutcome, LoopActionServer
from motion_nodes.ros.concurrency.services import respond_from_loop
from motion_nodes.ros.names import SURFACE_GRIPPER
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.scene.collision_objects import attached_message, detached_message
from motion_nodes.scene.scene import AttachedBody, world_object
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.surface_gripper import GripState

OPENING = 1e-3
"""Positions of GripperCommand above it open [m]."""


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

# SPDX-License-Identifier: Apache-2.0
"""The planner over DDS: round trips of plan_kinematic_path, and how soon a stop is a stop.

Run: ``python benchmarks/bench_planner_node.py`` (about two minutes). Random configurations of the
Franka, free in the world they are asked for in, from its home: in an empty world and among 40
boxes; then motions that are stopped by the topic trajectory_execution_event and by a cancel, from
the message to the controller's report that the trajectory has ended.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus, GoalStatusArray
from child_processes import ChildFailed, isolate, node_command, running, script_command
from geometry_msgs.msg import Pose
from goal_client import ACTION, GoalClient
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import CollisionObject, Constraints, JointConstraint
from plan_client import EDGE, boxes
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from report import Report, Spread, arguments, progress
from shape_msgs.msg import SolidPrimitive
from std_msgs.msg import String

COUNT = 200
"""Plans of each client."""
STOPS = 20
"""Motions that are stopped, in each way."""
ENDED = (GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED)


def ask(clients: int, objects: int) -> tuple[Spread, Spread, float, float]:
    """Return round trips and planning times [ms], plans per second and the share of successes."""
    command = script_command("plan_client.py", str(COUNT), str(objects))
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(clients)
    ]
    outputs = [child.communicate(timeout=300)[0] for child in children]
    if any(child.returncode for child in children):
        raise ChildFailed("a client of plan_kinematic_path failed")
    found = [json.loads(output) for output in outputs]
    took = [ms for one in found for ms in one["ms"]]
    planning = [ms for one in found for ms in one["planning"]]
    duration = max(one["end"] for one in found) - min(one["begin"] for one in found)
    good = sum(one["good"] for one in found) / len(took)
    return Spread.of(took), Spread.of(planning), len(took) / duration, good


def messages(count: int) -> list[CollisionObject]:
    """Return boxes as messages."""
    made = []
    for name, place in boxes(count):
        item = CollisionObject(id=name, operation=CollisionObject.ADD)
        at = item.pose.position
        at.x, at.y, at.z = place
        item.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[EDGE] * 3)]
        item.primitive_poses = [Pose()]
        made.append(item)
    return made


class Stopper:
    """Begins motions and stops them."""

    def __init__(self, node: Node) -> None:
        self.moves = GoalClient(node, "move_action", MoveGroup)
        reliable = QoSProfile(depth=50, reliability=ReliabilityPolicy.RELIABLE)
        self.ended_at = 0.0
        self.executing = False
        node.create_subscription(GoalStatusArray, f"{ACTION}/_action/status", self._hear, reliable)
        self.event = node.create_publisher(String, "trajectory_execution_event", 10)
        self.objects = node.create_publisher(CollisionObject, "collision_object", reliable)

    def _hear(self, message: Any) -> None:
        newest = message.status_list[-1].status if message.status_list else None
        self.executing = newest == GoalStatus.STATUS_EXECUTING
        if newest in ENDED:
            self.ended_at = time.monotonic()

    def stop_once(self, side: float, how: str) -> float:
        """Return the time from the message to the controller's end [ms]."""
        goal = MoveGroup.Goal()
        goal.request.group_name = "arm"
        goal.request.max_velocity_scaling_factor = 0.1
        goal.request.goal_constraints = [
            Constraints(
                joint_constraints=[JointConstraint(joint_name="panda_joint1", position=side)]
            )
        ]
        sent = self.moves.send_goal(goal)
        self.moves.wait(lambda: sent.handle is not None, "the goal's answer")
        self.executing = False
        self.moves.wait(lambda: self.executing, "the motion", within=90.0)
        self.moves.spin(0.5)
        self.ended_at, begin = 0.0, time.monotonic()
        if how == "stop":
            self.event.publish(String(data="stop"))
        else:
            sent.handle.cancel_goal_async()
        self.moves.wait(lambda: self.ended_at > 0.0, "the controller's end")
        took = 1e3 * (self.ended_at - begin)
        self.moves.wait(lambda: sent.ended, "the goal's result")
        return took


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__).parse_args()
    isolate()
    report = Report("The planner over DDS")
    nodes = (
        node_command("mock_sim", robots=["franka"]),
        node_command("articulation_controller", robot="franka", use_sim_time=True),
        node_command("rrt_planner", robot="franka", use_sim_time=True),
    )
    with running(*nodes):
        rclpy.init()
        node = rclpy.create_node("bench_planner_node")
        stopper = Stopper(node)
        stopper.moves.wait_for_servers()
        rows = []
        for world, objects in (("empty", 0), ("40 boxes", 40)):
            for item in messages(objects):
                stopper.objects.publish(item)
            for clients in (1, 4):
                progress(f"{world}, {clients} clients")
                trip, planning, rate, good = ask(clients, objects)
                rows.append(
                    [world, clients, trip.p50, trip.p99, planning.p50, planning.p99, rate,
                     100.0 * good]
                )  # fmt: skip
        report.table(
            f"plan_kinematic_path, {COUNT} requests of each client",
            ["world", "clients", "p50 ms", "p99 ms", "planning p50 ms", "planning p99 ms",
             "plans/s", "success %"],
            rows,
        )  # fmt: skip
        stopper.objects.publish(CollisionObject(operation=CollisionObject.REMOVE))
        rows = []
        for how in ("stop", "cancel"):
            progress(f"{STOPS} motions ended by {how}")
            took = Spread.of(stopper.stop_once(1.0 if i % 2 else -1.0, how) for i in range(STOPS))
            rows.append([how, took.p50, took.maximum])
        report.table(
            "From the message to the controller's end of the trajectory",
            ["message", "p50 ms", "greatest ms"],
            rows,
        )
        node.destroy_node()
        rclpy.shutdown()
    report.write(options.json)


if __name__ == "__main__":
    main()

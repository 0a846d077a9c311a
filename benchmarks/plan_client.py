# SPDX-License-Identifier: Apache-2.0
"""One client of plan_kinematic_path: asks in a row and prints how long each took.

Run by bench_planner_node.py, ``python plan_client.py COUNT BOXES``: prints JSON of the round trips
and the planning times that the answers tell [ms], when the first began and the last ended [s,
monotonic], and how many succeeded.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import rclpy
from moveit_msgs.msg import Constraints, JointConstraint
from moveit_msgs.srv import GetMotionPlan
from rclpy.executors import SingleThreadedExecutor

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.tree import Box
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object

EDGE = 0.08
"""Of each box [m]."""


def boxes(count: int) -> list[tuple[str, tuple[float, float, float]]]:
    """Return names and places of boxes around the robot, off its home."""
    rng = np.random.default_rng(8)
    made = []
    for i in range(count):
        angle, radius = rng.uniform(0.5, 2.0 * np.pi - 0.5), rng.uniform(0.6, 0.9)
        x, y = float(radius * np.cos(angle)), float(radius * np.sin(angle))
        made.append((f"box_{i}", (x, y, float(rng.uniform(0.0, 1.0)))))
    return made


def requests(count: int, box_count: int) -> list[Any]:
    """Return requests for random configurations of the Franka that are free, from its home."""
    robot = load_robot("franka")
    arm = robot.group("arm")
    objects = [
        world_object(name, Box((EDGE,) * 3), from_xyz_quat(place, (0.0, 0.0, 0.0, 1.0)))
        for name, place in boxes(box_count)
    ]
    scene = Scene({item.name: item for item in objects})
    checker = CollisionChecker(robot, arm.joints, scene=scene)
    rng = np.random.default_rng(5)
    made: list[Any] = []
    while len(made) < count:
        q = rng.uniform(arm.limits.lower, arm.limits.upper)
        if not checker.is_free(q):
            continue
        request = GetMotionPlan.Request()
        asked = request.motion_plan_request
        asked.group_name, asked.allowed_planning_time = arm.name, 2.0
        asked.start_state.joint_state.name = list(robot.joint_names)
        asked.start_state.joint_state.position = robot.home.tolist()
        asked.goal_constraints = [
            Constraints(
                joint_constraints=[
                    JointConstraint(joint_name=name, position=value)
                    for name, value in zip(arm.joints, q.tolist(), strict=True)
                ]
            )
        ]
        made.append(request)
    return made


def main() -> None:
    """Ask, and print."""
    asked = requests(int(sys.argv[1]), int(sys.argv[2]))
    rclpy.init()
    node = rclpy.create_node(f"plan_client_{int(time.time_ns() % 1_000_000)}")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    client = node.create_client(GetMotionPlan, "/plan_kinematic_path")
    if not client.wait_for_service(60.0):
        sys.exit("no service /plan_kinematic_path")
    took, planning, good, begin = [], [], 0, time.monotonic()
    for request in asked:
        start = time.perf_counter()
        future = client.call_async(request)
        executor.spin_until_future_complete(future, 20.0)
        took.append(1e3 * (time.perf_counter() - start))
        if future.done() and future.result().motion_plan_response.error_code.val == 1:
            good += 1
            planning.append(1e3 * future.result().motion_plan_response.planning_time)
    end = time.monotonic()
    found = {"ms": took, "planning": planning, "good": good, "begin": begin, "end": end}
    print(json.dumps(found))
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()

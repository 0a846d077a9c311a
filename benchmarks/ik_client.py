# SPDX-License-Identifier: Apache-2.0
"""One client of compute_ik or of a bare service: asks in a row and prints how long each took.

Run by bench_ik_service.py: ``python ik_client.py SERVICE COUNT``; prints JSON with the round trips
[ms], when the first began and the last ended [s, monotonic], and how many succeeded.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from moveit_msgs.srv import GetPositionIK
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import to_quat_xyzw


def requests(count: int) -> list[Any]:
    """Return requests for random reachable poses of the Franka's tool, from its home."""
    robot = load_robot("franka")
    arm = robot.group("arm")
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    rng = np.random.default_rng(3)
    made = []
    for _ in range(count):
        q = robot.home.copy()
        q[arm.indices] = rng.uniform(arm.limits.lower, arm.limits.upper)
        X = kinematics.pose(q, arm.tip or "")
        request = GetPositionIK.Request()
        asked = request.ik_request
        asked.group_name, asked.pose_stamped = arm.name, PoseStamped()
        p, r = asked.pose_stamped.pose.position, asked.pose_stamped.pose.orientation
        p.x, p.y, p.z = X[:3, 3].tolist()
        r.x, r.y, r.z, r.w = to_quat_xyzw(X).tolist()
        asked.robot_state.joint_state.name = list(robot.joint_names)
        asked.robot_state.joint_state.position = robot.home.tolist()
        made.append(request)
    return made


def main() -> None:
    """Ask, and print."""
    service, count = sys.argv[1], int(sys.argv[2])
    asked = requests(count)
    rclpy.init()
    node = rclpy.create_node(f"ik_client_{int(time.time_ns() % 1_000_000)}")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    # Each client gets the answers to all others, and drops the oldest beyond its depth.
    client = node.create_client(GetPositionIK, service, qos_profile=QoSProfile(depth=1000))
    if not client.wait_for_service(20.0):
        sys.exit(f"no service {service}")
    took, good, begin = [], 0, time.monotonic()
    for request in asked:
        start = time.perf_counter()
        future = client.call_async(request)
        executor.spin_until_future_complete(future, 10.0)
        took.append(1e3 * (time.perf_counter() - start))
        good += future.done() and future.result().error_code.val == 1
    end = time.monotonic()
    print(json.dumps({"ms": took, "good": good, "begin": begin, "end": end}))
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()

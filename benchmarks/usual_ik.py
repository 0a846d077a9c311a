# SPDX-License-Identifier: Apache-2.0
"""The usual ways, for bench_ik_service.py: rclpy services spun by an executor.

``/usual_ik`` answers with our solver, so that only the way of serving differs; ``/bare_ik`` answers
at once, so it is what messages and transport take.
"""

from __future__ import annotations

from typing import Any

import rclpy
from moveit_msgs.srv import GetPositionIK
from rclpy.executors import ExternalShutdownException

from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkRequest
from motion_nodes.ik.solver import LeastSquaresIk
from motion_nodes.model.loader import load_robot
from motion_nodes.ros.messages.moveit_messages import fill_robot_state, pose_of


def main() -> None:
    """Serve until interrupted."""
    robot = load_robot("franka")
    solver = LeastSquaresIk(IkChain.of_group(robot, "arm"))

    def usual(request: Any, response: Any) -> Any:
        asked = request.ik_request
        joints = asked.robot_state.joint_state
        where = dict(zip(joints.name, joints.position, strict=True))
        X, _ = pose_of(asked.pose_stamped.pose, "the target")
        result = solver.solve(IkRequest(X, seed=[where[name] for name in solver.joint_names]))
        if result.success:
            solved = dict(zip(solver.joint_names, result.q.tolist(), strict=True))
            fill_robot_state(response.solution, where | solved)
        response.error_code.val = 1 if result.success else -31
        return response

    def bare(_request: Any, response: Any) -> Any:
        response.error_code.val = 1
        return response

    rclpy.init()
    node = rclpy.create_node("usual_ik")
    node.create_service(GetPositionIK, "/usual_ik", usual)
    node.create_service(GetPositionIK, "/bare_ik", bare)
    print("serving", flush=True)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass


if __name__ == "__main__":
    main()

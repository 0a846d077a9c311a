# SPDX-License-Identifier: Apache-2.0
"""A server process of test_interface_round_trip.py, which runs until SIGINT."""

import time

import rclpy
from control_msgs.action import FollowJointTrajectory
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetPositionIK
from rclpy.action import ActionServer
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from tf2_msgs.msg import TFMessage


class EchoServer(Node):
    """Returns what it receives, marked as echoed."""

    def __init__(self):
        super().__init__("echo_server")
        self.create_service(GetPositionIK, "compute_ik", self.solve)
        self.publisher = self.create_publisher(TFMessage, "tf_out", 10)
        self.create_subscription(TFMessage, "tf_in", self.pass_on, 10)
        self.server = ActionServer(self, FollowJointTrajectory, "follow", self.follow)

    def solve(self, request, response):
        response.solution = request.ik_request.robot_state
        response.error_code.val = MoveItErrorCodes.NO_IK_SOLUTION
        response.error_code.message = request.ik_request.group_name
        return response

    def pass_on(self, message):
        message.transforms[0].child_frame_id += "_echoed"
        self.publisher.publish(message)

    def follow(self, goal_handle):
        trajectory = goal_handle.request.trajectory
        feedback = FollowJointTrajectory.Feedback(joint_names=trajectory.joint_names)
        feedback.desired = trajectory.points[-1]
        while not self.count_subscribers("follow/_action/feedback"):
            time.sleep(0.01)  # the client's subscription may be discovered after its goal
        time.sleep(0.2)  # discovered shortly before it is matched
        goal_handle.publish_feedback(feedback)
        goal_handle.abort()
        result = FollowJointTrajectory.Result(error_string=", ".join(trajectory.joint_names))
        result.error_code = FollowJointTrajectory.Result.GOAL_TOLERANCE_VIOLATED
        return result


if __name__ == "__main__":
    try:
        rclpy.init()
        rclpy.spin(EchoServer())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass

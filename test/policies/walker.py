# SPDX-License-Identifier: Apache-2.0
"""A ROS client of the policy controller."""

from typing import Any

from control_msgs.msg import DynamicJointState
from geometry_msgs.msg import Twist
from ros_client import LATCHED
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

NODE = "/policy_controller"


class Walker:
    """Commands the controller and listens to its topics."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.modes = client.listen(String, f"{NODE}/mode", LATCHED)
        self.commands = client.listen(JointState, "/joint_command")
        self.gains = client.listen(DynamicJointState, "/joint_gains", LATCHED)
        self.twist = client.publisher(Twist, f"{NODE}/cmd_vel_unstamped")

    @property
    def mode(self) -> str:
        return self.modes.newest.data if len(self.modes) else ""

    def wait(self, mode: str, within: float = 30.0) -> None:
        self.client.wait(lambda: self.mode == mode, f"mode {mode}, not {self.mode}", within)

    def ask(self, service: str) -> Any:
        return self.client.call(Trigger, f"{NODE}/{service}")

    def drive(self, vx: float, until: str) -> None:
        message = Twist()
        message.linear.x = vx
        self.client.repeat(
            lambda: self.twist.publish(message), lambda: self.mode == until, f"mode {until}"
        )

    def stiffness(self) -> float:
        return float(self.gains.newest.interface_values[0].values[0])

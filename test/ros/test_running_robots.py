# SPDX-License-Identifier: Apache-2.0
"""A client that finds no robot says which robots run: their servers, not other clients."""

from __future__ import annotations

from moveit_msgs.action import MoveGroup
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionClient, ActionServer
from ros_client import LATCHED, RosClient
from std_msgs.msg import String

from motion_nodes.nodes.clients.commands import running_robots


def test_servers_are_named_by_their_robots(module_client: RosClient) -> None:
    node = module_client.node
    assert "no robot" in running_robots(node, 0.1)
    client = ActionClient(node, NavigateToPose, "/navigate_to_pose")
    server = ActionServer(node, MoveGroup, "/left/move_action", lambda _: MoveGroup.Result())
    try:
        assert running_robots(node, 0.1) == "these robots run: left:=robot (arm)"
        described = node.create_publisher(String, "/left/robot_description", LATCHED)
        described.publish(String(data='<?xml version="1.0"?><robot name="franka"></robot>'))
        module_client.wait(
            lambda: running_robots(node) == "these robots run: left:=franka (arm)", "its name"
        )
    finally:
        client.destroy()
        server.destroy()

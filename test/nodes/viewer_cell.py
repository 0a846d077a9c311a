# SPDX-License-Identifier: Apache-2.0
"""The viewer node with an arm, beside an owner of the arm's planning scene."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from geometry_msgs.msg import Pose
from moveit_msgs.msg import CollisionObject, ContactInformation, DisplayTrajectory, PlanningScene
from moveit_msgs.srv import GetPlanningScene, GetStateValidity
from rclpy.executors import SingleThreadedExecutor
from ros_client import RELIABLE, RosClient
from shape_msgs.msg import SolidPrimitive

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.browser_viewer import BrowserViewerNode

FRANKA = load_robot("franka")
NAMES = list(FRANKA.joint_names)


@contextmanager
def viewer_cell(client: RosClient) -> Iterator[SimpleNamespace]:
    """Run a viewer in this process, of an arm in a namespace, with an owner of its scene."""
    scene = PlanningScene(is_diff=False)

    def answer(_: Any, response: Any) -> Any:
        response.scene = scene
        return response

    checked = []

    def answer_validity(request: Any, response: Any) -> Any:
        state = request.robot_state.joint_state
        checked.append(dict(zip(state.name, state.position, strict=True)))
        response.valid = checked[-1][NAMES[0]] < 1.0
        if not response.valid:
            bodies = {"contact_body_1": "panda_hand", "contact_body_2": "table"}
            response.contacts = [ContactInformation(**bodies)]
        return response

    client.node.create_service(GetPlanningScene, "/left/get_planning_scene", answer)
    client.node.create_service(GetStateValidity, "/left/check_state_validity", answer_validity)
    args = ["--ros-args", "-p", "robots:=['left:=franka', 'jetbot']", "-p", "port:=0"]
    viewer = BrowserViewerNode(args)
    viewer.trigger_configure()
    viewer.trigger_activate()
    executor = SingleThreadedExecutor()
    executor.add_node(viewer)
    thread = threading.Thread(target=executor.spin)
    thread.start()
    yield SimpleNamespace(
        client=client,
        scene=scene,
        checked=checked,
        page=viewer._viewer,
        node=viewer,
        plans=client.publisher(DisplayTrajectory, "/left/display_planned_path", RELIABLE),
        scenes=client.publisher(PlanningScene, "/left/monitored_planning_scene", RELIABLE),
    )
    viewer.stop()
    executor.shutdown()
    thread.join()
    viewer.destroy_node()


def box(name: str, x: float, operation: bytes = CollisionObject.ADD) -> CollisionObject:
    message = CollisionObject(id=name, operation=operation)
    message.header.frame_id = "panda_link0"
    if operation == CollisionObject.ADD:
        message.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1, 0.2, 0.3])]
        message.primitive_poses = [Pose()]
    message.pose.position.x = x
    message.pose.orientation.w = 1.0
    return message


def objects(cell: SimpleNamespace) -> dict[str, Any]:
    """Nodes of the drawn objects, by name."""
    cell.page.flush()
    nodes = cell.page._robots["left"].planning.objects._nodes
    return {name: node for (_, name), node in nodes.items()}


def tell(cell: SimpleNamespace, *changes: CollisionObject) -> None:
    message = PlanningScene(is_diff=True)
    message.robot_state.is_diff = True
    message.world.collision_objects = list(changes)
    cell.scenes.publish(message)

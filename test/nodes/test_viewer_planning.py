# SPDX-License-Identifier: Apache-2.0
"""The viewer node follows plans and scenes of robots in namespaces; bad ones harm nothing."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from moveit_msgs.msg import CollisionObject, DisplayTrajectory, PlanningScene, RobotTrajectory
from moveit_msgs.srv import GetPlanningScene
from rclpy.executors import SingleThreadedExecutor
from ros_processes import RELIABLE, RosClient
from shape_msgs.msg import SolidPrimitive
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.errors import BadCommand
from motion_nodes.model.loader import load_robot
from motion_nodes.nodes.browser_viewer import BrowserViewerNode
from motion_nodes.ros.displayed_paths import displayed_path

pytestmark = pytest.mark.timeout(120)
FRANKA = load_robot("franka")
NAMES = list(FRANKA.joint_names)


def displayed(
    rows: dict[float, list[float]], names: list[str], start: dict[str, float] | None = None
) -> DisplayTrajectory:
    """A plan: positions by time."""
    trajectory = RobotTrajectory()
    trajectory.joint_trajectory.joint_names = names
    for when, row in rows.items():
        point = JointTrajectoryPoint(positions=row)
        point.time_from_start.sec = int(when)
        point.time_from_start.nanosec = round((when - int(when)) * 1e9)
        trajectory.joint_trajectory.points.append(point)
    message = DisplayTrajectory(model_id="franka", trajectory=[trajectory])
    start = start or {}
    message.trajectory_start.joint_state.name = list(start)
    message.trajectory_start.joint_state.position = list(start.values())
    return message


class TestConversion:
    def test_joints_that_are_not_named_stay(self):
        message = displayed({0.0: [0.1], 1.5: [0.5]}, [NAMES[1]], {NAMES[0]: 0.7, "other": 1.0})
        times, rows = displayed_path(message, NAMES, FRANKA.home)
        assert times == pytest.approx([0.0, 0.0, 1.5])
        assert rows[:, 0] == pytest.approx([0.7] * 3)
        assert rows[:, 1] == pytest.approx([FRANKA.home[1], 0.1, 0.5])
        assert rows[:, 2:] == pytest.approx(np.tile(FRANKA.home[2:], (3, 1)))

    def test_several_trajectories_follow_each_other(self):
        message = displayed({1.0: [0.1]}, [NAMES[0]])
        message.trajectory += displayed({0.5: [0.2], 2.0: [0.3]}, ["other"]).trajectory
        message.trajectory += displayed({1.0: [0.4]}, [NAMES[0]]).trajectory
        times, rows = displayed_path(message, NAMES, FRANKA.home)
        assert times == pytest.approx([0.0, 1.0, 1.5, 3.0, 4.0])
        assert rows[:, 0] == pytest.approx([FRANKA.home[0], 0.1, 0.1, 0.1, 0.4])

    @pytest.mark.parametrize(
        ("message", "text"),
        [
            (DisplayTrajectory(), "no points"),
            (displayed({1.0: [0.1, 0.2]}, [NAMES[0]]), "2 positions for 1 joints"),
            (displayed({1.0: [math.nan]}, [NAMES[0]]), "not finite"),
        ],
    )
    def test_bad_messages(self, message, text):
        with pytest.raises(BadCommand, match=text):
            displayed_path(message, NAMES, FRANKA.home)


@pytest.fixture(scope="module")
def cell(ros: None, module_client: RosClient) -> Iterator[SimpleNamespace]:
    """A viewer of an arm in a namespace, in this process, and one who tells of its scene."""
    scene = PlanningScene(is_diff=False)

    def answer(_: Any, response: Any) -> Any:
        response.scene = scene
        return response

    client = module_client
    client.node.create_service(GetPlanningScene, "/left/get_planning_scene", answer)
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


def test_the_whole_scene_first_then_what_changes(cell):
    """The whole comes of the service, as for one who comes late."""
    cell.client.wait(
        lambda: cell.node._watched["left"].planning.follower.synchronised, "the whole scene"
    )
    tell(cell, box("table", 0.6), box("cup", 0.5))
    cell.client.wait(lambda: set(objects(cell)) == {"table", "cup"}, "two objects drawn")
    assert objects(cell)["table"].position[0] == pytest.approx(0.6)
    tell(cell, box("cup", 0.3, CollisionObject.MOVE))
    cell.client.wait(lambda: abs(objects(cell)["cup"].position[0] - 0.3) < 1e-9, "the cup moved")
    tell(cell, box("table", math.nan), box("cup", 0.0, CollisionObject.REMOVE))
    cell.client.wait(lambda: set(objects(cell)) == {"table"}, "the cup gone")
    assert objects(cell)["table"].position[0] == pytest.approx(0.6), "NaN moves nothing"


def test_a_plan_is_passed_by_the_ghost(cell):
    path = cell.page._robots["left"].planning.path
    cell.plans.publish(displayed({0.0: [0.0], 1.0: [0.8]}, [NAMES[0]]))
    cell.client.wait(lambda: path.playing, "the plan")
    path.play.value = False
    path.scrub.value = 100.0
    cell.page.flush()
    assert path.ghost.q[0] == pytest.approx(0.8)
    assert path.ghost.q[1:] == pytest.approx(FRANKA.home[1:])
    cell.plans.publish(displayed({0.0: [math.nan]}, [NAMES[0]]))
    cell.client.wait_for_diagnosis("/browser_viewer", "")
    cell.plans.publish(displayed({0.0: [0.0], 1.0: [-0.4]}, [NAMES[0]]))

    def newest() -> bool:
        cell.page.flush()
        return bool(abs(path.ghost.q[0] + 0.4) < 1e-9)

    cell.client.wait(newest, "the plan after the bad one")
    assert cell.page._robots["jetbot"].planning is None


def test_configured_again_it_follows_again(cell):
    """The last test: the page is another one."""
    for verb in ("deactivate", "cleanup", "configure", "activate"):
        assert cell.client.change_state("/browser_viewer", verb)
    cell.page = cell.node._viewer
    cell.client.wait(
        lambda: cell.node._watched["left"].planning.follower.synchronised, "the whole scene"
    )
    tell(cell, box("shelf", 0.4))
    cell.client.wait(lambda: "shelf" in objects(cell), "the shelf drawn")

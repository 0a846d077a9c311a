# SPDX-License-Identifier: Apache-2.0
"""Whole goals around the walls of a map over DDS, with scripted bases."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from long_params import shortened
from nav2_msgs.action import ComputePathToPose
from navigation_client import SUCCEEDED, NavigationClient, pose_of, stamped
from scripted_base import ScriptedBase

from motion_nodes.core.navigation.footprint import footprint_of
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.loader import load_robot

pytestmark = pytest.mark.timeout(900)
CONTROLLERS = {"jetbot": "/diff_drive_controller", "leatherback": "/ackermann_steering_controller"}
SIZE = {"jetbot": 1.0, "leatherback": 3.0}
"""Distance from the start to the goal [m]; the wall is halfway."""
MAP_TO_ODOM = Pose2(0.5, 0.3, 0.4)


def write_map(folder: Path, size: float) -> Path:
    """Write a map whose frame is that of odometry, moved, with a wall that ends at y = size / 2."""
    cells = np.zeros((200, 200), np.uint8) + 254
    x, y = ((np.arange(200) + 0.5) * 0.025 * size - 2.5 * size for _ in range(2))
    # In the odometry frame.
    c, s = math.cos(MAP_TO_ODOM.yaw), math.sin(MAP_TO_ODOM.yaw)
    dx, dy = x[None, :] - MAP_TO_ODOM.x, y[:, None] - MAP_TO_ODOM.y
    there = c * dx + s * dy, -s * dx + c * dy
    cells[(np.abs(there[0] - 0.5 * size) < 0.04 * size) & (there[1] < 0.5 * size)] = 0
    cells[(np.abs(np.hypot(there[0] - 1.7 * size, there[1]) - 0.3 * size) < 0.05 * size)] = 0
    (folder / "map.pgm").write_bytes(b"P5\n200 200\n255\n" + cells[::-1].tobytes())
    file = folder / "map.yaml"
    file.write_text(
        f"image: map.pgm\nresolution: {0.025 * size}\norigin: [{-2.5 * size}, {-2.5 * size}, 0]\n"
        "negate: 0\noccupied_thresh: 0.65\nfree_thresh: 0.196\n"
    )
    return file


@pytest.fixture(scope="module", params=shortened(list(CONTROLLERS), 1))
def cell(request, module_suite, module_client, tmp_path_factory):
    """A base with a navigator that has a map."""
    robot = request.param
    base = ScriptedBase(CONTROLLERS[robot])
    file = write_map(tmp_path_factory.mktemp("map"), SIZE[robot])
    process = module_suite.node("base_navigator", robot=robot, map_file=str(file))
    navigator = NavigationClient(module_client)
    navigator.wait_for()
    base.localize(module_client, MAP_TO_ODOM)
    yield SimpleNamespace(
        base=base, navigator=navigator, size=SIZE[robot], client=module_client,
        footprint=footprint_of(load_robot(robot)),
    )  # fmt: skip
    navigator.close()
    base.close()
    process.stop()


def test_a_goal_behind_a_wall_is_reached_around_it(cell):
    size, base, navigator = cell.size, cell.base, cell.navigator
    wall = size * np.column_stack((np.full(300, 0.5), np.linspace(-1.0, 0.5, 300)))
    call = navigator.go((size, 0.0, -0.6))
    assert call.accepted()
    poses = []

    def arrived() -> bool:
        poses.append(base.pose)
        return bool(call.done)

    cell.client.wait(arrived, "the end of the goal", within=120.0)
    status, result = call.result()
    assert (status, result.error_msg) == (SUCCEEDED, "")
    assert base.pose.distance(Pose2(size, 0.0)) < 0.15
    for pose in poses:
        c, s = math.cos(pose.yaw), math.sin(pose.yaw)
        local = (wall - pose[:2]) @ np.array(((c, -s), (s, c)))
        assert cell.footprint.distances(local).min() > 0.0
    shown = navigator.plans.newest
    assert shown.header.frame_id == "map"
    assert max(pose.y for pose in poses) > 0.5 * size


def test_the_lattice_is_a_planner_of_compute_path_to_pose(cell):
    start, goal = stamped((0.0, 0.0, 0.0)), stamped((cell.size, 0.0, 0.0))
    for planner in ("grid", "lattice"):
        request = ComputePathToPose.Goal(start=start, goal=goal, use_start=True, planner_id=planner)
        call = cell.navigator.send(ComputePathToPose, "compute_path_to_pose", request)
        status, result = call.result(within=30.0)
        assert status == SUCCEEDED
        poses = [MAP_TO_ODOM.inverse().compose(pose_of(pose)) for pose in result.path.poses]
        assert poses[-1].distance(Pose2(cell.size, 0.0)) < 1e-6
        assert max(pose.y for pose in poses) > 0.5 * cell.size

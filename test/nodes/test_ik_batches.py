# SPDX-License-Identifier: Apache-2.0
"""Many poses in one request: solved in parts, between which the request can be cancelled."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetCartesianPath

from motion_nodes.core.ik.problem import IkSettings
from motion_nodes.core.ik.solvers import DEFAULT
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.nodes.kinematics.kinematics_requests import CHUNK, IkBatches, IkChains
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_message

FRANKA = load_robot("franka")
ARM = FRANKA.group("arm")
COUNT = 2 * CHUNK + 3


@pytest.fixture(scope="module")
def own():
    """What the service needs of the node, without ROS."""
    return SimpleNamespace(
        robot=FRANKA,
        kinematics=Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame),
        chains=IkChains(FRANKA, DEFAULT, IkSettings()),
        checks=SimpleNamespace(wait=lambda: None),
        frames=SimpleNamespace(is_own=lambda frame: True, pose=lambda frame, q: np.eye(4)),
        group=lambda name: ARM,
        settings=IkSettings,
        state=lambda given, what: FRANKA.home,
    )


def asked(own, out_of_reach: int | None = None):
    """Return a request for poses of a small circle, one of which may be out of reach."""
    X = own.kinematics.pose(FRANKA.home, ARM.tip)
    request = GetCartesianPath.Request(group_name="arm")
    for k in range(COUNT):
        pose = pose_message(X)
        pose.position.y += 0.1 * np.sin(0.1 * k)
        pose.position.x += 5.0 * (k == out_of_reach)
        request.waypoints.append(pose)
    return request


def test_all_parts_are_solved_in_order(own):
    response, missing = GetCartesianPath.Response(), CHUNK + 1
    with pytest.raises(RequestRejected, match=f"{COUNT - 1} of {COUNT} .* waypoint {missing}: out"):
        IkBatches(FRANKA).solve(own, asked(own, missing), response, lambda: False)
    points = response.solution.joint_trajectory.points
    assert [k for k, point in enumerate(points) if not point.positions] == [missing]
    assert response.fraction == pytest.approx(1.0 - 1.0 / COUNT)
    for k, point in enumerate(points):
        if k != missing:
            q = FRANKA.home.copy()
            q[ARM.indices] = point.positions
            away = own.kinematics.pose(q, ARM.tip) - own.kinematics.pose(FRANKA.home, ARM.tip)
            assert away[:3, 3] == pytest.approx([0.0, 0.1 * np.sin(0.1 * k), 0.0], abs=1e-3)


def test_a_cancelled_request_ends_after_the_current_part(own):
    response, calls = GetCartesianPath.Response(), []

    def cancelled() -> bool:
        calls.append(True)
        return len(calls) > 1

    with pytest.raises(RequestRejected, match=f"cancelled after {CHUNK} of {COUNT}") as raised:
        IkBatches(FRANKA).solve(own, asked(own), response, cancelled)
    assert raised.value.code == MoveItErrorCodes.PREEMPTED
    assert not response.solution.joint_trajectory.points

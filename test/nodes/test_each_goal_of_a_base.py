# SPDX-License-Identifier: Apache-2.0
"""Each goal of each action of a base gets exactly one result, however it ends."""

from typing import Any

import pytest
from nav2_msgs.action import (
    BackUp,
    DriveOnHeading,
    FollowPath,
    FollowWaypoints,
    NavigateThroughPoses,
    NavigateToPose,
    Spin,
)
from navigation_client import NavigationClient, path, stamped
from one_result import Goals, count

pytestmark = pytest.mark.timeout(3600)


def base_goals() -> dict[str, Goals]:
    """Return type, goals that are reached, and goals that move, of each action of a base."""

    def behavior(kind: Any, distance: float) -> Any:
        goal = kind.Goal()
        if kind is Spin:
            goal.target_yaw = distance
        else:
            goal.target.x = -distance if kind is BackUp else distance
            goal.speed = -0.1 if kind is BackUp else 0.1
        goal.time_allowance.sec = 10
        return goal

    here, far = (0.0, 0.0, 0.0), (2.0, 0.0, 0.0)
    poses = {
        NavigateToPose: lambda to: NavigateToPose.Goal(pose=stamped(to)),
        NavigateThroughPoses: lambda to: NavigateThroughPoses.Goal(poses=[stamped(to)]),
        FollowWaypoints: lambda to: FollowWaypoints.Goal(poses=[stamped(to)]),
        FollowPath: lambda to: FollowPath.Goal(path=path([here, to])),
    }
    names = {
        NavigateToPose: "navigate_to_pose",
        NavigateThroughPoses: "navigate_through_poses",
        FollowWaypoints: "follow_waypoints",
        FollowPath: "follow_path",
        Spin: "spin",
        BackUp: "backup",
        DriveOnHeading: "drive_on_heading",
    }
    made = {}
    for kind, name in names.items():
        if kind in poses:
            make = poses[kind]
            made[f"/{name}"] = (kind, lambda k, m=make: m(here), lambda k, m=make: m(far))
        else:
            made[f"/{name}"] = (
                kind,
                lambda k, t=kind: behavior(t, 0.0),
                lambda k, t=kind: behavior(t, 1.0),
            )
    return made


@pytest.fixture(scope="module")
def base(module_suite, module_client):
    module_suite.node("mock_sim", robots=["jetbot"], update_rate=100.0)
    common = {"robot": "jetbot", "use_sim_time": True}
    module_suite.node("differential_base", **common)
    module_suite.node("base_navigator", **common)
    made = NavigationClient(module_client)
    made.wait_for()
    yield made
    made.close()


@pytest.mark.parametrize("name", list(base_goals()))
def test_of_a_base(base, name):
    count(base.client, name, base_goals()[name])

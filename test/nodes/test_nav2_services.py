# SPDX-License-Identifier: Apache-2.0
"""Nav2's wait, costmaps and load_map, and the actions whose goals are rejected."""

import numpy as np
import pytest
from joint_client import duration
from nav2_msgs.action import Wait
from nav2_msgs.srv import (
    ClearCostmapAroundPose,
    ClearCostmapAroundRobot,
    ClearCostmapExceptRegion,
    ClearEntireCostmap,
    GetCostmap,
    LoadMap,
)
from navigation_client import ABORTED, CANCELED, SUCCEEDED, stamped
from scripted_scanner import Scanner

from motion_nodes.core.navigation.costmap import LETHAL, NO_INFORMATION
from motion_nodes.nodes.navigation.waiting import ABSENT

NODE = "/base_navigator"
LOCAL = "/local_costmap"


def wait(navigator, time):
    return navigator.send(Wait, "wait", Wait.Goal(time=duration(time)))


def lethal(navigator, which="local"):
    answer = navigator.client.call(GetCostmap, f"/{which}_costmap/get_costmap")
    costs = np.array(answer.map.data, np.uint8)
    size = answer.map.metadata.size_y, answer.map.metadata.size_x
    return int((costs == LETHAL).sum()), costs.reshape(size), answer.map


def test_a_wait_ends_after_its_time_or_by_a_cancel_or_a_newer_one(navigator):
    for time in (0.0, 0.3):
        status, result = wait(navigator, time).result()
        assert status == SUCCEEDED
        assert result.total_elapsed_time.sec + 1e-9 * result.total_elapsed_time.nanosec >= time
    forever = wait(navigator, float(2**31 - 1))
    assert forever.accepted()
    assert forever.cancel()
    assert forever.result()[0] == CANCELED
    first, second = wait(navigator, 1000.0), wait(navigator, 0.2)
    assert first.result()[0] == ABORTED
    assert second.result()[0] == SUCCEEDED


@pytest.mark.parametrize(("kind", "name"), ABSENT)
def test_actions_that_are_not_executed_are_rejected_at_once(navigator, kind, name):
    assert not navigator.send(kind, name, kind.Goal()).accepted()


def test_costmaps_show_what_the_scanner_saw_until_it_is_cleared(navigator, moved):
    client = navigator.client
    scanner = Scanner(client, moved, NODE)
    moved.put(client, 0.0, 0.0, 0.0)

    def seen():
        scanner.until(lambda: lethal(navigator)[0] > 0, "obstacles")
        return lethal(navigator)[0]

    def clear(kind, name, **fields):
        client.call(kind, f"{LOCAL}/{name}", kind.Request(**fields))
        return lethal(navigator)[0]

    count = seen()
    _, costs, message = lethal(navigator, "global")
    assert message.header.frame_id == "odom"
    assert costs.max() == LETHAL
    assert clear(ClearCostmapAroundRobot, "clear_costmap_around_robot", reset_distance=0.1) == count
    for wrong in (np.nan, -1.0):
        fields = {"reset_distance": wrong}
        assert clear(ClearCostmapExceptRegion, "clear_costmap_except_region", **fields) == count
    assert clear(ClearCostmapAroundRobot, "clear_costmap_around_robot", reset_distance=50.0) == 0
    seen()
    assert clear(ClearCostmapExceptRegion, "clear_costmap_except_region", reset_distance=0.1) == 0
    seen()
    name, pose = "clear_costmap_around_pose", stamped((0.0, 0.0, 0.0), "nowhere")
    assert clear(ClearCostmapAroundPose, name, pose=pose, reset_distance=50.0) > 0
    pose = stamped((0.0, 0.0, 0.0))
    assert clear(ClearCostmapAroundPose, name, pose=pose, reset_distance=50.0) == 0
    seen()
    assert clear(ClearEntireCostmap, "clear_entirely_local_costmap") == 0


def test_a_map_is_loaded_and_a_wrong_file_leaves_it(navigator, tmp_path):
    image = np.full((20, 30), 254, np.uint8)
    image[3:5, 7:9], image[-1] = 0, 205
    (tmp_path / "room.pgm").write_bytes(b"P5\n30 20\n255\n" + image.tobytes())
    file = tmp_path / "room.yaml"
    file.write_text("{image: room.pgm, resolution: 0.1, origin: [-1.0, -0.5, 0.0]}")

    def load(url):
        return navigator.client.call(
            LoadMap, "/map_server/load_map", LoadMap.Request(map_url=str(url))
        )

    answer = load(f"file://{file}")
    assert answer.result == LoadMap.Response.RESULT_SUCCESS
    assert (answer.map.info.width, answer.map.info.height) == (30, 20)
    for wrong, code in (
        (tmp_path / "none.yaml", LoadMap.Response.RESULT_MAP_DOES_NOT_EXIST),
        (tmp_path / "room.pgm", LoadMap.Response.RESULT_INVALID_MAP_DATA),
    ):
        assert load(wrong).result == code
    count, costs, message = lethal(navigator, "global")
    assert message.header.frame_id == "map"
    # Rows of an image begin at its top, those of a map at the bottom.
    np.testing.assert_array_equal(costs[::-1] == LETHAL, image == 0)
    np.testing.assert_array_equal(costs[::-1] == NO_INFORMATION, image == 205)
    assert count == 4

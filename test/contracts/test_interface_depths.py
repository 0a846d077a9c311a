# SPDX-License-Identifier: Apache-2.0
"""Quality of service with depth, which DDS does not announce: read from nodes in process."""

from typing import Any

import pytest
from contracts.declared_interfaces import PER_CELL, Endpoint, Quality, expected, load, ours
from policies.standing_policy import write_standing_policy
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy

from motion_nodes.nodes.registry import node_class

pytestmark = pytest.mark.long

EXAMPLES = {
    "arms": "franka",
    "differential": "jetbot",
    "holonomic": "kaya",
    "ackermann": "leatherback",
    "floating": "go2",
    "real": "so101",
    "tasks": "franka",
}
"""A robot of each kind of entries."""


@pytest.mark.parametrize("entry", load(), ids=lambda entry: entry["node"])
def test_quality_of_service_with_depth(ros, entry, tmp_path):
    """The profiles of a node in this process, configured but not active."""
    kind = entry.get("robots", "arms").replace("wheeled", "differential")
    robot = EXAMPLES[kind]
    # The mock has no bodies, so it does not subscribe to a scene.
    simulated = "mujoco_sim" in entry["executables"]
    executable = "mujoco_sim" if simulated else entry["executables"][-1]
    if entry["node"] in PER_CELL:
        args = ["-p", f"robots:=['r:={robot}']"]
        args += ["-p", "port:=0"] if executable == "browser_viewer" else []
        if simulated:
            args += ["-p", "scene_bodies:=true", "-p", "objects:=['ball:=sphere:0.05:1@2,0,1']",
                     "-p", "surface_grippers:=['r/panda_hand']",
                     "-p", "cameras:=['r/camera:=panda_link0@1,0,1']"]  # fmt: skip
    else:
        args = ["-p", f"robot:={robot}", "-r", "__ns:=/r"]
        if executable in ("occupancy_mapper", "object_detector"):
            args += ["-p", "depth_images:=['camera/depth/image_rect_raw']"]
            if executable == "object_detector":
                args += ["-p", "color_images:=['camera/color/image_raw']"]
        if executable == "robot_driver":
            args += ["-p", "device:=/dev/no_such_port"]
        if executable == "policy_controller":
            args += ["-p", f"policy:={write_standing_policy(tmp_path)}"]
    node = node_class(executable)(ros_args=["--ros-args", "-r", f"__node:={entry['node']}", *args])
    try:
        node.trigger_configure()
        assert node.failure is None
        seen = {
            Endpoint(node.get_fully_qualified_name(), kind, e.topic_name, ""): Quality(
                ReliabilityPolicy(e.qos_profile.reliability).name.lower(),
                DurabilityPolicy(e.qos_profile.durability).name.lower(),
                e.qos_profile.depth,
            )
            for kind, entities in (
                ("publisher", node.publishers),
                ("subscription", node.subscriptions),
            )
            for e in entities
            if ours(kind, e.topic_name)
        }
    finally:
        node.destroy_node()
    wanted, always = (
        {
            endpoint._replace(type=""): quality
            for endpoint, quality in expected({"r": kind}, on_demand=on_demand).items()
            if endpoint.node == node_name(entry) and quality is not None
        }
        for on_demand in (True, False)
    )
    differences = (always.items() - seen.items()) | (seen.items() - wanted.items())
    assert not differences, "of the node and test/contracts/interfaces.yaml"


def node_name(entry: dict[str, Any]) -> str:
    return f"/{entry['node']}" if entry["node"] in PER_CELL else f"/r/{entry['node']}"

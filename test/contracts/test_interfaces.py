# SPDX-License-Identifier: Apache-2.0
"""The running suite has exactly the endpoints of interfaces.yaml."""

import pytest
import rclpy
from contracts.declared_interfaces import KINDS, Endpoint, endpoints_of, expected, load
from rclpy.signals import SignalHandlerOptions
from ros_client import RosClient

from motion_nodes.nodes.registry import NODES
from motion_nodes.ros.names import BASE_CONTROLLERS

FILE = "test/contracts/interfaces.yaml"
ROBOTS = {"arm": "arms", "base": "differential", "omni": "holonomic", "car": "ackermann"}


@pytest.fixture(scope="module")
def newcomer(ros):
    """A client in a context of its own.

    The graph of the session's context may keep nodes of killed processes of earlier tests: news of
    them that arrive after their participant was removed are never taken back.
    """
    context = rclpy.Context()
    rclpy.init(args=[], context=context, signal_handler_options=SignalHandlerOptions.NO)
    client = RosClient("test_newcomer", context)
    yield client
    client.close()
    context.shutdown()


@pytest.fixture(scope="module")
def graph(module_suite, newcomer, tmp_path_factory):
    """Return all endpoints of a running suite."""
    file = tmp_path_factory.mktemp("params") / "cell.yaml"
    file.write_text(
        "mujoco_sim:\n  ros__parameters:\n    objects: ['ball:=sphere:0.05:1@3,3,0.05']\n"
        "    surface_grippers: [arm/panda_hand]\n"
    )
    module_suite.bring_up(
        "arm:=franka", "base:=jetbot@1,0,0", "omni:=kaya@0,2,0", "car:=leatherback@2,2,0",
        viewer="browser", viewer_port=0, scene_bodies=True, params_file=str(file), rate=50.0,
        cameras=("arm/camera:=panda_link0@1.4,0,0.9,0,0.6,3.14",),
    )  # fmt: skip
    module_suite.node("articulation_graph", robots=["arm:=franka", "base:=jetbot"])
    nodes = sorted({endpoint.node for endpoint in expected(ROBOTS)})
    for node in nodes:
        # Four robots start at once.
        newcomer.wait_for_diagnosis(node, "", within=60.0)
    wanted = set(expected(ROBOTS, on_demand=False))

    def found() -> set[Endpoint]:
        return {endpoint for node in nodes for endpoint in endpoints_of(newcomer, node)}

    try:
        newcomer.wait(lambda: wanted <= found(), "all endpoints")
    except AssertionError:
        pass  # The tests name the missing ones.
    return found()


def test_nothing_is_missing(graph):
    missing = sorted(set(expected(ROBOTS, on_demand=False)) - graph)
    assert not missing, f"in {FILE}, but no node has them"


def test_nothing_is_undocumented(graph):
    undocumented = sorted(graph - set(expected(ROBOTS)))
    assert not undocumented, f"add them to {FILE}, then run python tools/write_interface_docs.py"


def test_no_node_is_undocumented(graph, newcomer):
    documented = {endpoint.node for endpoint in graph}

    def undocumented() -> set[str]:
        names = {
            f"{space.rstrip('/')}/{name}"
            for name, space in newcomer.node.get_node_names_and_namespaces()
        }
        return {
            n for n in names if not n.rpartition("/")[2].startswith(("test_", "_"))
        } ^ documented

    # A process of an earlier test that was killed stays in the graph until its lease ends.
    try:
        newcomer.wait(lambda: not undocumented(), "the documented nodes and no others")
    except AssertionError as error:
        raise AssertionError(f"{error}; differences: {undocumented()}") from None


def test_quality_of_service_in_the_graph(graph, newcomer):
    """DDS does not announce the depth; see test_interface_depths.py."""
    differences = []
    node = newcomer.node
    for endpoint, quality in expected(ROBOTS).items():
        if quality is None:
            continue
        look = (
            node.get_publishers_info_by_topic
            if endpoint.kind == "publisher"
            else node.get_subscriptions_info_by_topic
        )
        for info in look(endpoint.name):
            if f"{info.node_namespace.rstrip('/')}/{info.node_name}" != endpoint.node:
                continue
            seen = (
                info.qos_profile.reliability.name.lower(),
                info.qos_profile.durability.name.lower(),
            )
            if seen != quality[:2]:
                differences.append((endpoint, seen, quality))
    assert not differences, f"(endpoint, profile of the node, profile in {FILE})"


def test_the_file_itself():
    nodes = load()
    assert sorted(e for node in nodes for e in node["executables"]) == sorted(NODES)
    for node in nodes:
        assert node["text"].strip()
        for entry in node["endpoints"]:
            assert entry["kind"] in KINDS
            assert entry["text"].strip().endswith((".", "?"))
            assert entry.get("of") in (
                None,
                "wheeled",
                "arms",
                "floating",
                "real",
                "tasks",
                "scanners",
                *BASE_CONTROLLERS,
            )

# SPDX-License-Identifier: Apache-2.0
"""A container loads and unloads nodes at run time, as launch_ros and ``ros2 component`` ask."""

import math
import sys
from types import SimpleNamespace

import pytest
from composition import composition_interfaces
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from ros_client import RosClient
from sensor_msgs.msg import JointState

from motion_nodes.nodes.component_manager import arguments_of

CONTAINER = "/cell/my_container"
COMMAND = [sys.executable, "-m", "motion_nodes.nodes", "container", "--ros-args",
           "-r", "__node:=my_container", "-r", "__ns:=/cell"]  # fmt: skip


class Container:
    """A running container, and requests to it."""

    def __init__(self, services, process, client: RosClient) -> None:
        self.services, self.process, self.client = services, process, client

    def call(self, kind, name, **fields):
        """Call a service of the container; return its response."""
        kind = getattr(self.services, kind)
        return self.client.call(kind, f"{CONTAINER}/_container/{name}", kind.Request(**fields))

    def load(self, plugin, name="", namespace="", rules=(), package="motion_nodes", **parameters):
        """Load a node."""
        return self.call(
            "LoadNode", "load_node", package_name=package, plugin_name=plugin, node_name=name,
            node_namespace=namespace, remap_rules=list(rules), parameters=[
                Parameter(key, value=value).to_parameter_msg() for key, value in parameters.items()
            ],
        )  # fmt: skip

    def unload(self, number):
        """Unload a node."""
        return self.call("UnloadNode", "unload_node", unique_id=number)

    def listed(self):
        """Return the full names by id."""
        found = self.call("ListNodes", "list_nodes")
        return dict(zip(found.unique_ids, found.full_node_names, strict=True))


@pytest.fixture(scope="module")
def composition(ros, tmp_path_factory):
    return composition_interfaces(tmp_path_factory.mktemp("composition"))


@pytest.fixture
def container(suite, client, composition):
    services, variables = composition
    suite.fork = False
    process = suite.run(COMMAND, **variables)
    yield Container(services, process, client)
    assert process.stop() == 0, str(process)


def test_nodes_are_loaded_with_names_remappings_and_parameters_and_unloaded(container):
    client = container.client
    simulated = container.load("mock_sim", robots=["a:=jetbot"])
    assert (simulated.success, simulated.full_node_name) == (True, "/mock_sim")
    base = container.load(
        "differential_base", "wheels", "/a", ["odom:=/rolled", "~/odom:=/rolled"],
        robot="jetbot", update_rate=40.0, publish_rate=40.0,
    )  # fmt: skip
    assert base.success, base.error_message
    assert base.full_node_name == "/a/wheels"
    assert base.unique_id != simulated.unique_id
    assert container.listed() == {
        simulated.unique_id: "/mock_sim", base.unique_id: "/a/wheels",
    }  # fmt: skip
    assert client.state("/a/wheels") == "active"
    assert client.get_parameter("/a/wheels", "update_rate") == 40.0
    rolled = client.listen(Odometry, "/rolled")
    commands = client.publisher(TwistStamped, "/a/wheels/cmd_vel")
    forward = TwistStamped()
    forward.twist.linear.x = 0.1
    client.repeat(
        lambda: commands.publish(forward),
        lambda: rolled.newest is not None and rolled.newest.twist.twist.linear.x > 0.05,
        "the base rolls",
    )
    assert container.unload(base.unique_id).success
    states = client.listen(JointState, "/a/joint_states")
    client.wait(lambda: states.messages, "the simulation goes on")
    client.wait(lambda: client.node.count_publishers("/rolled") == 0, "the base has left")
    assert container.listed() == {simulated.unique_id: "/mock_sim"}
    again = container.load("differential_base", "wheels", "/a", robot="jetbot")
    assert again.success, again.error_message
    assert again.unique_id not in (base.unique_id, simulated.unique_id)


def test_what_cannot_be_loaded_is_told_and_leaves_nothing(container):
    kept = container.load("robot_state", robot="jetbot")
    assert kept.success, kept.error_message
    refused = {
        "of another package": (container.load("talker", package="demo_nodes_py"), "demo_nodes_py"),
        "no executable": (container.load("robot_stat"), "robot_state"),
        "no robot": (container.load("robot_state", "b"), "robot"),
        "wrong value": (
            container.load("differential_base", "c", robot="jetbot", wheel_radius=-1.0),
            "wheel_radius",
        ),
        "wrong name": (container.load("robot_state", "no name", robot="jetbot"), "no name"),
        "second instance": (container.load("robot_state", robot="jetbot"), "already"),
    }  # fmt: skip
    for case, (response, word) in refused.items():
        assert not response.success, case
        assert word in response.error_message, case
        assert response.unique_id == 0, case
    assert container.listed() == {kept.unique_id: "/robot_state"}
    assert not container.unload(99).success
    assert "99" in container.unload(99).error_message
    names = {name for name, _ in container.client.node.get_node_names_and_namespaces()}
    assert not names & {"b", "c"}


def test_a_node_without_autostart_waits_for_its_manager(container):
    assert container.load("robot_state", robot="jetbot", autostart=False).success
    assert container.client.state("/robot_state") == "unconfigured"
    assert container.client.change_state("/robot_state", "configure")


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (True, "true"), (3, "3"), (0.5, "0.5"), (-math.inf, "-.inf"), ("0.5", '"0.5"'),
        ("a: b", '"a: b"'), ([True, False], "[true, false]"), ([1, 2], "[1, 2]"),
        ([1.0, math.nan], "[1.0, .nan]"), (["NaN", "b"], '["NaN", "b"]'),
    ],
)  # fmt: skip
def test_parameters_become_arguments_with_their_types(value, word):
    message = Parameter("x", value=value).to_parameter_msg()
    request = SimpleNamespace(
        remap_rules=["a:=b"], node_name="n", node_namespace="", parameters=[message]
    )
    found = arguments_of(request)
    assert found == ["--ros-args", "-r", "a:=b", "-r", "__node:=n", "-p", f"x:={word}"]

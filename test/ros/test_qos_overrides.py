# SPDX-License-Identifier: Apache-2.0
"""Parameters that override quality of service, and what others are told of it."""

import pytest
from patience import wait_until
from rclpy.qos import DurabilityPolicy, HistoryPolicy, ReliabilityPolicy
from ros.probe import make, served
from std_msgs.msg import Int64

from motion_nodes.cli.ros2 import parser_of
from motion_nodes.nodes.clients.ros2 import nodes, topic
from motion_nodes.ros import qos

__all__ = ["make", "served"]


def test_given_policies_override_the_profile_and_become_parameters_of_the_node(make):
    node = make(
        "qos_overrides./numbers.subscription.depth:=7",
        "qos_overrides./numbers.publisher.reliability:=best_effort",
        "qos_overrides./numbers.publisher.durability:=transient_local",
    )
    node.trigger_configure()
    assert node.get_parameter("qos_overrides./numbers.subscription.depth").value == 7
    assert not node.has_parameter("qos_overrides./numbers.subscription.reliability")
    assert node.numbers._subscription.qos_profile.depth == 7
    publisher = node.create_publisher(Int64, "numbers", qos.STREAM)
    offered = publisher.qos_profile
    assert offered.reliability == ReliabilityPolicy.BEST_EFFORT
    assert offered.durability == DurabilityPolicy.TRANSIENT_LOCAL
    assert (offered.history, offered.depth) == (HistoryPolicy.KEEP_LAST, qos.STREAM.depth)
    assert qos.STREAM.reliability == ReliabilityPolicy.RELIABLE, "the constant"
    (told,) = node.get_publishers_info_by_topic("/numbers")
    assert told.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
    node.trigger_cleanup()
    node.trigger_configure()
    assert node.numbers._subscription.qos_profile.depth == 7


@pytest.mark.parametrize(
    ("override", "word"),
    [
        ("depht:=3", "depht"),
        ("depth:=0", "depth"),
        ("depth:=1000000000000", "depth"),
        ("depth:=.nan", "depth"),
        ("reliability:=sometimes", "reliability"),
        ("reliability:=1", "reliability"),
        ("lifespan:=1000", "lifespan"),
    ],
)
def test_policies_and_values_that_do_not_exist_are_refused(make, override, word):
    node = make(f"qos_overrides./numbers.subscription.{override}")
    node.trigger_configure()
    assert node.state_label == "unconfigured"
    assert f"qos_overrides./numbers.subscription.{word}" in node.failure


def test_the_graph_tells_no_depth_and_the_list_every_node(make, capsys, monkeypatch):
    make(name="first").trigger_configure()
    make(name="second")
    for module, command, words, found in (
        (topic, "topic", ["info", "-v", "/numbers"], ["/first: std", "depth unknown"]),
        (nodes, "node", ["list"], ["/first\n", "/second\n"]),
    ):  # fmt: skip
        options = parser_of(command).parse_args([*words, "--spin-time", "0.2"])

        def all_told(options=options, found=found):
            options.run(options)
            told = capsys.readouterr().out
            return all(part in told for part in found)

        monkeypatch.setattr(module, "participant", lambda: Reader(make))
        wait_until(all_told, f"{found}")


class Reader:
    """A node of this process, whose rclpy is initialized, in place of a new participant."""

    def __init__(self, make):
        self._node = None
        self._make = make

    def __enter__(self):
        self._node = self._make(name="_reader")
        return self._node

    def __exit__(self, *_):
        self._node.destroy_node()

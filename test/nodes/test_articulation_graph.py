# SPDX-License-Identifier: Apache-2.0
"""The articulation graph node over DDS: each input changes its own quantity only."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from joint_client import CONTROLLER, FRANKA
from ros_client import BEST_EFFORT, RosClient, values_of
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty, Float64MultiArray, Int32MultiArray, String
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
GRAPH = "/articulation_graph"
JOINTS = list(FRANKA.joint_names)
KINDS = {
    "robot_path": String, "target_prim": String, "joint_names": JointState,
    "joint_indices": Int32MultiArray, "position_command": Float64MultiArray,
    "velocity_command": Float64MultiArray, "effort_command": Float64MultiArray, "exec_in": Empty,
}  # fmt: skip


class Graph:
    """The other nodes of a dataflow graph."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self.out = {
            name: client.listen(JointState, f"/{name}{CONTROLLER}/reference", BEST_EFFORT)
            for name in ("left", "right")
        }
        self._publishers = {
            name: client.publisher(kind, f"{GRAPH}/{name}") for name, kind in KINDS.items()
        }

    def give(self, **inputs: Any) -> None:
        """Publish to inputs, and wait until the node has read them."""
        for name, value in inputs.items():
            field = "name" if name == "joint_names" else "data"
            self._publishers[name].publish(KINDS[name](**{field: value}))
        self.client.spin(0.2)

    def connect(self) -> None:
        """Execute until both robots' commands arrive: messages are lost before their discovery."""
        for name, heard in self.out.items():

            def execute(name: str = name) -> None:
                self.give(robot_path=f"/{name}", joint_indices=[0], position_command=[0.0])
                self._publishers["exec_in"].publish(Empty())

            self.client.repeat(execute, lambda heard=heard: heard, f"commands of {name}", rate=2.0)

    def execute(self, robot: str = "left") -> dict[str, tuple[float, ...]]:
        """Execute; return what was sent to a robot: (position, velocity, effort) by joint."""
        messages = self._executed(lambda: self.out[robot].messages)[robot]
        others = {name: len(heard) for name, heard in self.out.items() if name != robot}
        assert not any(others.values())
        assert len(messages) == 1
        message, blank = messages[-1], [math.nan] * 9
        rows = zip(message.position or blank, message.velocity or blank, message.effort or blank,
                   strict=False)  # fmt: skip
        return dict(zip(message.name, rows, strict=False))

    def sends_nothing(self) -> bool:
        """Execute; return whether no robot is sent anything."""
        end = time.monotonic() + 0.3
        return not any(self._executed(lambda: time.monotonic() > end).values())

    def _executed(self, done: Callable[[], Any]) -> dict[str, list[JointState]]:
        for heard in self.out.values():
            heard.clear()
        self._publishers["exec_in"].publish(Empty())
        self.client.wait(done, "what is sent")
        return {name: heard.messages for name, heard in self.out.items()}

    def sent(self) -> int:
        """Number of commands sent, by a report of the node newer than this call."""
        heard = self.client.diagnostics(GRAPH)
        self.client.wait(lambda: self.client.diagnostics(GRAPH) is not heard, "a new report")
        return int(values_of(self.client.diagnostics(GRAPH))["commands sent"])

    def refused(self, text: str) -> None:
        """Execute, and expect nothing but a warning."""
        assert self.sends_nothing()
        self.client.wait_for_diagnosis(GRAPH, text)


@pytest.fixture(scope="module")
def shared(module_suite, module_client):
    """A node that may command two arms."""
    module_suite.node("articulation_graph", robots=["left:=franka", "right:=franka", "car:=jetbot"])
    module_client.wait_for_diagnosis(GRAPH, "")
    made = Graph(module_client)
    made.connect()
    return made


@pytest.fixture
def graph(shared):
    """The node with cleared inputs, commanding the left arm."""
    assert shared.client.call(Trigger, f"{GRAPH}/reset").success
    shared.give(robot_path="/left")
    return shared


def close(found: dict[str, tuple[float, ...]], **wanted: tuple[float, ...]) -> bool:
    assert found.keys() == wanted.keys()
    return all(np.allclose(found[n], wanted[n], equal_nan=True) for n in wanted)


NO = math.nan


def test_each_input_changes_what_it_says_and_nothing_else(graph):
    graph.give(joint_names=[JOINTS[1]], position_command=[0.1])
    assert close(graph.execute(), panda_joint2=(0.1, NO, NO))
    assert close(graph.execute(), panda_joint2=(0.1, NO, NO)), "inputs keep their values"
    graph.give(velocity_command=[0.2])
    assert close(graph.execute(), panda_joint2=(0.1, 0.2, NO))
    graph.give(joint_names=[JOINTS[2]])
    assert close(graph.execute(), panda_joint3=(0.1, 0.2, NO))
    graph.give(joint_indices=[0])
    assert close(graph.execute(), panda_joint3=(0.1, 0.2, NO)), "names win"
    graph.give(joint_names=[])
    assert close(graph.execute(), panda_joint1=(0.1, 0.2, NO)), "index 0 alone"
    graph.give(position_command=[], velocity_command=[], effort_command=[1.5])
    assert close(graph.execute(), panda_joint1=(NO, NO, 1.5))
    graph.give(target_prim="/right")
    assert close(graph.execute(), panda_joint1=(NO, NO, 1.5)), "the path wins"
    graph.give(robot_path="")
    before = graph.sent()
    assert close(graph.execute("right"), panda_joint1=(NO, NO, 1.5))
    graph.client.wait(lambda: graph.sent() > before, "a report after the command")
    assert graph.sent() == before + 1


def test_a_stop_and_a_reset_clear_the_inputs(graph):
    graph.give(joint_indices=[0], position_command=[0.1])
    assert graph.client.change_state(GRAPH, "deactivate")
    assert graph.client.change_state(GRAPH, "activate")
    graph.give(robot_path="/left")
    assert graph.sends_nothing()
    graph.give(joint_indices=[0], position_command=[0.1])
    assert graph.client.call(Trigger, f"{GRAPH}/reset").success
    graph.refused("robot_path or target_prim")


def test_parameters_are_inputs_too(graph):
    client = graph.client
    graph.give(joint_indices=[2], position_command=[0.1])
    assert close(graph.execute(), panda_joint3=(0.1, NO, NO)), "read before the parameters are set"
    assert client.set_parameters(GRAPH, position_command=[0.4], joint_indices=[1]).successful
    try:
        client.spin(0.2)
        assert close(graph.execute(), panda_joint2=(0.4, NO, NO)), "the newest value counts"
        graph.give(position_command=[0.5])
        assert client.set_parameters(GRAPH, velocity_command=[0.0]).successful
        client.spin(0.2)
        assert close(graph.execute(), panda_joint2=(0.5, 0.0, NO)), "others stay"
        assert client.call(Trigger, f"{GRAPH}/reset").success
        graph.give(robot_path="/left")
        assert close(graph.execute(), panda_joint2=(0.4, 0.0, NO))
        answer = client.set_parameters(GRAPH, joint_indices=[-1], position_command=[0.6])
        assert not answer.successful
    finally:
        assert client.set_parameters(
            GRAPH, position_command=[NO], velocity_command=[NO], joint_indices=[0]
        ).successful

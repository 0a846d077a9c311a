# SPDX-License-Identifier: Apache-2.0
"""A node under test that records its calls, and fixtures that make and serve it."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from patience import wait_until
from std_msgs.msg import Int64
from std_srvs.srv import Trigger

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.rclpy_internals import GuardedExecutor
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param
from motion_nodes.ros.run import _serve


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeParams(NodeParams):
    """Parameters of the node under test."""

    update_rate: float = param(200.0, doc="Rate.", unit="Hz", gt=0.0, le=2000.0, read_only=True)
    gain: float = param(1.0, doc="Gain.", ge=0.0, le=10.0)


class Probe(MotionNode[ProbeParams]):
    """Records its calls, and their threads."""

    params_type = ProbeParams

    def __init__(self, *overrides: str, name: str = "probe") -> None:
        args = ["--ros-args"] + [word for o in overrides for word in ("-p", o)]
        self.calls: list[tuple[str, str]] = []
        self.in_tick: Callable[[], None] = lambda: None
        self.in_configure: Callable[[], None] = lambda: None
        self.in_halt: Callable[[], None] = lambda: None
        self.gains: list[float] = []
        self.ticks = 0
        super().__init__(name, ros_args=args if overrides else ["--ros-args"])

    def note(self, what: str) -> None:
        self.calls.append((what, threading.current_thread().name))

    def happened(self) -> list[str]:
        return [what for what, _ in self.calls]

    def configure(self) -> None:
        self.note("configure")
        self.numbers = self.poll(Int64, "numbers", qos.COMMANDS)
        self.serve(Trigger, "~/fail", self._fail)
        self.serve(Trigger, "~/ask", self._ask)
        self.in_configure()

    def activate(self) -> None:
        self.note("activate")
        self.taken: list[int] = []

    def tick(self, dt: float) -> None:
        self.ticks += 1
        self.taken += [message.data for message in self.numbers.all()]
        self.in_tick()

    def halt(self) -> None:
        self.note("halt")
        self.in_halt()

    def release(self) -> None:
        self.note("release")

    def parameters_changed(self, params: ProbeParams) -> None:
        self.note("parameters")
        self.gains.append(params.gain)

    def diagnose(self, report: Any) -> None:
        report.value("gain", self.params.gain)

    def _fail(self, request: Any, response: Any) -> Any:
        raise ZeroDivisionError("on purpose")

    def _ask(self, request: Any, response: Any) -> Any:
        response.success = True
        response.message = self.in_loop(lambda: threading.current_thread().name)
        return response


@pytest.fixture
def make(ros) -> Iterator[Callable[..., Probe]]:
    """Make nodes without an executor."""
    nodes: list[Probe] = []

    def build(*overrides: str, name: str = "probe") -> Probe:
        nodes.append(Probe(*overrides, name=name))
        return nodes[-1]

    yield build
    for node in nodes:
        node.destroy_node()


@pytest.fixture
def served(make) -> Iterator[Callable[..., Probe]]:
    """Make nodes with an executor for their services, as in a process of the suite."""
    running: list[tuple[GuardedExecutor, threading.Thread]] = []

    def build(*overrides: str) -> Probe:
        node = make(*overrides)
        executor = GuardedExecutor()
        executor.add_node(node)
        thread = threading.Thread(
            target=_serve, args=(executor, [node], threading.Event()), name="executor"
        )
        thread.start()
        running.append((executor, thread))
        return node

    yield build
    for executor, thread in running:
        executor.shutdown()
        thread.join(30.0)
        assert not thread.is_alive()


def active(node: Probe) -> Probe:
    if node.state_label == "unconfigured":
        node.trigger_configure()
    node.trigger_activate()
    wait_until(lambda: node.ticks > 2, "ticks")
    return node

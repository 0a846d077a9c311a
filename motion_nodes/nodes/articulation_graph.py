# SPDX-License-Identifier: Apache-2.0
"""Articulation graph: joint commands from a dataflow, with one topic per input.

Equivalent of Isaac Sim's OmniGraph node "Articulation Controller": inputs keep their values, and
each message on ``~/exec_in`` sends their command to the joint controller of the selected robot. An
invalid command is not sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty, Float64MultiArray, Int32MultiArray, String
from std_srvs.srv import Trigger

from motion_nodes.core.control.joint_command import CheckedCommand, GraphInputs
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import respond_from_loop
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.names import JOINT_CONTROLLER, under
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param, settings_from


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArticulationGraphParams(NodeParams):
    """Parameters of the graph node; those named like inputs are their initial values."""

    update_rate: float = param(
        100.0, doc="Rate at which the inputs are evaluated.", unit="Hz", gt=0.0, le=1000.0,
        read_only=True,
    )  # fmt: skip
    robots: tuple[str, ...] = param(
        doc="Robots that can be commanded, each as [NAMESPACE:=]ROBOT.", read_only=True
    )
    robot_path: str = param(
        "", doc="Namespace of the robot to command; takes precedence over target_prim."
    )
    target_prim: str = param("", doc="Namespace of the robot to command.")
    joint_names: tuple[str, ...] = param(
        (), doc="Names of the joints to command; takes precedence over joint_indices."
    )
    joint_indices: tuple[int, ...] = param(
        (),
        doc="Indices of the joints to command, in the joint controller's order; empty: all joints.",
        ge=0,
    )
    position_command: tuple[float, ...] = param(
        (),
        doc="Position command of each selected joint; NaN: no command.",
        unit="rad or m",
        nan=True,
    )
    velocity_command: tuple[float, ...] = param(
        (),
        doc="Velocity command of each selected joint; NaN: no command.",
        unit="rad/s or m/s",
        nan=True,
    )
    effort_command: tuple[float, ...] = param(
        (), doc="Effort command of each selected joint; NaN: no command.", unit="N m or N", nan=True
    )


INPUTS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "robot_path": (String, lambda message: str(message.data)),
    "target_prim": (String, lambda message: str(message.data)),
    "joint_names": (JointState, lambda message: tuple(message.name)),
    "joint_indices": (Int32MultiArray, lambda message: tuple(message.data)),
    "position_command": (Float64MultiArray, lambda message: tuple(message.data)),
    "velocity_command": (Float64MultiArray, lambda message: tuple(message.data)),
    "effort_command": (Float64MultiArray, lambda message: tuple(message.data)),
}
"""Message type of each input, and the conversion to its value."""


@dataclasses.dataclass(frozen=True)
class GraphTarget:
    """A robot that can be commanded."""

    limits: JointLimits
    """Limits of the joints of its joint controller."""
    publisher: Any
    """Publisher of the controller's command stream."""


class ArticulationGraphNode(MotionNode[ArticulationGraphParams]):
    """Sends joint commands of a dataflow."""

    params_type = ArticulationGraphParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("articulation_graph", ros_args=ros_args)

    def configure(self) -> None:
        """Load the robots and create the inputs."""
        self._targets: dict[str, GraphTarget] = {}
        for place in parse_placements(self.params.robots):
            robot = load_description(place.robot)
            if robot.arm_joints:
                topic = under(place.namespace, f"{JOINT_CONTROLLER}/reference")
                limits = robot.limits.select(robot.arm_joints)
                self._targets[place.namespace] = GraphTarget(
                    limits, self.advertise(JointState, topic)
                )
        if not self._targets:
            raise InvalidConfig(
                f"none of the robots {', '.join(self.params.robots)} has arm joints"
            )
        self._given = {
            name: self.poll(kind, f"~/{name}", qos.NEWEST) for name, (kind, _) in INPUTS.items()
        }
        self._exec = self.poll(Empty, "~/exec_in", qos.NEWEST)
        self.serve(Trigger, "~/reset", self._on_reset)
        self._values: GraphInputs = inputs_of(self.params)
        self._from_params: GraphInputs = self._values
        self._sent = 0
        self._refusal = ""

    def activate(self) -> None:
        """Reset the inputs to the parameters."""
        self._clear()

    def tick(self, dt: float) -> None:
        """Read the inputs; execute if triggered."""
        changed = {
            name: INPUTS[name][1](message)
            for name, subscription in self._given.items()
            if (message := subscription.newest()) is not None
        }
        if changed:
            self._values = dataclasses.replace(self._values, **changed)
        if self._exec.newest() is not None:
            self._execute()

    def parameters_changed(self, params: ArticulationGraphParams) -> None:
        """Set the inputs whose parameters changed."""
        before, now = dataclasses.asdict(self._from_params), dataclasses.asdict(inputs_of(params))
        changed = {name: value for name, value in now.items() if value != before[name]}
        self._values = dataclasses.replace(self._values, **changed)
        self._from_params = inputs_of(params)

    def time_jumped(self, before: float, after: float) -> None:
        """Reset the inputs, as at the start of a simulation."""
        self._clear()

    def diagnose(self, report: Report) -> None:
        """Report the last execution."""
        if self._refusal:
            report.note("WARN", self._refusal)
        report.value("commands sent", self._sent)

    def _clear(self) -> None:
        self._values = self._from_params = inputs_of(self.params)
        self._refusal = ""

    def _execute(self) -> None:
        """Send the command of the inputs if it is valid."""
        try:
            target = self._values.target(self._targets)
            command = self._values.command(target.limits)
        except MotionError as error:
            self._refusal = f"not executed, nothing moves: {error}"
            self.warn("execute", self._refusal)
            return
        self._refusal = ""
        if command is not None:
            message = message_of(command, target.limits.names, self.now_ns())
            message.header.frame_id = self.get_name()
            target.publisher.publish(message)
            self._sent += 1

    def _on_reset(self, _request: Any, response: Any) -> Any:
        """Reset the inputs."""
        return respond_from_loop(self, response, self._reset)

    def _reset(self) -> str:
        self._clear()
        return "inputs were reset to the parameters"


def inputs_of(params: ArticulationGraphParams) -> GraphInputs:
    """Return the initial values of the inputs."""
    return settings_from(params, GraphInputs)


def message_of(command: CheckedCommand, names: tuple[str, ...], now_ns: int) -> JointState:
    """Return a JointState message with the joints that have at least one commanded value.

    Args:
        command: of all joints; NaN without a value.
        names: of all joints.
        now_ns: stamp [ns].
    """
    channels = np.array([command.positions, command.velocities, command.efforts])
    used = ~np.isnan(channels).all(axis=0)
    message = JointState(name=[name for name, is_used in zip(names, used, strict=True) if is_used])
    for field, values in zip(("position", "velocity", "effort"), channels[:, used], strict=True):
        if not np.isnan(values).all():
            setattr(message, field, values.tolist())
    set_stamp(message, now_ns)
    return message

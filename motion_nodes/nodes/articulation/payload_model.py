# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics of a controller with its payload, and the estimate of the payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.model.inverse_dynamics import InverseDynamics
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.payload import PayloadDynamics, payload_of
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

STEADY = 1.0
"""Time at rest after which the external wrench is attributed to the payload [s]."""


def tool_of(robot: Robot, group_name: str) -> str | None:
    """Return the tool frame of a group: its tip, or else the robot's tool."""
    group = robot.groups.get(group_name)
    return (None if group is None else group.tip) or robot.tool_frame


class PayloadModel:
    """Dynamics of one robot's joints; the parameters ``payload.*`` are part of it."""

    def __init__(
        self, host: ArticulationControllerNode, robot: Robot, params: ArticulationParams
    ) -> None:
        """Compile the dynamics where the parameters need them.

        Args:
            host: the controller.
            robot: with the joints.
            params: of the controller.
        """
        self._host = host
        joints, tool = params.joints, tool_of(robot, params.impedance_group)
        self.dynamics: InverseDynamics | None = None
        """Inverse dynamics of the controller's joints, in their order; None: not needed."""
        if params.command_interface == "effort" or params.feed_forward or params.contact_detection:
            if tool is None:
                armature = [robot.drive(joint).armature for joint in joints]
                self.dynamics = InverseDynamics(robot.tree, joints, armature=armature)
            else:
                self.dynamics = PayloadDynamics(robot, joints, tool)
        self.set_params(params)
        self._kinematics = Kinematics(robot.tree, joints, base=robot.base_frame)
        self._state: JointStateReader | None = None

    def set_params(self, params: ArticulationParams) -> None:
        """Apply a changed payload."""
        if isinstance(self.dynamics, PayloadDynamics):
            mass, center = params.impedance_payload_mass, params.impedance_payload_center
            self.dynamics.set_payload(mass, center)

    def serve(self, state: JointStateReader) -> None:
        """Provide ``~/estimate_payload``.

        Args:
            state: measured state of the joints.
        """
        self._state = state
        self._host.serve(Trigger, "~/estimate_payload", self._on_estimate)

    def _on_estimate(self, _request: Any, response: Any) -> Any:
        """Set the payload whose weight is the external wrench of the arm at rest."""
        try:
            mass, center = self._host.in_loop(self._estimate)
            values = (("payload.mass", mass), ("payload.center", center.tolist()))
            # Together: a new mass at the old center is a wrong model.
            result = self._host.set_parameters_atomically(
                [Parameter(name, value=value) for name, value in values]
            )
            response.success = result.successful
            response.message = result.reason or f"payload of {mass:.3f} kg"
        except (MotionError, TimeoutError) as error:
            response.success, response.message = False, str(error)
        return response

    def _estimate(self) -> tuple[float, Array]:
        refusal = self._host.refusal()
        if refusal is not None:
            raise InvalidCommand(refusal)
        contact = self._host.contact
        if contact is None:
            raise InvalidCommand("the external wrench is not estimated; it needs contact_detection")
        if not contact.steady_time > STEADY:
            raise InvalidCommand(f"the payload is estimated after {STEADY:g} s at rest")
        assert self._state is not None
        X_BT = self._kinematics.pose(self._state.position, contact.tool)
        params = self._host.params
        return payload_of(
            contact.steady, X_BT[:3, :3],
            params.impedance_payload_mass, params.impedance_payload_center,
        )  # fmt: skip

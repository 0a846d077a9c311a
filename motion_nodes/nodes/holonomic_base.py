# SPDX-License-Identifier: Apache-2.0
"""Holonomic base (``mecanum_drive_controller``) with omni or mecanum wheels.

Interfaces of ros2_controllers' mecanum_drive_controller and omni_wheel_drive_controller
(docs/interfaces.md), for any number and arrangement of wheels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from control_msgs.msg import MecanumDriveControllerState

from motion_nodes.core.bases.base import BaseCommand, BodyAxisLimits
from motion_nodes.core.bases.from_robot import holonomic_config
from motion_nodes.core.bases.holonomic import (
    SOLVERS,
    HolonomicBase,
    HolonomicConfig,
    HolonomicWheel,
    holonomic_base,
    moved,
)
from motion_nodes.core.bases.twist_limiter import CommandShape
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import HolonomicSpec
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.endpoint_node import subscribed
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.parameters import core_param, core_params, param
from motion_nodes.ros.wheeled.wheeled_base_node import (
    CONTROLLER_STATE,
    StateWriter,
    WheeledBaseNode,
)
from motion_nodes.ros.wheeled.wheeled_base_params import (
    WheeledBaseParams,
    base_defaults,
    has_limits,
)
from motion_nodes.settings import setting_of
from motion_nodes.typing import Array

ONE_CYCLE = 1.5
"""Cycles after which a command that is valid for one cycle expires."""
PER_WHEEL = ("wheel_radii", "wheel_x", "wheel_y", "wheel_axis_yaw", "roller_angle_deg")
"""Parameters with one value per wheel."""


CORNERS = ("front_left", "front_right", "rear_left", "rear_right")
"""Wheels of mecanum_drive_controller, in the order of MecanumState."""


def _corner(corner: str, kind: str, use: str) -> Any:
    """Return the parameter of a joint at a corner."""
    side = corner.replace("_", " ")
    return param("", doc=f"Joint of the {side} wheel for its {use}; empty: {kind}.", read_only=True)


def _command(corner: str) -> Any:
    return _corner(corner, "that of wheel_names there", "commands")


def _state(corner: str) -> Any:
    return _corner(corner, "the joint of the commands", "state")


def _per_wheel(field: str) -> Any:
    """Return the parameter of a setting of each wheel."""
    doc = setting_of(HolonomicWheel, field)[0].doc
    return core_param(
        HolonomicWheel,
        field,
        default=dataclasses.MISSING,
        doc=f"{doc} One for each wheel, in the order of wheel_names.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(CommandShape)
@core_params(BodyAxisLimits, "linear.y", unit=0)
class HolonomicParams(WheeledBaseParams):
    """Parameters of a holonomic base.

    Named as in mecanum_drive_controller, but with a list of wheels instead of four; gains and speed
    limits as in Isaac Sim.
    """

    linear_y_has_velocity_limits: bool = has_limits("linear.y", "velocity")
    linear_y_has_acceleration_limits: bool = has_limits("linear.y", "acceleration")
    linear_y_has_jerk_limits: bool = has_limits("linear.y", "jerk")
    wheel_names: tuple[str, ...] = param(doc="Names of the wheel joints.", read_only=True)
    wheel_radii: tuple[float, ...] = _per_wheel("radius")
    wheel_x: tuple[float, ...] = _per_wheel("x")
    wheel_y: tuple[float, ...] = _per_wheel("y")
    wheel_axis_yaw: tuple[float, ...] = _per_wheel("axis_yaw")
    roller_angle_deg: tuple[float, ...] = _per_wheel("roller_angle_deg")
    wheels_radius: float = param(
        math.nan, name="kinematics.wheels_radius",
        doc="Radius of all wheels, which overrides wheel_radii; 0 or NaN: wheel_radii is used.",
        unit="m", nan=True, ge=0.0, le=10.0,
    )  # fmt: skip
    base_frame_offset_x: float = param(
        0.0, name="kinematics.base_frame_offset.x",
        doc="x offset of base_frame_id in the frame of the wheel positions.", unit="m",
    )  # fmt: skip
    base_frame_offset_y: float = param(
        0.0, name="kinematics.base_frame_offset.y",
        doc="y offset of base_frame_id in the frame of the wheel positions.", unit="m",
    )  # fmt: skip
    base_frame_offset_theta: float = param(
        0.0, name="kinematics.base_frame_offset.theta",
        doc="Yaw offset of base_frame_id in the frame of the wheel positions.", unit="rad",
    )  # fmt: skip
    peer_defaults: bool = param(
        False,
        doc="Use the wheel joints of the parameters front_left_wheel_command_joint_name at these "
        "corners, wherever they are in the URDF, as mecanum_drive_controller; false: the joints of "
        "other corners are refused.",
        read_only=True,
    )
    reference_timeout: float = param(
        math.nan,
        doc="Timeout of commands, which overrides cmd_vel_timeout; 0: a command is valid for one "
        "cycle, NaN: cmd_vel_timeout.", unit="s", nan=True, ge=0.0, le=60.0,
    )  # fmt: skip
    front_left_wheel_command_joint_name: str = _command("front_left")
    front_right_wheel_command_joint_name: str = _command("front_right")
    rear_left_wheel_command_joint_name: str = _command("rear_left")
    rear_right_wheel_command_joint_name: str = _command("rear_right")
    front_left_wheel_state_joint_name: str = _state("front_left")
    front_right_wheel_state_joint_name: str = _state("front_right")
    rear_left_wheel_state_joint_name: str = _state("rear_left")
    rear_right_wheel_state_joint_name: str = _state("rear_right")
    center_projections: float = param(
        math.nan, name="kinematics.sum_of_robot_center_projection_on_X_Y_axis",
        doc="Sum of the distances of a wheel from the centre along x and y, to which the wheel "
        "positions are scaled; 0 or NaN: they are not.", unit="m", nan=True, ge=0.0, le=100.0,
    )  # fmt: skip
    robot_radius: float = param(
        math.nan,
        doc="Distance of all wheels from the centre, on a circle in the order of wheel_names, "
        "counter-clockwise, with axes that point outward; NaN: wheel_x, wheel_y, wheel_axis_yaw.",
        unit="m", nan=True, gt=0.0, le=100.0,
    )  # fmt: skip
    wheel_offset: float = param(
        0.0, doc="Angle of the first wheel from the x axis, with robot_radius.", unit="rad"
    )
    wheel_radius: float = param(
        math.nan, doc="Radius of all wheels, as kinematics.wheels_radius; NaN: not set.", unit="m",
        nan=True, gt=0.0, le=10.0,
    )  # fmt: skip
    diagonal_covariance_pose: tuple[float, ...] = param(
        (), name="diagonal_covariance.pose",
        doc="Overrides pose_covariance_diagonal; empty: not set.", ge=0.0,
    )  # fmt: skip
    diagonal_covariance_twist: tuple[float, ...] = param(
        (), name="diagonal_covariance.twist",
        doc="Overrides twist_covariance_diagonal; empty: not set.", ge=0.0,
    )  # fmt: skip
    solver: str = param(
        "kinematic",
        doc="Inverse kinematics of the wheels: kinematic (rolling without slip), or qp (the "
        "quadratic programme of Isaac Sim; reproduces its wheel speeds, which do not "
        "realise the commanded twist).",
        one_of=tuple(SOLVERS),
    )


class MecanumState:
    """State of a base with four wheels at the corners of a rectangle."""

    def __init__(self, node: WheeledBaseNode[Any], corners: Sequence[int]) -> None:
        """Create the publisher.

        Args:
            node: the node.
            corners: indices of the front left, front right, rear left and rear right wheel.
        """
        self._corners = tuple(corners)
        self._out = node.advertise_all(MecanumDriveControllerState, CONTROLLER_STATE)
        self._message = MecanumDriveControllerState()

    @staticmethod
    def corners(x: Sequence[float], y: Sequence[float]) -> tuple[int, ...] | None:
        """Return the indices of the wheels at the corners; None unless there are exactly four.

        Args:
            x: positions of the wheels along the x axis [m].
            y: positions along the y axis [m].
        """
        quadrants = [(bx > 0.0, by > 0.0) for bx, by in zip(x, y, strict=True)]
        order = [(True, True), (True, False), (False, True), (False, False)]
        if sorted(quadrants) != sorted(order):
            return None
        return tuple(quadrants.index(quadrant) for quadrant in order)

    def publish(self, position: Array, velocity: Array, command: BaseCommand, stamp: int) -> None:
        """Publish one state."""
        message = self._message
        speeds = [float(velocity[i]) for i in self._corners]
        message.front_left_wheel_velocity, message.front_right_wheel_velocity = speeds[:2]
        message.back_left_wheel_velocity, message.back_right_wheel_velocity = speeds[2:]
        reference = message.reference_velocity
        reference.linear.x, reference.linear.y, reference.angular.z = command.twist
        set_stamp(message, stamp)
        for publisher in subscribed(self._out):
            publisher.publish(message)


class HolonomicBaseNode(WheeledBaseNode[HolonomicParams]):
    """Controls a holonomic base."""

    params_type = HolonomicParams
    has_reference = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("mecanum_drive_controller", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return geometry, limits and frames of the robot's description."""
        spec = robot.base
        if not isinstance(spec, HolonomicSpec):
            raise InvalidConfig(
                f"robot '{robot.name}' is of kind '{robot.kind}', not holonomic; "
                "it has no base for this node"
            )
        wheels = self._given(holonomic_config(robot, spec).wheels)
        return base_defaults(robot) | {
            "wheel_names": tuple(wheel.name for wheel in wheels),
            "wheel_radii": tuple(wheel.radius for wheel in wheels),
            "wheel_x": tuple(wheel.x for wheel in wheels),
            "wheel_y": tuple(wheel.y for wheel in wheels),
            "wheel_axis_yaw": tuple(wheel.axis_yaw for wheel in wheels),
            "roller_angle_deg": tuple(wheel.roller_angle_deg for wheel in wheels),
            "solver": spec.solver,
        }

    def make_base(self, params: HolonomicParams) -> HolonomicBase:
        """Return the kinematics."""
        n = len(params.wheel_names)
        for name in PER_WHEEL:
            if len(getattr(params, name)) != n:
                raise InvalidConfig(
                    f"{name} has {len(getattr(params, name))} entries for {n} wheel_names",
                    field=name,
                )
        if params.solver == "qp" and (params.clip_wheels or params.open_loop):
            raise InvalidConfig(
                "solver is qp, whose wheel speeds do not realise the commanded twist; "
                "clip_wheels and open_loop must be false with it"
            )
        if self._on_circle(params) and n < 3:
            raise InvalidConfig(
                f"wheel_names has {n} entries; robot_radius needs at least 3", field="wheel_names"
            )
        wheels = tuple(self._wheel(params, i) for i in range(n))
        in_base_frame = moved(
            wheels,
            params.base_frame_offset_x,
            params.base_frame_offset_y,
            params.base_frame_offset_theta,
        )
        return holonomic_base(HolonomicConfig(wheels=in_base_frame), params.solver)

    def _given(self, wheels: Sequence[HolonomicWheel]) -> tuple[HolonomicWheel, ...]:
        """Return the wheels that a parameter names, in its order; all if it names others."""
        given = self._parameter_overrides.get("wheel_names")
        names = [wheel.name for wheel in wheels] if given is None else list(given.value or ())
        by_name = {wheel.name: wheel for wheel in wheels}
        chosen = [by_name[name] for name in names if name in by_name]
        return tuple(chosen if len(chosen) == len(names) else wheels)

    @staticmethod
    def _on_circle(params: HolonomicParams) -> bool:
        return params.robot_radius > 0.0

    def _wheel(self, params: HolonomicParams, i: int) -> HolonomicWheel:
        """Return a wheel by the parameters."""
        radii = (params.wheels_radius, params.wheel_radius, params.wheel_radii[i])
        x, y, yaw = params.wheel_x[i], params.wheel_y[i], params.wheel_axis_yaw[i]
        roller = params.roller_angle_deg[i]
        if params.center_projections > 0.0:
            scale = params.center_projections / (abs(x) + abs(y))
            x, y = scale * x, scale * y
        if self._on_circle(params):
            # Odometry of omni_wheel_drive_controller: positive speeds turn the base clockwise.
            yaw = params.wheel_offset + math.tau * i / len(params.wheel_names)
            x, y = params.robot_radius * math.cos(yaw), params.robot_radius * math.sin(yaw)
            roller = 90.0
        return HolonomicWheel(
            name=self._joints(params)[i],
            radius=next(radius for radius in radii if radius > 0.0),
            x=x,
            y=y,
            axis_yaw=yaw,
            roller_angle_deg=roller,
        )

    @staticmethod
    def _joints(params: HolonomicParams) -> tuple[str, ...]:
        """Return the joint of each wheel, with peer_defaults those given for its corner."""
        names = list(params.wheel_names)
        corners = MecanumState.corners(params.wheel_x, params.wheel_y)
        if params.peer_defaults and corners is not None and len(names) == len(CORNERS):
            for corner, i in zip(CORNERS, corners, strict=True):
                given = getattr(params, f"{corner}_wheel_command_joint_name")
                names[i] = given or names[i]
        return tuple(names)

    def check(self, params: HolonomicParams) -> str | None:
        """Validate the parameters; the joints of corners must be those of wheels there."""
        corners = MecanumState.corners(params.wheel_x, params.wheel_y)
        for k, corner in enumerate(CORNERS):
            name = f"{corner}_wheel_command_joint_name"
            given = getattr(params, name)
            if not given:
                continue
            if corners is None:
                return f"{name} is '{given}', but the base does not have four wheels at corners"
            joint = self._joints(params)[corners[k]]
            if given != joint:
                return (
                    f"{name} is '{given}'; the wheel of the robot there is '{joint}' "
                    "(peer_defaults uses the given one)"
                )
        joints = self._joints(params)
        if len(set(joints)) < len(joints):
            return f"the joints of the wheels are {', '.join(joints)}; each wheel needs its own"
        for kind in ("pose", "twist"):
            given = getattr(params, f"diagonal_covariance_{kind}")
            if len(given) not in (0, 6):
                return f"diagonal_covariance.{kind} has {len(given)} entries; it needs 6"
        return super().check(params)

    def state_joints(self, joint: str) -> str:
        """Return the joint whose state is that of a wheel."""
        params = self.params
        corners = MecanumState.corners(params.wheel_x, params.wheel_y)
        for k, i in enumerate(corners or ()):
            if self._joints(params)[i] == joint:
                return getattr(params, f"{CORNERS[k]}_wheel_state_joint_name") or joint
        return joint

    def timeout(self, params: HolonomicParams) -> float:
        """Return the timeout of commands [s]; 0: none."""
        named = params.reference_timeout
        if math.isnan(named):
            return params.cmd_vel_timeout
        return named or ONE_CYCLE / params.update_rate

    def make_state_writer(self) -> StateWriter | None:
        """Return the state publisher of four wheels in a rectangle; None for others."""
        params = self.params
        corners = MecanumState.corners(params.wheel_x, params.wheel_y)
        return None if corners is None else MecanumState(self, corners)

    def diagnose(self, report: Report) -> None:
        """Report the state of the base, and motions that its wheels cannot produce."""
        super().diagnose(report)
        base = self.controller.base
        if isinstance(base, HolonomicBase) and base.impossible:
            report.note("WARN", f"the wheels cannot {' or '.join(base.impossible)}")

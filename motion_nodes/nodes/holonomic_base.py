# SPDX-License-Identifier: Apache-2.0
"""Holonomic base (``mecanum_drive_controller``) with omni or mecanum wheels.

Interface of ros2_controllers' mecanum_drive_controller (docs/interfaces.md), for any number and
arrangement of wheels.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from motion_nodes.bases.holonomic import HolonomicBase, HolonomicConfig, moved
from motion_nodes.bases.holonomic_drive import SOLVERS, holonomic_base
from motion_nodes.bases.holonomic_layout import HolonomicWheel
from motion_nodes.bases.holonomic_robot import holonomic_config
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.base_description import HolonomicSpec
from motion_nodes.model.robot import Robot
from motion_nodes.model.setting import setting_of
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.parameters import core_param, given_early, param
from motion_nodes.ros.run import run_node
from motion_nodes.ros.wheeled.base_state import MecanumState, StateWriter
from motion_nodes.ros.wheeled.wheeled_base_node import WheeledBaseNode
from motion_nodes.ros.wheeled.wheeled_base_params import (
    ShapeParams,
    SidewaysParams,
    WheeledBaseParams,
    base_defaults,
)

PER_WHEEL = ("wheel_radii", "wheel_x", "wheel_y", "wheel_axis_yaw", "roller_angle_deg")
"""Parameters with one value per wheel."""


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
class HolonomicParams(ShapeParams, SidewaysParams, WheeledBaseParams):
    """Parameters of a holonomic base.

    Named as in mecanum_drive_controller, but with a list of wheels instead of four.
    """

    wheel_names: tuple[str, ...] = param(doc="Names of the wheel joints.", read_only=True)
    wheel_radii: tuple[float, ...] = _per_wheel("radius")
    wheel_x: tuple[float, ...] = _per_wheel("x")
    wheel_y: tuple[float, ...] = _per_wheel("y")
    wheel_axis_yaw: tuple[float, ...] = _per_wheel("axis_yaw")
    roller_angle_deg: tuple[float, ...] = _per_wheel("roller_angle_deg")
    wheels_radius: float = param(
        math.nan,
        name="kinematics.wheels_radius",
        doc="Radius of all wheels, which overrides wheel_radii; 0 or NaN: wheel_radii is used.",
        unit="m",
        nan=True,
        ge=0.0,
        le=10.0,
    )
    base_frame_offset_x: float = param(
        0.0,
        name="kinematics.base_frame_offset.x",
        doc="x offset of base_frame_id in the frame of the wheel positions.",
        unit="m",
    )
    base_frame_offset_y: float = param(
        0.0,
        name="kinematics.base_frame_offset.y",
        doc="y offset of base_frame_id in the frame of the wheel positions.",
        unit="m",
    )
    base_frame_offset_theta: float = param(
        0.0,
        name="kinematics.base_frame_offset.theta",
        doc="Yaw offset of base_frame_id in the frame of the wheel positions.",
        unit="rad",
    )
    solver: str = param(
        "kinematic",
        doc="Inverse kinematics of the wheels: kinematic (rolling without slip), or qp (the "
        "quadratic programme of Isaac Sim; reproduces its wheel speeds, which do not "
        "realise the commanded twist).",
        one_of=tuple(SOLVERS),
    )


class HolonomicBaseNode(WheeledBaseNode[HolonomicParams]):
    """Controls a holonomic base."""

    params_type = HolonomicParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("mecanum_drive_controller", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return geometry, limits and frames of the robot's description."""
        spec = robot.base
        if not isinstance(spec, HolonomicSpec):
            raise InvalidConfig(
                f"robot '{robot.name}' is of kind '{robot.kind}', not holonomic; "
                "it has no base for this node"
            )
        wheels = holonomic_config(robot, spec).wheels
        given = tuple(given_early(self, "wheel_names") or ())
        known = {wheel.name: wheel for wheel in wheels}
        if given and set(given) <= known.keys():
            wheels = tuple(known[name] for name in given)
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
        one_radius = params.wheels_radius > 0.0
        wheels = tuple(
            HolonomicWheel(
                name=name,
                radius=params.wheels_radius if one_radius else params.wheel_radii[i],
                x=params.wheel_x[i],
                y=params.wheel_y[i],
                axis_yaw=params.wheel_axis_yaw[i],
                roller_angle_deg=params.roller_angle_deg[i],
            )
            for i, name in enumerate(params.wheel_names)
        )
        in_base_frame = moved(
            wheels,
            params.base_frame_offset_x,
            params.base_frame_offset_y,
            params.base_frame_offset_theta,
        )
        return holonomic_base(HolonomicConfig(wheels=in_base_frame), params.solver)

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


def main() -> None:
    """Run the node in its own process."""
    run_node(HolonomicBaseNode)

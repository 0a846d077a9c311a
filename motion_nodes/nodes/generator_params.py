# SPDX-License-Identifier: Apache-2.0
"""Parameters of the trajectory generator, and conversion to settings of the core."""

from __future__ import annotations

import dataclasses

from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.planning.task_space_conversion import PathConversionConfig
from motion_nodes.core.trajectory.joint_path import CornerBlending, FreeCheck
from motion_nodes.core.trajectory.through_waypoints import (
    METHODS,
    SaturationSettings,
    WaypointOptions,
)
from motion_nodes.core.trajectory.timed_path import PathEfforts
from motion_nodes.ros.clients.trajectory_execution import ExecutionParams
from motion_nodes.ros.parameters import core_param, core_params, param, settings_from


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(
    PathConversionConfig,
    "conversion",
    only=(
        "min_position_deviation",
        "max_position_deviation",
        "max_orientation_deviation",
        "max_joint_step",
    ),
)
@core_params(SaturationSettings, "saturation")
class TrajectoryGeneratorParams(ExecutionParams):
    """Parameters of the trajectory generator."""

    update_rate: float = param(
        20.0, doc="Update rate of the planning scene.", unit="Hz", gt=0.0, le=200.0,
        read_only=True,
    )  # fmt: skip
    method: str = param(
        "time_optimal",
        doc="Time parameterization of ~/waypoints without times: time_optimal (spline through "
        "all waypoints), lines (straight lines with blended corners), or saturation "
        "(Isaac Sim's saturated spline).",
        one_of=METHODS,
    )
    interpolation: str = param(
        "cubic_spline",
        doc="Interpolation between ~/waypoints with times.",
        one_of=("cubic_spline", "linear"),
    )
    jerk_limited: bool = param(True, doc="Respect the robot's jerk limits, if it has any.")
    velocity_scaling: float = param(
        1.0, doc="Default velocity scaling factor, for requests that give none.", gt=0.0, le=1.0
    )
    acceleration_scaling: float = param(
        1.0,
        doc="Default scaling factor of acceleration and jerk limits, for requests that give none.",
        gt=0.0,
        le=1.0,
    )
    blend_deviation: float = param(
        0.01,
        doc="Max deviation of blended corners from the waypoint (Euclidean norm in joint "
            "space); 0: stop at each waypoint.",
        unit="rad or m", ge=0.0, le=10.0,
    )  # fmt: skip
    effort_share: float = core_param(PlanOptions, "effort_share")
    time_step: float = param(
        0.01, doc="Time between two points of a trajectory.", unit="s", ge=0.001, le=1.0
    )
    group: str = param(
        "", doc="Planning group of task-space paths; empty: the only group with a tip."
    )
    tool: str = param("", doc="End effector frame of task-space paths; empty: the group's tip.")
    avoid_collisions: bool = param(
        True, doc="Reject motions in collision with the robot itself or the planning scene."
    )
    execute: bool = param(
        False,
        doc="Execute motions requested on ~/waypoints and ~/path_spec with the controller; "
        "false: only publish them.",
    )


def conversion_of(params: TrajectoryGeneratorParams) -> PathConversionConfig:
    """Return the settings of the conversion of task-space paths."""
    return settings_from(params, PathConversionConfig, "conversion_")


def saturation_of(params: TrajectoryGeneratorParams) -> SaturationSettings:
    """Return the settings of the saturation method."""
    return settings_from(params, SaturationSettings, "saturation_")


def options_of(
    params: TrajectoryGeneratorParams,
    is_free: FreeCheck | None,
    *,
    method: str = "",
    velocity_scaling: float = 0.0,
    acceleration_scaling: float = 0.0,
    efforts: PathEfforts | None = None,
) -> WaypointOptions:
    """Return the options of trajectory generation from waypoints.

    Args:
        params: of the node.
        is_free: collision check of blended corners; None: all are collision-free.
        method: of time parameterization; empty for that of the parameters.
        velocity_scaling: scaling factor; 0 for that of the parameters.
        acceleration_scaling: scaling factor; 0 for that of the parameters.
        efforts: effort limits, if any.

    Raises:
        InvalidConfig: an unknown method.
    """
    return WaypointOptions(
        method=method or params.method,
        jerk_limited=params.jerk_limited,
        velocity_scaling=velocity_scaling or params.velocity_scaling,
        acceleration_scaling=acceleration_scaling or params.acceleration_scaling,
        blending=CornerBlending(params.blend_deviation, is_free),
        saturation=saturation_of(params),
        efforts=efforts,
    )

# SPDX-License-Identifier: Apache-2.0
"""Parameters of the trajectory generator, and the core's options that they make."""

from __future__ import annotations

import dataclasses

from motion_nodes.planning.task_space_conversion import PathConversionConfig
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import FramedParams
from motion_nodes.trajectory.blended_path import CornerBlending, FreeCheck
from motion_nodes.trajectory.saturation import SaturationSettings
from motion_nodes.trajectory.spline import SPLIT_METHODS
from motion_nodes.trajectory.through_waypoints import METHODS, WaypointOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrajectoryGeneratorParams(FramedParams):
    """Parameters of the trajectory generator."""

    update_rate: float = param(
        20.0, doc="Rate at which the planning scene is followed.", unit="Hz", gt=0.0, le=200.0,
        read_only=True,
    )  # fmt: skip
    method: str = param(
        "time_optimal",
        doc="How ~/waypoints without times become a motion: the fastest along a spline that meets "
        "all of them, or along lines with rounded corners, or Isaac Sim's saturated spline.",
        one_of=METHODS,
    )
    interpolation: str = param(
        "cubic_spline",
        doc="How the joints go between ~/waypoints with times.",
        one_of=("cubic_spline", "linear"),
    )
    jerk_limited: bool = param(True, doc="Respect limits of jerk where the robot has some.")
    velocity_scaling: float = param(
        1.0, doc="Share of the velocity limits, where no request says.", gt=0.0, le=1.0
    )
    acceleration_scaling: float = param(
        1.0, doc="Share of acceleration and jerk limits, where no request says.", gt=0.0, le=1.0
    )
    blend_deviation: float = param(
        0.01,
        doc="How far corners between lines may be cut, Euclidean over the joints; 0: stop there.",
        unit="rad or m", ge=0.0, le=10.0,
    )  # fmt: skip
    time_step: float = param(
        0.01, doc="Time between the points of a trajectory.", unit="s", ge=0.001, le=1.0
    )
    group: str = param(
        "", doc="Group that a path of the tool moves; empty: the only one with a tip."
    )
    tool: str = param("", doc="Frame that a path of the tool leads; empty: the group's tip.")
    avoid_collisions: bool = param(
        True,
        doc="Refuse motions on which the robot would touch itself or the planning scene.",
    )
    execute: bool = param(
        False, doc="Have the controller carry out what comes on ~/waypoints and ~/path_spec."
    )
    controller: str = param(
        JOINT_CONTROLLER,
        doc="Node that carries out trajectories: its ~/follow_joint_trajectory is used.",
        read_only=True,
    )
    start_tolerance: float = param(
        0.01,
        doc="Nothing is carried out when a joint is farther than this from the first point.",
        unit="rad or m", gt=0.0, le=10.0,
    )  # fmt: skip
    state_timeout: float = param(
        1.0, doc="Nothing is carried out when joint_states are older than this.",
        unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    conversion_min_position_deviation: float = param(
        0.001,
        name="conversion.min_position_deviation",
        doc="Waypoints on a tool's path move apart while lines between them deviate less.",
        unit="m", gt=0.0, le=1.0,
    )  # fmt: skip
    conversion_max_position_deviation: float = param(
        0.003,
        name="conversion.max_position_deviation",
        doc="The tool never is further than this from its path.", unit="m", gt=0.0, le=1.0,
    )  # fmt: skip
    conversion_max_orientation_deviation: float = param(
        0.02,
        name="conversion.max_orientation_deviation",
        doc="The tool is never turned further than this off its path.",
        unit="rad", gt=0.0, le=3.2,
    )  # fmt: skip
    conversion_max_joint_step: float = param(
        0.5,
        name="conversion.max_joint_step",
        doc="No joint changes by more between waypoints: more is a jump.",
        unit="rad or m", gt=0.0, le=10.0,
    )  # fmt: skip
    saturation_max_segment_iterations: int = param(
        5,
        name="saturation.max_segment_iterations",
        doc="How often segments with room are shortened each by itself, per round.",
        ge=0, le=10_000,
    )  # fmt: skip
    saturation_max_aggregate_iterations: int = param(
        50,
        name="saturation.max_aggregate_iterations",
        doc="Rounds at most; one iteration of either kind at least.", ge=0, le=10_000,
    )  # fmt: skip
    saturation_convergence_dt: float = param(
        0.001,
        name="saturation.convergence_dt", doc="A round that gains less is the last.",
        unit="s", ge=0.0, le=10.0,
    )  # fmt: skip
    saturation_max_dilation_iterations: int = param(
        100,
        name="saturation.max_dilation_iterations",
        doc="How often the whole may be stretched until every limit is kept.", ge=0, le=10_000,
    )  # fmt: skip
    saturation_dilation_dt: float = param(
        0.001, name="saturation.dilation_dt", doc="Least stretch.", unit="s", ge=0.0, le=10.0
    )
    saturation_min_time_span: float = param(
        0.01,
        name="saturation.min_time_span", doc="Least time between two waypoints.",
        unit="s", ge=0.0, le=10.0,
    )  # fmt: skip
    saturation_time_split_method: str = param(
        "uniform",
        name="saturation.time_split_method",
        doc="How the time is shared out among the segments at first.",
        one_of=SPLIT_METHODS,
    )
    request_threads: int = param(
        2, doc="Requests that are answered side by side.", ge=1, le=16, read_only=True
    )


def conversion_of(params: TrajectoryGeneratorParams) -> PathConversionConfig:
    """Return how paths of the tool become paths of the joints."""
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
) -> WaypointOptions:
    """Return how waypoints become a motion.

    Args:
        params: the node's.
        is_free: asked about rounded corners; None: all are free.
        method: instead of the parameter's; empty: that one.
        velocity_scaling: instead of the parameter's; 0: that one.
        acceleration_scaling: instead of the parameter's; 0: that one.

    Raises:
        BadConfig: for a method that there is not.
    """
    return WaypointOptions(
        method=method or params.method,
        jerk_limited=params.jerk_limited,
        velocity_scaling=velocity_scaling or params.velocity_scaling,
        acceleration_scaling=acceleration_scaling or params.acceleration_scaling,
        blending=CornerBlending(params.blend_deviation, is_free),
        saturation=saturation_of(params),
    )

# SPDX-License-Identifier: Apache-2.0
"""Parameters of RMPflow, named and grouped as in the configuration files of Isaac Sim.

Defaults are those of the Franka. Each group is validated on construction, so no policy has an
invalid parameter. The formulas in :mod:`motion_nodes.kernels.formulas.rmps` define the parameters.

Source of names and values: RMPflow configuration of the Franka in Isaac Sim.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from motion_nodes.errors import InvalidConfig, did_you_mean

_DIVISORS = ("length_scale", "std_dev", "_eps", "_region", "_thresh", "_radius", "max_velocity")


class _Checked:
    """A group of non-negative parameters; divisors must be positive."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        group = _GROUP_OF.get(type(self).__name__, type(self).__name__)
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if item.name != "verbose":
                check_number(f"{group}.{item.name}", value, above_zero=_divides(item.name))


def _divides(name: str) -> bool:
    return name.endswith(_DIVISORS) or name == "max_acceleration_norm"


def check_number(name: str, value: object, *, above_zero: bool = False) -> float:
    """Return a validated parameter.

    Args:
        name: name of the parameter, for errors.
        value: value, in the unit of the parameter.
        above_zero: whether zero is excluded.

    Raises:
        InvalidConfig: not a finite number, negative, or zero for a divisor.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidConfig(f"{name} is {value!r}; a number is needed.", field=name)
    if not math.isfinite(value) or value < 0.0 or (above_zero and value == 0.0):
        allowed = "above 0" if above_zero else "0 or more"
        raise InvalidConfig(f"{name} is {value}; it must be finite and {allowed}.", field=name)
    return float(value)


@dataclass(frozen=True)
class CspaceTarget(_Checked):
    """Attraction to a posture, and inertia of the joints."""

    metric_scalar: float = 50.0
    position_gain: float = 100.0  # [1/s^2]
    damping_gain: float = 50.0  # [1/s]
    robust_position_term_thresh: float = 0.5  # [rad]
    inertia: float = 1.0


@dataclass(frozen=True)
class JointLimit(_Checked):
    """Repulsion from both limits of each joint; lengths are fractions of the joint's range."""

    metric_scalar: float = 1000.0
    metric_length_scale: float = 0.01
    metric_exploder_eps: float = 1e-3
    metric_velocity_gate_length_scale: float = 0.01
    accel_damper_gain: float = 200.0
    accel_potential_gain: float = 1.0
    accel_potential_exploder_length_scale: float = 0.1
    accel_potential_exploder_eps: float = 1e-2


@dataclass(frozen=True)
class JointVelocityCap(_Checked):
    """Damping of joints close to their velocity limits."""

    max_velocity: float = 4.0  # [rad/s]
    velocity_damping_region: float = 1.5  # [rad/s]
    damping_gain: float = 1000.0  # [1/s]
    metric_weight: float = 100.0

    def __post_init__(self) -> None:
        """Also check that damping does not start below zero velocity."""
        super().__post_init__()
        if self.velocity_damping_region > self.max_velocity:
            raise InvalidConfig(
                f"joint_velocity_cap_rmp.velocity_damping_region is "
                f"{self.velocity_damping_region}; it must be at most max_velocity, "
                f"{self.max_velocity}.",
                field="joint_velocity_cap_rmp.velocity_damping_region",
            )


@dataclass(frozen=True)
class TargetSettings(_Checked):
    """Attraction of the tool to a position."""

    accel_p_gain: float = 30.0  # [m/s^2]
    accel_d_gain: float = 85.0  # [1/s]
    accel_norm_eps: float = 0.075  # [m]
    metric_alpha_length_scale: float = 0.05  # [m]
    min_metric_alpha: float = 0.01
    max_metric_scalar: float = 10000.0
    min_metric_scalar: float = 2500.0
    proximity_metric_boost_scalar: float = 20.0
    proximity_metric_boost_length_scale: float = 0.02  # [m]

    def __post_init__(self) -> None:
        """Also check the range of ``min_metric_alpha``."""
        super().__post_init__()
        if self.min_metric_alpha > 1.0:
            raise InvalidConfig(
                f"target_rmp.min_metric_alpha is {self.min_metric_alpha}; it must be 0 to 1.",
                field="target_rmp.min_metric_alpha",
            )


@dataclass(frozen=True)
class AxisTarget(_Checked):
    """Attraction of the tool's axes to an orientation."""

    accel_p_gain: float = 210.0  # [1/s^2]
    accel_d_gain: float = 60.0  # [1/s]
    metric_scalar: float = 10.0
    proximity_metric_boost_scalar: float = 3000.0
    proximity_metric_boost_length_scale: float = 0.08  # [m]


@dataclass(frozen=True)
class Collision(_Checked):
    """Repulsion of spheres from obstacles; ``metric_scalar`` 0 disables it."""

    damping_gain: float = 50.0  # [1/s]
    damping_std_dev: float = 0.04  # [m]
    damping_robustness_eps: float = 1e-2
    damping_velocity_gate_length_scale: float = 0.01  # [m/s]
    repulsion_gain: float = 800.0  # [m/s^2]
    repulsion_std_dev: float = 0.01  # [m]
    metric_modulation_radius: float = 0.5  # [m]
    metric_scalar: float = 10000.0
    metric_exploder_std_dev: float = 0.02  # [m]
    metric_exploder_eps: float = 0.001


@dataclass(frozen=True)
class SelfCollision(Collision):
    """Repulsion of links from each other, by their spheres; ``metric_scalar`` 0 disables it.

    Isaac Sim has no such RMP: it is disabled in files without it.
    """

    damping_std_dev: float = 0.02  # [m]
    repulsion_std_dev: float = 0.004  # [m]
    metric_modulation_radius: float = 0.05  # [m]
    metric_scalar: float = 0.0


@dataclass(frozen=True)
class Damping(_Checked):
    """Damping of the tool, increasing with its velocity, and inertia."""

    accel_d_gain: float = 30.0  # [1/m]
    metric_scalar: float = 50.0  # [s/m]
    inertia: float = 100.0


@dataclass(frozen=True)
class Resolve(_Checked):
    """Resolution of all RMPs to joint accelerations."""

    max_acceleration_norm: float = 50.0  # [rad/s^2]
    projection_tolerance: float = 0.01
    verbose: bool = False


@dataclass(frozen=True)
class BodyCapsule:
    """Capsule of the robot's body, fixed in the base frame."""

    name: str
    pt1: tuple[float, float, float]
    """One end of the axis, in the base frame [m]."""
    pt2: tuple[float, float, float]
    """Other end of the axis, in the base frame [m]; the same point for a sphere."""
    radius: float
    """Radius [m]."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_number(f"body_cylinders '{self.name}': radius", self.radius, above_zero=True)
        if not all(math.isfinite(x) for x in (*self.pt1, *self.pt2)):
            raise InvalidConfig(f"body_cylinders '{self.name}': its points must be finite numbers.")


@dataclass(frozen=True)
class BodyController:
    """A frame that avoids the body capsules."""

    name: str
    """Name of the frame."""
    radius: float
    """Radius of the sphere about the frame's origin [m]."""

    def __post_init__(self) -> None:
        """Validate the radius."""
        check_number(f"body_collision_controllers '{self.name}': radius", self.radius)


@dataclass(frozen=True)
class RmpflowSettings:
    """All parameters of RMPflow for one robot."""

    cspace_target_rmp: CspaceTarget = field(default_factory=CspaceTarget)
    joint_limit_rmp: JointLimit = field(default_factory=JointLimit)
    joint_velocity_cap_rmp: JointVelocityCap = field(default_factory=JointVelocityCap)
    target_rmp: TargetSettings = field(default_factory=TargetSettings)
    axis_target_rmp: AxisTarget = field(default_factory=AxisTarget)
    collision_rmp: Collision = field(default_factory=Collision)
    self_collision_rmp: SelfCollision = field(default_factory=SelfCollision)
    damping_rmp: Damping = field(default_factory=Damping)
    canonical_resolve: Resolve = field(default_factory=Resolve)
    joint_limit_buffers: tuple[float, ...] = (0.01,)
    """Reduction of each joint's range at both ends; a single value applies to all joints [rad or
    m]."""
    default_posture: str = "home"
    """Named state used as the default posture, far from limits and singularities. Not in Isaac
    Sim."""
    body_cylinders: tuple[BodyCapsule, ...] = ()
    body_collision_controllers: tuple[BodyController, ...] = ()

    def __post_init__(self) -> None:
        """Validate the buffers."""
        for index, buffer in enumerate(self.joint_limit_buffers):
            check_number(f"joint_limit_buffers[{index}]", buffer)

    def parameters(self) -> dict[str, float]:
        """Return all parameters [SI] of RMPs and resolution, by ``group.parameter``."""
        return {
            f"{group}.{item.name}": getattr(getattr(self, group), item.name)
            for group in GROUPS
            for item in dataclasses.fields(getattr(self, group))
            if item.name != "verbose"
        }

    def with_parameters(self, values: Mapping[str, float]) -> RmpflowSettings:
        """Return validated settings with some parameters [SI] replaced.

        Args:
            values: values by ``group.parameter``, such as ``target_rmp.accel_p_gain``.

        Raises:
            InvalidConfig: an unknown name (names the closest one), or an invalid value.
        """
        known = self.parameters()
        groups: dict[str, dict[str, float]] = {}
        for name, value in values.items():
            if name not in known:
                raise InvalidConfig(
                    f"'{name}' is not a parameter.{did_you_mean(name, known)}", field=name
                )
            group, _, key = name.partition(".")
            groups.setdefault(group, {})[key] = check_number(name, value)
        changed = {g: dataclasses.replace(getattr(self, g), **new) for g, new in groups.items()}
        return dataclasses.replace(self, **changed)


GROUPS: dict[str, type] = {
    "cspace_target_rmp": CspaceTarget,
    "joint_limit_rmp": JointLimit,
    "joint_velocity_cap_rmp": JointVelocityCap,
    "target_rmp": TargetSettings,
    "axis_target_rmp": AxisTarget,
    "collision_rmp": Collision,
    "self_collision_rmp": SelfCollision,
    "damping_rmp": Damping,
    "canonical_resolve": Resolve,
}
"""Groups of parameters, by their names in files."""

_GROUP_OF = {kind.__name__: name for name, kind in GROUPS.items()}

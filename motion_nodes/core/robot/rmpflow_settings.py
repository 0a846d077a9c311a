# SPDX-License-Identifier: Apache-2.0
"""Parameters of RMPflow, named and grouped as in the configuration files of Isaac Sim; these files.

Defaults are those of the Franka. Each group is validated on construction, so no policy has an
invalid parameter. The formulas in :mod:`motion_nodes.kernels.formulas.rmps` define the parameters.

Source of names and values: RMPflow configuration of the Franka in Isaac Sim.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motion_nodes.core.robot.yaml_schema import read_yaml, yaml_text
from motion_nodes.errors import InvalidConfig, InvalidDescription, did_you_mean

_DIVISORS = ("length_scale", "std_dev", "_eps", "_region", "_thresh", "_radius", "max_velocity")


class _Checked:
    """A group of non-negative parameters; divisors must be positive."""

    def __post_init__(self) -> None:
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


_LOG = logging.getLogger(__name__)

RMPFLOW_FILE = "rmpflow.yaml"
"""File name of the settings in a robot's folder."""

_UNUSED_LEAVES = ("cspace_trajectory_rmp", "cspace_affine_rmp")
_UNUSED_PARAMETERS = ("xi_estimator_gate_std_dev", "accept_user_weights")
_OPTIONAL = {"projection_tolerance", "verbose"}
_OPTIONAL_LEAVES = ("self_collision_rmp",)
_TOP = (
    *("joint_limit_buffers", "rmp_params", "canonical_resolve"),
    *("body_cylinders", "body_collision_controllers", "default_posture"),
)


def read_rmpflow(file: str | Path) -> RmpflowSettings:
    """Read a configuration file.

    Unknown fields are ignored with a warning, the two trajectory RMPs with a message at level info.
    Optional are ``self_collision_rmp``, ``default_posture``, ``projection_tolerance`` and
    ``verbose``; all other fields are required.

    Args:
        file: YAML, or a robot's folder that contains ``rmpflow.yaml``.

    Raises:
        InvalidDescription: names the file, and the missing or invalid field.
    """
    path = Path(file).expanduser()
    if path.is_dir():
        path = path / RMPFLOW_FILE
    if not path.is_file():
        raise InvalidDescription(f"{path}: there is no such file; RMPflow needs its settings.")
    data = read_yaml(path)
    try:
        return _settings(data, str(path))
    except InvalidConfig as error:
        raise InvalidDescription(f"{path}: {error}", field=error.field) from None


def rmpflow_text(settings: RmpflowSettings, comment: str = "") -> str:
    """Return settings as the text of a configuration file.

    Args:
        settings: parameters.
        comment: comment at the top, possibly of several lines.
    """
    groups = {name: dataclasses.asdict(getattr(settings, name)) for name in GROUPS}
    resolve = groups.pop("canonical_resolve")
    data = {
        "default_posture": settings.default_posture,
        "joint_limit_buffers": list(settings.joint_limit_buffers),
        "rmp_params": groups,
        "canonical_resolve": resolve,
        "body_cylinders": [dataclasses.asdict(item) for item in settings.body_cylinders],
        "body_collision_controllers": [
            dataclasses.asdict(item) for item in settings.body_collision_controllers
        ],
    }
    return yaml_text(data, comment)


def _settings(data: dict[str, Any], where: str) -> RmpflowSettings:
    _warn_of_unknown(data, _TOP, "", where)
    leaves = _block(data, "rmp_params", where)
    names = [name for name in GROUPS if name != "canonical_resolve"]
    _warn_of_unknown(leaves, [*names, *_UNUSED_LEAVES], "rmp_params.", where)
    unused = [name for name in _UNUSED_LEAVES if name in leaves]
    if unused:
        _LOG.info("%s: %s has no effect: trajectories are not followed here", where, unused)
    groups = {
        name: _group(leaves, name, "rmp_params.", where)
        for name in names
        if name in leaves or name not in _OPTIONAL_LEAVES
    }
    return RmpflowSettings(
        **groups,
        canonical_resolve=_group(data, "canonical_resolve", "", where),
        joint_limit_buffers=_numbers(data, "joint_limit_buffers", where),
        default_posture=_state(data),
        body_cylinders=tuple(_capsule(item) for item in _items(data, "body_cylinders", where)),
        body_collision_controllers=tuple(
            BodyController(_name(item), _number(item, "radius", f"controller '{_name(item)}'"))
            for item in _items(data, "body_collision_controllers", where)
        ),
    )


def _group(data: dict[str, Any], name: str, prefix: str, where: str) -> Any:
    """Return one group of parameters."""
    block = _block(data, name, where, prefix)
    kind = GROUPS[name]
    fields = [item.name for item in dataclasses.fields(kind)]
    _warn_of_unknown(block, [*fields, *_UNUSED_PARAMETERS], f"{prefix}{name}.", where)
    missing = [key for key in fields if key not in block and key not in _OPTIONAL]
    if missing:
        raise InvalidConfig(f"{prefix}{name} is missing {', '.join(missing)}.", field=name)
    return kind(**{key: value for key, value in block.items() if key in fields})


def _block(data: dict[str, Any], name: str, where: str, prefix: str = "") -> dict[str, Any]:
    if name not in data:
        raise InvalidConfig(f"the block {prefix}{name} is missing.", field=name)
    if not isinstance(data[name], dict):
        raise InvalidConfig(f"{prefix}{name} must be a block of fields.", field=name)
    block: dict[str, Any] = data[name]
    return block


def _items(data: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    if name not in data:
        raise InvalidConfig(f"the list {name} is missing; write '{name}: []' for none.", field=name)
    items = data[name]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidConfig(f"{name} must be a list of blocks.", field=name)
    return items


def _numbers(data: dict[str, Any], name: str, where: str) -> tuple[float, ...]:
    if name not in data:
        raise InvalidConfig(
            f"the list {name} is missing; give one number for each joint.", field=name
        )
    values = data[name]
    if not isinstance(values, list) or not values:
        raise InvalidConfig(f"{name} must be a list with one number for each joint.", field=name)
    return tuple(check_number(f"{name}[{i}]", value) for i, value in enumerate(values))


def _state(data: dict[str, Any]) -> str:
    """Return the default posture's name, which files of Isaac Sim do not contain."""
    name = data.get("default_posture", RmpflowSettings.default_posture)
    if not isinstance(name, str):
        raise InvalidConfig(
            f"default_posture is {name!r}; it must be the name of a state.", field="default_posture"
        )
    return name


def _capsule(item: dict[str, Any]) -> BodyCapsule:
    name = _name(item)
    ends = []
    for key in ("pt1", "pt2"):
        point = item.get(key)
        if not isinstance(point, list) or len(point) != 3 or not all(map(_is_number, point)):
            raise InvalidConfig(f"body_cylinders '{name}': {key} must be three numbers [m].")
        ends.append((float(point[0]), float(point[1]), float(point[2])))
    return BodyCapsule(name, ends[0], ends[1], _number(item, "radius", f"body_cylinders '{name}'"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(item: dict[str, Any]) -> str:
    name = item.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidConfig(f"an entry of body_cylinders or controllers has no name: {item}.")
    return name


def _number(item: dict[str, Any], key: str, what: str) -> float:
    if not _is_number(item.get(key)):
        raise InvalidConfig(f"{what}: {key} must be a number [m].")
    return float(item[key])


def _warn_of_unknown(
    data: dict[str, Any], known: tuple[str, ...] | list[str], prefix: str, where: str
) -> None:
    for key in data:
        if key not in known:
            hint = did_you_mean(str(key), known)
            _LOG.warning("%s: %s%s has no effect: it is not known.%s", where, prefix, key, hint)

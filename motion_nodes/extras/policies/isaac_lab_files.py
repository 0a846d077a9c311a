# SPDX-License-Identifier: Apache-2.0
"""Readers of the descriptions of policies that Isaac Lab writes.

IO_descriptors.yaml (``export_io_descriptors=true``) becomes a PolicySpec. The schema is described
in docs/policies.md. Other fields are ignored; the field ``motion_nodes`` contains additional
information that Isaac Lab does not export.

So does the configuration of a training environment (env.yaml). That file contains no order of
joints: it is that of the articulation in training, which the user gives, or the breadth-first order
of the robot's tree. Source of the fields: behaviour of Isaac Lab's ManagerBasedRLEnvCfg and of
Isaac Sim's PolicyController.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.robot.yaml_schema import read_yaml
from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.extras.policies.observations import TERMS, source_of
from motion_nodes.extras.policies.policy_spec import (
    MAX_DECIMATION,
    MAX_HISTORY,
    TWIST_WIDTH,
    ActionKind,
    ActionTerm,
    ObservationTerm,
    PolicySpec,
    TrainedJoints,
)
from motion_nodes.typing import Array

NAN, INF = float("nan"), float("inf")
MAX_PATTERN = 1000
"""Max length of a regular expression."""
ACTION_CLASSES = {
    "JointPositionAction": ActionKind.POSITION,
    "RelativeJointPositionAction": ActionKind.RELATIVE_POSITION,
    "JointVelocityAction": ActionKind.VELOCITY,
    "JointEffortAction": ActionKind.EFFORT,
    "BinaryJointPositionAction": ActionKind.BINARY,
}
"""Supported action terms of Isaac Lab."""
_GROUP_FIELDS = (
    "concatenate_terms", "concatenate_dim", "enable_corruption", "history_length",
    "flatten_history_dim",
)  # fmt: skip
GROUP = "policy"
"""Observation group of the policy's input."""
_VECTORS = {"base_pos_z": 1}
"""Widths of registered terms without joints; the others have three values."""


def number_in(value: Any, where: str) -> float:
    """Return a number; ``inf`` is one, NaN and booleans are not.

    Raises:
        InvalidDescription: names the place.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise InvalidDescription(f"{where}: {value!r:.60} is not a number.")
    return float(value)


def finite_in(value: Any, where: str) -> float:
    """Return a finite number.

    Raises:
        InvalidDescription: names the place.
    """
    number = number_in(value, where)
    if math.isinf(number):
        raise InvalidDescription(f"{where}: {value} is not finite.")
    return number


def array_in(values: Any, where: str, length: int | None = None) -> Array:
    """Return a list of finite numbers, or nested lists with one element each as its row.

    Raises:
        InvalidDescription: no list of numbers, or another length.
    """
    if isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    if not isinstance(values, list):
        raise InvalidDescription(f"{where}: a list of numbers is needed, not {values!r:.60}.")
    if length is not None and len(values) != length:
        raise InvalidDescription(f"{where}: has {len(values)} values, {length} are needed.")
    return np.array([finite_in(value, f"{where}[{i}]") for i, value in enumerate(values)])


def block_in(data: Mapping[Any, Any], field: str, where: str) -> dict[Any, Any]:
    """Return a field that is a block of fields, not empty.

    Raises:
        InvalidDescription: names the place.
    """
    value = optional_block(data, field, where)
    if not value:
        raise InvalidDescription(f"{where}: {field}: a block of fields is needed.")
    return value


def optional_block(data: Mapping[Any, Any], field: str, where: str) -> dict[Any, Any]:
    """Return a field that is a block of fields; empty if it is missing.

    Raises:
        InvalidDescription: names the place.
    """
    value = data.get(field) or {}
    if not isinstance(value, dict):
        raise InvalidDescription(f"{where}: {field}: a block of fields is needed.")
    return value


def matching(pattern: Any, joints: Sequence[str], where: str) -> list[int]:
    """Return the indices of joints whose whole name matches a regular expression.

    Raises:
        InvalidDescription: not a regular expression.
    """
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
        raise InvalidDescription(f"{where}: {pattern!r:.60} is not a pattern of joint names.")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidDescription(f"{where}: pattern '{pattern}' is wrong: {error}.") from None
    return [i for i, name in enumerate(joints) if compiled.fullmatch(name)]


def per_joint(value: Any, joints: Sequence[str], default: float, where: str) -> Array:
    """Return one value for each joint.

    Args:
        value: None: the default; a number: for all; a list: in order; a mapping: by pattern;
            the first match is used, as in Isaac Lab.
        joints: names of the joints.
        default: of joints without a value.
        where: file and field, for errors.

    Returns:
        Values, shape (n,); may be inf.

    Raises:
        InvalidDescription: another type, or a pattern that matches no joint.
    """
    out = np.full(len(joints), default)
    if value is None:
        return out
    if isinstance(value, list):
        if len(value) != len(joints):
            raise InvalidDescription(
                f"{where}: has {len(value)} values for {len(joints)} joints: {', '.join(joints)}."
            )
        return np.array([number_in(v, f"{where}[{i}]") for i, v in enumerate(value)])
    if not isinstance(value, dict):
        return np.full(len(joints), number_in(value, where))
    given = np.zeros(len(joints), dtype=bool)
    for pattern, entry in value.items():
        found = matching(pattern, joints, where)
        if not found:
            raise InvalidDescription(
                f"{where}: pattern '{pattern}' matches none of the joints {', '.join(joints)}."
            )
        for i in found:
            if not given[i]:
                out[i], given[i] = number_in(entry, f"{where}.{pattern}"), True
    return out


def whole_in(value: Any, where: str, low: int, high: int) -> int:
    """Return a whole number of a range.

    Raises:
        InvalidDescription: names the place and the range.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidDescription(
            f"{where}: {value!r:.60} must be a whole number from {low} to {high}."
        )
    return value


def scale_of(value: Any, width: int, where: str) -> Array | None:
    """Return the scale of an observation, shape () or (width,); None: 1.

    Raises:
        InvalidDescription: neither a number nor a list of that length.
    """
    if value is None:
        return None
    if isinstance(value, list):
        return array_in(value, where, width)
    return np.array(finite_in(value, where))


def bounds_of(value: Any, where: str) -> tuple[float, float] | None:
    """Return the bounds of an observation; None: none.

    Raises:
        InvalidDescription: not two numbers in order.
    """
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidDescription(f"{where}: two numbers are needed, not {value!r:.60}.")
    low, high = (number_in(v, where) for v in value)
    if low > high:
        raise InvalidDescription(f"{where}: {low:g} is above {high:g}.")
    return low, high


def clip_of(value: Any, joints: tuple[str, ...], where: str) -> tuple[Array, Array]:
    """Return lower and upper bounds of the processed actions of joints, shape (n,) each.

    Args:
        value: None: none; two numbers: for all joints; a list of pairs; a mapping of pairs by
            pattern.
        joints: names of the joints.
        where: file and field, for errors.

    Raises:
        InvalidDescription: another type.
    """
    if isinstance(value, dict):
        pairs = {key: bounds_of(entry, f"{where}.{key}") for key, entry in value.items()}
        low = {key: pair[0] for key, pair in pairs.items() if pair}
        high = {key: pair[1] for key, pair in pairs.items() if pair}
        return per_joint(low, joints, -INF, where), per_joint(high, joints, INF, where)
    if isinstance(value, list) and value and isinstance(value[0], list):
        if len(value) == 1 and len(joints) > 1:
            value = value[0]
        if len(value) != len(joints):
            raise InvalidDescription(f"{where}: has {len(value)} pairs for {len(joints)} joints.")
        pairs_in_order = [bounds_of(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
        low_high = np.array([pair or (-INF, INF) for pair in pairs_in_order])
        return low_high[:, 0], low_high[:, 1]
    bounds = bounds_of(value, where) or (-INF, INF)
    return np.full(len(joints), bounds[0]), np.full(len(joints), bounds[1])


def names_in(value: Any, where: str) -> tuple[str, ...]:
    """Return a list of different names.

    Raises:
        InvalidDescription: no such list.
    """
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise InvalidDescription(f"{where}: a list of names is needed, not {value!r:.60}.")
    twice = [name for name in value if value.count(name) > 1]
    if twice:
        raise InvalidDescription(f"{where}: '{twice[0]}' is listed twice.")
    return tuple(value)


def read_descriptor(file: str | Path) -> PolicySpec:
    """Read the description of a policy from IO_descriptors.yaml.

    Args:
        file: the file, with one group of observations, or one that is named ``policy``.

    Returns:
        The description; joints in the order of the articulation.

    Raises:
        InvalidDescription: names the file, the field and what is needed there.
    """
    path = Path(file)
    data = read_yaml(path, tagged=True)
    where = str(path)
    joints = _joints(block_in(data, "articulations", where), where)
    scene = block_in(data, "scene", where)
    groups = block_in(data, "observations", where)
    group = next(iter(groups)) if len(groups) == 1 else GROUP
    if group not in groups:
        raise InvalidDescription(
            f"{where}: observations has no group '{group}'.{did_you_mean(group, map(str, groups))}"
        )
    own = optional_block(data, "motion_nodes", where)
    return PolicySpec(
        source=where,
        joints=joints,
        actions=tuple(
            _action(entry, joints, f"{where}: actions[{i}]")
            for i, entry in enumerate(_entries(data.get("actions"), f"{where}: actions"))
        ),
        observations=tuple(
            _observation(entry, joints, f"{where}: observations.{group}[{i}]")
            for i, entry in enumerate(_entries(groups[group], f"{where}: observations.{group}"))
        ),
        physics_dt=finite_in(scene.get("physics_dt"), f"{where}: scene.physics_dt"),
        decimation=whole_in(
            scene.get("decimation"), f"{where}: scene.decimation", 1, MAX_DECIMATION
        ),
        observation_clip=_bound(own, "observation_clip", where),
        action_clip=_bound(own, "action_clip", where),
        gait_period=None
        if own.get("gait_period") is None
        else finite_in(own["gait_period"], f"{where}: motion_nodes.gait_period"),
        balances=_yes_or_no(own.get("balances", False), f"{where}: motion_nodes.balances"),
        max_command=_optional_array(own, "max_command", where),
        command_gain=_optional_array(own, "command_gain", where),
    )


def action_kind(path: Any, where: str) -> ActionKind:
    """Return the kind of an action term from the path of its class.

    Raises:
        InvalidDescription: an unsupported class.
    """
    name = str(path).replace(":", ".").rpartition(".")[2].removesuffix("Cfg")
    if name not in ACTION_CLASSES:
        raise InvalidDescription(
            f"{where}: unsupported action class '{name}'.{did_you_mean(name, ACTION_CLASSES)}"
        )
    return ACTION_CLASSES[name]


def _joints(articulations: Mapping[Any, Any], where: str) -> TrainedJoints:
    if len(articulations) != 1 and "robot" not in articulations:
        raise InvalidDescription(
            f"{where}: articulations must contain 'robot' or exactly one other, it contains "
            f"{', '.join(map(str, articulations)) or 'none'}."
        )
    key = "robot" if "robot" in articulations else next(iter(articulations))
    place = f"{where}: articulations.{key}"
    data = block_in(articulations, key, f"{where}: articulations")
    names = names_in(data.get("joint_names"), f"{place}.joint_names")

    def values(field: str, default: float) -> Array:
        return per_joint(data.get(f"default_joint_{field}"), names, default, f"{place}.{field}")

    return TrainedJoints(
        names=names,
        position=values("pos", 0.0),
        velocity=values("vel", 0.0),
        stiffness=values("stiffness", NAN),
        damping=values("damping", NAN),
        armature=values("armature", NAN),
        effort_limit=values("effort_limit", NAN),
        velocity_limit=values("velocity_limit", NAN),
    )


def _action(entry: Mapping[str, Any], joints: TrainedJoints, where: str) -> ActionTerm:
    kind = action_kind(entry.get("full_path"), f"{where}.full_path")
    names = names_in(entry.get("joint_names"), f"{where}.joint_names")
    joints.columns(names, where)
    if kind is ActionKind.BINARY:
        opened, closed = (
            per_joint(entry.get(f"{word}_command_expr"), names, NAN, f"{where}.{word}_command_expr")
            for word in ("open", "close")
        )
        if not (np.isfinite(opened) & np.isfinite(closed)).all():
            raise InvalidDescription(
                f"{where}: open_command_expr and close_command_expr must give a position of each "
                "joint."
            )
        return ActionTerm(kind, names, np.ones(len(names)), opened, closed, opened)
    lower, upper = clip_of(entry.get("clip"), names, f"{where}.clip")
    return ActionTerm(
        kind,
        names,
        scale=_flat(entry.get("scale"), names, 1.0, f"{where}.scale"),
        offset=_flat(entry.get("offset"), names, 0.0, f"{where}.offset"),
        lower=lower,
        upper=upper,
    )


def _observation(entry: Mapping[str, Any], joints: TrainedJoints, where: str) -> ObservationTerm:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidDescription(f"{where}.name: a name is needed.")
    shape = entry.get("shape")
    if isinstance(shape, list) and len(shape) == 1:
        shape = shape[0]
    width = whole_in(shape, f"{where}.shape", 1, 100_000)
    names: tuple[str, ...] = ()
    if entry.get("joint_names") is not None:
        names = names_in(entry["joint_names"], f"{where}.joint_names")
        joints.columns(names, where)
        if len(names) != width:
            raise InvalidDescription(f"{where}: has {len(names)} joints, but its shape is {width}.")
    if optional_block(entry, "extras", where).get("modifiers"):
        raise InvalidDescription(f"{where}: modifiers of observations are not supported.")
    overloads = optional_block(entry, "overloads", where)
    offset = entry.get("joint_pos_offsets", entry.get("joint_vel_offsets"))
    history = whole_in(
        overloads.get("history_length") or 0, f"{where}.overloads.history_length", 0, MAX_HISTORY
    )
    if history > 1 and overloads.get("flatten_history_dim") is False:
        raise InvalidDescription(f"{where}: a history that is not flattened is not supported.")
    return ObservationTerm(
        name,
        width,
        names,
        None if offset is None else array_in(offset, f"{where}.offsets", width),
        scale_of(overloads.get("scale"), width, f"{where}.overloads.scale"),
        bounds_of(overloads.get("clip"), f"{where}.overloads.clip"),
        history,
    )


def _flat(value: Any, names: tuple[str, ...], default: float, where: str) -> Array:
    """Return finite values of joints; Isaac Lab writes some lists with a leading dimension."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    values = per_joint(value, names, default, where)
    if not np.isfinite(values).all():
        raise InvalidDescription(f"{where}: has values that are not finite.")
    return values


def _yes_or_no(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidDescription(f"{where}: {value!r:.60} must be true or false.")
    return value


def _bound(own: Mapping[str, Any], field: str, where: str) -> float:
    value = own.get(field)
    if value is None:
        return INF
    bound = number_in(value, f"{where}: motion_nodes.{field}")
    if not bound > 0.0:
        raise InvalidDescription(f"{where}: motion_nodes.{field}: {bound:g} must be above zero.")
    return bound


def _optional_array(own: Mapping[str, Any], field: str, where: str) -> Array | None:
    value = own.get(field)
    return None if value is None else array_in(value, f"{where}: motion_nodes.{field}")


def _entries(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InvalidDescription(f"{where}: a list of terms is needed.")
    return value


def breadth_first_joints(tree: KinematicTree) -> tuple[str, ...]:
    """Return the movable joints level by level, siblings by name.

    It is the order in which PhysX numbers the joints of an articulation.
    """
    level, found = [tree.root], []
    children: dict[str, list[str]] = {}
    for joint in tree.joints.values():
        children.setdefault(joint.parent, []).append(joint.name)
    while level:
        joints = sorted(name for link in level for name in children.get(link, ()))
        found += [name for name in joints if name in tree.joint_names]
        level = [tree.joints[name].child for name in joints]
    return tuple(found)


def read_env(file: str | Path, joint_names: Sequence[str]) -> PolicySpec:
    """Read env.yaml.

    Args:
        file: the file.
        joint_names: joints of the articulation in the order of training.

    Returns:
        The description.

    Raises:
        InvalidDescription: names the file, the field and what is needed there.
    """
    path = Path(file)
    data = read_yaml(path, tagged=True)
    where, names = str(path), tuple(joint_names)
    robot = block_in(block_in(data, "scene", where), "robot", f"{where}: scene")
    joints = _env_joints(robot, names, f"{where}: scene.robot")
    sim = block_in(data, "sim", where)
    terms = block_in(block_in(data, "observations", where), GROUP, f"{where}: observations")
    known = {**_VECTORS, **dict.fromkeys(TERMS, 3)}
    actions = tuple(
        _env_action(entry, joints, f"{where}: actions.{key}")
        for key, entry in block_in(data, "actions", where).items()
        if isinstance(entry, dict)
    )
    sizes = {"command": TWIST_WIDTH, "action": sum(term.width for term in actions)}
    default_history = terms.get("history_length")
    return PolicySpec(
        source=where,
        joints=joints,
        actions=actions,
        observations=tuple(
            _env_observation(
                entry, joints, known, sizes, default_history,
                f"{where}: observations.{GROUP}.{key}",
            )
            for key, entry in terms.items()
            if key not in _GROUP_FIELDS and isinstance(entry, dict)
        ),
        physics_dt=finite_in(sim.get("dt"), f"{where}: sim.dt"),
        decimation=whole_in(data.get("decimation"), f"{where}: decimation", 1, MAX_DECIMATION),
        notes=(f"joints in the order {', '.join(names)}, which the file does not contain",),
    )  # fmt: skip


def _env_joints(robot: Mapping[str, Any], names: tuple[str, ...], where: str) -> TrainedJoints:
    state = block_in(robot, "init_state", where)
    values = {
        word: np.full(len(names), NAN)
        for word in ("stiffness", "damping", "armature", "effort_limit", "velocity_limit")
    }
    actuators = block_in(robot, "actuators", where)
    for key in actuators:
        place = f"{where}.actuators.{key}"
        actuator = block_in(actuators, key, f"{where}.actuators")
        patterns = actuator.get("joint_names_expr")
        listed = patterns if isinstance(patterns, list) else [patterns]
        found = sorted({i for p in listed for i in matching(p, names, place)})
        if not found:
            raise InvalidDescription(
                f"{place}.joint_names_expr: matches none of the joints {', '.join(names)}."
            )
        own = tuple(names[i] for i in found)
        for word, column in values.items():
            # Missing limits are infinite.
            default = INF if word.endswith("limit") else NAN
            column[found] = per_joint(actuator.get(word), own, default, f"{place}.{word}")
    return TrainedJoints(
        names,
        per_joint(state.get("joint_pos"), names, 0.0, f"{where}.init_state.joint_pos"),
        per_joint(state.get("joint_vel"), names, 0.0, f"{where}.init_state.joint_vel"),
        **values,
    )


def _env_action(entry: Mapping[str, Any], joints: TrainedJoints, where: str) -> ActionTerm:
    kind = action_kind(entry.get("class_type"), f"{where}.class_type")
    patterns = entry.get("joint_names")
    listed = patterns if isinstance(patterns, list) else [patterns]
    found = [i for pattern in listed for i in matching(pattern, joints.names, where)]
    if not entry.get("preserve_order"):
        found = sorted(set(found))
    own = tuple(joints.names[i] for i in dict.fromkeys(found))
    if not own:
        raise InvalidDescription(
            f"{where}.joint_names: matches none of the joints {', '.join(joints.names)}."
        )
    if kind is ActionKind.BINARY:
        opened, closed = (
            per_joint(entry.get(f"{word}_command_expr"), own, 0.0, f"{where}.{word}_command_expr")
            for word in ("open", "close")
        )
        return ActionTerm(kind, own, np.ones(len(own)), opened, closed, opened)
    offset = per_joint(entry.get("offset"), own, 0.0, f"{where}.offset")
    if entry.get("use_default_offset", kind is not ActionKind.EFFORT):
        columns = joints.columns(own, where)
        defaults = {ActionKind.POSITION: joints.position, ActionKind.VELOCITY: joints.velocity}
        offset = defaults[kind][columns] if kind in defaults else offset
    lower, upper = clip_of(entry.get("clip"), own, f"{where}.clip")
    return ActionTerm(
        kind, own, per_joint(entry.get("scale"), own, 1.0, f"{where}.scale"), offset, lower, upper
    )


def _env_observation(
    entry: Mapping[str, Any],
    joints: TrainedJoints,
    known: Mapping[str, int],
    sizes: Mapping[str, int],
    default_history: Any,
    where: str,
) -> ObservationTerm:
    name = str(entry.get("func")).replace(":", ".").rpartition(".")[2]
    source = source_of(name)
    own: tuple[str, ...] = ()
    if source == "joints":
        params = optional_block(entry, "params", where)
        asset = optional_block(params, "asset_cfg", f"{where}.params")
        patterns = asset.get("joint_names") or ".*"
        listed = patterns if isinstance(patterns, list) else [patterns]
        found = sorted({i for p in listed for i in matching(p, joints.names, where)})
        own = tuple(joints.names[i] for i in found)
    width = {**sizes, "joints": len(own)}.get(source, known.get(name, 0))
    if width < 1:
        raise InvalidDescription(
            f"{where}: the width of '{name}' is not known here; use IO_descriptors.yaml."
        )
    history = entry.get("history_length") if default_history is None else default_history
    return ObservationTerm(
        name,
        width,
        own,
        scale=scale_of(entry.get("scale"), width, f"{where}.scale"),
        clip=bounds_of(entry.get("clip"), f"{where}.clip"),
        history=whole_in(history or 0, f"{where}.history_length", 0, MAX_HISTORY),
    )

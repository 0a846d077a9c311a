# SPDX-License-Identifier: Apache-2.0
"""Reads Isaac Lab's IO_descriptors.yaml (``export_io_descriptors=true``) into a PolicySpec.

The schema is described in docs/policies.md. Other fields are ignored; the field ``motion_nodes``
contains additional information that Isaac Lab does not export.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.model.files.yaml_file import read_yaml
from motion_nodes.policies.policy_spec import (
    MAX_DECIMATION,
    MAX_HISTORY,
    ActionKind,
    ActionTerm,
    ObservationTerm,
    PolicySpec,
    TrainedJoints,
)
from motion_nodes.policies.spec_values import (
    INF,
    NAN,
    array_in,
    block_in,
    bounds_of,
    clip_of,
    finite_in,
    names_in,
    number_in,
    optional_block,
    per_joint,
    scale_of,
    whole_in,
)
from motion_nodes.typing import Array

ACTION_CLASSES = {
    "JointPositionAction": ActionKind.POSITION,
    "RelativeJointPositionAction": ActionKind.RELATIVE_POSITION,
    "JointVelocityAction": ActionKind.VELOCITY,
    "JointEffortAction": ActionKind.EFFORT,
    "BinaryJointPositionAction": ActionKind.BINARY,
}
"""Supported action terms of Isaac Lab."""


def read_descriptor(file: str | Path, group: str = "policy") -> PolicySpec:
    """Read the description of a policy from IO_descriptors.yaml.

    Args:
        file: the file.
        group: observation group of the policy's input; ignored if the file has only one.

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
    if len(groups) == 1:
        group = next(iter(groups))
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

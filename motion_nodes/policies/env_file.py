# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration of a training environment (Isaac Lab's env.yaml) into a PolicySpec.

The file contains no order of joints: it is that of the articulation in training, which the user
gives, or the breadth-first order of the robot's tree. Source of the fields: behaviour of Isaac
Lab's ManagerBasedRLEnvCfg and of Isaac Sim's PolicyController.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.files.yaml_file import read_yaml
from motion_nodes.model.tree import KinematicTree
from motion_nodes.policies.descriptor_file import action_kind
from motion_nodes.policies.observations import TERMS, source_of
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
    block_in,
    bounds_of,
    clip_of,
    finite_in,
    matching,
    optional_block,
    per_joint,
    scale_of,
    whole_in,
)

_GROUP_FIELDS = (
    "concatenate_terms", "concatenate_dim", "enable_corruption", "history_length",
    "flatten_history_dim",
)  # fmt: skip
_VECTORS = {"base_pos_z": 1}
"""Widths of registered terms without joints; the others have three values."""


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


def read_env(
    file: str | Path,
    joint_names: Sequence[str],
    *,
    group: str = "policy",
    command_width: int = 3,
    widths: Mapping[str, int] | None = None,
) -> PolicySpec:
    """Read env.yaml.

    Args:
        file: the file.
        joint_names: joints of the articulation in the order of training.
        group: observation group of the policy's input.
        command_width: number of values of the command.
        widths: widths of terms that are not registered, by name.

    Returns:
        The description.

    Raises:
        InvalidDescription: names the file, the field and what is needed there.
    """
    path = Path(file)
    data = read_yaml(path, tagged=True)
    where, names = str(path), tuple(joint_names)
    robot = block_in(block_in(data, "scene", where), "robot", f"{where}: scene")
    joints = _joints(robot, names, f"{where}: scene.robot")
    sim = block_in(data, "sim", where)
    terms = block_in(block_in(data, "observations", where), group, f"{where}: observations")
    known = {**_VECTORS, **dict.fromkeys(TERMS, 3), **(widths or {})}
    actions = tuple(
        _action(entry, joints, f"{where}: actions.{key}")
        for key, entry in block_in(data, "actions", where).items()
        if isinstance(entry, dict)
    )
    n_actions = sum(term.width for term in actions)
    default_history = terms.get("history_length")
    return PolicySpec(
        source=where,
        joints=joints,
        actions=actions,
        observations=tuple(
            _observation(
                entry, joints, known, command_width, n_actions, default_history,
                f"{where}: observations.{group}.{key}",
            )
            for key, entry in terms.items()
            if key not in _GROUP_FIELDS and isinstance(entry, dict)
        ),
        physics_dt=finite_in(sim.get("dt"), f"{where}: sim.dt"),
        decimation=whole_in(data.get("decimation"), f"{where}: decimation", 1, MAX_DECIMATION),
        notes=(f"joints in the order {', '.join(names)}, which the file does not contain",),
    )  # fmt: skip


def _joints(robot: Mapping[str, Any], names: tuple[str, ...], where: str) -> TrainedJoints:
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


def _action(entry: Mapping[str, Any], joints: TrainedJoints, where: str) -> ActionTerm:
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


def _observation(
    entry: Mapping[str, Any],
    joints: TrainedJoints,
    known: Mapping[str, int],
    command_width: int,
    n_actions: int,
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
    widths = {"joints": len(own), "command": command_width, "action": n_actions}
    width = widths.get(source, known.get(name, 0))
    if width < 1:
        raise InvalidDescription(
            f"{where}: the width of '{name}' is not known; give it in widths, or use "
            "IO_descriptors.yaml."
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

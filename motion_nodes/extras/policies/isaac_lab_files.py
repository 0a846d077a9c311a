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
from dataclasses import dataclass, replace
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
_DRIVE_FIELDS = ("stiffness", "damping", "armature", "effort_limit", "velocity_limit")
_VECTORS = {"base_pos_z": 1}
"""Widths of registered terms without joints; the others have three values."""


@dataclass(frozen=True)
class _Place:
    """A value in a file, with its path, which errors name (:class:`InvalidDescription`)."""

    file: str
    value: Any
    path: str = ""

    def fault(self, text: str) -> InvalidDescription:
        return InvalidDescription(": ".join(filter(None, (self.file, self.path, text))))

    def __getitem__(self, key: Any) -> _Place:
        """Return a field of a block, None if it is missing, or an entry of a list."""
        if isinstance(self.value, list):
            return _Place(self.file, self.value[key], f"{self.path}[{key}]")
        path = f"{self.path}.{key}" if self.path else str(key)
        return _Place(self.file, self.value.get(key), path)

    def block(self, *, required: bool = True) -> _Place:
        """Return the place of a block of fields; empty if it is missing."""
        value = self.value or {}
        if not isinstance(value, dict) or (required and not value):
            raise self.fault("a block of fields is needed.")
        return replace(self, value=value)

    def entries(self) -> list[_Place]:
        """Return the places of the entries of a list, each a block of fields."""
        value = self.value
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.fault("a list of terms is needed.")
        return [self[i] for i in range(len(value))]

    def number(self) -> float:
        """Return a number, which may be infinite."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise self.fault(f"{value!r:.60} is not a number.")
        return float(value)

    def finite(self) -> float:
        """Return a finite number."""
        number = self.number()
        if math.isinf(number):
            raise self.fault(f"{self.value} is not finite.")
        return number

    def whole(self, low: int, high: int) -> int:
        """Return a whole number of a range."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fault(f"{value!r:.60} must be a whole number from {low} to {high}.")
        return value

    def flag(self) -> bool:
        """Return a truth value; False if it is missing."""
        if not isinstance(self.value, bool | None):
            raise self.fault(f"{self.value!r:.60} must be true or false.")
        return bool(self.value)

    def bound(self) -> float:
        """Return the bound of a magnitude, above zero; infinite if it is missing."""
        bound = INF if self.value is None else self.number()
        if not bound > 0.0:
            raise self.fault(f"{bound:g} must be above zero.")
        return bound

    def flat(self) -> _Place:
        """Return the place of a row in place of a list of a single row."""
        value = self.value
        single = isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)
        return replace(self, value=value[0]) if single else self

    def array(self, length: int | None = None) -> Array:
        """Return a list of finite numbers, or a list with such a list as its only row."""
        flat = self.flat()
        if not isinstance(flat.value, list):
            raise self.fault(f"a list of numbers is needed, not {flat.value!r:.60}.")
        if length is not None and len(flat.value) != length:
            raise self.fault(f"has {len(flat.value)} values, {length} are needed.")
        return np.array([flat[i].finite() for i in range(len(flat.value))])

    def optional_array(self) -> Array | None:
        return None if self.value is None else self.array()

    def names(self) -> tuple[str, ...]:
        """Return a list of different names, at least one."""
        value = self.value
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise self.fault(f"a list of names is needed, not {value!r:.60}.")
        twice = [name for name in value if value.count(name) > 1]
        if twice:
            raise self.fault(f"'{twice[0]}' is listed twice.")
        return tuple(value)

    def matching(self, joints: Sequence[str]) -> list[int]:
        """Return the indices of the joints that match a pattern, or each pattern of a list."""
        patterns, found = self.value if isinstance(self.value, list) else [self.value], []
        for pattern in patterns:
            if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
                raise self.fault(f"{pattern!r:.60} is not a pattern of joint names.")
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                raise self.fault(f"pattern '{pattern}' is wrong: {error}.") from None
            found += [i for i, name in enumerate(joints) if compiled.fullmatch(name)]
        return found

    def per_joint(self, joints: Sequence[str], default: float = NAN) -> Array:
        """Return values of joints, shape (n,), as in Isaac Lab: one, a list, or by pattern.

        The first matching pattern counts; ``default`` is that of joints without one.
        """
        value, out = self.value, np.full(len(joints), default)
        if value is None:
            return out
        if isinstance(value, list):
            if len(value) != len(joints):
                raise self.fault(
                    f"has {len(value)} values for {len(joints)} joints: {', '.join(joints)}."
                )
            return np.array([self[i].number() for i in range(len(value))])
        if not isinstance(value, dict):
            return np.full(len(joints), self.number())
        given = np.zeros(len(joints), dtype=bool)
        for pattern in value:
            found = replace(self, value=pattern).matching(joints)
            if not found:
                raise self.fault(
                    f"pattern '{pattern}' matches none of the joints {', '.join(joints)}."
                )
            for i in found:
                if not given[i]:
                    out[i], given[i] = self[pattern].number(), True
        return out

    def finite_per_joint(self, joints: Sequence[str], default: float) -> Array:
        values = self.flat().per_joint(joints, default)
        if not np.isfinite(values).all():
            raise self.fault("has values that are not finite.")
        return values

    def scale(self, width: int) -> Array | None:
        """Return the scale of an observation, shape () or (width,); None: 1."""
        if self.value is None:
            return None
        return self.array(width) if isinstance(self.value, list) else np.array(self.finite())

    def bounds(self) -> tuple[float, float] | None:
        """Return lower and upper bound; None: none."""
        if self.value is None:
            return None
        if not isinstance(self.value, list) or len(self.value) != 2:
            raise self.fault(f"two numbers are needed, not {self.value!r:.60}.")
        low, high = (self[i].number() for i in range(2))
        if low > high:
            raise self.fault(f"{low:g} is above {high:g}.")
        return low, high

    def clip(self, joints: tuple[str, ...]) -> tuple[Array, Array]:
        """Return lower and upper bounds of processed actions, shape (n,) each.

        Nothing or two numbers are for all joints; else a list of pairs, or a mapping of pairs by
        pattern.
        """
        value = self.value
        if isinstance(value, dict):
            pairs = {key: self[key].bounds() for key in value}
            low, high = (
                replace(self, value={key: pair[side] for key, pair in pairs.items() if pair})
                for side in range(2)
            )
            return low.per_joint(joints, -INF), high.per_joint(joints, INF)
        if isinstance(value, list) and value and isinstance(value[0], list):
            place = self.flat() if len(joints) > 1 else self
            if len(place.value) != len(joints):
                raise self.fault(f"has {len(place.value)} pairs for {len(joints)} joints.")
            rows = [place[i].bounds() or (-INF, INF) for i in range(len(joints))]
            return np.array(rows)[:, 0], np.array(rows)[:, 1]
        bounds = self.bounds() or (-INF, INF)
        return np.full(len(joints), bounds[0]), np.full(len(joints), bounds[1])

    def function(self) -> str:
        """Return the name at the end of the path of a function or class."""
        return str(self.value).replace(":", ".").rpartition(".")[2]

    def action_kind(self) -> ActionKind:
        """Return the kind of an action term from the path of its class."""
        name = self.function().removesuffix("Cfg")
        if name not in ACTION_CLASSES:
            hint = did_you_mean(name, ACTION_CLASSES)
            raise self.fault(f"unsupported action class '{name}'.{hint}")
        return ACTION_CLASSES[name]


def _binary_action(entry: _Place, names: tuple[str, ...], default: float) -> ActionTerm:
    opened, closed = (
        entry[f"{word}_command_expr"].per_joint(names, default) for word in ("open", "close")
    )
    if not (np.isfinite(opened) & np.isfinite(closed)).all():
        raise entry.fault(
            "open_command_expr and close_command_expr must give a position of each joint."
        )
    return ActionTerm(ActionKind.BINARY, names, np.ones(len(names)), opened, closed, opened)


def read_descriptor(file: str | Path) -> PolicySpec:
    """Read the description of a policy from IO_descriptors.yaml.

    Args:
        file: the file, with one group of observations, or one that is named ``policy``.

    Returns:
        The description; joints in the order of the articulation.

    Raises:
        InvalidDescription: names the file, the field and what is needed there.
    """
    data = _Place(str(file), read_yaml(Path(file), tagged=True))
    joints = _joints(data["articulations"].block())
    scene, groups = data["scene"].block(), data["observations"].block()
    group = next(iter(groups.value)) if len(groups.value) == 1 else GROUP
    if group not in groups.value:
        hint = did_you_mean(group, map(str, groups.value))
        raise groups.fault(f"there is no group '{group}'.{hint}")
    own = data["motion_nodes"].block(required=False)
    gait = own["gait_period"]
    return PolicySpec(
        source=data.file,
        joints=joints,
        actions=tuple(_action(entry, joints) for entry in data["actions"].entries()),
        observations=tuple(_observation(entry, joints) for entry in groups[group].entries()),
        physics_dt=scene["physics_dt"].finite(),
        decimation=scene["decimation"].whole(1, MAX_DECIMATION),
        observation_clip=own["observation_clip"].bound(),
        action_clip=own["action_clip"].bound(),
        gait_period=None if gait.value is None else gait.finite(),
        balances=own["balances"].flag(),
        max_command=own["max_command"].optional_array(),
        command_gain=own["command_gain"].optional_array(),
    )


def _joints(articulations: _Place) -> TrainedJoints:
    known = articulations.value
    if len(known) != 1 and "robot" not in known:
        raise articulations.fault(
            f"must contain 'robot' or exactly one other, it contains {', '.join(map(str, known))}."
        )
    data = articulations["robot" if "robot" in known else next(iter(known))].block()
    names = data["joint_names"].names()
    return TrainedJoints(
        names,
        data["default_joint_pos"].per_joint(names, 0.0),
        data["default_joint_vel"].per_joint(names, 0.0),
        *(data[f"default_joint_{field}"].per_joint(names) for field in _DRIVE_FIELDS),
    )


def _action(entry: _Place, joints: TrainedJoints) -> ActionTerm:
    kind, names = entry["full_path"].action_kind(), entry["joint_names"].names()
    joints.columns(names, f"{entry.file}: {entry.path}")
    if kind is ActionKind.BINARY:
        return _binary_action(entry, names, NAN)
    scale = entry["scale"].finite_per_joint(names, 1.0)
    offset = entry["offset"].finite_per_joint(names, 0.0)
    return ActionTerm(kind, names, scale, offset, *entry["clip"].clip(names))


def _observation(entry: _Place, joints: TrainedJoints) -> ObservationTerm:
    name, shape = entry["name"], entry["shape"]
    if not isinstance(name.value, str) or not name.value:
        raise name.fault("a name is needed.")
    if isinstance(shape.value, list) and len(shape.value) == 1:
        shape = shape[0]
    width = shape.whole(1, 100_000)
    names: tuple[str, ...] = ()
    if entry["joint_names"].value is not None:
        names = entry["joint_names"].names()
        joints.columns(names, f"{entry.file}: {entry.path}")
        if len(names) != width:
            raise entry.fault(f"has {len(names)} joints, but its shape is {width}.")
    if entry["extras"].block(required=False)["modifiers"].value:
        raise entry.fault("modifiers of observations are not supported.")
    overloads = entry["overloads"].block(required=False)
    offset = entry[
        "joint_pos_offsets" if "joint_pos_offsets" in entry.value else "joint_vel_offsets"
    ]
    history = _history(overloads["history_length"])
    if history > 1 and overloads["flatten_history_dim"].value is False:
        raise entry.fault("a history that is not flattened is not supported.")
    return ObservationTerm(
        name.value,
        width,
        names,
        None if offset.value is None else offset.array(width),
        overloads["scale"].scale(width),
        overloads["clip"].bounds(),
        history,
    )


def _history(place: _Place) -> int:
    return replace(place, value=place.value or 0).whole(0, MAX_HISTORY)


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
    names = tuple(joint_names)
    data = _Place(str(file), read_yaml(Path(file), tagged=True))
    joints = _env_joints(data["scene"].block()["robot"].block(), names)
    terms = data["observations"].block()[GROUP].block()
    blocks = data["actions"].block()
    actions = tuple(
        _env_action(blocks[key], joints)
        for key, entry in blocks.value.items()
        if isinstance(entry, dict)
    )
    widths = {**dict.fromkeys(TERMS, 3), **_VECTORS}
    sizes = {"command": TWIST_WIDTH, "action": sum(term.width for term in actions)}
    return PolicySpec(
        source=data.file,
        joints=joints,
        actions=actions,
        observations=tuple(
            _env_observation(terms[key], joints, widths, sizes, terms["history_length"])
            for key, entry in terms.value.items()
            if key not in _GROUP_FIELDS and isinstance(entry, dict)
        ),
        physics_dt=data["sim"].block()["dt"].finite(),
        decimation=data["decimation"].whole(1, MAX_DECIMATION),
        notes=(f"joints in the order {', '.join(names)}, which the file does not contain",),
    )


def _env_joints(robot: _Place, names: tuple[str, ...]) -> TrainedJoints:
    state, actuators = robot["init_state"].block(), robot["actuators"].block()
    values = {field: np.full(len(names), NAN) for field in _DRIVE_FIELDS}
    for key in actuators.value:
        actuator = actuators[key].block()
        patterns = actuator["joint_names_expr"]
        found = sorted(set(patterns.matching(names)))
        if not found:
            raise patterns.fault(f"matches none of the joints {', '.join(names)}.")
        own = tuple(names[i] for i in found)
        for field, column in values.items():
            # Missing limits are infinite.
            default = INF if field.endswith("limit") else NAN
            column[found] = actuator[field].per_joint(own, default)
    position, velocity = (state[f"joint_{word}"].per_joint(names, 0.0) for word in ("pos", "vel"))
    return TrainedJoints(names, position, velocity, **values)


def _env_action(entry: _Place, joints: TrainedJoints) -> ActionTerm:
    kind, patterns = entry["class_type"].action_kind(), entry["joint_names"]
    found = patterns.matching(joints.names)
    if not entry["preserve_order"].value:
        found = sorted(found)
    own = tuple(joints.names[i] for i in dict.fromkeys(found))
    if not own:
        raise patterns.fault(f"matches none of the joints {', '.join(joints.names)}.")
    if kind is ActionKind.BINARY:
        return _binary_action(entry, own, 0.0)
    offset = entry["offset"].per_joint(own, 0.0)
    if entry.value.get("use_default_offset", kind is not ActionKind.EFFORT):
        columns = joints.columns(own, f"{entry.file}: {entry.path}")
        defaults = {ActionKind.POSITION: joints.position, ActionKind.VELOCITY: joints.velocity}
        offset = defaults[kind][columns] if kind in defaults else offset
    scale = entry["scale"].per_joint(own, 1.0)
    return ActionTerm(kind, own, scale, offset, *entry["clip"].clip(own))


def _env_observation(
    entry: _Place,
    joints: TrainedJoints,
    widths: Mapping[str, int],
    sizes: Mapping[str, int],
    default_history: _Place,
) -> ObservationTerm:
    name = entry["func"].function()
    source = source_of(name)
    own: tuple[str, ...] = ()
    if source == "joints":
        params = entry["params"].block(required=False)
        patterns = params["asset_cfg"].block(required=False)["joint_names"]
        found = replace(patterns, value=patterns.value or ".*").matching(joints.names)
        own = tuple(joints.names[i] for i in sorted(set(found)))
    width = {**sizes, "joints": len(own)}.get(source, widths.get(name, 0))
    if width < 1:
        raise entry.fault(f"the width of '{name}' is not known here; use IO_descriptors.yaml.")
    history = entry["history_length"] if default_history.value is None else default_history
    return ObservationTerm(
        name,
        width,
        own,
        scale=entry["scale"].scale(width),
        clip=entry["clip"].bounds(),
        history=_history(history),
    )

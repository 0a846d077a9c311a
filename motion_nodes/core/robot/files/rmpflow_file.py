# SPDX-License-Identifier: Apache-2.0
"""Reader and writer of RMPflow configuration files of Isaac Sim."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

from motion_nodes.core.robot.rmpflow_settings import (
    GROUPS,
    BodyCapsule,
    BodyController,
    RmpflowSettings,
    check_number,
)
from motion_nodes.core.robot.yaml_schema import read_yaml, yaml_text
from motion_nodes.errors import InvalidConfig, InvalidDescription, did_you_mean

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

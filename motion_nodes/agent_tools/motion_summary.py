# SPDX-License-Identifier: Apache-2.0
"""Plans, poses and scenes as plain data for language models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motion_nodes.agent_tools.robot_link import PlannedJointMotion, SceneItem
from motion_nodes.api.joint_group import JointGroup
from motion_nodes.model.poses import to_rpy
from motion_nodes.scene.shapes import Solid
from motion_nodes.typing import Array

MAX_ITEMS = 200
"""Max number of listed objects."""
MAX_PARTS = 10
"""Max number of listed shapes of an object."""
DIGITS = 4
"""Decimal places of numbers."""


def rounded(values: Any) -> list[float]:
    """Return numbers [SI] as a list, rounded to :data:`DIGITS`."""
    return [round(float(value), DIGITS) for value in np.asarray(values).ravel()]


def pose_data(X: Array) -> dict[str, list[float]]:
    """Return a pose, shape (4, 4), as position [m] and roll, pitch, yaw [rad]."""
    return {"position": rounded(X[:3, 3]), "rpy": rounded(to_rpy(X))}


def group_data(group: JointGroup, positions: Mapping[str, float]) -> dict[str, Any]:
    """Return the state of a group.

    Args:
        group: planning group.
        positions: measured positions by joint [rad or m].
    """
    joints = {name: round(positions[name], DIGITS) for name in group.joint_names
              if name in positions}  # fmt: skip
    data: dict[str, Any] = {"joints": joints}
    if group.tip is not None and len(joints) == len(group.joint_names):
        X_BT = group.fk([positions[name] for name in group.joint_names])
        data["tip"] = {"link": group.tip, "frame": group.base, **pose_data(X_BT)}
    return data


def shape_data(solid: Solid) -> dict[str, Any]:
    """Return type and dimensions of a shape [m]."""
    kind: dict[str, Any] = {"shape": type(solid).__name__}
    for name in ("size", "radius", "length", "height"):
        if hasattr(solid, name):
            kind[name] = rounded(getattr(solid, name)) if name == "size" else round(
                float(getattr(solid, name)), DIGITS)  # fmt: skip
    return kind


def scene_data(items: Sequence[SceneItem]) -> dict[str, Any]:
    """Return the objects of a scene, at most :data:`MAX_ITEMS`."""
    objects = []
    for item in items[:MAX_ITEMS]:
        entry: dict[str, Any] = {"name": item.name}
        if len(item.parts) == 1:
            entry |= shape_data(item.parts[0].solid) | pose_data(item.X_BO @ item.parts[0].X_OS)
        else:
            shapes = [shape_data(part.solid) | pose_data(part.X_OS)
                      for part in item.parts[:MAX_PARTS]]  # fmt: skip
            entry |= pose_data(item.X_BO) | {"parts": shapes, "part_count": len(item.parts)}
        if item.link:
            entry["attached_to"] = item.link
        objects.append(entry)
    data: dict[str, Any] = {"objects": objects}
    if len(items) > MAX_ITEMS:
        data["not_listed"] = len(items) - MAX_ITEMS
    return data


def plan_data(group: JointGroup, path: PlannedJointMotion) -> dict[str, Any]:
    """Return a summary of a planned motion: duration, distances, final state.

    Args:
        group: planning group.
        path: planned motion.
    """
    span = np.abs(np.diff(path.positions, axis=0)).sum(axis=0)
    farthest = int(np.argmax(span)) if span.size else 0
    data: dict[str, Any] = {
        "duration": round(float(path.times[-1]), 2) if len(path.times) else 0.0,
        "largest_joint_travel": {path.joint_names[farthest]: round(float(span[farthest]), DIGITS)},
        "final_joints": dict(zip(path.joint_names, rounded(path.positions[-1]), strict=True)),
    }
    if group.tip is not None and set(path.joint_names) == set(group.joint_names):
        columns = [path.joint_names.index(name) for name in group.joint_names]
        tips = group.fk_batch(path.positions[:, columns])
        steps = np.linalg.norm(np.diff(tips[:, :3, 3], axis=0), axis=1)
        data["tip_travel"] = round(float(steps.sum()), 3)
        data["lowest_tip_height"] = round(float(tips[:, 2, 3].min()), 3)
        data["final_tip"] = pose_data(tips[-1])
    if path.note:
        data["note"] = path.note
    return data

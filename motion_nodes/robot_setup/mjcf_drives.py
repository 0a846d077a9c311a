# SPDX-License-Identifier: Apache-2.0
"""Drives of joints from an MJCF's actuators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

_TRANSMISSION = mujoco.mjtTrn


@dataclass(frozen=True)
class MjcfDrive:
    """A joint's actuator; control law as in robot.yaml."""

    stiffness: float
    """Position gain [N m/rad or N/m]; 0 for velocity and effort actuators."""
    damping: float
    """Velocity gain [N m s/rad or N s/m]."""
    armature: float
    """Reflected inertia [kg m^2 or kg]."""
    max_effort: float | None
    """Effort limit [N m or N]; None: unlimited."""


def joint_drives(model: mujoco.MjModel, names: Sequence[str]) -> dict[str, MjcfDrive]:
    """Return the drives of the joints that an actuator moves, directly or through a tendon.

    Args:
        model: the model.
        names: names of its joints.
    """
    found: dict[str, MjcfDrive] = {}
    for a in range(model.nu):
        gear = float(model.actuator_gear[a, 0])
        for joint, ratio in _joints_of(model, a):
            if names[joint] not in found:
                found[names[joint]] = _drive(model, a, joint, gear * ratio)
    return found


def _joints_of(model: mujoco.MjModel, actuator: int) -> list[tuple[int, float]]:
    """Return joints and their ratios to the actuator's length."""
    target = int(model.actuator_trnid[actuator, 0])
    kind = model.actuator_trntype[actuator]
    # MuJoCo's enumerations compare equal to integers only as the left operand.
    if kind == _TRANSMISSION.mjTRN_JOINT or kind == _TRANSMISSION.mjTRN_JOINTINPARENT:
        return [(target, 1.0)]
    if kind != _TRANSMISSION.mjTRN_TENDON:
        return []
    first, count = int(model.tendon_adr[target]), int(model.tendon_num[target])
    wraps = range(first, first + count)
    return [
        (int(model.wrap_objid[w]), float(model.wrap_prm[w]))
        for w in wraps
        if model.wrap_type[w] == mujoco.mjtWrap.mjWRAP_JOINT
    ]


def _drive(model: mujoco.MjModel, actuator: int, joint: int, ratio: float) -> MjcfDrive:
    gain, bias = model.actuator_gainprm[actuator], model.actuator_biasprm[actuator]
    affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    stiffness = -float(bias[1]) * ratio**2 if affine else 0.0
    damping = -float(bias[2]) * ratio**2 if affine else 0.0
    limits = []
    if model.actuator_forcelimited[actuator]:
        limits.append(np.abs(model.actuator_forcerange[actuator]).max() * abs(ratio))
    elif not affine and model.actuator_ctrllimited[actuator]:
        most = np.abs(model.actuator_ctrlrange[actuator]).max()
        limits.append(abs(float(gain[0]) * ratio) * most)
    if model.jnt_actfrclimited[joint]:
        limits.append(np.abs(model.jnt_actfrcrange[joint]).max())
    dof = int(model.jnt_dofadr[joint])
    return MjcfDrive(
        max(stiffness, 0.0),
        max(damping, 0.0),
        float(model.dof_armature[dof]),
        float(min(limits)) if limits and min(limits) > 0.0 else None,
    )

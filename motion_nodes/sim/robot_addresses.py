# SPDX-License-Identifier: Apache-2.0
"""Indices of a robot's elements in the arrays of a compiled MuJoCo model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.mimic_joints import follower_names
from motion_nodes.sim.mjcf import is_floating
from motion_nodes.sim.placement import RobotPlacement, root_to_base
from motion_nodes.typing import Array


class RobotAddresses(NamedTuple):
    """Indices of a robot's elements in MuJoCo's arrays."""

    q: slice | NDArray[np.int64]
    """Joint positions in ``qpos``, shape (n,)."""
    v: slice | NDArray[np.int64]
    """Joint velocities in ``qvel``, shape (n,)."""
    actuator: slice | NDArray[np.int64]
    """Actuators, shape (n,)."""
    follower_q: NDArray[np.int64]
    """Positions of mimic joints in ``qpos``, in the order of :func:`.follower_names`."""
    follower_v: NDArray[np.int64]
    """Their velocities in ``qvel``."""
    X_WR: Array
    """Placement of the root link in the world, shape (4, 4)."""
    X_RB: Array
    """Base frame in the root link, shape (4, 4)."""
    floating_q: int | None
    """First of the seven coordinates of a floating base in ``qpos``; None: fixed base."""
    floating_v: int | None
    """First of the six velocities of a floating base in ``qvel``; None: fixed base."""


def _run(indices: Sequence[int]) -> slice | NDArray[np.int64]:
    """Return indices, as a slice if they are consecutive, which is several times faster."""
    array = np.array(indices, dtype=np.int64)
    if len(array) and (np.diff(array) == 1).all():
        return slice(int(array[0]), int(array[-1]) + 1)
    return array


def addresses_of(model: mujoco.MjModel, placement: RobotPlacement) -> RobotAddresses:
    """Return the indices of a robot in the compiled model."""
    prefix, robot = placement.name, placement.robot
    joints = [model.joint(f"{prefix}/{name}") for name in robot.joint_names]
    followers = [model.joint(f"{prefix}/{name}") for name in follower_names(robot.tree)]
    floating = model.joint(f"{prefix}/floating") if is_floating(robot) else None
    return RobotAddresses(
        q=_run([joint.qposadr[0] for joint in joints]),
        v=_run([joint.dofadr[0] for joint in joints]),
        actuator=_run([model.actuator(f"{prefix}/{name}").id for name in robot.joint_names]),
        follower_q=np.array([joint.qposadr[0] for joint in followers], np.int64),
        follower_v=np.array([joint.dofadr[0] for joint in followers], np.int64),
        X_WR=placement.X_WR,
        X_RB=root_to_base(robot),
        floating_q=int(floating.qposadr[0]) if floating is not None else None,
        floating_v=int(floating.dofadr[0]) if floating is not None else None,
    )

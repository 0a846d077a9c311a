# SPDX-License-Identifier: Apache-2.0
"""Active commands of an arbiter, and the order of the commands that own its joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.path_brake import PathBrake
from motion_nodes.control.trajectory_follower import TrajectoryFollower
from motion_nodes.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.typing import Array, Mask


class TrajectoryProgress(NamedTuple):
    """Snapshot of a trajectory's progress; replaced as a whole, so any thread may read it."""

    time: float
    """Time within the trajectory [s]."""
    desired: TrajectorySample
    """Current reference."""
    position: Array
    """Measured positions at that time [rad or m]."""
    velocity: Array
    """Measured velocities at that time [rad/s or m/s]."""
    elapsed: float = 0.0
    """Time since its start [s], without speed scaling."""


@dataclass(eq=False)
class TrajectoryRun:
    """An active trajectory."""

    label: str
    """Name of its sender, for messages to other clients."""
    follower: TrajectoryFollower
    joints: NDArray[np.intp]
    """Indices of its joints in the controller."""
    sample: TrajectorySample | None = None
    """Current reference, None before the start."""
    progress: TrajectoryProgress | None = None
    """Progress at the last step, None before the start."""


@dataclass(frozen=True, eq=False)
class Stop:
    """Joints that stop along the path of a trajectory."""

    brake: PathBrake
    joints: NDArray[np.intp]
    """Indices of the joints in the controller."""


@dataclass(eq=False)
class Claim:
    """Joints that are commanded and monitored without a trajectory."""

    label: str
    joints: NDArray[np.intp]
    lost: str = ""
    """The preempting command, as text; empty while the joints are held."""


class JointOwners:
    """Ownership of n joints: each belongs to the newest command that contains it."""

    def __init__(self, n: int) -> None:
        """Create the ownership, without owners."""
        self._count = 0
        """Number of commands; the count of a command is its position in their order."""
        self._orders: NDArray[np.int64] = np.zeros(n, np.int64)
        self._labels = [""] * n

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of each joint's owner; empty without one."""
        return tuple(self._labels)

    def next_order(self) -> int:
        """Return the order of a new command."""
        self._count += 1
        return self._count

    def newer_than(self, order: int) -> Mask:
        """Return the joints whose owner is newer than a command, shape (n,)."""
        return np.asarray(self._orders > order)

    def all_owned_by(self, joints: NDArray[np.intp], order: int) -> bool:
        """Return whether a command owns all of some joints, by indices, shape (k,)."""
        return bool(np.count_nonzero(self._orders[joints] != order) == 0)

    def assign(self, joints: Sequence[int] | NDArray[np.intp], label: str, order: int) -> None:
        """Make a command the owner of some joints, by indices, shape (k,).

        Args:
            joints: indices.
            label: name of the command's sender, for messages to other clients.
            order: from :meth:`next_order`.
        """
        self._orders[joints] = order
        for i in joints:
            self._labels[i] = label

# SPDX-License-Identifier: Apache-2.0
"""Constraints that every configuration of a path satisfies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.limits import JointTurns
from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.errors import InvalidCommand, InvalidConfig, did_you_mean

SHAPES = ("box", "ball", "cylinder")
ROTATIONS = ("euler_xyz", "rotation_vector", "angle")
COMPONENTS = ("x", "y", "z", "rotation x", "rotation y", "rotation z")
_FREE = (-math.inf,) * 6


@dataclass(frozen=True, eq=False)
class TaskSpaceRegion:
    """Bounds of the pose of a frame in a link, relative to a reference frame.

    Infinite bounds leave a component free. A reference frame in another link, by
    ``reference_link``, constrains the poses of two tools relative to each other. Example: the z
    axis of ``hand`` stays within 0.1 rad of the vertical,
    ``TaskSpaceRegion.rotation_within("hand", R_BT, (0.1, 0.1, inf))``.

    Source: D. Berenson, S. Srinivasa and J. Kuffner, "Task space regions", IJRR 30(12), 2011.
    """

    link: str
    """Name of the constrained link."""
    X_BR: ArrayLike
    """Reference frame of the region, in the robot's base or ``reference_link``, shape (4, 4)."""
    lower: Sequence[float] = _FREE
    """Lower bounds of position [m] and rotation [rad] relative to the reference, shape (6,)."""
    upper: Sequence[float] = tuple(-x for x in _FREE)
    """Upper bounds, shape (6,)."""
    X_LT: ArrayLike | None = None
    """Constrained frame in the link, shape (4, 4); None: its origin."""
    shape: str = "box"
    """Region of the position: ``box``; ``ball``, whose radius is ``upper[0]``; ``cylinder`` along z
    with radius ``upper[0]`` and ``lower[2]`` to ``upper[2]``."""
    rotation: str = "euler_xyz"
    """Parameterization of the rotation: ``euler_xyz``, intrinsic angles about x, y, z;
    ``rotation_vector``; ``angle``, its norm, at most ``upper[3]``."""
    name: str = ""
    """For messages; default: the link's name."""
    reference_link: str = ""
    """Link that carries the reference frame, such as the tool of another arm; empty: the base."""

    def __post_init__(self) -> None:
        """Validate frames and bounds."""
        if self.reference_link == self.link:
            raise InvalidCommand(
                f"{self.label}: '{self.link}' is both the constrained and the reference link; the "
                "pose of a link in itself is constant."
            )
        for what, allowed in (("shape", SHAPES), ("rotation", ROTATIONS)):
            given = getattr(self, what)
            if given not in allowed:
                raise InvalidConfig(
                    f"{what} of {self.label} is '{given}'; allowed: {', '.join(allowed)}."
                    f"{did_you_mean(given, allowed)}"
                )
        object.__setattr__(self, "X_BR", rigid_pose(self.X_BR, f"X_BR of {self.label}"))
        tool = np.eye(4) if self.X_LT is None else self.X_LT
        object.__setattr__(self, "X_LT", rigid_pose(tool, f"X_LT of {self.label}"))
        for what in ("lower", "upper"):
            bounds = np.asarray(getattr(self, what), dtype=np.float64)
            if bounds.shape != (6,) or np.isnan(bounds).any():
                raise InvalidCommand(
                    f"{what} bounds of {self.label} must be 6 numbers (x, y, z, rotation about x, "
                    f"y, z), got {getattr(self, what)!r}."
                )
            object.__setattr__(self, what, tuple(bounds.tolist()))
        for name, low, high in zip(COMPONENTS, self.lower, self.upper, strict=True):
            if low > high:
                raise InvalidCommand(
                    f"{self.label}: the bounds of {name} are empty: {low:g} is above {high:g}."
                )

    @classmethod
    def rotation_within(
        cls,
        link: str,
        R_BT: ArrayLike,
        tolerance: Sequence[float],
        rotation: str = "euler_xyz",
        name: str = "",
    ) -> TaskSpaceRegion:
        """Return an orientation constraint of a link.

        Args:
            link: its name.
            R_BT: orientation in the robot's base, shape (3, 3).
            tolerance: about x, y and z [rad], shape (3,); infinity leaves an axis free.
            rotation: parameterization of the tolerances.
            name: for messages.

        Raises:
            InvalidCommand: not a rotation of shape (3, 3); see also the class.
        """
        X_BR = np.eye(4)
        try:
            X_BR[:3, :3] = R_BT
        except (TypeError, ValueError):
            raise InvalidCommand(
                f"R_BT must be a rotation of shape (3, 3), got {R_BT!r:.80}.", field="R_BT"
            ) from None
        bounds = (math.inf,) * 3 + tuple(float(x) for x in tolerance)
        return cls(link, X_BR, tuple(-x for x in bounds), bounds, rotation=rotation, name=name)

    @property
    def label(self) -> str:
        """Name for messages."""
        other = f" in {self.reference_link}" if self.reference_link else ""
        return self.name or f"the region of {self.link}{other}"


@dataclass(frozen=True, eq=False)
class RegionUnion:
    """Union of alternative regions; one of them is satisfied."""

    regions: tuple[TaskSpaceRegion, ...]
    """At least one."""
    name: str = ""
    """For messages."""

    def __post_init__(self) -> None:
        """Validate that it is not empty."""
        if not self.regions:
            raise InvalidCommand("a union of regions must contain at least one region.")

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or self.regions[0].label


@dataclass(frozen=True)
class JointBand:
    """Bounds of one joint along the path."""

    joint: str
    """Name of the joint."""
    lower: float
    """[rad or m]"""
    upper: float
    """[rad or m]"""
    name: str = ""
    """For messages."""

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise InvalidCommand(
                f"{self.label}: bounds {self.lower:g} to {self.upper:g} of {self.joint} are empty."
            )

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or f"the bounds of {self.joint}"


@dataclass(frozen=True, eq=False)
class LineOfSight:
    """Visibility constraint: sensor and target, one fixed in a link, the other in the base."""

    link: str
    """Link that carries the sensor or the target."""
    X_LP: ArrayLike
    """The sensor's or target's frame in the link, shape (4, 4)."""
    X_BR: ArrayLike
    """The other one's frame in the robot's base, shape (4, 4).

    The z axis of the sensor is its optical axis; that of the target is the normal of its visible
    side.
    """
    sensor_on_link: bool = True
    """Whether the link carries the sensor, else the target."""
    max_view_angle: float = math.inf
    """Max angle between the sensor's axis and the reversed normal of the target [rad]."""
    max_range_angle: float = math.inf
    """Max angle between the sensor's axis and the direction to the target [rad]."""
    name: str = ""
    """For messages."""

    def __post_init__(self) -> None:
        """Validate frames and angles."""
        for what in ("X_LP", "X_BR"):
            pose = rigid_pose(getattr(self, what), f"{what} of {self.label}")
            object.__setattr__(self, what, pose)
        for what in ("max_view_angle", "max_range_angle"):
            if not getattr(self, what) > 0.0:
                raise InvalidCommand(
                    f"{what} of {self.label} is {getattr(self, what)} rad; it must be above 0."
                )

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or f"the line of sight of {self.link}"


PathConstraint = TaskSpaceRegion | RegionUnion | JointBand | LineOfSight


def near_start(
    constraint: PathConstraint,
    joint_names: Sequence[str],
    turns: JointTurns,
    start: ArrayLike | None,
) -> PathConstraint:
    """Return a constraint; the bounds of a continuous joint are shifted by turns to the start.

    Args:
        constraint: any constraint; others than bounds are unchanged.
        joint_names: joints of the path.
        turns: of these joints.
        start: of the path [rad or m], shape (n,); None: no shift.
    """
    if start is None or not isinstance(constraint, JointBand):
        return constraint
    if constraint.joint not in joint_names:
        return constraint
    q = np.asarray(start, np.float64)
    one = np.array([list(joint_names).index(constraint.joint)])
    offset = turns.select(one).interval_offset(constraint.lower, constraint.upper, q[one])[0]
    return replace(constraint, lower=constraint.lower + offset, upper=constraint.upper + offset)

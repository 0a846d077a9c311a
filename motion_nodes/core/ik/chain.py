# SPDX-License-Identifier: Apache-2.0
"""Kinematic chains between a base and a tip: the input of inverse kinematics."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.kinematics import Kinematics, check_joints
from motion_nodes.core.robot.limits import JointLimits, JointTurns
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import KinematicTree, frozen
from motion_nodes.errors import InvalidConfig, InvalidDescription, UnknownFrame, UnknownJoint
from motion_nodes.kernels.kinematic_arrays import FIXED, PRISMATIC, PackedArrays, pack, reroot
from motion_nodes.typing import Array

_TURN = 2.0 * math.pi
_HALF_TURN = math.pi


class IkChain:
    """The actuated joints that move a tip relative to a base, and their limits.

    Base and tip may be any two frames of the tree. Mimic joints move along with their joint, and
    restrict its limits by their own.
    """

    robot_name: str
    base: str
    tip: str
    joint_names: tuple[str, ...]
    """The joints of ``q``, from base to tip."""
    lower: Array
    """Lower limits [rad or m], -inf for continuous joints, shape (n,)."""
    upper: Array
    """Upper limits, shape (n,)."""
    length: float
    """Upper bound of the distance between tip and first joint [m]; inf with an unlimited prismatic
    joint."""
    size: float
    """Sum of the offsets [m]: makes position errors comparable to rotation errors."""
    origin: Array
    """Position of the first joint in the base [m], shape (3,)."""
    turning: tuple[int, ...]
    """Indices of joints whose range contains full turns, which do not change any pose."""
    centre: Array
    """Middle of the joint ranges, 0 for continuous joints [rad or m], shape (n,)."""

    def __init__(
        self,
        tree: KinematicTree,
        base: str,
        tip: str,
        joints: Sequence[str] | None = None,
        *,
        limits: JointLimits | None = None,
        fixed: Mapping[str, float] | None = None,
    ) -> None:
        """Build the chain.

        Args:
            tree: the robot.
            base: reference frame of poses.
            tip: controlled frame.
            joints: movable joints, in this order; default: all, base to tip.
            limits: limits of at least these joints; default: those of the tree.
            fixed: positions of the other joints [rad or m]; default 0.

        Raises:
            UnknownFrame: base or tip is not a frame.
            UnknownJoint: a joint does not exist, or does not move the tip.
            InvalidConfig: no joint moves the tip, or a joint range is empty.
        """
        moving = joints_between(tree, base, tip)
        if not moving:
            raise InvalidConfig(f"{tree.name}: no joint moves '{tip}' relative to '{base}'.")
        for name in joints or ():
            if name not in moving:
                raise UnknownJoint(name, moving, f"the joints between '{base}' and '{tip}'")
        self.robot_name, self.base, self.tip = tree.name, base, tip
        self.joint_names = moving if not joints else tuple(joints)
        self._tree, self._fixed = tree, dict(fixed or {})
        check_joints(tree, self.joint_names, self._fixed)
        self.arrays, self.row = _arrays(tree, self.joint_names, fixed or {}, base, tip)
        lower, upper = _limits(tree, self.joint_names, limits)
        self.size, slides = _lengths(self.arrays, self.row, lower, upper)
        self.length = self.size + slides
        self.origin = _origin(self.arrays, self.row)
        self._set_limits(lower, upper)

    def _set_limits(self, lower: Array, upper: Array) -> None:
        self.lower, self.upper = frozen(lower), frozen(upper)
        roomy = _periodic(self.arrays, self.row) & (upper - lower >= _TURN)
        unlimited = np.isinf(self.lower) & np.isinf(self.upper)
        self.turns = JointTurns(_periodic(self.arrays, self.row) & unlimited)
        """Differences of positions of these joints."""
        self.turning = tuple(int(k) for k in np.flatnonzero(roomy))
        self.centre = frozen(_centre(lower, upper))
        # Scalar access is faster on lists than on arrays.
        self._lower, self._upper = lower.tolist(), upper.tolist()

    def narrowed(self, margin: float) -> IkChain:
        """Return the same chain with limits moved inwards, by at most 1 % of each range.

        Args:
            margin: distance from the limits of this chain [rad or m].
        """
        chain = copy.copy(self)
        inwards = np.minimum(margin, 0.01 * (self.upper - self.lower))
        chain._set_limits(self.lower + inwards, self.upper - inwards)
        return chain

    @cached_property
    def kinematics(self) -> Kinematics:
        """Kinematics of these joints, relative to the base; its code is compiled at first use."""
        return Kinematics(self._tree, self.joint_names, fixed=self._fixed, base=self.base)

    @classmethod
    def of_group(cls, robot: Robot, group: str, positions: Array | None = None) -> IkChain:
        """Return the chain of a robot's group; its other joints are fixed.

        Args:
            robot: the robot.
            group: name or alias of the group.
            positions: of all joints of the robot, of which those outside of the group are used
                [rad or m], shape (N,); None: ``home``.

        Raises:
            UnknownGroup: lists the groups.
            InvalidConfig: the group is not a chain.
        """
        found = robot.group(group)
        base, tip = found.requires_chain(robot.groups.values(), "inverse kinematics for one pose")
        whole = robot.home if positions is None else positions
        others = zip(robot.joint_names, whole, strict=True)
        fixed = {name: float(q) for name, q in others if name not in found.joints}
        return cls(robot.tree, base, tip, found.joints, limits=robot.limits, fixed=fixed)

    def unwrap_near(self, q: Array, to: Array) -> Array:
        """Return the same configuration, shifted by full turns to be closest to another.

        Args:
            q: joint positions inside the limits [rad or m], shape (n,); changed in place.
            to: reference joint positions [rad or m], shape (n,).
        """
        if self.turning:
            self.turn(q, q.tolist(), to.tolist())
        return q

    def turn(self, q: Array, values: list[float], desired: list[float]) -> None:
        """Shift joints by full turns.

        Args:
            q: joint positions [rad or m], shape (n,); changed in place.
            values: the same as a list; further elements are ignored.
            desired: reference joint positions.
        """
        for k in self.turning:
            # Of a reference outside the limits, the limit is closest: the turns are bounded.
            away = values[k] - min(max(desired[k], self._lower[k]), self._upper[k])
            if -_HALF_TURN <= away <= _HALF_TURN:
                continue  # the usual case
            turns = round(away / _TURN)
            while turns and not self._lower[k] <= values[k] - turns * _TURN <= self._upper[k]:
                turns -= 1 if turns > 0 else -1
            if turns:
                q[k] = values[k] - turns * _TURN

    def unwrap_all_near(self, Q: Array, to: Array) -> None:
        """The same for many configurations, shape (m, n), each relative to its row of ``to``."""
        if not self.turning:
            return
        k = list(self.turning)
        values, lower, upper = Q[:, k], self.lower[k], self.upper[k]
        desired = np.clip(np.broadcast_to(to, Q.shape)[:, k], lower, upper)
        turns = np.round((values - desired) / _TURN)
        moved = values - turns * _TURN
        # One turn too far at most, because the reference is within the limits.
        turns -= np.where((moved < lower) | (moved > upper), np.sign(turns), 0.0)
        Q[:, k] = values - turns * _TURN


def _arrays(
    tree: KinematicTree, joints: tuple[str, ...], fixed: Mapping[str, float], base: str, tip: str
) -> tuple[PackedArrays, int]:
    """Return the tree relative to the base, and the row of the tip."""
    arrays = pack(tree.packed, joints, fixed)
    base_index = tree.frame_names.index(base)
    if base_index:
        arrays = reroot(arrays, base_index)
    return arrays, arrays.frame_rows[tree.frame_names.index(tip)]


def _path(arrays: PackedArrays, row: int) -> list[int]:
    """Return the rows from row 0 (exclusive) to a row."""
    rows = []
    while row > 0:
        rows.append(row)
        row = int(arrays.parent[row])
    return rows[::-1]


def joints_between(tree: KinematicTree, base: str, tip: str) -> tuple[str, ...]:
    """Return the actuated joints that move the tip relative to the base, from base to tip.

    Args:
        tree: the robot.
        base: reference frame.
        tip: frame that they move.

    Raises:
        UnknownFrame: base or tip is not a frame.
    """
    for frame in (base, tip):
        if frame not in tree.frame_names:
            raise UnknownFrame(frame, tree.frame_names, tree.name)
    arrays, row = _arrays(tree, tree.joint_names, {}, base, tip)
    indices = [int(arrays.q_index[r]) for r in _path(arrays, row) if arrays.kind[r] != FIXED]
    return tuple(tree.joint_names[i] for i in dict.fromkeys(indices))


def _limits(
    tree: KinematicTree, joints: tuple[str, ...], limits: JointLimits | None
) -> tuple[Array, Array]:
    """Return limits that keep the joints and their mimic joints within their limits."""
    try:
        own = JointLimits.of_tree(tree).select(joints)
    except InvalidDescription as error:
        raise InvalidConfig(str(error)) from None
    lower, upper = own.lower.copy(), own.upper.copy()
    if limits is not None:
        given = limits.select(joints)
        lower, upper = np.maximum(lower, given.lower), np.minimum(upper, given.upper)
    for name, low, high in zip(joints, lower, upper, strict=True):
        if not low <= high:
            raise InvalidConfig(
                f"{tree.name}: the range of joint '{name}' is empty: {low:.6g} to {high:.6g}."
            )
    return lower, upper


def _lengths(arrays: PackedArrays, row: int, lower: Array, upper: Array) -> tuple[float, float]:
    """Return the sum of all offsets behind the first joint, and of all prismatic ranges [m]."""
    offsets, slides, moving = 0.0, 0.0, False
    for r in _path(arrays, row):
        if moving:
            offsets += float(np.linalg.norm(arrays.X_PJ[r, :3, 3]))
        if arrays.kind[r] == PRISMATIC:
            k, factor, offset = arrays.q_index[r], arrays.multiplier[r], arrays.offset[r]
            slides += max(abs(factor * end + offset) for end in (lower[k], upper[k]))
        moving = moving or bool(arrays.kind[r] != FIXED)
    return offsets, slides


def _centre(lower: Array, upper: Array) -> Array:
    """Return the middle of ranges, or the value closest to 0 where they are infinite."""
    finite = np.isfinite(lower) & np.isfinite(upper)
    total = np.where(finite, lower, 0.0) + np.where(finite, upper, 0.0)
    return np.asarray(np.clip(total / 2.0, lower, upper))


def _origin(arrays: PackedArrays, row: int) -> Array:
    """Return the position of the first joint in row 0 [m], shape (3,)."""
    X = np.eye(4)
    for r in _path(arrays, row):
        X = X @ arrays.X_PJ[r]
        if arrays.kind[r] != FIXED:
            break
    return frozen(X[:3, 3])


def _periodic(arrays: PackedArrays, row: int) -> NDArray[np.bool_]:
    """Return which joints can make a full turn, which changes no pose, shape (n,), bool."""
    periodic = np.ones(arrays.joint_count, dtype=bool)
    for r in _path(arrays, row):
        if arrays.kind[r] == PRISMATIC or arrays.multiplier[r] != round(arrays.multiplier[r]):
            if arrays.kind[r] != FIXED:
                periodic[arrays.q_index[r]] = False
    return periodic

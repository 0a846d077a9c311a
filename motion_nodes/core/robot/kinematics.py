# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics and Jacobians.

Results are computed by code generated for the robot (:mod:`motion_nodes.kernels`): about 1 us per
call from Python, some tens of nanoseconds per configuration in a batch. Call
:meth:`Kinematics.warm_up` when a node configures; afterwards no call compiles code.

Kinematics of some joints of a robot, of which the others stay where they are.
:class:`.kinematics.Kinematics` compiles the positions of fixed joints into its code, which would be
compiled anew whenever a gripper has moved. Here they are arguments of the robot's common code.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.bounds import repeated
from motion_nodes.core.robot.limits import joint_indices
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint
from motion_nodes.kernels.kinematic_arrays import pack, reroot
from motion_nodes.kernels.python_form import Run
from motion_nodes.kernels.robot_binding import robot_calls
from motion_nodes.typing import Array


class Kinematics:
    """Forward kinematics and geometric Jacobians of a robot.

    Poses are homogeneous matrices ``X_BF``, shape (4, 4): frame F in the base B. Jacobians map
    joint velocities to the linear velocity of the frame's origin and the angular velocity, in this
    order, both relative to the base and expressed in the base.

    A joint position that is not finite or beyond 1e15 rad is not an error: it yields NaN in the
    affected frames only. Commands are validated where they enter a node.

    All methods are thread-safe; batches release the GIL. Results are new arrays, or the given
    ``out``: C-contiguous, float64, of the same shape as the result.
    """

    joint_names: tuple[str, ...]
    """Joints, in the order of ``q``."""
    frame_names: tuple[str, ...]
    """All frames (links) of the robot, root first."""
    base: str
    """Reference frame of poses and velocities."""
    generated: bool
    """Whether generated code is used, or the slower generic kernels."""

    def __init__(
        self,
        tree: KinematicTree,
        joints: Sequence[str] | None = None,
        *,
        fixed: Mapping[str, float] | None = None,
        base: str | None = None,
        generic: bool = False,
    ) -> None:
        """Create the kinematics of a tree; code is compiled by :meth:`warm_up`, or by first calls.

        Args:
            tree: kinematic tree of the robot.
            joints: actuated joints of a configuration, in this order; default: all.
            fixed: positions of other actuated joints [rad or m]; default: 0.
            base: reference frame, anywhere in the tree; default: the root.
            generic: True to use the generic kernels even if code can be generated.

        Raises:
            UnknownJoint: a name that is not an actuated joint, such as a mimic joint.
            UnknownFrame: ``base`` is not a frame.
            InvalidConfig: a duplicate joint, a joint that is both moving and fixed, or a fixed
                position that is not finite.
        """
        self.joint_names = tree.joint_names if joints is None else tuple(joints)
        self.frame_names = tree.frame_names
        self.base = tree.root if base is None else base
        self._robot = tree.name
        self._row_of_frame = {name: row for row, name in enumerate(tree.frame_names)}
        fixed = dict(fixed or {})
        check_joints(tree, self.joint_names, fixed)
        arrays = pack(tree.packed, self.joint_names, fixed)
        base_row = self._frame_index(self.base)
        if base_row != 0:
            arrays = reroot(arrays, base_row)
        self._rows = {f: arrays.frame_rows[i] for f, i in self._row_of_frame.items()}
        self._n = len(self.joint_names)
        self._calls = robot_calls(arrays, generic=generic)
        self.generated = self._calls.generated
        self._frames_shape = (len(self.frame_names), 4, 4)
        self._jacobian_shape = (6, self._n)
        self._together = False  # whether the poses of all frames are loaded
        # By frame name, filled on first use.
        self._pose: dict[str, Run] = {}
        self._jacobian: dict[str, Run] = {}
        self._both: dict[str, Run] = {}

    def warm_up(self, frames: Sequence[str] | None = None) -> None:
        """Compile or load the code for later calls.

        The first compilation takes about 0.1 s per frame, and as long for the poses of all frames;
        later starts load the code from the cache on disk.

        Args:
            frames: frames whose Jacobian, or pose alone, will be used; empty: none, and the pose of
                a frame is then taken from those of all; default: all frames, and the poses of all
                at once.

        Raises:
            UnknownFrame: lists the frames.
        """
        if not frames:
            self._calls.load_frames()
            self._together = True
        for frame in self.frame_names if frames is None else frames:
            self._calls.load_row(self._row(frame))
            for known in (self._jacobian, self._both, self._pose):
                self._find(known, frame)

    def frames(self, q: ArrayLike, out: Array | None = None) -> Array:
        """Return the poses of all frames in the base.

        Args:
            q: joint positions [rad or m], shape (n,).
            out: array for the result, shape (f, 4, 4).

        Returns:
            Poses in the order of ``frame_names``, shape (f, 4, 4).

        Raises:
            InvalidCommand: ``q`` is not ``n`` numbers, or ``out`` does not fit.
        """
        if out is None:
            out = np.empty(self._frames_shape)
        else:
            _check_out(out, self._frames_shape)
        run = self._calls.frames()
        if run(q, out):
            self._retry(run, q, out)
        return out

    def pose(self, q: ArrayLike, frame: str) -> Array:
        """Return the pose of a frame in the base, shape (4, 4).

        Args:
            q: joint positions [rad or m], shape (n,).
            frame: name of the frame.

        Raises:
            UnknownFrame: lists the frames.
            InvalidCommand: ``q`` is not ``n`` numbers.
        """
        run = self._pose.get(frame) or self._find(self._pose, frame)
        X = np.empty((4, 4))
        if run(q, X):
            self._retry(run, q, X)
        return X

    def jacobian(self, q: ArrayLike, frame: str) -> Array:
        """Return the geometric Jacobian of a frame, shape (6, n).

        Rows: linear velocity [m/rad or 1], then angular velocity [1 or rad/m].

        Arguments and errors are those of :meth:`pose`.
        """
        run = self._jacobian.get(frame) or self._find(self._jacobian, frame)
        J = np.empty(self._jacobian_shape)
        if run(q, J):
            self._retry(run, q, J)
        return J

    def pose_and_jacobian(self, q: ArrayLike, frame: str) -> tuple[Array, Array]:
        """Return pose, shape (4, 4), and Jacobian, shape (6, n), of a frame.

        It costs little more than one of them.

        Arguments and errors are those of :meth:`pose`.
        """
        run = self._both.get(frame) or self._find(self._both, frame)
        X, J = np.empty((4, 4)), np.empty(self._jacobian_shape)
        if run(q, X, J):
            self._retry(run, q, X, J)
        return X, J

    def frames_batch(self, Q: ArrayLike, out: Array | None = None) -> Array:
        """Return the poses of all frames for m configurations.

        Args:
            Q: joint positions [rad or m], shape (m, n).
            out: array for the result, shape (m, f, 4, 4); for large batches faster than a new one.

        Returns:
            Poses, shape (m, f, 4, 4).

        Raises:
            InvalidCommand: ``Q`` has another shape or is not numeric, or ``out`` does not fit.
        """
        Q = self._batch(Q)
        out = _result(out, (len(Q), len(self.frame_names), 4, 4))
        self._calls.frames_many(Q, out)
        return out

    def pose_batch(self, Q: ArrayLike, frame: str, out: Array | None = None) -> Array:
        """Return the poses of a frame for m configurations, shape (m, 4, 4).

        Arguments and errors are those of :meth:`frames_batch` and :meth:`pose`.
        """
        row, Q = self._row(frame), self._batch(Q)
        out = _result(out, (len(Q), 4, 4))
        self._calls.pose_many(row, Q, out)
        return out

    def jacobian_batch(self, Q: ArrayLike, frame: str, out: Array | None = None) -> Array:
        """Return the Jacobians of a frame for m configurations, shape (m, 6, n).

        Arguments and errors are those of :meth:`frames_batch` and :meth:`pose`.
        """
        row, Q = self._row(frame), self._batch(Q)
        out = _result(out, (len(Q), 6, self._n))
        self._calls.jacobian_many(row, Q, out)
        return out

    def _retry(self, run: Run, q: ArrayLike, *results: Array) -> None:
        """Run again with ``q`` converted to a float64 vector, or raise an error."""
        try:
            array = np.array(q, np.float64)
        except (TypeError, ValueError):
            array = np.empty((0, 0))
        if array.shape != (self._n,):
            raise InvalidCommand(self._complaint("configuration", q, f"{self._n} numbers"))
        if run(array, *results):
            raise RuntimeError("the kernel refuses its own kind of arrays")

    def _batch(self, Q: ArrayLike) -> Array:
        """Return a batch of configurations in the memory layout of the generated code."""
        try:
            array = np.ascontiguousarray(Q, np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.ndim != 2 or array.shape[1] != self._n:
            required = f"an array of shape (m, {self._n})"
            raise InvalidCommand(self._complaint("batch of configurations", Q, required))
        return array

    def _complaint(self, what: str, given: ArrayLike, required: str) -> str:
        try:
            array = np.asarray(given)
            shape = f"shape {array.shape} of {array.dtype}"
        except ValueError:
            shape = "rows of different lengths"
        joints = ", ".join(self.joint_names) or "none"
        return f"{self._robot}: a {what} is {required} (joints: {joints}), got {shape}."

    def _find(self, known: dict[str, Run], frame: str) -> Run:
        """Return the compiled code for a frame; compile or load it if necessary."""
        row = self._row(frame)
        own = frame in self._jacobian or frame in self._both
        if known is self._pose and self._together and not own:
            return functools.partial(self._pose_among_all, self._row_of_frame[frame])
        if known is self._pose:
            return known.setdefault(frame, self._calls.pose(row))
        if known is self._jacobian:
            return known.setdefault(frame, self._calls.jacobian(row))
        return known.setdefault(frame, self._calls.both(row))

    def _pose_among_all(self, index: int, q: Array, out: Array) -> int:
        """Write the pose of a frame as one of all; the arguments and result of generated code."""
        X = np.empty(self._frames_shape)
        refused = self._calls.frames()(q, X)
        out[:] = X[index]
        return refused

    def _row(self, frame: str) -> int:
        self._frame_index(frame)
        return self._rows[frame]

    def _frame_index(self, frame: str) -> int:
        try:
            return self._row_of_frame[frame]
        except (KeyError, TypeError):
            raise UnknownFrame(str(frame), self.frame_names, self._robot) from None


def check_joints(tree: KinematicTree, joints: Sequence[str], fixed: Mapping[str, float]) -> None:
    """Check that moving and fixed joints are actuated and distinct, at finite positions.

    Args:
        tree: the robot.
        joints: actuated joints of a configuration.
        fixed: positions of other actuated joints [rad or m].

    Raises:
        UnknownJoint, InvalidConfig: see :class:`Kinematics`.
    """
    for name in (*joints, *fixed):
        if name not in tree.joint_names:
            raise UnknownJoint(name, tree.joint_names, f"the actuated joints of {tree.name}")
    twice = repeated(joints)
    if twice:
        raise InvalidConfig(f"{tree.name}: joints {', '.join(twice)} are given twice.")
    both = sorted(set(joints) & set(fixed))
    if both:
        raise InvalidConfig(f"{tree.name}: joints {', '.join(both)} cannot both move and be fixed.")
    for name, value in fixed.items():
        if not np.isfinite(value):
            raise InvalidConfig(f"{tree.name}: joint '{name}' cannot be fixed at {value}.")


def _result(out: Array | None, shape: tuple[int, ...]) -> Array:
    """Return ``out`` after validation, or a new array."""
    if out is None:
        return np.empty(shape)
    _check_out(out, shape)
    return out


def _check_out(out: Array, shape: tuple[int, ...]) -> None:
    """Raise an error unless results of that shape can be written to ``out``."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != np.float64:
        given = f"{out.shape} of {out.dtype}" if isinstance(out, np.ndarray) else repr(type(out))
        raise InvalidCommand(
            f"out must be a float64 array of shape {shape}, got {given}.", field="out"
        )
    if not out.flags.writeable or not out.flags.c_contiguous:
        raise InvalidCommand(
            "out must be writable and C-contiguous: no slice, no transpose.", field="out"
        )


@functools.lru_cache(maxsize=16)
def _whole(robot: Robot) -> Kinematics:
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    kinematics.warm_up(())
    return kinematics


class GroupKinematics:
    """Poses and Jacobians of a robot's frames in its base; see :class:`Kinematics`."""

    def __init__(self, robot: Robot, joints: Sequence[str], positions: ArrayLike) -> None:
        """Create; code of all poses is compiled first, that of a Jacobian at its first use.

        Args:
            robot: the robot.
            joints: joints of a configuration, in this order.
            positions: of all actuated joints of the robot [rad or m], shape (r,); those of
                ``joints`` have no effect.

        Raises:
            UnknownJoint: a name that is not an actuated joint.
            InvalidCommand: positions of another shape.
        """
        self._kinematics = _whole(robot)
        self._columns = joint_indices(joints, robot.joint_names, robot.name)
        self._positions = np.array(positions, np.float64)
        if self._positions.shape != (len(robot.joint_names),):
            raise InvalidCommand(
                f"{robot.name}: positions of shape {self._positions.shape}; it has "
                f"{len(robot.joint_names)} actuated joints"
            )

    def pose(self, q: ArrayLike, frame: str) -> Array:
        """Return the pose of a frame, shape (4, 4), for ``q`` [rad or m], shape (n,).

        Errors are those of :meth:`Kinematics.pose`.
        """
        return self._kinematics.pose(self._all(np.asarray(q, np.float64)[None])[0], frame)

    def pose_and_jacobian(self, q: Array, frame: str) -> tuple[Array, Array]:
        """Return pose, shape (4, 4), and Jacobian, shape (6, n), of a frame, for ``q``, shape (n,).

        Errors are those of :meth:`Kinematics.pose`.
        """
        X, J = self._kinematics.pose_and_jacobian(self._all(q[None])[0], frame)
        return X, J[:, self._columns]

    def frames_batch(self, Q: Array) -> Array:
        """Return the poses of all frames of the robot, shape (m, f, 4, 4), for ``Q``, (m, n).

        Errors are those of :meth:`Kinematics.frames_batch`.
        """
        return self._kinematics.frames_batch(self._all(Q))

    def jacobian_batch(self, Q: ArrayLike, frame: str) -> Array:
        """Return the Jacobians of a frame, shape (m, 6, n), for ``Q`` [rad or m], shape (m, n).

        Errors are those of :meth:`Kinematics.jacobian_batch`.
        """
        return self._kinematics.jacobian_batch(self._all(Q), frame)[:, :, self._columns]

    def _all(self, Q: ArrayLike) -> Array:
        """Return the positions of all joints of the robot, shape (m, r)."""
        given = np.asarray(Q, np.float64)
        if given.ndim != 2 or given.shape[1] != len(self._columns):
            raise InvalidCommand(
                f"configurations of shape {given.shape}; each has {len(self._columns)} numbers"
            )
        every = np.tile(self._positions, (len(given), 1))
        every[:, self._columns] = given
        return every

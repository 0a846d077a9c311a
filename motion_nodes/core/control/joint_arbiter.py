# SPDX-License-Identifier: Apache-2.0
"""Arbitration of joint commands: trajectories, streams and direct commands, in order of arrival.

The newest deliberate command owns its joints; it preempts trajectories that contain any of them,
and their error text names it. The order of a stream is that of its first message
(:mod:`.joint_command`), so its later values for joints of a newer command are dropped. The end of a
trajectory, a grip or a stream never preempts other commands. Joints without a trajectory hold the
target of their last command. Joints under impedance control stay there until another command
preempts it.

A step of joints on their way to position targets at rest, such as those of a stream, without
trajectories, impedance control or effort limits, is :class:`StreamCycle`: the same parts, guard,
resynchronization and limiter, as one function of machine code before the online trajectory, and one
after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.control.active_trajectories import (
    ActiveTrajectories,
    FollowGoal,
    FollowStatus,
    Stop,
    TrajectoryFollower,
)
from motion_nodes.core.control.cartesian_impedance import CartesianImpedance, Compliance
from motion_nodes.core.control.joint_command import (
    Claim,
    JointCommand,
    JointOwners,
    JointReference,
    Stream,
    select_joints,
)
from motion_nodes.core.control.joint_controller import ArticulationController, TargetState
from motion_nodes.core.control.joint_guard import (
    RESYNC_TOLERANCE,
    Blocked,
    GuardState,
    JointGuard,
    Resync,
    ResyncState,
    blocked_joint,
    count_away,
    note_reference,
)
from motion_nodes.core.robot.limits import joint_indices, nearest_turn
from motion_nodes.core.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.core.trajectory.online_trajectory import LimiterState, begin_step, end_step
from motion_nodes.errors import MotionError
from motion_nodes.kernels.cycle_code import cycle_function
from motion_nodes.typing import Array, Mask

OTHER_KIND, BLOCKED, AWAY = -1, -2, -3
"""Results of :meth:`StreamCycle.begin`."""
_DT, _UNMEASURED, _FRESH = range(3)


class StreamState(NamedTuple):
    """Memory of a controller of n joints, shared with the objects that its parts belong to."""

    target: TargetState
    limiter: LimiterState
    guard: GuardState
    resync: ResyncState
    position: Array
    velocity: Array
    """Measured [rad or m], [rad/s or m/s], shape (n,)."""
    effort_bounds: Array
    """Effort limits of commands [N m or N], shape (n,)."""
    gripping: Mask
    """Joints that may push against objects, shape (n,)."""
    numbers: Array
    """Period, time since the last measurement [s], whether this one is new, shape (3,)."""

    @classmethod
    def of(cls, n: int) -> StreamState:
        """Return the memory of n joints."""
        return cls(
            TargetState.of(n), LimiterState.of(n), GuardState.of(n), ResyncState.of(n),
            np.zeros(n), np.zeros(n), np.full(n, np.inf),
            np.zeros(n, np.bool_), np.zeros(3),
        )  # fmt: skip


@cycle_function(StreamState.of(1))
def _before(s: StreamState) -> int:
    """Check a step, and prepare it up to the online trajectory.

    Returns:
        Kind of the limiter's targets, or: the step is of another kind, a joint is blocked, or
        references must move to joints at rest. In the first case nothing has changed.
    """
    n, target, limiter, guard, resync = len(s.position), s.target, s.limiter, s.guard, s.resync
    rests, plain = True, True
    for j in range(n):
        plain = plain and target.velocities[j] == 0.0 and not target.stopping[j]
        plain = plain and target.by_position[j] and s.effort_bounds[j] == math.inf
        rests = rests and limiter.velocity[j] == 0.0 and limiter.acceleration[j] == 0.0
        rests = rests and limiter.position[j] == target.positions[j]
    if rests or not plain:
        return OTHER_KIND
    for j in range(n):
        if target.continuous[j]:
            s.position[j] = nearest_turn(s.position[j], limiter.position[j])
        guard.position[j], guard.free[j] = s.position[j], s.gripping[j]
        resync.error[j] = limiter.position[j] - s.position[j]
        resync.speed[j], resync.leading[j] = (
            s.velocity[j],
            s.gripping[j] or limiter.velocity[j] != 0.0,
        )
        resync.normal[j] = min(RESYNC_TOLERANCE, guard.tolerance[j])
        limiter.by_velocity[j], limiter.goal[j] = False, target.positions[j]
        limiter.speed[j], limiter.goal_acceleration[j] = 0.0, 0.0
    s.numbers[_UNMEASURED] += s.numbers[_DT]
    if s.numbers[_FRESH] != 0.0:
        if blocked_joint(guard) >= 0:
            return BLOCKED
        resync.dt[0], s.numbers[_UNMEASURED] = s.numbers[_UNMEASURED], 0.0
        if count_away(resync) > 0:
            return AWAY
    return begin_step(limiter)


@cycle_function(StreamState.of(1))
def _after(s: StreamState) -> int:
    """End a step after the online trajectory; return 1 if Ruckig's state has to be written."""
    written = end_step(s.limiter)
    for j in range(len(s.position)):
        position, velocity = s.limiter.position[j], s.limiter.velocity[j]
        s.guard.reference[0, j], s.guard.reference[1, j] = position, velocity
    note_reference(s.guard)
    return written


class StreamCycle:
    """The step of one controller's joints."""

    def __init__(
        self,
        controller: ArticulationController,
        guard: JointGuard,
        resync: Resync,
        effort_bounds: Array,
        gripping: Mask,
    ) -> None:
        """Use the memory of these objects.

        Args:
            controller: of the joints.
            guard: of the joints.
            resync: of the joints.
            effort_bounds: effort limits of commands, shape (n,).
            gripping: joints that may push against objects, shape (n,).
        """
        n = len(gripping)
        self.controller, self.guard, self._target = controller, guard, controller.target
        self.state = StreamState(
            controller.target, controller.limiter.state, guard.state, resync.state, np.zeros(n),
            np.zeros(n), effort_bounds, gripping, np.zeros(3),
        )  # fmt: skip
        self._before, self._after = _before.bind(self.state), _after.bind(self.state)

    def is_for(self, guard: JointGuard) -> bool:
        """Return whether the controller has this guard, and the limits that it had."""
        return guard is self.guard and self.controller.target is self._target

    def begin(
        self,
        dt: float,
        unmeasured: float,
        fresh: bool,
        measured: tuple[Array, Array],
        residual: Array | None,
    ) -> int:
        """Check and prepare a step.

        Args:
            dt: duration of the step [s], finite and above 0.
            unmeasured: time since the last measurement before it [s].
            fresh: whether the measured state is new.
            measured: positions and velocities [rad or m], [rad/s or m/s], shape (n,) each.
            residual: effort residual [N m or N], shape (n,); None: not measured.

        Returns:
            Kind of the targets for :meth:`end`; or :data:`OTHER_KIND`, nothing has changed;
            :data:`BLOCKED`: the guard names a joint; :data:`AWAY`: references must move to the
            joints of ``resync``.
        """
        state = self.state
        state.position[:], state.velocity[:] = measured
        state.numbers[:] = dt, unmeasured, fresh
        if fresh:
            self.guard.set_inputs(self.guard.settings.tolerance, residual)
        return self._before()

    @property
    def unmeasured(self) -> float:
        """Time since the last measurement after the step [s]."""
        return float(self.state.numbers[_UNMEASURED])

    def end(self, targets: int, dt: float) -> JointReference:
        """Move and return the references of the controller.

        Args:
            targets: result of :meth:`begin`.
            dt: duration of the step [s].
        """
        limiter = self.controller.limiter
        limiter.plan_step(targets, dt)
        if self._after():
            limiter.write_state()
        return self.controller.moved()


Joints = NDArray[np.intp]


class JointArbiter:
    """Moves the joints of an :class:`ArticulationController` by trajectories and commands."""

    def __init__(self, controller: ArticulationController, start_tolerance: float = 0.0) -> None:
        """Create an arbiter without trajectories.

        Args:
            controller: controller of all joints.
            start_tolerance: max distance between the start of an immediate trajectory and the
                joints [rad or m]; 0: unlimited.
        """
        self.controller = controller
        self.start_tolerance = start_tolerance
        self.trajectories = ActiveTrajectories(controller, self._stop)
        """Active and stopping trajectories."""
        self.claims: list[Claim] = []
        """Joints held without a trajectory."""
        n = len(controller.joint_names)
        self.effort_bounds: Array = np.full(n, np.inf)
        """Effort limits, valid until the joint is preempted [N m or N], shape (n,)."""
        self._owners = JointOwners(n)
        self.scaling = 1.0
        """Speed scaling factor of trajectories, 0 or above; applies from the next step."""
        self.guard: JointGuard | None = None
        """Detects blocked joints, if enabled."""
        self.describe: Callable[[Blocked], str] = self._plain_words
        """Describes the blocked joint and the place."""
        self.fault = ""
        """Contact that stopped the joints, until the next command."""
        self.resync = Resync(n)
        """Moves references to the measured joint positions after a stop."""
        self.compliance = Compliance(controller)
        """Joints under impedance control."""
        self._gripping = np.zeros(n, np.bool_)
        """Joints that may push against objects until preempted, shape (n,)."""
        self._measured: tuple[Array, Array] | None = None
        """Positions and velocities at the last step."""
        self._effort: Array | None = None
        """Measured efforts, if any."""
        self._unmeasured = 0.0
        """Time since the last measurement [s]."""
        self._cycle: StreamCycle | None = None
        """The step of joints with position targets, once needed."""

    @property
    def runs(self) -> list[TrajectoryFollower]:
        """Active trajectories."""
        return self.trajectories.runs

    @property
    def stops(self) -> list[Stop]:
        """Trajectories that stop along their paths."""
        return self.trajectories.stops

    def start(self, goal: FollowGoal, label: str, delay: float = 0.0) -> TrajectoryFollower:
        """Start a trajectory, which preempts earlier commands to its joints.

        Args:
            goal: the trajectory; if its first point lies ahead, it is connected to the current
                state.
            label: name of its sender.
            delay: time until its start [s]; negative: it starts within the trajectory.

        Raises:
            MotionError: the robot's state is unknown.
            UnknownJoint: a joint that the controller does not have.
            InvalidCommand: a joint is not under position control, limits are exceeded, or the start
                is too far away; nothing changes.
        """
        controller = self.controller
        names = goal.trajectory.joint_names
        joints = joint_indices(names, controller.joint_names, "this controller")
        if not controller.ready:
            raise MotionError("the robot's state is not known yet; command it after it is")
        controller.joint_modes.require_position(names, "trajectories need position control")
        run = self.trajectories.follower_of(
            goal, joints, label, delay, self._measured, self.start_tolerance
        )
        continuing = self.trajectories.settings.continue_others
        self._take(joints, label, continuing=continuing, until_start=continuing and delay > 0.0)
        self.trajectories.newest = run
        self.runs.append(run)
        return run

    def command(self, command: JointCommand, label: str) -> None:
        """Apply a command, which preempts active trajectories of its joints.

        Joints with NaN in all channels are not affected.

        Raises:
            MotionError: see :meth:`ArticulationController.apply`; nothing changes.
        """
        self._take(self.controller.apply(command), label)

    def begin_stream(self, label: str, sender: str = "") -> Stream:
        """Return a new stream, the newest command; its first message preempts others.

        Args:
            label: name of its sender, for messages to other clients.
            sender: sender name in its messages.
        """
        return Stream(label, sender, self._owners.next_order())

    def follow_stream(self, command: JointCommand, stream: Stream) -> Joints:
        """Apply a message of a stream to the joints that no newer command owns.

        Args:
            command: the message.
            stream: its stream.

        Returns:
            Indices of the joints owned by newer commands, see :attr:`holders`.

        Raises:
            MotionError: see :meth:`ArticulationController.apply`; nothing changes.
        """
        checked = self.controller.check(command)
        refused = checked.given & self._owners.newer_than(stream.order)
        if np.count_nonzero(refused):
            checked = checked.without(refused)
        joints = self.controller.take(checked)
        if not self._owners.all_owned_by(joints, stream.order):
            self._take(joints, stream.label, stream.order)
        return refused.nonzero()[0]

    def follow_positions(self, positions: Array, joints: Joints, stream: Stream) -> bool:
        """Apply positions of a stream to joints that it owns already.

        Args:
            positions: [rad or m], shape (k,).
            joints: indices, shape (k,).
            stream: their stream.

        Returns:
            Whether they were applied; False: nothing changed, :meth:`follow_stream` has to decide.
        """
        owned = self._owners.all_owned_by(joints, stream.order)
        return owned and self.controller.take_positions(positions, joints)

    def comply(self, law: CartesianImpedance, stream: Stream) -> Joints:
        """Put the joints of a law under impedance control, unless a newer command owns them.

        Args:
            law: a new law, or the active one.
            stream: stream of its inputs.

        Returns:
            Indices of joints that a newer command owns; if there are any, nothing changes.

        Raises:
            MotionError: the robot's state is unknown.
            UnknownJoint: the controller does not have a joint of the law.
            InvalidCommand: a joint is not under position control.
        """
        joints = self.compliance.joints_of(law)
        lost = joints[self._owners.newer_than(stream.order)[joints]]
        if len(lost) or (
            self.compliance.law is law and self._owners.all_owned_by(joints, stream.order)
        ):
            return lost
        if not self.controller.ready or self._measured is None:
            raise MotionError("the robot's state is not known yet; command it after it is")
        rule = "impedance control begins from position control"
        self.controller.joint_modes.require_position(law.joint_names, rule)
        if self.compliance.law is law:
            self._owners.assign(joints, stream.label, stream.order)
            return lost
        self._take(joints, stream.label, stream.order)
        self.compliance.begin(law, *self._measured, self._effort)
        self._gripping[joints] = True
        return lost

    def claim(self, command: JointCommand, label: str, max_effort: float = np.inf) -> Claim:
        """Apply a command and claim its joints until another command preempts one of them.

        Args:
            command: command to apply.
            label: name of its sender.
            max_effort: effort limit of its joints [N m or N], valid until they are preempted, also
                after release.

        Raises:
            MotionError: see :meth:`command`; nothing changes.
        """
        self.command(command, label)
        claim = Claim(label, select_joints(command, self.controller.joint_names))
        self.effort_bounds[claim.joints] = max_effort
        self._gripping[claim.joints] = True
        self.claims.append(claim)
        return claim

    def release(self, claim: Claim, *, stop: bool) -> None:
        """Release a claim; its joints keep their targets, or stop."""
        if claim in self.claims:
            self.claims.remove(claim)
            if stop:
                self._stop(claim.joints)

    def cancel(self, run: TrajectoryFollower, text: str) -> None:
        """End a trajectory and stop its joints along its path."""
        self.trajectories.end_along_path(run, FollowStatus.CANCELED, text)

    def abort_all(self, text: str) -> None:
        """Abort all trajectories and claims, and stop their joints."""
        self.trajectories.abort(text)
        self._end_others(text)

    def stop_all(self, text: str) -> None:
        """End all commands and bring all joints to rest; grippers keep their grip.

        Trajectories stop along their paths. Streams that started before are ignored until they are
        reset.
        """
        self.abort_trajectories(text)
        self._end_others(text)
        everything = np.arange(len(self._gripping))
        self._owners.assign(everything, text, self._owners.next_order())
        loose = np.flatnonzero(~self._gripping)
        self.effort_bounds[loose] = np.inf
        self.controller.stop(np.setdiff1d(everything, self.trajectories.braking))
        self.resync.drop(everything)
        self.resync.request(loose)

    def step(
        self,
        dt: float,
        position: Array,
        velocity: Array,
        *,
        fresh: bool = True,
        residual: Array | None = None,
        effort: Array | None = None,
    ) -> JointReference:
        """Advance by ``dt`` [s] and return the reference of the drives.

        Args:
            dt: time since the last step [s].
            position: measured positions of all joints [rad or m], shape (n,).
            velocity: measured velocities [rad/s or m/s], shape (n,).
            fresh: whether position and velocity were measured since the last step.
            residual: effort residual [N m or N], shape (n,); None: not measured.
            effort: measured efforts [N m or N], shape (n,); None or NaN: not measured.
        """
        cycle, kind, self._effort = self._stream_cycle(dt), OTHER_KIND, effort
        if cycle is not None:
            kind = cycle.begin(dt, self._unmeasured, fresh, (position, velocity), residual)
        if cycle is not None and kind != OTHER_KIND:
            self._measured, self._unmeasured = (cycle.state.position, velocity), cycle.unmeasured
            self.trajectories.wait(dt)
            if kind >= 0:
                return cycle.end(kind, dt)
            # What the check of this measurement found changes the step.
            self._end_check(kind, cycle.state.position.copy())
            fresh, self._unmeasured = False, -dt
        self._unmeasured += dt
        if (turns := self.controller.limits.turns).any and self.controller.ready:
            position = turns.nearest(position, self.controller.reference_position)
        if fresh:
            if self.guard is not None:
                self._check_blocked(self.guard, position, residual)
            self._resync(self._unmeasured, position, velocity)
            self._unmeasured = 0.0
        self._measured = position, velocity
        if self.compliance.law is not None:
            self.compliance.step(dt, position, velocity, effort if fresh else None)
        self.trajectories.advance(dt, self.scaling)
        reference = self.controller.advance(dt, position)
        if self.guard is not None and dt > 0.0:
            self.guard.note(reference.positions, reference.velocities, dt)
        self.trajectories.check(dt, position, velocity, fresh=fresh)
        return reference

    def gripping(self, joints: Joints) -> bool:
        """Return whether some joints still hold the object of a claim."""
        return bool(self._gripping[joints].all())

    def abort_trajectories(self, text: str) -> None:
        """Abort all trajectories, and stop their joints along their paths."""
        for run in list(self.runs):
            self.trajectories.end_along_path(run, FollowStatus.ABORTED, text)

    def take(self, joints: Sequence[str], label: str) -> None:
        """Preempt all commands to joints; they stop.

        Raises:
            UnknownJoint: a joint that the controller does not have.
        """
        indices = joint_indices(joints, self.controller.joint_names, "this controller")
        self._take(indices, label)
        self._stop(indices)

    def hold_measured(self) -> None:
        """Move references to the measured positions within the limits; moving joints stop first."""
        if self._measured is None:
            return
        position = self._measured[0]
        everything, never = np.arange(len(position)), self.resync.never
        self.resync.request(everything, contact=True)
        still = (self.controller.reference_velocity == 0.0) | never
        held = position + np.where(never, 0.0, self.resync.sag)
        self.controller.move_reference_to(np.flatnonzero(still), held)

    def reference_in(self, ahead: float) -> TrajectorySample:
        """Return the predicted reference of all joints.

        Args:
            ahead: time from now [s], negative for the past; assumes a speed scaling of 1.

        Returns:
            Samples of shape (n,): trajectories at that time, current references of other joints.
        """
        present = self.controller.reference(np.arange(len(self.controller.joint_names)))
        self.trajectories.predict(present, ahead)
        return present

    @property
    def holders(self) -> tuple[str, ...]:
        """Label of the newest command to each joint; empty without one."""
        return self._owners.labels

    def _take(
        self,
        joints: Joints,
        label: str,
        order: int | None = None,
        *,
        continuing: bool = False,
        until_start: bool = False,
    ) -> None:
        """Assign joints to a command, the newest one if it has no order."""
        order = self._owners.next_order() if order is None else order
        self._owners.assign(joints, label, order)
        if np.isin(self.compliance.joints, joints).any():
            self._end_compliance(joints)
        self._gripping[joints] = False
        self.resync.drop(joints)
        self.fault = ""
        self.effort_bounds[joints] = np.inf
        for claim in list(self.claims):
            if np.isin(claim.joints, joints).any():
                claim.lost = f"preempted by {label}"
                self.claims.remove(claim)
        self.trajectories.newest = None
        self.trajectories.preempt(
            joints, f"preempted by {label}", continuing=continuing, all_joints=until_start
        )

    def _end_others(self, text: str) -> None:
        """End impedance control and claims; joints under impedance control stop."""
        self._end_compliance(np.zeros(0, np.intp))
        for claim in self.claims:
            claim.lost = text
        self.claims.clear()

    def _end_compliance(self, taken: Joints) -> None:
        """End impedance control, and stop its joints except those of a new command."""
        joints = self.compliance.end()
        self._gripping[joints] = False
        self._stop(np.setdiff1d(joints, taken))

    def _stop(self, joints: Joints) -> None:
        """Stop joints; their references later move to the positions at rest."""
        self.controller.stop(joints)
        self.resync.request(joints)

    def _stream_cycle(self, dt: float) -> StreamCycle | None:
        """Return the step of joints with position targets; None if others have to move."""
        trajectories, guard = self.trajectories, self.guard
        others = trajectories.runs or trajectories.stops or self.compliance.law
        if others or self.fault or guard is None or not 0.0 < dt < np.inf:
            return None
        if not self.controller.has_position_targets():
            return None
        if self._cycle is None or not self._cycle.is_for(guard):
            self._cycle = StreamCycle(
                self.controller, guard, self.resync, self.effort_bounds, self._gripping
            )
        return self._cycle

    def _end_check(self, kind: int, position: Array) -> None:
        """Stop in a contact, or move references, as the check of a measurement requires."""
        if kind == BLOCKED:
            assert self.guard is not None
            blocked = self.guard.blocked()
            self.stop_in_contact(self.describe(blocked), blocked.guarded, position)
        elif kind == AWAY:
            joints = np.flatnonzero(self.resync.state.away)
            self.trajectories.return_to(joints, (position + self.resync.sag)[joints])

    def _check_blocked(self, guard: JointGuard, position: Array, residual: Array | None) -> None:
        """Stop all guarded joints if one is blocked, and retreat to their current positions."""
        if self.fault:  # A joint that retreats from a contact still pushes for a short time.
            guard.note_preload(residual)
            return
        tolerances = self.trajectories.path_tolerances(guard.settings.tolerance)
        blocked = guard.check(position, tolerances, self._gripping, residual)
        if blocked is not None:
            self.stop_in_contact(self.describe(blocked), blocked.guarded, position)

    def stop_in_contact(self, text: str, guarded: NDArray[np.bool_], position: Array) -> None:
        """Stop joints because of a contact, and retreat to their current positions.

        Args:
            text: description of the contact.
            guarded: joints to stop, mask of shape (n,).
            position: measured positions of all joints [rad or m], shape (n,).
        """
        for run in list(self.runs):
            if guarded[run.joints].any():
                self.trajectories.end(run, FollowStatus.PATH_TOLERANCE_VIOLATED, text)
        joints = np.flatnonzero(guarded)
        self._take(joints, text)
        # Joints that are not under position control stop.
        self.controller.stop(joints)
        self.controller.move_reference_to(joints, position + self.resync.sag)
        self.resync.request(joints, contact=True)
        if self.guard is not None:
            self.guard.reset()
        self.fault = text

    def _resync(self, dt: float, position: Array, velocity: Array) -> None:
        """Start to move references to the positions of joints that stopped away from them."""
        controller = self.controller
        leading = controller.joint_modes.not_position | self._gripping
        leading |= controller.reference_velocity != 0.0
        for run in self.runs:
            leading[run.joints] = True
        normal: Array | float = RESYNC_TOLERANCE
        if self.guard is not None:
            normal = np.minimum(normal, self.guard.settings.tolerance)
        error = controller.reference_position - position
        joints = self.resync.update(dt, error, velocity, leading, normal)
        if len(joints):
            self.trajectories.return_to(joints, (position + self.resync.sag)[joints])

    def _plain_words(self, blocked: Blocked) -> str:
        return blocked.text(self.controller.joint_names[blocked.joint], revolute=True)

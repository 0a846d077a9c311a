# SPDX-License-Identifier: Apache-2.0
"""One step of joints on their way to position targets at rest, such as those of a stream.

Joints are under position control, without trajectories, impedance control, effort limits or moving
targets; other steps are those of :mod:`.joint_arbiter`, which consist of the same parts: guard,
resynchronization and limiter. Here they are one function of machine code before the online
trajectory, and one after it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from motion_nodes.core.control.active_commands import (
    RESYNC_TOLERANCE,
    Resync,
    ResyncState,
    count_away,
)
from motion_nodes.core.control.joint_command import JointReference
from motion_nodes.core.control.joint_controller import ArticulationController, TargetState
from motion_nodes.core.control.joint_guard import (
    GuardState,
    JointGuard,
    blocked_joint,
    note_reference,
)
from motion_nodes.core.robot.limits import nearest_turn
from motion_nodes.core.trajectory.online_trajectory import LimiterState, begin_step, end_step
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

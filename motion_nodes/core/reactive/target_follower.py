# SPDX-License-Identifier: Apache-2.0
"""Command arbitration of a policy: targets, velocities, stops, hand-over to other controllers.

The newest command is followed; without one, other controllers may move the robot. A motion begins
at the robot's current reference and ends with a damped stop with obstacle avoidance.

A stuck policy retreats to its posture once for each target, or uses a planner. Local minima are
typically caused by joints on the wrong side of their ranges and by the wrong elbow configuration;
starting near its posture the policy finds a path. Obstacles and limits are respected during the
retreat, and no planner is needed. A planner may solve cases that the retreat does not, and is tried
first if available; if it fails, the posture is tried, and the planner again later. A target that
the planner reports as unreachable or in collision is not tried again until it moves or the scene
changes. Plans ignore that obstacles move: no planner is called while one approaches, and the policy
takes over from a plan when one comes close.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_motion import (
    AT_REST,
    MotionStep,
    PolicyMotion,
    stop_positions,
)
from motion_nodes.core.reactive.policy_state import (
    SILENT,
    Errors,
    FollowerSettings,
    Phase,
    RobotMotion,
    Standstill,
    error_of,
    errors_of,
    is_near,
)
from motion_nodes.core.reactive.singularity import TwistScaler
from motion_nodes.core.reactive.targets import (
    FollowerCommand,
    JogCommand,
    PoseCommand,
    PostureCommand,
    TwistCommand,
)
from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.scene import checked_pose
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

_NEAR = 0.3  # [rad or m] tolerance of the posture for the end of a retreat
_LONGEST = 15.0  # [s] max duration of a retreat
_SLOW = 0.05
"""Max joint velocity at arrival [rad/s or m/s]."""
_BEHIND = 0.005
"""Max lag of the controller at arrival [rad or m]."""
_PERIOD = 0.003
"""Period of the checks in faster loops [s]."""
_UNKNOWN = Errors(float("nan"), float("nan"), float("nan"))
_LONGEST_STOP = 2.0
"""Max duration of a stop [s]."""
_PASSING = 2.0
"""Time within which an obstacle may not reach the robot when a planner is called [s]."""
_CLOSE = 0.7
"""Time within which an obstacle may not reach the robot while a planner moves it [s]."""
_NEW_TARGET = 0.05
"""Distance by which a target must move to allow another plan [m]; 1 rad counts as 0.1 m."""


class EscapeAttempts:
    """Recovery attempts for a target, and which may be tried next."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset, as for a new target."""
        self.retreating = False
        """Whether only the posture is active (retreat)."""
        self._retreated = False
        self._retreat_lasted = 0.0
        self._no_planner_until = -math.inf
        self._impossible = False
        self.X_WT: Array | None = None
        """Target of the last planner request, shape (4, 4); None before the first."""
        self.fault = ""
        """Why the planner failed; empty if it did not."""
        self.brought = False
        """Whether a planner has just moved the arm to the target."""

    def retreat(self, settings: FollowerSettings) -> bool:
        """Begin a retreat, unless already tried or disabled; return whether it begins."""
        self.retreating = settings.retreat and not self._retreated and not self._impossible
        self._retreated |= self.retreating
        return self.retreating

    def step(self, posture_error: float, stuck: bool, dt: float) -> bool:
        """Return whether the retreat ends with this step.

        Args:
            posture_error: max distance of a joint from the posture [rad or m].
            stuck: whether the posture makes no progress, either.
            dt: length of the step [s].

        Returns:
            Whether it ends.
        """
        self._retreat_lasted += dt
        self.retreating = posture_error > _NEAR and not stuck and self._retreat_lasted < _LONGEST
        return not self.retreating

    def may_ask_planner(self, settings: FollowerSettings, now: float) -> bool:
        """Return whether a planner may be called; ``now`` is a time [s]."""
        return settings.escape and now >= self._no_planner_until

    def planned(
        self, settings: FollowerSettings, now: float, fault: str, *, impossible: bool = False
    ) -> None:
        """Process the result of a planner request.

        Args:
            settings: define when it may try again.
            now: time [s].
            fault: why it failed; empty if it did not.
            impossible: whether the target itself is unreachable or in collision.
        """
        self.fault, self.brought, self._impossible = fault, not fault, impossible
        pause = math.inf if impossible else settings.escape_pause
        self._no_planner_until = now + pause if fault else -math.inf

    def scene_changed(self, settings: FollowerSettings, now: float) -> None:
        """Allow another attempt for a target that was unreachable in the previous scene."""
        if self._impossible:
            self._impossible = False
            self._no_planner_until = now + settings.escape_pause


class ArrivalCheck:
    """Compares the last state of a policy with a target."""

    def __init__(self, policy: RmpflowPolicy, settings: FollowerSettings) -> None:
        self._policy, self._settings = policy, settings
        self._standstill = Standstill()
        self._passed = 0.0
        self.forget()

    def forget(self) -> None:
        """Reset the errors, as without a target."""
        self.errors = _UNKNOWN
        """Distance of the robot from its target."""
        self.behind = 0.0
        """Max lag of a joint controller behind the policy [rad or m]."""

    def due(self, dt: float) -> float:
        """Return the time since the last check if one is due after a step [s], else 0."""
        self._passed += dt
        passed = self._passed if self._passed > _PERIOD else 0.0
        if passed:
            self._passed = 0.0
        return passed

    def measure(self, target: Goal) -> None:
        """Update the errors."""
        seen = self._policy.seen_positions
        self.errors = errors_of(target, self._policy.tool_pose(seen), seen, self._policy.turns)

    def arrived(self, speed: float, *, before: bool) -> bool:
        """Return whether the robot is at the target, with its controller.

        Args:
            speed: of the fastest joint [rad/s or m/s].
            before: whether it had arrived, for hysteresis: small disturbances restart no motion.
        """
        slow = speed < _SLOW and self.behind < _BEHIND
        found = slow and is_near(self.errors, self._settings, 2.0 if before else 1.0)
        if found:
            self._standstill.reset()
        return found

    def stuck(self, target: Goal, speed: float, dt: float) -> bool:
        """Return whether the robot makes no progress, or rests short of the target.

        Args:
            target: the target.
            speed: of the fastest joint [rad/s or m/s].
            dt: time since the last check [s].
        """
        stood = self._standstill.update(speed, error_of(target, self.errors), dt)
        return self._policy.stuck or stood > self._policy.stuck_settings.patience


class Follower:
    """Follows the newest of its commands with a policy. No method is thread-safe.

    Wrong input raises an error and changes nothing. Times [s] are those of one clock.
    """

    def __init__(self, policy: RmpflowPolicy, settings: FollowerSettings | None = None) -> None:
        self.policy = policy
        self.settings = settings or FollowerSettings()
        self.command: FollowerCommand | None = None
        """The followed command, or the one to resume after a pause."""
        self.paused = False
        """Whether :meth:`pause` is active."""
        self._posture = policy.default_cspace_target
        self._escape_attempts = EscapeAttempts()
        self._arrival = ArrivalCheck(policy, self.settings)
        self._next = (Phase.IDLE, "")
        self.phase = Phase.IDLE
        """Current phase."""
        self.reason = ""
        """Reason of the phase; often empty."""
        self.motions = 0
        """Number of motions begun: each is a deliberate command to the joints."""
        self._motion = PolicyMotion(policy)
        self.prepare = self._motion.prepare  # otherwise the first motion does
        self._stopping_for = 0.0
        limits = policy.robot.limits.select(policy.active_joints)
        self._twists = TwistScaler(policy.tool_jacobian, limits.lower, limits.upper)

    def follow_pose(self, X_WT: ArrayLike, at: float, *, oriented: bool = True) -> None:
        """Move the tool to a pose in the world, shape (4, 4), or to its position only.

        Args:
            X_WT: target pose of the tool in the world.
            at: time of the command [s].
            oriented: whether the orientation is constrained.

        Raises:
            InvalidCommand: invalid pose.
        """
        X = checked_pose(np.asarray(X_WT, np.float64), "target")
        if not isinstance(self.command, PoseCommand):
            self._take(PoseCommand(X, at, oriented=oriented, posture=self._posture))
            return
        tried = self._escape_attempts.X_WT
        # Relative to the target of the last plan: small steps accumulate.
        if self.command.distance(X, oriented=oriented, tried=tried) > _NEW_TARGET:
            self._escape_attempts.forget()
            self.command.posture = self._posture
            if self.phase is Phase.ESCAPING:
                self._rest(Phase.FOLLOWING)
        self.command.renew(X, at, oriented=oriented)
        self._resume()

    def follow_posture(self, q: ArrayLike, at: float) -> None:
        """Set the posture, shape (n,): redundancy of a tool target, or target if there is none.

        Raises:
            InvalidCommand: wrong length, values that are not finite, or outside the joint limits.
        """
        names = self.policy.active_joints
        limits = self.policy.robot.limits.select(names)
        posture = frozen(limits.settled(finite_numbers(q, names, "posture")))
        faults = limits.violations(posture)
        if faults:
            raise InvalidCommand(f"the posture is outside the joint limits: {faults[0]}.")
        self._posture = posture
        if isinstance(self.command, PoseCommand):
            self._escape_attempts.brought = False
            self.command.posture = posture
        elif isinstance(self.command, PostureCommand):
            self.command.posture, self.command.at = posture, at
            self._resume()
        else:
            self._take(PostureCommand(posture, at))

    def follow_twist(self, twist: ArrayLike, at: float) -> None:
        """Move the tool: linear [m/s] and angular velocity [rad/s] in the world's axes, (6,).

        Raises:
            InvalidCommand: values that are not finite, or wrong length.
        """
        numbers = finite_numbers(twist, 6, "twist")
        if isinstance(self.command, TwistCommand):
            self.command.twist, self.command.at = numbers, at
        elif not self.paused:
            self._take(TwistCommand(numbers, at))

    def follow_jog(self, velocity: ArrayLike, at: float) -> None:
        """Move the joints at velocities [rad/s or m/s], shape (n,).

        Raises:
            InvalidCommand: values that are not finite, or wrong length.
        """
        numbers = finite_numbers(velocity, self.policy.active_joints, "speed")
        if isinstance(self.command, JogCommand):
            self.command.velocity, self.command.at = numbers, at
        elif not self.paused:
            self._take(JogCommand(numbers, at))

    def clear(self, reason: str = "") -> None:
        """Clear the command and stop."""
        self._stop(Phase.IDLE, reason)

    def end_servo(self) -> None:
        """Clear a velocity command and stop; a target stays."""
        if self.command is not None and self.command.servo:
            self.clear()

    def lose(self, reason: str) -> None:
        """Stop because of a fault."""
        self._stop(Phase.STOPPED, reason)

    def drop(self, reason: str) -> None:
        """Stop commanding immediately: the robot is absent or moved by another controller."""
        self.command = None
        self._rest(Phase.STOPPED, reason)

    def give_way(self, reason: str, *, blocked: bool = False) -> None:
        """Stop commanding immediately: preempted by a newer command, or blocked.

        Args:
            reason: the preempting command, or the cause of the stop.
            blocked: whether the joints were stopped by a contact.
        """
        self.command = None
        self._rest(Phase.STOPPED if blocked else Phase.IDLE, reason)

    def pause(self, on: bool) -> None:
        """Stop and stay at rest, or resume the target."""
        if on == self.paused:
            return
        self.paused = on
        if on:
            target = None if self.command is None or self.command.servo else self.command
            self._stop(Phase.PAUSED)
            self.command = target
        elif self.command is not None:
            self._resume()
        elif self.phase is Phase.STOPPING:
            self._next = (Phase.IDLE, "")
        else:
            self._rest(Phase.IDLE)

    def reset(self) -> None:
        """Clear the command, the posture and the policy's state; obstacles stay."""
        scene = self.policy.scene
        self.policy.reset()
        self.policy.set_scene(scene)
        self._posture = self.policy.default_cspace_target
        self.command = None
        self._rest(Phase.IDLE)

    @property
    def errors(self) -> Errors:
        """Distance of the robot from its target."""
        return self._arrival.errors

    @property
    def silent(self) -> bool:
        """Whether nothing is commanded."""
        return self.phase in SILENT

    @property
    def escaping(self) -> bool:
        """Whether a planner moves the robot, or is about to."""
        about_to = self.phase is Phase.STOPPING and self._next[0] is Phase.ESCAPING
        return about_to or self.phase is Phase.ESCAPING

    @property
    def leading(self) -> bool:
        """Whether a motion has begun and not ended."""
        return self._motion.positions is not None and not self.silent

    @property
    def posture(self) -> Array:
        """Posture for the redundancy of a target [rad or m], shape (n,)."""
        return self._posture

    @property
    def text(self) -> str:
        """Phase and reason as text."""
        return f"{self.phase.value}: {self.reason}" if self.reason else self.phase.value

    @property
    def escape_target(self) -> PoseCommand | None:
        """Target of a planner request, if any; the follower waits for :meth:`hand_back`."""
        waits = self.phase is Phase.ESCAPING and isinstance(self.command, PoseCommand)
        return self.command if waits else None  # type: ignore[return-value]

    def hand_back(self, now: float, fault: str = "", *, impossible: bool = False) -> None:
        """Resume after an escape.

        Args:
            now: time [s].
            fault: why it failed; empty if it did not.
            impossible: whether the target itself is in collision or unreachable: then it is not
                tried again until the target moves or :meth:`scene_changed`.

        The final configuration of the plan is the posture until the next target: the path back to
        the default posture may be blocked, and its attraction would pull the tool off the target.
        """
        if self.phase is Phase.ESCAPING:
            self._rest(Phase.FOLLOWING)
            self._escape_attempts.planned(self.settings, now, fault, impossible=impossible)

    def scene_changed(self, now: float) -> None:
        """Allow another escape to a target that was in collision or unreachable."""
        self._escape_attempts.scene_changed(self.settings, now)

    def step(self, robot: RobotMotion | None, dt: float, now: float) -> tuple[Array, Array] | None:
        """Return references of the active joints, (n,) each; None: no change.

        Args:
            robot: the newest state; None if none arrived since the last step.
            dt: time since the last step [s]; nothing moves unless it is above 0.
            now: time [s].

        Returns:
            Positions [rad or m] and velocities [rad/s or m/s], or None.
        """
        self._check_age(now)
        if robot is not None and not self.silent:
            self._check_robot(robot, now)
        if robot is not None and self.escaping:
            self._check_escape(robot)
        if self.silent or dt <= 0.0 or (robot is None and self._motion.positions is None):
            self.policy.elapse(max(dt, 0.0))
            return None
        if self._motion.positions is None:
            assert robot is not None
            self._begin(robot)

        if self.phase is Phase.STOPPING and self._stands():
            # Without a command a repulsive RMP, as of a link close to another one, would move it.
            held = self._motion.positions
            self._rest(*self._next)
            return None if held is None else (held, np.zeros(len(held)))

        def set_goal(here: Array, period: float) -> None:
            if self.command is not None and self.phase is not Phase.STOPPING:
                if isinstance(self.command, TwistCommand):
                    self.command.scale = self._twists.scale(
                        here, self.command.twist, self.settings.singularity
                    )
                goal = self.command.goal_at(self.policy, here, period, now)
                retreating = self._escape_attempts.retreating
                self.policy.set_goal(Goal(self._posture) if retreating else goal)

        step = self._motion.step(robot, dt, self.settings.max_tracking_error, set_goal)
        return None if step is None else self._reference_to_send(step, now)

    def rest_at(self, dt: float) -> tuple[Array, Array] | None:
        """Stop immediately; return the rest positions and zero velocities; None: already at rest.

        Args:
            dt: steps in which the stop is computed [s].
        """
        q = None if self.silent else self._motion.positions
        if q is not None:
            q = stop_positions(self.policy, q, dt, _LONGEST_STOP)
        self.command = None
        self._rest(Phase.IDLE)
        return None if q is None else (q, np.zeros(len(q)))

    def _take(self, command: FollowerCommand) -> None:
        if self.phase is Phase.ESCAPING:
            self._rest(Phase.FOLLOWING)
        self.command = command
        self._escape_attempts.forget()
        self.policy.forget_progress()
        self._resume()

    def _resume(self) -> None:
        """Follow the command, unless it is already reached or another controller has the robot."""
        if self.paused:
            if self.phase in (Phase.IDLE, Phase.STOPPED):
                self._rest(Phase.PAUSED)
        elif self.phase in (Phase.IDLE, Phase.STOPPED, Phase.PAUSED, Phase.STOPPING):
            self.phase, self.reason = Phase.FOLLOWING, ""

    def _stop(self, after: Phase, reason: str = "", *, keep: bool = False) -> None:
        """Stop, then enter a phase."""
        if not keep:
            self.command = None
        if self.silent or self._motion.positions is None:
            self._rest(after, reason)
        else:
            self.policy.stop()
            self._next = (after, reason)
            self._stopping_for = 0.0
            self.phase, self.reason = Phase.STOPPING, reason

    def _rest(self, phase: Phase, reason: str = "") -> None:
        """Stop commanding until a motion begins."""
        idle = phase in (Phase.IDLE, Phase.STOPPED)
        self.phase = Phase.PAUSED if idle and self.paused else phase
        self.reason = reason
        self._arrival.forget()
        self._motion.end()

    def _check_age(self, now: float) -> None:
        command, settings = self.command, self.settings
        if command is None:
            return
        if command.servo:
            if now - command.at > settings.command_timeout:
                self.clear()
        elif now - command.at > settings.target_timeout:
            self.lose(f"the target was not renewed for {settings.target_timeout:g} s")

    def _check_robot(self, robot: RobotMotion, now: float) -> None:
        """Release a robot that is moved by another controller, or does not follow."""
        own = self.policy.get_internal_robot_joint_states()
        if self._motion.positions is None or own is None:
            return
        if robot.reference_q is not None:
            self._arrival.behind = float(np.abs(robot.reference_q - own[0]).max())
        if self._motion.is_superseded(robot, now):
            self.command = None
            self._rest(Phase.IDLE, "another command has the joints")
            return
        if self.phase is not Phase.STOPPING:
            fault = self._motion.tracking_fault(robot, self.settings.max_tracking_error)
            if fault:
                self.lose(fault)

    def _check_escape(self, robot: RobotMotion) -> None:
        """Take over from a planner if a moving obstacle comes close."""
        if self.policy.approaching(robot.q, _CLOSE):
            self.policy.forget_progress()
            if self.phase is Phase.ESCAPING:
                self._rest(Phase.FOLLOWING)
            self.phase, self.reason = Phase.FOLLOWING, ""

    def _stands(self) -> bool:
        """Return whether the newest reference is at rest."""
        own = self.policy.get_internal_robot_joint_states()
        return own is not None and float(np.abs(own[1]).max(initial=0.0)) < AT_REST

    def _begin(self, robot: RobotMotion) -> None:
        start = self._motion.begin(robot)
        self.motions += 1
        if self._escape_attempts.brought and isinstance(self.command, PoseCommand):
            self.command.posture = start.copy()
        self._escape_attempts.brought = False

    def _reference_to_send(self, step: MotionStep, now: float) -> tuple[Array, Array] | None:
        """Update the phase, and return the reference to send."""
        self._stopping_for += step.period
        still = float(np.abs(step.qd).max()) < AT_REST
        if self.phase is Phase.STOPPING:
            if still or self._stopping_for > _LONGEST_STOP:
                self._rest(*self._next)
                return step.q, np.zeros(len(step.q))
        else:
            due = self._arrival.due(step.period)
            if due > 0.0:
                self._update_phase(step.qd, due, now)
        resting = still and self.phase in (Phase.ARRIVED, Phase.STUCK)
        return self._motion.to_send(step, now, resting=resting)

    def _update_phase(self, qd: Array, dt: float, now: float) -> None:
        place = None if self.command is None else self.command.place()
        if place is None:
            self._arrival.forget()
            self.phase, self.reason = Phase.FOLLOWING, ""
            return
        self._arrival.measure(place)
        if self._escape_attempts.retreating:
            if self._escape_attempts.step(self.errors.posture, self.policy.stuck, dt):
                self.policy.forget_progress()
            return
        speed = float(np.abs(qd).max())
        if self._arrival.arrived(speed, before=self.phase is Phase.ARRIVED):
            self.phase, self.reason = Phase.ARRIVED, ""
        elif self._arrival.stuck(place, speed, dt):
            self._note_stuck(now)
        else:
            self.phase, self.reason = Phase.FOLLOWING, ""

    def _note_stuck(self, now: float) -> None:
        self.phase = Phase.STUCK
        why = self._motion.obstruction or "no progress towards the target"
        self.reason = self._escape_attempts.fault or why
        if not isinstance(self.command, PoseCommand):
            return
        X_WT = self.command.X_WT
        moving = self.policy.approaching(self.policy.seen_positions, _PASSING)
        if moving:
            self.reason = f"{why}; {moving} moves, and must pass or rest before another try"
        elif self._escape_attempts.may_ask_planner(self.settings, now):
            self._escape_attempts.X_WT = X_WT
            self._stop(Phase.ESCAPING, "stuck; a planner moves the arm to the target", keep=True)
        elif self._escape_attempts.retreat(self.settings):
            self._escape_attempts.X_WT = X_WT
            self.policy.forget_progress()
            self.phase, self.reason = Phase.FOLLOWING, "stuck; back to the posture for another try"

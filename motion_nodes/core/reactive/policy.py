# SPDX-License-Identifier: Apache-2.0
"""RMPflow as a policy: targets, obstacles and a state in, joint targets out.

Method names are those of Isaac Sim's ``RmpFlow``, for easy porting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.integration import (
    Integrator,
    JointMotion,
    Smoothing,
    SmoothingSettings,
    substeps,
)
from motion_nodes.core.reactive.numpy_policy import Goal, NumpyEvaluation
from motion_nodes.core.reactive.obstacle_scene import MovingScene
from motion_nodes.core.reactive.policy_state import (
    Errors,
    PolicyStatus,
    PolicyView,
    StuckSettings,
    TargetProgress,
    errors_of,
    watch,
)
from motion_nodes.core.reactive.targets import joint_lead, tool_lead
from motion_nodes.core.robot.bounds import JOINT_STATE, VELOCITY, finite_numbers
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings, read_rmpflow
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.scene import Scene, checked_pose
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import STANDING_SPEED
from motion_nodes.typing import Array

_SAG_SETTLING = 0.15  # [s] time constant of the estimated steady-state error
_WATCH_PERIOD = 0.02  # [s] between progress checks; more of them add no information
# [s] max duration in which the posture follows the joints after a stop, then it is held
_BRAKING = 0.5
_SETTLING = 10.0
"""Damping of joints that RMPs would accelerate during a stop [1/s]."""


class RmpflowPolicy:
    """Moves the joints of a robot to a target with obstacle avoidance, within all joint limits.

    Wrong input raises an error and changes nothing. No method is thread-safe.
    """

    def __init__(
        self,
        robot: Robot,
        settings: RmpflowSettings | None = None,
        *,
        joints: Sequence[str] | str = "arm",
        tool: str | None = None,
        ignore_robot_state_updates: bool = False,
        bounded_jerk: bool = True,
    ) -> None:
        """Create the policy; code is compiled at the first use of a robot.

        Args:
            robot: with collision spheres or collision geometry.
            settings: parameters; default: ``rmpflow.yaml`` in the robot's folder.
            joints: names of the active joints, or a group's name.
            tool: frame of the targets; default: the robot's.
            ignore_robot_state_updates: whether the policy integrates its own state; a robot that
                lags behind its targets then has no influence.
            bounded_jerk: whether jerk limits are respected; those of position, velocity and
                acceleration always are.

        Raises:
            UnknownGroup, UnknownJoint, UnknownFrame: a name that the robot does not have.
            InvalidDescription: the robot has no settings, or they cannot be read.
            InvalidConfig: settings that do not fit the robot.
        """
        active = robot.group(joints).joints if isinstance(joints, str) else tuple(joints)
        frame = tool or robot.tool_frame
        if frame is None:
            raise InvalidConfig(
                f"{robot.name} has no tool frame; specify the frame of the targets."
            )
        self.robot, self.tool = robot, frame
        self.turns = robot.limits.select(active).turns
        """Differences of positions of the active joints."""
        self._longest_substep = 0.00334
        self._evaluator = Evaluator(robot, active, frame, settings or read_rmpflow(robot.directory))
        most = self._evaluator.settings.canonical_resolve.max_acceleration_norm
        self._integrator = Integrator(self._evaluator.limits, most, bounded_jerk=bounded_jerk)
        self._integrator.set_max_velocity(self._evaluator.bounds.max_velocity)
        posture = robot.named_state(self.settings.default_posture)
        self._default_posture = frozen(posture[robot.indices(active)])
        self._smoothing: Smoothing | None = None
        self._progress = TargetProgress()
        self._ignore_updates = ignore_robot_state_updates
        self._surroundings = MovingScene(robot, frame, self._evaluator)
        self._watched_q = robot.home[robot.indices(self.watched_joints)].copy()
        self.reset()

    def reset(self) -> None:
        """Clear targets, obstacles, attached bodies and state; keep parameters and base pose."""
        self._surroundings.reset()
        self._posture: Array = self._default_posture
        self._position: Array | None = None
        self._rotation: Array | None = None
        self._state: JointMotion | None = None
        self._sag = np.zeros(len(self.active_joints))
        """Offset from the state to the positions used by the RMPs: lag of the measured joints."""
        self._watched_qd = np.zeros(len(self.watched_joints))
        self._stopping, self._braked = False, 0.0
        self._unwatched = 0.0
        self._progress.reset()
        if self._smoothing is not None:
            self._smoothing.reset()
        self._refresh_goal()

    # ---- inputs

    @property
    def maximum_substep_size(self) -> float:
        """Max step of the integration [s]; may be set.

        Raises:
            InvalidConfig: a new value is not above 0 and finite.
        """
        return self._longest_substep

    @maximum_substep_size.setter
    def maximum_substep_size(self, size: float) -> None:
        if not (math.isfinite(size) and size > 0.0):
            raise InvalidConfig(
                f"maximum_substep_size is {size} s; it must be above 0 and finite.",
                field="maximum_substep_size",
            )
        self._longest_substep = size

    def set_robot_base_pose(self, X_WB: ArrayLike) -> None:
        """Set the pose of the robot's base frame in the world, shape (4, 4).

        Raises:
            InvalidCommand: invalid pose.
        """
        X = checked_pose(np.asarray(X_WB, np.float64), "base of the robot")
        self._surroundings.set_base(X)
        self._refresh_goal()

    @property
    def default_cspace_target(self) -> Array:
        """Default posture of the active joints [rad or m], shape (n,)."""
        return self._default_posture

    def set_cspace_target(self, q: ArrayLike) -> None:
        """Set the target posture; with a target of the tool it resolves the redundancy.

        Args:
            q: positions of the active joints [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong length, or values that are not finite.
        """
        self._posture = frozen(finite_numbers(q, self.active_joints, "posture"))
        self._stopping = False
        self._refresh_goal()

    def set_end_effector_target(
        self, position: ArrayLike | None = None, orientation: ArrayLike | None = None
    ) -> None:
        """Set the target position and orientation of the tool in the world, or one of them.

        Args:
            position: of the tool [m], shape (3,); None: unconstrained.
            orientation: of the tool, quat_xyzw, shape (4,); None: unconstrained. Without both, only
                the posture is active.

        Raises:
            InvalidCommand: values that are not finite, wrong lengths, or no rotation.
        """
        p = None if position is None else finite_numbers(position, 3, "position")
        R = None
        if orientation is not None:
            quaternion = finite_numbers(orientation, 4, "orientation (quat_xyzw)")
            if np.linalg.norm(quaternion) < 1e-6:
                raise InvalidCommand(
                    "the target's orientation (quat_xyzw) is zero.", field="orientation"
                )
            R = from_xyz_quat((0.0, 0.0, 0.0), quaternion)[:3, :3]
        self._position, self._rotation = p, R
        self._stopping = False
        self._refresh_goal()

    def set_goal(self, goal: Goal) -> None:
        """Set posture and tool pose in the world at once, without validation.

        Faster for goals that move in each frame.
        """
        self._posture, self._position, self._rotation = goal.posture, goal.position, goal.rotation
        self._stopping = False
        self._refresh_goal()

    def stop(self) -> None:
        """Stop with damping, and stay at rest until there is a new target.

        Limits are respected; obstacles make joints brake harder, and push none of them back. For
        lost targets.
        """
        self._position = self._rotation = None
        if not self._stopping:
            self._braked = 0.0
        self._stopping = True
        self._refresh_goal()

    def set_scene(self, scene: Scene, now: float | None = None) -> None:
        """Set the obstacles and attached bodies.

        Objects that are disabled, or with which all links may collide, have no effect. The twists
        of objects are estimated from successive scenes, and their poses predicted in between.

        Args:
            scene: the world.
            now: time on the clock of the objects' stamps (``observed_at``) [s]; None: poses count
                as observed now.

        Raises:
            InvalidCommand: an attached body is not supported; the previous scene stays.
        """
        self._surroundings.set_scene(scene, now)

    def use_distance_field(self, by_field: bool) -> None:
        """Select whether the octomap of a scene is avoided by its distance field.

        Each sphere of the robot then avoids the voxel that is nearest to it, in a time that does
        not depend on the number of voxels; else it avoids all boxes that cover the voxels.
        """
        self._surroundings.use_field(by_field)

    def set_obstacle_twists(self, twists: Mapping[str, ArrayLike]) -> None:
        """Set the twists of obstacles, instead of estimating them from successive scenes.

        Args:
            twists: by name of the object: velocity of its origin [m/s] and angular velocity [rad/s]
                in the world, shape (6,). They are valid until the next call.

        Raises:
            InvalidCommand: values that are not finite, or wrong lengths.
        """
        self._surroundings.set_twists(
            {name: finite_numbers(twist, 6, f"twist of '{name}'") for name, twist in twists.items()}
        )

    def elapse(self, duration: float) -> None:
        """Advance the time [s] without a frame, for the estimation of obstacle twists."""
        self._surroundings.elapse(duration)

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Change parameters at run time, such as ``{"target_rmp.accel_p_gain": 40.0}``.

        Raises:
            InvalidConfig: an unknown name or a value that is not allowed; then nothing changes.
        """
        self.set_settings(self.settings.with_parameters(values))

    def set_settings(self, settings: RmpflowSettings) -> None:
        """Replace the parameters; frames of body controllers do not change.

        Raises:
            InvalidConfig: they do not fit the robot; the previous parameters stay.
        """
        self._evaluator.set_settings(settings)
        self._integrator.set_max_velocity(self._evaluator.bounds.max_velocity)

    def set_stuck(self, stuck: StuckSettings) -> None:
        """Change the criteria for a stuck policy at run time."""
        self._progress.settings = stuck

    def set_smoothing(self, smoothing: SmoothingSettings | None) -> None:
        """Set the time scaling at jumps, or disable it (None)."""
        if smoothing is None:
            self._smoothing = None
        elif self._smoothing is None:
            self._smoothing = Smoothing(smoothing)
        else:
            self._smoothing.settings = smoothing

    @property
    def ignores_state_updates(self) -> bool:
        """Whether the policy integrates its own state."""
        return self._ignore_updates

    def set_ignore_state_updates(self, ignore: bool) -> None:
        """Select whether the policy integrates its own state or the robot's."""
        self._ignore_updates = ignore

    # ---- steps

    def set_internal_robot_joint_states(
        self,
        active_q: ArrayLike,
        active_qd: ArrayLike,
        watched_q: ArrayLike | None = None,
        watched_qd: ArrayLike | None = None,
    ) -> None:
        """Set the policy's own state, e.g. to the measured state of the robot.

        Args:
            active_q: positions of the active joints [rad or m], shape (n,).
            active_qd: velocities of the active joints [rad/s or m/s], shape (n,).
            watched_q: positions of the watched joints, shape (m,); None: unchanged.
            watched_qd: velocities of the watched joints, shape (m,); None: at rest.

        Raises:
            InvalidCommand: wrong lengths, or values that are not finite; nothing changes.
        """
        q, qd = self._measured(active_q, active_qd)
        self._set_watched(watched_q, watched_qd)
        self._state = JointMotion(q, qd, np.zeros(len(q)))
        self._sag = np.zeros(len(q))

    def get_internal_robot_joint_states(self) -> tuple[Array, Array, Array, Array] | None:
        """Return positions [rad or m] and velocities of active and watched joints, or None."""
        if self._state is None:
            return None
        parts = (self._state.q, self._state.qd, self._watched_q, self._watched_qd)
        return parts[0].copy(), parts[1].copy(), parts[2].copy(), parts[3].copy()

    def compute_joint_targets(
        self,
        active_q: ArrayLike,
        active_qd: ArrayLike,
        watched_q: ArrayLike | None = None,
        watched_qd: ArrayLike | None = None,
        frame_duration: float = 1.0 / 60.0,
    ) -> tuple[Array, Array]:
        """Return positions and velocities of the active joints after a frame, shape (n,) each.

        If the policy uses the robot's state, drives that sag or lag get targets only slightly ahead
        of their positions, and may never arrive; see :meth:`compute_reference`.

        Args:
            active_q: measured positions [rad or m], shape (n,).
            active_qd: measured velocities [rad/s or m/s], shape (n,).
            watched_q: positions of the watched joints; None: unchanged.
            watched_qd: velocities of the watched joints; None: at rest.
            frame_duration: frame duration [s].

        Raises:
            InvalidCommand: wrong lengths, or values that are not finite; nothing changes.
            InvalidConfig: an invalid duration.
        """
        count, dt = substeps(frame_duration, self._longest_substep)
        own = self._state
        if own is None or not self._ignore_updates:
            q, qd = self._measured(active_q, active_qd)
            last = np.zeros(len(q)) if own is None else own.qdd
            state = JointMotion(q, qd, last)
        else:
            state = own.copy()
        self._set_watched(watched_q, watched_qd)
        self._sag = np.zeros(len(state.q))
        return self._advance(state, count, dt)

    def compute_reference(
        self,
        active_q: ArrayLike,
        active_qd: ArrayLike,
        watched_q: ArrayLike | None = None,
        watched_qd: ArrayLike | None = None,
        frame_duration: float = 1.0 / 60.0,
        most_ahead: float = 0.3,
    ) -> tuple[Array, Array]:
        """Return the references of the drives after a frame, with feedback from measured positions.

        RMPs use the measured positions, but each reference continues from the previous one, at its
        velocity. So it leads joints that sag under their weight or lag, by as much as necessary,
        and a steady-state error at a target at rest is integrated away. The lag of the joints is
        low-pass filtered, so measurements may be delayed.

        Args:
            active_q: as for :meth:`compute_joint_targets`.
            active_qd: likewise; used when the reference is reset to the joints.
            watched_q: likewise.
            watched_qd: likewise.
            frame_duration: frame duration [s].
            most_ahead: max distance between reference and joint, e.g. if the joint is blocked;
                beyond it the reference moves along with the joint [rad or m].

        Raises:
            InvalidCommand: wrong lengths, or values that are not finite; nothing changes.
            InvalidConfig: an invalid duration.
        """
        count, dt = substeps(frame_duration, self._longest_substep)
        q, qd = self._measured(active_q, active_qd)
        own = self._state
        state = JointMotion(q, qd, np.zeros(len(q))) if own is None else own.copy()
        ahead = self.turns.difference(q, state.q)
        far = np.abs(ahead) > most_ahead
        state.q = np.where(far, q + np.clip(ahead, -most_ahead, most_ahead), state.q)
        state.qd = np.where(far, qd, state.qd)
        self._set_watched(watched_q, watched_qd)
        sag = q - state.q
        new = 1.0 - math.exp(-frame_duration / _SAG_SETTLING)
        self._sag = np.where(far, sag, self._sag + new * (sag - self._sag))
        return self._advance(state, count, dt)

    def hold_reference(self, q: ArrayLike, qd: ArrayLike | None = None) -> None:
        """Reset the reference to previously commanded positions, at rest by default.

        Args:
            q: positions [rad or m], shape (n,).
            qd: velocities [rad/s or m/s], shape (n,); None: at rest.

        Raises:
            InvalidCommand: wrong length, or values that are not finite; nothing changes.
        """
        positions = finite_numbers(q, self.active_joints, "reference")
        rest = np.zeros(len(positions))
        speed = rest if qd is None else finite_numbers(qd, self.active_joints, "velocity")
        self._state = JointMotion(positions, speed, rest)

    def _measured(self, active_q: ArrayLike, active_qd: ArrayLike) -> tuple[Array, Array]:
        """Return measured positions and velocities; these within the limits, whatever their noise.

        Raises:
            InvalidCommand: wrong lengths, values that are not finite or not plausible.
        """
        q = finite_numbers(active_q, self.active_joints, "active_q", JOINT_STATE)
        qd = finite_numbers(active_qd, self.active_joints, "active_qd", VELOCITY)
        max_velocity = self._evaluator.limits.velocity
        return q, np.clip(qd, -max_velocity, max_velocity)

    # ---- state

    @property
    def active_joints(self) -> tuple[str, ...]:
        """Joints moved by the policy, in the order of its arrays."""
        return self._evaluator.active

    @property
    def watched_joints(self) -> tuple[str, ...]:
        """Joints that only move links passively, in the order of its arrays."""
        return self._evaluator.watched

    @property
    def settings(self) -> RmpflowSettings:
        """Parameters in use."""
        return self._evaluator.settings

    @property
    def scene(self) -> Scene:
        """Obstacles in use, and attached bodies."""
        return self._surroundings.scene

    @property
    def obstacle_twists(self) -> dict[str, Array]:
        """Twists of objects that move, in the world [m/s, rad/s], shape (6,) each."""
        return self._surroundings.twists

    @property
    def base_pose(self) -> Array:
        """Pose of the robot's base frame in the world, shape (4, 4)."""
        return self._surroundings.X_WB

    @property
    def stuck_settings(self) -> StuckSettings:
        """Criteria for a stuck policy."""
        return self._progress.settings

    @property
    def stuck(self) -> bool:
        """Whether the target made no progress for the patience time."""
        return self._progress.stuck

    def view(self) -> PolicyView | None:
        """Return all inputs of the next step, for inspection; None before any state."""
        if self._state is None:
            return None
        around = self._surroundings
        return PolicyView(
            self._whole_q(),
            np.concatenate((self._state.qd, self._watched_qd)),
            self._evaluator.goal,
            around.scene,
            around.twists,
            around.X_WB,
            self.settings,
        )

    def report(self) -> NumpyEvaluation | None:
        """Return the contribution of each RMP in the current state; None before any."""
        if self._state is None:
            return None
        qd = np.concatenate((self._state.qd, self._watched_qd))
        return self._evaluator.report(self._whole_q(), qd)

    def tool_pose(self, active_q: ArrayLike) -> Array:
        """Return the pose of the tool in the world, shape (4, 4).

        Raises:
            InvalidCommand: wrong number of positions, or one that is not finite.
        """
        q = finite_numbers(active_q, self.active_joints, "active_q")
        X_BT = self._evaluator.tool_pose(np.concatenate((q, self._watched_q)))
        return np.asarray(self._surroundings.X_WB @ X_BT)

    def tool_jacobian(self, active_q: Array) -> Array:
        """Return the Jacobian of the tool in the world's axes [m, rad], shape (6, n).

        Args:
            active_q: positions of the active joints [rad or m], shape (n,).
        """
        q = np.concatenate((active_q, self._watched_q))
        J = self._evaluator.tool_jacobian(q)[:, : len(active_q)]
        R_WB = self._surroundings.X_WB[:3, :3]
        return np.concatenate((R_WB @ J[:3], R_WB @ J[3:]))

    def sphere_positions(self) -> Array:
        """Return the spheres of the policy's own state in the world [m], shape (s, 4)."""
        if self._state is None:
            return np.empty((0, 4))
        spheres = self._evaluator.sphere_positions(self._whole_q())
        X_WB = self._surroundings.X_WB
        spheres[:, :3] = spheres[:, :3] @ X_WB[:3, :3].T + X_WB[:3, 3]
        return spheres

    def clearance(self) -> float:
        """Return the min distance of a sphere to an obstacle [m]; inf without obstacles."""
        if self._state is None:
            return float("inf")
        return float(self._evaluator.clearances(self._whole_q()).min(initial=np.inf))

    def approaching(self, active_q: Array, lead: float) -> str:
        """Return the name of a moving object that may reach the robot; empty if none does.

        Args:
            active_q: positions of the active joints [rad or m], shape (n,).
            lead: time within which it may reach the robot [s].
        """
        return self._surroundings.approaching(np.concatenate((active_q, self._watched_q)), lead)

    @property
    def seen_positions(self) -> Array:
        """Positions of the active joints as used by the RMPs [rad or m], shape (n,)."""
        assert self._state is not None
        return np.asarray(self._state.q + self._sag)

    @property
    def max_acceleration(self) -> Array:
        """Acceleration limits of the active joints, all finite [rad/s^2 or m/s^2], shape (n,)."""
        return self._integrator.acceleration

    def tool_lead(self, twist: Array) -> Array:
        """Return the lead of a target that moves with a twist, so that the tool does not lag.

        Args:
            twist: linear [m/s] and angular velocity [rad/s], shape (6,).

        Returns:
            Offset [m] and rotation vector [rad], shape (6,).
        """
        return tool_lead(twist, self.settings)

    def joint_lead(self, velocity: Array) -> Array:
        """Return the same for joints, shape (n,) each [rad/s or m/s; rad or m]."""
        return joint_lead(velocity, self.settings.cspace_target_rmp)

    def forget_progress(self) -> None:
        """Restart the progress check, e.g. after the robot was moved by another controller."""
        self._progress.reset()

    @property
    def status(self) -> PolicyStatus:
        """Status after the last step."""
        errors = self._errors()
        speed = 1.0 if self._smoothing is None else self._smoothing.speed_scalar
        return PolicyStatus(
            errors.position,
            errors.orientation,
            errors.posture,
            self._progress.stuck,
            self._stopping,
            speed,
        )

    # ---- inside

    def _advance(self, state: JointMotion, count: int, dt: float) -> tuple[Array, Array]:
        self._turn_posture(state.q)
        self._surroundings.look_around(np.concatenate((state.q + self._sag, self._watched_q)))
        self._integrate(state, count, dt)
        self._state = state
        self._surroundings.elapse(count * dt)
        self._unwatched += count * dt
        if self._stopping:
            self._progress.reset()
        elif self._unwatched >= _WATCH_PERIOD:
            self._watch(self._unwatched)
            self._unwatched = 0.0
        return state.q.copy(), state.qd.copy()

    def _watch(self, duration: float) -> None:
        """Update the progress check after some time [s]."""
        watch(self._progress, self._evaluator.goal, self._errors(), duration)

    def _integrate(self, state: JointMotion, count: int, dt: float) -> None:
        self._evaluator.set_watched(self._watched_q, self._watched_qd)
        done = 0
        while done < count:
            if self._rmps_alone:
                left = count - done
                done += self._integrator.run(state, self._evaluator, self._sag, left, dt)
            if done < count:
                self._step(state, dt)
                done += 1

    @property
    def _rmps_alone(self) -> bool:
        """Whether the steps of a frame depend on the RMPs alone."""
        return self._smoothing is None and not self._stopping

    def _step(self, state: JointMotion, dt: float) -> None:
        if self._stopping:
            self._follow_to_rest(state, dt)
        policy = self._accelerations(state, dt)
        if self._smoothing is None:
            desired = policy(state.qd)
        else:
            desired = self._smoothing.acceleration(policy, state.qd, state.qdd, dt)
        self._integrator.step(state, desired, dt)

    def _accelerations(self, state: JointMotion, dt: float) -> Callable[[Array], Array]:
        """Return the policy in a state, from velocities to accelerations, shape (n,) each."""
        whole_q = np.concatenate((state.q + self._sag, self._watched_q))

        def policy(qd: Array) -> Array:
            qdd = self._evaluator.acceleration(whole_q, np.concatenate((qd, self._watched_qd)))
            if not self._stopping:
                return qdd
            # A stop only brakes: repulsive RMPs would move joints that are nearly at rest.
            damped = -_SETTLING * qd
            return np.where(qdd * damped > damped * damped, qdd, damped)

        return policy

    def _follow_to_rest(self, state: JointMotion, dt: float) -> None:
        """Let the posture follow the joints, so that only damping remains, then hold it.

        Without the hold, distant obstacles would keep moving the joints slowly.
        """
        if self._braked < _BRAKING:
            slow = float(np.abs(state.qd).max(initial=0.0)) < STANDING_SPEED
            self._braked = _BRAKING if slow else self._braked + dt
            self._posture = frozen(state.q + self._sag)
            self._refresh_goal()

    def _errors(self) -> Errors:
        if self._state is None:
            return Errors(float("nan"), float("nan"), float("nan"))
        q = self.seen_positions
        X_BT = self._evaluator.tool_pose(np.concatenate((q, self._watched_q)))
        return errors_of(self._evaluator.goal, X_BT, q, self.turns)

    def _set_watched(self, q: ArrayLike | None, qd: ArrayLike | None) -> None:
        names = self.watched_joints
        checked_q = self._watched_q if q is None else finite_numbers(q, names, "watched_q")
        checked_qd = np.zeros(len(names)) if qd is None else finite_numbers(qd, names, "watched_qd")
        self._watched_q, self._watched_qd = checked_q, checked_qd

    def _whole_q(self) -> Array:
        return np.concatenate((self.seen_positions, self._watched_q))

    def _turn_posture(self, q: Array) -> None:
        """Approach the posture the short way from positions [rad or m], shape (n,)."""
        if self.turns.any and not self._stopping:
            near = self.turns.nearest(self._posture, q)
            if not np.array_equal(near, self._posture):
                self._posture = frozen(near)
                self._refresh_goal()

    def _refresh_goal(self) -> None:
        """Transform the targets to the base frame."""
        X_BW = self._surroundings.X_BW
        p, R = self._position, self._rotation
        position = None if p is None else X_BW[:3, :3] @ p + X_BW[:3, 3]
        rotation = None if R is None else X_BW[:3, :3] @ R
        self._evaluator.set_goal(Goal(self._posture, position, rotation))

# SPDX-License-Identifier: Apache-2.0
"""RMPflow as a policy: targets, obstacles and a state in, joint targets out.

Method names are those of Isaac Sim's ``RmpFlow``, so that what was written for it reads the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import BadCommand, BadConfig
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.rmpflow_file import read_rmpflow
from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, frozen
from motion_nodes.rmpflow.evaluation import Goal
from motion_nodes.rmpflow.evaluator import Evaluator
from motion_nodes.rmpflow.integration import Integrator, JointMotion, substeps
from motion_nodes.rmpflow.moving_scene import MovingScene
from motion_nodes.rmpflow.numbers import finite_numbers, joint_numbers
from motion_nodes.rmpflow.observed import ObservedPolicy
from motion_nodes.rmpflow.progress import Progress, StuckSettings
from motion_nodes.rmpflow.smoothing import Smoothing, SmoothingSettings
from motion_nodes.rmpflow.status import Errors, PolicyStatus, errors_of, watch
from motion_nodes.scene.scene import Scene, checked_pose

_AT_REST = 1e-3  # [rad/s or m/s]
_BRAKING = 0.5  # [s] what is stopped goes along for so long at most, then it is held


class RmpflowPolicy(ObservedPolicy):
    """Leads the joints of a robot to a target, around obstacles, within all limits.

    Wrong input raises an error and changes nothing. No method is thread-safe.
    """

    def __init__(
        self,
        robot: Robot,
        settings: RmpflowSettings | None = None,
        *,
        joints: Sequence[str] | str = "arm",
        tool: str | None = None,
        maximum_substep_size: float = 0.00334,
        ignore_robot_state_updates: bool = False,
        bounded_jerk: bool = True,
        smoothing: SmoothingSettings | None = None,
        stuck: StuckSettings | None = None,
        generic: bool = False,
    ) -> None:
        """Prepare; code is compiled the first time for a robot.

        Args:
            robot: with collision spheres or collision geometry.
            settings: parameters; default: ``rmpflow.yaml`` in the robot's folder.
            joints: those to lead, by name, or a group's name.
            tool: frame that targets are for; default: the robot's.
            maximum_substep_size: longest step of the integration [s].
            ignore_robot_state_updates: whether the policy goes on from its own state; a robot that
                lags behind its targets then has no influence.
            bounded_jerk: whether limits of jerk are kept; those of position, velocity and
                acceleration always are.
            smoothing: scaling of time at jumps; default: none.
            stuck: when the policy counts as stuck.
            generic: True to use no generated code.

        Raises:
            UnknownGroup, UnknownJoint, UnknownFrame: for a name that the robot has not.
            BadDescription: the robot has no settings, or ones that cannot be read.
            BadConfig: settings that do not fit.
        """
        if not (math.isfinite(maximum_substep_size) and maximum_substep_size > 0.0):
            raise BadConfig(
                f"maximum_substep_size is {maximum_substep_size} s; it must be above 0 and finite."
            )
        active = robot.group(joints).joints if isinstance(joints, str) else tuple(joints)
        frame = tool or robot.tool_frame
        if frame is None:
            raise BadConfig(f"{robot.name} names no tool frame; say which frame targets are for.")
        self.robot, self.tool = robot, frame
        self.maximum_substep_size = maximum_substep_size
        self._evaluator = Evaluator(
            robot, active, frame, settings or read_rmpflow(robot.directory), generic=generic
        )
        most = self._evaluator.settings.canonical_resolve.max_acceleration_norm
        self._integrator = Integrator(
            self._evaluator.limits, most, bounded_jerk=bounded_jerk, generic=generic
        )
        self._integrator.set_max_velocity(self._evaluator.bounds.max_velocity)
        self._default_posture = frozen(robot.home[robot.indices(active)])
        self._smoothing = Smoothing(smoothing) if smoothing is not None else None
        self._progress = Progress(stuck)
        self._ignore_updates = ignore_robot_state_updates
        self._surroundings = MovingScene(robot, frame, self._evaluator)
        self._watched_q = robot.home[robot.indices(self.watched_joints)].copy()
        self.reset()

    def reset(self) -> None:
        """Forget targets, obstacles, what is carried and the state; keep parameters and base."""
        self._surroundings.reset()
        self._posture: Array = self._default_posture
        self._position: Array | None = None
        self._rotation: Array | None = None
        self._state: JointMotion | None = None
        self._watched_qd = np.zeros(len(self.watched_joints))
        self._stopping, self._braked = False, 0.0
        self._progress.reset()
        if self._smoothing is not None:
            self._smoothing.reset()
        self._refresh_goal()

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Change parameters while the policy runs, such as ``{"target_rmp.accel_p_gain": 40.0}``.

        Raises:
            BadConfig: a name that is none or a value that is not allowed; then nothing changes.
        """
        self.set_settings(self.settings.with_parameters(values))

    def set_settings(self, settings: RmpflowSettings) -> None:
        """Use other parameters from now on; frames of body controllers stay as they were.

        Raises:
            BadConfig: they do not fit the robot; then the parameters before stay.
        """
        self._evaluator.set_settings(settings)
        self._integrator.set_max_velocity(self._evaluator.bounds.max_velocity)

    def set_stuck(self, stuck: StuckSettings) -> None:
        """Change when the policy counts as stuck, while it runs."""
        self._progress.settings = stuck

    def set_smoothing(self, smoothing: SmoothingSettings | None) -> None:
        """Scale time at jumps from now on, or no longer (None)."""
        if smoothing is None:
            self._smoothing = None
        elif self._smoothing is None:
            self._smoothing = Smoothing(smoothing)
        else:
            self._smoothing.settings = smoothing

    def set_robot_base_pose(self, X_WB: ArrayLike) -> None:
        """Say where the robot's base frame is in the world, shape (4, 4).

        Raises:
            BadCommand: it is no pose.
        """
        X = checked_pose(np.asarray(X_WB, np.float64), "base of the robot")
        self._surroundings.set_base(X)
        self._refresh_goal()

    @property
    def default_cspace_target(self) -> Array:
        """Posture that is kept to where none was set, shape (n,)."""
        return self._default_posture

    def set_cspace_target(self, q: ArrayLike) -> None:
        """Lead to a posture; with a target of the tool it settles what the target leaves open.

        Args:
            q: positions of the active joints [rad or m], shape (n,).

        Raises:
            BadCommand: wrong number of positions, or one that is not finite.
        """
        self._posture = frozen(joint_numbers(q, self.active_joints, "posture"))
        self._stopping = False
        self._refresh_goal()

    def set_end_effector_target(
        self, position: ArrayLike | None = None, orientation: ArrayLike | None = None
    ) -> None:
        """Lead the tool to a position and an orientation in the world, or to one of them.

        Args:
            position: of the tool [m], shape (3,); None: any.
            orientation: of the tool, quat_xyzw, shape (4,); None: any. Without both, the posture
                alone leads.

        Raises:
            BadCommand: numbers that are not finite, too few or too many, or no rotation.
        """
        p = None if position is None else finite_numbers(position, 3, "position")
        R = None
        if orientation is not None:
            quaternion = finite_numbers(orientation, 4, "orientation (quat_xyzw)")
            if np.linalg.norm(quaternion) < 1e-6:
                raise BadCommand("the target's orientation (quat_xyzw) is zero.")
            R = from_xyz_quat((0.0, 0.0, 0.0), quaternion)[:3, :3]
        self._position, self._rotation = p, R
        self._stopping = False
        self._refresh_goal()

    def set_goal(self, goal: Goal) -> None:
        """Lead to posture and tool's pose at once; numbers that were checked before, in the world.

        The faster way for those who move the goal in each frame.
        """
        self._posture, self._position, self._rotation = goal.posture, goal.position, goal.rotation
        self._stopping = False
        self._refresh_goal()

    def stop(self) -> None:
        """Come to rest, damped, and stay there until there is a new target.

        Obstacles and limits are minded all the while. For a target that was lost.
        """
        self._position = self._rotation = None
        if not self._stopping:
            self._braked = 0.0
        self._stopping = True
        self._refresh_goal()

    def set_scene(self, scene: Scene) -> None:
        """Mind the obstacles of a scene, and what the tool carries, from now on.

        Objects that are disabled, or that all links may touch, have no effect. How objects move is
        seen from scene to scene, in the time of the frames between them.

        Raises:
            BadCommand: something is attached that cannot be minded; the scene before stays.
        """
        self._surroundings.set_scene(scene)

    def set_obstacle_twists(self, twists: Mapping[str, ArrayLike]) -> None:
        """Say how obstacles move, instead of seeing it from scene to scene.

        Args:
            twists: by name of the object: velocity of its origin [m/s] and angular velocity
                [rad/s] in the world, shape (6,). They hold until the next call.

        Raises:
            BadCommand: numbers that are not finite, or not six.
        """
        self._surroundings.set_twists(
            {name: finite_numbers(twist, 6, f"twist of '{name}'") for name, twist in twists.items()}
        )

    def elapse(self, duration: float) -> None:
        """Let time [s] go by without a frame, for how fast obstacles are seen to move."""
        self._surroundings.elapse(duration)

    @property
    def ignores_state_updates(self) -> bool:
        """Whether the policy goes on from its own state."""
        return self._ignore_updates

    def set_ignore_state_updates(self, ignore: bool) -> None:
        """Choose whether the policy goes on from its own state or from the robot's."""
        self._ignore_updates = ignore

    def set_internal_robot_joint_states(
        self,
        active_q: ArrayLike,
        active_qd: ArrayLike,
        watched_q: ArrayLike | None = None,
        watched_qd: ArrayLike | None = None,
    ) -> None:
        """Put the policy's own state somewhere, such as where the robot is.

        Raises:
            BadCommand: wrong numbers of joints, or ones that are not finite; nothing changes.
        """
        q = joint_numbers(active_q, self.active_joints, "active_q")
        qd = joint_numbers(active_qd, self.active_joints, "active_qd")
        self._set_watched(watched_q, watched_qd)
        self._state = JointMotion(q, qd, np.zeros(len(q)))

    def get_internal_robot_joint_states(self) -> tuple[Array, Array, Array, Array] | None:
        """Return positions and velocities of active, then of watched joints; None before any."""
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
        """Return where the active joints shall be after a frame, and how fast, shape (n,) each.

        Args:
            active_q: where they are [rad or m], shape (n,).
            active_qd: how fast they are [rad/s or m/s], shape (n,).
            watched_q: where the watched joints are; None: as before.
            watched_qd: how fast they are; None: at rest.
            frame_duration: length of the frame [s].

        Raises:
            BadCommand: wrong numbers of joints, or ones that are not finite; nothing changes.
            BadConfig: a duration that is none.
        """
        count, dt = substeps(frame_duration, self.maximum_substep_size)
        own = self._state
        if own is None or not self._ignore_updates:
            q = joint_numbers(active_q, self.active_joints, "active_q")
            qd = joint_numbers(active_qd, self.active_joints, "active_qd")
            last = np.zeros(len(q)) if own is None else own.qdd
            state = JointMotion(q, qd, last)
        else:
            state = own.copy()
        self._set_watched(watched_q, watched_qd)
        for _ in range(count):
            self._step(state, dt)
        self._state = state
        self._surroundings.elapse(frame_duration)
        if self._stopping:
            self._progress.reset()
        else:
            watch(self._progress, self._evaluator.goal, self._errors(), frame_duration)
        return state.q.copy(), state.qd.copy()

    def _step(self, state: JointMotion, dt: float) -> None:
        if self._stopping:
            self._follow_to_rest(state, dt)
        whole_q = np.concatenate((state.q, self._watched_q))

        def policy(qd: Array) -> Array:
            return self._evaluator.acceleration(whole_q, np.concatenate((qd, self._watched_qd)))

        if self._smoothing is None:
            wish = policy(state.qd)
        else:
            wish = self._smoothing.acceleration(policy, state.qd, state.qdd, dt)
        self._integrator.step(state, wish, dt)

    def _follow_to_rest(self, state: JointMotion, dt: float) -> None:
        """Let the posture go along, so that only damping is left, then hold it.

        Without a hold, whatever pushes from afar would move the joints on for long.
        """
        if self._braked < _BRAKING:
            slow = float(np.abs(state.qd).max(initial=0.0)) < _AT_REST
            self._braked = _BRAKING if slow else self._braked + dt
            self._posture = frozen(state.q.copy())
            self._refresh_goal()

    @property
    def stuck(self) -> bool:
        """Whether the target came no nearer for a while."""
        return self._progress.stuck

    def forget_progress(self) -> None:
        """Begin to watch for progress anew, as after the robot was moved by somebody else."""
        self._progress.reset()

    @property
    def status(self) -> PolicyStatus:
        """How the policy is doing."""
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

    def _errors(self) -> Errors:
        if self._state is None:
            return Errors(float("nan"), float("nan"), float("nan"))
        X_BT = self._evaluator.tool_pose(self._whole_q())
        return errors_of(self._evaluator.goal, X_BT, self._state.q)

    def _refresh_goal(self) -> None:
        """Restate the targets in the base frame."""
        X_BW = self._surroundings.X_BW
        p, R = self._position, self._rotation
        position = None if p is None else X_BW[:3, :3] @ p + X_BW[:3, 3]
        rotation = None if R is None else X_BW[:3, :3] @ R
        self._evaluator.set_goal(Goal(self._posture, position, rotation))

    def _set_watched(self, q: ArrayLike | None, qd: ArrayLike | None) -> None:
        names = self.watched_joints
        checked_q = self._watched_q if q is None else joint_numbers(q, names, "watched_q")
        checked_qd = np.zeros(len(names)) if qd is None else joint_numbers(qd, names, "watched_qd")
        self._watched_q, self._watched_qd = checked_q, checked_qd

# SPDX-License-Identifier: Apache-2.0
"""A motion of a policy: from the robot's reference to the references to send.

Stops a policy before a self-collision, or a collision with an obstacle at rest. RMPs weigh
collision avoidance against the target, which may dominate. A reference is sent only if the robot
can stop from it without a collision of its exact geometry; otherwise it brakes along the stopping
path of the previous reference, which is proven collision-free.

Source: D. Fox, W. Burgard, S. Thrun, The dynamic window approach to collision avoidance, IEEE
Robotics & Automation Magazine 4(1), 1997, for admissible velocities: those that can be stopped.

Exact checks are those against static obstacles. Moving objects are handled by the RMPs, which
retreat: braking would not avoid them. Voxels of cameras, which change with each image, are handled
by the RMPs, too.

References of other controllers are detected by comparison with the newest one sent.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import RobotMotion
from motion_nodes.core.scene.checker import CollisionChecker, scene_for
from motion_nodes.core.scene.convex_pieces import pieces_of
from motion_nodes.core.scene.exact_checks import ExactChecks
from motion_nodes.core.scene.mesh_preparation import MeshPreparation, all_parts, large_meshes
from motion_nodes.core.scene.robot_spheres import cover
from motion_nodes.core.scene.scene import Part, Scene, difference
from motion_nodes.core.scene.shapes import TriangleMesh
from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.tolerances import UNSENT_STEP
from motion_nodes.typing import Array

AT_REST = 2e-3
"""Max velocity of a joint at rest [rad/s or m/s]."""
_LET_GO = 0.3
"""Time after the last command at rest from which motion by another controller is accepted [s]."""
_ELSEWHERE, _MOVED = 0.02, 0.01
"""Distance [rad or m] and velocity [rad/s or m/s] above which such motion is detected."""
ENDS = np.array([0.0, 1.0])
"""Path parameters of the ends of a straight path."""
_HOLD = 0.2
"""Time at rest after which the policy may move again [s]."""
_FINEST = 1.0 / 64.0
"""Shorter parts of a stopping path are collision-free if their midpoints are."""
_LAG = 0.25
"""Max lag of measurements behind references [s]: of drives, and of late messages."""


class SentReference:
    """The last sent reference, and the time since which it is at rest."""

    def __init__(self) -> None:
        self.positions: Array | None = None
        """Newest positions [rad or m], shape (n,); None before a motion begins."""
        self._quiet_since: float | None = None

    def clear(self) -> None:
        """Clear it: no motion is active."""
        self.positions = self._quiet_since = None

    def update(
        self, q: Array, qd: Array, now: float, *, resting: bool
    ) -> tuple[Array, Array] | None:
        """Return the reference to send, or None while it rests.

        Args:
            q: positions [rad or m], shape (n,).
            qd: velocities [rad/s or m/s], shape (n,).
            now: time [s].
            resting: whether the robot is at rest at its target, or stuck.
        """
        assert self.positions is not None
        if not resting:
            self.positions, self._quiet_since = q, None
            return q, qd
        if self._quiet_since is None or float(np.abs(q - self.positions).max()) > UNSENT_STEP:
            self.positions, self._quiet_since = q, now
            return q, np.zeros(len(q))
        return None

    def is_superseded(self, robot: RobotMotion, now: float) -> bool:
        """Return whether another controller moves the robot, by joint positions [rad or m]."""
        q, qd, quiet = robot.reference_q, robot.reference_qd, self._quiet_since
        if self.positions is None or q is None or quiet is None or now - quiet <= _LET_GO:
            return False
        moves = qd is not None and float(np.abs(qd).max()) > _MOVED
        return moves or float(np.abs(q - self.positions).max()) > _ELSEWHERE


def stop_positions(policy: RmpflowPolicy, q: Array, dt: float, longest: float) -> Array:
    """Return the rest positions of an immediate stop.

    Args:
        policy: computes the stop, and is stopped afterwards.
        q: positions of the newest reference [rad or m], shape (n,).
        dt: steps of the computation [s].
        longest: max duration of the stop [s].

    Returns:
        Positions [rad or m], shape (n,).
    """
    own = policy.ignores_state_updates
    policy.stop()
    policy.set_ignore_state_updates(True)
    for _ in range(int(longest / dt)):
        q, qd = policy.compute_joint_targets(q, np.zeros(len(q)), frame_duration=dt)
        if float(np.abs(qd).max()) < AT_REST:
            break
    policy.set_ignore_state_updates(own)
    return q


class PreparedScenes:
    """The scenes of a policy with all that is derived from their meshes, outside the control loop.

    For a mesh of some ten thousand triangles this takes seconds, so another process computes it.
    """

    missing: tuple[str, ...] = ()
    """Objects and attached bodies that are left out until their meshes are prepared."""

    def __init__(self) -> None:
        self._meshes = MeshPreparation()
        self._seen: Scene | None = None

    def take(self, scene: Scene) -> Scene | None:
        """Return what is ready of a scene; None if that is unchanged since the last call."""
        seen, before = scene is self._seen, self.missing
        if seen and not before:
            return None
        if self._meshes.ready(large_meshes(all_parts(scene))):
            self.missing = ()
        elif seen:
            return None
        else:
            parts = {name: item.parts for name, item in scene.objects.items()}
            parts |= {name: body.parts for name, body in scene.attached.items()}
            self.missing = tuple(
                name for name, own in parts.items() if not self._meshes.ready(large_meshes(own))
            )
        self._seen = scene
        if self.missing:
            objects = {k: v for k, v in scene.objects.items() if k not in self.missing}
            attached = {k: v for k, v in scene.attached.items() if k not in self.missing}
            scene = replace(
                scene, objects=MappingProxyType(objects), attached=MappingProxyType(attached)
            )
        for mesh in _meshes(all_parts(scene)):
            cover(mesh)  # kept with the mesh, so the loop does not read the disk
        pieces_of(_meshes(part for item in scene.objects.values() for part in item.parts))
        return scene

    def close(self) -> None:
        """Terminate the other process."""
        self._meshes.close()


def _meshes(parts: Iterable[Part]) -> list[TriangleMesh]:
    solids = (part.solid for part in parts)
    return [solid for solid in solids if isinstance(solid, TriangleMesh)]


class StandingObstacles:
    """Objects at rest of a policy's scene; not thread-safe."""

    def __init__(self, policy: RmpflowPolicy, joints: Sequence[str]) -> None:
        """Create without obstacles.

        Args:
            policy: provides the scene and the twists of objects.
            joints: joints of configurations, the policy's active and watched ones.
        """
        self._policy = policy
        self._checker = CollisionChecker(policy.robot, joints)
        self._base = policy.base_pose
        self._scene: Scene | None = None
        self._moving = frozenset[str]()
        self._standing = Scene()
        self._exact: ExactChecks | None = None

    def update(self) -> bool:
        """Read the policy's scene; return whether objects at rest have changed."""
        policy = self._policy
        if policy.base_pose is not self._base and not np.array_equal(policy.base_pose, self._base):
            # Relative to a moving base all obstacles move.
            self._base, self._scene, self._exact = policy.base_pose, None, None
            return True
        scene, moving = policy.scene, frozenset(policy.obstacle_twists)
        if scene is self._scene and moving == self._moving:
            return False
        first = self._scene is None
        self._scene, self._moving = scene, moving
        objects = {
            name: item
            for name, item in scene.objects.items()
            if name not in moving and not any(isinstance(p.solid, Voxels) for p in item.parts)
        }
        standing = replace(scene, objects=MappingProxyType(objects))
        if not first and difference(self._standing, standing).empty:
            return False
        self._standing = standing
        self._exact = self._checks(standing) if objects else None
        return True

    def free(self, path: Array, finest: float) -> bool:
        """Return whether a straight path [rad or m], shape (2, n), is collision-free.

        Args:
            path: its ends.
            finest: shorter parts, as a fraction, are free if their midpoints are.
        """
        return self._exact is None or self._exact.sweep(path, ENDS, 1, finest).free

    def _checks(self, scene: Scene) -> ExactChecks:
        checker = self._checker
        checker.set_base_pose(self._base)
        checker.set_scene(scene_for(checker.robot, checker.joint_names, scene))
        return checker.exact


class _Proof(NamedTuple):
    """Proven properties of a stopping path."""

    links: bool
    """No self-collisions."""
    obstacles: bool
    """No collisions with obstacles."""

    def covers(self, other: _Proof) -> bool:
        """Return whether it includes all properties of another one."""
        return self.links >= other.links and self.obstacles >= other.obstacles


_NOTHING = _Proof(links=False, obstacles=False)


class BrakingGuard:
    """Replaces references from which the robot could not stop; not thread-safe."""

    def __init__(self, policy: RmpflowPolicy) -> None:
        self._policy = policy
        joints = policy.active_joints
        self._checked = (*joints, *policy.watched_joints)
        self._obstacles = StandingObstacles(policy, self._checked)
        limits = policy.robot.limits.select(joints)
        self._lower, self._upper = limits.lower, limits.upper
        self._last: tuple[Array, Array] | None = None
        self._proven, self._braking = _NOTHING, False
        self._rested = 0.0

    def prepare(self) -> None:
        """Load the exact checks, or compile them; otherwise the first motion does."""
        robot = self._policy.robot
        self._exact.is_free(robot.home[robot.indices(self._checked)])

    @functools.cached_property
    def _exact(self) -> ExactChecks:
        return CollisionChecker(self._policy.robot, self._checked).exact

    @property
    def braking(self) -> bool:
        """Whether references are replaced."""
        return self._braking

    def begin(self, q: Array, qd: Array) -> None:
        """Start at a reference, shape (n,) each [rad or m; rad/s or m/s]."""
        self._last = (q, qd)
        self._obstacles.update()
        self._proven, self._braking, self._rested = self._stops(q, qd), False, 0.0

    def admitted(self, q: Array, qd: Array, dt: float) -> tuple[Array, Array]:
        """Return a reference, or the next one of a braking motion.

        If the robot is in collision, or could not stop when the motion began or obstacles changed,
        references pass unchanged: braking would keep it there.

        Args:
            q: positions [rad or m], shape (n,).
            qd: velocities [rad/s or m/s], shape (n,).
            dt: time since the previous reference [s].
        """
        if self._obstacles.update() and self._last is not None:
            self._proven = self._stops(*self._last)
        if not self._braking or self._rested >= _HOLD:
            stops = self._stops(q, qd)
            if stops.covers(self._proven):
                self._last, self._proven, self._braking, self._rested = (q, qd), stops, False, 0.0
                return q, qd
            self._braking, self._rested = True, 0.0
        assert self._last is not None
        self._last = self._braked(*self._last, dt)
        if not self._last[1].any():
            self._rested += dt
        self._policy.hold_reference(*self._last)
        return self._last

    def _braked(self, q: Array, qd: Array, dt: float) -> tuple[Array, Array]:
        """Return the state after one period of straight-line braking, within limits."""
        duration = self._time_to_rest(qd)
        passed = min(dt, duration)
        slower = qd * (1.0 - passed / duration) if duration > 0.0 else np.zeros(len(qd))
        ahead = q + 0.5 * (qd + slower) * passed
        # Synchronized with the slowest joint, a joint close to its limit could exceed it.
        within = np.clip(ahead, np.minimum(self._lower, q), np.maximum(self._upper, q))
        return within, np.where(within == ahead, slower, 0.0)

    def _time_to_rest(self, qd: Array) -> float:
        return float((np.abs(qd) / self._policy.max_acceleration).max(initial=0.0))

    def _stops(self, q: Array, qd: Array) -> _Proof:
        """Return the proven properties of the stopping path from a state."""
        state = self._policy.get_internal_robot_joint_states()
        watched = np.zeros(0) if state is None else state[2]
        ends = np.array([q, q + 0.5 * self._time_to_rest(qd) * qd])
        path = np.column_stack((ends, np.tile(watched, (2, 1))))
        alone = self._exact.sweep(path, ENDS, 1, _FINEST).free
        return _Proof(alone, alone and self._obstacles.free(path, _FINEST))


class MotionStep(NamedTuple):
    """Result of a step."""

    q: Array
    """Positions of the active joints [rad or m], shape (n,)."""
    qd: Array
    """Their velocities [rad/s or m/s], shape (n,)."""
    period: float
    """Time since the last step that was computed [s]."""


class PolicyMotion:
    """Computes the references of one policy from the start to the end of a motion."""

    def __init__(self, policy: RmpflowPolicy) -> None:
        self._policy = policy
        self._sent = SentReference()
        self._guard = BrakingGuard(policy)
        self.prepare = self._guard.prepare
        """Loads the collision checks, in any thread; otherwise the first motion does."""
        self._pending = 0.0
        """Time that is not integrated yet [s]."""
        self._time = 0.0
        self._recent: deque[tuple[float, Array]] = deque()
        """Recent references, each with its time in the motion [s]."""

    @property
    def positions(self) -> Array | None:
        """Positions of the newest reference [rad or m], shape (n,); None before a motion begins."""
        return self._sent.positions

    @property
    def obstruction(self) -> str:
        """Why the robot brakes, as text; empty if it does not."""
        return "self-collision or obstacle ahead" if self._guard.braking else ""

    def end(self) -> None:
        """End the motion."""
        self._sent.clear()
        self._pending = 0.0

    def begin(self, robot: RobotMotion) -> Array:
        """Start at the robot's current reference, to avoid jumps, else at its measured state.

        Returns:
            The positions of the start [rad or m], shape (n,).
        """
        q, qd = robot.q, robot.qd
        if robot.reference_q is not None and robot.reference_qd is not None:
            q, qd = robot.reference_q, robot.reference_qd
        self._policy.set_internal_robot_joint_states(q, qd, robot.watched_q, robot.watched_qd)
        self._policy.forget_progress()
        self._guard.begin(q, qd)
        self._time, self._recent = 0.0, deque([(0.0, q)])
        self._sent.positions = q
        return q

    def step(
        self,
        robot: RobotMotion | None,
        dt: float,
        most_ahead: float,
        set_goal: Callable[[Array, float], None],
    ) -> MotionStep | None:
        """Advance the policy; None: it awaits the robot's next state.

        Args:
            robot: the newest state; None if none arrived since the last step.
            dt: time since the last step [s].
            most_ahead: max distance of a reference from the measured position [rad or m].
            set_goal: sets the policy's goal, given the positions of the active joints and the
                period of the step [s].
        """
        policy = self._policy
        self._pending += dt
        self._time += dt
        if robot is None and not policy.ignores_state_updates:
            return None
        own = policy.get_internal_robot_joint_states()
        assert own is not None
        state, period = own if robot is None else robot[:4], self._pending
        set_goal(own[0] if policy.ignores_state_updates else state[0], period)
        if policy.ignores_state_updates:
            q, qd = policy.compute_joint_targets(*state, frame_duration=period)
        else:
            q, qd = policy.compute_reference(*state, frame_duration=period, most_ahead=most_ahead)
        self._pending = 0.0
        step = MotionStep(*self._guard.admitted(q, qd, period), period)
        self._recent.append((self._time, step.q))
        while self._recent[0][0] < self._time - _LAG:
            self._recent.popleft()
        return step

    def to_send(self, step: MotionStep, now: float, *, resting: bool) -> tuple[Array, Array] | None:
        """Return the reference to send, or None while it rests at a target."""
        reference = self._sent.update(step.q, step.qd, now, resting=resting)
        if reference is None and not self._policy.ignores_state_updates:
            # References that are not sent must not accumulate to a jump.
            assert self._sent.positions is not None
            self._policy.hold_reference(self._sent.positions)
        return reference

    def is_superseded(self, robot: RobotMotion, now: float) -> bool:
        """Return whether another controller moves the robot, by joint positions [rad or m]."""
        return self._sent.is_superseded(robot, now)

    def tracking_fault(self, robot: RobotMotion, tolerance: float) -> str:
        """Return the joint beyond the tracking tolerance, as text; empty if none is.

        Args:
            robot: the measured state.
            tolerance: max distance [rad or m].
        """
        if not self._policy.ignores_state_updates or not self._recent:
            return ""
        if np.abs(robot.q - self._recent[-1][1]).max() <= tolerance:
            return ""
        recent = np.array([q for _, q in self._recent])
        away = np.maximum(recent.min(axis=0) - robot.q, robot.q - recent.max(axis=0))
        i = int(away.argmax())
        if away[i] <= tolerance:
            return ""
        name = self._policy.active_joints[i]
        return f"the robot does not follow: {name} is {away[i]:.3g} from its reference"

# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control: a virtual spring and damper between tool and target.

    tau = J^T (K e + D (v_d - v) + f) + N (K_n (q_0 - q) - D_n q') + C(q, q') q' + g(q)

The error e is (p_d - p, log(R_d R^T)), with the shortest rotation. The torque is the gradient of
1/2 phi^T K phi, so the spring is conservative. Stiffness acts along the axes of the target (frame
"tool") or of the base. With damping ratios, D sets the ratio of each mode of (Lambda, K): Lambda =
L L^T, L^-1 K L^-T = U diag(k) U^T, D = L U diag(2 zeta sqrt(k)) U^T L^T.

Sources: A. Albu-Schaeffer et al., "Cartesian impedance control of redundant robots: recent results
with the DLR-light-weight-arms", ICRA 2003; O. Khatib 1987 for the nullspace.

A passivity observer and controller bounds the energy: a sampled spring must not generate energy.
The dissipated energy is the energy that spring and damper take from the arm, minus the energy
stored by the spring. If sampling and delays make it negative, additional damping dissipates the
difference. Source: B. Hannaford and J.-H. Ryu, "Time-domain passivity control of haptic
interfaces", IEEE T-RA 18(1), 2002.

A momentum observer estimates the joint efforts of external forces, without accelerations:

    r = k (p - p_0 - integral(tau + M' v - h(q, v) + r) dt),   p = M(q) v

r follows the external efforts with a first-order lag of 1 / k. Source: A. De Luca and R. Mattone,
"Sensorless robot collision detection and hybrid force/motion control", ICRA 2005.

The operational space has the inertia at the tool and the dynamically consistent nullspace:

    Lambda = (J M^-1 J^T)^-1,   J_bar = M^-1 J^T Lambda,   N = 1 - J^T J_bar^T

Source: O. Khatib, "A unified approach for motion and force control of robot manipulators", IEEE
Journal of Robotics and Automation 3(1), 1987.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.pose_targets import ImpedanceSettings, PoseFilter, PoseTrajectory
from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.robot.inverse_dynamics import PayloadDynamics
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import joint_indices
from motion_nodes.core.robot.poses import rate_of_rotation_vector, rotation_vector
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import UNFELT_SPEED_SQUARED
from motion_nodes.typing import Array

MAX_ENERGY = 1.0
"""Max accumulated dissipated energy [J], so that old dissipation does not allow generation."""
MAX_DAMPING = 100.0
"""Max additional damping [N s/m and N m s/rad]."""
MAX_INERTIA = 300.0
"""Max eigenvalue of Lambda [kg or kg m^2], which is infinite in singular directions: forces along
them do not accelerate the tool."""
BANDWIDTH = 50.0
"""Gain k of the observer [1/s]: a lag of 20 ms."""
MAX_GAP = 0.05
"""Max time between measurements [s]; the observer is reset after a longer one."""
LIMIT_MARGIN = 0.1
"""Distance from a joint limit within which a virtual spring acts [rad or m]."""
LIMIT_STIFFNESS = 200.0
"""Stiffness of that spring [N m/rad or N/m]."""
IN_CONTACT = 0.2
"""Fraction of the desired force that counts as a contact for the integral of force control."""


class PassivityObserver:
    """Observes the energy of a spring-damper at the tool."""

    def __init__(self) -> None:
        self.energy = 0.0
        """Dissipated energy [J]; negative: generated."""
        self._before: tuple[Array, float, Array] | None = None
        """Wrench, stored energy and twist at the last step."""

    def observe(self, taken_from: float | None, twist: Array, dt: float) -> float:
        """Account for a step, and return the additional damping that is required.

        Args:
            taken_from: current energy of the spring with its previous target [J]; None: unknown,
                because forces are limited.
            twist: current twist of the tool [m/s, rad/s], shape (6,).
            dt: duration of the step [s].
        """
        if self._before is None or taken_from is None:
            return 0.0
        wrench, stored, before = self._before
        taken = -0.5 * float(wrench @ (twist + before)) * dt
        self.energy = min(self.energy + taken - (taken_from - stored), MAX_ENERGY)
        speed = float(twist @ twist)
        if self.energy >= 0.0 or speed < UNFELT_SPEED_SQUARED:
            return 0.0
        return min(-self.energy / (dt * speed), MAX_DAMPING)

    def note(self, wrench: Array, stored: float, twist: Array) -> None:
        """Store the values that apply until the next step.

        Args:
            wrench: wrench of spring and damper [N, N m], shape (6,).
            stored: energy of the spring [J].
            twist: twist of the tool [m/s, rad/s], shape (6,).
        """
        self._before = np.asarray(wrench), stored, twist

    def reset(self) -> None:
        """Reset."""
        self.energy, self._before = 0.0, None


@dataclass(frozen=True, eq=False)
class ArmState:
    """Kinematics and dynamics of an arm in one state; spatial vectors are (linear, angular)."""

    q: Array
    """Joint positions [rad or m], shape (n,)."""
    v: Array
    """Joint velocities [rad/s or m/s], shape (n,)."""
    X_BT: Array
    """Pose of the tool in the base, shape (4, 4)."""
    J: Array
    """Jacobian of the tool in the base's axes, shape (6, n)."""
    M: Array
    """Joint-space inertia, shape (n, n)."""
    M_inv: Array
    """Its inverse, shape (n, n)."""
    bias: Array
    """Coriolis, centrifugal and damping efforts, and gravity if compensated [N m], shape (n,)."""
    inertia: Array
    """Inertia of the arm at the tool, Lambda, shape (6, 6)."""

    @property
    def twist(self) -> Array:
        """Velocity of the tool in the base's axes [m/s, rad/s], shape (6,)."""
        return np.asarray(self.J @ self.v)

    @property
    def nullspace(self) -> Array:
        """Projector of joint efforts that do not accelerate the tool, shape (n, n)."""
        return np.asarray(np.eye(len(self.q)) - self.J.T @ (self.inertia @ self.J @ self.M_inv))

    def wrench_of(self, efforts: Array) -> Array:
        """Return the wrench at the tool that is equivalent to joint efforts, shape (6,)."""
        return np.asarray(self.inertia @ (self.J @ (self.M_inv @ efforts)))


class OperationalSpace:
    """Computes :class:`ArmState` for the joints of a group."""

    def __init__(self, robot: Robot, joints: Sequence[str], tool: str) -> None:
        """Create and compile.

        Args:
            robot: robot with inertial parameters.
            joints: joints of the arm, in order.
            tool: frame of wrenches and poses.

        Raises:
            UnknownJoint, UnknownFrame: unknown name.
        """
        self.joint_names, self.tool = tuple(joints), tool
        self._kinematics = Kinematics(robot.tree, joints, base=robot.base_frame)
        self.dynamics = PayloadDynamics(robot, joints, tool)
        """Inverse dynamics, with the payload."""
        self.at(robot.home[robot.indices(self.joint_names)], np.zeros(len(joints)))  # compiles

    def at(self, q: Array, v: Array, *, gravity: bool = True) -> ArmState:
        """Return the state at joint positions and velocities.

        Args:
            q: positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).
            gravity: whether the bias includes gravity.
        """
        X, J = self._kinematics.pose_and_jacobian(q, self.tool)
        M, bias, weight = self.dynamics.terms(q, v)
        if not gravity:
            bias = bias - weight
        M_inv = np.asarray(np.linalg.inv(M), np.float64)
        return ArmState(q, v, X, J, M, M_inv, bias, inertia_at(J @ M_inv @ J.T))


def inertia_at(mobility: Array) -> Array:
    """Return the inverse of the mobility ``J M^-1 J^T``, shape (6, 6), bounded at singularities.

    Eigenvalues of the inertia are bounded by :data:`MAX_INERTIA`, so that efforts stay finite where
    the tool cannot be accelerated.
    """
    values, vectors = np.linalg.eigh(mobility)
    return np.asarray((vectors / values.clip(1.0 / MAX_INERTIA)) @ vectors.T)


class MomentumObserver:
    """Estimates the joint efforts of external forces from measured joint states."""

    def __init__(self, count: int) -> None:
        self.efforts: Array = np.zeros(count)
        """External efforts [N m or N], shape (n,)."""
        self._before: tuple[Array, Array, Array] | None = None
        """Inertia, momentum, and drive efforts minus bias at the last measurement."""

    def reset(self) -> None:
        """Reset to zero external efforts."""
        self.efforts[:] = 0.0
        self._before = None

    def update(self, state: ArmState, drive_efforts: Array, dt: float) -> Array:
        """Process a measurement and return the external efforts, shape (n,).

        Args:
            state: state of the arm, with gravity in its bias.
            drive_efforts: measured efforts of the drives [N m or N], shape (n,).
            dt: time since the last measurement [s].
        """
        momentum, driving = state.M @ state.v, drive_efforts - state.bias
        before, self._before = self._before, (state.M, momentum, driving)
        if before is None or not 0.0 < dt <= MAX_GAP:
            return self.efforts
        # Over the step: (M - M_before) v is the integral of M' v.
        change = momentum - before[1] - (state.M - before[0]) @ state.v
        external = change / dt - 0.5 * (driving + before[2])
        self.efforts = self.efforts + (external - self.efforts) * -math.expm1(-BANDWIDTH * dt)
        return self.efforts


@dataclass(frozen=True, eq=False)
class ImpedanceStatus:
    """Results of the last step; wrenches and errors are in the base's axes."""

    target: Array
    """Target pose of the tool after its limits, shape (4, 4)."""
    pose: Array
    """Measured pose of the tool, shape (4, 4)."""
    error: Array
    """Position and rotation vector from the tool to its target [m, rad], shape (6,)."""
    wrench: Array
    """Wrench commanded at the tool [N, N m], shape (6,)."""
    external_wrench: Array
    """Estimated wrench of the environment on the tool [N, N m], shape (6,)."""
    energy: float
    """Energy that spring and damper have dissipated [J]; negative: generated."""


class _Spring(NamedTuple):
    wrench: Array
    """[N, N m], shape (6,)."""
    error: Array
    """[m, rad], shape (6,)."""
    stored: float | None
    """Energy [J]; None: the wrench is limited."""


class CartesianImpedance:
    """Efforts of an arm under impedance control. No method is thread-safe."""

    def __init__(
        self,
        robot: Robot,
        group: str = "arm",
        settings: ImpedanceSettings | None = None,
        *,
        tool: str | None = None,
    ) -> None:
        """Create and compile.

        Args:
            robot: robot with inertial parameters.
            group: group of the controlled joints.
            settings: settings; default: those of :class:`ImpedanceSettings`.
            tool: controlled frame; default: the tip of the group.

        Raises:
            UnknownGroup, UnknownFrame: unknown name.
            InvalidConfig: the group has no tip, and no tool is given.
        """
        members = robot.group(group)
        self.joint_names = members.joints
        self.limits = robot.limits.select(members.joints)
        frame = tool or members.tip or robot.tool_frame
        if frame is None:
            raise InvalidConfig(f"group '{group}' of {robot.name} has no tip; name a tool frame")
        self.tool = frame
        self.space = OperationalSpace(robot, members.joints, self.tool)
        self.settings = ImpedanceSettings()
        self._observer = MomentumObserver(len(members.joints))
        self._filter: PoseFilter | None = None
        self._path: PoseTrajectory | None = None
        self._path_time = 0.0
        self._wrench = np.zeros(6)
        self._pushed = np.zeros(6)
        """Integral of force control, in the axes of the frame [N, N m], shape (6,)."""
        self._home = robot.home[robot.indices(members.joints)]
        self._posture = self._home
        self._last: Array | None = None
        self._passivity = PassivityObserver()
        self._unmeasured = 0.0
        """Time since efforts were measured [s]."""
        self.status: ImpedanceStatus | None = None
        """State of the last step; None before the first."""
        self.set_settings(settings or self.settings)

    # ---- inputs

    def set_settings(self, settings: ImpedanceSettings) -> None:
        """Replace the settings; the target is kept."""
        self.settings = settings
        self._forced, self._stiffness = settings.forced, settings.six("stiffness")
        self._ratio, self._given = settings.six("damping_ratio"), settings.six("damping")
        self.space.dynamics.set_payload(settings.payload_mass, settings.payload_center)

    def check_rate(self, settings: ImpedanceSettings, rate: float) -> str | None:
        """Return why a stiffness is unstable at a control rate [Hz], or None.

        Sampling and transport to the drives delay the spring by about 2.5 periods. The phase lag of
        the fastest mode must be below 0.35 rad: omega^2 = k / lambda <= (0.35 rate / 2.5)^2, with
        the inertia in the home state.

        Args:
            settings: settings to check.
            rate: rate of the control loop [Hz].
        """
        state = self.space.at(self._home, np.zeros_like(self._home))
        bound = (0.35 * rate / 2.5) ** 2
        for part, unit, axes in (
            ("linear", "N/m", slice(0, 3)),
            ("angular", "N m/rad", slice(3, 6)),
        ):
            most = bound * float(np.linalg.eigvalsh(state.inertia[axes, axes])[0])
            given = float(settings.six("stiffness")[axes].max())
            if given > most:
                return (
                    f"{part} stiffness {given:g} {unit} is not stable at {rate:g} Hz: "
                    f"at most {most:.3g} {unit} with this arm"
                )
        return None

    def reset(self, q: Array, v: Array, efforts: Array | None = None) -> None:
        """Hold the current pose of the tool and the current posture.

        Args:
            q: measured positions [rad or m], shape (n,).
            v: measured velocities [rad/s or m/s], shape (n,).
            efforts: measured efforts, the initial efforts of the controller [N m or N], shape (n,).
        """
        state = self.space.at(q, v)
        self._filter, self._posture, self._path = PoseFilter(state.X_BT), q.copy(), None
        self._wrench, self._pushed = np.zeros(6), np.zeros(6)
        self._last = None if efforts is None or not np.isfinite(efforts).all() else efforts.copy()
        self._unmeasured = 0.0
        self._passivity.reset()
        self._observer.reset()
        self.status = None

    def check_trajectory(self, path: PoseTrajectory, X_BT: Array | None = None) -> PoseTrajectory:
        """Return a trajectory that begins where the target is, or at a pose of the tool.

        Args:
            path: of the tool in the base.
            X_BT: measured pose of the tool, shape (4, 4); None: the law is active.

        Raises:
            InvalidCommand: it exceeds the velocity limits of the target.
        """
        if X_BT is None:
            assert self._filter is not None, "reset first"
            X_BT = self._filter.pose
        path = path.from_pose(X_BT)
        path.check(self.settings.max_velocity, self.settings.max_angular_velocity)
        return path

    def set_target(self, X_BT: Array) -> None:
        """Set the target pose of the tool in the base, shape (4, 4), approached within limits."""
        assert self._filter is not None, "reset first"
        self._filter.goal, self._filter.goal_twist, self._path = X_BT, np.zeros(6), None

    def set_trajectory(self, path: PoseTrajectory) -> None:
        """Follow a trajectory of the tool in the base; its last pose remains the target.

        Raises:
            InvalidCommand: the trajectory exceeds the velocity limits of the target.
        """
        self._path, self._path_time = self.check_trajectory(path), 0.0

    def set_wrench(self, wrench: ArrayLike) -> None:
        """Set the wrench to exert on the environment in the base's axes [N, N m], shape (6,).

        Along the axes of force control it is the reference; along others it is added to the wrench
        of the spring.

        Raises:
            InvalidCommand: not six finite numbers, or beyond max_force or max_torque.
        """
        self._wrench = self.checked_wrench(wrench)

    def checked_wrench(self, wrench: ArrayLike) -> Array:
        """Return a wrench as an array, shape (6,); arguments and errors as :meth:`set_wrench`."""
        values = finite_numbers(wrench, 6, "a wrench")
        s = self.settings
        for what, part, unit, name in (
            ("force", values[:3], "N", "max_force"), ("torque", values[3:], "N m", "max_torque"),
        ):  # fmt: skip
            # Compare the largest component first: squares of huge numbers are infinite.
            size, limit = float(np.abs(part).max()), getattr(s, name)
            if size > limit or float(np.linalg.norm(part)) > limit:
                raise InvalidCommand(
                    f"a {what} of {size:.3g} {unit} along an axis is too large; {name} is "
                    f"{limit:g} {unit}"
                )
        return values

    def set_posture(self, q: ArrayLike) -> None:
        """Set the posture in the nullspace [rad or m], shape (n,).

        Raises:
            InvalidCommand: not n finite numbers.
        """
        posture = np.asarray(q, np.float64)
        if not np.isfinite(posture).all():
            raise InvalidCommand(f"a posture needs finite positions, got {posture}")
        self._posture = self.limits.clip(posture)

    # ---- steps

    def step(self, q: Array, v: Array, dt: float, efforts: Array | None = None) -> Array:
        """Return the efforts of the joints [N m or N], shape (n,).

        Args:
            q: measured positions [rad or m], shape (n,).
            v: measured velocities [rad/s or m/s], shape (n,).
            dt: time since the last step [s], above 0.
            efforts: measured efforts of the drives [N m or N], shape (n,), from which the external
                wrench is estimated; None: no new measurement, NaN: not measured.
        """
        if self._filter is None:
            self.reset(q, v, efforts)
        assert self._filter is not None
        s = self.settings
        state = self.space.at(q, v, gravity=s.gravity_compensation)
        external = self._external(state, efforts, dt)
        axes = _axes(self._filter.pose, s.frame)
        arrived = self._spring(state, self._filter.pose, axes)
        extra = self._passivity.observe(arrived.stored, state.twist, dt)
        self._follow_path(dt)
        self._filter.step(dt, s)
        axes = _axes(self._filter.pose, s.frame)
        spring = self._spring(state, self._filter.pose, axes)
        D = axes @ self._damping(axes.T @ state.inertia @ axes) @ axes.T
        damper = (D + extra * np.eye(6)) @ (self._filter.twist - state.twist)
        self._passivity.note(spring.wrench - D @ state.twist, spring.stored or 0.0, state.twist)
        wrench = spring.wrench + damper + self._push(external, axes, dt)
        desired = state.J.T @ wrench + state.nullspace @ self._posture_efforts(state)
        desired += self._limit_efforts(state) + state.bias
        self.status = ImpedanceStatus(
            self._filter.pose, state.X_BT, spring.error, wrench, external, self._passivity.energy
        )
        return self._limited_efforts(desired, dt)

    # ---- internals

    def _follow_path(self, dt: float) -> None:
        """Advance the goal along an active trajectory."""
        if self._path is None or self._filter is None:
            return
        # The filter follows the twist of its goal, so both end at the same time.
        self._filter.goal, self._filter.goal_twist = self._path.at(self._path_time)
        self._path_time += dt
        if self._path_time > self._path.end + dt:
            self._path = None

    def _external(self, state: ArmState, efforts: Array | None, dt: float) -> Array:
        """Return the external wrench of the newest measurement."""
        self._unmeasured += dt
        if efforts is not None:
            passed, self._unmeasured = self._unmeasured, 0.0
            if not np.isfinite(efforts).all():
                self._observer.reset()
            else:
                if not self.settings.gravity_compensation:
                    weight = self.space.at(state.q, np.zeros_like(state.v)).bias
                    state = dataclasses.replace(state, bias=state.bias + weight)
                self._observer.update(state, efforts, passed)
        return state.wrench_of(self._observer.efforts)

    def _spring(self, state: ArmState, target: Array, axes: Array) -> _Spring:
        s, X = self.settings, state.X_BT
        error = np.concatenate(
            (target[:3, 3] - X[:3, 3], rotation_vector(target[:3, :3] @ X[:3, :3].T))
        )
        stiffness = np.where(self._forced, 0.0, self._stiffness)
        wrench = axes @ (stiffness * (axes.T @ error))
        stored = 0.5 * float(error @ wrench)
        wrench[3:] = rate_of_rotation_vector(error[3:]) @ wrench[3:]
        wrench, limited = _limited(wrench, s.max_force, s.max_torque)
        return _Spring(wrench, error, None if limited else stored)

    def _damping(self, inertia: Array) -> Array:
        """Return the damping in the axes of stiffness, shape (6, 6)."""
        stiffness, given = self._stiffness, self._given
        L = np.linalg.cholesky(inertia)
        L_inv = np.linalg.inv(L)
        scaled = L_inv * np.sqrt(stiffness)
        k, U = np.linalg.eigh(scaled @ scaled.T)
        shapes = L_inv.T @ U
        shares = stiffness[:, None] * shapes**2
        ratio = self._ratio @ (shares / shares.sum(axis=0).clip(1e-12))
        half = L @ U
        D = (half * (2.0 * ratio * np.sqrt(k.clip(0.0)))) @ half.T
        fixed = ~np.isnan(given)
        if fixed.any():
            D[fixed, :] = 0.0
            D[:, fixed] = 0.0
            D[fixed, fixed] = given[fixed]
        return np.asarray(D)

    def _posture_efforts(self, state: ArmState) -> Array:
        s = self.settings
        stiffness = s.nullspace_stiffness
        damping = 2.0 * s.nullspace_damping_ratio * np.sqrt(stiffness * np.diag(state.M))
        return np.asarray(stiffness * (self._posture - state.q) - damping * state.v)

    def _limit_efforts(self, state: ArmState) -> Array:
        """Return the efforts of virtual springs at joint limits."""
        low, high = self.limits.lower + LIMIT_MARGIN, self.limits.upper - LIMIT_MARGIN
        beyond = (low - state.q).clip(0.0) - (state.q - high).clip(0.0)
        damping = 2.0 * np.sqrt(LIMIT_STIFFNESS * np.diag(state.M)) * (beyond != 0.0)
        return np.asarray(LIMIT_STIFFNESS * beyond - damping * state.v)

    def _push(self, external: Array, axes: Array, dt: float) -> Array:
        """Return the desired wrench, corrected along the axes of force control."""
        s = self.settings
        forced = self._forced
        if not forced.any():  # the settings may have changed
            return _limited(self._wrench, s.max_force, s.max_torque)[0]
        desired, exerted = axes.T @ self._wrench, -(axes.T @ external)
        touching = forced & (np.abs(exerted) > IN_CONTACT * np.abs(desired)) & (desired != 0.0)
        # Without contact the integral decays; otherwise it could prevent a new contact.
        error = np.where(touching, desired - exerted, -self._pushed)
        bound = np.abs(desired)
        self._pushed = (self._pushed + s.force_gain * dt * error).clip(-bound, bound)
        self._pushed[~forced] = 0.0
        return _limited(axes @ (desired + self._pushed), s.max_force, s.max_torque)[0]

    def _limited_efforts(self, desired: Array, dt: float) -> Array:
        bound = self.limits.effort
        tau = desired.clip(-bound, bound)
        if self._last is not None:
            step = self.settings.max_effort_rate * dt
            tau = tau.clip(self._last - step, self._last + step)
        self._last = tau
        return np.asarray(tau)


def _axes(target: Array, frame: str) -> Array:
    """Return the axes of stiffness in the base's axes, shape (6, 6)."""
    axes = np.eye(6)
    if frame == "tool":
        axes[:3, :3] = axes[3:, 3:] = target[:3, :3]
    return axes


def _limited(wrench: Array, max_force: float, max_torque: float) -> tuple[Array, bool]:
    """Return a wrench with force and torque scaled to their limits, and whether it was scaled."""
    force, torque = float(np.linalg.norm(wrench[:3])), float(np.linalg.norm(wrench[3:]))
    if force <= max_force and torque <= max_torque:
        return wrench, False
    shares = (min(1.0, max_force / max(force, 1e-12)), min(1.0, max_torque / max(torque, 1e-12)))
    return wrench * np.repeat(np.array(shares), 3), True


class Compliance:
    """Applies an impedance law to the joints of an :class:`ArticulationController`.

    The references of these joints follow the measured state, which is the start state of the next
    command.
    """

    def __init__(self, controller: ArticulationController) -> None:
        self._controller = controller
        self.law: CartesianImpedance | None = None
        """The active law; None if there is none."""
        self.joints: NDArray[np.intp] = np.zeros(0, np.intp)
        """Indices of its joints."""

    def joints_of(self, law: CartesianImpedance) -> NDArray[np.intp]:
        """Return the indices of a law's joints, shape (n,).

        Raises:
            UnknownJoint: a joint that the controller does not have.
        """
        return joint_indices(law.joint_names, self._controller.joint_names, "this controller")

    def begin(
        self, law: CartesianImpedance, position: Array, velocity: Array, effort: Array | None
    ) -> None:
        """Activate a law, which holds the current pose of the tool.

        Args:
            law: law of a subset of the controller's joints.
            position: measured positions of all joints [rad or m], shape (n,).
            velocity: measured [rad/s or m/s], shape (n,).
            effort: measured efforts [N m or N], shape (n,); None: not measured.
        """
        joints = self.joints_of(law)
        efforts = None if effort is None else effort[joints]
        law.reset(position[joints], velocity[joints], efforts)
        self.law, self.joints = law, joints

    def end(self) -> NDArray[np.intp]:
        """Deactivate the law; return the indices of its joints, (n,); references keep moving."""
        joints = self.joints
        if self.law is not None:
            self._controller.end_compliance(joints)
            self.law, self.joints = None, np.zeros(0, np.intp)
        return joints

    def step(self, dt: float, position: Array, velocity: Array, effort: Array | None) -> None:
        """Set the efforts of this step in the controller.

        Args:
            dt: time since the last step [s].
            position: measured positions of all joints [rad or m], shape (n,).
            velocity: measured [rad/s or m/s], shape (n,).
            effort: measured efforts [N m or N], shape (n,); None: no new measurement.
        """
        if self.law is None or dt <= 0.0:
            return
        j = self.joints
        tau = self.law.step(position[j], velocity[j], dt, None if effort is None else effort[j])
        self._controller.comply(j, tau, position, velocity)

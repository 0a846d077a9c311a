# SPDX-License-Identifier: Apache-2.0
"""A cell of robots simulated by MuJoCo; one in which nothing moves sleeps (mujoco_world.py).

On one core at 2.5 GHz a step takes about 12 us for the Franka, 8 us for a JetBot, 50 us for a Kaya
with 30 rollers, and 18 us for Franka and JetBot in one world (reading the state 2 us, a command 17
to 30 us): 500 steps per second use 1 to 3 % of the core.

Sleep of a simulated world in which nothing moves: its steps are not computed. MuJoCo can let single
bodies sleep, but none that a drive acts on. A cell of robots at rest is recognized here as a whole:
once all velocities have stayed below a tolerance, a step only advances the time, until the control
input, an applied force or the state is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.configurations import follower_names
from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.sim.backend import (
    MeasuredJoints,
    RobotBackend,
    RobotPlacement,
    SimulationDiverged,
    UnknownRobot,
    root_to_base,
)
from motion_nodes.extras.sim.cell_words import FreeBody
from motion_nodes.extras.sim.drive_targets import DriveTargets
from motion_nodes.extras.sim.free_bodies import PREFIX, handle_in_drawer
from motion_nodes.extras.sim.mjcf import WorldConfig, build_model, is_floating, set_home
from motion_nodes.extras.sim.mjcf_shapes import quat_wxyz
from motion_nodes.extras.sim.scene_bodies import (
    CellContact,
    ContactRules,
    SceneBody,
    SceneCell,
    standing_bodies,
)
from motion_nodes.extras.sim.stiction import EVERY, Stiction
from motion_nodes.extras.sim.surface_gripper import (
    GripperRun,
    GripState,
    SurfaceGripper,
    UnknownGripper,
    UnknownObject,
)
from motion_nodes.typing import Array

MAX_SPEED = 1e-7
"""Norm of the generalized velocities [rad/s or m/s] of a world that may fall asleep."""
SETTLING_TIME = 0.5
"""[s] Time for which they must have been lower."""
_STATE = mujoco.mjtState
_SIGNATURE = int(
    _STATE.mjSTATE_QPOS | _STATE.mjSTATE_QVEL | _STATE.mjSTATE_ACT | _STATE.mjSTATE_USER
)
"""What MuJoCo integrates, and its inputs: controls, forces, constraints, poses of fixed bodies."""
MAX_PUSH = 1e4
"""Max force [N] and torque [N m] on an object."""
_MOST_SUBSTEPS = 4
"""Max number of substeps of a step."""
_MAX_SPEED = 1e5
"""A higher generalized velocity [rad/s or m/s] means that the simulation has diverged."""


class Sleep:
    """Recognizes that the next steps of a world change nothing."""

    def __init__(self) -> None:
        self._rested = 0.0
        self._state = b""
        """State in which the world sleeps; empty while it is awake."""
        self._now: NDArray[np.float64] = np.empty(0)

    def wake(self) -> None:
        """Compute the next steps: the model was changed, which the state does not show."""
        self._rested, self._state = 0.0, b""

    def note(self, model: mujoco.MjModel, data: mujoco.MjData, square: float, time: float) -> None:
        """Note computed steps.

        Args:
            model: of the world.
            data: after the steps.
            square: squared norm of the generalized velocities.
            time: duration of the steps [s].
        """
        self._rested = self._rested + time if square < MAX_SPEED**2 else 0.0
        if self._rested >= SETTLING_TIME:
            self._now = np.empty(mujoco.mj_stateSize(model, _SIGNATURE))
            mujoco.mj_getState(model, data, self._now, _SIGNATURE)
            self._state = self._now.tobytes()

    def lasts(self, model: mujoco.MjModel, data: mujoco.MjData) -> bool:
        """Return whether the world sleeps; a change of its state or inputs wakes it."""
        if not self._state:
            return False
        mujoco.mj_getState(model, data, self._now, _SIGNATURE)
        if self._now.tobytes() == self._state:
            return True
        self.wake()
        return False


class RobotAddresses(NamedTuple):
    """Indices of a robot's elements in MuJoCo's arrays."""

    q: slice | NDArray[np.int64]
    """Joint positions in ``qpos``, shape (n,)."""
    v: slice | NDArray[np.int64]
    """Joint velocities in ``qvel``, shape (n,)."""
    actuator: slice | NDArray[np.int64]
    """Actuators, shape (n,)."""
    follower_q: NDArray[np.int64]
    """Positions of mimic joints in ``qpos``, in the order of :func:`.follower_names`."""
    follower_v: NDArray[np.int64]
    """Their velocities in ``qvel``."""
    X_WR: Array
    """Placement of the root link in the world, shape (4, 4)."""
    X_RB: Array
    """Base frame in the root link, shape (4, 4)."""
    floating_q: int | None
    """First of the seven coordinates of a floating base in ``qpos``; None: fixed base."""
    floating_v: int | None
    """First of the six velocities of a floating base in ``qvel``; None: fixed base."""


def _run(indices: Sequence[int]) -> slice | NDArray[np.int64]:
    """Return indices, as a slice if they are consecutive, which is several times faster."""
    array = np.array(indices, dtype=np.int64)
    if len(array) and (np.diff(array) == 1).all():
        return slice(int(array[0]), int(array[-1]) + 1)
    return array


def addresses_of(model: mujoco.MjModel, placement: RobotPlacement) -> RobotAddresses:
    """Return the indices of a robot in the compiled model."""
    prefix, robot = placement.name, placement.robot
    joints = [model.joint(f"{prefix}/{name}") for name in robot.joint_names]
    followers = [model.joint(f"{prefix}/{name}") for name in follower_names(robot.tree)]
    floating = model.joint(f"{prefix}/floating") if is_floating(robot) else None
    return RobotAddresses(
        q=_run([joint.qposadr[0] for joint in joints]),
        v=_run([joint.dofadr[0] for joint in joints]),
        actuator=_run([model.actuator(f"{prefix}/{name}").id for name in robot.joint_names]),
        follower_q=np.array([joint.qposadr[0] for joint in followers], np.int64),
        follower_v=np.array([joint.dofadr[0] for joint in followers], np.int64),
        X_WR=placement.X_WR,
        X_RB=root_to_base(robot),
        floating_q=int(floating.qposadr[0]) if floating is not None else None,
        floating_v=int(floating.dofadr[0]) if floating is not None else None,
    )


class FreeObjects:
    """The free objects of a world; all methods raise UnknownObject for an unknown name."""

    def __init__(self, bodies: Sequence[FreeBody]) -> None:
        """Store the objects.

        Args:
            bodies: the objects of the model.
        """
        self.bodies = {body.name: body for body in bodies}
        """Objects as they were configured, by name."""
        self._handles = {
            body.name: handle_in_drawer(body.drawer[0]) for body in bodies if body.drawer
        }
        self._pushes: dict[str, tuple[Array, float]] = {}
        """Wrenches on objects, each with the time when it ends [s]."""

    def body(self, name: str) -> FreeBody:
        """Return an object as it was configured."""
        if name not in self.bodies:
            raise UnknownObject(name, tuple(self.bodies))
        return self.bodies[name]

    def pose(self, name: str, data: mujoco.MjData) -> Array:
        """Return the pose of an object in the world, shape (4, 4)."""
        self.body(name)
        body, X = data.body(f"{PREFIX}{name}"), np.eye(4)
        X[:3, :3], X[:3, 3] = body.xmat.reshape(3, 3), body.xpos
        return X @ self._handles[name] if name in self._handles else X

    def place(self, name: str, X_WO: Array, data: mujoco.MjData) -> None:
        """Set the pose of an object in the world, shape (4, 4), with zero velocity.

        Raises:
            InvalidConfig: the pose is not rigid, or the object is a drawer.
        """
        self.body(name)
        if name in self._handles:
            raise InvalidConfig(f"'{name}' is a drawer; its pose cannot be set")
        X = rigid_pose(X_WO, f"pose of object '{name}'", error=InvalidConfig)
        joint = data.joint(f"{PREFIX}{name}")
        joint.qpos[:3], joint.qpos[3:] = X[:3, 3], quat_wxyz(X[:3, :3])
        joint.qvel[:] = 0.0

    def push(self, name: str, wrench: Array, end: float) -> None:
        """Apply a force and a torque to the centre of mass of an object.

        Args:
            name: name of the object.
            wrench: force [N] and torque [N m], expressed in the world, shape (6,); replaces the
                previous one.
            end: simulated time at which it ends [s].

        Raises:
            InvalidCommand: a component is not finite, or above MAX_PUSH.
        """
        self.body(name)
        values = np.asarray(wrench, np.float64)
        if values.shape != (6,) or not np.abs(values).max() <= MAX_PUSH:
            raise InvalidCommand(
                f"the wrench on object '{name}' is {values.tolist()}; it must be six numbers of at "
                f"most {MAX_PUSH:g} N or N m"
            )
        self._pushes[name] = values, end

    def apply_pushes(self, data: mujoco.MjData) -> None:
        """Write the wrenches to ``data`` before a step; expired ones are removed."""
        for name, (wrench, end) in list(self._pushes.items()):
            ended = not data.time < end
            data.body(f"{PREFIX}{name}").xfrc_applied[:] = 0.0 if ended else wrench
            if ended:
                del self._pushes[name]

    def reset(self) -> None:
        """Remove all wrenches."""
        self._pushes.clear()


class MujocoWorld(RobotBackend):
    """Robots on a floor, with gravity, contacts and saturating drives."""

    def __init__(
        self, placements: Sequence[RobotPlacement], config: WorldConfig | None = None
    ) -> None:
        """Build the world with all robots in their home states.

        Args:
            placements: robots with their names and poses.
            config: physics settings; None: defaults.

        Raises:
            InvalidConfig: no robot, or two robots with the same name.
            InvalidDescription: a robot cannot be simulated.
        """
        super().__init__(placements)
        spec, self.model = build_model(placements, config or WorldConfig())
        self._scene = SceneCell(spec, self.placements)
        self._free = FreeObjects(config.objects if config else ())
        self.objects = tuple(self._free.bodies)
        """Names of the objects that move freely."""
        self.grippers = {
            item.name: GripperRun(item) for item in (config.surface_grippers if config else ())
        }
        """Surface grippers by name; close and open them by :meth:`act`."""
        for gripper in self.grippers.values():
            self._check_gripper(gripper.gripper)
        self._time_step = float(self.model.opt.timestep)
        self._substeps = _substeps(placements, self._time_step)
        self.data = mujoco.MjData(self.model)
        self._before = self.data.ctrl.copy()
        """Control input of the drives at the end of the last step."""
        self._commanded = True
        """Whether the control input may have changed since."""
        self._addresses = {p.name: addresses_of(self.model, p) for p in placements}
        self._diverged = ""
        self._sleep = Sleep()
        self._stiction = Stiction(self.model)
        self.reset()
        self._standing = standing_bodies(self.model, self.data, placements)
        self._rules = self._contact_rules()

    @property
    def spec(self) -> mujoco.MjSpec:
        """The specification of the compiled model."""
        return self._scene.spec

    @property
    def bodies(self) -> Mapping[str, SceneBody]:
        """Bodies of planning scenes in the world, by name."""
        return self._scene.bodies

    @property
    def body_faults(self) -> dict[str, str]:
        """Bodies without contacts, each with the reason."""
        inside = {
            name: f"it penetrates {link}; its contacts are disabled until it is free"
            for name, link in self._scene.inactive.items()
        }
        return {**self._scene.rejected, **inside}

    def set_bodies(self, bodies: Mapping[str, SceneBody]) -> None:
        """Replace the bodies of planning scenes; the state of the robots is kept.

        A body that cannot be simulated or that penetrates a robot is not an error:
        :attr:`body_faults` contains the reason.

        Args:
            bodies: all bodies by name, from :func:`motion_nodes.extras.sim.scene_bodies.bodies_of`.

        Raises:
            UnknownRobot: a body belongs to a robot that is not in the cell.
        """
        for body in bodies.values():
            self.targets(body.robot)
        self._sleep.wake()
        model = self.model
        self.model, self.data = self._scene.change(bodies, model, self.data, self.base_pose)
        self._stiction = Stiction(self.model)
        self._rules = self._contact_rules()

    def revive_bodies(self) -> None:
        """Enable the contacts of bodies that no longer penetrate a robot."""
        before = dict(self._scene.inactive)
        self._scene.revive(self.model, self.data)
        if self._scene.inactive != before:
            self._sleep.wake()

    def contacts(self) -> tuple[CellContact, ...]:
        """Return the contacts of the last step, without bodies that stand on the floor."""
        return self._rules.find(self.data)

    def _contact_rules(self) -> ContactRules:
        holding = frozenset(gripper.gripper.body for gripper in self.grippers.values())
        return ContactRules(
            self.model, self.placements, self._scene.bodies, self._standing, holding
        )

    @property
    def time(self) -> float:
        """Simulated time since the last reset [s]."""
        return float(self.data.time)

    @property
    def time_step(self) -> float:
        """Length of one step [s]."""
        return self._time_step

    @property
    def sleeps(self) -> bool:
        """Whether nothing moves, and no gripper closes or holds an object."""
        open_ = all(gripper.state is GripState.OPEN for gripper in self.grippers.values())
        return open_ and self._sleep.lasts(self.model, self.data)

    def pass_time(self, count: int) -> None:
        """Advance the time alone."""
        for _ in range(count):
            self.data.time += self._time_step

    def step(self, count: int = 1) -> None:
        """Advance by ``count`` steps; releases the GIL.

        Raises:
            SimulationDiverged: the state is not finite; reset() is required.
        """
        if self._diverged:
            raise SimulationDiverged(self._diverged)
        if count < 1:
            return
        self._free.apply_pushes(self.data)
        if self._sleep.lasts(self.model, self.data):
            self.pass_time(count)
            return
        gripping = any(gripper.state is not GripState.OPEN for gripper in self.grippers.values())
        if gripping:
            self._sleep.wake()
        most = 1 if gripping else EVERY if self._stiction.carries else count
        for begin in range(0, count, most):
            steps = min(most, count - begin)
            self._integrate(steps)
            self._stiction.update(self.data, steps)
            for gripper in self.grippers.values() if gripping else ():
                gripper.update(self.model, self.data)
        v = self.data.qvel
        square = float(v @ v)
        # Also true for NaN, which fails every comparison. The norm, an upper bound, is cheaper.
        if not square < _MAX_SPEED**2 and not np.abs(v).max(initial=0.0) < _MAX_SPEED:
            self._diverged = self._divergence_message()
            raise SimulationDiverged(self._diverged)
        self._sleep.note(self.model, self.data, square, count * self._time_step)

    def act(self, actions: Mapping[str, float]) -> None:
        """Close (above 0.3) or open (below -0.3) surface grippers, by name.

        Raises:
            UnknownGripper: no gripper has the name; nothing changes.
        """
        for name in actions:
            if name not in self.grippers:
                raise UnknownGripper(name, self.grippers)
        self._sleep.wake()
        for name, value in actions.items():
            self.grippers[name].act(value, self.model, self.data)

    def object_pose(self, name: str) -> Array:
        """Return the pose of an object in the world, shape (4, 4).

        Raises:
            UnknownObject: no object has the name.
        """
        return self._free.pose(name, self.data)

    def place_object(self, name: str, X_WO: Array) -> None:
        """Set the pose of an object in the world, shape (4, 4), at rest; grippers release it.

        Raises:
            UnknownObject: no object has the name.
            InvalidConfig: the pose is not rigid, or the object is a drawer.
        """
        self._free.place(name, X_WO, self.data)
        self._stiction.clear()
        for gripper in self.grippers.values():
            gripper.drop(name, self.model, self.data)

    def push_object(self, name: str, wrench: Array, duration: float) -> None:
        """Apply a force and a torque to the centre of mass of an object for a time.

        Args:
            name: name of the object.
            wrench: force [N] and torque [N m], expressed in the world, shape (6,); replaces the
                previous one.
            duration: duration in simulated time [s].

        Raises:
            UnknownObject: no object has the name.
            InvalidCommand: a component is not finite or too large.
        """
        self._free.push(name, wrench, self.time + duration)

    def free_body(self, name: str) -> FreeBody:
        """Return an object as it was configured, with its shape.

        Raises:
            UnknownObject: no object has the name.
        """
        return self._free.body(name)

    def _check_gripper(self, gripper: SurfaceGripper) -> None:
        robot = next((p.robot for p in self.placements if p.name == gripper.robot), None)
        if robot is None:
            raise UnknownRobot(gripper.robot, [p.name for p in self.placements])
        robot.tree.link(gripper.link)

    def _integrate(self, count: int) -> None:
        """Advance; a step with a changed control input is divided, with linear interpolation."""
        model, data, parts = self.model, self.data, self._substeps
        changed, self._commanded = self._commanded and parts > 1, False
        if changed and (data.ctrl != self._before).any():
            change = data.ctrl - self._before
            begin, end = self._before, data.ctrl.copy()
            model.opt.timestep = self._time_step / parts
            for k in range(1, parts):
                data.ctrl[:] = begin + change * (k / parts)
                mujoco.mj_step(model, data)
            data.ctrl[:] = end
            mujoco.mj_step(model, data)
            model.opt.timestep, self._before, count = self._time_step, end, count - 1
        if count:
            mujoco.mj_step(model, data, nstep=count)

    def state(self, name: str) -> MeasuredJoints:
        """Return positions, velocities and efforts of all joints of a robot."""
        at = self._at(name)
        data = self.data
        channels = data.qpos[at.q], data.qvel[at.v], data.actuator_force[at.actuator]
        followers = (data.qpos[at.follower_q], data.qvel[at.follower_v])
        return MeasuredJoints(*map(frozen, (*channels, followers)))

    def base_pose(self, name: str) -> Array:
        """Return the ground-truth ``X_WB`` of a robot's base frame, shape (4, 4), read-only."""
        at = self._at(name)
        return frozen(self._root_pose(at) @ at.X_RB)

    def base_twist(self, name: str) -> Array:
        """Return the ground-truth twist of the base frame in itself, shape (6,), read-only."""
        at = self._at(name)
        if at.floating_v is None:
            return frozen(np.zeros(6))
        v = self.data.qvel[at.floating_v : at.floating_v + 6]
        # MuJoCo expresses the linear velocity in the world and the angular velocity in the body.
        linear = self._root_pose(at)[:3, :3].T @ v[:3] + _cross(v[3:], at.X_RB[:3, 3])
        R_BR = at.X_RB[:3, :3].T
        return frozen(np.concatenate((R_BR @ linear, R_BR @ v[3:])))

    def base_acceleration(self, name: str) -> Array:
        """Return the reading of an accelerometer in the base in the last step, shape (3,)."""
        at = self._at(name)
        R_WR = self._root_pose(at)[:3, :3]
        linear = -R_WR.T @ self.model.opt.gravity
        if at.floating_v is not None:
            v = at.floating_v
            omega, alpha = self.data.qvel[v + 3 : v + 6], self.data.qacc[v + 3 : v + 6]
            p = at.X_RB[:3, 3]
            linear = linear + R_WR.T @ self.data.qacc[v : v + 3] + _cross(alpha, p)
            linear = linear + _cross(omega, _cross(omega, p))
        return frozen(at.X_RB[:3, :3].T @ linear)

    def _root_pose(self, at: RobotAddresses) -> Array:
        """Return the current ``X_WR`` of the root link."""
        if at.floating_q is None:
            return at.X_WR
        # From qpos, because MuJoCo's body poses lag by one step.
        q = self.data.qpos[at.floating_q : at.floating_q + 7]
        R = np.empty(9)
        mujoco.mju_quat2Mat(R, q[3:])
        X_WR = np.eye(4)
        X_WR[:3, :3] = R.reshape(3, 3)
        X_WR[:3, 3] = q[:3]
        return X_WR

    def _at(self, name: str) -> RobotAddresses:
        """Return a robot's indices; raises UnknownRobot."""
        self.targets(name)
        return self._addresses[name]

    def _reset_state(self) -> None:
        """Reset joints to home, bases to their placements, and the time to zero."""
        self._diverged = ""
        self._sleep.wake()
        self._free.reset()
        self._stiction.clear()
        mujoco.mj_resetData(self.model, self.data)
        set_home(self.model, self.data, self.placements)
        for gripper in self.grippers.values():
            gripper.open(self.model, self.data)
        self._scene.restore(self.model, self.data)

    def reset(self) -> None:
        """Reset the world to its initial state, including the time."""
        super().reset()
        self._before = self.data.ctrl.copy()
        # Computes forces and poses of the initial state.
        mujoco.mj_forward(self.model, self.data)

    def _targets_changed(self, name: str) -> None:
        """Write the gains of the current modes and the feedforward part of the drive law."""
        targets: DriveTargets = self.targets(name)
        at = self._addresses[name]
        self._commanded = True
        self._sleep.wake()
        kp, kd = targets.gains()
        feed, gains = targets.feed(), self.model.actuator_biasprm
        changed = (gains[at.actuator, 1] != -kp) | (gains[at.actuator, 2] != -kd)
        if changed.any():
            gains[at.actuator, 1], gains[at.actuator, 2] = -kp, -kd
            self._before[at.actuator] = np.where(changed, feed, self._before[at.actuator])
        self.data.ctrl[at.actuator] = feed

    def _divergence_message(self) -> str:
        speed = np.abs(self.data.qvel)
        dof = int(np.argmax(np.where(np.isfinite(speed), speed, np.inf)))
        joint = self.model.joint(int(self.model.dof_jntid[dof])).name
        robot, _, name = joint.partition("/")
        return (
            f"the simulation diverged at {self.time:.3f} s: joint '{name}' of '{robot}' has "
            f"velocity {self.data.qvel[dof]:g} (max {_MAX_SPEED:g}). Reset the world; if it "
            "diverges again, reduce the gains of its drive, increase its armature or reduce the "
            "time step."
        )


def _substeps(placements: Sequence[RobotPlacement], time_step: float) -> int:
    """Return the number of substeps of a step.

    Drives are integrated implicitly: an effort limit applies to ``(M + time_step * damping) a``, so
    position drives saturate too early unless the time step resolves their damping.
    """
    drives = (d for p in placements for d in p.robot.drives if d.mode == "position")
    ratios = [time_step * d.damping / max(d.armature, 1e-9) for d in drives]
    return int(np.clip(np.rint(max(ratios, default=0.0)), 1, _MOST_SUBSTEPS))


def _cross(a: Array, b: Array) -> Array:
    """Return a x b, shape (3,); np.cross is twenty times slower for single vectors."""
    (ax, ay, az), (bx, by, bz) = a.tolist(), b.tolist()
    return np.array((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))

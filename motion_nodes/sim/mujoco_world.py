# SPDX-License-Identifier: Apache-2.0
"""A cell of robots with physics: MuJoCo behind the backend's protocol.

One step takes about 12 us for the Franka, 8 us for a JetBot, 50 us for a Kaya on 30 rollers, and
18 us for Franka and JetBot in one world on one core of 2.5 GHz (a state 2 us, a command 17 to
30 us), so 500 steps a second need 1 to 3 % of the core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.tree import Array, frozen
from motion_nodes.sim.backend import (
    MeasuredJoints,
    RobotBackend,
    RobotPlacement,
    SimulationDiverged,
    root_to_base,
)
from motion_nodes.sim.cell_contacts import CellContact, ContactRules, standing_bodies
from motion_nodes.sim.drive_targets import DriveTargets
from motion_nodes.sim.mjcf import WorldConfig, build_model, is_floating, set_home
from motion_nodes.sim.scene_bodies import SceneBody
from motion_nodes.sim.scene_cell import SceneCell

_RUNAWAY_SPEED = 1e5
"""No robot of ours moves this fast [rad/s or m/s]: the physics has run away."""


class _Addresses(NamedTuple):
    """Where a robot's numbers stand in MuJoCo's arrays."""

    q: NDArray[np.int64]
    v: NDArray[np.int64]
    actuator: NDArray[np.int64]
    X_WR: Array
    """Where the root link was placed."""
    X_RB: Array
    """The base frame in the root link."""
    floating_q: int | None
    """First of the seven coordinates of a floating base; None for a fixed one."""
    floating_v: int | None


class MujocoWorld(RobotBackend):
    """Robots on a floor, with gravity, contacts and saturating drives."""

    def __init__(
        self, placements: Sequence[RobotPlacement], config: WorldConfig | None = None
    ) -> None:
        """Build the world and put all robots to home.

        Args:
            placements: robots, names and places.
            config: settings of the physics; defaults when None.

        Raises:
            InvalidConfig: for no robot or two of one name.
            InvalidDescription: when a robot cannot be simulated.
        """
        super().__init__(placements)
        spec, self.model = build_model(placements, config or WorldConfig())
        self._scene = SceneCell(spec, self.placements)
        self.data = mujoco.MjData(self.model)
        self._addresses = {p.name: _addresses(self.model, p) for p in placements}
        self._diverged = ""
        self.reset()
        self._standing = standing_bodies(self.model, self.data)
        self._rules = self._contact_rules()

    @property
    def spec(self) -> mujoco.MjSpec:
        """What the model was compiled from."""
        return self._scene.spec

    @property
    def bodies(self) -> Mapping[str, SceneBody]:
        """The bodies of planning scenes in the world, by name."""
        return self._scene.bodies

    @property
    def body_faults(self) -> dict[str, str]:
        """Bodies that have no contacts, each with the reason in words."""
        inside = {
            name: f"it is inside {link}; it has no contacts until that has left it"
            for name, link in self._scene.inactive.items()
        }
        return {**self._scene.refused, **inside}

    def set_bodies(self, bodies: Mapping[str, SceneBody]) -> None:
        """Have the objects of planning scenes as bodies; the motion of robots goes on.

        A body that physics cannot have, or that begins inside a robot, is a fault and no error:
        :attr:`body_faults` says why.

        Args:
            bodies: all there are to be, by name; from
                :func:`motion_nodes.sim.scene_bodies.bodies_of`.

        Raises:
            UnknownRobot: a body is of a robot that is not in the cell.
        """
        for body in bodies.values():
            self.targets(body.robot)
        model = self.model
        self.model, self.data = self._scene.change(bodies, model, self.data, self.base_pose)
        self._rules = self._contact_rules()

    def revive_bodies(self) -> None:
        """Give bodies contacts that no robot is inside of any more."""
        self._scene.revive(self.model, self.data)

    def contacts(self) -> tuple[CellContact, ...]:
        """Return who touches whom as of the last step, without what stands on the floor."""
        return self._rules.find(self.data)

    def _contact_rules(self) -> ContactRules:
        return ContactRules(self.model, self.placements, self._scene.bodies, self._standing)

    @property
    def time(self) -> float:
        """Simulated time since the last reset [s]."""
        return float(self.data.time)

    @property
    def time_step(self) -> float:
        """Length of one step [s]."""
        return float(self.model.opt.timestep)

    def step(self, count: int = 1) -> None:
        """Advance by ``count`` steps; other Python threads run meanwhile.

        Raises:
            SimulationDiverged: when the state is not finite any more; reset() is needed.
        """
        if self._diverged:
            raise SimulationDiverged(self._diverged)
        if count < 1:
            return
        mujoco.mj_step(self.model, self.data, nstep=count)
        # A NaN fails every comparison, so this catches it too.
        if not np.abs(self.data.qvel).max(initial=0.0) < _RUNAWAY_SPEED:
            self._diverged = self._explain()
            raise SimulationDiverged(self._diverged)

    def state(self, name: str) -> MeasuredJoints:
        """Return position, velocity and effort of all joints of a robot."""
        at = self._at(name)
        data = self.data
        sample = MeasuredJoints(data.qpos[at.q], data.qvel[at.v], data.actuator_force[at.actuator])
        for array in sample:
            array.setflags(write=False)
        return sample

    def base_pose(self, name: str) -> Array:
        """Return the true ``X_WB`` of a robot's base frame, shape (4, 4), read-only."""
        at = self._at(name)
        return frozen(self._root_pose(at) @ at.X_RB)

    def base_twist(self, name: str) -> Array:
        """Return the true (linear, angular) velocity of the base frame, in itself, read-only."""
        at = self._at(name)
        if at.floating_v is None:
            return frozen(np.zeros(6))
        v = self.data.qvel[at.floating_v : at.floating_v + 6]
        # MuJoCo gives the linear part in the world, the angular part in the body already.
        linear = self._root_pose(at)[:3, :3].T @ v[:3] + _cross(v[3:], at.X_RB[:3, 3])
        R_BR = at.X_RB[:3, :3].T
        return frozen(np.concatenate((R_BR @ linear, R_BR @ v[3:])))

    def _root_pose(self, at: _Addresses) -> Array:
        """Return ``X_WR`` of the root link now."""
        if at.floating_q is None:
            return at.X_WR
        # From the coordinates, not from the body: MuJoCo's body poses lag by one step.
        q = self.data.qpos[at.floating_q : at.floating_q + 7]
        R = np.empty(9)
        mujoco.mju_quat2Mat(R, q[3:])
        X_WR = np.eye(4)
        X_WR[:3, :3] = R.reshape(3, 3)
        X_WR[:3, 3] = q[:3]
        return X_WR

    def _at(self, name: str) -> _Addresses:
        """Return a robot's addresses, or say which robots there are."""
        self.targets(name)
        return self._addresses[name]

    def _reset_state(self) -> None:
        """Put the joints to home, the bases to their places, and time to zero."""
        self._diverged = ""
        mujoco.mj_resetData(self.model, self.data)
        set_home(self.model, self.data, self.placements)
        self._scene.restore(self.model, self.data)

    def reset(self) -> None:
        """Put everything back to the state of a new world, time included."""
        super().reset()
        # So that forces and poses are those of the first instant before any step.
        mujoco.mj_forward(self.model, self.data)

    def _targets_changed(self, name: str) -> None:
        """Write gains of the modes in force and the state-free part of the law."""
        targets: DriveTargets = self.targets(name)
        at = self._addresses[name]
        kp, kd = targets.gains()
        self.model.actuator_biasprm[at.actuator, 1] = -kp
        self.model.actuator_biasprm[at.actuator, 2] = -kd
        self.data.ctrl[at.actuator] = targets.feed()

    def _explain(self) -> str:
        """Say which joint ran away and when."""
        speed = np.abs(self.data.qvel)
        dof = int(np.argmax(np.where(np.isfinite(speed), speed, np.inf)))
        joint = self.model.joint(int(self.model.dof_jntid[dof])).name
        robot, _, name = joint.partition("/")
        return (
            f"the simulation ran away at {self.time:.3f} s: joint '{name}' of '{robot}' moves at "
            f"{self.data.qvel[dof]:g}. Reset the world; if it happens again, lower the gains of "
            "its drive, raise its armature or shorten the time step."
        )


def _cross(a: Array, b: Array) -> Array:
    """Return a x b of two vectors; NumPy's own is made for arrays and twenty times slower."""
    (ax, ay, az), (bx, by, bz) = a.tolist(), b.tolist()
    return np.array((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))


def _addresses(model: mujoco.MjModel, placement: RobotPlacement) -> _Addresses:
    """Find a robot's numbers in the compiled model."""
    prefix, robot = placement.name, placement.robot
    joints = [model.joint(f"{prefix}/{name}") for name in robot.joint_names]
    floating = model.joint(f"{prefix}/floating") if is_floating(robot) else None
    return _Addresses(
        q=np.array([joint.qposadr[0] for joint in joints], dtype=np.int64),
        v=np.array([joint.dofadr[0] for joint in joints], dtype=np.int64),
        actuator=np.array(
            [model.actuator(f"{prefix}/{name}").id for name in robot.joint_names], dtype=np.int64
        ),
        X_WR=placement.X_WR,
        X_RB=root_to_base(robot),
        floating_q=int(floating.qposadr[0]) if floating is not None else None,
        floating_v=int(floating.dofadr[0]) if floating is not None else None,
    )

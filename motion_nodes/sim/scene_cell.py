# SPDX-License-Identifier: Apache-2.0
"""Bodies of planning scenes in a running MuJoCo model: added, moved and removed at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import mujoco
import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.sim.mjcf_shapes import quat_wxyz
from motion_nodes.sim.placement import RobotPlacement
from motion_nodes.sim.scene_bodies import (
    MAX_BODIES,
    SceneBody,
    add_body,
    check_body,
    contact_types,
)
from motion_nodes.typing import Array

NEW_DEPTH = 1e-3
"""A new body that penetrates a robot deeper than this [m] has no contacts until they separate."""
MOVED_DEPTH = 0.02
"""Penetration depth of a moving body [m] beyond which its contacts are disabled: it may push a
robot, but not jump into it."""


class SceneCell:
    """The bodies of planning scenes in a model that was built without them."""

    def __init__(self, spec: mujoco.MjSpec, placements: Sequence[RobotPlacement]) -> None:
        """Start without bodies.

        Args:
            spec: specification of the robots and the floor.
            placements: the robots of the cell.
        """
        self._bare = spec
        self.spec = spec
        """Specification of the model with all bodies."""
        self._links = {
            p.name: {link: f"{p.name}/{link}" for link in p.robot.tree.frame_names}
            for p in placements
        }
        self.bodies: dict[str, SceneBody] = {}
        """Bodies in the model, by name."""
        self._places: dict[str, Array] = {}
        self.rejected: dict[str, str] = {}
        """Bodies that cannot be simulated, each with the reason."""
        self.inactive: dict[str, str] = {}
        """Bodies with disabled contacts, each with the link that it penetrates."""

    def change(
        self,
        bodies: Mapping[str, SceneBody],
        model: mujoco.MjModel,
        data: mujoco.MjData,
        base_pose: Callable[[str], Array],
    ) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Replace the bodies of the model.

        Args:
            bodies: all bodies, by name.
            model: the current model.
            data: its state.
            base_pose: returns ``X_WB`` of a robot by name.

        Returns:
            Model and state: unchanged objects if bodies have only moved; otherwise a recompiled
            model with the same state of the robots.
        """
        desired = self._accepted(bodies)
        places = {
            name: self._place(name, body, base_pose)
            for name, body in desired.items()
            if not body.link
        }
        fresh = {n for n, b in desired.items() if not _same(self.bodies.get(n), b)}
        moved = {
            name for name, X in places.items()
            if name not in fresh and self._places[name] is not X
        }  # fmt: skip
        rebuilt = bool(fresh) or desired.keys() != self.bodies.keys()
        if rebuilt:
            model, data = self._rebuilt(desired, places, model, data)
        self.bodies, self._places = desired, places
        for name in moved:
            self._move(name, model, data)
        self.inactive = {n: link for n, link in self.inactive.items() if n in desired}
        self._activate(fresh | set(self.inactive), NEW_DEPTH, model, data)
        self._activate(moved - set(self.inactive), MOVED_DEPTH, model, data)
        if rebuilt:
            # Computes efforts, poses and contacts before the next step.
            before = data.qacc_warmstart.copy()
            mujoco.mj_forward(model, data)
            data.qacc_warmstart[:] = before
        return model, data

    def revive(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Enable the contacts of bodies that no longer penetrate a robot.

        Args:
            model: the current model.
            data: its state.
        """
        if self.inactive:
            self._activate(set(self.inactive), NEW_DEPTH, model, data)

    def restore(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Restore the poses of the bodies after a reset of the state.

        Args:
            model: the current model.
            data: its state.
        """
        for name in self._places:
            self._move(name, model, data)
        self._activate(set(self.bodies), NEW_DEPTH, model, data)

    def _accepted(self, bodies: Mapping[str, SceneBody]) -> dict[str, SceneBody]:
        """Return the bodies that can be simulated; store the reasons why others cannot."""
        accepted: dict[str, SceneBody] = {}
        rejected: dict[str, str] = {}
        for name, body in bodies.items():
            known = self.bodies.get(name)
            if len(accepted) >= MAX_BODIES:
                rejected[name] = f"there are more than {MAX_BODIES} bodies"
            elif known is not None and known.parts is body.parts and known.link == body.link:
                accepted[name] = body
            else:
                try:
                    check_body(name, body)
                    accepted[name] = body
                except InvalidCommand as error:
                    rejected[name] = str(error)
        self.rejected = rejected
        return accepted

    def _place(self, name: str, body: SceneBody, base_pose: Callable[[str], Array]) -> Array:
        """Return the pose of a body in the world; motion of the robot's base does not change it."""
        known = self.bodies.get(name)
        if known is not None and not known.link and np.array_equal(known.X, body.X):
            return self._places[name]
        return base_pose(body.robot) @ body.X

    def _rebuilt(
        self,
        bodies: Mapping[str, SceneBody],
        places: Mapping[str, Array],
        model: mujoco.MjModel,
        data: mujoco.MjData,
    ) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Return a model with other bodies, and the same state.

        Bodies have no joints, so joints, drives and their order are unchanged.
        """
        spec = self._bare.copy()
        for name, body in bodies.items():
            add_body(spec, name, body, places.get(name, body.X), self._links[body.robot])
        made = spec.compile()
        made.actuator_biasprm[:] = model.actuator_biasprm
        made.eq_data[:] = model.eq_data
        for at in np.flatnonzero(model.eq_type == int(mujoco.mjtEq.mjEQ_WELD)):
            made.eq_obj2id[at] = made.body(model.body(int(model.eq_obj2id[at])).name).id
        state = mujoco.MjData(made)
        state.time = data.time
        for field in ("qpos", "qvel", "act", "ctrl", "qacc_warmstart", "qfrc_applied",
                      "eq_active"):  # fmt: skip
            getattr(state, field)[:] = getattr(data, field)
        self.spec = spec
        self.inactive = {n: link for n, link in self.inactive.items() if n in bodies}
        for name in self.inactive:
            _set_contacts(made, name, None)
        return made, state

    def _move(self, name: str, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        X = self._places[name]
        at = int(model.body_mocapid[model.body(name).id])
        data.mocap_pos[at] = X[:3, 3]
        data.mocap_quat[at] = quat_wxyz(X[:3, :3])

    def _activate(
        self, names: set[str], depth: float, model: mujoco.MjModel, data: mujoco.MjData
    ) -> None:
        """Enable the contacts of bodies that penetrate no robot deeper than ``depth`` [m]."""
        if not names:
            return
        for name in names:
            _set_contacts(model, name, contact_types(self.bodies[name]))
        trial = mujoco.MjData(model)
        trial.qpos[:] = data.qpos
        trial.mocap_pos[:], trial.mocap_quat[:] = data.mocap_pos, data.mocap_quat
        mujoco.mj_fwdPosition(model, trial)
        inside: dict[str, str] = {}
        for i in np.flatnonzero(trial.contact.dist < -depth):
            pair = [model.body(int(model.geom_bodyid[g])).name for g in trial.contact.geom[i]]
            for name, other in (pair, pair[::-1]):
                robot = next((r for r in self._links if other.startswith(f"{r}/")), None)
                if name in names and robot is not None:
                    inside[name] = other
        for name in names:
            if name in inside:
                _set_contacts(model, name, None)
                self.inactive[name] = inside[name]
            else:
                self.inactive.pop(name, None)


def _same(before: SceneBody | None, after: SceneBody) -> bool:
    return before is not None and before.same_geometry(after)


def _set_contacts(model: mujoco.MjModel, name: str, types: tuple[int, int] | None) -> None:
    """Set contype and conaffinity of a body's geoms; None: no contacts."""
    body = model.body(name).id
    first = int(model.body_geomadr[body])
    geoms = slice(first, first + int(model.body_geomnum[body]))
    model.geom_contype[geoms], model.geom_conaffinity[geoms] = types or (0, 0)
    model.body_contype[body], model.body_conaffinity[body] = types or (0, 0)

# SPDX-License-Identifier: Apache-2.0
"""Changes a running MuJoCo model: bodies come, move and go, and the robots' state goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import mujoco
import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.tree import Array
from motion_nodes.sim.backend import RobotPlacement
from motion_nodes.sim.mjcf_shapes import quat_wxyz
from motion_nodes.sim.scene_bodies import (
    MAX_BODIES,
    SceneBody,
    add_body,
    check_body,
    contact_types,
)

NEW_DEPTH = 1e-3
"""A body that would begin deeper than this in a robot has no contacts until it is free [m]."""
MOVED_DEPTH = 0.02
"""The same of a body that moves: it may push a robot, and not jump into one [m]."""


class SceneCell:
    """The bodies of planning scenes in a model that was built without them."""

    def __init__(self, spec: mujoco.MjSpec, placements: Sequence[RobotPlacement]) -> None:
        """Begin without bodies.

        Args:
            spec: of the robots and the floor.
            placements: the robots of the cell.
        """
        self._bare = spec
        self.spec = spec
        """Of the model with all bodies."""
        self._links = {
            p.name: {link: f"{p.name}/{link}" for link in p.robot.tree.frame_names}
            for p in placements
        }
        self.bodies: dict[str, SceneBody] = {}
        """What is in the model, by the name of the body."""
        self._places: dict[str, Array] = {}
        self.refused: dict[str, str] = {}
        """Why bodies are not in the model, in words."""
        self.inactive: dict[str, str] = {}
        """Bodies without contacts, each with the robot's link that it is inside of."""

    def change(
        self,
        bodies: Mapping[str, SceneBody],
        model: mujoco.MjModel,
        data: mujoco.MjData,
        base_pose: Callable[[str], Array],
    ) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Have other bodies in the model.

        Args:
            bodies: all that there are to be, by name.
            model: the model so far.
            data: its state.
            base_pose: returns ``X_WB`` of a robot by name.

        Returns:
            The model and its state, the same ones where bodies only moved. The state of robots is
            carried over.
        """
        wanted = self._accepted(bodies)
        places = {
            name: self._place(name, body, base_pose)
            for name, body in wanted.items()
            if not body.link
        }
        fresh = {n for n, b in wanted.items() if not _same(self.bodies.get(n), b)}
        moved = {
            name for name, X in places.items()
            if name not in fresh and self._places[name] is not X
        }  # fmt: skip
        rebuilt = bool(fresh) or wanted.keys() != self.bodies.keys()
        if rebuilt:
            model, data = self._rebuilt(wanted, places, model, data)
        self.bodies, self._places = wanted, places
        for name in moved:
            self._move(name, model, data)
        self.inactive = {n: link for n, link in self.inactive.items() if n in wanted}
        self._activate(fresh | set(self.inactive), NEW_DEPTH, model, data)
        self._activate(moved - set(self.inactive), MOVED_DEPTH, model, data)
        if rebuilt:
            # So that efforts, poses and contacts are there before the next step.
            before = data.qacc_warmstart.copy()
            mujoco.mj_forward(model, data)
            data.qacc_warmstart[:] = before
        return model, data

    def revive(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Give bodies contacts that no robot is inside of any more."""
        if self.inactive:
            self._activate(set(self.inactive), NEW_DEPTH, model, data)

    def restore(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Put bodies where they were before a reset of the state, which robots begin anew."""
        for name in self._places:
            self._move(name, model, data)
        self._activate(set(self.bodies), NEW_DEPTH, model, data)

    def _accepted(self, bodies: Mapping[str, SceneBody]) -> dict[str, SceneBody]:
        """Return the bodies that physics can have, and keep why it cannot have the others."""
        accepted: dict[str, SceneBody] = {}
        refused: dict[str, str] = {}
        for name, body in bodies.items():
            known = self.bodies.get(name)
            if len(accepted) >= MAX_BODIES:
                refused[name] = f"there are more than {MAX_BODIES} bodies"
            elif known is not None and known.parts is body.parts and known.link == body.link:
                accepted[name] = body
            else:
                try:
                    check_body(name, body)
                    accepted[name] = body
                except InvalidCommand as error:
                    refused[name] = str(error)
        self.refused = refused
        return accepted

    def _place(self, name: str, body: SceneBody, base_pose: Callable[[str], Array]) -> Array:
        """Return where a body stands in the world; it stays there when its robot drives on."""
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
        """Return a model with other bodies in the same state.

        Bodies have no joints, so joints, drives and their order stay.
        """
        spec = self._bare.copy()
        for name, body in bodies.items():
            add_body(spec, name, body, places.get(name, body.X), self._links[body.robot])
        made = spec.compile()
        made.actuator_biasprm[:] = model.actuator_biasprm
        state = mujoco.MjData(made)
        state.time = data.time
        for field in ("qpos", "qvel", "act", "ctrl", "qacc_warmstart", "qfrc_applied"):
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
        """Give bodies contacts, but those deeper than allowed in a robot [m]."""
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
    """Set what the geoms of a body touch; None: nothing."""
    body = model.body(name).id
    first = int(model.body_geomadr[body])
    geoms = slice(first, first + int(model.body_geomnum[body]))
    model.geom_contype[geoms], model.geom_conaffinity[geoms] = types or (0, 0)
    model.body_contype[body], model.body_conaffinity[body] = types or (0, 0)

# SPDX-License-Identifier: Apache-2.0
"""Surface (suction) grippers in MuJoCo: weld constraints with ray casts and force limits.

When the gripper closes, the pad at each attachment point casts rays along its axis. A free body on
which the pad seals is welded to the link at its current pose; after some settling steps the weld
breaks as soon as the load exceeds what the pad can hold. Behaviour and names are those of Isaac
Sim's surface gripper, whose pads have no radius.

A pad seals if its whole rim lies on one object. The normal force N on the rim is the force of the
vacuum minus the pull. The rim lifts if a bending moment M unloads a point of the rim (a thin ring),
and it slips if shear T and torsion Q exceed friction:

    N = vacuum pi r^2 - pull,    2 |M| / r <= N,    T^2 + (Q / r)^2 <= (friction N)^2

Source: G. Mantriota, "Theoretical model of the grasp with vacuum gripper", Mechanism and Machine
Theory 42(1), 2007; the friction limit is an ellipse.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.sim.free_bodies import PREFIX
from motion_nodes.extras.sim.mjcf_shapes import contact_reference, quat_wxyz
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

RIM = 16
"""Number of points of the rim that are tested."""
BEHIND = 0.005
"""Distance behind the pad at which rays start [m], so that penetrated objects are hit."""
_STEP = 1e-3
"""Advance of a ray that has hit its own robot [m]."""
AXES = ("x", "y", "z")
SETTLING = 10
"""Number of steps after the activation of a weld in which its force is not checked."""
ACTION = 0.3
"""Threshold of actions: greater values close, values below its negative open."""


@dataclass(frozen=True)
class SurfaceGripperSettings:
    """Settings of a surface gripper: reach, timeouts, force limits."""

    max_grip_distance: float = setting(
        0.01, doc="Max distance of a surface along the axis.", unit="m", gt=0.0, le=1.0
    )
    retry_interval: float = setting(
        0.0, doc="Timeout of closing; 0: one attempt.", unit="s", ge=0.0, le=600.0
    )
    coaxial_force_limit: float = setting(
        -1.0, doc="Max pull of each attachment along its axis; 0 or below: unlimited.", unit="N",
        ge=-1e6, le=1e6,
    )  # fmt: skip
    shear_force_limit: float = setting(
        -1.0, doc="Max force of each attachment across its axis; 0 or below: unlimited.", unit="N",
        ge=-1e6, le=1e6,
    )  # fmt: skip
    pad_radius: float = setting(
        0.02,
        doc="Radius of the pad at each attachment point: it seals only if its whole rim lies on an "
        "object, and holds within the limits of vacuum and friction. 0: one ray, no such limits.",
        unit="m", ge=0.0, le=1.0,
    )  # fmt: skip
    seal_tolerance: float = setting(
        0.003,
        doc="Max difference of the distances along the rim (tilt, curvature) at which the lip of a "
        "pad seals.", unit="m", gt=0.0, le=0.1,
    )  # fmt: skip
    vacuum: float = setting(
        6e4, doc="Pressure difference under the pad.", unit="Pa", gt=0.0, le=101325.0
    )
    pad_friction: float = setting(
        0.5, doc="Coefficient of friction between pad and objects.", ge=0.0, le=10.0
    )

    def __post_init__(self) -> None:
        """Check all values; raises InvalidConfig."""
        check_settings(self)

    @property
    def pull_off(self) -> float:
        """Force of the vacuum on a pad [N]."""
        return self.vacuum * math.pi * self.pad_radius**2

    def overload(self, force: Array, torque: Array, axis: Array) -> str:
        """Return the reason why an attachment breaks, or an empty string.

        Args:
            force: force of the object on the pad [N], shape (3,).
            torque: torque of the object about the centre of the pad [N m], shape (3,).
            axis: unit vector out of the pad, shape (3,).
        """
        pull, twist = float(force @ axis), float(torque @ axis)
        shear = float(np.linalg.norm(force - pull * axis))
        for what, found, limit in (
            ("pull", pull, self.coaxial_force_limit), ("shear", shear, self.shear_force_limit),
        ):  # fmt: skip
            if 0.0 < limit < found:
                return f"a {what} of {found:.3g} N exceeds its limit of {limit:g} N"
        if self.pad_radius == 0.0:
            return ""
        pressed, r = self.pull_off - pull, self.pad_radius
        if pressed < 0.0:
            return f"a pull of {pull:.3g} N exceeds the vacuum's {self.pull_off:.3g} N"
        bend = float(np.linalg.norm(torque - twist * axis))
        if 2.0 * bend > r * pressed:
            return (
                f"a moment of {bend:.3g} N m lifts the rim of the pad at a normal force of "
                f"{pressed:.3g} N"
            )
        slip = math.hypot(shear, twist / r)
        if slip > self.pad_friction * pressed:
            return (
                f"a shear of {slip:.3g} N exceeds the friction of the pad, "
                f"{self.pad_friction * pressed:.3g} N"
            )
        return ""


class PadRays:
    """Ray casts along the axis of a pad, which find the object below it."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, link: str, objects: str) -> None:
        """Create the ray caster.

        Args:
            model: model with the link.
            data: its current state.
            link: body that carries the pad, as ROBOT/LINK.
            objects: prefix of the names of bodies that can be held.
        """
        self._model, self._data, self._objects = model, data, objects
        self._exclude, self._own = model.body(link).id, link.partition("/")[0] + "/"

    def find(self, at: Array, axis: Array, settings: SurfaceGripperSettings) -> tuple[str, str]:
        """Return the body on which a pad seals and an empty string, or '' and the reason.

        Args:
            at: centre of the pad in the world [m], shape (3,).
            axis: unit vector out of the pad, shape (3,).
            settings: settings of the gripper.
        """
        body, _ = self._hit(at, axis, settings.max_grip_distance)
        if not body.startswith(self._objects):
            what = f"'{body.rpartition('/')[2]}' is no free object" if body else "nothing"
            return "", f"within {settings.max_grip_distance:g} m of the pad: {what}"
        if settings.pad_radius == 0.0:
            return body, ""
        depths = [
            depth
            for point in rim(at, axis, settings.pad_radius)
            for found, depth in (self._hit(point, axis, settings.max_grip_distance),)
            if found == body
        ]
        name = body.removeprefix(self._objects)
        if len(depths) < RIM:
            return "", f"{RIM - len(depths)} of {RIM} points of the rim are not on '{name}'"
        spread = max(depths) - min(depths)
        if spread > settings.seal_tolerance:
            return "", (
                f"the distances of the rim from '{name}' differ by {1e3 * spread:.3g} mm (tilt or "
                f"curvature; seal_tolerance {1e3 * settings.seal_tolerance:g} mm)"
            )
        return body, ""

    def _hit(self, at: Array, axis: Array, reach: float) -> tuple[str, float]:
        """Return the body that a ray hits within reach, and its distance; '' for none."""
        geom, passed = np.full(1, -1, np.int32), -BEHIND
        while passed <= reach:
            hit = mujoco.mj_ray(self._model, self._data, at + passed * axis, axis, None, 1,
                                self._exclude, geom)  # fmt: skip
            if hit < 0.0 or passed + hit > reach:
                break
            name = self._model.body(int(self._model.geom_bodyid[geom[0]])).name
            if not name.startswith(self._own):
                return name, passed + hit
            passed += hit + _STEP
        return "", math.inf


def rim(at: Array, axis: Array, radius: float) -> Array:
    """Return points of the rim of a pad, shape (RIM, 3).

    Args:
        at: its centre [m], shape (3,).
        axis: unit vector out of the pad, shape (3,).
        radius: radius of the pad [m].
    """
    u = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    u /= np.linalg.norm(u)
    turns = 2.0 * np.pi * np.arange(RIM) / RIM
    return np.asarray(
        at + radius * (np.outer(np.cos(turns), u) + np.outer(np.sin(turns), np.cross(axis, u)))
    )


class UnknownGripper(MotionError, LookupError):
    """No surface gripper of the cell has the given name."""

    def __init__(self, given: str, allowed: Iterable[str]) -> None:
        names = ", ".join(allowed) or "none"
        super().__init__(f"there is no surface gripper '{given}' in the cell. Available: {names}.")


class UnknownObject(MotionError, LookupError):
    """No object of the cell has the given name."""

    def __init__(self, given: str, allowed: Iterable[str]) -> None:
        names = ", ".join(allowed) or "none"
        super().__init__(f"there is no object '{given}' in the cell. Available: {names}.")


class GripState(enum.IntEnum):
    """State of a surface gripper."""

    OPEN = 0
    CLOSED = 1
    CLOSING = 2


@dataclass(frozen=True)
class SurfaceGripper:
    """A surface gripper on a link of a robot.

    Raises:
        InvalidConfig: no attachment point, an unknown axis, or a point that is not finite.
    """

    name: str
    """Unique in the cell."""
    robot: str
    """Name of the robot in the cell."""
    link: str
    """Link that carries it."""
    points: tuple[tuple[float, float, float], ...] = ((0.0, 0.0, 0.0),)
    """Attachment points in the link [m]."""
    axis: str = "z"
    """Axis of the link along which it grips."""
    settings: SurfaceGripperSettings = field(default_factory=SurfaceGripperSettings)

    def __post_init__(self) -> None:
        """Check points and axis."""
        if self.axis not in AXES:
            raise InvalidConfig(f"axis of gripper '{self.name}' is '{self.axis}'; allowed: x, y, z")
        if not self.points or not np.isfinite(self.points).all():
            raise InvalidConfig(f"gripper '{self.name}' needs attachment points [m]")

    @property
    def body(self) -> str:
        """Name of its link in the model."""
        return f"{self.robot}/{self.link}"


@dataclass
class _Attachment:
    weld: str
    """Name of the equality constraint."""
    point: Array
    held: str = ""
    """Held body; empty: none."""
    settling: int = 0


class GripperRun:
    """A surface gripper in a running model."""

    def __init__(self, gripper: SurfaceGripper) -> None:
        """Start open."""
        self.gripper = gripper
        self.settings = gripper.settings
        self.state = GripState.OPEN
        self._attachments = [
            _Attachment(f"{gripper.name}/{k}", np.array(point))
            for k, point in enumerate(gripper.points)
        ]
        self._until = 0.0
        self.lost = 0
        """Number of attachments that broke under load."""
        self.reason = ""
        """Reason of the last failed attempt to close, or of the last lost object."""

    @property
    def gripped(self) -> tuple[str, ...]:
        """Names of the held objects, each once."""
        held = dict.fromkeys(a.held.removeprefix(PREFIX) for a in self._attachments if a.held)
        return tuple(held)

    def close(self, time: float) -> None:
        """Start closing at a simulated time [s]; held objects stay attached."""
        if self.state is GripState.OPEN:
            self.state, self._until = GripState.CLOSING, time + self.settings.retry_interval
            self.reason = ""

    def open(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Release all objects."""
        for attachment in self._attachments:
            self._release(attachment, model, data)
        self.state, self.reason = GripState.OPEN, ""

    def drop(self, name: str, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Release an object whose pose is set from outside."""
        for attachment in self._attachments:
            if attachment.held == f"{PREFIX}{name}":
                self._release(attachment, model, data)
                self.lost += 1
                self.reason = f"'{name}' was moved away"

    def act(self, value: float, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Close for values above 0.3, open for values below -0.3; ignore others."""
        if value > ACTION:
            self.close(data.time)
        elif value < -ACTION:
            self.open(model, data)

    def update(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Activate and break welds; called after each step."""
        if self.state is GripState.OPEN:
            return
        if self.state is GripState.CLOSING:
            self._try(model, data)
        for attachment in self._attachments:
            if attachment.settling:
                attachment.settling -= 1
            elif attachment.held and (why := self._overload(attachment, model, data)):
                self.reason = f"'{attachment.held.removeprefix(PREFIX)}' was lost: {why}"
                self._release(attachment, model, data)
                self.lost += 1
        if self.state is GripState.CLOSED and not self.gripped:
            self.state = GripState.OPEN

    def forces(self, model: mujoco.MjModel, data: mujoco.MjData) -> Array:
        """Return pull along the axis and shear of each attachment [N], shape (k, 2)."""
        axis = self._axis(data)
        found = np.array([self._load(a, model, data)[0] for a in self._attachments])
        pulls = found @ axis
        return np.column_stack((pulls, np.linalg.norm(found - np.outer(pulls, axis), axis=1)))

    # ---- internals

    def _try(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        rays = PadRays(model, data, self.gripper.body, PREFIX)
        (p, R), axis = self._frame(data), self._axis(data)
        for attachment in self._attachments:
            if not attachment.held:
                body, why = rays.find(p + R @ attachment.point, axis, self.settings)
                self.reason = why or self.reason
                if body:
                    self._weld(attachment, body, model, data)
        if all(attachment.held for attachment in self._attachments):
            self.state = GripState.CLOSED
        elif data.time >= self._until - 1e-9:
            self.state = GripState.CLOSED if self.gripped else GripState.OPEN

    def _frame(self, data: mujoco.MjData) -> tuple[Array, Array]:
        body = data.body(self.gripper.body)
        return body.xpos, body.xmat.reshape(3, 3)

    def _axis(self, data: mujoco.MjData) -> Array:
        """Return the axis out of the pads in the world, shape (3,)."""
        return self._frame(data)[1][:, AXES.index(self.gripper.axis)].copy()

    def _weld(
        self, attachment: _Attachment, body: str, model: mujoco.MjModel, data: mujoco.MjData
    ) -> None:
        """Weld a body to the link at its current pose."""
        p, R = self._frame(data)
        other = data.body(body)
        at = model.equality(attachment.weld).id
        R_LO = R.T @ other.xmat.reshape(3, 3)
        model.eq_obj2id[at] = other.id
        # The weld acts at the attachment point, expressed in the second body.
        world = p + R @ attachment.point
        model.eq_data[at, :3] = other.xmat.reshape(3, 3).T @ (world - other.xpos)
        model.eq_data[at, 3:6] = attachment.point
        model.eq_data[at, 6:10] = quat_wxyz(R_LO)
        model.eq_data[at, 10] = 1.0
        data.eq_active[at] = 1
        attachment.held, attachment.settling = body, SETTLING

    def _release(self, attachment: _Attachment, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        if attachment.held:
            data.eq_active[model.equality(attachment.weld).id] = 0
            attachment.held, attachment.settling = "", 0

    def _load(
        self, attachment: _Attachment, model: mujoco.MjModel, data: mujoco.MjData
    ) -> tuple[Array, Array]:
        """Return force and torque of the object on a pad, about its point in the world, (3,) each.

        They are the negative constraint forces of the weld on the free joint of the object.
        """
        of_weld = (data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)) & (
            data.efc_id == model.equality(attachment.weld).id
        )
        if not attachment.held or not of_weld.any():
            return np.zeros(3), np.zeros(3)
        efforts = np.zeros(model.nv)
        mujoco.mj_mulJacTVec(model, data, efforts, data.efc_force * of_weld)
        body = data.body(attachment.held)
        at = model.joint(attachment.held).dofadr[0]
        force, R = -efforts[at : at + 3], body.xmat.reshape(3, 3)
        p, R_L = self._frame(data)
        lever = p + R_L @ attachment.point - body.xpos
        return force, -R @ efforts[at + 3 : at + 6] - np.cross(lever, force)

    def _overload(self, attachment: _Attachment, model: mujoco.MjModel, data: mujoco.MjData) -> str:
        """Return the reason why an attachment breaks, or an empty string."""
        force, torque = self._load(attachment, model, data)
        return self.settings.overload(force, torque, self._axis(data))


def add_welds(spec: mujoco.MjSpec, grippers: Sequence[SurfaceGripper], placeholder: str) -> None:
    """Add the inactive welds of grippers to a specification.

    Args:
        spec: specification of the cell.
        grippers: the surface grippers of its robots.
        placeholder: body to which inactive welds refer.
    """
    for gripper in grippers:
        for k in range(len(gripper.points)):
            weld = spec.add_equality(
                name=f"{gripper.name}/{k}",
                type=mujoco.mjtEq.mjEQ_WELD,
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                name1=gripper.body,
                name2=placeholder,
                active=False,
            )
            weld.solref = contact_reference(spec.option.timestep)
            weld.solimp[:3] = (0.99, 0.999, 0.001)

# SPDX-License-Identifier: Apache-2.0
"""Surface (suction) grippers in MuJoCo: welds that are made to what a ray hits, and break by force.

Each attachment point casts a ray along its axis when the gripper closes. A free body within reach
is welded to the link where it is; after some settling steps the weld breaks as soon as the pull
along the axis, or the shear across it, exceeds its limit. Behaviour and parameters are those of
Isaac Sim's surface gripper.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.model.tree import Array
from motion_nodes.sim.free_bodies import PREFIX
from motion_nodes.sim.mjcf_shapes import contact_reference, quat_wxyz

AXES = ("x", "y", "z")
SETTLING = 10
"""Steps after a weld is made in which its force is not checked."""
_STEP = 1e-3
"""Advance of a ray that starts inside its own robot [m]."""
ACTION = 0.3
"""Values of an action beyond it close, below its negative open."""


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
class SurfaceGripperSettings:
    """Reach, patience and strength of a surface gripper."""

    max_grip_distance: float = setting(
        0.01, doc="Max distance of a surface along the axis.", unit="m", gt=0.0, le=1.0
    )
    retry_interval: float = setting(
        0.0,
        doc="Time for which closing is tried; 0: once.",
        unit="s",
        ge=0.0,
        le=600.0,
    )
    coaxial_force_limit: float = setting(
        -1.0,
        doc="Max pull of each attachment along its axis; 0 or below: unlimited.",
        unit="N",
        ge=-1e6,
        le=1e6,
    )
    shear_force_limit: float = setting(
        -1.0,
        doc="Max force of each attachment across its axis; 0 or below: unlimited.",
        unit="N",
        ge=-1e6,
        le=1e6,
    )

    def __post_init__(self) -> None:
        """Check all values; raises InvalidConfig."""
        check_settings(self)


@dataclass(frozen=True)
class SurfaceGripper:
    """A surface gripper on a link of a robot.

    Raises:
        InvalidConfig: no attachment point, an unknown axis, or a place that is not finite.
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
        """Number of attachments that a force has broken."""

    @property
    def gripped(self) -> tuple[str, ...]:
        """Names of the held objects, each once."""
        held = dict.fromkeys(a.held.removeprefix(PREFIX) for a in self._attachments if a.held)
        return tuple(held)

    def close(self, time: float) -> None:
        """Begin to close at a simulated time [s]; what is held stays held."""
        if self.state is GripState.OPEN:
            self.state, self._until = GripState.CLOSING, time + self.settings.retry_interval

    def open(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Release everything."""
        for attachment in self._attachments:
            self._release(attachment, model, data)
        self.state = GripState.OPEN

    def act(self, value: float, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Close for values above 0.3, open for values below -0.3; others change nothing."""
        if value > ACTION:
            self.close(data.time)
        elif value < -ACTION:
            self.open(model, data)

    def update(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Make and break welds; after each step."""
        if self.state is GripState.OPEN:
            return
        if self.state is GripState.CLOSING:
            self._try(model, data)
        for attachment in self._attachments:
            if attachment.settling:
                attachment.settling -= 1
            elif attachment.held and self._overloaded(attachment, model, data):
                self._release(attachment, model, data)
                self.lost += 1
        if self.state is GripState.CLOSED and not self.gripped:
            self.state = GripState.OPEN

    def forces(self, model: mujoco.MjModel, data: mujoco.MjData) -> Array:
        """Return pull along the axis and shear of each attachment [N], shape (k, 2)."""
        return np.array([self._force(a, model, data) for a in self._attachments])

    # ---- inside

    def _try(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        free = [attachment for attachment in self._attachments if not attachment.held]
        for attachment in free:
            body = self._body_within_reach(attachment.point, model, data)
            if body:
                self._weld(attachment, body, model, data)
        if all(attachment.held for attachment in self._attachments):
            self.state = GripState.CLOSED
        elif data.time >= self._until - 1e-9:
            self.state = GripState.CLOSED if self.gripped else GripState.OPEN

    def _frame(self, data: mujoco.MjData) -> tuple[Array, Array]:
        body = data.body(self.gripper.body)
        return body.xpos, body.xmat.reshape(3, 3)

    def _body_within_reach(self, point: Array, model: mujoco.MjModel, data: mujoco.MjData) -> str:
        """Return the name of the free body that the ray of a point hits, or an empty string."""
        p, R = self._frame(data)
        axis = R[:, AXES.index(self.gripper.axis)].copy()
        start, own = p + R @ point, f"{self.gripper.robot}/"
        geom, passed = np.full(1, -1, np.int32), 0.0
        exclude = model.body(self.gripper.body).id
        while passed <= self.settings.max_grip_distance:
            hit = mujoco.mj_ray(model, data, start + passed * axis, axis, None, 1, exclude, geom)
            if hit < 0.0 or passed + hit > self.settings.max_grip_distance:
                return ""
            name = model.body(int(model.geom_bodyid[geom[0]])).name
            if not name.startswith(own):
                return name if name.startswith(PREFIX) else ""
            passed += hit + _STEP
        return ""

    def _weld(
        self, attachment: _Attachment, body: str, model: mujoco.MjModel, data: mujoco.MjData
    ) -> None:
        """Weld a body to the link where it is."""
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

    def _force(
        self, attachment: _Attachment, model: mujoco.MjModel, data: mujoco.MjData
    ) -> tuple[float, float]:
        at = model.equality(attachment.weld).id
        rows = np.flatnonzero(
            (data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)) & (data.efc_id == at)
        )
        if len(rows) < 3:
            return 0.0, 0.0
        axis = self._frame(data)[1][:, AXES.index(self.gripper.axis)]
        force = data.efc_force[rows[:3]]
        pull = float(force @ axis)
        return pull, float(np.linalg.norm(force - pull * axis))

    def _overloaded(
        self, attachment: _Attachment, model: mujoco.MjModel, data: mujoco.MjData
    ) -> bool:
        s = self.settings
        pull, shear = self._force(attachment, model, data)
        return (0.0 < s.coaxial_force_limit < pull) or (0.0 < s.shear_force_limit < shear)


def add_welds(spec: mujoco.MjSpec, grippers: Sequence[SurfaceGripper], placeholder: str) -> None:
    """Add the inactive welds of grippers to a specification.

    Args:
        spec: specification of the cell.
        grippers: of its robots.
        placeholder: body that the welds name until they are made.
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

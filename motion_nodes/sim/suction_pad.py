# SPDX-License-Identifier: Apache-2.0
"""Model of a suction pad: sealing and holding force.

A pad seals if its whole rim lies on one object. The normal force N on the rim is the force of the
vacuum minus the pull. The rim lifts if a bending moment M unloads a point of the rim (a thin ring),
and it slips if shear T and torsion Q exceed friction:

    N = vacuum pi r^2 - pull,    2 |M| / r <= N,    T^2 + (Q / r)^2 <= (friction N)^2

Source: G. Mantriota, "Theoretical model of the grasp with vacuum gripper", Mechanism and Machine
Theory 42(1), 2007; the friction limit is an ellipse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np

from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array

RIM = 16
"""Number of points of the rim that are tested."""
BEHIND = 0.005
"""Distance behind the pad at which rays start [m], so that penetrated objects are hit."""
_STEP = 1e-3
"""Advance of a ray that has hit its own robot [m]."""


@dataclass(frozen=True)
class SurfaceGripperSettings:
    """Settings of a surface gripper: reach, timeouts, force limits."""

    max_grip_distance: float = setting(
        0.01, doc="Max distance of a surface along the axis.", unit="m", gt=0.0, le=1.0
    )
    retry_interval: float = setting(
        0.0,
        doc="Timeout of closing; 0: one attempt.",
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
    pad_radius: float = setting(
        0.02,
        doc="Radius of the pad at each attachment point: it seals only if its whole rim lies on an "
        "object, and holds within the limits of vacuum and friction. 0: one ray, no such limits.",
        unit="m",
        ge=0.0,
        le=1.0,
    )
    seal_tolerance: float = setting(
        0.003,
        doc="Max difference of the distances along the rim (tilt, curvature) at which the lip of a "
        "pad seals.",
        unit="m",
        gt=0.0,
        le=0.1,
    )
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

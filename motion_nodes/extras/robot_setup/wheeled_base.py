# SPDX-License-Identifier: Apache-2.0
"""Kind and parameters of a mobile base, derived from its wheels."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from motion_nodes.core.bases.differential import skidding_separation
from motion_nodes.core.robot.tree import JointKind, KinematicTree
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.core.scene.robot_spheres import rigid_links
from motion_nodes.extras.robot_setup.notes import Notes, Question, listed
from motion_nodes.extras.robot_setup.wheels import Wheel, in_base, link_poses

_SPEED, _FASTEST, _TURN = 0.5, 1.0, 1.5
"""Speed of a base without wheel velocity limits, and max speeds of other bases [m/s, rad/s]."""
_WHEEL_VELOCITY = 10.0
"""Max velocity of wheels without a limit [rad/s]."""
_BOTH = 1.5
"""Velocity of the outer wheels in a turn, relative to driving straight."""
_ACCELERATION, _TURN_ACCELERATION = 1.0, 3.0
_ROLLERS = 10
_ROLLER_RADIUS = 0.22
"""Radius of rollers relative to the wheel's radius; typical for omni wheels."""
_ROLLERS_MASS = 0.3
"""Mass of all rollers of a wheel, relative to the mass of the wheel or of a thin ring with its
inertia."""
_BEARING = 5e-6
"""Viscous damping of a roller [N m s/rad]."""
_NEAR_FLOOR = 0.1
"""Height relative to a wheel's radius below which links slide on the floor."""
_UNEQUAL = 0.01
"""Relative difference of the radii of wheels that are not equal."""
_MULTIPLIERS = "left_wheel_radius_multiplier", "right_wheel_radius_multiplier"
_SKIDDING_FRICTION = 0.7
"""Friction of tyres that slip sideways; with more friction a base with rigid tyres hops in turns.
"""
_SKID = {"friction": 0.0, "torsional_friction": 0.0, "rolling_friction": 0.0}


@dataclass
class BaseGuess:
    """A mobile base, as written to robot.yaml."""

    kind: str = "arm"
    block: dict[str, Any] = field(default_factory=dict)
    """The block ``base``; empty for an arm."""
    driven: tuple[str, ...] = ()
    """Joints of driven wheels."""
    steering: tuple[str, ...] = ()
    passive: tuple[str, ...] = ()
    """Casters and wheels without drive."""
    speed: float = 0.0
    """Selected max speed, within the velocity limits of the wheels [m/s]."""
    wheel_velocity: float | None = None
    """Velocity limit of driven wheels without one in the file [rad/s]; None: the file has one."""
    turned: tuple[str, ...] = ()
    """Joints whose axes must be inverted, so that forward is positive."""
    wheels: tuple[Wheel, ...] = ()
    axle_x: float = 0.0
    """Position of the fixed axle, or of the middle of fixed wheels, ahead of the base frame [m];
    the base turns about a point beside it."""


def guess_base(
    wheels: Sequence[Wheel],
    tree: KinematicTree,
    findings: Notes,
    base: str,
    unstated: Collection[str] = (),
    mecanum: str = "",
) -> BaseGuess:
    """Return the kind of base for given wheels; an arm if the kind is unknown.

    Args:
        wheels: from :func:`motion_nodes.extras.robot_setup.wheels.find_wheels`.
        tree: the robot.
        findings: notes are added; asked whether four wheels are mecanum wheels if the file has no
            evidence.
        base: the robot's base frame.
        unstated: joints without a velocity limit in the robot's file.
        mecanum: evidence for mecanum wheels, from
            :func:`motion_nodes.extras.robot_setup.wheels.mecanum_evidence`.
    """
    guess = BaseGuess(wheels=tuple(wheels))
    rolling = [wheel for wheel in wheels if wheel.swivel is None]
    swivels = [wheel for wheel in wheels if wheel.swivel is not None]
    steered = [
        wheel for wheel in swivels if wheel.swivel and wheel.swivel.kind is JointKind.REVOLUTE
    ]
    casters = [wheel for wheel in swivels if wheel not in steered]
    guess.passive = _passive(casters)
    guess.passive = (*_carriers(tree, guess.passive), *guess.passive)
    suspension = _suspension(tree, wheels)
    if casters:
        findings.add("guessed", "passive_joints", f"casters: {listed(guess.passive)}")
    plain = [wheel for wheel in rolling if wheel.roller_angle_deg is None]
    if plain and len(plain) < len(rolling):
        free = [wheel for wheel in rolling if wheel.roller_angle_deg is not None]
        guess.passive += (*(wheel.joint for wheel in free), *_rollers(free))
        names = listed(wheel.joint for wheel in free)
        findings.add("guessed", "passive_joints", f"omni wheels that roll freely: {names}")
        rolling = plain
    across = [wheel for wheel in rolling if abs(wheel.axis[1]) > 0.97]
    _set_speed(guess, rolling or steered, tree, unstated)
    if len(rolling) >= 3 and not steered and all(w.roller_angle_deg for w in rolling):
        _roller_wheels(guess, rolling, tree, findings)
    elif len(steered) == len(wheels) == 4:
        _two_steered_axles(guess, steered, findings)
    elif rolling and len(across) == len(rolling):
        if len(steered) in (1, 2):
            _ackermann(guess, steered, rolling, findings)
        elif not steered and not _mecanum(guess, rolling, tree, findings, mecanum):
            _differential(guess, rolling, findings)
    elif len(rolling) >= 3 and not steered and _in_several_directions(rolling):
        _omni(guess, rolling, findings)
    if guess.kind != "arm":
        guess.passive = (*dict.fromkeys((*suspension, *guess.passive)),)
        if suspension:
            findings.add("guessed", "passive_joints", f"suspension: {listed(suspension)}")
        text = f"up to {guess.speed:.3g} m/s and {_TURN:g} rad/s"
        if guess.wheel_velocity is not None:
            text += f" (wheel velocity without a limit in the URDF: {guess.wheel_velocity} rad/s)"
        findings.add("guessed", "base.linear, base.angular", text)
    elif wheels:
        names = listed(wheel.joint for wheel in wheels)
        findings.add(
            "missing",
            "base",
            f"wheels {names} form no supported base (differential, Ackermann, omni or mecanum, "
            f"with x of {base} forward); they roll freely",
        )
        guess.passive = _passive(swivels) + tuple(
            wheel.joint for wheel in wheels if wheel.swivel is None
        )
        guess.passive += _rollers(wheels)
        guess.driven = guess.steering = guess.turned = ()
    return guess


def _set_speed(
    guess: BaseGuess, rolling: Sequence[Wheel], tree: KinematicTree, unstated: Collection[str]
) -> None:
    """Select the speed, within the velocity limits of the wheels."""
    if not rolling:
        return
    radius = min(wheel.radius for wheel in rolling)
    stated = [tree.joints[w.joint].velocity for w in rolling if w.joint not in unstated]
    if stated and math.isfinite(min(stated)):
        guess.speed = min(_FASTEST, min(stated) * radius)
        return
    guess.wheel_velocity = float(f"{min(_WHEEL_VELOCITY, _BOTH * _SPEED / radius):.3g}")
    guess.speed = guess.wheel_velocity * radius / _BOTH


def _rollers(wheels: Sequence[Wheel]) -> tuple[str, ...]:
    return tuple(name for wheel in wheels for name in wheel.rollers)


def _in_several_directions(wheels: Sequence[Wheel]) -> bool:
    """Return whether the axes of the wheels differ, as for omnidirectional bases."""
    axes = np.array([wheel.axis for wheel in wheels])
    return bool(np.abs(axes @ axes.T).min() < 0.9)


def _carriers(tree: KinematicTree, passive: Sequence[str]) -> tuple[str, ...]:
    """Return further joints that carry only casters, such as those of a rocker."""
    found: list[str] = []
    for name in tree.joint_names:
        below = [j for j in tree.joint_names if j != name and _is_below(tree, j, name)]
        if below and name not in passive and all(j in passive for j in below):
            found.append(name)
    return tuple(found)


def _suspension(tree: KinematicTree, wheels: Sequence[Wheel]) -> tuple[str, ...]:
    """Return the joints that carry only wheels: rockers and bogies of two or more, and springs."""
    rolling = {wheel.joint for wheel in wheels} | set(_rollers(wheels))
    found: list[str] = []
    for name in reversed(tree.joint_names):
        below = [j for j in tree.joint_names if j != name and _is_below(tree, j, name)]
        carried = sum(wheel.joint in below for wheel in wheels)
        least = 1 if tree.joints[name].kind is JointKind.PRISMATIC else 2
        if carried >= least and all(j in rolling or j in found for j in below):
            found.append(name)
    return tuple(reversed(found))


def _is_below(tree: KinematicTree, joint: str, above: str) -> bool:
    step = tree.parent_joint.get(tree.joints[joint].parent)
    while step is not None and step.name != above:
        step = tree.parent_joint.get(step.parent)
    return step is not None


def _passive(wheels: Sequence[Wheel]) -> tuple[str, ...]:
    joints = dict.fromkeys(wheel.swivel.name for wheel in wheels if wheel.swivel)
    return (*joints, *(wheel.joint for wheel in wheels))


def _differential(guess: BaseGuess, rolling: Sequence[Wheel], findings: Notes) -> None:
    left, right = _sides(rolling)
    if not left or len(left) != len(right):
        return
    radius, *radii = (
        float(np.mean([wheel.radius for wheel in side])) for side in (rolling, left, right)
    )
    separation = across = _mean_y(left) - _mean_y(right)
    if len(rolling) > 2:
        centres = np.array([wheel.centre for wheel in rolling])
        x, y = (centres - centres.mean(axis=0))[:, :2].T
        separation = skidding_separation(x, y)
    guess.kind = "differential"
    guess.axle_x = float(np.mean([wheel.centre[0] for wheel in rolling]))
    guess.driven = tuple(wheel.joint for wheel in (*left, *right))
    guess.turned = _turned(rolling)
    speed = guess.speed
    unequal = abs(radii[0] - radii[1]) > _UNEQUAL * radius
    guess.block = {
        "left_wheel_names": [wheel.joint for wheel in left],
        "right_wheel_names": [wheel.joint for wheel in right],
        "wheel_radius": round(radius, 4),
        "wheel_separation": round(separation, 4),
        **(
            {key: round(r / radius, 4) for key, r in zip(_MULTIPLIERS, radii, strict=True)}
            if unequal
            else {}
        ),
        **_limits(speed, min(_TURN, 2.0 * speed / separation)),
    }
    sides = (
        f"{listed(guess.block['left_wheel_names'])} | {listed(guess.block['right_wheel_names'])}"
    )
    sizes = " and ".join(f"{r:.4g}" for r in (radii if unequal else (radius,)))
    text = f"two sides {sides}, radius {sizes} m, separation {across:.4g} m"
    findings.add("measured", "base", text)
    uneven = [
        w.joint
        for side, r in zip((left, right), radii, strict=True)
        for w in side
        if abs(w.radius - r) > _UNEQUAL * r
    ]
    if uneven:
        text = f"the mean of each side; {listed(uneven)} are larger or smaller, and slip"
        findings.add("guessed", "base.wheel_radius", text)
    if separation > across:
        text = f"{separation:.4g} m in turns, in which the wheels skid; from equal loads"
        findings.add("guessed", "base.wheel_separation", text)


def _ackermann(
    guess: BaseGuess, steered: Sequence[Wheel], rolling: Sequence[Wheel], findings: Notes
) -> None:
    """Set up a car, or a tricycle or bicycle: axles with a single wheel have it in the middle."""
    front = sorted(steered, key=lambda wheel: -wheel.centre[1])
    rear = tuple(sorted(rolling, key=lambda wheel: -wheel.centre[1]))
    if not (_is_axle(front) and _is_axle(rear)):
        return
    wheelbase = float(np.mean([w.centre[0] for w in front]) - np.mean([w.centre[0] for w in rear]))
    if abs(wheelbase) < 1e-3:
        return
    guess.kind = "ackermann"
    guess.axle_x = float(np.mean([wheel.centre[0] for wheel in rear]))
    guess.driven = tuple(wheel.joint for wheel in rear)
    guess.steering = tuple(wheel.swivel.name for wheel in front if wheel.swivel)
    turning = [wheel for wheel in front if wheel.swivel and wheel.joint != wheel.swivel.name]
    guess.passive += tuple(wheel.joint for wheel in turning)
    guess.turned = _turned([*rolling, *turning]) + tuple(
        wheel.swivel.name for wheel in front if wheel.swivel and wheel.swivels_down
    )
    names, other = ("front", "rear") if wheelbase > 0.0 else ("rear", "front")
    radii = {names: front[0].radius, other: rear[0].radius}
    axles = {names: front, other: rear}
    tracks = {
        f"{end}_track_width": round(float(axles[end][0].centre[1] - axles[end][1].centre[1]), 4)
        for end in ("front", "rear")
        if len(axles[end]) == 2
    }
    speed = guess.speed
    guess.block = {
        "wheelbase": round(abs(wheelbase), 4),
        **tracks,
        **{f"{end}_wheel_radius": round(radii[end], 4) for end in ("front", "rear")},
        "steering_joint_names": list(guess.steering),
        f"{other}_wheel_names": list(guess.driven),
        "steered_axle": names,
        **_limits(speed, min(_TURN, speed / abs(wheelbase))),
    }
    kind = "car" if len(front) == 2 else "tricycle" if len(rear) == 2 else "bicycle"
    findings.add(
        "measured",
        "base",
        f"{kind}, steered by {listed(guess.steering)}, driven by {listed(guess.driven)}, wheelbase "
        f"{abs(wheelbase):.4g} m",
    )


def _is_axle(wheels: Sequence[Wheel]) -> bool:
    """Return whether wheels, the left one first, are one on each side, or one in the middle."""
    ys = [float(wheel.centre[1]) for wheel in wheels]
    if len(ys) == 1:
        return abs(ys[0]) < 0.2 * wheels[0].radius
    return len(ys) == 2 and ys[0] > 0.0 > ys[1]


def _two_steered_axles(guess: BaseGuess, wheels: Sequence[Wheel], findings: Notes) -> None:
    """Set up a car whose rear wheels steer against the front ones; all four are driven."""
    left, right = _sides(wheels)
    if len(left) != 2 or any(wheel.swivel is None or abs(wheel.axis[1]) < 0.97 for wheel in wheels):
        return
    axles = [(left[i], right[i]) for i in (0, 1)]
    xs = [0.5 * (a.centre[0] + b.centre[0]) for a, b in axles]
    askew = max(abs(a.centre[0] - b.centre[0]) for a, b in axles)
    wheelbase = float(xs[0] - xs[1])
    if askew > 0.1 * wheelbase or len({wheel.swivel.name for wheel in wheels if wheel.swivel}) != 4:
        return
    ordered = [wheel for axle in axles for wheel in axle]
    guess.kind, guess.axle_x = "ackermann", float(np.mean(xs))
    guess.driven = tuple(wheel.joint for wheel in ordered)
    guess.steering = tuple(wheel.swivel.name for wheel in ordered if wheel.swivel)
    guess.turned = _turned(ordered) + tuple(
        wheel.swivel.name for wheel in ordered if wheel.swivel and wheel.swivels_down
    )
    block: dict[str, Any] = {"wheelbase": round(wheelbase, 4)}
    for end, axle in zip(("front", "rear"), axles, strict=True):
        block[f"{end}_track_width"] = round(_mean_y(axle[:1]) - _mean_y(axle[1:]), 4)
        block[f"{end}_wheel_radius"] = round(float(np.mean([w.radius for w in axle])), 4)
        block[f"{end}_wheel_names"] = [wheel.joint for wheel in axle]
    guess.block = block | {
        "steering_joint_names": list(guess.steering),
        "steered_axle": "both",
        **_limits(guess.speed, min(_TURN, 2.0 * guess.speed / wheelbase)),
    }
    findings.add(
        "measured",
        "base",
        f"car with two steered axles, the rear one against the front one, steered by "
        f"{listed(guess.steering)}, driven by {listed(guess.driven)}, wheelbase {wheelbase:.4g} m",
    )


def _mecanum(
    guess: BaseGuess, rolling: Sequence[Wheel], tree: KinematicTree, findings: Notes, evidence: str
) -> bool:
    """Return whether these are four mecanum wheels whose rollers are not in the URDF."""
    words = [f"{w.joint} {tree.joints[w.joint].child}".lower() for w in rolling]
    if len(rolling) != 4:
        return False
    if all("mecanum" in word for word in words):
        evidence = "named mecanum"
    question = Question(
        "base.wheels",
        f"Are {listed(wheel.joint for wheel in rolling)} plain wheels, which skid in turns, or "
        "mecanum wheels?",
        ("plain", "mecanum"),
        "mecanum" if evidence else "plain",
        "high" if evidence else "medium",
        evidence or "no sign of rollers in names, meshes or friction",
    )
    if findings.answer(question) == "plain":
        findings.add("guessed", "base.wheels", f"plain; {question.reason}", question.confidence)
        return False
    middle = np.mean([wheel.centre for wheel in rolling], axis=0)
    wheels = []
    for wheel in rolling:
        x, y = wheel.centre[:2] - middle[:2]
        # Usual mounting: the upper rollers form an X as seen from above.
        wheels.append((wheel, 45.0 if x * y > 0.0 else 135.0))
    _holonomic(guess, wheels, "mecanum", findings)
    text = f"rollers at 45 degrees that form an X from above; {evidence or 'as answered'}"
    findings.add("guessed", "base.wheels", text)
    return True


def _roller_wheels(
    guess: BaseGuess, rolling: Sequence[Wheel], tree: KinematicTree, findings: Notes
) -> None:
    """Set up a base of wheels whose rollers are in the URDF, as links or by ``<mecanum>``."""
    wheels = []
    for wheel in rolling:
        stated = tree.joints[wheel.joint].rollers
        if stated is not None:
            wheel = replace(wheel, radius=stated.radius)
        wheels.append((wheel, round(wheel.roller_angle_deg or 90.0, 1)))
    is_omni = all(abs(angle - 90.0) < 1.0 for _, angle in wheels)
    _holonomic(guess, wheels, "omni" if is_omni else "mecanum", findings)
    for entry, (wheel, _) in zip(guess.block["wheels"], wheels, strict=True):
        if tree.joints[wheel.joint].rollers is not None:
            del entry["radius"], entry["roller_angle_deg"]  # single source: the URDF
    guess.passive += _rollers(rolling)
    angles = ", ".join(f"{angle:g}" for _, angle in wheels)
    findings.add("measured", "base.wheels", f"rollers at {angles} degrees to their wheels' axes")


def _omni(guess: BaseGuess, rolling: Sequence[Wheel], findings: Notes) -> None:
    _holonomic(guess, [(wheel, 90.0) for wheel in rolling], "omni", findings)


def _holonomic(
    guess: BaseGuess, wheels: Sequence[tuple[Wheel, float]], word: str, findings: Notes
) -> None:
    guess.kind = "holonomic"
    guess.driven = tuple(wheel.joint for wheel, _ in wheels)
    radius = float(np.mean([wheel.radius for wheel, _ in wheels]))
    away = max(float(np.linalg.norm(wheel.centre[:2])) for wheel, _ in wheels)
    speed = 0.7 * guess.speed
    guess.block = {
        "wheels": [
            {"joint": wheel.joint, "radius": round(wheel.radius, 4), "roller_angle_deg": angle}
            for wheel, angle in wheels
        ],
        **_limits(speed, min(_TURN, speed / max(away, 1e-3)), "xy"),
    }
    text = f"{len(wheels)} {word} wheels {listed(guess.driven)}, radius {radius:.4g} m"
    findings.add("measured", "base", text)


def _sides(wheels: Sequence[Wheel]) -> tuple[list[Wheel], list[Wheel]]:
    """Return the wheels of the left and of the right side, from front to rear."""
    middle = float(np.mean([wheel.centre[1] for wheel in wheels]))
    ordered = sorted(wheels, key=lambda wheel: -wheel.centre[0])
    left = [wheel for wheel in ordered if wheel.centre[1] > middle + 1e-6]
    return left, [wheel for wheel in ordered if wheel.centre[1] < middle - 1e-6]


def _mean_y(wheels: Sequence[Wheel]) -> float:
    return float(np.mean([wheel.centre[1] for wheel in wheels]))


def _turned(wheels: Sequence[Wheel]) -> tuple[str, ...]:
    return tuple(wheel.joint for wheel in wheels if wheel.axis[1] < 0.0)


def _limits(speed: float, turn: float, axes: str = "x") -> dict[str, Any]:
    linear = {"max_velocity": round(speed, 3), "max_acceleration": _ACCELERATION}
    return {
        "linear": {axis: dict(linear) for axis in axes},
        "angular": {"z": {"max_velocity": round(turn, 3), "max_acceleration": _TURN_ACCELERATION}},
    }


def floor_contact(
    base: BaseGuess,
    tree: KinematicTree,
    geometries: Mapping[str, LinkGeometry],
    base_frame: str,
    findings: Notes,
) -> dict[str, Any]:
    """Return the block ``simulation`` of robot.yaml; empty for an arm or without special contacts.

    Wheels in several directions get rollers; without them they would block the simulated base.
    Links fixed to the base that touch the floor (the ball of a caster) slide without friction.

    Args:
        base: the base with its wheels.
        tree: the robot.
        geometries: geometries of its links.
        base_frame: frame in which z is up.
        findings: notes are added.
    """
    block: dict[str, Any] = {}
    if not base.block:
        return block
    if base.kind == "holonomic" and not any(wheel.rollers for wheel in base.wheels):
        radius = min(wheel.radius for wheel in base.wheels)
        masses = []
        for joint in base.driven:
            inertial = tree.links[tree.joints[joint].child].inertial
            # The inertia in the file can be that of a much smaller wheel.
            masses.append(
                min(inertial.mass, np.linalg.eigvalsh(inertial.inertia)[0] / radius**2)
                if inertial is not None
                else 0.0
            )
        block["rollers"] = [
            {
                "wheels": list(base.driven),
                "count": _ROLLERS,
                "radius": round(_ROLLER_RADIUS * radius, 5),
                "mass": float(f"{max(_ROLLERS_MASS * min(masses) / _ROLLERS, 1e-4):.3g}"),
                "damping": _BEARING,
            }
        ]
        findings.add("guessed", "simulation.rollers", f"{_ROLLERS} on each wheel")
    if base.kind == "differential" and len(base.driven) > 2:
        tyres = [tree.joints[joint].child for joint in base.driven]
        block["contact"] = {link: {"friction": _SKIDDING_FRICTION} for link in tyres}
        text = f"wheels skid when the base turns; friction {_SKIDDING_FRICTION:g}"
        findings.add("guessed", "simulation.contact", text)
    skids = _skids(base, tree, geometries, base_frame)
    if skids:
        block.setdefault("contact", {}).update({link: dict(_SKID) for link in skids})
        text = f"{listed(skids)} touch the floor; they slide without friction"
        findings.add("guessed", "simulation.contact", text)
    return block


def _skids(
    base: BaseGuess, tree: KinematicTree, geometries: Mapping[str, LinkGeometry], base_frame: str
) -> tuple[str, ...]:
    """Return the links fixed to the base that touch the floor."""
    poses, rigid = link_poses(tree, base_frame), rigid_links(tree)
    floor = min(wheel.centre[2] - wheel.radius for wheel in base.wheels)
    near = floor + _NEAR_FLOOR * min(wheel.radius for wheel in base.wheels)
    return tuple(
        link
        for link, geometry in geometries.items()
        if rigid[link] == rigid[base_frame] and in_base(poses[link], geometry)[:, 2].min() < near
    )

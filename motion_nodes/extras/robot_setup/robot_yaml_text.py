# SPDX-License-Identifier: Apache-2.0
"""Content of the robot.yaml and rmpflow.yaml of a new robot, and its named states.

States are free of collisions, within limits, holdable and not singular. RMPflow settings are the
Panda's in proportion, and balls kept off the base.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.reactive.tuning import settings_scale, starting_settings
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import ROBOT_FILE
from motion_nodes.core.robot.rmpflow_settings import BodyCapsule, BodyController, RmpflowSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_builder import assemble
from motion_nodes.core.robot.robot_yaml import RobotDescription
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.robot.yaml_schema import decode
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.robot_spheres import rigid_links
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.robot_setup.groups import GroupGuess, Groups, open_and_close
from motion_nodes.extras.robot_setup.notes import Notes
from motion_nodes.extras.robot_setup.wheeled_base import BaseGuess
from motion_nodes.typing import Array

URDF_FILE = "robot.urdf"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def checked_name(given: str | None, urdf_name: str) -> str:
    """Return the robot's name: the given one, or one derived from the URDF's.

    Raises:
        InvalidConfig: the given name is not a valid ROS name.
    """
    if given is not None:
        if not _NAME.fullmatch(given):
            raise InvalidConfig(
                f"the name '{given}' cannot be used: lower-case letters, digits and underscores, a "
                "letter first.",
                field="name",
            )
        return given
    plain = unicodedata.normalize("NFKD", urdf_name).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_").lstrip("0123456789_")
    return plain or "robot"


FIXED_FRAMES = ("world", "map", "odom", "ground")
"""Names of roots that only represent the world."""


def base_frame(tree: KinematicTree) -> str:
    """Return the reference link of the robot's poses.

    That is ``base_link`` if no joint moves it (REP-105), else the root; a root that only represents
    the world is skipped.
    """
    link, rigid = tree.root, {tree.root}
    for name in tree.frame_names[1:]:
        joint = tree.parent_joint[name]
        if not joint.movable and joint.parent in rigid:
            rigid.add(name)
    if "base_link" in rigid:
        return "base_link"
    while link in FIXED_FRAMES:
        below = [j.child for j in tree.joints.values() if j.parent == link and j.child in rigid]
        if len(below) != 1:
            break
        link = below[0]
    return link


@dataclass(frozen=True)
class RobotGuess:
    """What was found out about a robot."""

    base: BaseGuess
    frame: str
    """Base frame."""
    groups: Groups
    limits: Mapping[str, Mapping[str, float]]
    """Limits of joints, by kind and joint."""
    drives: Sequence[Mapping[str, Any]]
    """Entries of robot.yaml."""


def robot_data(
    name: str, tree: KinematicTree, guess: RobotGuess, *, has_spheres: bool
) -> dict[str, Any]:
    """Return the fields of robot.yaml in order; states and ignored pairs are added later."""
    base, groups = guess.base, guess.groups
    frames: dict[str, Any] = {"base": guess.frame}
    if groups.main is not None and groups.main.tip is not None:
        frames["tool"] = groups.main.tip
    if base.block:
        frames["odom"] = next(n for n in ("odom", "odometry", "odom_frame") if n not in tree.links)
    data: dict[str, Any] = {
        "format": 1,
        "name": name,
        "kind": base.kind,
        "urdf": URDF_FILE,
        "frames": frames,
    }
    if base.block:
        data["base"] = base.block
    data["groups"] = {
        group.name: _group(group.joints, group.base, group.tip, group.aliases)
        for group in groups.groups
    }
    if base.driven and "wheels" not in data["groups"]:
        wheels = (*base.driven, *base.steering)
        ordered = [joint for joint in tree.joint_names if joint in wheels]
        data["groups"]["wheels"] = {"joints": ordered}
    moved = [joint for joint in tree.joint_names if joint not in base.passive]
    data["limits"] = {
        key: {joint: values[joint] for joint in moved} for key, values in guess.limits.items()
    }
    data["named_states"] = {}
    data["drives"] = [dict(drive) for drive in guess.drives]
    if base.passive:
        data["passive_joints"] = list(base.passive)
    if has_spheres:
        data["collision"] = {"spheres": "spheres.yaml", "ignore": []}
    source = "README.md#guesses"
    data["sources"] = {"limits": source, "drives": source} if moved else {}
    if base.block:
        data["sources"]["base"] = source
    return data


def named_states(
    robot: Robot, groups: Groups, home: Array, ready: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return the states: home, ready for the arm, open and close for a gripper."""
    states = {
        "home": {
            joint: _round(value)
            for joint, value in zip(robot.joint_names, home.tolist(), strict=True)
            if joint not in robot.description.passive_joints
        }
    }
    if ready:
        states["ready"] = {joint: _round(value) for joint, value in ready.items()}
    one = len(groups.grippers) == 1
    for gripper in groups.grippers:
        ends = open_and_close(robot.tree, gripper)
        for word, end in zip(("open", "close"), ends or (), strict=False):
            states[word if one else f"{word}_{gripper.name}"] = dict(end)
    # Rounding may have exceeded a limit.
    for state in states.values():
        names = list(state)
        clipped = robot.limits.select(names).clip(np.array([state[n] for n in names]))
        state.update(zip(names, map(float, clipped), strict=True))
    return states


def _group(
    joints: Sequence[str], base: str | None, tip: str | None, aliases: Sequence[str]
) -> dict[str, Any]:
    group: dict[str, Any] = {"joints": list(joints)}
    if tip is not None:
        group.update({"base": base, "tip": tip})
    if aliases:
        group["aliases"] = list(aliases)
    return group


def _round(value: float) -> float:
    return round(value, 4) + 0.0


def preliminary_robot(
    data: Mapping[str, Any],
    tree: KinematicTree,
    spheres: Mapping[str, Sequence[Sequence[float]] | Array],
    target: Path,
) -> Robot:
    """Return a robot before its folder is written.

    Args:
        data: fields of robot.yaml.
        tree: its kinematic tree.
        spheres: collision spheres x, y, z, radius [m] by link, shape (s, 4).
        target: its folder.

    Raises:
        InvalidDescription: a field is invalid.
    """
    file = target / ROBOT_FILE
    description = decode(copy.deepcopy(dict(data)), RobotDescription, str(file))
    by_link = {
        link: tuple((float(x), float(y), float(z), float(r)) for x, y, z, r in items)
        for link, items in spheres.items()
    }
    return assemble(file, description, tree, "", by_link)


def rmpflow_settings(
    robot: Robot, group: GroupGuess, spheres: Mapping[str, Array], findings: Notes
) -> RmpflowSettings:
    """Return the settings of a robot with a state ``ready``, rounded.

    Args:
        robot: the robot; the group's tip is its tool.
        group: the active chain, with base and tip.
        spheres: spheres by link [m], shape (s, 4).
        findings: notes are added.
    """
    settings = starting_settings(robot, group.joints)
    findings.add(
        "guessed",
        "rmpflow.yaml",
        f"the Panda's settings for {settings_scale(robot, group.joints):.2g} times its size; the "
        "last links are kept off a pillar that stands for the base",
    )
    numbers = {name: _significant(value) for name, value in settings.parameters().items()}
    return dataclasses.replace(
        settings.with_parameters(numbers),
        default_posture="ready",
        joint_limit_buffers=tuple(map(_round, settings.joint_limit_buffers)),
        body_cylinders=(_pillar(robot, group, spheres),),
        body_collision_controllers=_controllers(robot.tree, group, spheres),
    )


def _pillar(robot: Robot, group: GroupGuess, spheres: Mapping[str, Array]) -> BodyCapsule:
    """Return a capsule from the base of the chain to its first joint, in the base frame."""
    tree = robot.tree
    kinematics = Kinematics(tree, base=robot.base_frame, generic=True)
    poses = kinematics.frames(robot.home)
    place = {name: X[:3, 3] for name, X in zip(kinematics.frame_names, poses, strict=True)}
    foot = place[group.base or tree.root]
    head = place[tree.joints[group.joints[0]].child]
    radii = spheres.get(group.base or tree.root)
    width = float(np.median(radii[:, 3])) if radii is not None and len(radii) else 0.05
    ends = [(_significant(x), _significant(y), _significant(z)) for x, y, z in (foot, head)]
    return BodyCapsule("base_stem", ends[0], ends[1], _significant(width))


def _controllers(
    tree: KinematicTree, group: GroupGuess, spheres: Mapping[str, Array]
) -> tuple[BodyController, ...]:
    """Return balls about the frames of the last two links and of the tip."""
    frames = [tree.joints[name].child for name in group.joints[-2:]]
    if len(group.joints) < 4:
        frames = []  # a short chain cannot reach its own base
    if group.tip not in frames and frames:
        frames.append(group.tip or frames[-1])
    rigid = rigid_links(tree)
    found = []
    for frame in frames:
        near = [s for link, s in spheres.items() if rigid[link] == rigid[frame]]
        radius = float(np.median(np.concatenate(near)[:, 3])) if near else 0.03
        found.append(BodyController(frame, _significant(radius)))
    return tuple(found)


def _significant(value: float) -> float:
    return float(f"{value:.3g}") + 0.0


_FROM_THE_ENDS = 0.05  # min distance of home from the limits, as a fraction of the range
_NEAREST = 500  # candidates for a home that the drives can hold
_BEST = 50  # candidates that are tested with the additional condition
_NEARLY = 0.9  # product of manipulability and distance from limits, as a fraction of the best
_HELD = 0.8  # max gravity effort, as a fraction of the effort limit


def first_home(robot: Robot) -> Array:
    """Return all joints at zero [rad or m], or slightly inside their limits."""
    lower, upper = robot.limits.lower, robot.limits.upper
    ranges = np.where(np.isfinite(upper - lower), upper - lower, 0.0)
    room = np.where(np.isfinite(upper - lower), _FROM_THE_ENDS * ranges, 0.0)
    inside = np.clip(0.0, lower + room, upper - room)
    zero_is_near = (lower <= 0.0) & (upper >= 0.0)
    return np.where(zero_is_near, 0.0, inside)


def gravity_check(robot: Robot) -> Callable[[Array], NDArray[np.bool_]]:
    """Return a function that checks whether the drives hold configurations against gravity.

    Args:
        robot: the robot, upright.

    Returns:
        Function of configurations of all joints, shape (m, n): whether gravity efforts are within
        80 % of the effort limits, shape (m,).
    """
    dynamics = InverseDynamics(robot.tree, robot.joint_names, generic=True)

    def are_held(Q: Array) -> NDArray[np.bool_]:
        still = np.zeros_like(Q)
        load = np.abs(dynamics.efforts_batch(np.ascontiguousarray(Q), still, still))
        return np.asarray((load <= _HELD * robot.limits.effort).all(axis=1))

    return are_held


def held_home(
    robot: Robot,
    checker: CollisionChecker,
    Q: Array,
    apart: Callable[[Array], bool] = lambda q: True,
) -> Array:
    """Return the collision-free configuration closest to home that the drives can hold.

    Args:
        robot: robot with a collision-free home.
        checker: collision checker of all joints.
        Q: candidates, shape (m, n).
        apart: whether links that the checker ignores do not touch either, where that is possible.

    Returns:
        The robot's home if the drives can hold it, or if no candidate can be held.
    """
    home, are_held = robot.home, gravity_check(robot)
    is_held, is_apart = bool(are_held(home[None])[0]), apart(home)
    if is_held and is_apart:
        return home
    free = Q[checker.are_free(Q)]
    order = np.argsort(np.linalg.norm(free - home, axis=1))
    # Links that touch at home may touch at all of the nearest, too.
    nearest = free[order[:_NEAREST] if is_apart else order[:: max(1, len(order) // _NEAREST)]]
    held = nearest[are_held(nearest)] if len(nearest) else nearest
    looked_at = held if is_apart else held[:: max(1, len(held) // _BEST)]
    best = next((q for q in looked_at if apart(q)), None)
    if best is None:
        if is_held or not len(held):
            return home
        best, apart = held[0], lambda q: True
    return nearer_home(
        lambda q: checker.is_free(q) and bool(are_held(q[None])[0]) and apart(q), best, home
    )


def nearer_home(allowed: Callable[[Array], bool], free: Array, desired: Array) -> Array:
    """Return an allowed configuration close to the desired one, joint by joint.

    Args:
        allowed: whether a configuration is a valid home, for example collision-free.
        free: an allowed configuration, shape (n,).
        desired: the desired configuration, shape (n,).
    """
    found = free.round(4)
    if not allowed(found):
        return free
    for k in range(len(found)):
        for share in (1.0, 0.75, 0.5, 0.25):
            tried = found.copy()
            tried[k] = round(found[k] + share * (desired[k] - found[k]), 4)
            if allowed(tried):
                found = tried
                break
    return found


def ready_state(
    robot: Robot,
    joints: tuple[str, ...],
    tip: str,
    checker: CollisionChecker,
    Q: Array,
    allowed: Callable[[Array], bool] = lambda q: True,
) -> dict[str, float]:
    """Return a configuration of a chain with high manipulability.

    Among random collision-free configurations, the one with the max product of manipulability
    (Yoshikawa, Manipulability of robotic mechanisms, IJRR 4, 1985) and distance from the joint
    limits, and from there each joint closer to home while the product hardly decreases: the joints
    at both ends of an arm have no influence on it. The other joints are at home.

    Args:
        robot: the robot.
        joints: joints of the chain.
        tip: link at its end.
        checker: collision checker of all joints.
        Q: candidates, shape (m, n).
        allowed: additional condition, tested on the best candidates.

    Returns:
        Positions by joint; empty if none is collision-free.
    """
    columns = robot.indices(joints)
    tried = np.tile(robot.home, (len(Q), 1))
    tried[:, columns] = Q[:, columns]
    # Configurations more than half a turn from home may be unreachable because of self-collisions
    # on the path.
    near = (np.abs(tried - robot.home) <= np.pi).all(axis=1)
    tried = tried[near] if near.any() else tried
    tried = tried[checker.are_free(tried)]
    if not len(tried):
        return {}
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    lower, upper = robot.limits.lower[columns], robot.limits.upper[columns]
    bounded = np.isfinite(upper - lower)
    reach = 0.0

    def scores(Q: Array) -> Array:
        nonlocal reach
        jacobians = kinematics.jacobian_batch(Q, tip)[:, :, columns]
        reach = reach or max(float(np.linalg.norm(jacobians[:, :3], axis=(1, 2)).max()), 1e-9)
        jacobians[:, :3] /= reach
        singular = np.linalg.svd(jacobians, compute_uv=False)
        share = (Q[:, columns] - lower)[:, bounded] / (upper - lower)[bounded]
        middle = np.prod(4.0 * share * (1.0 - share), axis=1)
        measure = np.prod(singular[:, : min(6, len(joints))], axis=1)
        return np.asarray(measure * np.power(middle, 0.25))

    are_held, found = gravity_check(robot), scores(tried)
    order = np.argsort(-found)[:_BEST]
    held = order[are_held(tried[order])]
    best = next((int(k) for k in held if allowed(tried[k])), int(order[0]))
    least = _NEARLY * found[best]

    def as_good(q: Array) -> bool:
        good = checker.is_free(q) and bool(are_held(q[None])[0]) and scores(q[None])[0] >= least
        return good and allowed(q)

    ready = nearer_home(as_good, tried[best], robot.home)
    return dict(zip(joints, ready[columns].tolist(), strict=True))

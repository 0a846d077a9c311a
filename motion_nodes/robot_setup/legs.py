# SPDX-License-Identifier: Apache-2.0
"""Legs: the chains on which a body stands, and a standing configuration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, KinematicTree
from motion_nodes.robot_setup.groups import GroupGuess, Groups
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.wheels import in_base, link_poses
from motion_nodes.scene.robot_spheres import rigid_links

_LOW = 0.1
"""Max height of the end of a leg above the lowest point, relative to the robot's height."""
_ABOVE = 0.25
"""Min height of the body above the lowest point, relative to the robot's height."""
_BENT = 0.85
"""Length of a standing leg, relative to the stretched leg."""
_SAMPLES = 4000
_SOLE = 0.01
"""Max height of points of a sole above its lowest point [m]."""
_ROUNDS = 3
"""Number of iterations of placing the legs below the centre of mass."""
_ASIDE, _BENDING = 0.3, 0.02
"""Weights of a lateral foot offset and of joint positions, relative to a forward foot offset."""
_WITH_ANKLE = 5
"""Min number of joints of a leg with an ankle."""


@dataclass(frozen=True)
class Leg:
    """A chain with a foot."""

    group: GroupGuess
    link: str
    """Link that the last joint moves."""
    foot: Array
    """Point of this link, or of a link fixed to it, in contact with the floor, in its frame [m]:
    the middle of the sole of a leg with an ankle, else the farthest point from the joint."""


def find_legs(
    tree: KinematicTree, geometries: Mapping[str, LinkGeometry], groups: Groups, base: str
) -> tuple[Leg, ...]:
    """Return the chains on which a body stands: two or more alike, without hands, with lowest ends.

    Args:
        tree: the robot.
        geometries: geometries of its links.
        groups: its groups.
        base: frame in which z is up; the body is fixed to it.
    """
    if not geometries:
        return ()
    poses, rigid = link_poses(tree, base), rigid_links(tree)
    points = {link: in_base(poses[link], g) for link, g in geometries.items()}
    floor = min(float(p[:, 2].min()) for p in points.values())
    height = max(float(p[:, 2].max()) for p in points.values()) - floor
    body = [float(p[:, 2].min()) for link, p in points.items() if rigid[link] == rigid[base]]
    # A base without a body is a point of the world.
    if not body or min(body) < floor + _ABOVE * height:
        return ()
    legs = []
    with_hands = {rigid[tree.joints[hand.joints[0]].parent] for hand in groups.grippers}
    for group in groups.groups:
        link = tree.joints[group.joints[-1]].child
        ends = [p for name, p in points.items() if rigid[name] == rigid[link]]
        if group.tip is None or len(group.joints) < 2 or not ends or rigid[link] in with_hands:
            continue
        end = np.concatenate(ends)
        if end[:, 2].min() < floor + _LOW * height:
            away = end - poses[link][:3, 3]
            foot = away[int(np.argmax(np.linalg.norm(away, axis=1)))]
            if len(group.joints) >= _WITH_ANKLE:
                foot = away[away[:, 2] < away[:, 2].min() + _SOLE].mean(axis=0)
            legs.append(Leg(group, link, poses[link][:3, :3].T @ foot))
    counts = [len(leg.group.joints) for leg in legs]
    alike = [leg for leg in legs if len(leg.group.joints) == max(counts, key=counts.count)]
    return tuple(alike) if len(alike) > 1 else ()


def standing(robot: Robot, legs: Sequence[Leg], home: Array, seed: int) -> Array:
    """Return a configuration in which each foot is below its hip, and its leg slightly bent.

    Feet of legs with ankles (five joints or more) keep their orientation at joint positions zero.
    All feet are at the same height.

    Args:
        robot: the robot.
        legs: its legs.
        home: configuration of the other joints, shape (n,).
        seed: seed of random numbers.
    """
    stances = [_Stance(robot, leg, home) for leg in legs]
    rng, found = np.random.default_rng(seed), home.copy()
    drawn = [rng.uniform(s.low, s.high, (_SAMPLES, len(s.low))) for s in stances]
    depth = _BENT * min(
        float(-s.feet(Q)[0][:, 2].min()) for s, Q in zip(stances, drawn, strict=True)
    )
    for _ in range(_ROUNDS):
        # The centre of mass is above the middle of the feet.
        hips = np.mean([stance.hip(found)[0] for stance in stances])
        ahead = float(_centre_of_mass(robot, found)[0] - hips)
        shared: Array | None = None
        for stance, Q in zip(stances, drawn, strict=True):
            # Also try another leg's configuration, mirrored: most robots are symmetric.
            tried = Q if shared is None else shared * _signs(len(shared))
            shared = stance.nearest(tried.clip(stance.low, stance.high), depth, ahead)
            found[stance.columns] = shared
    return found


def _signs(count: int) -> Array:
    """Return all combinations of signs, shape (2^n, n)."""
    return np.array(list(itertools.product((1.0, -1.0), repeat=count)))


def _centre_of_mass(robot: Robot, q: Array) -> Array:
    """Return the centre of mass in the base frame [m], shape (3,); the origin without masses."""
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    poses = dict(zip(kinematics.frame_names, kinematics.frames(q), strict=True))
    bodies = [(link.inertial, poses[name]) for name, link in robot.tree.links.items()]
    masses = np.array([i.mass for i, _ in bodies if i is not None])
    centres = [(X @ i.X_LC)[:3, 3] for i, X in bodies if i is not None]
    return masses @ np.array(centres) / masses.sum() if len(masses) else np.zeros(3)


class _Stance:
    """Configurations of one leg."""

    def __init__(self, robot: Robot, leg: Leg, home: Array) -> None:
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
        names = list(self._kinematics.frame_names)
        self._hip = names.index(robot.tree.joints[leg.group.joints[0]].child)
        self._end, self._foot, self._home = names.index(leg.link), leg.foot, home
        self.columns = robot.indices(leg.group.joints)
        limits = robot.limits.select(leg.group.joints)
        self.low = np.where(np.isfinite(limits.lower), limits.lower, -np.pi)
        self.high = np.where(np.isfinite(limits.upper), limits.upper, np.pi)
        self._zero = np.clip(0.0, self.low, self.high)
        self._flat = self.feet(self._zero[None])[1][0]
        self._has_ankle = len(self.columns) >= _WITH_ANKLE

    def feet(self, Q: Array) -> tuple[Array, Array]:
        """Return positions relative to the hip [m], (m, 3), and orientations, (m, 3, 3)."""
        full = np.tile(self._home, (len(Q), 1))
        full[:, self.columns] = Q
        frames = self._kinematics.frames_batch(full)
        R, hip = frames[:, self._end, :3, :3], frames[:, self._hip, :3, 3]
        return R @ self._foot + frames[:, self._end, :3, 3] - hip, R

    def hip(self, q: Array) -> Array:
        """Return the position of the hip in the base frame [m], shape (3,)."""
        return np.asarray(self._kinematics.frames(q)[self._hip, :3, 3])

    def nearest(self, Q: Array, depth: float, ahead: float) -> Array:
        """Return the configuration closest to the desired stance; starts from the best samples."""
        from scipy.optimize import least_squares

        start = Q[int(np.argmin((self._errors(Q, depth, ahead) ** 2).sum(axis=1)))]
        inside = np.clip(start, self.low + 1e-6, self.high - 1e-6)
        found = least_squares(
            lambda q: self._errors(q[None], depth, ahead)[0], inside, bounds=(self.low, self.high)
        )
        return np.asarray(found.x)

    def _errors(self, Q: Array, depth: float, ahead: float) -> Array:
        place, R = self.feet(Q)
        aside, height = _ASIDE * place[:, 1], 3.0 * (place[:, 2] + depth)
        terms = [np.stack([3.0 * (place[:, 0] - ahead), aside, height], axis=1) / depth]
        terms.append(_BENDING * (Q - self._zero))
        if self._has_ankle:
            terms.append((R - self._flat).reshape(len(Q), 9))
        return np.concatenate(terms, axis=1)

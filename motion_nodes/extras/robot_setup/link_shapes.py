# SPDX-License-Identifier: Apache-2.0
"""Geometry of the links of a new robot: spheres that cover it, and links that may touch.

Pairs of links that are excluded from collision checks are found by random sampling; among them
pairs that collide by their spheres only. Spheres extend beyond the geometry. Where two links pass
close to each other, they may collide over a whole range of a joint that the geometry moves through
freely, and no path would be found.
"""

from __future__ import annotations

import copy
import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import KinematicTree, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.core.scene.robot_spheres import (
    CollisionBody,
    checked_pairs,
    link_bodies,
    rigid_links,
)
from motion_nodes.core.scene.scene import AllowedCollisions, pair_of
from motion_nodes.core.scene.sphere_set import Coverage, SphereSet
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.notes import Notes, Progress, listed
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.kernels.sphere_fit import nearest
from motion_nodes.typing import Array

_MOST_STATED, _STATED_MARGIN = 100, 0.002
"""Max number of spheres of a link's own geometry that are used, and what is added to their radii,
because edges are checked in steps [m]."""


def link_geometries(
    tree: KinematicTree, search: PackageSearch, findings: Notes
) -> dict[str, LinkGeometry]:
    """Return the geometry of each link with shapes.

    A body without any collision geometry is represented by its visual geometry.
    """
    chosen = {link.name: link.collisions for link in tree.links.values() if link.collisions}
    chosen |= {name: tree.links[name].visuals for name in without_collisions(tree)}
    if not chosen:
        findings.add("missing", "spheres.yaml", "no link has geometry; nothing can be checked")
    geometries = {}
    for name, shapes in chosen.items():
        try:
            geometry = LinkGeometry.of_shapes(shapes, search.find)
        except InvalidDescription as error:
            findings.add("missing", "spheres.yaml", f"{name} is not checked: {error}")
            continue
        if geometry is not None:
            geometries[name] = geometry
    return geometries


def without_collisions(tree: KinematicTree) -> list[str]:
    """Return the links with visual geometry in bodies that have no collision geometry."""
    links, rigid = tree.links.values(), rigid_links(tree)
    solid = {rigid[link.name] for link in links if link.collisions}
    return [link.name for link in links if link.visuals and rigid[link.name] not in solid]


def add_missing_collisions(
    root: Any, tree: KinematicTree, geometries: Mapping[str, LinkGeometry], findings: Notes
) -> bool:
    """Use the visual geometry of bodies without collision geometry as collision geometry.

    Otherwise they would pass through the floor in simulation.

    Args:
        root: the element ``<robot>``, which is changed.
        tree: the tree read from it.
        geometries: geometries of the links whose geometry can be read.
        findings: notes are added.

    Returns:
        Whether there were such bodies.
    """
    names = [name for name in without_collisions(tree) if name in geometries]
    if names:
        collide_as_seen(root, names)
        all_links = not any(link.collisions for link in tree.links.values())
        which = "all links" if all_links else listed(names)
        findings.add("guessed", "collision geometry", f"{which}: the visual geometry")
    return bool(names)


def collide_as_seen(root: Any, names: Collection[str]) -> None:
    """Replace the collision geometry of links by their visual geometry.

    Args:
        root: the element ``<robot>``, which is changed.
        names: names of the links.
    """
    for link in root.findall("link"):
        if link.get("name") not in names:
            continue
        for old in link.findall("collision"):
            link.remove(old)
        for visual in link.findall("visual"):
            collision = copy.deepcopy(visual)
            collision.tag = "collision"
            for material in collision.findall("material"):
                collision.remove(material)
            link.append(collision)


def _accuracies(geometries: Mapping[str, LinkGeometry], given: float | None) -> dict[str, float]:
    """Return the accuracy of each link's spheres [m].

    1/6 of its width, 6 to 40 mm, but at least 1/20 of it, as on cranes; limited for small parts if
    one value is given for all links.
    """
    chosen = {}
    for link, geometry in geometries.items():
        extents = np.sort(np.ptp(geometry.bounds, axis=0))
        if given is None:
            width = float(extents[1])
            chosen[link] = float(np.clip(width / 6.0, 0.006, max(0.04, width / 20.0)))
        else:
            chosen[link] = min(given, max(0.2 * float(extents[2]), 0.5 * given))
        # Bounded by the size of tiny parts, whose grids would otherwise be huge.
        chosen[link] = max(min(chosen[link], float(extents[2])), 1e-4)
    return chosen


def fit_spheres(
    geometries: Mapping[str, LinkGeometry], given: float | None, progress: Progress
) -> tuple[SphereSet, dict[str, Coverage]]:
    """Return spheres of all links, and their coverage.

    Geometry that consists of spheres is used as it is, with a small margin.

    Args:
        geometries: geometries of the links.
        given: max excess of spheres beyond the geometry [m]; None: depends on each link's width.
        progress: callback, called with the name of each step.
    """
    accuracies = _accuracies(geometries, given)
    first: dict[bytes, str] = {}  # first of identical links, such as wheels and fingers
    alike = {
        link: first.setdefault(geometry.corners.tobytes(), link)
        for link, geometry in geometries.items()
    }

    def fitted(link: str) -> tuple[Array, Coverage]:
        geometry = geometries[link]
        if geometry.balls is not None and len(geometry.balls) <= _MOST_STATED:
            larger = np.add(geometry.balls, (0.0, 0.0, 0.0, _STATED_MARGIN))
            own = SphereSet().with_link(link, larger)
        else:
            own = SphereSet().generate(link, geometry, accuracy=accuracies[link])
        return own.of(link), own.coverage(link, geometry)

    links = list(first.values())
    with ThreadPoolExecutor(min(len(links) or 1, os.cpu_count() or 1)) as pool:
        results = {}
        for k, (link, result) in enumerate(zip(links, pool.map(fitted, links), strict=True)):
            progress(f"fitting spheres to {link} ({k + 1} of {len(links)})")
            results[link] = result
    spheres = SphereSet({link: results[like][0] for link, like in alike.items()})
    return spheres, {link: results[like][1] for link, like in alike.items()}


Reason = Literal["always", "often", "gripper", "never", "spheres only", "default"]
"""Always: in collision in (almost) all configurations. Often: second neighbours in a chain that
collide in many configurations, because their shapes are too large: limits of two joints leave most
of their range free; decided by spheres, then by the exact shapes. Gripper: fingers, whose contact
is intended. Never: they never come close. Spheres only: their spheres overlap, but not their
geometry. Default: in collision at home, with no collision-free configuration found."""
SAMPLES = 5000
MARGIN = 0.01
"""Sufficient distance of pairs that never collide [m]."""
_ALWAYS, _OFTEN = 0.95, 0.3  # fractions of the configurations
_SAMPLED = 4  # number of joints between links whose distance random configurations cover
_STARTS, _DIRECTIONS, _STEPS, _WIDTHS = 8, 12, 30, (0.2, 0.01)
"""Configurations, steps from each, iterations, and first and last step relative to the range."""
_STEADY = 0.25  # sampled min distance relative to its variation
_LOOKED_AT = 24  # number of sphere overlaps that are checked with the geometry
_POINTS = 500
_PAIRS_TRIED = 1_500_000
OFTEN = 0.01
"""Min fraction of configurations in which the spheres of such a pair collide."""
CONFIGURATIONS = 1000
"""Number of configurations."""
_PAIRS_LOOKED_AT = 100
"""Max number of collisions by spheres that are checked exactly."""
_MOST = 0.5
"""Min fraction of configurations in which the shapes of a pair touch that is not checked."""


@dataclass
class SelfCollisions:
    """Result of the search."""

    ignored: dict[tuple[str, str], Reason] = field(default_factory=dict)
    checked: list[tuple[str, str]] = field(default_factory=list)
    samples: int = 0
    exact_only: list[tuple[str, str]] = field(default_factory=list)
    """Pairs whose spheres overlap at a given home, or often, but their geometry does not."""
    home: Array = field(default_factory=lambda: np.zeros(0))
    """A collision-free configuration of all joints [rad or m]."""

    def of(self, reason: Reason) -> list[tuple[str, str]]:
        """Return the pairs that are ignored for a reason."""
        return [pair for pair, why in self.ignored.items() if why == reason]


def random_configurations(
    robot: Robot, count: int, rng: np.random.Generator, still: Collection[str] = ()
) -> Array:
    """Return configurations within the limits, shape (count, n); ``still`` joints are at home."""
    lower, upper = robot.limits.lower.copy(), robot.limits.upper.copy()
    endless = ~np.isfinite(upper - lower)
    lower[endless], upper[endless] = -math.pi, math.pi
    Q = rng.uniform(lower, upper, (count, len(lower)))
    columns = [robot.joint_names.index(name) for name in still]
    Q[:, columns] = robot.home[columns]
    return np.asarray(Q)


@dataclass(frozen=True)
class JointRoles:
    """Joints that are tried differently from those of an arm."""

    still: Collection[str] = ()
    """Joints that stay at home, such as those of wheels."""
    grippers: Sequence[Sequence[str]] = ()
    """Joints of each gripper."""


def find_self_collisions(
    robot: Robot,
    geometries: Mapping[str, LinkGeometry],
    *,
    roles: JointRoles | None = None,
    keep_home: bool = False,
    samples: int = SAMPLES,
    seed: int = 0,
) -> SelfCollisions:
    """Classify the pairs of links of a robot as checked or ignored.

    Neighbours in the tree are never checked and not listed.

    Args:
        robot: robot with spheres; pairs that are already ignored are omitted.
        geometries: geometries of its links, for the verification of sphere overlaps.
        roles: of joints of wheels and grippers; None: there are none.
        keep_home: keep the home configuration if only spheres overlap, such as a stance of legs.
        samples: number of configurations; fewer for very many pairs.
        seed: seed of the configurations.
    """
    roles = roles or JointRoles()
    bodies = link_bodies(robot)
    pairs = checked_pairs(robot, bodies, AllowedCollisions())
    rng = np.random.default_rng(seed)
    count = int(np.clip(_PAIRS_TRIED / max(1, len(pairs)), 500, samples))
    Q = np.vstack((robot.home, random_configurations(robot, count, rng, roles.still)))
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    X = kinematics.frames_batch(Q)
    rows = {name: k for k, name in enumerate(kinematics.frame_names)}
    found = SelfCollisions(samples=count)
    touching: dict[tuple[str, str], Array] = {}
    above = {link: _joints_above(robot.tree, link) for link in robot.tree.frame_names}
    joints = robot.joint_names
    for i, j in pairs:
        a, b = bodies[i], bodies[j]
        X_a, X_b = X[:, rows[a.link]], X[:, rows[b.link]]
        distance = sphere_distances(a, b, X_a, X_b)
        pair = (a.name, b.name)
        shapes = geometries.get(a.link), geometries.get(b.link)
        # A distance that hardly varies, as of the links of a wrist, has no other minimum.
        if distance.min() > min(MARGIN, _STEADY * np.ptp(distance)) and distance.min() > 0.0:
            between = [
                k
                for k, joint in enumerate(joints)
                if joint in above[a.link] ^ above[b.link] and joint not in roles.still
            ]
            near = len(between) > _SAMPLED and _come_near(
                (a, b), kinematics, (robot.limits.lower, robot.limits.upper), between,
                Q[np.argsort(distance)[:_STARTS]], rng,
            )  # fmt: skip
            if near:
                touching[pair] = distance
            else:
                found.ignored[pair] = "never"
        elif distance.min() > 0.0:
            touching[pair] = distance
        elif not _geometry_touches(*shapes, X_a, X_b, distance, rng):
            found.ignored[pair] = "spheres only"
        elif (share := (distance < 0.0).mean()) >= _ALWAYS:
            found.ignored[pair] = "always"
        elif share >= _OFTEN and len(above[a.link] ^ above[b.link]) <= 2:
            found.ignored[pair] = "often"
        elif any(above[a.link] & set(g) and above[b.link] & set(g) for g in roles.grippers):
            found.ignored[pair] = "gripper"
        elif (
            keep_home
            and distance[0] < 0.0
            and not _geometry_touches(*shapes, X_a[:1], X_b[:1], distance[:1], rng)
        ):
            found.exact_only.append(pair)
        else:
            touching[pair] = distance
    found.home = _choose_home(found, touching, Q, robot)
    found.checked = [pair for pair in touching if pair not in found.ignored]
    return found


def geometry_touches(
    robot: Robot, geometries: Mapping[str, LinkGeometry], pairs: Sequence[tuple[str, str]], q: Array
) -> bool:
    """Return whether the geometry of any of the pairs of links collides.

    Args:
        robot: the robot.
        geometries: geometries of its links.
        pairs: pairs of links whose spheres are not checked.
        q: configuration of all joints, shape (n,).
    """
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    X = dict(zip(kinematics.frame_names, kinematics.frames(q)[:, None], strict=True))
    overlaps, rng = np.full(1, -1.0), np.random.default_rng(0)
    return any(
        _geometry_touches(geometries.get(a), geometries.get(b), X[a], X[b], overlaps, rng)
        for a, b in pairs
    )


def _come_near(
    bodies: tuple[CollisionBody, CollisionBody],
    kinematics: Kinematics,
    bounds: tuple[Array, Array],
    columns: Sequence[int],
    best: Array,
    rng: np.random.Generator,
) -> bool:
    """Return whether two bodies come close, by random descent of their distance.

    Random configurations hardly ever bring together the hands of two arms.

    Args:
        bodies: the bodies.
        kinematics: of the robot.
        bounds: position limits of all joints [rad or m], each of shape (n,).
        columns: of the joints between the bodies.
        best: configurations to start from, shape (m, n).
        rng: of the steps.
    """
    a, b = bodies
    low, high = (np.where(np.isfinite(x), x, np.sign(x) * math.pi) for x in bounds)
    for width in np.geomspace(*_WIDTHS, _STEPS):
        tried = np.repeat(best, _DIRECTIONS, axis=0)
        steps = rng.normal(size=(len(tried), len(columns))) * width
        steps[::_DIRECTIONS] = 0.0
        tried[:, columns] += steps * (high - low)[columns]
        tried = np.clip(tried, low, high)
        X_a, X_b = (kinematics.pose_batch(tried, body.link) for body in bodies)
        distance = sphere_distances(a, b, X_a, X_b).reshape(len(best), -1)
        chosen = distance.argmin(axis=1)
        best = tried.reshape(*distance.shape, -1)[np.arange(len(best)), chosen]
        if distance.min() <= MARGIN:
            return True
    return False


def _joints_above(tree: KinematicTree, link: str) -> set[str]:
    """Return the joints that move a link, including mimicked ones."""
    names = set()
    joint = tree.parent_joint.get(link)
    while joint is not None:
        if joint.movable:
            names |= {joint.name, joint.mimic.joint} if joint.mimic else {joint.name}
        joint = tree.parent_joint.get(joint.parent)
    return names


def _choose_home(
    found: SelfCollisions, touching: Mapping[tuple[str, str], Array], Q: Array, robot: Robot
) -> Array:
    """Return a collision-free configuration near home; pairs that always collide are ignored."""
    if not touching:
        return np.asarray(Q[0])
    contacts = np.stack([distance < 0.0 for distance in touching.values()])
    many = contacts.sum(axis=0)
    if many[0] == 0:
        return np.asarray(Q[0])
    ranges = np.where(
        np.isfinite(robot.limits.upper - robot.limits.lower),
        robot.limits.upper - robot.limits.lower,
        2.0 * math.pi,
    )
    fewest = np.flatnonzero(many == many.min())
    away = np.linalg.norm((Q[fewest] - Q[0]) / ranges, axis=1)
    best = int(fewest[away.argmin()])
    for pair, touches in zip(touching, contacts, strict=True):
        if touches[best]:
            found.ignored[pair] = "default"
    return np.asarray(Q[best])


def sphere_distances(a: CollisionBody, b: CollisionBody, X_a: Array, X_b: Array) -> Array:
    """Return the min distance of the spheres of two bodies in each configuration.

    Args:
        a: a body.
        b: another one.
        X_a: poses of the link of ``a``, shape (m, 4, 4).
        X_b: poses of the link of ``b``, shape (m, 4, 4).

    Returns:
        Shape (m,) [m].
    """
    ball_a, ball_b = a.bounding_sphere, b.bounding_sphere
    middles = [X[:, :3, :3] @ ball[:3] + X[:, :3, 3] for X, ball in ((X_a, ball_a), (X_b, ball_b))]
    distance = np.linalg.norm(middles[0] - middles[1], axis=1) - ball_a[3] - ball_b[3]
    near = np.flatnonzero(distance <= MARGIN)
    step = max(1, 200_000 // len(b.spheres))
    for start in range(0, len(near), step):
        rows = near[start : start + step]
        # In the frame of a, so that only the spheres of b are transformed.
        R = np.swapaxes(X_a[rows, :3, :3], 1, 2)
        moved = np.matmul(R, (X_b[rows, :3, 3] - X_a[rows, :3, 3])[:, :, None])[:, None, :, 0]
        centres = b.spheres[:, :3] @ np.swapaxes(R @ X_b[rows, :3, :3], 1, 2) + moved
        gaps = nearest(a.spheres, centres.reshape(-1, 3))[0]
        distance[rows] = (gaps.reshape(len(rows), -1) - b.spheres[:, 3]).min(axis=1)
    return np.asarray(distance)


def _geometry_touches(
    a: LinkGeometry | None,
    b: LinkGeometry | None,
    X_a: Array,
    X_b: Array,
    distance: Array,
    rng: np.random.Generator,
) -> bool:
    """Return whether the geometry of two links collides where their spheres overlap.

    Checks the deepest overlaps and a sample of the others.
    """
    if a is None or b is None:
        return True
    overlaps = np.flatnonzero(distance < 0.0)
    deepest = overlaps[np.argsort(distance[overlaps])[: _LOOKED_AT // 2]]
    others = rng.permutation(overlaps)[: _LOOKED_AT // 2]
    rows = np.union1d(deepest, others)
    near = 0.5 * (a.spacing + b.spacing)
    for one, other, X_1, X_2 in ((a, b, X_a, X_b), (b, a, X_b, X_a)):
        points = one.surface
        points = points[rng.permutation(len(points))[:_POINTS]]
        R = np.swapaxes(X_2[rows, :3, :3], 1, 2)
        in_world = np.einsum("mij,pj->mpi", X_1[rows, :3, :3], points) + X_1[rows, None, :3, 3]
        seen = np.einsum("mij,mpj->mpi", R, in_world - X_2[rows, None, :3, 3])
        if other.touched_by(seen.reshape(-1, 3), near):
            return True
    return False


def add_excess_pairs(
    robot: Robot,
    found: SelfCollisions,
    still: Collection[str],
    rng: np.random.Generator,
    findings: Notes,
) -> bool:
    """Find such pairs among those that are checked, and add them to those checked exactly.

    Args:
        robot: with its meshes.
        found: its pairs; ``exact_only`` is extended.
        still: joints that stay at home.
        rng: of the configurations.
        findings: a note is added.

    Returns:
        Whether there are any.
    """
    Q = random_configurations(robot, CONFIGURATIONS, rng, still)
    checked = [pair for pair in found.checked if pair not in found.exact_only]
    pairs = excess_pairs(CollisionChecker(robot), checked, Q)
    if pairs:
        found.exact_only += pairs
        text = f"{listed('-'.join(p) for p in pairs)}: only their spheres collide, not their shapes"
        findings.add("guessed", "collision.ignore_spheres", text)
    return bool(pairs)


def add_missed_pairs(
    robot: Robot,
    found: SelfCollisions,
    still: Collection[str],
    rng: np.random.Generator,
    findings: Notes,
) -> bool:
    """Find ignored pairs whose shapes touch, and add them to those that are checked exactly.

    Pairs were ignored by their spheres, which are larger than the shapes, and by samples of these.
    Ignored remain fingers of one gripper, pairs that touch at a named state, and those that touch
    in most configurations, since one cannot tell overlaps of the shapes from collisions there; in
    many, if spheres stand for the shapes.

    Args:
        robot: with its meshes.
        found: its pairs; ``ignored`` is reduced, ``exact_only`` extended.
        still: joints that stay at home.
        rng: of the configurations.
        findings: notes are added.

    Returns:
        Whether there are any.
    """
    ignored = [pair for pair, why in found.ignored.items() if why != "gripper"]
    kept = (*found.of("gripper"), *found.checked)
    collision = replace(robot.description.collision, ignore=kept, ignore_spheres=())
    all_pairs = replace(robot, description=replace(robot.description, collision=collision))
    exact = CollisionChecker(all_pairs).exact
    touching = Counter(
        pair_of(*pair)
        for q in random_configurations(robot, CONFIGURATIONS, rng, still)
        for pair in exact.touching(q)
    )
    stated = [robot.named_state(name) for name in robot.state_names]
    at_states = {pair_of(*pair) for q in stated for pair in exact.touching(q)}
    missed = [pair for pair in ignored if touching[pair_of(*pair)]]
    for pair in missed:
        share = touching[pair_of(*pair)] / CONFIGURATIONS
        coarse = any(_is_of_spheres(robot.tree, link) for link in pair)
        if pair_of(*pair) in at_states or share >= (_OFTEN if coarse else _MOST):
            if share < _ALWAYS:
                text = f"{'-'.join(pair)}: touch in {share:.0%} of random configurations"
                findings.add("guessed", "collision.ignore", text, "low")
            continue
        del found.ignored[pair]
        found.exact_only.append(pair)
    moved = [pair for pair in missed if pair in found.exact_only]
    if moved:
        text = f"{listed('-'.join(p) for p in moved)}: checked by their exact shapes alone"
        findings.add("guessed", "collision.ignore_spheres", text)
    return bool(moved)


def _is_of_spheres(tree: KinematicTree, link: str) -> bool:
    """Return whether spheres stand for the shape of a link, which is smaller."""
    shapes = tree.links[link].collisions
    return len(shapes) > 1 and all(isinstance(shape.geometry, Sphere) for shape in shapes)


def excess_pairs(
    checker: CollisionChecker, pairs: Sequence[tuple[str, str]], Q: Array
) -> list[tuple[str, str]]:
    """Return the pairs whose spheres collide in some configurations, but whose shapes in none.

    Args:
        checker: of all joints of the robot.
        pairs: pairs of links that are checked.
        Q: random configurations, shape (m, n) [rad or m].
    """
    robot = checker.robot
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    X = dict(
        zip(kinematics.frame_names, np.swapaxes(kinematics.frames_batch(Q), 0, 1), strict=True)
    )
    bodies = {body.name: body for body in link_bodies(robot)}
    touching: dict[int, set[tuple[str, str]]] = {}
    found = []
    for pair in pairs:
        a, b = (bodies[name] for name in pair)
        distance = sphere_distances(a, b, X[a.link], X[b.link])
        if (distance < 0.0).mean() < OFTEN:
            continue
        deepest = np.argsort(distance)[: (distance < 0.0).sum()]
        rows = deepest[np.unique(np.linspace(0, len(deepest) - 1, _PAIRS_LOOKED_AT).astype(int))]
        for row in rows.tolist():
            if row not in touching:
                touching[row] = checker.exact.touching(Q[row])
            if pair in touching[row] or pair[::-1] in touching[row]:
                break
        else:
            found.append(pair)
    return found

# SPDX-License-Identifier: Apache-2.0
"""From a URDF to a complete robot folder.

RMPflow settings of a new robot: the Panda's in proportion, and balls kept off the base;
geometry of a robot's links, and spheres that cover it.
"""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.reactive.tuning import settings_scale, starting_settings
from motion_nodes.core.robot.files.rmpflow_file import RMPFLOW_FILE, rmpflow_text
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import ROBOT_FILE, load_robot
from motion_nodes.core.robot.rmpflow_settings import BodyCapsule, BodyController, RmpflowSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_builder import assemble
from motion_nodes.core.robot.robot_yaml import RobotDescription
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.robot.yaml_schema import decode, yaml_text
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.core.scene.robot_spheres import rigid_links
from motion_nodes.core.scene.sphere_set import SPHERES_FILE, Coverage, SphereSet
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.robot_setup.drives import (
    drive_block,
    motion_limits,
    moved_masses,
    sufficient_efforts,
)
from motion_nodes.extras.robot_setup.folder_files import sort_out, target_folder, write_folder
from motion_nodes.extras.robot_setup.groups import GroupGuess, Groups, guess_groups
from motion_nodes.extras.robot_setup.legs import GivenBase, add_both_arms, guess_kind, standing
from motion_nodes.extras.robot_setup.named_states import (
    first_home,
    held_home,
    nearer_home,
    ready_state,
)
from motion_nodes.extras.robot_setup.notes import Ask, Notes, listed, take_guess
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.extras.robot_setup.readme import (
    PICTURE_FILE,
    collision_sections,
    report,
    robot_picture,
)
from motion_nodes.extras.robot_setup.robot_source import RobotSource, read_source, search_from
from motion_nodes.extras.robot_setup.robot_yaml_text import (
    base_frame,
    checked_name,
    named_states,
    robot_data,
)
from motion_nodes.extras.robot_setup.self_collisions import (
    SelfCollisions,
    add_excess_pairs,
    find_self_collisions,
    geometry_touches,
    random_configurations,
)
from motion_nodes.extras.robot_setup.urdf_repair import (
    invert_axes,
    repair,
    repair_friction,
    set_limits,
)
from motion_nodes.extras.robot_setup.wheeled_base import floor_contact, guess_base
from motion_nodes.extras.robot_setup.wheels import (
    find_wheels,
    link_poses,
    mecanum_evidence,
    wheels_as_seen,
)
from motion_nodes.typing import Array

Progress = Callable[[str], None]
_MOST_STATED, _STATED_MARGIN = 100, 0.002
"""Max number of spheres of a link's own geometry that are used, and what is added to their radii,
because edges are checked in steps [m]."""
_LICENCE = "SPDX-License-Identifier: Apache-2.0\n"
_FREE_TRIES = 10_000
_FEW_FREE, _FREE_EXACT = 0.2, 200
"""Share of collision-free configurations below which users are warned, and number of
configurations that are then checked by the exact shapes."""


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
    numbers = {name: _round(value) for name, value in settings.parameters().items()}
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
    ends = [(_round(x), _round(y), _round(z)) for x, y, z in (foot, head)]
    return BodyCapsule("base_stem", ends[0], ends[1], _round(width))


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
        found.append(BodyController(frame, _round(radius)))
    return tuple(found)


def _round(value: float) -> float:
    return float(f"{value:.3g}") + 0.0


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
    spheres = SphereSet()
    coverage: dict[str, Coverage] = {}
    accuracies = _accuracies(geometries, given)
    first: dict[bytes, str] = {}  # first of identical links, such as wheels and fingers
    for k, (link, geometry) in enumerate(geometries.items()):
        progress(f"fitting spheres to {link} ({k + 1} of {len(geometries)})")
        like = first.setdefault(geometry.corners.tobytes(), link)
        if like != link:
            spheres = spheres.with_link(link, spheres.of(like))
            coverage[link] = coverage[like]
            continue
        if geometry.balls is not None and len(geometry.balls) <= _MOST_STATED:
            larger = np.add(geometry.balls, (0.0, 0.0, 0.0, _STATED_MARGIN))
            spheres = spheres.with_link(link, larger)
        else:
            spheres = spheres.generate(link, geometry, accuracy=accuracies[link])
        coverage[link] = spheres.coverage(link, geometry)
    return spheres, coverage


@dataclass(frozen=True)
class NewRobot:
    """Result of the creation of a robot, with notes."""

    directory: Path
    robot: Robot
    findings: Notes
    coverage: Mapping[str, Coverage]
    """Coverage of each link's geometry by its spheres."""
    self_collisions: SelfCollisions
    free_share: float
    """Fraction of random configurations without self-collision, 0 to 1."""
    kept: Path | None
    """New path of the previous folder."""


def new_robot(
    urdf: str | Path,
    *,
    name: str | None = None,
    output: str | Path | None = None,
    package_paths: Sequence[str | Path] = (),
    arguments: Mapping[str, str] | None = None,
    spheres_accuracy: float | None = None,
    allow_missing_meshes: bool = False,
    force: bool = False,
    seed: int = 0,
    unique_name: bool = True,
    picture: bool = True,
    ask: Ask = take_guess,
    progress: Progress | None = None,
) -> NewRobot:
    """Create a robot's folder from a URDF, xacro or MJCF, atomically.

    Args:
        urdf: URDF, xacro or MJCF file.
        name: name of the robot; default: the name in the URDF.
        output: the folder to create; default: the robot's name in the current folder.
        package_paths: packages, or folders of packages, for ``package://`` and ``$(find ...)``.
        arguments: xacro arguments by name.
        spheres_accuracy: max excess of spheres beyond the geometry [m]; default: depends on each
            link's width, 6 to 40 mm.
        allow_missing_meshes: whether links with missing collision meshes are left unchecked.
        force: whether an existing folder may be moved aside.
        seed: seed of all random numbers.
        unique_name: whether the name of a robot on the search path is rejected.
        picture: whether a picture of the robot and its spheres is drawn.
        ask: answers questions with several possible answers; default: the most likely answer.
        progress: called with the name of each step.

    Raises:
        InvalidDescription: the URDF cannot be used; names file, line and remedy.
        InvalidConfig: the folder or the name exists, or an option is invalid.
    """
    if spheres_accuracy is not None and not 0.0 < spheres_accuracy < 10.0:
        raise InvalidConfig(
            f"the accuracy of spheres is {spheres_accuracy} m; it must be above 0.",
            field="spheres_accuracy",
        )
    findings = Notes(ask)
    with tempfile.TemporaryDirectory() as meshes:
        source = read_source(urdf, package_paths, arguments, findings, Path(meshes))
        robot_name = checked_name(name, source.root.get("name") or source.file.stem)
        target = target_folder(output, robot_name, force, unique_name=unique_name)
        report = progress or (lambda text: None)
        making = _Making(source, robot_name, target, findings, report)
        making.read(package_paths, allow_missing_meshes=allow_missing_meshes)
        making.find_groups(np.random.default_rng(seed))
        making.describe(spheres_accuracy)
        making.choose_states(seed)
        return making.write(picture=picture)


def find_groups(urdf: str | Path, package_paths: Sequence[str | Path] = ()) -> tuple[Groups, str]:
    """Return groups and kind of a robot as :func:`new_robot` guesses them, without a folder.

    Args:
        urdf: URDF, xacro or MJCF file.
        package_paths: as of :func:`new_robot`.

    Raises:
        InvalidDescription: as :func:`new_robot`.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = read_source(urdf, package_paths, None, findings := Notes(), Path(folder))
        making = _Making(source, "robot", Path(folder), findings, lambda text: None)
        making.read(package_paths, allow_missing_meshes=False)
        return making.find_groups(np.random.default_rng(0))


class _Making:
    """Steps of the creation of a robot's folder from its file."""

    def __init__(
        self,
        source: RobotSource,
        name: str,
        target: Path,
        findings: Notes,
        report: Progress,
    ) -> None:
        self._source, self._name, self._target = source, name, target
        self._findings, self._report = findings, report

    def read(self, package_paths: Sequence[str | Path], *, allow_missing_meshes: bool) -> None:
        """Repair the URDF, and read it with its meshes."""
        root, file, findings = self._source.root, self._source.file, self._findings
        self._report("reading the URDF")
        repaired = repair(root, file, findings)
        mjcf = self._source.mjcf
        self._floating = repaired.floating or (mjcf is not None and mjcf.floating)
        self._unstated, self._weak = repaired.unstated_velocity, repaired.unstated_effort
        self._search = search_from(file, package_paths)
        self._report("reading meshes")
        sort_out(root, self._search, findings, allow_missing=allow_missing_meshes, file=file)
        self._tree = _tree(root, file)
        if not self._tree.joint_names:
            raise InvalidDescription(
                f"{file}: no joint of this robot moves; there is nothing to control."
            )
        self._geometries = link_geometries(self._tree, self._search, findings)
        # The physics of an MJCF is kept unchanged.
        if mjcf is None:
            if add_missing_collisions(root, self._tree, self._geometries, findings):
                self._tree = _tree(root, file)
            self._round_wheels()

    def _round_wheels(self) -> None:
        """Use the visual geometry of wheels whose collision geometry is not round."""
        tree, root = self._tree, self._source.root
        seen = wheels_as_seen(tree, self._geometries, self._search, base_frame(tree))
        if seen:
            collide_as_seen(root, seen)
            self._tree = _tree(root, self._source.file)
            self._geometries |= seen
            text = f"{listed(list(seen))}: the visual geometry; the other one is not round"
            self._findings.add("guessed", "collision geometry", text)

    def find_groups(self, rng: np.random.Generator) -> tuple[Groups, str]:
        """Find base, groups and legs; return groups and kind of the robot."""
        findings, mjcf = self._findings, self._source.mjcf
        self._report("finding wheels and chains")
        frame = base_frame(self._tree)
        wheels = find_wheels(self._tree, self._geometries, frame)
        root, file = self._source.root, self._source.file
        signs = mecanum_evidence(root, self._tree, wheels, self._search.find, file.name)
        base = guess_base(wheels, self._tree, findings, frame, self._unstated, signs)
        if base.turned:
            invert_axes(root, base.turned, findings)
        if base.wheel_velocity is not None:
            set_limits(root, "velocity", dict.fromkeys(base.driven, base.wheel_velocity))
            for joint in root.findall("joint"):
                if joint.get("name") in self._weak.intersection(base.driven):
                    repair_friction(joint, file, findings, at_speed=True)
        moved = moved_masses(self._tree, self._geometries, findings, rng)
        weak = self._weak - set(base.driven)
        efforts = sufficient_efforts(self._tree, self._geometries, moved.load, weak, findings)
        set_limits(root, "effort", efforts)
        if base.turned or base.wheel_velocity is not None or efforts:
            self._tree = _tree(root, file)
        tree = self._tree
        if mjcf is not None:
            base.passive += tuple(n for n in mjcf.passive if n not in base.passive)
        self._base, self._rng = base, rng
        self._left_out = {*base.driven, *base.steering, *base.passive}
        self._groups = guess_groups(tree, self._left_out, findings, frame)
        # An MJCF, and a link "world", state whether the base is fixed.
        stated_base = self._floating or mjcf is not None or tree.root == "world"
        guess = GivenBase(base.kind, self._floating, stated_base, has_wheels=bool(wheels))
        base.kind, self._legs = guess_kind(
            tree, self._geometries, self._groups, frame, guess, findings
        )
        legs = [leg.group.name for leg in self._legs]
        add_both_arms(tree, self._groups, legs, findings)
        self._frame, self._moved = frame, moved
        return self._groups, base.kind

    def describe(self, accuracy: float | None) -> None:
        """Find spheres and drives."""
        findings, mjcf, base, tree = self._findings, self._source.mjcf, self._base, self._tree
        self._spheres, self._coverage = fit_spheres(self._geometries, accuracy, self._report)
        self._report("working out drives")
        limits = motion_limits(tree, findings)
        stated = {} if mjcf is None else mjcf.drives
        drives = drive_block(tree, base, self._groups, self._moved, stated, findings)
        data = robot_data(
            self._name,
            tree,
            base,
            self._groups,
            limits,
            drives,
            has_spheres=bool(self._spheres.links),
        )
        contact = floor_contact(base, tree, self._geometries, self._frame, findings)
        if mjcf is not None:
            # Friction from the file takes precedence over estimates.
            stated_contact = mjcf.simulation.get("contact", {})
            contact = {**contact, **mjcf.simulation}
            contact["contact"] = {**contact.get("contact", {}), **stated_contact}
        if contact := {key: value for key, value in contact.items() if value}:
            data["simulation"] = contact
        self._data = data

    def choose_states(self, seed: int) -> None:
        """Find self-collisions and the states ``home`` and ``ready``."""
        self._report("trying configurations for self-collisions")
        data, mjcf = self._data, self._source.mjcf
        robot = _assembled(data, self._tree, self._spheres, self._target)
        desired = first_home(robot)
        if mjcf is not None:
            given = [
                mjcf.home.get(name, q) for name, q in zip(robot.joint_names, desired, strict=True)
            ]
            desired = robot.limits.clip(np.array(given))
        if self._legs and not (mjcf is not None and mjcf.home):
            desired = standing(robot, self._legs, desired, seed)
        robot = self._with_home(robot, desired)
        grippers = [group.joints for group in self._groups.grippers]
        self._found = find_self_collisions(
            robot,
            self._geometries,
            still=self._left_out,
            grippers=grippers,
            keep_home=bool(self._legs),
            seed=seed,
        )
        if self._spheres.links:
            data["collision"]["ignore"] = [list(pair) for pair in self._found.ignored]
            exact_only = [list(pair) for pair in self._found.exact_only]
            data["collision"].update({"ignore_spheres": exact_only} if exact_only else {})
        robot = self._with_home(robot, self._found.home)
        checker = CollisionChecker(robot)
        robot = self._with_home(robot, nearer_home(checker.is_free, robot.home, desired))
        tried = random_configurations(robot, _FREE_TRIES, self._rng, self._left_out)
        if not self._legs and not (mjcf is not None and mjcf.home):
            robot = self._with_home(robot, held_home(robot, checker, tried))
        self._free = float(checker.are_free(tried).mean())
        self._ready: dict[str, float] = {}
        main = self._groups.main
        if main is not None and main.tip is not None:
            self._ready = ready_state(
                robot, main.joints, main.tip, checker, tried,
                lambda q: not geometry_touches(
                    robot, self._geometries, self._found.exact_only, q
                ),
            )  # fmt: skip
        data["named_states"] = named_states(robot, self._groups, robot.home, self._ready)
        self._robot = robot

    def _excess_pairs(self, robot: Robot) -> dict[str, str | bytes]:
        """Return robot.yaml without sphere checks of pairs that only collide by their spheres.

        Args:
            robot: loaded from its folder, with its meshes.
        """
        found = self._found
        if not add_excess_pairs(robot, found, self._left_out, self._rng, self._findings):
            return {}
        self._data["collision"]["ignore_spheres"] = [list(pair) for pair in found.exact_only]
        return {ROBOT_FILE: self._robot_text()}

    def _check_free_share(self, robot: Robot) -> None:
        """Warn if few random configurations are collision-free, and say whether spheres are why.

        Args:
            robot: loaded from its folder, with its meshes.
        """
        Q = random_configurations(robot, _FREE_TRIES, self._rng, self._left_out)
        current = _assembled(self._data, self._tree, self._spheres, self._target)
        self._free = float(CollisionChecker(current).are_free(Q).mean())
        if self._free >= _FEW_FREE or not self._spheres.links:
            return
        exact = CollisionChecker(robot).exact
        share = float(np.mean([exact.is_free(q) for q in Q[:_FREE_EXACT]]))
        why = "the links themselves collide: check the joint limits and collision.ignore"
        if share > 2.0 * self._free:
            why = f"{share:.0%} by the exact shapes: the spheres are too large; --spheres-accuracy"
        text = f"only {self._free:.0%} of random configurations are collision-free; {why}"
        self._findings.add("guessed", "collision spheres", text, "low")

    def _robot_text(self) -> str:
        text = (
            f"{self._name}: made from {self._source.file.name}; README.md lists what was guessed."
        )
        return yaml_text(self._data, _LICENCE + text)

    def _with_home(self, robot: Robot, home: Array) -> Robot:
        """Return the preliminary robot with a new home configuration, shape (n,)."""
        self._data["named_states"]["home"] = named_states(robot, Groups(), home, {})["home"]
        return _assembled(self._data, self._tree, self._spheres, self._target)

    def write(self, *, picture: bool) -> NewRobot:
        """Write the folder, with a picture if there is something to show."""
        file, name, findings = self._source.file, self._name, self._findings
        texts: dict[str, str | bytes] = {ROBOT_FILE: self._robot_text()}
        links = self._spheres.links
        if links:
            texts[SPHERES_FILE] = yaml_text(
                {link: (s.round(6) + 0.0).tolist() for link, s in links.items()},
                f"{_LICENCE}Collision spheres, fitted to the geometry: link -> [x, y, z, radius] "
                "[m].",
            )
        main = self._groups.main
        if self._ready and main is not None:
            texts[RMPFLOW_FILE] = rmpflow_text(
                rmpflow_settings(self._robot, main, links, findings),
                f"{_LICENCE}RMPflow: docs/rmpflow.md describes the parameters.",
            )
        if links and picture:
            self._report("drawing a picture")
            X_BL = link_poses(self._tree, self._tree.root, self._robot.home)
            texts[PICTURE_FILE] = robot_picture(self._geometries, links, X_BL)
        self._report("writing the folder")

        def last(robot: Robot) -> dict[str, str | bytes]:
            changed = self._excess_pairs(robot)
            self._check_free_share(robot)
            checks = collision_sections(self._coverage, self._found, self._free)
            text = report(name, file, self._robot, findings, texts, checks)
            return {**changed, "README.md": text}

        kept = write_folder(self._target, texts, self._source.root, self._search, last)
        made = load_robot(self._target)
        return NewRobot(self._target, made, findings, self._coverage, self._found, self._free, kept)


def _tree(root: Any, file: Path) -> KinematicTree:
    return read_urdf(etree.tostring(root, encoding="unicode"), str(file))


def _assembled(
    data: Mapping[str, Any], tree: KinematicTree, spheres: SphereSet, target: Path
) -> Robot:
    """Return the preliminary robot, without writing files."""
    file = target / ROBOT_FILE
    description = decode(dict(data), RobotDescription, str(file))
    by_link = {
        link: tuple((float(x), float(y), float(z), float(r)) for x, y, z, r in items)
        for link, items in spheres.links.items()
    }
    return assemble(file, description, tree, "", by_link)

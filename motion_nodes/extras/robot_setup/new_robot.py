# SPDX-License-Identifier: Apache-2.0
"""From a URDF to a complete robot folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.robot.loader import ROBOT_FILE, load_robot
from motion_nodes.core.robot.rmpflow_settings import RMPFLOW_FILE, rmpflow_text
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.robot.yaml_schema import yaml_text
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.sphere_set import SPHERES_FILE, Coverage
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.robot_setup.drives import (
    drive_block,
    motion_limits,
    moved_masses,
    sufficient_efforts,
)
from motion_nodes.extras.robot_setup.folder_files import sort_out, target_folder, write_folder
from motion_nodes.extras.robot_setup.groups import Groups, guess_groups
from motion_nodes.extras.robot_setup.legs import GivenBase, add_both_arms, guess_kind, standing
from motion_nodes.extras.robot_setup.link_shapes import (
    JointRoles,
    SelfCollisions,
    add_excess_pairs,
    add_missed_pairs,
    add_missing_collisions,
    collide_as_seen,
    find_self_collisions,
    fit_spheres,
    geometry_touches,
    link_geometries,
    random_configurations,
)
from motion_nodes.extras.robot_setup.notes import Ask, Notes, Progress, listed, take_guess
from motion_nodes.extras.robot_setup.readme import (
    PICTURE_FILE,
    collision_sections,
    report,
    robot_picture,
)
from motion_nodes.extras.robot_setup.robot_source import RobotSource, read_source, search_from
from motion_nodes.extras.robot_setup.robot_yaml_text import (
    FIXED_FRAMES,
    RobotGuess,
    base_frame,
    checked_name,
    first_home,
    held_home,
    named_states,
    nearer_home,
    preliminary_robot,
    ready_state,
    rmpflow_settings,
    robot_data,
)
from motion_nodes.extras.robot_setup.urdf_repair import (
    add_axle,
    add_masses,
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
from motion_nodes.extras.robot_setup.work_aside import begin_aside, compile_poses, decompose_meshes
from motion_nodes.kernels import sphere_fit
from motion_nodes.typing import Array

_LICENCE = "SPDX-License-Identifier: Apache-2.0\n"
_OFF_AXLE = 0.005
"""[m] Distance of the base frame from the axle beyond which the axle gets a frame of its own."""
_LOOKED_AT = 40  # configurations in which pairs of links are looked at for contacts
_FREE_TRIES = 10_000
_FEW_FREE, _FREE_EXACT = 0.2, 200
"""Share of collision-free configurations below which users are warned, and number of
configurations that are then checked by the exact shapes."""


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
    aside: Callable[[Robot], object] | None = None,
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
        aside: called with the robot in another process, where possible, while it is checked.

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
        making.decompose_aside(Path(meshes) / "decomposed")
        making.find_groups(np.random.default_rng(seed))
        making.describe(spheres_accuracy)
        making.choose_states(seed)
        return making.write(aside, picture=picture)


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
        self, source: RobotSource, name: str, target: Path, findings: Notes, report: Progress
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

    def decompose_aside(self, folder: Path) -> None:
        """Begin to compute the convex parts of meshes, which the last checks need."""
        begin_aside(partial(decompose_meshes, self._source.root, self._search, folder))

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
            weak = self._weak.intersection(base.driven)
            driven = [joint for joint in root.findall("joint") if joint.get("name") in weak]
            repair_friction(driven, file, findings, at_speed=weak)
        free = bool(base.block) and self._tree.root not in FIXED_FRAMES
        if free and mjcf is None and add_masses(root, self._tree, self._geometries, findings):
            self._tree = _tree(root, file)
        moved = moved_masses(self._tree, self._geometries, findings, rng)
        weak = self._weak - set(base.driven)
        efforts = sufficient_efforts(self._tree, self._geometries, moved.load, weak, findings)
        set_limits(root, "effort", efforts)
        self._axle = ""
        if free and mjcf is None and abs(base.axle_x) > _OFF_AXLE:
            self._axle = add_axle(root, self._tree, frame, base.axle_x, findings)
        if base.turned or base.wheel_velocity is not None or efforts or self._axle:
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
        sphere_fit.load()
        self._poses = compile_poses(tree, base_frame(tree))
        self._spheres, self._coverage = fit_spheres(self._geometries, accuracy, self._report)
        self._report("working out drives")
        limits = motion_limits(tree, findings)
        stated = {} if mjcf is None else mjcf.drives
        drives = drive_block(tree, base, self._groups, self._moved, stated, findings)
        guess = RobotGuess(base, self._axle or self._frame, self._groups, limits, drives)
        data = robot_data(self._name, tree, guess, has_spheres=bool(self._spheres.links))
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
        robot = preliminary_robot(data, self._tree, self._spheres.links, self._target)
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
            roles=JointRoles(self._left_out, grippers),
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
            apart = self._apart(robot, tried)
            robot = self._with_home(robot, held_home(robot, checker, tried, apart))
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

    def _apart(self, robot: Robot, tried: Array) -> Callable[[Array], bool]:
        """Return the condition that links whose spheres often overlap do not touch.

        Pairs that touch at home are not checked anywhere; those that touch in most configurations
        overlap by design.
        """
        touches = partial(geometry_touches, robot, self._geometries)
        pairs = self._found.of("often")
        if not touches(pairs, robot.home):
            return lambda q: True
        some = tried[:_LOOKED_AT]
        seldom = [pair for pair in pairs if np.mean([touches([pair], q) for q in some]) < 0.5]
        return lambda q: not touches(seldom, q)

    def _exact_pairs(self, robot: Robot) -> dict[str, str | bytes]:
        """Return robot.yaml with the pairs that are checked by their exact shapes alone."""
        found = self._found
        given = robot, found, self._left_out, self._rng, self._findings
        if not self._spheres.links or not (add_missed_pairs(*given) | add_excess_pairs(*given)):
            return {}
        self._data["collision"]["ignore"] = [list(pair) for pair in found.ignored]
        self._data["collision"]["ignore_spheres"] = [list(pair) for pair in found.exact_only]
        return {ROBOT_FILE: self._robot_text()}

    def _check_free_share(self, robot: Robot) -> None:
        """Warn if few random configurations are collision-free, and say whether spheres are why."""
        Q = random_configurations(robot, _FREE_TRIES, self._rng, self._left_out)
        current = preliminary_robot(self._data, self._tree, self._spheres.links, self._target)
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
        return preliminary_robot(self._data, self._tree, self._spheres.links, self._target)

    def write(self, aside: Callable[[Robot], object] | None, *, picture: bool) -> NewRobot:
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
            if aside is not None:
                self._poses.join()
                begin_aside(partial(aside, robot))
            changed = self._exact_pairs(robot)
            self._check_free_share(robot)
            checks = collision_sections(self._coverage, self._found, self._free)
            text = report(name, file, self._robot, findings, texts, checks)
            return {**changed, "README.md": text}

        kept = write_folder(self._target, texts, self._source.root, self._search, last)
        made = load_robot(self._target)
        return NewRobot(self._target, made, findings, self._coverage, self._found, self._free, kept)


def _tree(root: Any, file: Path) -> KinematicTree:
    return read_urdf(etree.tostring(root, encoding="unicode"), str(file))

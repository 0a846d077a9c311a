# SPDX-License-Identifier: Apache-2.0
"""From a URDF to a complete robot folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.errors import InvalidConfig, InvalidDescription, MotionError
from motion_nodes.model.files.rmpflow_file import RMPFLOW_FILE
from motion_nodes.model.files.yaml_file import yaml_text
from motion_nodes.model.loader import ROBOT_FILE, available_robots, load_robot
from motion_nodes.model.robot import Robot
from motion_nodes.model.robot_builder import assemble
from motion_nodes.model.robot_yaml import RobotDescription
from motion_nodes.model.tree import KinematicTree
from motion_nodes.model.urdf.urdf import read_urdf
from motion_nodes.model.yaml_schema import decode
from motion_nodes.robot_setup import drives as drive_guess
from motion_nodes.robot_setup.floor_contact import floor_contact
from motion_nodes.robot_setup.groups import Groups, guess_groups
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.mesh_copies import copy_meshes, sort_out
from motion_nodes.robot_setup.named_states import first_home, nearer_home, ready_state
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.robot_setup.readme import report
from motion_nodes.robot_setup.rmpflow_defaults import rmpflow_settings
from motion_nodes.robot_setup.robot_yaml_text import (
    URDF_FILE,
    base_frame,
    checked_name,
    named_states,
    robot_data,
)
from motion_nodes.robot_setup.self_collisions import (
    SelfCollisions,
    find_self_collisions,
    random_configurations,
)
from motion_nodes.robot_setup.sphere_measure import Coverage
from motion_nodes.robot_setup.sphere_set import SPHERES_FILE, SphereSet
from motion_nodes.robot_setup.urdf_repair import repair
from motion_nodes.robot_setup.urdf_source import PackageSearch, read_source
from motion_nodes.robot_setup.wheels import BaseGuess, find_wheels, guess_base
from motion_nodes.scene.checker import CollisionChecker

_LICENCE = "SPDX-License-Identifier: Apache-2.0\n"
_FREE_TRIES = 10_000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class NewRobot:
    """A new robot, and notes about it."""

    directory: Path
    robot: Robot
    findings: Notes
    coverage: Mapping[str, Coverage]
    """Coverage of each link's geometry by its spheres."""
    self_collisions: SelfCollisions
    free_share: float
    """Fraction of random configurations without self-collision, 0 to 1."""
    kept: Path | None
    """New path of the folder that was there before."""


def new_robot(
    urdf: str | Path,
    *,
    name: str | None = None,
    output: str | Path | None = None,
    package_paths: Sequence[str | Path] = (),
    spheres_accuracy: float | None = None,
    allow_missing_meshes: bool = False,
    force: bool = False,
    seed: int = 0,
    unique_name: bool = True,
    progress: Progress | None = None,
) -> NewRobot:
    """Create a robot's folder from a URDF, atomically.

    Args:
        urdf: file, or xacro if the program xacro is installed.
        name: of the robot; default: the one in the URDF.
        output: the folder to create; default: the robot's name in the current folder.
        package_paths: packages, or folders of packages, for ``package://``.
        spheres_accuracy: max excess of spheres beyond the geometry [m]; default: depends on each
            link's width, 6 to 40 mm.
        allow_missing_meshes: whether links with missing collision meshes are left unchecked.
        force: whether an existing folder may be moved aside.
        seed: of all random numbers.
        unique_name: whether the name of a robot on the search path is rejected.
        progress: called with the name of each step.

    Raises:
        InvalidDescription: the URDF cannot be used; names file, line and remedy.
        InvalidConfig: the folder or the name exists, or an option is invalid.
    """
    say = progress or (lambda text: None)
    findings = Notes()
    if spheres_accuracy is not None and not 0.0 < spheres_accuracy < 10.0:
        raise InvalidConfig(f"the accuracy of spheres is {spheres_accuracy} m; it must be above 0.")
    root, file = read_source(urdf, package_paths)
    robot_name = checked_name(name, root.get("name") or file.stem)
    target = _target(output, robot_name, force, unique_name=unique_name)
    say("reading the URDF")
    repair(root, file, findings)
    search = PackageSearch(file.parent, tuple(Path(p).expanduser() for p in package_paths))
    say("reading meshes")
    sort_out(root, search, findings, allow_missing=allow_missing_meshes, file=file)
    tree = _tree(root, file)
    geometries = _geometries(tree, search, findings)
    if not tree.joint_names:
        raise InvalidDescription(
            f"{file}: no joint of this robot moves; there is nothing to control."
        )
    say("finding wheels and chains")
    wheels = find_wheels(tree, geometries, base_frame(tree))
    base = guess_base(wheels, tree, findings, base_frame(tree))
    if base.turned:
        _turn_round(root, base.turned, findings)
        tree = _tree(root, file)
    left_out = {*base.driven, *base.steering, *base.passive}
    groups = guess_groups(tree, left_out, findings, base_frame(tree))
    spheres, coverage = _fit(geometries, spheres_accuracy, say)
    rng = np.random.default_rng(seed)
    say("working out drives")
    limits = drive_guess.motion_limits(tree, findings)
    drives = _drives(tree, base, groups, geometries, findings, rng)
    data = robot_data(
        robot_name, tree, base, groups, limits, drives, has_spheres=bool(spheres.links)
    )
    contact = floor_contact(base, tree, geometries, base_frame(tree), findings)
    if contact:
        data["simulation"] = contact
    say("trying configurations for self-collisions")
    robot = _assembled(data, tree, spheres, target)
    data["named_states"]["home"] = named_states(robot, Groups(), first_home(robot), {})["home"]
    robot = _assembled(data, tree, spheres, target)
    grippers = [group.joints for group in groups.grippers]
    found = find_self_collisions(robot, geometries, still=left_out, grippers=grippers, seed=seed)
    if spheres.links:
        data["collision"]["ignore"] = [list(pair) for pair in found.ignored]
    data["named_states"]["home"] = named_states(robot, Groups(), found.home, {})["home"]
    robot = _assembled(data, tree, spheres, target)
    checker = CollisionChecker(robot)
    home = nearer_home(checker, robot.home, first_home(robot))
    data["named_states"]["home"] = named_states(robot, Groups(), home, {})["home"]
    robot = _assembled(data, tree, spheres, target)
    tried = random_configurations(robot, _FREE_TRIES, rng, left_out)
    free = float(checker.are_free(tried).mean())
    ready = {}
    if groups.main is not None and groups.main.tip is not None:
        ready = ready_state(robot, groups.main.joints, groups.main.tip, checker, tried)
    data["named_states"] = named_states(robot, groups, robot.home, ready)
    texts = {
        ROBOT_FILE: yaml_text(
            data,
            f"{_LICENCE}{robot_name}: made from {file.name}; README.md lists what was guessed.",
        )
    }
    if spheres.links:
        texts[SPHERES_FILE] = yaml_text(
            {link: (s.round(6) + 0.0).tolist() for link, s in spheres.links.items()},
            f"{_LICENCE}Collision spheres, fitted to the geometry: link -> [x, y, z, radius] [m].",
        )
    if ready and groups.main is not None:
        settings = rmpflow_settings(
            tree, groups.main, robot.limits.select(groups.main.joints), spheres.links, findings
        )
        texts[RMPFLOW_FILE] = yaml_text(
            settings, f"{_LICENCE}RMPflow: docs/rmpflow.md tells what each number does."
        )
    texts["README.md"] = report(robot_name, file, robot, findings, coverage, found, free)
    say("writing the folder")
    kept = _write(target, texts, root, search)
    return NewRobot(target, load_robot(target), findings, coverage, found, free, kept)


def _target(output: str | Path | None, name: str, force: bool, *, unique_name: bool) -> Path:
    """Return the folder to create, after checking that it can be created."""
    target = Path(output).expanduser().absolute() if output is not None else Path.cwd() / name
    if target.exists() and not force:
        raise InvalidConfig(
            f"{target} exists; choose another place with --output, or move it aside with --force."
        )
    known = available_robots() if unique_name else {}
    if name in known and known[name].parent != target:
        raise InvalidConfig(
            f"a robot called '{name}' exists: {known[name].parent}. Give this one another name "
            "with --name."
        )
    if not target.parent.is_dir():
        raise InvalidConfig(
            f"{target.parent} is no folder; make it first, or choose another --output."
        )
    _draft(target).rmdir()
    return target


def _draft(target: Path) -> Path:
    """Create a temporary folder next to the final one, which also checks that it is writable."""
    try:
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InvalidConfig(
            f"{target.parent} cannot be written to ({error.strerror or error}); choose another "
            "--output."
        ) from None


def _tree(root: Any, file: Path) -> KinematicTree:
    return read_urdf(etree.tostring(root, encoding="unicode"), str(file))


def _geometries(
    tree: KinematicTree, search: PackageSearch, findings: Notes
) -> dict[str, LinkGeometry]:
    """Return the geometry of each link with shapes."""
    links = tree.links.values()
    chosen = {link.name: link.collisions for link in links if link.collisions}
    if not chosen:
        chosen = {link.name: link.visuals for link in links if link.visuals}
        if chosen:
            text = "fitted to what is seen: no link has collision geometry"
            findings.add("guessed", "spheres.yaml", text)
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


def _accuracies(geometries: Mapping[str, LinkGeometry], given: float | None) -> dict[str, float]:
    """Return the accuracy of each link's spheres [m].

    A sixth of its width, 6 to 40 mm; limited for small parts if one value is given for all.
    """
    chosen = {}
    for link, geometry in geometries.items():
        extents = np.sort(np.ptp(geometry.bounds, axis=0))
        if given is None:
            chosen[link] = float(np.clip(extents[1] / 6.0, 0.006, 0.04))
        else:
            chosen[link] = min(given, max(0.2 * float(extents[2]), 0.5 * given))
    return chosen


def _fit(
    geometries: Mapping[str, LinkGeometry], given: float | None, say: Progress
) -> tuple[SphereSet, dict[str, Coverage]]:
    spheres = SphereSet()
    coverage: dict[str, Coverage] = {}
    accuracies = _accuracies(geometries, given)
    first: dict[bytes, str] = {}  # of identical links, such as wheels and fingers
    for k, (link, geometry) in enumerate(geometries.items()):
        say(f"fitting spheres to {link} ({k + 1} of {len(geometries)})")
        like = first.setdefault(geometry.corners.tobytes(), link)
        if like != link:
            spheres = spheres.with_link(link, spheres.of(like))
            coverage[link] = coverage[like]
            continue
        spheres = spheres.generate(link, geometry, accuracy=accuracies[link])
        coverage[link] = spheres.coverage(link, geometry)
    return spheres, coverage


def _drives(
    tree: KinematicTree,
    base: BaseGuess,
    groups: Groups,
    geometries: Mapping[str, LinkGeometry],
    findings: Notes,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    volumes = {link: geometry.volume for link, geometry in geometries.items()}
    masses = drive_guess.masses_of(tree, volumes, findings)
    lower = np.array([tree.joints[name].lower for name in tree.joint_names])
    upper = np.array([tree.joints[name].upper for name in tree.joint_names])
    bounded = np.isfinite(upper - lower)
    low, high = np.where(bounded, lower, -np.pi), np.where(bounded, upper, np.pi)
    Q = rng.uniform(low, high, (64, len(lower)))
    inertia, load = drive_guess.joint_inertias(tree, masses, Q)
    drive_guess.weak_joints(tree, load, findings)
    felt = dict(zip(tree.joint_names, inertia.tolist(), strict=True))
    radius = float(np.mean([wheel.radius for wheel in base.wheels])) if base.wheels else 0.0
    share = float(masses.sum()) * radius**2 / max(1, len(base.driven))
    for joint in base.steering:
        felt[joint] = max(felt[joint], share)
    together = [group.joints for group in groups.groups]
    if base.steering:
        together.append(base.steering)
    findings.add(
        "guessed", "drives", "gains of the simulation, from masses and shapes, not from data sheets"
    )
    wheel_inertia = max(share + max((felt[j] for j in base.driven), default=0.0), 1e-5)
    return drive_guess.drives(tree, together, felt, base.driven, wheel_inertia)


def _turn_round(root: Any, joints: Sequence[str], findings: Notes) -> None:
    """Invert axes of wheels, so that a positive velocity drives forward."""
    for joint in root.findall("joint"):
        if joint.get("name") not in joints:
            continue
        axis = joint.find("axis")
        numbers = [-float(word) + 0.0 for word in axis.get("xyz").split()]
        axis.set("xyz", " ".join(f"{number:g}" for number in numbers))
        limit = joint.find("limit")
        if limit is not None and "lower" in limit.attrib and "upper" in limit.attrib:
            lower, upper = float(limit.get("lower")), float(limit.get("upper"))
            limit.set("lower", repr(-upper))
            limit.set("upper", repr(-lower))
    findings.add(
        "changed",
        "joints",
        f"axes turned round, so that forward (or left) is positive: {listed(joints)}. A driver of "
        "the real robot has to turn its signs, too",
    )


def _assembled(
    data: Mapping[str, Any], tree: KinematicTree, spheres: SphereSet, target: Path
) -> Robot:
    """Return the robot as known so far, without writing files."""
    file = target / ROBOT_FILE
    description = decode(dict(data), RobotDescription, str(file))
    by_link = {
        link: tuple((float(x), float(y), float(z), float(r)) for x, y, z, r in items)
        for link, items in spheres.links.items()
    }
    return assemble(file, description, tree, "", by_link)


def _write(target: Path, texts: Mapping[str, str], root: Any, search: PackageSearch) -> Path | None:
    """Write a temporary folder, check that it loads, then rename it.

    Returns:
        New path of the folder that was there before.
    """
    draft = _draft(target)
    try:
        draft.chmod(0o755)
        copy_meshes(root, search, draft)
        etree.indent(root)
        urdf = etree.tostring(root, encoding="unicode")
        (draft / URDF_FILE).write_text(f'<?xml version="1.0"?>\n{urdf}\n', encoding="utf-8")
        for name, text in texts.items():
            (draft / name).write_text(text, encoding="utf-8")
        load_robot(draft)
        kept = None
        if target.exists():
            numbered = (target.with_name(f"{target.name}.old{n}") for n in range(1, 10**6))
            kept = next(path for path in numbered if not path.exists())
            target.rename(kept)
        draft.rename(target)
    except OSError as error:
        raise InvalidConfig(f"{target}: cannot be written: {error.strerror or error}.") from None
    except MotionError as error:
        raise type(error)(str(error).replace(str(draft), str(target))) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return kept

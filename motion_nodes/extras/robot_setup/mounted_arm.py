# SPDX-License-Identifier: Apache-2.0
"""A mobile manipulator from the folders of a wheeled base and an arm: one URDF, one robot.yaml.

Joints, limits, drives, states and spheres are those of the two robots; added are the fixed joint
between them, and ignored collisions of links that are always in contact.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.robot.loader import ROBOT_FILE, load_description, load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.robot.yaml_schema import read_yaml, yaml_text
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.sphere_set import SPHERES_FILE
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.extras.robot_setup.folder_files import target_folder, write_folder
from motion_nodes.extras.robot_setup.link_shapes import (
    JointRoles,
    find_self_collisions,
    link_geometries,
)
from motion_nodes.extras.robot_setup.notes import Notes, Progress
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.extras.robot_setup.robot_yaml_text import (
    URDF_FILE,
    checked_name,
    preliminary_robot,
)

MAX_OFFSET = 10.0
"""Max distance of the arm from the link that carries it, along each axis [m]."""
SAMPLES = 1500
"""Number of configurations sampled for self-collisions."""


@dataclass(frozen=True)
class ArmMount:
    """Mounting of an arm on a base."""

    xyz: tuple[float, float, float]
    """Position of the arm's root link in the parent link [m]."""
    rpy: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Roll, pitch and yaw of the arm's root link [rad]."""
    link: str | None = None
    """Parent link on the base; None: the base frame."""

    def __post_init__(self) -> None:
        numbers = (*self.xyz, *self.rpy)
        if len(numbers) != 6 or not all(map(math.isfinite, numbers)):
            raise InvalidConfig(
                f"the mount is {numbers}; six finite numbers are needed", field="at"
            )
        if max(map(abs, self.xyz)) > MAX_OFFSET:
            raise InvalidConfig(
                f"the mount is at {self.xyz} m; at most {MAX_OFFSET:g} m along each axis.",
                field="at",
            )


def mount_arm(
    base: str | Path,
    arm: str | Path,
    mount: ArmMount,
    *,
    name: str | None = None,
    output: str | Path | None = None,
    force: bool = False,
    unique_name: bool = True,
    progress: Progress | None = None,
) -> Robot:
    """Create the folder of a base that carries an arm, atomically.

    Args:
        base: name, folder or file of a robot with wheels.
        arm: name, folder or file of a robot without wheels.
        mount: mounting of the arm.
        name: name of the new robot; default: both names.
        output: the folder to create; default: the robot's name in the current folder.
        force: whether an existing folder may be moved aside.
        unique_name: whether the name of a robot on the search path is rejected.
        progress: called with the name of each step.

    Raises:
        InvalidConfig: names the option, or a name that both robots use; or the folder exists.
        RobotNotFound, InvalidDescription: as the loader.
    """
    report = progress or (lambda text: None)
    carrier, carried = load_description(base), load_description(arm)
    _check(carrier, carried, mount)
    robot_name = checked_name(name, f"{carrier.name}_{carried.name}")
    target = target_folder(output, robot_name, force, unique_name=unique_name)
    root = _urdf(robot_name, carrier, carried, mount)
    tree = read_urdf(etree.tostring(root, encoding="unicode"), str(target / URDF_FILE))
    search = PackageSearch(target)
    geometries = link_geometries(tree, search, Notes())
    data = _robot_yaml(robot_name, carrier, carried)
    # Links without spheres get covers of their collision shapes.
    spheres = {
        link: [list(sphere) for sphere in spheres]
        for robot in (carrier, carried)
        for link, spheres in robot.spheres.items()
    }
    report("trying configurations for self-collisions")
    robot = preliminary_robot(data, tree, spheres, target)
    fingers = [group.joints for group in robot.groups.values() if group.tip is None]
    found = find_self_collisions(
        robot, geometries, roles=JointRoles((*robot.base_joints, *robot.passive_joints), fingers),
        keep_home=True, samples=SAMPLES,
    )  # fmt: skip
    # Pairs without a collision in any sample stay checked: too few samples for rare collisions.
    for reason, field in (("always", "ignore"), ("spheres only", "ignore_spheres")):
        pairs = [pair for pair, why in found.ignored.items() if why == reason]
        data["collision"][field] += [
            list(pair) for pair in pairs if len({link in carried.tree.links for link in pair}) == 2
        ]
    robot = preliminary_robot(data, tree, spheres, target)
    if not CollisionChecker(robot).is_free(robot.home):
        raise InvalidConfig(
            f"at home '{carried.name}' touches '{carrier.name}'; mount it elsewhere (--at).",
            field="at",
        )
    files: dict[str, str | bytes] = {
        ROBOT_FILE: yaml_text(data, f"{carried.name} on {carrier.name}; see README.md."),
        SPHERES_FILE: yaml_text(spheres, "Collision spheres: link -> [x, y, z, radius] [m]."),
        "README.md": _readme(robot_name, carrier, carried, mount),
    }
    report("writing the folder")
    write_folder(target, files, root, search)
    return load_robot(target)


def _check(carrier: Robot, carried: Robot, mount: ArmMount) -> None:
    """Raise an error for robots that cannot be combined."""
    if carrier.base is None:
        raise InvalidConfig(f"'{carrier.name}' has no wheels; a base is needed.", field="base")
    if carried.kind != "arm":
        raise InvalidConfig(
            f"'{carried.name}' is of the kind {carried.kind}; an arm is needed.", field="arm"
        )
    if mount.link is not None and mount.link not in carrier.tree.links:
        raise InvalidConfig(
            f"'{carrier.name}' has no link '{mount.link}'."
            f"{did_you_mean(mount.link, tuple(carrier.tree.links))}",
            field="link",
        )
    for what, ours, theirs in (
        ("link", carrier.tree.links, carried.tree.links),
        ("joint", carrier.tree.joints, carried.tree.joints),
        ("group", carrier.groups, carried.groups),
    ):
        if shared := sorted(ours.keys() & theirs.keys()):
            raise InvalidConfig(
                f"'{carrier.name}' and '{carried.name}' both have a {what} '{shared[0]}'; rename "
                "one of them.",
                field=what,
            )


def _urdf(name: str, carrier: Robot, carried: Robot, mount: ArmMount) -> Any:
    """Return the element ``<robot>`` of both, with absolute names of meshes."""
    root = etree.Element("robot", name=name)
    for robot in (carrier, carried):
        search = PackageSearch(robot.directory)
        for element in etree.fromstring(robot.urdf.encode()):
            if not isinstance(element.tag, str):
                continue  # a comment
            part = copy.deepcopy(element)
            for material in part.iter("material"):
                if material.get("name"):  # both may use one name for different colours
                    material.set("name", f"{robot.name}_{material.get('name')}")
            for mesh in part.iter("mesh"):
                mesh.set("filename", str(search.find(mesh.get("filename")).resolve()))
            root.append(part)
    joint = etree.SubElement(root, "joint", name=f"{carried.name}_mount", type="fixed")
    etree.SubElement(joint, "parent", link=mount.link or carrier.base_frame)
    etree.SubElement(joint, "child", link=carried.tree.root)
    etree.SubElement(
        joint, "origin", xyz=" ".join(map(repr, mount.xyz)), rpy=" ".join(map(repr, mount.rpy))
    )
    return root


def _robot_yaml(name: str, carrier: Robot, carried: Robot) -> dict[str, Any]:
    """Return the fields of robot.yaml: those of both robots."""
    base, arm = (read_yaml(robot.directory / ROBOT_FILE) for robot in (carrier, carried))
    groups = copy.deepcopy(arm["groups"])
    for group in groups.values():
        # Tasks and planning use the frame of the combined robot.
        if group.get("base") == carried.base_frame:
            group["base"] = carrier.base_frame
    data: dict[str, Any] = {"format": 1, "name": name, "kind": carrier.kind, "urdf": URDF_FILE}
    data["frames"] = base["frames"] | {k: v for k, v in arm["frames"].items() if k == "tool"}
    data["base"] = base["base"]
    data["groups"] = groups | base.get("groups", {})
    data["limits"] = _both(base, arm, "limits")
    data["named_states"] = _both(base, arm, "named_states")
    data["drives"] = [*arm.get("drives", ()), *base.get("drives", ())]
    for key in ("passive_joints", "laser_scanners"):
        if entries := [*base.get(key, ()), *arm.get(key, ())]:
            data[key] = entries
    ours, theirs = base.get("simulation", {}), arm.get("simulation", {})
    data["simulation"] = {
        "timestep": min(robot.description.simulation.timestep for robot in (carrier, carried)),
        **{key: ours.get(key, {}) | theirs.get(key, {}) for key in ("contact", "springs")},
        **{key: [*ours.get(key, ()), *theirs.get(key, ())] for key in ("rollers", "loops")},
    }
    data["collision"] = {"spheres": SPHERES_FILE} | {
        key: [pair for each in (base, arm) for pair in each.get("collision", {}).get(key, ())]
        for key in ("ignore", "ignore_spheres")
    }
    blocks = ("base", "limits", "drives", "simulation", "urdf")
    data["sources"] = dict.fromkeys(blocks, "README.md#numbers")
    return data


def _both(base: Mapping[str, Any], arm: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the merged blocks of a field of both robots."""
    ours, theirs = base.get(field, {}), arm.get(field, {})
    keys = dict.fromkeys((*theirs, *ours))
    return {key: {**theirs.get(key, {}), **ours.get(key, {})} for key in keys}


def _readme(name: str, carrier: Robot, carried: Robot, mount: ArmMount) -> str:
    at = ", ".join(f"{x:g}" for x in mount.xyz)
    turned = ", ".join(f"{x:g}" for x in np.round(mount.rpy, 6))
    return f"""# {name}

`{carried.name}` on `{carrier.name}`, made by `motion mount`.

## Numbers

Joints, drives, limits, states and spheres are those of the two robots:

- `{carrier.directory / "README.md"}`
- `{carried.directory / "README.md"}`

`{carried.tree.root}` of the arm is at ({at}) m in `{mount.link or carrier.base_frame}`, with
roll, pitch and yaw ({turned}) rad.

**To check**: limits of the base (`base.linear`, `base.angular`) are those of the base without an
arm; a load with a high centre of mass tips it over earlier. There is no `rmpflow.yaml`: RMPflow is
not started.
"""

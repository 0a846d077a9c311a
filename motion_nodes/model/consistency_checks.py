# SPDX-License-Identifier: Apache-2.0
"""Consistency checks of robot.yaml and URDF: names, geometry, sources of numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.model.base_description import (
    CONTROLLERS,
    AckermannSpec,
    BaseSpec,
    DifferentialSpec,
    HolonomicSpec,
)
from motion_nodes.model.robot import Sphere
from motion_nodes.model.robot_yaml import RobotDescription
from motion_nodes.model.tree import JointKind, KinematicTree

Spheres = Mapping[str, tuple[Sphere, ...]]
_SOURCED_BLOCKS = ("base", "limits", "drives")


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Checks of a description against its tree; each raises :class:`InvalidDescription`."""

    file: Path
    description: RobotDescription
    tree: KinematicTree

    def fail(self, path: str, text: str) -> InvalidDescription:
        """Return the error for a field."""
        return InvalidDescription(f"{self.file}: {path}: {text}", field=path)

    def joints(self, names: Iterable[str], path: str) -> None:
        """Reject names that are not actuated joints, and duplicates."""
        seen: set[str] = set()
        for name in names:
            if name not in self.tree.joint_names:
                why = "is not an actuated joint" if name in self.tree.joints else "is not a joint"
                hint = did_you_mean(name, self.tree.joint_names)
                if self._mimics(name):
                    hint = f" It mimics '{self.tree.joints[name].law.joint}'; name that one."
                raise self.fail(path, f"'{name}' {why} of {self.description.urdf}.{hint}")
            if name in seen:
                raise self.fail(path, f"joint '{name}' is listed twice.")
            seen.add(name)

    def moving(self, names: Iterable[str], path: str) -> None:
        """Reject names that are neither actuated nor mimic joints."""
        self.joints([n for n in names if not self._mimics(n)], path)

    def _mimics(self, name: str) -> bool:
        joint = self.tree.joints.get(name)
        return joint is not None and joint.mimic is not None

    def link(self, name: str | None, path: str) -> None:
        """Reject a name that is not a link."""
        if name is not None and name not in self.tree.links:
            raise self.fail(
                path,
                f"'{name}' is not a link of {self.description.urdf}."
                f"{did_you_mean(name, self.tree.frame_names)}",
            )

    def driven(self, names: Iterable[str], path: str) -> None:
        """Reject joints as :meth:`joints` does, and passive ones."""
        names = tuple(names)
        self.joints(names, path)
        for name in names:
            if name in self.description.passive_joints:
                raise self.fail(path, f"joint '{name}' is one of passive_joints and has no drive.")

    def base(self, base: BaseSpec | None) -> None:
        """Reject invalid wheels and steering joints, and sides of different length."""
        if base is None:
            return
        for field in dataclasses.fields(base):
            if field.name.endswith("_names"):
                self.joints(getattr(base, field.name), f"base.{field.name}")
        self.driven(base.wheel_names + base.steering_names, "base")
        for name in base.wheel_names:
            if self.tree.joints[name].kind is not JointKind.CONTINUOUS:
                raise self.fail(
                    "base",
                    f"wheel joint '{name}' is not of type continuous in {self.description.urdf}; "
                    "wheels rotate without limit.",
                )
        for name in base.steering_names:
            if self.tree.joints[name].kind is not JointKind.REVOLUTE:
                raise self.fail(
                    "base",
                    f"steering joint '{name}' is not of type revolute in {self.description.urdf}; "
                    "it needs limits.",
                )
        if isinstance(base, DifferentialSpec) and (
            len(base.left_wheel_names) != len(base.right_wheel_names)
        ):
            raise self.fail("base", "left_wheel_names and right_wheel_names differ in length.")
        if isinstance(base, AckermannSpec):
            both, steers = base.steered_axle == "both", len(base.steering_joint_names)
            if (steers != 4) if both else (steers > 2):
                raise self.fail(
                    "base.steering_joint_names",
                    f"has {steers} entries; two steered axles (steered_axle: both) need 4, front "
                    "left, front right, rear left, rear right; a single one 2, or 1 in the middle.",
                )
            for end in ("front", "rear"):
                wheels = getattr(base, f"{end}_wheel_names")
                steered = base.steered_axle in (end, "both")
                count = min(2, steers) if steered else len(wheels)
                if count == 2 and getattr(base, f"{end}_track_width") is None:
                    raise self.fail(
                        f"base.{end}_track_width", "is missing; an axle with two wheels needs it."
                    )
                if len(wheels) == 1 and getattr(base, f"{end}_track_width") is not None:
                    raise self.fail(
                        f"base.{end}_wheel_names",
                        f"has one entry; give left and right, or none, or no {end}_track_width "
                        "for an axle with a single wheel.",
                    )
        known = CONTROLLERS[self.description.kind]
        if base.controller and base.controller not in known:
            raise self.fail(
                "base.controller",
                f"is '{base.controller}'; a robot of kind '{self.description.kind}' has one of: "
                f"{', '.join(known)}.",
            )
        if not base.wheel_names:
            raise self.fail(
                "base", "names no driven wheel; give front_wheel_names or rear_wheel_names."
            )

    def frames(self) -> None:
        """Reject frames that are not links."""
        self.link(self.description.frames.base, "frames.base")
        self.link(self.description.frames.tool, "frames.tool")
        if self.description.frames.odom in self.tree.links:
            raise self.fail("frames.odom", "is a link of the robot; it must be another frame.")

    def simulation(self, base: BaseSpec | None) -> None:
        """Reject settings of unknown links and joints, and rollers on invalid wheels."""
        for name in self.description.simulation.contact:
            self.link(name, "simulation.contact")
        for i, loop in enumerate(self.description.simulation.loops):
            for name in loop.links:
                self.link(name, f"simulation.loops[{i}]")
        self.joints(self.description.simulation.springs, "simulation.springs")
        wheels = [] if base is None else list(base.wheel_names)
        for i, rollers in enumerate(self.description.simulation.rollers):
            path = f"simulation.rollers[{i}]"
            if not isinstance(base, HolonomicSpec):
                raise self.fail(path, "only a robot of kind 'holonomic' has wheels with rollers.")
            for name in rollers.wheels:
                if name not in wheels:
                    hint = did_you_mean(name, wheels)
                    raise self.fail(
                        f"{path}.wheels", f"'{name}' is not a wheel, or already has rollers.{hint}"
                    )
                wheels.remove(name)
                radius = next(w.radius for w in base.wheels if w.joint == name)
                if radius is not None and rollers.radius >= 0.5 * radius:
                    raise self.fail(
                        f"{path}.radius",
                        f"is {rollers.radius:g} m; it must be below half of the radius of wheel "
                        f"'{name}', {radius:g} m.",
                    )

    def laser_scanners(self) -> None:
        """Reject scanners on unknown links or with equal topics, and invalid ranges or angles."""
        topics: set[str] = set()
        for i, scanner in enumerate(self.description.laser_scanners):
            path = f"laser_scanners[{i}]"
            self.link(scanner.link, f"{path}.link")
            if scanner.topic in topics:
                raise self.fail(f"{path}.topic", f"'{scanner.topic}' is another scanner's topic.")
            topics.add(scanner.topic)
            if scanner.range_min >= scanner.range_max:
                raise self.fail(
                    f"{path}.range_min",
                    f"is {scanner.range_min:g} m; it must be below range_max, "
                    f"{scanner.range_max:g} m.",
                )
            if not 0.0 < scanner.angle_max - scanner.angle_min <= math.tau:
                raise self.fail(
                    f"{path}.angle_max",
                    f"is {scanner.angle_max:g} rad; it must be above angle_min, "
                    f"{scanner.angle_min:g} rad, by at most one turn.",
                )

    def collision(self, spheres: Spheres) -> None:
        """Reject spheres and excluded pairs of unknown links, and invalid radii."""
        collision = self.description.collision
        for pair in (*collision.ignore, *collision.ignore_spheres):
            for name in pair:
                self.link(name, "collision.ignore")
        for name, items in spheres.items():
            path = f"{self.description.collision.spheres}, {name}"
            self.link(name, path)
            for item in items:
                if item[3] <= 0.0:
                    raise self.fail(path, f"sphere {list(item)} needs a positive radius.")

    def sources(self) -> None:
        """Reject numbers without a source, and sources of unknown fields."""
        data = dataclasses.asdict(self.description)
        numbers = [p for block in _SOURCED_BLOCKS for p in _number_paths(data[block], block)]
        for path in numbers:
            if not any(_covers(source, path) for source in self.description.sources):
                raise self.fail(
                    "sources",
                    f"{path} has no source; add `{path}: <where the number comes from>` "
                    "(a block's path covers all its numbers).",
                )
        for source in self.description.sources:
            block = source.split(".")[0]
            if block in _SOURCED_BLOCKS and not any(_covers(source, path) for path in numbers):
                raise self.fail("sources", f"'{source}' is not a number in this file.")


def _covers(source: str, path: str) -> bool:
    """Return whether a source's path is the number's or that of an enclosing block."""
    return path == source or path.startswith((f"{source}.", f"{source}["))


def _number_paths(data: object, path: str) -> Iterator[str]:
    """Yield the paths of all numbers in ``data``."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _number_paths(value, f"{path}.{key}")
    elif isinstance(data, list | tuple):
        for i, value in enumerate(data):
            yield from _number_paths(value, f"{path}[{i}]")
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield path

# SPDX-License-Identifier: Apache-2.0
"""Random scenes of tasks on a table in simulation, and the client that arranges and judges them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from ros_client import RosClient, values_of
from simulated_objects import SimulatedObjects
from std_msgs.msg import String
from task_client import TaskClient

from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.extras.robot_setup.derived_robot import mounted_folder
from motion_nodes.extras.tasks.world_state import ObjectState, Shape, half_extents

SCENES_PER_SUITE = 5
REACH = (0.35, 0.62)  # Min and max distance of objects from the robot's axis [m]
SECTOR = 1.1  # Max angle of objects to either side [rad]
GAP = 0.04  # Min gap between objects [m]
DISPLACED = 0.02  # Tolerated displacement of other objects [m]
RESTS = 0.005  # Tolerated gap between the target's top and the object [m]
LIMIT = 300.0  # Timeout of a task [s]
SETTLE = 1.0  # Time until objects are at rest [s]
ENDED = ("succeeded", "failed", "canceled", "refused")
COLOURS = ("red", "green", "blue", "yellow", "white", "black")


class Item(NamedTuple):
    """Object of a suite."""

    name: str
    shape: Shape
    mass: float

    @property
    def radius(self) -> float:
        """Radius of the footprint [m]."""
        x, y, _ = half_extents(self.shape)
        return float(np.hypot(x, y)) if isinstance(self.shape, Box) else float(x)

    def word(self, x: float, y: float, yaw: float) -> str:
        """Return the argument of ``--object`` for a position x, y [m] and yaw [rad]."""
        kind, z = type(self.shape).__name__.lower(), half_extents(self.shape)[2]
        sizes = ",".join(f"{v:.4f}" for v in np.ravel(astuple(self.shape)))
        return f"{self.name}:={kind}:{sizes}:{self.mass:.3f}@{x:.4f},{y:.4f},{z:.4f},{yaw:.4f}"


class Scene(NamedTuple):
    """Poses of objects, and the task."""

    places: dict[str, tuple[float, float, float]]
    """Position x, y [m] and yaw [rad] by name."""
    item: Item
    target: Item
    heights: Mapping[str, float] = {}
    """Heights of the tops that objects stand on, if not on the floor [m]."""

    @property
    def sentence(self) -> str:
        """The task."""
        return f"put the {self.item.name} on the {self.target.name}".replace("_", " ")


def random_items(rng: np.random.Generator) -> list[Item]:
    """Return a tray and two to four random objects that fit into the hand."""
    colours = [str(colour) for colour in rng.permutation(COLOURS)]
    size = (*rng.uniform(0.10, 0.16, 2), rng.uniform(0.02, 0.10))
    items = [Item(f"{colours.pop()}_tray", Box(size), 2.0)]
    for _ in range(4):
        kind, height = str(rng.choice(("box", "cylinder", "ball"))), float(rng.uniform(0.03, 0.12))
        shape: Shape
        if kind == "box":
            shape = Box((rng.uniform(0.02, 0.065), rng.uniform(0.025, 0.09), height))
        elif kind == "cylinder":
            shape = Cylinder(rng.uniform(0.012, 0.033), height)
        else:
            shape = Sphere(rng.uniform(0.015, 0.034))
        items.append(Item(f"{colours.pop()}_{kind}", shape, float(rng.uniform(0.03, 0.3))))
    return items


def random_scene(items: Sequence[Item], rng: np.random.Generator) -> Scene:
    """Return two to five of the objects at random poses, and a pair of them."""
    tray, others = items[0], list(items[1:])
    rng.shuffle(others)  # type: ignore[arg-type]
    chosen = [tray, *others[: int(rng.integers(1, 5))]]
    item = chosen[1]
    flat = [other for other in chosen[2:] if not isinstance(other.shape, Sphere)]
    stands = [other for other in flat if half_extents(other.shape)[:2].min() > item.radius]
    target = stands[0] if stands and rng.random() < 0.5 else tray
    places: dict[str, tuple[float, float, float]] = {}
    while len(places) < len(chosen):
        places.clear()
        for one in chosen:
            for _ in range(100):
                r, angle = rng.uniform(*REACH), rng.uniform(-SECTOR, SECTOR)
                x, y = float(r * np.cos(angle)), float(r * np.sin(angle))
                near = (np.hypot(x - places[o.name][0], y - places[o.name][1]) - o.radius
                        for o in chosen if o.name in places)  # fmt: skip
                if min(near, default=np.inf) > one.radius + GAP:
                    places[one.name] = (x, y, float(rng.uniform(-np.pi, np.pi)))
                    break
    return Scene(places, item, target)


def parked(items: Sequence[Item]) -> dict[str, tuple[float, float, float]]:
    """Return poses out of reach."""
    return {item.name: (-1.5, 0.4 * i, 0.0) for i, item in enumerate(items)}


class Cell:
    """Client of the suite."""

    def __init__(self, items: Sequence[Item], speed: float = 1.0) -> None:
        """Wait for the task server and its objects; simulate with a ratio to real time."""
        self.first_step = float("nan")
        """Real time until the first step of the last task was completed [s]."""
        self.items, self.client = items, RosClient("bench_tasks")
        self.tasks, self.seen = TaskClient(self.client), SimulatedObjects(self.client)
        self.client.wait(lambda: self.seen.heard and self.tasks.status, "the task server", LIMIT)
        if speed != 1.0:
            assert self.client.set_parameters("/mujoco_sim", real_time_factor=speed).successful

    @property
    def objects(self) -> dict[str, ObjectState]:
        """Newest poses, as reported by the simulation."""
        return {item.name: ObjectState(item.name, self.seen.pose(item.name), item.shape)
                for item in self.items}  # fmt: skip

    def forces(self) -> str:
        """Return the largest force beside the grip so far, and the contacts, by MuJoCo."""
        found = self.client.wait(lambda: self.client.diagnostics("/mujoco_sim"), "a report", LIMIT)
        values = values_of(found)
        return f"{values['contact force max [N]']} N: {values['contact pairs']}"

    def arrange(self, scene: Scene) -> None:
        """Place all objects, and wait until the task server has received their poses."""
        places = parked(self.items) | scene.places
        for item in self.items:
            x, y, yaw = places[item.name]
            self.move(item, (x, y), yaw, scene.heights.get(item.name, 0.0))
        for name, (x, y, _) in places.items():
            self.seen.wait_until_at(name, x, y)
        self.client.spin(SETTLE)

    def move(self, item: Item, at: ArrayLike, yaw: float = 0.0, height: float = 0.0) -> None:
        """Put an object down at x, y [m] with a heading [rad], on something of a height [m]."""
        x, y = np.asarray(at, float).tolist()
        self.seen.move(item.name, x, y, height + half_extents(item.shape)[2] + 5e-4, yaw)

    def run(self, sentence: str) -> tuple[dict[str, Any], float]:
        """Run a task; return its last status, and the simulated time of its first step [s]."""
        began, wall, first = self.seen.time, time.monotonic(), float("nan")
        self.seen.heard.messages[:-1] = []

        def ended(status: dict[str, Any]) -> bool:
            nonlocal first
            if status["task"] != sentence:
                return False
            if np.isnan(first) and status.get("step", 0) >= 1:
                first, self.first_step = self.seen.time - began, time.monotonic() - wall
            return status["state"] in ENDED

        self.tasks.heard.clear()
        self.tasks.commands.publish(String(data=sentence))
        self.tasks.until(ended, LIMIT)
        return self.tasks.status, first


def fault_of(scene: Scene, before: dict[str, ObjectState], after: dict[str, ObjectState]) -> str:
    """Return the fault of the result, by true poses; empty: none."""
    item, target = after[scene.item.name], after[scene.target.name]
    for name, state in after.items():
        moved = float(np.linalg.norm(state.X_WO[:3, 3] - before[name].X_WO[:3, 3]))
        if name != item.name and moved > DISPLACED:
            return f"{name} displaced by {1e3 * moved:.0f} mm"
    above = item.bottom - target.top
    if abs(above) > RESTS:
        return f"{1e3 * above:.0f} mm above the target's top"
    offset = (target.X_WO[:3, :3].T @ (item.X_WO[:3, 3] - target.X_WO[:3, 3]))[:2]
    if (np.abs(offset) > half_extents(target.shape)[:2]).any():
        return "beside the target"
    return ""


class MobileCell(NamedTuple):
    """Objects of a mobile manipulator: a cube to bring from one top to the other, and a box."""

    shelf: Item
    table: Item
    cube: Item
    box: Item
    tops: dict[str, tuple[float, float, float]]
    """Where shelf and table stand: x, y and heading."""

    @classmethod
    def random(cls, rng: np.random.Generator) -> MobileCell:
        """Return random ones."""
        size = rng.uniform((0.035, 0.04, 0.04), (0.055, 0.06, 0.06))
        shelf, table = (Item(n, Box((0.36, 0.36, 0.5)), 30.0) for n in ("shelf", "table"))
        cube = Item("red_cube", Box(tuple(size.tolist())), float(rng.uniform(0.05, 0.3)))
        near = rng.uniform(-0.15, 0.15, 4)
        tops = {"shelf": (1.9 + near[0], 0.6 + near[1], 0.0),
                "table": (-0.6 + near[2], -1.5 + near[3], 0.0)}  # fmt: skip
        return cls(shelf, table, cube, Item("blue_box", Box((0.05, 0.05, 0.05)), 0.2), tops)

    @property
    def items(self) -> list[Item]:
        """All of them."""
        return [self.shelf, self.table, self.cube, self.box]

    def scene(self, number: int, rng: np.random.Generator) -> Scene:
        """Return the scene of a number: from the shelf to the table, or back."""
        begin, end = (self.shelf, self.table) if number % 2 == 0 else (self.table, self.shelf)
        x, y, _ = self.tops[begin.name]
        dx, dy = rng.uniform(-0.08, 0.08, 2)
        places = {**self.tops, "red_cube": (x + dx, y + dy, float(rng.uniform(-3.0, 3.0)))}
        return Scene(places, self.cube, end, {"red_cube": 0.5})


def suite_of(
    seed: tuple[int, int], *, mobile: bool
) -> tuple[list[str], list[Item], Callable[[int], Scene], np.random.Generator]:
    """Return the words of ``motion up``, the objects, their scenes by number, and their source."""
    rng = np.random.default_rng(seed)
    if mobile:
        cell = MobileCell.random(rng)
        robot = str(mounted_folder("nova_carter", "franka", (0.0, 0.0, 0.422)))
        items, places = cell.items, parked(cell.items) | cell.tops
        scene = partial(cell.scene, rng=rng)
    else:
        robot, items = "franka", random_items(rng)
        places = parked(items)
        scene = lambda number: random_scene(items, rng)  # noqa: E731
    words = [part for item in items for part in ("--object", item.word(*places[item.name]))]
    return [robot, "--tasks", "--viewer", "none", *words], items, scene, rng

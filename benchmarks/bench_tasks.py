# SPDX-License-Identifier: Apache-2.0
"""Pick and place by the task server in random tabletop scenes in MuJoCo.

Run: ``python benchmarks/bench_tasks.py`` (about a minute per scene). A Franka with 2 to 5 boxes,
cylinders and spheres of random size at random positions within reach; a sentence, sent over ROS
from another process, puts one object on another. Success, by the true poses of the simulation: the
object rests on its target, and no other object is displaced. After some scenes a new suite starts
with new objects.

``--disturbances 200`` disturbs each scene once, at a random time: the target is moved, turned,
removed, or gets a neighbour while it is approached; the held object is taken away or pulled out at
rest, in "go home", in a motion of another client, or on its way to its place. Counted: tasks done,
or ended with a reason; a status that says "held" while the hand is empty, or "succeeded" while the
task is not done; the time until a loss is known; the largest force beside the grip.

``--factory 30`` runs the four arms of ``motion demo factory`` for 30 simulated minutes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any, NamedTuple

import numpy as np
from harness import Options, Report, benchmark, median, motion_up, progress
from action_calls import ActionCalls
from geometry_msgs.msg import WrenchStamped
from moveit_msgs.action import MoveGroup
from ros_client import RosClient, values_of
from simulated_objects import SimulatedObjects
from std_msgs.msg import String
from task_client import TaskClient

from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.nodes.clients.go import arm_to_joints
from motion_nodes.tasks.world_state import ObjectState, Shape, half_extents

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

    @property
    def sentence(self) -> str:
        """The task."""
        return f"put the {self.item.name} on the {self.target.name}".replace("_", " ")


class Outcome(NamedTuple):
    """Result of a scene."""

    fault: str
    """Fault of the result; empty: none."""
    reported: bool
    """Whether the task server reported success."""
    pick: float
    """Simulated time until the object was lifted [s]."""
    task: float
    repairs: int
    """Number of failed attempts of skills."""


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

    def __init__(self, items: Sequence[Item]) -> None:
        """Wait for the task server and its objects."""
        self._items, self.client = items, RosClient("bench_tasks")
        self._tasks, self.seen = TaskClient(self.client), SimulatedObjects(self.client)
        self.client.wait(lambda: self.seen.heard and self._tasks.status, "the task server", LIMIT)

    @property
    def objects(self) -> dict[str, ObjectState]:
        """Newest poses, as reported by the simulation."""
        return {item.name: ObjectState(item.name, self.seen.pose(item.name), item.shape)
                for item in self._items}  # fmt: skip

    def forces(self) -> str:
        """Return the largest force beside the grip so far, and the contacts, by MuJoCo."""
        found = self.client.wait(lambda: self.client.diagnostics("/mujoco_sim"), "a report", LIMIT)
        values = values_of(found)
        return f"{values['contact force max [N]']} N: {values['contact pairs']}"

    def arrange(self, places: dict[str, tuple[float, float, float]]) -> None:
        """Place all objects, and wait until the task server has received their poses."""
        for item in self._items:
            x, y, yaw = places[item.name]
            self.seen.move(item.name, x, y, half_extents(item.shape)[2] + 5e-4, yaw)
        for name, (x, y, _) in places.items():
            self.seen.wait_until_at(name, x, y)
        self.client.spin(SETTLE)

    def run(self, sentence: str) -> tuple[dict[str, Any], float]:
        """Run a task; return its last status, and the simulated time of its first step [s]."""
        began, first = self.seen.time, float("nan")
        self.seen.heard.messages[:-1] = []

        def ended(status: dict[str, Any]) -> bool:
            nonlocal first
            if status["task"] != sentence:
                return False
            if np.isnan(first) and status.get("step", 0) >= 1:
                first = self.seen.time - began
            return status["state"] in ENDED

        self._tasks.heard.clear()
        self._tasks.commands.publish(String(data=sentence))
        self._tasks.until(ended, LIMIT)
        return self._tasks.status, first


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


def attempt(cell: Cell, scene: Scene, items: Sequence[Item]) -> Outcome:
    """Arrange a scene, run the sentence, and check the result."""
    cell.run("go home")
    cell.arrange(parked(items) | scene.places)
    before, began = cell.objects, cell.seen.time
    status, pick = cell.run(scene.sentence)
    took = cell.seen.time - began
    cell.client.spin(SETTLE)
    fault = fault_of(scene, before, cell.objects)
    if fault and status["reason"]:
        fault = f"{fault}; {status['reason']}"
    failures = [text for text in status.get("events", ()) if " failed: " in text]
    for text in failures:
        progress(f"  {text}")
    return Outcome(fault, status["state"] == "succeeded", pick, took, len(failures))


class Disturbed(NamedTuple):
    """Result of a disturbed scene."""

    kind: str
    state: str
    reason: str
    done: bool
    """Whether the task is done, by true poses."""
    held_falsely: bool
    lost_after: float
    """Simulated time from the loss until the status said so [s]; NaN: nothing was lost."""

    @property
    def true(self) -> bool:
        """Whether the task was done and said so, or ended with a reason."""
        return self.done if self.state == "succeeded" else bool(self.reason)


class Disturber:
    """Disturbs one object of a cell with one arm."""

    def __init__(self, cell: Cell, rng: np.random.Generator) -> None:
        """Subscribe to the joint states."""
        from sensor_msgs.msg import JointState

        import motion_nodes as mn
        from motion_nodes.ros import qos

        self.cell, self._rng = cell, rng
        self._arm = mn.load_robot("franka")["arm"]
        self._joints = cell.client.listen(JointState, "/joint_states", qos.STATES)
        self._pushes = cell.client.publisher(WrenchStamped, "/mujoco_sim/push_object", qos.REQUESTS)
        self._actions = ActionCalls(cell.client, "")

    def in_hand(self, name: str) -> bool:
        """Return whether an object is between the fingers, by true poses."""
        message = self._joints.newest
        q = dict(zip(message.name, message.position, strict=True))
        self._joints.messages[:-1] = []
        tool = self._arm.fk(np.array([q[joint] for joint in self._arm.joint_names]))
        return bool(np.linalg.norm(tool[:3, 3] - self.cell.seen.position(name)) < 0.06)

    def go(self) -> None:
        """Start a motion of the arm by another client."""
        q = self._arm.state("home") + self._rng.uniform(-0.5, 0.5, len(self._arm.joint_names))
        joints = dict(zip(self._arm.joint_names, q.tolist(), strict=True))
        self._actions.send(MoveGroup, "move_action", arm_to_joints("", "arm", joints).goal)

    def take(self, item: Item) -> None:
        """Put an object back on the table, wherever it is."""
        r, angle = self._rng.uniform(*REACH), self._rng.uniform(-SECTOR, SECTOR)
        x, y = r * np.cos(angle), r * np.sin(angle)
        self.cell.seen.move(item.name, x, y, half_extents(item.shape)[2] + 5e-4, 0.0)

    def pull(self, item: Item) -> None:
        """Pull an object out of the hand, more strongly than the fingers hold it."""
        message = WrenchStamped()
        message.header.frame_id, message.wrench.force.z = item.name, -150.0
        for _ in range(2):
            self._pushes.publish(message)

    def shift(self, kind: str, scene: Scene, other: Item) -> None:
        """Disturb an object that is approached."""
        item = scene.item
        x, y, yaw = scene.places[item.name]
        z = half_extents(item.shape)[2] + 5e-4
        angle = self._rng.uniform(-np.pi, np.pi)
        away = np.array((np.cos(angle), np.sin(angle)))
        if kind == "moved":
            (x, y) = np.array((x, y)) + self._rng.uniform(0.01, 0.1) * away
            self.cell.seen.move(item.name, x, y, z, yaw)
        elif kind == "turned":
            self.cell.seen.move(item.name, x, y, z, yaw + self._rng.uniform(0.3, 2.8))
        elif kind == "removed":
            self.cell.seen.move(item.name, -1.5, 1.5, z, yaw)
        else:
            (x, y) = np.array((x, y)) + (item.radius + other.radius + 0.005) * away
            self.cell.seen.move(other.name, x, y, half_extents(other.shape)[2] + 5e-4, yaw)


APPROACHED = ("moved", "turned", "removed", "beside")
CARRIED = ("idle", "home", "go", "place")


def disturb(cell: Cell, hand: Disturber, scene: Scene, kind: str, how: str) -> Disturbed:
    """Run a scene with one disturbance.

    Args:
        cell: the suite.
        hand: disturbs.
        scene: with its task.
        kind: one of APPROACHED or CARRIED.
        how: for the latter, "taken" or "pulled".
    """
    rng, tasks, item = hand._rng, cell._tasks, scene.item
    name = item.name.replace("_", " ")
    sentence = f"pick the {name}" if kind != "place" else scene.sentence

    def phase(*names: str) -> bool:
        return tasks.status["state"] in ENDED or tasks.status.get("phase") in names

    def begin(text: str) -> None:
        number = tasks.status["number"]
        tasks.commands.publish(String(data=text))
        tasks.until(lambda s: s["number"] > number, LIMIT)

    lost_after, over = float("nan"), False
    begin(sentence)
    if kind in APPROACHED:
        wanted = str(rng.choice(("approach", "pre_grasp")))
        tasks.until(lambda s: phase(wanted), LIMIT)
        cell.client.spin(float(rng.uniform(0.0, 1.5)))
        other = next(o for o in cell._items if o.name not in (item.name, scene.target.name))
        hand.shift(kind, scene, other)
    else:
        if kind == "place":
            tasks.until(lambda s: phase("move", "let down"), LIMIT)
            cell.client.spin(float(rng.uniform(0.0, 1.5)))
        else:
            tasks.until(lambda s: s["state"] in ENDED, LIMIT)
            if kind == "home" and tasks.status["state"] == "succeeded":
                begin("go home")
            elif kind == "go":
                hand.go()
            cell.client.spin(float(rng.uniform(0.1, 0.8)))
        if tasks.status["held"] and hand.in_hand(item.name):
            over = tasks.status["state"] in ENDED
            hand.take(item) if how == "taken" else hand.pull(item)
            cell.client.wait(lambda: not hand.in_hand(item.name) or (tasks.status["state"] in ENDED
                             and kind == "place"), "the loss", LIMIT)  # fmt: skip
            if not hand.in_hand(item.name):
                at = cell.seen.time
                with contextlib.suppress(AssertionError):
                    cell.client.wait(lambda: not tasks.status["held"], "its report", 10.0)
                    lost_after = cell.seen.time - at
    tasks.until(lambda s: s["state"] in ENDED, LIMIT)
    cell.client.spin(SETTLE)
    status, present = tasks.status, hand.in_hand(item.name)
    if kind in APPROACHED:
        done = present
    elif kind == "place":
        done = not fault_of(scene._replace(places={}), cell.objects, cell.objects)
    else:
        done = over or present  # it had ended before the loss
    held_falsely = bool(status["held"]) and not present
    return Disturbed(f"{kind} {how}".strip(), status["state"], status["reason"], done,
                     held_falsely, lost_after)  # fmt: skip


def disturbances(report: Report, scenes: int, seed: int) -> None:
    """Run scenes with one random disturbance each."""
    found, forces = list[Disturbed](), list[str]()
    for begin in range(0, scenes, SCENES_PER_SUITE):
        rng = np.random.default_rng((seed, begin))
        items = random_items(rng)
        places = zip(items, parked(items).values(), strict=True)
        flags = [part for item, place in places for part in ("--object", item.word(*place))]
        with motion_up("franka", "--tasks", "--viewer", "none", *flags):
            cell = Cell(items)
            hand = Disturber(cell, rng)
            for number in range(begin, min(scenes, begin + SCENES_PER_SUITE)):
                scene = random_scene(items, rng)
                cell.run("go home")
                cell.arrange(parked(items) | scene.places)
                kind = (*APPROACHED, *CARRIED)[number % 8]
                how = str(rng.choice(("taken", "pulled"))) if kind in CARRIED else ""
                found.append(disturb(cell, hand, scene, kind, how))
                progress(f"{len(found)}: {scene.sentence}: {found[-1]}")
                if cell._tasks.status["held"]:
                    cell.run(f"place {scene.item.name.replace('_', ' ')} at 0.45,0.0")
            forces.append(cell.forces())
            progress(f"forces beside the grip: {forces[-1]}")
            cell.client.close()
    losses = [one.lost_after for one in found if not np.isnan(one.lost_after)]
    report.table("Tasks with one disturbance each, judged by the simulation's poses", [{
        "scenes": len(found), "done or ended with a reason": sum(one.true for one in found),
        "succeeded": sum(one.state == "succeeded" for one in found),
        "false held": sum(one.held_falsely for one in found),
        "false succeeded": sum(one.state == "succeeded" and not one.done for one in found),
        "losses": len(losses), "known after, median [s]": median(losses),
        "max [s]": max(losses, default=None),
    }], "Forces beside the grip, largest per suite: " + "; ".join(
        text.partition(":")[0] for text in forces))  # fmt: skip
    for i, one in enumerate(found):
        if one.held_falsely or not one.true:
            print(f"scene {i + 1}: {one}")


def factory(report: Report, minutes: float) -> None:
    """Repeat the rounds of the demo "factory" for a simulated time; MuJoCo reports contacts.

    A failed round ends its suite; the next round starts with a new suite.
    """
    import rclpy

    from motion_nodes.cli.up import run_show
    from motion_nodes.nodes.demo.client import DemoFindings
    from motion_nodes.nodes.demo.factory import STACK, FactoryClient, show_factory, stack_checks
    from motion_nodes.nodes.demo.shows import show_of
    from motion_nodes.ros import signals

    rclpy.shutdown()  # demos initialize rclpy
    rounds: list[tuple[float, int, bool, bool]] = []
    reasons, contacts = list[str](), list[int]()

    def unfinished() -> bool:
        return sum(r[0] for r in rounds) < 60.0 * minutes and not signals.STOP.is_set()

    def play(client: FactoryClient, findings: DemoFindings) -> None:
        parameters = RosClient("bench_factory")
        for name in client.arms:
            # On a shared machine joint states may pause for one or two seconds.
            node = f"/{name}/joint_trajectory_controller"
            assert parameters.set_parameters(node, state_timeout=5.0).successful
        parameters.close()
        while unfinished() and client.spin(0.0):
            start, one = client.time, DemoFindings()
            show_factory(client, one)
            if signals.STOP.is_set():
                break
            stacked = sum(ok for _, ok in stack_checks(client.cubes))
            # The red cube is passed in turns 0 and 1.
            rounds.append((client.time - start, stacked, client.turn > 1, one.ok))
            reasons.extend(t for t in one.lines if t.startswith("[FAILED"))
            progress(f"{len(rounds)}: {sum(r[0] for r in rounds):.0f} s, {rounds[-1]}")
            if not one.ok:
                break
        contacts.append(client.contacts)
        reasons.extend(text for arm in client.arms.values() for text in arm.tasks.failed_attempts)

    while unfinished():
        run_show(replace(show_of("factory"), play=play, ready_timeout=900.0), headless=True)
    times, stacked, passed, done = zip(*rounds, strict=True)
    note = "Contacts, by MuJoCo: of links with other links, the floor, and cubes they do not hold."
    report.table("Rounds of passing one cube and stacking four", [{
        "simulated [min]": sum(times) / 60.0, "rounds": len(rounds), "done": sum(done),
        "cubes passed": sum(passed), "cubes stacked": sum(stacked), "of": len(STACK) * len(rounds),
        "suites": len(contacts), "contacts": sum(contacts), "round, median [s]": median(times),
    }], note)  # fmt: skip
    print("\n".join(("failures, also those that were repaired:", *reasons)))


def sentences(report: Report, scenes: int, seed: int) -> None:
    """Run a sentence in each scene, several scenes per suite, and check the results."""
    found: list[Outcome] = []
    for begin in range(0, scenes, SCENES_PER_SUITE):
        rng = np.random.default_rng((seed, begin))
        items = random_items(rng)
        places = zip(items, parked(items).values(), strict=True)
        flags = [part for item, place in places for part in ("--object", item.word(*place))]
        with motion_up("franka", "--tasks", "--viewer", "none", *flags):
            cell = Cell(items)
            for _ in range(begin, min(scenes, begin + SCENES_PER_SUITE)):
                scene = random_scene(items, rng)
                found.append(attempt(cell, scene, items))
                count = len(scene.places)
                progress(f"{len(found)}: {scene.sentence}, {count} objects: {found[-1]}")
            cell.client.close()
    good = [one for one in found if not one.fault]
    report.table("Pick and place by a sentence, judged by the simulation's poses", [{
        "scenes": len(found), "done": len(good), "done [%]": 100.0 * len(good) / len(found),
        "reported done": sum(one.reported for one in found),
        "reported done, but not": sum(one.reported and bool(one.fault) for one in found),
        "failed attempts": sum(one.repairs for one in found),
        "pick, median [s]": median(one.pick for one in good),
        "task, median [s]": median(one.task for one in good),
        "task, max [s]": max((one.task for one in good), default=None),
    }], f"Done: the object rests on its target (within {1e3 * RESTS:.0f} mm of its top), and no "
        f"other object was displaced by more than {1e3 * DISPLACED:.0f} mm. Simulated times, of "
        "done tasks, from the sentence. Failed attempts were repaired by the task server, or not.",
    )  # fmt: skip
    for i, one in enumerate(found):
        if one.fault:
            print(f"scene {i + 1}: {one.fault}")


@benchmark("Tasks in simulation", ros=True, scenes=20, seed=1,
           disturbances=(int, "number of scenes with a disturbance each, instead"),
           factory=(float, "minutes with four arms at one table instead of scenes"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    if options.factory:
        factory(report, options.factory)
    elif options.disturbances:
        disturbances(report, options.disturbances, options.seed)
    else:
        sentences(report, options.scenes, options.seed)

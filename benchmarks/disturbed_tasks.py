# SPDX-License-Identifier: Apache-2.0
"""Tasks in simulation with one disturbance each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from harness import Options, Report, median, motion_up, progress
from action_calls import ActionCalls
from geometry_msgs.msg import WrenchStamped
from moveit_msgs.action import MoveGroup
from nav_msgs.msg import Odometry
from numpy.typing import ArrayLike
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from task_scenes import (
    ENDED,
    LIMIT,
    REACH,
    SCENES_PER_SUITE,
    SECTOR,
    SETTLE,
    Cell,
    Item,
    Scene,
    fault_of,
    suite_of,
)

import motion_nodes as mn
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.extras.tasks.world_state import half_extents
from motion_nodes.nodes.clients.commands import arm_to_joints
from motion_nodes.ros import qos
from motion_nodes.ros.messages.moveit_messages import pose_of


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
    """Disturbs one object of a cell with one arm, on a base or not."""

    def __init__(self, cell: Cell, rng: np.random.Generator, robot: str) -> None:
        self.cell, self.rng = cell, rng
        client = cell.client
        self._robot = mn.load_robot(robot)
        self._arm = self._robot["arm"]
        self._joints = client.listen(JointState, "/joint_states", qos.STATES)
        self._base = client.listen(Odometry, "/ground_truth", qos.NEWEST)
        self._pushes = client.publisher(WrenchStamped, "/mujoco_sim/push_object", qos.REQUESTS)
        self._actions = ActionCalls(client, "")

    def in_hand(self, name: str) -> bool:
        """Return whether an object is between the fingers, by true poses."""
        q, base = self._state()
        tool = base @ self._arm.fk(np.array([q[joint] for joint in self._arm.joint_names]))
        return bool(np.linalg.norm(tool[:3, 3] - self.cell.seen.position(name)) < 0.06)

    def _state(self) -> tuple[dict[str, float], np.ndarray]:
        """Return the positions of the joints by name, and the true pose of the base."""
        message = self._joints.newest
        q = dict(zip(message.name, message.position, strict=True))
        base = pose_of(self._base.newest.pose.pose, "the base")[0] if self._base else np.eye(4)
        for heard in (self._joints, self._base):
            heard.messages[:-1] = []
        return q, base

    def _in_the_robot(self, item: Item, at: np.ndarray, yaw: float, height: float) -> bool:
        """Return whether an object at a place would penetrate the robot, or what it holds."""
        q, base = self._state()
        z = height + half_extents(item.shape)[2]
        held = next((o for o in self.cell.items if o is not item and self.in_hand(o.name)), None)
        if held is not None:
            away = np.abs(self.cell.seen.position(held.name) - (*at, z))
            reach = half_extents(held.shape)[2] + half_extents(item.shape)[2]
            if np.hypot(*away[:2]) < held.radius + item.radius and away[2] < reach:
                return True
        world = mn.World()
        world.add(item.name, item.shape, inverse(base) @ from_xyz_rpy((*at, z), (0.0, 0.0, yaw)))
        limits = self._robot.limits
        bounds = zip(self._robot.joint_names, limits.lower, limits.upper, strict=True)
        state = {j: float(np.clip(q[j], low, high)) for j, low, high in bounds if j in q}
        arm = np.array([q[joint] for joint in self._arm.joint_names])
        return not self._arm.collision_free(arm, world, state=state)

    def go(self) -> None:
        """Start a motion of the arm by another client."""
        q = self._arm.state("home") + self.rng.uniform(-0.5, 0.5, len(self._arm.joint_names))
        joints = dict(zip(self._arm.joint_names, q.tolist(), strict=True))
        self._actions.send(MoveGroup, "move_action", arm_to_joints("", "arm", joints).goal)

    def take(self, scene: Scene) -> None:
        """Put the object back, wherever it is."""
        x, y, yaw = scene.places[scene.item.name]
        height = scene.heights.get(scene.item.name, 0.0)
        if not height:  # anywhere on the floor
            r, angle = self.rng.uniform(*REACH), self.rng.uniform(-SECTOR, SECTOR)
            x, y = r * np.cos(angle), r * np.sin(angle)
        self.cell.move(scene.item, (x, y), yaw, height)

    def pull(self, scene: Scene, gone: Callable[[], bool]) -> None:
        """Pull the object down with a growing force until it leaves the hand.

        A sudden pull would make it a projectile that returns from the floor at the hand.
        """
        message = WrenchStamped()
        message.header.frame_id = scene.item.name
        for force in (*np.linspace(*PULL), 0.0):
            message.wrench.force.z = -float(force)
            for _ in range(2):
                self._pushes.publish(message)
            self.cell.client.spin(PULL_STEP)
            if gone() and force:
                break
        message.wrench.force.z = 0.0
        for _ in range(2):
            self._pushes.publish(message)

    def shift(self, kind: str, scene: Scene, late: Callable[[], bool]) -> bool:
        """Disturb the object or its place; return whether it was too late for that."""
        item, rng = scene.item, self.rng
        x, y, yaw = scene.places[item.name]
        at, height = np.array((x, y)), scene.heights.get(item.name, 0.0)
        angle, moved = rng.uniform(-np.pi, np.pi), []
        away = np.array((np.cos(angle), np.sin(angle)))

        def move(item: Item, at: ArrayLike, yaw: float, height: float = 0.0) -> None:
            # A hand cannot push an object into the robot: it waits until there is room.
            end = time.monotonic() + ROOM_TIMEOUT
            place = np.asarray(at, float)
            while self._in_the_robot(item, place, yaw, height) and time.monotonic() < end:
                self.cell.client.spin(0.05)
            self.cell.client.spin(0.01)  # the newest status
            if not late():
                self.cell.move(item, place, yaw, height)
                moved.append(item)

        if kind == "moved":
            move(item, at + rng.uniform(0.01, 0.05 if height else 0.1) * away, yaw, height)
        elif kind == "turned":
            move(item, at, yaw + rng.uniform(0.3, 2.8), height)
        elif kind == "removed":
            move(item, (-1.5, 1.5), yaw)
        elif kind == "shifted":
            x, y, yaw = scene.places[scene.target.name]
            move(scene.target, (x, y) + rng.uniform(0.05, 0.12) * away, yaw)
        elif kind == "occupied":
            x, y, yaw = scene.places[scene.target.name]
            top = 2.0 * half_extents(scene.target.shape)[2]
            used = (item.name, scene.target.name)
            other = next(o for o in reversed(self.cell.items) if o.name not in used)
            move(other, (x, y), yaw, top)
        elif kind == "exchanged":
            others = (item.name, scene.target.name)
            other = next(o for o in reversed(self.cell.items) if o.name not in others)
            there = self.cell.seen.position(other.name)[:2]
            if there[0] < 0.0:  # parked
                there = at - REACH[0] * at / np.linalg.norm(at) / 3.0
            move(other, (-1.5, 1.5), yaw)
            move(item, there, yaw)
            move(other, at, yaw, height)
        else:
            others = (item.name, *scene.places) if height else (item.name, scene.target.name)
            other = next(o for o in self.cell.items if o.name not in others)
            move(other, at + (item.radius + other.radius + 0.005) * away, yaw, height)
        return not moved


PULL, PULL_STEP = (20.0, 150.0, 40), 0.01
"""Forces of a pull: first, last [N] and number; time of each [s]."""
ROOM_TIMEOUT = 20.0
"""Time until an object is moved although the robot is in its way [s]."""
KNOWN_AFTER = 0.2
"""Time within which a loss is to be known [s]."""
APPROACHED = ("moved", "turned", "removed", "beside", "exchanged")
"""What happens to an object that is approached: the last one takes its place."""
PLACED = ("shifted", "occupied")
"""What happens to a place on the way to it: it moves, another object is put there."""
CARRIED = {
    "idle": (), "home": (), "go": (), "place": ("move", "let down"),
    "pour": ("move", "tilt", "bring upright"), "drive": ("drive",),
}  # fmt: skip
"""Where a held object is lost: phases of its task, if it is lost in one."""


def disturb(cell: Cell, hand: Disturber, scene: Scene, kind: str, how: str) -> Disturbed:
    """Run a scene with one disturbance.

    Args:
        cell: the suite.
        hand: disturbs.
        scene: with its task.
        kind: one of APPROACHED, PLACED or CARRIED.
        how: for the last, "taken" or "pulled".
    """
    rng, tasks, item = hand.rng, cell.tasks, scene.item
    name, to = (one.name.replace("_", " ") for one in (item, scene.target))
    sentence = {"place": scene.sentence, "pour": f"pour the {name} into the {to}",
                "drive": f"bring the {name} to the {to}", **dict.fromkeys(PLACED, scene.sentence),
                }.get(kind, f"pick the {name}")  # fmt: skip
    phases = CARRIED.get(kind, ())

    def ended() -> bool:
        return tasks.status["state"] in ENDED

    def gone() -> bool:
        return not hand.in_hand(item.name) or (bool(phases) and ended())

    def begin(text: str) -> None:
        number = tasks.status["number"]
        tasks.commands.publish(String(data=text))
        tasks.until(lambda s: s["number"] > number, LIMIT)

    lost_after, over = float("nan"), False
    begin(sentence)
    if kind in APPROACHED or kind in PLACED:
        placed = kind in PLACED
        wanted = str(rng.choice(CARRIED["place"] if placed else ("approach", "pre_grasp")))
        tasks.until(lambda s: ended() or s.get("phase") == wanted, LIMIT)
        cell.client.spin(float(rng.uniform(0.0, 0.6 if placed else 1.5)))
        over = hand.shift(kind, scene, lambda: ended() or bool(tasks.status["held"]) != placed)
    else:
        if phases:
            wanted = str(rng.choice(phases))
            if how == "pulled":  # an object above its place cannot be pulled down
                wanted = phases[0]
            tasks.until(lambda s: ended() or (s["held"] and s.get("phase") == wanted), LIMIT)
            cell.client.spin(float(rng.uniform(0.0, 0.3 if wanted == "let down" else 1.5)))
        else:
            tasks.until(lambda s: ended(), LIMIT)
            if kind == "home" and tasks.status["state"] == "succeeded":
                begin("go home")
            elif kind == "go":
                hand.go()
            cell.client.spin(float(rng.uniform(0.1, 0.8)))
        if tasks.status["held"] and hand.in_hand(item.name):
            over = ended()
            hand.take(scene) if how == "taken" else hand.pull(scene, gone)
            cell.client.wait(gone, "the loss", LIMIT)
            over = over or (kind == "home" and ended())
            if not hand.in_hand(item.name):
                at = cell.seen.time
                with contextlib.suppress(AssertionError):
                    cell.client.wait(lambda: not tasks.status["held"], "its report", 10.0)
                    lost_after = cell.seen.time - at
    tasks.until(lambda s: ended(), LIMIT)
    cell.client.spin(SETTLE)
    status, present = tasks.status, hand.in_hand(item.name)
    if kind in ("place", "drive", *PLACED):
        done = not fault_of(scene, cell.objects, cell.objects)
    else:
        done = present or over  # it may have ended before the loss
    held_falsely = bool(status["held"]) and not present
    return Disturbed(f"{kind} {how}".strip(), status["state"], status["reason"], done,
                     held_falsely, lost_after)  # fmt: skip


def disturbances(report: Report, options: Options) -> None:
    """Run scenes with one random disturbance each."""
    found, forces, mobile = list[Disturbed](), list[str](), options.mobile
    end = options.first + options.disturbances
    carried = ("idle", "home", "place", "drive", "drive") if mobile else (
        "idle", "home", "go", "place", "pour"
    )  # fmt: skip
    kinds = (*APPROACHED, *PLACED, *carried)
    if mobile:  # there is one top at each of two places
        kinds = tuple(kind for kind in kinds if kind not in ("exchanged", "shifted"))
    for begin in range(options.first, end, SCENES_PER_SUITE):
        words, items, scene_of, rng = suite_of((options.seed, begin), mobile=mobile)
        with motion_up(*words):
            cell = Cell(items, options.speed)
            hand = Disturber(cell, rng, words[0])
            for number in range(begin, min(end, begin + SCENES_PER_SUITE)):
                scene = scene_of(number)
                cell.run("go home")
                cell.arrange(scene)
                kind = kinds[number % len(kinds)]
                how = str(rng.choice(("taken", "pulled"))) if kind in CARRIED else ""
                found.append(disturb(cell, hand, scene, kind, how))
                progress(f"{number}: {scene.sentence}: {found[-1]}")
                late = found[-1].lost_after > KNOWN_AFTER
                if late or found[-1].held_falsely or not found[-1].true:
                    progress(f"  {cell.tasks.status.get('events')}")
                if cell.tasks.status["held"]:
                    name = scene.item.name.replace("_", " ")
                    cell.run(scene.sentence if mobile else f"place {name} at 0.45,0.0")
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
        f"later than {KNOWN_AFTER:g} s": sum(late > KNOWN_AFTER for late in losses),
    }], "Forces beside the grip, largest per suite: " + "; ".join(
        text.partition(":")[0] for text in forces))  # fmt: skip
    for i, one in enumerate(found):
        if one.held_falsely or not one.true:
            print(f"scene {options.first + i}: {one}")

# SPDX-License-Identifier: Apache-2.0
"""Random valid requests in a row to the task server of ``motion up``, over ROS.

    python benchmarks/task_requests.py 50 --seed 1

sends sentences (English and Chinese) and plans of all skills of an arm, by topic and by action, to
one suite with shipped defaults, and prints each one that fails with its reason. The judge is the
simulation: true poses of the objects, fingers and drawer. The receiver of a handover pulls the
object with a force. About half a minute per request.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import motion_up, progress
from geometry_msgs.msg import WrenchStamped
from harness.processes import isolate
from nav2_msgs.action import DummyBehavior
from ros_client import RosClient
from sensor_msgs.msg import JointState
from simulated_objects import SimulatedObjects
from task_client import TaskClient

from motion_nodes.ros import qos

MOVABLE = {
    "red_cube": "box:0.04,0.04,0.04:0.1", "sponge": "box:0.05,0.05,0.05:0.05",
    "green_cylinder": "cylinder:0.02,0.08:0.15", "blue_ball": "sphere:0.025:0.08",
    "white_cup": "cylinder:0.03,0.09:0.12",
}  # fmt: skip
HEIGHT = {"red_cube": 0.02, "sponge": 0.025, "green_cylinder": 0.04, "blue_ball": 0.025,
          "white_cup": 0.045, "black_ring": 0.01, "tray": 0.02, "bowl": 0.025}  # fmt: skip
"""Half height of each object, lying as it is placed [m]."""
TRAY, BOWL = (0.5, -0.25), (0.42, 0.27)
FIXED = (
    f"tray:=box:0.2,0.2,0.04:20@{TRAY[0]},{TRAY[1]},0.02",
    f"bowl:=box:0.14,0.14,0.05:10@{BOWL[0]},{BOWL[1]},0.025",
    "drawer:=drawer:0.3,0.3,0.15:1.5@0,0.6,0.45,1.57",
)
AREA, SECTOR, GAP, FIXED_GAP = (0.34, 0.58), 1.1, 0.12, 0.19
"""Distances of objects from the robot's axis [m], to either side [rad], from each other and from
the middle of tray and bowl [m]."""
PRESENT = 3
"""Number of movable objects within reach; the others are out of sight of the requests."""
ENDED = ("succeeded", "failed", "canceled", "refused")
START, TOO_LONG = 120.0, 600.0
"""Time after which a suite does not answer, and a request has no end [s]."""
AXES = {"forward": (1, 0), "backward": (-1, 0), "left": (0, 1), "right": (0, -1)}
CHINESE = {"red_cube": "红色方块", "sponge": "海绵", "green_cylinder": "绿色圆柱",
           "blue_ball": "蓝球", "white_cup": "白色杯子", "tray": "托盘", "bowl": "碗"}  # fmt: skip


def ring_file(folder: Path) -> Path:
    """Write a lying ring: 7 cm wide, of a tube of 2 cm."""
    import trimesh

    path = folder / "ring.stl"
    trimesh.creation.torus(0.025, 0.01, major_sections=32, minor_sections=16).export(path)
    return path


class Cell:
    """The suite as a client sees it."""

    def __init__(self, speed: float) -> None:
        """Wait for the task server and its objects; ``speed``: simulated per real time."""
        self.client = RosClient("requests")
        self._objects = SimulatedObjects(self.client)
        self._joints = self.client.listen(JointState, "/joint_states")
        self._tasks = TaskClient(self.client)
        topic = "/mujoco_sim/push_object"
        self._pushes = self.client.publisher(WrenchStamped, topic, qos.REQUESTS)
        self._tasks.until(lambda status: "black_ring" in status["objects"], START)
        self.client.wait(lambda: self._objects.heard and self._joints, "poses and joints", START)
        self.client.set_parameters("/mujoco_sim", real_time_factor=speed)

    @property
    def status(self) -> dict[str, Any]:
        """Newest status of the task server."""
        return self._tasks.status

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._objects.time

    @property
    def width(self) -> float:
        """Distance of the fingers [m]."""
        state = self._joints.newest
        pairs = zip(state.name, state.position, strict=True)
        return sum(q for name, q in pairs if "finger" in name)

    def at(self, name: str) -> np.ndarray:
        """Return the position of an object [m]."""
        return self._objects.position(name)

    def move(self, name: str, x: float, y: float, yaw: float = 0.0) -> None:
        """Put an object on the floor, and wait until it is there."""
        self._objects.move(name, x, y, HEIGHT[name] + 5e-4, yaw)
        self._objects.wait_until_at(name, x, y, START)

    def push(self, name: str, force: np.ndarray) -> None:
        """Let a force act on an object for a moment."""
        message = WrenchStamped()
        message.header.frame_id = name
        f = message.wrench.force
        f.x, f.y, f.z = (float(x) for x in force)
        self._pushes.publish(message)

    def run(self, text: str, action: bool, during: Callable[[], None]) -> dict[str, Any]:
        """Give a task, and return its last status."""
        for heard in (self._objects.heard, self._joints, self._tasks.heard):
            heard.messages[:-1] = []
        number, goal = self.status["number"], DummyBehavior.Goal()
        goal.command.data = text
        if action:
            sent = self._tasks.actions.send(DummyBehavior, "execute_task", goal)
        else:
            self._tasks.commands.publish(goal.command)

        def ended() -> bool:
            during()
            return self.status["number"] > number and self.status["state"] in ENDED

        self.client.wait(ended, f"the end of '{text}'", TOO_LONG)
        status = self.status
        if action and (said := sent.result(START)[1].error_msg) != status["reason"]:
            status["reason"] += f"; the action says '{said}'"
        return status


class Requests:
    """Draws requests that are possible now, and judges them."""

    def __init__(self, cell: Cell, rng: np.random.Generator) -> None:
        self.cell, self.rng = cell, rng
        self.names: tuple[str, ...] = ()
        """Movable objects within reach, what is held among them."""

    def arrange(self) -> None:
        """Put some objects at random places on the floor, apart from each other."""
        held, everything = self.cell.status["held"], (*MOVABLE, "black_ring")
        free = [name for name in everything if name != held]
        chosen = [str(name) for name in self.rng.permutation(free)[:PRESENT]]
        self.names = (*chosen, held) if held else tuple(chosen)
        for name in free:
            self.cell.move(name, -1.0, 0.25 * everything.index(name))
        taken: list[np.ndarray] = []
        for name in chosen:
            taken.append(self._spot(taken, GAP))
            self.cell.move(name, *taken[-1], self.rng.uniform(-np.pi, np.pi))
        self.cell.client.spin(1.0)

    def _spot(self, taken: list[np.ndarray], gap: float) -> np.ndarray:
        """Return a place on the floor apart from others, tray and bowl [m], shape (2,)."""
        while True:
            r, angle = self.rng.uniform(*AREA), self.rng.uniform(-SECTOR, SECTOR)
            at = (r * np.array((np.cos(angle), np.sin(angle)))).round(2)
            others = [*((p, gap) for p in taken), (TRAY, FIXED_GAP), (BOWL, FIXED_GAP)]
            if all(np.linalg.norm(at - p) > d for p, d in others):
                return at

    def draw(self) -> tuple[str, str, Callable[[], str], Callable[[], None]]:
        """Return the kind of a request, its text, its judge, and what happens meanwhile."""
        held = self.cell.status["held"]
        kinds = ["home", "locate", "put", "put at", "hand over"]
        if held is None:
            kinds += ["pick", "drawer", "plan"]
            kinds += ["pour"] * ("white_cup" in self.names)
            kinds += ["push", "wipe"] * bool({"sponge", "red_cube"} & {*self.names})
        elif held == "white_cup":
            kinds += ["pour"]
        elif held in ("sponge", "red_cube"):
            kinds += ["wipe"]
        kind = str(self.rng.choice(kinds))
        return (kind, *getattr(self, f"_{kind.replace(' ', '_')}")(held))

    def _item(self, held: str | None, *names: str) -> str:
        return held or str(self.rng.choice([n for n in self.names if not names or n in names]))

    def _words(self, english: str, chinese: str, **names: str) -> str:
        """Return one of two sentences with the names of objects."""
        if self.rng.random() < 0.3 and all(n in CHINESE for n in names.values()):
            return chinese.format(**{key: CHINESE[n] for key, n in names.items()})
        return english.format(**{key: n.replace("_", " ") for key, n in names.items()})

    def _home(self, held: str | None) -> Any:
        return self._words("go home", "回家"), lambda: "", lambda: None

    def _locate(self, held: str | None) -> Any:
        text = self._words("where is the {o}?", "找到{o}", o=self._item(None))
        return text, lambda: "", lambda: None

    def _pick(self, held: str | None) -> Any:
        item = self._item(None)
        text = self._words("pick up the {o}", "拿起{o}", o=item)
        return text, lambda: self._is_up(item), lambda: None

    def _put(self, held: str | None) -> Any:
        item, target = self._item(held), str(self.rng.choice(("tray", "bowl")))
        text = self._words("put the {o} on the {t}", "把{o}放到{t}上", o=item, t=target)
        return text, lambda: self._lies_on(item, target), lambda: None

    def _plan(self, held: str | None) -> Any:
        item = self._item(None)
        steps = [("pick", {"object": item}), ("place", {"object": item, "location": "tray"}),
                 ("home", {})]  # fmt: skip
        text = json.dumps([{"skill": skill, "args": args} for skill, args in steps])
        return text, lambda: self._lies_on(item, "tray"), lambda: None

    def _put_at(self, held: str | None) -> Any:
        item, others = self._item(held), [self.cell.at(name)[:2] for name in self.names]
        at = self._spot(others, GAP)

        def judge() -> str:
            away = float(np.linalg.norm(self.cell.at(item)[:2] - at))
            return "" if away < 0.03 else f"{1e3 * away:.0f} mm from the point"

        text = f"put the {item.replace('_', ' ')} at {at[0]:g}, {at[1]:g}"
        return text, judge, lambda: None

    def _push(self, held: str | None) -> Any:
        item, way = self._item(None, "red_cube", "sponge", "white_cup"), str(
            self.rng.choice(list(AXES))
        )  # fmt: skip
        before, along = self.cell.at(item), np.array((*AXES[way], 0.0))

        def judge() -> str:
            moved = float((self.cell.at(item) - before) @ along)
            return "" if 0.05 < moved < 0.2 else f"moved by {1e3 * moved:.0f} mm"

        return f"push the {item.replace('_', ' ')} {way}", judge, lambda: None

    def _pour(self, held: str | None) -> Any:
        text = self._words("pour the {o} into the {t}", "把{o}倒进{t}里", o="white_cup", t="bowl")
        return text, lambda: self._is_up("white_cup"), lambda: None

    def _wipe(self, held: str | None) -> Any:
        item, before = self._item(held, "sponge", "red_cube"), self.cell.at("tray")

        def judge() -> str:
            away = float(np.linalg.norm(self.cell.at("tray") - before))
            return f"the tray moved by {1e3 * away:.0f} mm" if away > 5e-3 else self._is_up(item)

        text = self._words("wipe the {t} with the {o}", "用{o}擦{t}", o=item, t="tray")
        return text, judge, lambda: None

    def _hand_over(self, held: str | None) -> Any:
        item, pull = self._item(held), self.rng.normal(size=3)
        pull *= self.rng.uniform(9.0, 14.0) / np.linalg.norm(pull)
        times: list[float] = []

        def pulled() -> None:
            now, phase = self.cell.time, self.cell.status.get("phase", "")
            if phase in ("offer", "release") and (not times or now > times[-1] + 0.04):
                times.append(now)
                # From a second after the object is offered, within another one.
                self.cell.push(item, float(np.clip(now - times[0] - 1.0, 0.0, 1.0)) * pull)

        def judge() -> str:
            return "" if self.cell.width > 0.07 else "it was not let go"

        text = self._words("hand me the {o}", "把{o}递给我", o=item)
        return text, judge, pulled

    def _drawer(self, held: str | None) -> Any:
        before = self.cell.at("drawer")

        def judge() -> str:
            way = float(np.linalg.norm(self.cell.at("drawer") - before))
            end = self.cell.time + 3.0  # closed for the next time
            while self.cell.time < end:
                self.cell.push("drawer", np.array((0.0, 25.0, 0.0)))
                self.cell.client.spin(0.05)
            return "" if way > 0.16 else f"open by {1e3 * way:.0f} mm"

        return self._words("open the drawer", "打开抽屉"), judge, lambda: None

    def _is_up(self, item: str) -> str:
        height = float(self.cell.at(item)[2])
        return "" if height > HEIGHT[item] + 0.03 else f"{item} is at {1e3 * height:.0f} mm"

    def _lies_on(self, item: str, target: str) -> str:
        at, on = self.cell.at(item), self.cell.at(target)
        above = float(at[2] - on[2] - HEIGHT[target] - HEIGHT[item])
        away = float(np.abs(at[:2] - on[:2]).max())
        if abs(above) < 0.01 and away < 0.1:
            return ""
        return f"{1e3 * above:.0f} mm above {target}, {1e3 * away:.0f} mm from its middle"


def main() -> None:
    """Send requests, and print the outcome of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=float, default=1.0, help="simulated per real time")
    options = parser.parse_args()
    isolate()
    import rclpy

    with tempfile.TemporaryDirectory() as folder:
        ring = f"black_ring:=mesh:{ring_file(Path(folder))}:0.06@-1,1.25,0.01"
        words = [f"{name}:={shape}@-1,{0.25 * k},{HEIGHT[name]}"
                 for k, (name, shape) in enumerate(MOVABLE.items())]  # fmt: skip
        flags = [part for word in (*words, ring, *FIXED) for part in ("--object", word)]
        with motion_up("franka", "--tasks", "--viewer", "none", *flags):
            rclpy.init()
            cell = Cell(options.speed)
            requests, good = Requests(cell, np.random.default_rng(options.seed)), 0
            for number in range(1, options.count + 1):
                requests.arrange()
                kind, text, judge, during = requests.draw()
                status = cell.run(text, bool(requests.rng.random() < 0.5), during)
                cell.client.spin(1.0)
                wrong = status["reason"] if status["state"] != "succeeded" else judge()
                good += not wrong
                failures = [e for e in status.get("events", ()) if " failed: " in e]
                progress(f"{number} {kind}: {text}: {wrong or 'ok'} {failures or ''}")
            cell.client.close()
            rclpy.shutdown()
    print(f"{good} of {options.count} done")


if __name__ == "__main__":
    main()

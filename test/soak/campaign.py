# SPDX-License-Identifier: Apache-2.0
"""One soak: valid random work of arm, base and services for a given time, with samples."""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from chaos.probes import Probes
from chaos.running_suite import RunningSuite
from chaos.work import Drive, Follow, Grip, Navigate, Plan, Trajectory, Work
from fuzz.processes import Usage, tracebacks, usage_of
from fuzz.watcher import WatcherProcess
from geometry_msgs.msg import Pose
from moveit_msgs.msg import CollisionObject, PlanningScene
from moveit_msgs.srv import ApplyPlanningScene, GetPositionIK
from ros_client import RosClient
from shape_msgs.msg import SolidPrimitive

from motion_nodes.core.robot.loader import load_robot
from soak.drift import WARM_UP, Drift, drift_of

READY = 240.0
"""[s] Timeout of the start, which may have to compile."""
LONGEST = 30.0
"""[s] Timeout of a goal's result."""
FOLLOWS = 4.0
"""[s] How long a target is followed, or twists are sent."""
OBJECTS = 5
"""Number of objects that the scene may hold."""
DAILY = {"memory [MB]": 500.0, "handles": 100.0, "threads": 20.0}
"""What a process may gain in a day, by the line through the samples."""


@dataclass
class Samples:
    """Samples; times since the start [s]."""

    times: list[float] = field(default_factory=list)
    usage: dict[str, list[Usage]] = field(default_factory=lambda: defaultdict(list))
    latencies: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By request: when it was answered, and how long it took [s]."""
    done: Counter[str] = field(default_factory=Counter)
    """Pieces of work that ended as they should."""
    undone: Counter[str] = field(default_factory=Counter)
    """Pieces of work that were rejected or failed, with the reason."""
    failures: list[str] = field(default_factory=list)


class Soak:
    """Works a suite of one arm and one base."""

    def __init__(self, suite: RunningSuite, client: RosClient, seed: int) -> None:
        """Prepare; ``seed`` is the source of all goals."""
        self._suite, self._client = suite, client
        self._rng = random.Random(seed)
        self._robots = {space: load_robot(name) for space, name in suite.robots.items()}
        self._arm, self._base = (
            next((s for s, r in self._robots.items() if (r.base is None) == arm), "")
            for arm in (True, False)
        )
        self._objects: list[str] = []
        self._stopped = False
        self.samples = Samples()

    def stop(self) -> None:
        """End after the current work; :meth:`run` returns the samples so far."""
        self._stopped = True

    def run(self, seconds: float, interval: float) -> Samples:
        """Work for ``seconds`` with a sample every ``interval`` [s]."""
        probes = Probes(self._client, self._suite.nodes, 1.0)
        self._suite.start()
        missing = probes.wait_until_active(READY)
        assert not missing, f"not active: {missing}"
        watcher = WatcherProcess(self._suite.robots, self._suite.environment)
        watcher.exact(True)
        begin = time.monotonic()
        self._begin, self._due, self._interval = begin, begin, interval
        nodes = str(self._suite.nodes)
        kinds: list[Callable[[], None]] = [
            self._trajectory,
            self._grip,
            self._navigate,
            self._drive,
        ]
        kinds += [self._plan, self._scene] if "move_group" in nodes else []
        kinds += [self._ik] if "ik_service" in nodes else []
        kinds += [self._follow] if "rmpflow_policy" in nodes else []
        try:
            while time.monotonic() - begin < seconds and not self._stopped:
                self._rng.choice(kinds)()
            self._sample()
            seen = watcher.ask()
        finally:
            watcher.close()
        self.samples.failures += [f"limit: {text}" for text in seen["violations"]]
        self.samples.failures += tracebacks(self._suite.new_output())
        return self.samples

    # ---- work

    def _trajectory(self) -> None:
        self._goal(Trajectory)

    def _grip(self) -> None:
        self._goal(Grip)

    def _navigate(self) -> None:
        self._goal(Navigate)

    def _plan(self) -> None:
        self._goal(Plan)

    def _follow(self) -> None:
        self._stream(Follow)

    def _drive(self) -> None:
        self._stream(Drive)

    def _goal(self, kind: type[Work]) -> None:
        work = kind(self._client, self._robots, self._rng)
        name = kind.__name__
        if not work.begin():
            self.samples.failures.append(f"{name}: no server")
            return
        began = time.monotonic()
        while work.outcome is None and time.monotonic() - began < LONGEST:
            self._spin(0.01)
        if work.outcome is None:
            self.samples.failures.append(f"{name}: no result within {LONGEST:g} s")
        elif work.succeeded:
            self.samples.done[name] += 1
        else:
            self.samples.undone[f"{name}: {work.outcome[:80]}"] += 1

    def _stream(self, kind: type[Work]) -> None:
        work = kind(self._client, self._robots, self._rng)
        work.begin()
        end = time.monotonic() + self._rng.uniform(0.3, 1.0) * FOLLOWS
        while time.monotonic() < end:
            work.tick()
            self._spin(0.01)
        work.end()
        self._spin(1.0)
        self.samples.done[kind.__name__] += 1

    def _ik(self) -> None:
        rng = self._rng
        for _ in range(20):
            request = GetPositionIK.Request()
            pose = request.ik_request.pose_stamped.pose
            p = pose.position
            p.x, p.y, p.z = rng.uniform(0.3, 0.6), rng.uniform(-0.3, 0.3), rng.uniform(0.2, 0.6)
            pose.orientation.x, pose.orientation.w = 1.0, 0.0
            request.ik_request.timeout.nanosec = 50_000_000
            request.ik_request.avoid_collisions = rng.random() < 0.5
            self._call("compute_ik", GetPositionIK, f"/{self._arm}/compute_ik", request)

    def _scene(self) -> None:
        item = CollisionObject()
        item.header.frame_id = self._robots[self._arm].base_frame
        if len(self._objects) >= OBJECTS or (self._objects and self._rng.random() < 0.5):
            item.id = self._objects.pop(self._rng.randrange(len(self._objects)))
            item.operation = CollisionObject.REMOVE
        else:
            item.id = f"box_{self._rng.randrange(10**9)}"
            self._objects.append(item.id)
            item.primitives.append(SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1] * 3))
            pose = Pose()
            # Beside the arm, so that plans remain feasible.
            pose.position.x, pose.position.y = -0.6, self._rng.uniform(-0.8, 0.8)
            pose.position.z = self._rng.uniform(0.2, 1.0)
            item.primitive_poses.append(pose)
        scene = PlanningScene(is_diff=True)
        scene.robot_state.is_diff = True
        scene.world.collision_objects.append(item)
        request = ApplyPlanningScene.Request(scene=scene)
        name = f"/{self._arm}/apply_planning_scene"
        self._call("apply_planning_scene", ApplyPlanningScene, name, request)

    def _call(self, what: str, kind: type[Any], name: str, request: Any) -> None:
        began = time.monotonic()
        self._client.call(kind, name, request)
        now = time.monotonic()
        self.samples.latencies[what].append((now - self._begin, now - began))
        self.samples.done[what] += 1
        self._spin(0.0)

    # ---- samples

    def _spin(self, seconds: float) -> None:
        self._client.spin(seconds)
        if time.monotonic() >= self._due:
            self._sample()

    def _sample(self) -> None:
        self._due = time.monotonic() + self._interval
        self.samples.times.append(time.monotonic() - self._begin)
        for name in self._suite.commands:
            pid = self._suite.pid(name)
            if pid is None:
                self.samples.failures.append(f"{name} ended")
                raise AssertionError(f"{name} ended")
            self.samples.usage[name].append(usage_of(pid))


def drifts(samples: Samples) -> dict[tuple[str, str], Drift]:
    """Return the drift of memory, handles, threads and processor use of each process."""
    found = {}
    for process, usages in samples.usage.items():
        columns = {
            "memory [MB]": [usage.memory for usage in usages],
            "handles": [usage.handles for usage in usages],
            "threads": [usage.threads for usage in usages],
        }
        for what, values in columns.items():
            found[process, what] = drift_of(samples.times, values)
        cpu = np.diff([usage.cpu for usage in usages]) / np.diff(samples.times)
        found[process, "CPU [cores]"] = drift_of(samples.times[1:], cpu.tolist())
    return found


def percentiles(samples: Samples) -> dict[str, dict[str, list[float]]]:
    """Return p50 and p99 of latencies [ms], in the first and last third after the warm-up."""
    table = {}
    end = samples.times[-1]
    begin = WARM_UP * end
    third = (end - begin) / 3.0
    for what, pairs in samples.latencies.items():
        first = [took for at, took in pairs if begin <= at < begin + third]
        last = [took for at, took in pairs if at >= end - third]
        if first and last:
            table[what] = {
                f"p{q}": [1e3 * float(np.percentile(part, q)) for part in (first, last)]
                for q in (50, 99)
            }
    return table


def exceeded(found: dict[tuple[str, str], Drift]) -> list[str]:
    """Return quantities whose daily gain exceeds its limit by more than twice its error."""
    return [
        f"{process}: {what} gains {24.0 * drift.per_hour:.0f} in a day, allowed are {DAILY[what]:g}"
        for (process, what), drift in found.items()
        if what in DAILY and 24.0 * (drift.per_hour - 2.0 * drift.error) > DAILY[what]
    ]

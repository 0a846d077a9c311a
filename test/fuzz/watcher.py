# SPDX-License-Identifier: Apache-2.0
"""A process that checks the limits of all commands of the suite and of the robots' motions.

Reads commands from its standard input, one word a line: ``exact`` and ``loose`` switch the limits
of velocities and accelerations on and off, ``ask`` prints the findings so far as JSON. It ends
with its standard input. :class:`WatcherProcess` is its client.
"""

import json
import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot

MARK = "fuzz"
SLACK = 1.02
"""Limits may be exceeded by this factor, for stamps are rounded."""
POSITION_SLACK = 2e-3
"""[rad or m]"""
EFFORT_SLACK = 1e-6
"""[N m or N]"""
MEASURED_SLACK = 0.05
"""[rad or m] A simulated drive may overshoot a limit by so much."""
CLOCK = float(os.environ.get("FUZZ_CLOCK", "0.06"))
"""[s] A stamp is read after jobs between two ticks were done, later than its step began: by some
milliseconds on a quiet machine, by 50 on a busy one. Steps are held against limits with so much
more time; FUZZ_CLOCK sets it."""
SMALL = 1e-3
"""[rad/s or m/s] Differences of velocity below this are not looked at."""
MOVED = 2e-3
"""[rad or m] A joint that has left its place by so much is in motion."""
ANSWER = 20.0
"""[s] Timeout of an answer of the watching process."""
MOST = 40
"""Violations that are kept."""


@dataclass
class Last:
    """The last command of a joint."""

    stamp: float
    position: float
    velocity: float


@dataclass
class Watch:
    """Limits and state of one robot."""

    space: str
    robot: Robot
    found: list[str]
    messages: int = 0
    last: dict[str, Last] = field(default_factory=dict)
    exact: bool = True
    """Whether velocities and accelerations are looked at: not where time or lifecycle change."""
    peaks: dict[str, float] = field(default_factory=dict)
    """Largest share of a limit that was used."""
    place: dict[str, float] = field(default_factory=dict)
    """Positions at the last motion [rad or m]."""
    moved_at: float = 0.0
    """Time of the last motion, by the monotonic clock [s]."""
    seen_at: float = 0.0
    """Time of the last state, by the monotonic clock [s]."""
    time: float = 0.0
    """Stamp of the last state [s]."""

    def __post_init__(self) -> None:
        """Take the limits from the robot's description."""
        limits = self.robot.limits
        self.limits = {
            name: (limits.lower[i], limits.upper[i], limits.velocity[i], limits.acceleration[i])
            for i, name in enumerate(limits.names)
        }
        base = self.robot.base
        efforts = {} if base is not None else dict(zip(limits.names, limits.effort, strict=True))
        self.efforts = {name: float(limit) for name, limit in efforts.items()}
        self.wheels: dict[str, tuple[float, float]] = {}
        if self.robot.kind == "differential" and base is not None:
            x, z = base.linear.x, base.angular.z
            arm, radius = 0.5 * base.wheel_separation, base.wheel_radius
            speed = (x.max_velocity + arm * z.max_velocity) / radius
            change = (max(x.max_acceleration, x.max_deceleration)
                      + arm * max(z.max_acceleration, z.max_deceleration)) / radius  # fmt: skip
            for name in (*base.left_wheel_names, *base.right_wheel_names):
                self.wheels[name] = speed, change

    def command(self, message: JointState) -> None:
        """Check a command to the drives."""
        if message.header.frame_id == MARK:
            return
        self.messages += 1
        stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        for i, name in enumerate(message.name):
            position = message.position[i] if i < len(message.position) else math.nan
            velocity = message.velocity[i] if i < len(message.velocity) else math.nan
            effort = message.effort[i] if i < len(message.effort) else math.nan
            if name in self.efforts and math.isnan(position) and math.isfinite(effort):
                # Impedance control sends efforts only; afterwards the reference restarts.
                if abs(effort) > self.efforts[name] + EFFORT_SLACK:
                    self._say(f"{name} is commanded {effort} N m, limit {self.efforts[name]}")
                self.last.pop(name, None)
                continue
            if name in self.wheels:
                self._wheel(name, stamp, velocity)
            elif name in self.limits and self.robot.base is None:
                self._joint(name, stamp, position, velocity)
            if math.isinf(position) or math.isinf(velocity):
                self._say(f"{name} is commanded {position}, {velocity}")
            last = self.last.get(name)
            if name in self.wheels or last is None or stamp != last.stamp:
                # Otherwise the robot is held while simulated time stalls, and continues afterwards.
                self.last[name] = Last(stamp, position, velocity)

    def state(self, message: JointState) -> None:
        """Check a measured state, and record whether the robot moves."""
        if message.header.frame_id == MARK:
            return
        self.seen_at = time.monotonic()
        self.time = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        for name, position in zip(message.name, message.position, strict=False):
            if abs(position - self.place.setdefault(name, position)) > MOVED:
                self.place[name] = position
                self.moved_at = self.seen_at
        if self.robot.base is not None:
            return
        for name, position in zip(message.name, message.position, strict=False):
            if name in self.limits:
                lower, upper, *_ = self.limits[name]
                if not lower - MEASURED_SLACK <= position <= upper + MEASURED_SLACK:
                    self._say(f"{name} is at {position:.4f}, limits {lower:.4f} to {upper:.4f}")

    def _joint(self, name: str, stamp: float, position: float, velocity: float) -> None:
        lower, upper, fastest, hardest = self.limits[name]
        if not lower - POSITION_SLACK <= position <= upper + POSITION_SLACK:
            self._say(f"{name} commanded to {position}, limits {lower:.4f} to {upper:.4f}")
        last = self.last.get(name)
        if not self.exact or last is None or stamp <= last.stamp:
            return
        dt = stamp - last.stamp + CLOCK
        self._bound(f"velocity of {name}", velocity, fastest)
        moved = position - last.position
        if abs(moved) > 1e-4:
            self._bound(f"change of {name} in {dt:.4f} s", moved / dt, fastest)
        change = velocity - last.velocity
        if math.isfinite(hardest) and abs(change) > SMALL:
            self._bound(f"acceleration of {name} in {dt:.4f} s", change / dt, hardest)

    def _wheel(self, name: str, stamp: float, velocity: float) -> None:
        fastest, hardest = self.wheels[name]
        self._bound(f"speed of {name}", velocity, fastest)
        last = self.last.get(name)
        if not self.exact or last is None or stamp <= last.stamp or velocity == 0.0:
            # A base with a lost state is stopped at once.
            return
        dt = stamp - last.stamp + CLOCK
        if abs(velocity - last.velocity) > SMALL:
            self._bound(f"acceleration of {name} in {dt:.4f} s",
                        (velocity - last.velocity) / dt, hardest)  # fmt: skip

    def _bound(self, what: str, value: float, limit: float) -> None:
        if not math.isfinite(value):
            return
        kind = what.partition(" ")[0]
        self.peaks[kind] = max(self.peaks.get(kind, 0.0), abs(value) / limit)
        if abs(value) > limit * SLACK:
            self._say(f"{what} is {value:.4g}, limit {limit:.4g}")

    def _say(self, text: str) -> None:
        if len(self.found) < MOST:
            self.found.append(f"{self.space}: {text}")

    def report(self) -> dict[str, Any]:
        """Return a report of the robot's motion; times other than ROS ``time`` are ages [s]."""
        now = time.monotonic()
        return {
            "commands": self.messages,
            "peaks": self.peaks,
            "still": now - self.moved_at,
            "silent": now - self.seen_at,
            "time": self.time,
        }


class WatcherProcess:
    """Client of the watching process."""

    def __init__(self, robots: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """Start the process, and wait until it is ready.

        Args:
            robots: names of robot models by namespace.
            environment: of the process.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.watcher", *(f"{s}={r}" for s, r in robots.items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**environment, "PYTHONPATH": python_path()}, start_new_session=True,
        )  # fmt: skip
        while self._read().strip() != "watching":
            pass  # messages of the middleware

    def exact(self, on: bool) -> None:
        """Switch the limits of velocities and accelerations on or off."""
        self._say("exact" if on else "loose")

    def ask(self) -> dict[str, Any]:
        """Return violations since the last call, and a report for each robot by namespace."""
        self._say("ask")
        return dict(json.loads(self._read()))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], ANSWER)[0]:
            raise AssertionError(f"the watching process did not answer within {ANSWER:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the watching process ended with {self._process.wait()}")
        return line


def python_path() -> str:
    """Return the search path of processes that use the test packages."""
    test = Path(__file__).parents[1]
    return os.pathsep.join([str(test), str(test.parent), os.environ.get("PYTHONPATH", "")])


def main() -> None:
    """Watch the robots named as NAMESPACE=ROBOT until standard input ends."""
    rclpy.init(args=[])
    node = Node(f"fuzz_watcher_{os.getpid()}", use_global_arguments=False)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    found: list[str] = []
    profile = QoSProfile(depth=200, reliability=ReliabilityPolicy.BEST_EFFORT)
    watches = []
    for word in sys.argv[1:]:
        space, _, name = word.partition("=")
        watch = Watch(space, load_robot(name), found)
        watches.append(watch)
        node.create_subscription(JointState, f"/{space}/joint_command", watch.command, profile)
        node.create_subscription(JointState, f"/{space}/joint_states", watch.state, profile)
    print("watching", flush=True)
    unread = b""
    while True:
        executor.spin_once(timeout_sec=0.02)
        if not select.select([0], [], [], 0.0)[0]:
            continue
        part = os.read(0, 4096)
        if not part:
            break
        unread += part
        *lines, unread = unread.split(b"\n")
        for line in lines:
            _obey(line.decode(), watches, found)
    os._exit(0)


def _obey(word: str, watches: list[Watch], found: list[str]) -> None:
    if word == "ask":
        robots = {watch.space: watch.report() for watch in watches}
        print(json.dumps({"violations": found, "robots": robots}), flush=True)
        found.clear()
        return
    for watch in watches:
        watch.exact = word == "exact"
        watch.last.clear()


if __name__ == "__main__":
    main()

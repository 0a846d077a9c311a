# SPDX-License-Identifier: Apache-2.0
"""Wheeled bases: time of one update, and the node at 250 Hz from command to wheels.

Run: ``python benchmarks/bench_bases.py`` (a minute and a half; ``--only core`` takes 10 s).

The core is timed in this process: kinematics there and back, and a whole update of the controller
(measured wheels in, a new command in, wheels out) with different limits, each the best of several
rounds. The node runs beside the mock simulation in wall time, as with a real robot. Stamps of
``joint_command`` are the moments of its ticks, so periods are their differences; the latency is
that from sending a TwistStamped to hearing wheels told something else, without ramps, at a random
moment of the loop's period. A flood is a thousand commands a second from another process.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from child_processes import CpuShare, isolate, node_command, running
from report import Cell, Report, Spread, arguments, gaps, progress

from motion_nodes.bases.base import Twist2
from motion_nodes.bases.base_limits import BaseLimits, BodyAxisLimits
from motion_nodes.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.bases.from_robot import base_of
from motion_nodes.bases.odometry import OdometryConfig
from motion_nodes.model.loader import load_robot

ROBOTS = {
    "jetbot": "differential_base",
    "nova_carter": "differential_base",
    "kaya": "holonomic_base",
    "leatherback": "ackermann_base",
}
"""Robots that are measured, and the node of each; another kind is one more line."""
ROUNDS, UPDATES = 7, 400
DT = 0.004
"""[s]"""
_RAMP = BodyAxisLimits(max_velocity=0.4, max_acceleration=1.0, max_deceleration=2.0)
_SMOOTH = BodyAxisLimits(max_velocity=0.4, max_acceleration=1.0, max_jerk=10.0)
_WHEELS = {"max_wheel_velocity": 30.0, "max_wheel_acceleration": 60.0}
SETTINGS = {
    "no limits": BaseControllerConfig(limits=BaseLimits()),
    "accelerations": BaseControllerConfig(limits=BaseLimits(x=_RAMP, y=_RAMP, yaw=_RAMP)),
    "and wheels": BaseControllerConfig(limits=BaseLimits(x=_RAMP, y=_RAMP, yaw=_RAMP, **_WHEELS)),
    "and jerks": BaseControllerConfig(
        limits=BaseLimits(x=_SMOOTH, y=_SMOOTH, yaw=_SMOOTH, **_WHEELS)
    ),
    "and errors": BaseControllerConfig(
        limits=BaseLimits(x=_SMOOTH, y=_SMOOTH, yaw=_SMOOTH, **_WHEELS),
        odometry=OdometryConfig(position_error_per_metre=0.02, velocity_rolling_window_size=10),
    ),
}
"""Each has more to do than the one before."""
STEPS = 100
"""Commands for the latency."""
LOST = 1.0
"""[s] A command without effect for so long counts as lost."""


def best(work: Callable[[int], object]) -> float:
    """Return the processor time of one call [us]: the best round's mean."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.thread_time_ns()
        for i in range(UPDATES):
            work(i)
        rounds.append((time.thread_time_ns() - begin) * 1e-3 / UPDATES)
    return min(rounds)


def core(report: Report) -> None:
    """Print the times of the core."""
    rng = np.random.default_rng(0)
    asked = [Twist2(*row) for row in rng.uniform(-0.5, 0.5, (UPDATES, 3)).tolist()]
    rows: list[list[Cell]] = []
    for name in ROBOTS:
        progress(f"core of {name}")
        base = base_of(load_robot(name))
        steering = np.zeros(len(base.steering_names))
        twists = [base.nearest_twist(twist) for twist in asked]
        wheels = [base.wheels_from_twist(twist) for twist in twists]
        row: list[Cell] = [
            f"{name}, {len(base.wheel_names)} wheels",
            best(lambda i, base=base, twists=twists: base.wheels_from_twist(twists[i])),
            best(lambda i, base=base, w=wheels, s=steering: base.twist_from_wheels(w[i], s)),
        ]
        for config in SETTINGS.values():
            row.append(best(updates(BaseController(base, config), asked, wheels, steering)))
        rows.append(row)
    report.table(
        "One update of the core [us]",
        ["", "wheels from twist", "twist from wheels", *SETTINGS],
        rows,
        "Columns from 'no limits' on: the controller takes a measurement of the wheels and a new "
        f"command, a fifth of which turn round, and returns wheel speeds; dt {DT * 1e3:g} ms.",
    )


def updates(
    controller: BaseController, asked: list[Twist2], wheels: list[Any], steering: Any
) -> Callable[[int], object]:
    """Return whole updates; time and wheels go on from call to call."""
    now, angles = 0.0, np.zeros_like(wheels[0])

    def update(i: int) -> object:
        nonlocal now, angles
        now += DT
        angles = angles + wheels[i] * DT
        controller.measure(angles, DT, steering)
        controller.command(asked[i // 5], now)
        return controller.step(now, DT)

    return update


class Client:
    """Sends twists, and hears what the wheels are told."""

    def __init__(self, node: Any, controller: str) -> None:
        """Create the endpoints."""
        from geometry_msgs.msg import TwistStamped
        from state_probe import StateProbe

        from motion_nodes.ros import qos

        self.probe = StateProbe(node, "joint_command")
        self._message = TwistStamped()
        self._out = node.create_publisher(TwistStamped, f"{controller}/cmd_vel", qos.STREAM)
        end = time.monotonic() + 20.0
        while self._out.get_subscription_count() == 0:
            if time.monotonic() > end:
                raise TimeoutError(f"nobody listens to {self._out.topic_name}")
            time.sleep(0.05)

    def send(self, vx: float) -> int:
        """Send a twist; return when [ns]."""
        self._message.twist.linear.x = vx
        sent = time.monotonic_ns()
        self._out.publish(self._message)
        return sent

    def fastest(self, seconds: float) -> tuple[int, float] | None:
        """Return when a command came [ns] and its fastest wheel; None when none came."""
        woke, (messages,) = self.probe.wait(seconds)
        if not messages:
            return None
        return woke, max(np.abs(messages[-1].velocity), default=0.0)

    def drive(self, seconds: float, rate: float) -> list[int]:
        """Send at a rate [Hz]; return the stamps of what the wheels were told [ns]."""
        from motion_nodes.ros.joint_topics import stamp_ns

        stamps = []
        end = due = time.monotonic()
        end += seconds
        while (now := time.monotonic()) < end:
            if now >= due:
                self.send(0.1)
                due = max(due + 1.0 / rate, now)
            stamps += [stamp_ns(m) for m in self.probe.wait(max(0.0, due - now))[1][0]]
        return stamps

    def latencies(self, rng: random.Random, period: float) -> tuple[list[float], int]:
        """Return how long commands took to reach the wheels [ms], and how many did not."""
        found, lost = [], 0
        self.send(0.1)
        for i in range(STEPS):
            time.sleep(0.02 + rng.uniform(0.0, period))
            now = self.fastest(LOST)
            while (more := self.fastest(0.0)) is not None:
                now = more
            before = now[1] if now else 0.0
            sent = self.send(0.15 if i % 2 == 0 else 0.1)
            end = time.monotonic() + LOST
            while time.monotonic() < end:
                heard = self.fastest(LOST)
                if heard is not None and abs(heard[1] - before) > 1e-3:
                    found.append((heard[0] - sent) * 1e-6)
                    break
            else:
                lost += 1
        return found, lost

    def close(self) -> None:
        """Unsubscribe."""
        self.probe.close()


def flood(controller: str, seconds: float) -> None:
    """Send a thousand commands a second, in a process of its own."""
    import rclpy

    rclpy.init(args=[])
    node = rclpy.create_node("bench_bases_flood")
    client = Client(node, controller)
    client.close()
    due = time.monotonic()
    end = due + seconds
    while (now := time.monotonic()) < end:
        if now >= due:
            client.send(0.1)
            due += 1e-3
        time.sleep(max(0.0, min(due - time.monotonic(), 1e-3)))
    node.destroy_node()
    rclpy.shutdown()


def measure(robot: str, executable: str, rate: float, seconds: float) -> list[Cell]:
    """Return one row of the table of nodes."""
    import rclpy

    from motion_nodes.ros.names import BASE_CONTROLLERS

    progress(f"node of {robot} at {rate:.0f} Hz")
    controller = BASE_CONTROLLERS[load_robot(robot).kind]
    sim = node_command("mock_sim", robots=[robot], update_rate=rate, publish_clock=False)
    unlimited = {
        f"{axis}.{name}": 0.0
        for axis in ("linear.x", "angular.z")
        for name in ("max_acceleration", "max_deceleration", "max_jerk")
    }
    own = node_command(executable, robot=robot, update_rate=rate, **unlimited)
    with running(sim, own) as children:
        children[1].wait_for(f"{controller}]: conf")
        node = rclpy.create_node("bench_bases")
        client = Client(node, controller)
        client.drive(1.0, 20.0)
        share = CpuShare([children[1].pid])
        stamps = client.drive(seconds, 20.0)
        cpu = share.end()[children[1].pid]
        times, lost = client.latencies(random.Random(0), 1.0 / rate)
        flooding = [sys.executable, __file__, "--flood", controller, str(seconds + 3.0)]
        with running(flooding):
            time.sleep(2.0)
            share = CpuShare([children[1].pid])
            flooded = client.drive(seconds, 20.0)
            cpu_flooded = share.end()[children[1].pid]
        client.close()
        node.destroy_node()
    period, latency = gaps(stamps), Spread.of(times)
    achieved = (len(stamps) - 1) / ((stamps[-1] - stamps[0]) * 1e-9)
    return [
        *(f"{robot}, {rate:.0f} Hz", achieved, period.p50, period.p99, period.maximum),
        *(latency.p50, latency.p99, lost, cpu, cpu_flooded, gaps(flooded).p99),
    ]


def nodes(report: Report, rate: float, seconds: float) -> None:
    """Print the figures of the nodes."""
    import rclpy

    rclpy.init(args=[])
    rows = [measure(robot, executable, rate, seconds) for robot, executable in ROBOTS.items()]
    rclpy.shutdown()
    report.table(
        "The node, from command to wheels",
        ["", "achieved [Hz]", "period p50 [ms]", "p99 [ms]", "max [ms]", "latency p50 [ms]",
         "p99 [ms]", "lost", "CPU [% of a core]", "CPU in a flood", "period p99 in a flood [ms]"],
        rows,
        "Odometry, /tf and ~/cmd_vel_out go out with each tick as well.",
    )  # fmt: skip


def main() -> None:
    """Measure core and nodes."""
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=("core", "nodes"))
    parser.add_argument("--rate", type=float, default=250.0, help="of the nodes' loops [Hz]")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--flood", nargs=2, metavar=("CONTROLLER", "SECONDS"), help="used inside")
    options = parser.parse_args()
    if options.flood:
        flood(options.flood[0], float(options.flood[1]))
        return
    isolate()
    report = Report("Wheeled bases: one update, and the node from command to wheels")
    if options.only != "nodes":
        core(report)
    if options.only != "core":
        nodes(report, options.rate, options.seconds)
    report.write(options.json)


if __name__ == "__main__":
    main()

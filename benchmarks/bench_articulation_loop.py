# SPDX-License-Identifier: Apache-2.0
"""How even the articulation controller's loop is, and what it costs, along a trajectory.

Run: ``python benchmarks/bench_articulation_loop.py`` (two minutes; ``--seconds 60`` for the
full run of ten).

The controller follows a seven-joint sine sent as one action goal; the mock simulation runs at the
same rate, in the same process (container) or in another one. Both use wall time, as with a real
robot, so the stamp of a joint_command is the moment at which the controller's tick began: periods
are differences of these stamps, whatever happens to the messages on their way. Another process
collects them from a reliable subscription with a queue of 2000, looking rarely so as not to take
part in the race for the processor. The peer is ``usual_trajectory.py`` beside the same simulation.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

from arm_motions import HOME, Sine, move, trajectory_message
from child_processes import CpuShare, isolate, node_command, ros_args, running, script_command
from report import Cell, Report, Spread, arguments, progress, ratio

ONE, TWO, USUAL = "one process", "two processes", "usual way, two processes"
WAYS = (ONE, TWO, USUAL)
SETTLE = 2.0
"""[s] From the start of the trajectory to the start of the measurement."""
LOOK = 0.1
"""[s] How often the collector takes what came."""
POINT_RATE = 20.0
"""[Hz] of the trajectory's points."""


def commands(way: str, rate: float) -> list[list[str]]:
    """Return the processes of one way, the controller's first."""
    sim = {"robots": ["franka"], "update_rate": rate, "publish_clock": False}
    controller = {"robot": "franka", "update_rate": rate}
    if way == ONE:
        nodes = [
            {"executable": "mock_sim", "ros_args": ros_args(**sim)},
            {"executable": "articulation_controller", "ros_args": ros_args(**controller)},
        ]
        return [[sys.executable, "-m", "motion_nodes.nodes", "container", "--nodes",
                 json.dumps(nodes)]]  # fmt: skip
    if way == TWO:
        first = node_command("articulation_controller", **controller)
    else:
        first = script_command("usual_trajectory.py", "--rate", str(rate))
    return [first, node_command("mock_sim", **sim)]


class Collector:
    """The stamps of joint_command."""

    def __init__(self, node: Any) -> None:
        """Subscribe with a queue that holds what comes between two looks."""
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState

        from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription

        self._subscription: Any = PolledSubscription(
            node, JointState, "joint_command", QoSProfile(depth=2000)
        )
        self.moved = 0.0

    def stamps(self, seconds: float) -> list[int]:
        """Return the stamps of what was sent during some time [ns]."""
        from motion_nodes.ros.joint_topics import stamp_ns

        found: list[int] = []
        places: list[float] = []
        self._subscription.drop()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(LOOK)
            for message in self._subscription.all():
                found.append(stamp_ns(message))
                places.append(message.position[0])
        self.moved = max(places, default=0.0) - min(places, default=0.0)
        return found

    def close(self) -> None:
        """Unsubscribe."""
        self._subscription.destroy()


def measure(way: str, rate: float, seconds: float) -> dict[str, Any]:
    """Return periods [ms] and CPU share [%] of one way at one rate."""
    import rclpy
    from goal_client import GoalClient

    progress(f"articulation loop: {way} at {rate:.0f} Hz, {seconds:g} s")
    motion = Sine(seconds + SETTLE + 3.0)
    times, (q, v, _) = motion.points(POINT_RATE)
    with running(*commands(way, rate)) as children:
        children[0].wait_for("ready" if way == USUAL else "joint_trajectory_controller]: conf")
        node = rclpy.create_node("bench_articulation_loop")
        client, collector = GoalClient(node), Collector(node)
        client.wait_for_servers()
        start_moving(client)
        goal = client.send(trajectory_message(times, q, v))
        client.spin(SETTLE)
        share = CpuShare([child.pid for child in children])
        stamps = collector.stamps(seconds)
        cpu = share.end()
        if goal.ended or collector.moved < 0.1:
            text = goal.text if goal.result is not None else "rejected, or nothing moved"
            raise RuntimeError(f"the trajectory was not followed: {text}")
        client.wait(lambda: goal.handle is not None, "an answer")
        client.wait(goal.handle.cancel_goal_async().done, "the cancellation")
        collector.close()
        client.close()
        node.destroy_node()
    periods = [(b - a) * 1e-6 for a, b in itertools.pairwise(stamps)]
    late = sum(period > 1.5e3 / rate for period in periods)
    return {
        "period": Spread.of(periods), "cpu": [cpu[child.pid] for child in children],
        "rate": (len(stamps) - 1) / ((stamps[-1] - stamps[0]) * 1e-9),
        "late": 100.0 * late / len(periods),
    }  # fmt: skip


def start_moving(client: Any) -> None:
    """Send short moves until one succeeds: the robot's state is not known at once."""
    for _ in range(20):
        goal = client.finish(client.send(move(HOME, 0.2)))
        if goal.result is not None and goal.code == 0:
            return
        client.spin(0.5)
    raise RuntimeError(f"the controller takes no goals: {goal.text}")


def show(report: Report, results: dict[tuple[str, float], dict[str, Any]]) -> None:
    """Print the table."""
    rows: list[list[Cell]] = []
    for rate in sorted({rate for _, rate in results}):
        peer = results[USUAL, rate]
        for way in WAYS:
            r = results[way, rate]
            period: Spread = r["period"]
            rows.append([f"{way}, {rate:.0f} Hz", r["rate"], period.p50, period.p99,
                         period.maximum, r["late"], r["cpu"][0],
                         r["cpu"][1] if len(r["cpu"]) > 1 else None, sum(r["cpu"]),
                         ratio(sum(r["cpu"]), sum(peer["cpu"])),
                         ratio(period.p99, peer["period"].p99)])  # fmt: skip
    report.table(
        "The controller's loop while it follows a trajectory",
        ["", "achieved [Hz]", "period p50 [ms]", "p99 [ms]", "max [ms]", "over 1.5 periods [%]",
         "CPU controller [% of a core]", "CPU mock_sim", "CPU together", "CPU / usual",
         "p99 / usual"],
        rows,
        "Periods: differences of the stamps of joint_command, the moments at which ticks began.",
    )  # fmt: skip


def main() -> None:
    """Measure all ways at all rates."""
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[250.0, 500.0, 1000.0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    options = parser.parse_args()
    isolate()
    import rclpy

    report = Report("Articulation controller: period and CPU along a trajectory")
    rclpy.init(args=[])
    results = {
        (way, rate): measure(way, rate, options.seconds) for rate in options.rates for way in WAYS
    }
    rclpy.shutdown()
    show(report, results)
    report.write(options.json)


if __name__ == "__main__":
    main()

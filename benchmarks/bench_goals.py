# SPDX-License-Identifier: Apache-2.0
"""How soon an action goal moves the arm, and whether many goals leave anything behind.

Run: ``python benchmarks/bench_goals.py`` (three minutes; ``--goals N``).

Latency: a goal is sent at a random moment to an arm at rest; the first joint_command that moves
ends the time, taken by a probe that waits in the middleware. Round trips are those of an ordinary
client. Soak: goals that complete, preempt each other, are canceled or are bad (``goal_soak.py``);
after a warm-up, memory, file handles, threads and graph entities of the controller's process must
not grow. Exit code 1 when handles, threads or entities have. The peer is ``usual_trajectory.py``.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from arm_motions import ARM, HOME, move
from bench_articulation_loop import start_moving
from child_processes import (
    Child,
    isolate,
    memory,
    node_command,
    running,
    script_command,
    threads,
)
from report import Cell, Report, Spread, arguments, progress, ratio

OURS, USUAL = "motion_nodes", "usual way"
CONTROLLER = "joint_trajectory_controller"
DURATION = 0.2
"""[s] of the moves whose latency is measured."""
LOST = 2.0
"""[s] A goal without effect for so long counts as lost."""
MOVED = 1e-9
"""[rad]"""
WARM_UP = 100
"""Goals before the first look of the soak."""
SETTLE = 1.0
"""[s] Before each look."""


def commands(way: str, rate: float) -> list[list[str]]:
    """Return the controller's process and the simulation's; both on wall time."""
    sim = node_command("mock_sim", robots=["franka"], update_rate=rate, publish_clock=False)
    if way == USUAL:
        return [script_command("usual_trajectory.py", "--rate", str(rate)), sim]
    return [node_command("articulation_controller", robot="franka", update_rate=rate), sim]


class Rig:
    """A running controller and a client of it."""

    def __init__(self, node: Any, child: Child) -> None:
        """Connect, and wait until goals move the arm."""
        from goal_client import GoalClient

        self.node, self.child = node, child
        self.client = GoalClient(node)
        self.client.wait_for_servers()
        start_moving(self.client)

    def latencies(self, count: int, period: float) -> dict[str, Any]:
        """Return spreads of goal -> first moving command, answer and late result [ms]."""
        from state_probe import StateProbe

        probe = StateProbe(self.node, "joint_command")
        moments = random.Random(0)
        first, answer, late, lost = [], [], [], 0
        for i in range(count):
            goal = move(HOME + (0.0 if i % 2 else 0.02), DURATION)
            self.client.spin(0.05 + moments.uniform(0.0, period))
            found = self._first_move(probe, goal)
            lost += found is None
            first += [found] if found is not None else []
        probe.close()
        start_moving(self.client)
        for i in range(count):
            self.client.spin(0.05 + moments.uniform(0.0, period))
            sent = self.client.send(move(HOME + (0.0 if i % 2 else 0.02), DURATION))
            self.client.finish(sent)
            if sent.code:
                raise RuntimeError(f"a goal failed: {sent.text}")
            answer.append((sent.answered - sent.sent) * 1e-6)
            late.append((sent.ended - sent.sent) * 1e-6 - 1e3 * DURATION)
        return {"first": Spread.of(first), "answer": Spread.of(answer),
                "late": Spread.of(late), "lost": lost}  # fmt: skip

    def _first_move(self, probe: Any, trajectory: Any) -> float | None:
        probe.wait()
        probe.wait(0.0)
        rest = np.array([probe.position(joint) for joint in ARM])
        sent = self.client.send(trajectory)
        found = None
        while found is None and time.monotonic_ns() - sent.sent < LOST * 1e9:
            woke, (messages,) = probe.wait()
            for message in messages:
                if np.abs(np.array(message.position[: len(ARM)]) - rest).max() > MOVED:
                    found = (woke - sent.sent) * 1e-6
                    break
        self.client.finish(sent)
        return found

    def look(self) -> dict[str, float]:
        """Return what the controller's process holds now."""
        self.client.spin(SETTLE)
        self.child.check()
        pid = self.child.pid
        now = memory(pid)
        return {"rss": now.rss, "pss": now.pss, "threads": threads(pid),
                "handles": len(list(Path(f"/proc/{pid}/fd").iterdir())),
                "entities": self._entities()}  # fmt: skip

    def _entities(self) -> int:
        """Count endpoints of the controller in the graph, those of its actions among them."""
        node = self.node
        total = 0
        for topic, _ in node.get_topic_names_and_types():
            for found in (node.get_publishers_info_by_topic(topic),
                          node.get_subscriptions_info_by_topic(topic)):  # fmt: skip
                total += sum(info.node_name == CONTROLLER for info in found)
        for ask in (node.get_service_names_and_types_by_node,
                    node.get_client_names_and_types_by_node):  # fmt: skip
            total += sum(len(kinds) for _, kinds in ask(CONTROLLER, "/"))
        return total

    def soak(self, goals: int, every: int, *, gripper: bool) -> dict[str, Any]:
        """Return what the process holds before, during and after many goals."""
        from goal_soak import Soak

        soak = Soak(self.client, seed=1, gripper=gripper)
        self.client.wait_for_servers()
        soak.run_to(WARM_UP)
        looks = [(0, self.look())]
        begin, start = time.monotonic(), soak.count
        while soak.count - start < goals:
            soak.run_to(min(soak.count + every, start + goals))
            looks.append((soak.count - start, self.look()))
            progress(f"soak: {looks[-1]}")
        return {"looks": looks, "sent": dict(soak.sent), "seconds": time.monotonic() - begin}


def measure(way: str, options: Any) -> dict[str, Any]:
    """Return all figures of one way."""
    import rclpy

    progress(f"goals: {way} at {options.rate:.0f} Hz")
    found: dict[str, Any] = {}
    with running(*commands(way, options.rate)) as children:
        children[0].wait_for("ready" if way == USUAL else "configured in")
        node = rclpy.create_node("bench_goals")
        rig = Rig(node, children[0])
        if options.count:
            found["latency"] = rig.latencies(options.count, 1.0 / options.rate)
        if options.goals and (way == OURS or options.peer_soak):
            found["soak"] = rig.soak(options.goals, max(options.goals // 5, 1),
                                     gripper=way == OURS)  # fmt: skip
        rig.client.close()
        node.destroy_node()
    return found


def show_latency(report: Report, results: dict[str, dict[str, Any]], period: float) -> None:
    """Print the table of latencies."""
    rows: list[list[Cell]] = []
    for title, key in (("goal -> first moving joint_command", "first"),
                       ("goal -> its acceptance", "answer"),
                       ("goal -> result, less its duration", "late")):  # fmt: skip
        peer: Spread = results[USUAL]["latency"][key]
        for way, found in results.items():
            s: Spread = found["latency"][key]
            rows.append([f"{title}, {way}", s.p50, s.p99, s.maximum, ratio(s.p50, peer.p50),
                         ratio(s.p99, peer.p99), s.count])  # fmt: skip
    lost = {way: found["latency"]["lost"] for way, found in results.items()}
    report.table(
        "From goal to motion",
        ["", "p50 [ms]", "p99 [ms]", "max [ms]", "p50 / usual", "p99 / usual", "goals"],
        rows,
        f"Period of the loop: {1e3 * period:g} ms. Goals without effect within {LOST:g} s: {lost}.",
    )


def show_soak(report: Report, way: str, soak: dict[str, Any]) -> bool:
    """Print the table of a soak; return whether handles, threads or entities grew."""
    looks = soak["looks"]
    rows: list[list[Cell]] = [
        [str(count), *(f"{look[key]:.1f}" for key in ("rss", "pss")),
         *(int(look[key]) for key in ("handles", "threads", "entities"))]
        for count, look in looks
    ]  # fmt: skip
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(soak["sent"].items()))
    (_, first), (goals, last) = looks[0], looks[-1]
    per_goal = 1024.0 * (last["rss"] - first["rss"]) / max(goals, 1)
    grown = [key for key in ("handles", "threads", "entities") if last[key] > first[key]]
    report.table(
        f"Soak, {way}: what the controller's process holds",
        ["goals after the warm-up", "RSS [MB]", "PSS [MB]", "file handles", "threads",
         "graph entities"],
        rows,
        f"Goals, warm-up included: {kinds}; all ended as they had to. {soak['seconds']:.0f} s. "
        f"Growth of RSS: {per_goal:.2f} kB per goal. "
        f"Grown beside memory: {', '.join(grown) or 'nothing'}.",
    )  # fmt: skip
    return bool(grown)


def main() -> None:
    """Measure both ways."""
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=float, default=250.0, help="[Hz]")
    parser.add_argument("--count", type=int, default=100, help="goals per latency; 0: none")
    parser.add_argument("--goals", type=int, default=1000, help="goals of the soak; 0: none")
    parser.add_argument("--peer-soak", action="store_true", help="soak the usual way as well")
    parser.add_argument("--only", choices=(OURS, USUAL), help="one way alone, without ratios")
    options = parser.parse_args()
    isolate()
    import rclpy

    report = Report(f"Action goals at {options.rate:.0f} Hz")
    rclpy.init(args=[])
    ways = (options.only,) if options.only else (OURS, USUAL)
    results = {way: measure(way, options) for way in ways}
    rclpy.shutdown()
    if options.count and not options.only:
        show_latency(report, results, 1.0 / options.rate)
    grown = [show_soak(report, way, found["soak"])
             for way, found in results.items() if "soak" in found]  # fmt: skip
    report.write(options.json)
    sys.exit(1 if any(grown) else 0)


if __name__ == "__main__":
    main()

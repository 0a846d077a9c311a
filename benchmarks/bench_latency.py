# SPDX-License-Identifier: Apache-2.0
"""From a joint command to the joint state that shows it, over DDS between processes.

Run: ``python benchmarks/bench_latency.py`` (one to two minutes).

A probe sends a small step of one joint at a random moment, either on ``joint_command`` (to the
simulation at once) or on the articulation controller's ``~/reference``, and waits for the first
``joint_states`` in which the joint has moved. The peer is ``usual_way.py``. A loop of period T that
looks at its commands once per tick cannot answer faster than T/2 on average, T at worst; through
the controller there are two such loops.
"""

from __future__ import annotations

import random
import time
from typing import Any

from child_processes import Child, isolate, node_command, running, script_command
from report import Cell, Report, Spread, arguments, gaps, progress, ratio

JOINT = "panda_joint4"
STEP = 5e-3
"""Size of the commanded step [rad], more than gravity bends the joint; steps go up and down by
turns, so that what is left of the last movement leads away from the goal as a rule."""
CALM = 0.002 * STEP
"""[rad] A joint that moves less from state to state is ready for the next step."""
CREEP = 1.5 * CALM
"""[rad] What a joint may still creep from state to state without counting as moved; MuJoCo's
Franka takes a tenth of a second to halve its error, so there is no waiting until it stands."""
MOVED = 2e-6
"""[rad] A joint that went so far in the commanded direction has moved."""
LOST = 1.0
"""[s] A command without effect for so long counts as lost."""
RESTARTS = 4
"""The controller is started so often, since the phase between its loop and the simulation's is
chance and stays: it may add anything from nothing to a period."""
CONTROLLER = "joint_trajectory_controller"
WAYS = ("mock_sim", "mujoco_sim", "usual way")


def commands(way: str, rate: float) -> list[list[str]]:
    """Return the processes of one way: the robot, and its controller."""
    if way == "usual way":
        return [script_command("usual_way.py", node, "--rate", str(rate))
                for node in ("sim", "controller")]  # fmt: skip
    return [
        node_command(way, robots=["franka"], update_rate=rate),
        node_command("articulation_controller", robot="franka", update_rate=rate,
                     use_sim_time=True),
    ]  # fmt: skip


class Probe:
    """Sends steps and waits for them."""

    def __init__(self, node: Any) -> None:
        """Create the endpoints."""
        from sensor_msgs.msg import JointState
        from state_probe import StateProbe

        from motion_nodes.ros import qos

        self.states = StateProbe(node, "joint_states")
        self.both = StateProbe(node, "joint_states", "joint_command")
        self.direct = node.create_publisher(JointState, "joint_command", qos.STREAM)
        self.through = node.create_publisher(JointState, f"{CONTROLLER}/reference", qos.STREAM)
        self._message = JointState(name=[JOINT], position=[0.0])
        self._random = random.Random(0)

    def wait_for_listener(self, publisher: Any) -> None:
        """Wait until somebody takes commands."""
        end = time.monotonic() + LOST * 20
        while publisher.get_subscription_count() == 0:
            if time.monotonic() > end:
                raise TimeoutError(f"nobody listens to {publisher.topic_name}")
            time.sleep(0.05)

    def latencies(self, publisher: Any, count: int, period: float) -> tuple[list[float], int]:
        """Return the latencies of some steps [ms], and how many had no effect."""
        self.wait_for_listener(publisher)
        home = self._at_rest()
        self._first_step(publisher, home)
        found, lost, sign = [], 0, -1.0
        for _ in range(count):
            before = self._at_rest()
            time.sleep(self._random.uniform(0.0, period))
            latency = self._step(publisher, home + max(sign, 0.0) * STEP, before, sign)
            if latency is None:
                lost += 1
            else:
                found.append(latency)
            sign = -sign
        return found, lost

    def _first_step(self, publisher: Any, home: float) -> None:
        """Repeat one step up until it has an effect: discovery ends later on the other side."""
        before = self._at_rest()
        for _ in range(20):
            if self._step(publisher, home + STEP, before, 1.0) is not None:
                return
        raise TimeoutError(f"commands on {publisher.topic_name} have no effect")

    def _step(self, publisher: Any, goal: float, before: float, sign: float) -> float | None:
        """Send one step, which leads in the direction of ``sign``; return its latency [ms]."""
        self._message.position[0] = goal
        behind, states = sign * before, 0
        self.states.wait(0.0)
        sent = time.monotonic_ns()
        publisher.publish(self._message)
        while time.monotonic_ns() - sent < LOST * 1e9:
            woke, (messages,) = self.states.wait()
            for message in messages:
                ahead = sign * message.position[message.name.index(JOINT)]
                states += 1
                if ahead > behind + MOVED + CREEP * states:
                    return (woke - sent) * 1e-6
        return None

    def _at_rest(self) -> float:
        """Wait until the joint hardly moves; return where it is."""
        calm, before = 0, self.states.position(JOINT)
        while calm < 3:
            now = self.states.position(JOINT)
            calm = calm + 1 if abs(now - before) < CALM else 0
            before = now
        return before


def measure(probe: Probe, way: str, rate: float, count: int, seconds: float) -> dict[str, Any]:
    """Return all figures of one way at one rate."""
    progress(f"latency: {way} at {rate:.0f} Hz")
    robot, controller = commands(way, rate)
    through: list[float] = []
    with running(robot) as children:
        wait_until_up(children[0], way)
        direct, lost = probe.latencies(probe.direct, count, 1.0 / rate)
        for restart in range(RESTARTS):
            with running(controller) as more:
                wait_until_up(more[0], way)
                found, more_lost = probe.latencies(probe.through, count // RESTARTS, 1.0 / rate)
                through += found
                lost += more_lost
                if restart == 0:
                    arrivals = probe.both.arrivals(seconds)
    return {
        "direct": Spread.of(direct), "through": Spread.of(through),
        "lost": lost, "arrivals": arrivals,
    }  # fmt: skip


def wait_until_up(child: Child, way: str) -> None:
    """Wait until a process serves."""
    child.wait_for("ready" if way == "usual way" else "configured in")


def show(report: Report, results: dict[tuple[str, float], dict[str, Any]]) -> None:
    """Print the tables."""
    rates = sorted({rate for _, rate in results})
    for which, title in (
        ("direct", "Command on joint_command -> joint_states"),
        ("through", "Command through the articulation controller -> joint_states"),
    ):
        rows: list[list[Cell]] = []
        for rate in rates:
            peer: Spread = results["usual way", rate][which]
            for way in WAYS:
                s: Spread = results[way, rate][which]
                rows.append([f"{way}, {rate:.0f} Hz", 1e3 / rate, s.p50, s.p99, s.maximum,
                             ratio(s.p50, peer.p50), ratio(s.p99, peer.p99), s.count])  # fmt: skip
        report.table(
            title,
            ["", "period [ms]", "p50 [ms]", "p99 [ms]", "max [ms]", "p50 / usual", "p99 / usual",
             "steps"],
            rows,
        )  # fmt: skip
    show_rates(report, results, rates)


def show_rates(
    report: Report, results: dict[tuple[str, float], dict[str, Any]], rates: list[float]
) -> None:
    """Print the achieved rates."""
    rows: list[list[Any]] = []
    for rate in rates:
        for way in WAYS:
            result = results[way, rate]
            for topic, times in zip(("joint_states", "joint_command"), result["arrivals"],
                                    strict=True):  # fmt: skip
                apart = gaps(times)
                elapsed = (times[-1] - times[0]) * 1e-9 if len(times) > 1 else float("nan")
                rows.append([f"{way}, {rate:.0f} Hz: {topic}", (len(times) - 1) / elapsed,
                             apart.p50, apart.p99, apart.maximum])  # fmt: skip
    lost = sum(result["lost"] for result in results.values())
    report.table(
        "Achieved rates, as another process receives them",
        ["", "rate [Hz]", "gap p50 [ms]", "gap p99 [ms]", "gap max [ms]"],
        rows,
        f"Steps without effect within {LOST:g} s, in all runs: {lost}.",
    )


def main() -> None:
    """Measure all ways at all rates."""
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[250.0, 500.0], help="[Hz]")
    parser.add_argument("--count", type=int, default=80, help="steps of each kind")
    parser.add_argument("--seconds", type=float, default=1.5, help="for the achieved rates")
    options = parser.parse_args()
    isolate()
    import rclpy

    report = Report("Latency: joint command to joint state")
    rclpy.init(args=[])
    node = rclpy.create_node("bench_latency")
    probe = Probe(node)
    results = {
        (way, rate): measure(probe, way, rate, options.count, options.seconds)
        for rate in options.rates
        for way in WAYS
    }
    node.destroy_node()
    rclpy.shutdown()
    show(report, results)
    report.write(options.json)


if __name__ == "__main__":
    main()

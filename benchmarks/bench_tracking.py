# SPDX-License-Identifier: Apache-2.0
"""How closely the Franka in MuJoCo follows trajectories that it is sent as action goals.

Run: ``python benchmarks/bench_tracking.py`` (45 s).

A goal's stamp says when it begins, so where each joint should be at the stamp of a joint_states
message is known in closed form; controller_state tells what the controller's reference was. The
delay is the one that explains the error best (least squares over all joints): what a robot that
follows the right path late would show. All times are simulated time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arm_motions import ARM, HOME, Array, Sine, Waypoints, move, trajectory_message
from child_processes import isolate, node_command, running
from report import Cell, Report, arguments, progress

LEAD = 0.5
"""[s] A goal begins so long after it was sent."""
MICRO = 1e6


class Record:
    """Stamps [s] and the arm's joint positions [rad] of one topic."""

    def __init__(self) -> None:
        """Begin empty."""
        self.stamps: list[float] = []
        self.rows: list[list[float]] = []

    def add(self, stamp: Any, names: list[str], positions: Any) -> None:
        """Keep the arm's positions of a message."""
        if list(names[: len(ARM)]) != list(ARM):
            raise RuntimeError(f"joints in another order: {names}")
        self.stamps.append(stamp.sec + 1e-9 * stamp.nanosec)
        self.rows.append(list(positions[: len(ARM)]))

    def between(self, begin: float, end: float) -> tuple[Array, Array]:
        """Return stamps and positions of a span of time."""
        times, rows = np.array(self.stamps), np.array(self.rows)
        inside = (times >= begin) & (times <= end)
        return times[inside], rows[inside]


class Listener:
    """Records joint_states and the controller's state, losing nothing."""

    def __init__(self, node: Any) -> None:
        """Subscribe."""
        from control_msgs.msg import JointTrajectoryControllerState
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState

        self.states, self.references = Record(), Record()
        deep = QoSProfile(depth=2000)
        node.create_subscription(JointState, "joint_states", self._hear_state, deep)
        node.create_subscription(
            JointTrajectoryControllerState, "joint_trajectory_controller/controller_state",
            self._hear_report, deep,
        )  # fmt: skip

    def clear(self) -> None:
        """Forget all."""
        self.states, self.references = Record(), Record()

    def _hear_state(self, message: Any) -> None:
        self.states.add(message.header.stamp, message.name, message.position)

    def _hear_report(self, message: Any) -> None:
        self.references.add(message.header.stamp, message.joint_names, message.reference.positions)


def delay_of(motion: Any, times: Array, measured: Array) -> tuple[float, Array]:
    """Return the delay [s] that explains measured positions best, and the errors left with it."""
    delay = 0.0
    for _ in range(20):
        wanted, speed, _ = motion(times - delay)
        change = float(((wanted - measured) * speed).sum() / (speed**2).sum())
        delay += change
        if abs(change) < 1e-9:
            break
    return delay, measured - motion(times - delay)[0]


def rms(errors: Array) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt((errors**2).mean()))


def compare(motion: Any, states: tuple[Array, Array], references: tuple[Array, Array],
            begin: float) -> dict[str, Any]:  # fmt: skip
    """Return the errors of one run; ``begin`` is the stamp of its start [s]."""
    times, measured = states[0] - begin, states[1]
    error = measured - motion(times)[0]
    delay, left = delay_of(motion, times, measured)
    reference_error = references[1] - motion(references[0] - begin)[0]
    reference_delay, reference_left = delay_of(motion, references[0] - begin, references[1])
    led = np.column_stack(
        [np.interp(states[0], references[0], references[1][:, j]) for j in range(len(ARM))]
    )
    return {
        "error": error, "delay": delay, "left": left, "reference": reference_error,
        "reference_delay": reference_delay, "reference_left": reference_left,
        "to_reference": measured - led, "count": len(times), "steps": np.diff(references[0]),
    }  # fmt: skip


def measure(client: Any, listener: Listener, motion: Any, cubic: bool) -> dict[str, Any]:
    """Let the arm follow one motion, and return its errors."""
    done = client.finish(client.send(move(HOME, 2.0)))
    if done.code:
        raise RuntimeError(f"the way to the start failed: {done.text}")
    client.spin(0.5)
    times, (q, v, a) = motion.points()
    message = trajectory_message(times, q, v, None if cubic else a)
    listener.clear()
    client.wait(lambda: listener.states.stamps, "joint_states")
    begin = listener.states.stamps[-1] + LEAD
    goal = client.finish(client.send(message, round(begin * 1e9)))
    client.spin(0.1)
    end = begin + motion.duration
    result = compare(motion, listener.states.between(begin, end),
                     listener.references.between(begin, end), begin)  # fmt: skip
    result["code"], result["text"] = goal.code, goal.text
    return result


def measure_interface(interface: str, rate: float, seconds: float) -> dict[str, Any]:
    """Return the errors of all motions with one command interface."""
    import rclpy
    from goal_client import GoalClient

    progress(f"tracking: command_interface {interface} at {rate:.0f} Hz")
    settings: dict[str, Any] = {"command_interface": interface, "state_publish_rate": rate}
    with running(
        node_command("mujoco_sim", robots=["franka"], update_rate=rate),
        node_command("articulation_controller", robot="franka", update_rate=rate,
                     use_sim_time=True, **settings),
    ) as children:  # fmt: skip
        for child in children:
            child.wait_for("configured in")
        node = rclpy.create_node("bench_tracking")
        client, listener = GoalClient(node), Listener(node)
        client.wait_for_servers()
        client.wait(lambda: listener.references.stamps, "the controller's state")
        results = {
            "sine": measure(client, listener, Sine(seconds), cubic=True),
            "waypoints": measure(client, listener, Waypoints(), cubic=False),
        }
        client.close()
        node.destroy_node()
    return results


def show(report: Report, results: dict[str, dict[str, Any]]) -> None:
    """Print the tables."""
    rows: list[list[Cell]] = []
    parts: list[list[Cell]] = []
    for (motion, interface), r in runs(results):
        rows.append([f"{motion}, {interface}", MICRO * float(np.abs(r["error"]).max()),
                     MICRO * rms(r["error"]), 1e3 * r["delay"], MICRO * rms(r["left"]),
                     MICRO * float(np.abs(r["left"]).max()), r["count"],
                     "reached" if r["code"] == 0 else f"code {r['code']}"])  # fmt: skip
        parts.append([f"{motion}, {interface}", MICRO * float(np.abs(r["reference"]).max()),
                      MICRO * rms(r["reference"]), 1e3 * r["reference_delay"],
                      MICRO * rms(r["reference_left"]),
                      MICRO * float(np.abs(r["to_reference"]).max()),
                      MICRO * rms(r["to_reference"]), *uneven(r["steps"])])  # fmt: skip
    report.table(
        "Measured joints against the trajectory, all seven joints",
        ["", "max [µrad]", "RMS [µrad]", "delay [ms]", "RMS without it [µrad]", "max [µrad]",
         "states", "goal"],
        rows,
    )  # fmt: skip
    report.table(
        "Where it comes from: the controller's reference, and the robot behind it",
        ["", "reference max [µrad]", "RMS [µrad]", "delay [ms]", "RMS without it [µrad]",
         "robot - reference max [µrad]", "RMS [µrad]", "ticks without new time [%]",
         "longest step of time [ms]"],
        parts,
        "A negative delay is a lead. Ticks without new time: two ticks of the controller fell "
        "between two /clock messages, so the next step is twice as long.",
    )  # fmt: skip
    report.table(
        "Per joint: max / RMS [µrad]",
        ["", *(name.removeprefix("panda_") for name in ARM)],
        [[f"{motion}, {interface}",
          *(f"{MICRO * np.abs(e).max():.0f} / {MICRO * rms(e):.0f}" for e in r["error"].T)]
         for (motion, interface), r in runs(results)],
    )  # fmt: skip


def uneven(steps: Array) -> tuple[float, float]:
    """Return the share of ticks that saw no new time [%], and the longest step of time [ms]."""
    return 100.0 * float((steps <= 0.0).mean()), 1e3 * float(steps.max())


def runs(results: dict[str, dict[str, Any]]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """Return ((motion, interface), errors) in the tables' order."""
    return [((motion, interface), found[motion])
            for motion in ("sine", "waypoints")
            for interface, found in results.items()]  # fmt: skip


def main() -> None:
    """Measure both interfaces."""
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=float, default=250.0, help="of both loops [Hz]")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the sine")
    options = parser.parse_args()
    isolate()
    import rclpy

    report = Report(f"Tracking: the Franka in MuJoCo, both loops at {options.rate:.0f} Hz")
    rclpy.init(args=[])
    results = {
        interface: measure_interface(interface, options.rate, options.seconds)
        for interface in ("position", "effort")
    }
    rclpy.shutdown()
    show(report, results)
    report.write(options.json)


if __name__ == "__main__":
    main()

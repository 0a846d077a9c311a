# SPDX-License-Identifier: Apache-2.0
"""How even ``joint_command`` is while an arm is moved in every way, over DDS between processes.

Run: ``python benchmarks/bench_command_stream.py [--busy 4] [--seconds 20]`` (some minutes).

The bring-up of a Franka runs with MuJoCo, once in simulated time and once in the system's time (the
simulation then publishes no /clock, as a real arm). A process of its own records every message
while plans are carried out, a client streams references at uneven times, the reactive policy
follows targets that jump, joints are jogged, trajectories are canceled, and the gripper grips.
First and second differences of positions are shares of the velocity and acceleration limits: by
order, divided by the nominal period, and by stamp. ``--busy N`` loads the machine with N processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from child_processes import Child, isolate, running, script_command
from report import Cell, Report, arguments, progress
from stream_evenness import Evenness, evenness

from motion_nodes.bringup.compose import BringupConfig, commands_for, nodes_for
from motion_nodes.model.loader import load_robot
from motion_nodes.model.placement import parse_placements

PERIOD = 0.004  # [s]
SETTLING = 1.5  # [s] between two phases
COMPILING = 180.0  # [s] at most
CONTROLLER = "joint_trajectory_controller"
GRIPPER = "gripper_action_controller/gripper_cmd"
ROBOT = load_robot("franka")
GROUP = ROBOT.group("arm")
HOME = ROBOT.home[ROBOT.indices(GROUP.joints)]
DIFFERENCES = ("first_p99", "first_max", "second_p99", "second_max")


def commands(backend: str, simulated: bool) -> list[list[str]]:
    """Return the processes of a bring-up, the simulation in the system's time where asked."""
    config = BringupConfig(
        placements=parse_placements(["franka"]), backend=backend, viewer="none",
        use_sim_time=simulated,
    )  # fmt: skip
    specs = []
    for spec in nodes_for(config):
        if spec.executable.endswith("_sim"):
            given = {**spec.parameters, "publish_clock": simulated}
            spec = dataclasses.replace(spec, parameters=given)
        specs.append(spec)
    return list(commands_for(specs, composed=True).values())


class Mover:
    """A client that moves the arm in every way."""

    def __init__(self, seconds: float) -> None:
        """Create its endpoints; each phase takes ``seconds``."""
        import rclpy
        from control_msgs.action import GripperCommand
        from control_msgs.msg import JointJog
        from geometry_msgs.msg import PoseStamped
        from goal_client import GoalClient
        from moveit_msgs.action import MoveGroup
        from sensor_msgs.msg import JointState
        from std_srvs.srv import Trigger

        rclpy.init(args=[])
        self.node = rclpy.create_node("bench_command_stream")
        self.goals = GoalClient(self.node)
        self.goals.add("move_action", MoveGroup)
        self.goals.add(GRIPPER, GripperCommand)
        self.references = self.node.create_publisher(JointState, f"{CONTROLLER}/reference", 10)
        self.targets = self.node.create_publisher(PoseStamped, "rmpflow_policy/reference", 10)
        self.jogs = self.node.create_publisher(JointJog, "servo_node/delta_joint_cmds", 10)
        self.clear = self.node.create_client(Trigger, "rmpflow_policy/clear_target")
        self._seconds = seconds
        self._random = random.Random(1)

    def wait_for_servers(self) -> None:
        """Wait until all that it moves with is there, which takes long on a busy machine."""
        names = ("move_group", "rmpflow_policy", CONTROLLER)
        self.goals.wait(lambda: set(names) <= set(self.node.get_node_names()), "nodes", COMPILING)
        self.goals.wait(
            lambda: self.references.get_subscription_count()
            and self.targets.get_subscription_count()
            and self.jogs.get_subscription_count(),
            "controller and policy", COMPILING,
        )  # fmt: skip
        self.goals.wait_for_servers()

    def close(self) -> None:
        """Leave."""
        import rclpy

        self.goals.close()
        self.node.destroy_node()
        rclpy.shutdown()

    def phases(self) -> dict[str, Callable[[], None]]:
        """Return what is done, by name."""
        return {
            "plans": self.plans, "uneven stream": self.stream, "RMPflow": self.policy,
            "jogging": self.jog, "stops": self.stops, "grips": self.grips,
        }  # fmt: skip

    def plans(self) -> None:
        """Move to configurations around home, by the planner."""
        from moveit_msgs.action import MoveGroup
        from moveit_msgs.msg import Constraints, JointConstraint

        for q in self._turns():
            goal = MoveGroup.Goal()
            asked = goal.request
            asked.group_name, asked.allowed_planning_time = GROUP.name, 2.0
            asked.max_velocity_scaling_factor = asked.max_acceleration_scaling_factor = 1.0
            asked.goal_constraints = [Constraints(joint_constraints=[
                JointConstraint(joint_name=name, position=value)
                for name, value in zip(GROUP.joints, q.tolist(), strict=True)
            ])]  # fmt: skip
            # The first waits until the planner has compiled what it needs.
            self.goals.finish(self.goals.send_goal(goal, "move_action"), COMPILING)

    def stream(self) -> None:
        """Stream a sine with jitter, at 100 Hz on average, with some steps of positions alone."""
        from sensor_msgs.msg import JointState

        begin = time.monotonic()
        while (t := time.monotonic() - begin) < self._seconds:
            step = 0.2 if int(t) % 4 == 3 else 0.0
            q = HOME + 0.3 * np.sin(1.5 * t) + step
            message = JointState(name=list(GROUP.joints), position=q.tolist())
            if not step:
                message.velocity = [0.45 * float(np.cos(1.5 * t))] * len(q)
            self.references.publish(message)
            time.sleep(self._random.choice((0.001, 0.004, 0.008, 0.012, 0.025)))

    def policy(self) -> None:
        """Give the reactive policy targets that jump."""
        from geometry_msgs.msg import PoseStamped
        from std_srvs.srv import Trigger

        begin = time.monotonic()
        while time.monotonic() - begin < self._seconds:
            message = PoseStamped()
            place, turn = message.pose.position, message.pose.orientation
            place.x, place.y = 0.45, self._random.uniform(-0.25, 0.25)
            place.z = self._random.uniform(0.35, 0.6)
            turn.x, turn.w = 1.0, 0.0
            until = time.monotonic() + 1.2
            while time.monotonic() < until:
                self.targets.publish(message)
                time.sleep(0.02)
        self.goals.wait(self.clear.call_async(Trigger.Request()).done, "the target cleared")

    def jog(self) -> None:
        """Jog joints there and back, with pauses that let the command time out."""
        from control_msgs.msg import JointJog

        begin, sign = time.monotonic(), 1.0
        while time.monotonic() - begin < self._seconds:
            until = time.monotonic() + self._random.uniform(0.3, 1.0)
            names = self._random.sample(GROUP.joints, 2)
            while time.monotonic() < until:
                message = JointJog(joint_names=names, velocities=[0.8 * sign, -0.5 * sign])
                message.header.stamp = self.node.get_clock().now().to_msg()
                message.header.stamp.sec = message.header.stamp.nanosec = 0
                self.jogs.publish(message)
                time.sleep(0.02)
            time.sleep(self._random.choice((0.0, 0.4)))
            sign = -sign

    def stops(self) -> None:
        """Begin fast trajectories, and cancel or preempt them on the way."""
        for i, q in enumerate(self._turns()):
            goal = self.goals.send(_fast(q))
            self.goals.spin(self._random.uniform(0.15, 0.5))
            if i % 3 == 0 and goal.handle is not None:
                goal.handle.cancel_goal_async()
                self.goals.finish(goal, COMPILING)
            elif i % 3 == 1:
                self.goals.send(_fast(HOME))
                self.goals.spin(1.2)

    def grips(self) -> None:
        """Open and close the gripper, with and without a bound of its force."""
        from control_msgs.action import GripperCommand

        begin, i = time.monotonic(), 0
        while time.monotonic() - begin < self._seconds:
            goal = GripperCommand.Goal()
            goal.command.position = 0.0 if i % 2 else 0.04
            goal.command.max_effort = 20.0 if i % 4 > 1 else 0.0
            self.goals.finish(self.goals.send_goal(goal, GRIPPER), COMPILING)
            i += 1

    def home(self) -> None:
        """Go home and settle."""
        goal = self.goals.send(_fast(HOME, 2.5))
        self.goals.finish(goal, COMPILING)
        self.goals.spin(SETTLING)

    def _turns(self) -> Iterator[np.ndarray]:
        begin, away = time.monotonic(), True
        while time.monotonic() - begin < self._seconds:
            spread = np.array([self._random.uniform(-0.6, 0.6) for _ in HOME])
            yield HOME + spread * away
            away = not away


def _fast(q: np.ndarray, seconds: float = 0.9) -> Any:
    """Return a trajectory from where the arm is to a configuration at rest."""
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    point = JointTrajectoryPoint(positions=q.tolist(), velocities=[0.0] * len(q))
    point.accelerations = [0.0] * len(q)
    point.time_from_start.sec, nanoseconds = divmod(round(seconds * 1e9), 1_000_000_000)
    point.time_from_start.nanosec = nanoseconds
    return JointTrajectory(joint_names=list(GROUP.joints), points=[point])


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Load the machine with processes that only compute."""
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for load in loads:
            load.kill()
            load.wait()


def measure(simulated: bool, options: Any) -> list[tuple[str, Evenness]]:
    """Return what was recorded in each phase."""
    what = "simulated time" if simulated else "system time"
    progress(f"command stream: {what}, {options.busy} busy")
    with tempfile.TemporaryDirectory() as folder:
        file, spans = Path(folder) / "stream.npz", {}
        recorder = Child(script_command("stream_recorder.py", str(file)))
        try:
            recorder.wait_for("ready")
            with running(*commands(options.backend, simulated)):
                mover = Mover(options.seconds)
                mover.wait_for_servers()
                mover.goals.spin(5.0)
                with busy(options.busy):
                    for name, act in mover.phases().items():
                        if options.phases and name not in options.phases:
                            continue
                        mover.home()
                        begin = time.monotonic_ns()
                        act()
                        mover.goals.spin(SETTLING)
                        spans[name] = begin, time.monotonic_ns()
                mover.close()
        finally:
            recorder.stop()
        with np.load(file) as kept:
            record = dict(kept)
    if options.keep:
        np.savez(Path(options.keep) / f"{what.split()[0]}_{options.busy}.npz", **record)
    chosen = ROBOT.limits.select([str(name) for name in record["names"]])
    limits = chosen.velocity, chosen.acceleration
    rows = []
    for name, (begin, end) in spans.items():
        inside = (record["arrived"] > begin) & (record["arrived"] < end)
        found = evenness(record["stamps"][inside], record["positions"][inside],
                         record["velocities"][inside], PERIOD, limits)  # fmt: skip
        rows.append((f"{what}, {name}", found))
    return rows


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--busy", type=int, default=0, help="processes that load the machine")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase")
    parser.add_argument("--backend", default="mujoco", choices=("mujoco", "mock"))
    parser.add_argument("--phases", nargs="*", default=[], help="only these")
    parser.add_argument("--times", nargs="*", default=["simulated", "system"])
    parser.add_argument("--keep", default="", help="folder for what was recorded")
    options = parser.parse_args()
    isolate()
    report = Report("Evenness of the command stream")
    rows: list[list[Cell]] = []
    for simulated in (True, False):
        if ("simulated" if simulated else "system") not in options.times:
            continue
        for name, found in measure(simulated, options):
            by_order = [getattr(found.by_order, each) for each in DIFFERENCES]
            by_stamp = [getattr(found.by_stamp, each) for each in DIFFERENCES]
            rows.append([name, found.messages, found.repeated, found.doubled, found.gaps,
                         *by_order, *by_stamp])  # fmt: skip
    head = [f"{which} {what}" for which in ("order:", "stamp:")
            for what in ("v p99", "v max", "a p99", "a max")]  # fmt: skip
    report.table(
        f"joint_command, {options.busy} busy processes; differences as shares of the limits",
        ["", "messages", "repeated", "doubled", "gaps", *head],
        rows,
    )
    report.write(options.json)


if __name__ == "__main__":
    main()

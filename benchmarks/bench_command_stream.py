# SPDX-License-Identifier: Apache-2.0
"""How even ``joint_command`` is while an arm is moved in every way, over DDS between processes.

Run: ``python benchmarks/bench_command_stream.py [--busy 4] [--seconds 20]`` (some minutes).

The bring-up of a Franka runs with MuJoCo, once in simulated time and once in the system's time (the
simulation then publishes no /clock, as a real arm). A process of its own records every message
while plans are executed, a client streams references at uneven times, the reactive policy follows
targets that jump, joints are jogged, trajectories are canceled, and the gripper grips. First and
second differences of positions are shares of the velocity and acceleration limits: by order,
divided by the nominal period, and by stamp. ``--busy N`` loads the machine with N processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import rclpy
from control_msgs.action import FollowJointTrajectory, GripperCommand
from control_msgs.msg import JointJog
from geometry_msgs.msg import PoseStamped
from harness import Cell, Record, Recorder, Report, arguments, isolate, progress, running
from harness.clients import GRIPPER, MOVE, TRAJECTORY, Client, move_goal, plan_goal
from harness.processes import busy
from moveit_msgs.action import MoveGroup
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from stream_evenness import Evenness, evenness

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import commands_for
from motion_nodes.model.loader import load_robot
from motion_nodes.model.placement import parse_placements

PERIOD = 0.004  # [s]
SETTLING = 1.5  # [s] between two phases
COMPILING = 180.0  # [s] at most
CONTROLLER = "joint_trajectory_controller"
ROBOT = load_robot("franka")
GROUP = ROBOT.group("arm")
HOME = ROBOT.home[ROBOT.indices(GROUP.joints)]
PHASES = ("plans", "stream", "policy", "jog", "stops", "grips")  # methods of Mover
DIFFERENCES = {"v p99": "first_p99", "v max": "first_max", "a p99": "second_p99",
               "a max": "second_max"}  # fmt: skip


def commands(backend: str, simulated: bool) -> list[list[str]]:
    """Return the processes of a bring-up, the simulation in the system's time where requested."""
    config = BringupConfig(
        placements=parse_placements(["franka"]), backend=backend, viewer="none",
        use_sim_time=simulated,
    )  # fmt: skip
    specs = [
        dataclasses.replace(spec, parameters={**spec.parameters, "publish_clock": simulated})
        if spec.is_simulation else spec
        for spec in nodes_for(config)
    ]  # fmt: skip
    return list(commands_for(specs, composed=True).values())


class Mover:
    """A client that moves the arm in every way, each way for a number of seconds."""

    def __init__(self, seconds: float) -> None:
        """Create its endpoints."""
        node = rclpy.create_node("bench_command_stream")
        self.client = Client(node, **{TRAJECTORY: FollowJointTrajectory, MOVE: MoveGroup,
                                      GRIPPER: GripperCommand})  # fmt: skip
        self._references = node.create_publisher(JointState, f"{CONTROLLER}/reference", 10)
        self._targets = node.create_publisher(PoseStamped, "rmpflow_policy/reference", 10)
        self._jogs = node.create_publisher(JointJog, "servo_node/delta_joint_cmds", 10)
        self._clear = node.create_client(Trigger, "rmpflow_policy/clear_target")
        self._seconds = seconds
        self._random = random.Random(1)

    def wait(self) -> None:
        """Wait until all that it moves with is there, which takes long on a busy machine."""
        streams = (self._references, self._targets, self._jogs)
        self.client.wait(
            lambda: all(each.get_subscription_count() for each in streams), "nodes", COMPILING
        )
        self.client.wait_for_servers(COMPILING)

    def plans(self) -> None:
        """Move to configurations around home, by the planner."""
        scaling = {"max_velocity_scaling_factor": 1.0, "max_acceleration_scaling_factor": 1.0}
        for q in self._turns():
            goal = plan_goal(GROUP.name, GROUP.joints, q, allowed_planning_time=2.0, **scaling)
            # The first waits until the planner has compiled what it needs.
            self.client.finish(MOVE, goal, COMPILING)

    def stream(self) -> None:
        """Stream a sine with jitter, at 100 Hz on average, with some steps of positions alone."""
        for t in self._times():
            step = 0.2 if int(t) % 4 == 3 else 0.0
            q = HOME + 0.3 * np.sin(1.5 * t) + step
            message = JointState(name=list(GROUP.joints), position=q.tolist())
            if not step:
                message.velocity = [0.45 * float(np.cos(1.5 * t))] * len(q)
            self._references.publish(message)
            time.sleep(self._random.choice((0.001, 0.004, 0.008, 0.012, 0.025)))

    def policy(self) -> None:
        """Give the reactive policy targets that jump."""
        for _ in self._times():
            message = PoseStamped()
            place, turn = message.pose.position, message.pose.orientation
            place.x, place.y = 0.45, self._random.uniform(-0.25, 0.25)
            place.z = self._random.uniform(0.35, 0.6)
            turn.x, turn.w = 1.0, 0.0
            self._repeat(self._targets, message, 1.2)
        self.client.call(self._clear, Trigger.Request())

    def jog(self) -> None:
        """Jog joints there and back, with pauses that let the command time out."""
        sign = 1.0
        for _ in self._times():
            names = self._random.sample(GROUP.joints, 2)
            message = JointJog(joint_names=names, velocities=[0.8 * sign, -0.5 * sign])
            self._repeat(self._jogs, message, self._random.uniform(0.3, 1.0))
            time.sleep(self._random.choice((0.0, 0.4)))
            sign = -sign

    def stops(self) -> None:
        """Begin fast trajectories, and cancel or preempt them on the way."""
        for i, q in enumerate(self._turns()):
            goal = self.client.send(TRAJECTORY, move_goal(GROUP.joints, q, 0.9))
            self.client.spin(self._random.uniform(0.15, 0.5))
            if i % 3 == 0 and goal.handle is not None:
                goal.handle.cancel_goal_async()
                self.client.wait(lambda goal=goal: goal.ended, "a canceled goal", COMPILING)
            elif i % 3 == 1:
                self.client.send(TRAJECTORY, move_goal(GROUP.joints, HOME, 0.9))
                self.client.spin(1.2)

    def grips(self) -> None:
        """Open and close the gripper, with and without a bound of its force."""
        for i, _ in enumerate(self._times()):
            goal = GripperCommand.Goal()
            goal.command.position = 0.0 if i % 2 else 0.04
            goal.command.max_effort = 20.0 if i % 4 > 1 else 0.0
            self.client.finish(GRIPPER, goal, COMPILING)

    def home(self) -> None:
        """Go home and settle."""
        self.client.finish(TRAJECTORY, move_goal(GROUP.joints, HOME, 2.5), COMPILING)
        self.client.spin(SETTLING)

    def _times(self) -> Iterator[float]:
        begin = time.monotonic()
        while (t := time.monotonic() - begin) < self._seconds:
            yield t

    def _turns(self) -> Iterator[np.ndarray]:
        for i, _ in enumerate(self._times()):
            spread = np.array([self._random.uniform(-0.6, 0.6) for _ in HOME])
            yield HOME + spread * (i % 2 == 0)

    def _repeat(self, publisher: Any, message: Any, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            publisher.publish(message)
            time.sleep(0.02)


def recorded(simulated: bool, options: Any) -> tuple[Record, dict[str, tuple[int, int]]]:
    """Return all messages of a run, and when each phase began and ended."""
    spans = {}
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(Recorder("joint_command"))
        stack.enter_context(running(*commands(options.backend, simulated)))
        mover = Mover(options.seconds)
        mover.wait()
        mover.client.spin(5.0)
        with busy(options.busy):
            for name in options.phases:
                mover.home()
                begin = time.monotonic_ns()
                getattr(mover, name)()
                mover.client.spin(SETTLING)
                spans[name] = begin, time.monotonic_ns()
        mover.client.close()
        return recorder.stop()["joint_command"], spans


def measure(simulated: bool, options: Any) -> list[tuple[str, Evenness]]:
    """Return the evenness of each phase."""
    what = "simulated time" if simulated else "system time"
    progress(f"command stream: {what}, {options.busy} busy")
    record, spans = recorded(simulated, options)
    chosen = ROBOT.limits.select(list(record.names))
    rows = []
    for name, span in spans.items():
        part = record.between(*span)
        whole = np.isfinite(part.v).all(axis=1)
        limits = chosen.velocity, chosen.acceleration
        found = evenness(part.stamps[whole], part.q[whole], part.v[whole], PERIOD, limits)
        rows.append((f"{what}, {name}", found))
    return rows


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--busy", type=int, default=0, help="processes that load the machine")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase")
    parser.add_argument("--backend", default="mujoco", choices=("mujoco", "mock"))
    parser.add_argument("--phases", nargs="*", default=PHASES, choices=PHASES, help="only these")
    parser.add_argument("--times", nargs="*", default=["simulated", "system"])
    options = parser.parse_args()
    isolate()
    report = Report("Evenness of the command stream")
    rclpy.init(args=[])
    rows: list[list[Cell]] = []
    for time_of in options.times:
        for name, found in measure(time_of == "simulated", options):
            shares = [getattr(way, field) for way in (found.by_order, found.by_stamp)
                      for field in DIFFERENCES.values()]  # fmt: skip
            rows.append([name, found.messages, found.repeated, found.doubled, found.gaps, *shares])
    rclpy.shutdown()
    report.table(
        f"joint_command, {options.busy} busy processes; differences as shares of the limits",
        ["", "messages", "repeated", "doubled", "gaps",
         *(f"{way}: {name}" for way in ("order", "stamp") for name in DIFFERENCES)],
        rows,
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""How even the reactive policy's loop is, and what it costs: idle, and after a moving target.

Run: ``python benchmarks/bench_rmpflow_node.py`` (two minutes; ``--seconds 60`` for more).

The node follows a target that goes round in a circle, given at 30 Hz, among 50 obstacles, ten of
which are moved at 30 Hz; this process plays the owner of the planning scene. Policy, joint
controller (250 Hz) and a simulation without physics (250 Hz) are processes of their own and use
wall time, as with a real robot, so the stamp of a reference is the moment at which a tick began:
periods are differences of these stamps, whatever happens to the messages on their way. Without a
target the node shall send nothing and cost next to nothing.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from typing import Any

import numpy as np
from child_processes import CpuShare, isolate, node_command, running
from report import Cell, Report, Spread, arguments, progress

RATES = (250.0, 500.0, 1000.0)
OBSTACLES, MOVING = 50, 10
INPUT_RATE = 30.0
"""[Hz] Of the target and of the scene's changes."""
SETTLE = 3.0
"""[s] From the first target to the start of the measurement."""
CENTRE, RADIUS, SPEED = (0.45, 0.0, 0.45), 0.12, 0.1
"""[m], [m], [m/s] Of the target's circle."""


def commands(rate: float) -> list[list[str]]:
    """Return the processes, the policy's first."""
    sim = {"robots": ["franka"], "publish_clock": False}
    return [
        node_command("rmpflow_policy", robot="franka", update_rate=rate),
        node_command("articulation_controller", robot="franka"),
        node_command("mock_sim", **sim),
    ]


class Surroundings:
    """The planning scene, the target, and what the policy sends."""

    def __init__(self, node: Any) -> None:
        """Serve and publish."""
        from geometry_msgs.msg import PoseStamped
        from moveit_msgs.msg import PlanningScene
        from moveit_msgs.srv import GetPlanningScene
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState

        from motion_nodes.ros import qos
        from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription

        rng = np.random.default_rng(50)
        away = rng.normal(size=(OBSTACLES, 3))
        away *= (rng.uniform(0.6, 0.95, OBSTACLES) / np.linalg.norm(away, axis=1))[:, None]
        self._places = away
        self._scenes = node.create_publisher(PlanningScene, "monitored_planning_scene", qos.SCENES)
        self._service = node.create_service(
            GetPlanningScene, "get_planning_scene", self._answer, qos_profile=qos.ACTION_REQUESTS
        )
        self._targets = node.create_publisher(PoseStamped, "rmpflow_policy/reference", qos.STREAM)
        self._sent: Any = PolledSubscription(
            node, JointState, "joint_trajectory_controller/reference", QoSProfile(depth=2000)
        )

    def _scene(self, *, whole: bool) -> Any:
        """Return all obstacles, or where those that move are now, as the suite's owner says it."""
        from geometry_msgs.msg import Pose
        from moveit_msgs.msg import CollisionObject, PlanningScene
        from shape_msgs.msg import SolidPrimitive

        now, message = time.monotonic(), PlanningScene(name="bench", is_diff=not whole)
        message.robot_state.is_diff = not whole
        for i in range(OBSTACLES if whole else MOVING):
            item = CollisionObject(id=f"{i}")
            item.operation = CollisionObject.ADD if whole else CollisionObject.MOVE
            item.header.frame_id = "panda_link0"
            x, y, z = self._places[i].tolist()
            sway = 0.05 * math.sin(now + i) if i < MOVING else 0.0
            item.pose.position.x, item.pose.position.y, item.pose.position.z = x, y + sway, z
            item.pose.orientation.w = 1.0
            if whole:
                item.primitives = [SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.04])]
                item.primitive_poses = [Pose()]
            message.world.collision_objects.append(item)
        return message

    def _answer(self, _request: Any, response: Any) -> Any:
        response.scene = self._scene(whole=True)
        return response

    def stamps(self, seconds: float, *, target: bool) -> list[int]:
        """Move everything for a while; return the stamps of what was sent [ns]."""
        from geometry_msgs.msg import PoseStamped

        from motion_nodes.ros.joint_topics import stamp_ns

        found: list[int] = []
        self._sent.drop()
        begin = due = time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            self._scenes.publish(self._scene(whole=False))
            if target:
                turn = SPEED / RADIUS * now
                message = PoseStamped()
                p, r = message.pose.position, message.pose.orientation
                p.x = CENTRE[0] + RADIUS * math.cos(turn)
                p.y, p.z = CENTRE[1] + RADIUS * math.sin(turn), CENTRE[2]
                r.x, r.w = 1.0, 0.0
                self._targets.publish(message)
            found += [stamp_ns(message) for message in self._sent.all()]
            due += 1.0 / INPUT_RATE
            time.sleep(max(0.0, due - time.monotonic()))
        return found


def measure(rate: float, seconds: float) -> dict[str, Any]:
    """Return periods [ms] and CPU shares [%] at one rate."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor

    progress(f"rmpflow node at {rate:.0f} Hz, twice {seconds:g} s")
    with running(*commands(rate)) as children:
        children[0].wait_for("rmpflow_policy]: conf")
        children[1].wait_for("joint_trajectory_controller]: conf")
        node = rclpy.create_node("bench_rmpflow_node")
        around, executor = Surroundings(node), SingleThreadedExecutor()
        executor.add_node(node)
        thread = threading.Thread(target=executor.spin, daemon=True)
        thread.start()
        around.stamps(SETTLE, target=False)
        share = CpuShare([children[0].pid])
        sent_idle = len(around.stamps(seconds, target=False))
        idle = share.end()[children[0].pid]
        around.stamps(SETTLE, target=True)
        share = CpuShare([children[0].pid])
        stamps = around.stamps(seconds, target=True)
        busy = share.end()[children[0].pid]
        executor.shutdown()
        thread.join()
        node.destroy_node()
    if len(stamps) < 0.1 * rate * seconds:
        raise RuntimeError(f"only {len(stamps)} references in {seconds:g} s at {rate:g} Hz")
    periods = [(b - a) * 1e-6 for a, b in itertools.pairwise(stamps)]
    late = sum(period > 1.5e3 / rate for period in periods)
    return {
        "period": Spread.of(periods), "idle": idle, "busy": busy, "sent_idle": sent_idle,
        "rate": (len(stamps) - 1) / ((stamps[-1] - stamps[0]) * 1e-9),
        "late": 100.0 * late / len(periods),
        "step": 1e4 * busy * seconds / len(stamps),
    }  # fmt: skip


def show(report: Report, results: dict[float, dict[str, Any]]) -> None:
    """Print the table."""
    rows: list[list[Cell]] = []
    for rate, r in results.items():
        period: Spread = r["period"]
        rows.append([f"{rate:.0f} Hz", r["rate"], period.p50, period.p99, period.maximum,
                     r["late"], r["busy"], r["step"], r["idle"], r["sent_idle"]])  # fmt: skip
    report.table(
        f"The policy's loop after a moving target, {OBSTACLES} obstacles, {MOVING} of them moving",
        ["", "achieved [Hz]", "period p50 [ms]", "p99 [ms]", "max [ms]", "over 1.5 periods [%]",
         "CPU [% of a core]", "CPU per step [us]", "CPU without a target",
         "messages without a target"],
        rows,
        "Periods: differences of the stamps of references, the moments at which ticks began.",
    )  # fmt: skip


def main() -> None:
    """Measure at all rates."""
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    options = parser.parse_args()
    isolate()
    import rclpy

    report = Report("RMPflow: the node's period and CPU")
    rclpy.init(args=[])
    results = {rate: measure(rate, options.seconds) for rate in options.rates}
    rclpy.shutdown()
    show(report, results)
    report.write(options.json)


if __name__ == "__main__":
    main()

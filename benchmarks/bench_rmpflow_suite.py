# SPDX-License-Identifier: Apache-2.0
"""RMPflow as shipped: targets sent to the policy node of ``motion up`` from starts in the range.

Run: ``python benchmarks/bench_rmpflow_suite.py`` (40 targets, about ten minutes). It starts
``motion up ROBOT`` with its page and simulation; set ROS_DOMAIN_ID to keep it apart from others.

Starts and targets are those of ``bench_rmpflow_runs.py`` (whole range of the joints), by their
seeds. The planner brings the arm to the start, or the seed is left out; then the target goes to
``~/reference`` once. Arrived: ``~/status`` says so within the limit of simulated time. For targets
that did not arrive the last status is printed. The planning scene gets the simulation's floor
unless it has one, for starts are anywhere.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Pose, PoseStamped
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import CollisionObject, Constraints, JointConstraint, PlanningScene
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene
from rclpy.parameter import Parameter
from report import Report, Spread, arguments, progress
from rmpflow_arrivals import Start, draw_start
from shape_msgs.msg import SolidPrimitive
from std_srvs.srv import Trigger

from motion_nodes.model.loader import load_robot
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.ros.clients.action_clients import action_client
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.scene.checker import CollisionChecker

POLICY = "/rmpflow_policy"
UP_WITHIN, START_WITHIN = 240.0, 120.0  # [s] of wall time
WALL_FACTOR = 20.0
"""A simulation that is slower than this by the wall clock is given up on."""


class Suite:
    """A running suite, seen from outside."""

    def __init__(self, node: Any, robot: str) -> None:
        self._node, self._name = node, robot
        self.robot = load_robot(robot)
        self.status = ""
        self.modes: set[str] = set()
        self._target = node.create_publisher(PoseStamped, f"{POLICY}/reference", 10)
        node.create_subscription(DiagnosticStatus, f"{POLICY}/status", self._hear, 10)
        self._clear = node.create_client(Trigger, f"{POLICY}/clear_target")
        self._planner = action_client(node, MoveGroup, "/move_action")

    @property
    def now(self) -> float:
        """Simulated time [s]."""
        return float(self._node.get_clock().now().nanoseconds) * 1e-9

    def spin(self, until: Any, within: float) -> bool:
        """Serve until something is so; False when wall time is over [s]."""
        end = time.monotonic() + within
        while not until():
            if time.monotonic() > end:
                return False
            rclpy.spin_once(self._node, timeout_sec=0.02)
        return True

    def wait(self) -> bool:
        """Wait until all nodes are ready."""
        command = [sys.executable, "-m", "motion_nodes.cli.main", "wait", self._name]
        ready = subprocess.run([*command, "--timeout", str(UP_WITHIN)], check=False)
        return ready.returncode == 0 and self.spin(lambda: bool(self.status), UP_WITHIN)

    def add_floor(self) -> bool:
        """Add the simulation's floor to the planning scene, unless it has one."""
        known = self._node.create_client(GetPlanningScene, "/get_planning_scene")
        apply = self._node.create_client(ApplyPlanningScene, "/apply_planning_scene")
        asked = known.call_async(GetPlanningScene.Request())
        if not self.spin(asked.done, 20.0):
            return False
        objects = asked.result().scene.world.collision_objects
        if any("floor" in item.id or "ground" in item.id for item in objects):
            return True
        floor = CollisionObject(id="floor", operation=CollisionObject.ADD)
        floor.header.frame_id = self.robot.base_frame
        floor.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[4.0, 4.0, 0.1])]
        floor.primitive_poses = [Pose()]
        floor.pose.position.z = -0.05
        floor.pose.orientation.w = 1.0
        scene = PlanningScene(is_diff=True)
        scene.robot_state.is_diff = True
        scene.world.collision_objects = [floor]
        done = apply.call_async(ApplyPlanningScene.Request(scene=scene))
        return self.spin(done.done, 20.0) and bool(done.result().success)

    def clear(self) -> bool:
        """Have the policy forget its target and come to rest; return whether it did."""
        self._clear.call_async(Trigger.Request())
        return self.spin(lambda: self.status.partition(":")[0] in ("idle", "stopped"), 20.0)

    def to_start(self, start: Start) -> str:
        """Have the planner bring the arm to a start; return why it failed, or nothing."""
        if not self.clear():
            return f"the policy does not stop: {self.status}"
        group = self.robot.group("arm")
        goal = MoveGroup.Goal()
        goal.request.group_name = group.name
        goal.request.allowed_planning_time = 10.0
        goal.request.goal_constraints = [
            Constraints(
                joint_constraints=[
                    JointConstraint(
                        joint_name=name, position=float(q), tolerance_above=1e-3,
                        tolerance_below=1e-3, weight=1.0,
                    )
                    for name, q in zip(group.joints, start.q, strict=True)
                ]
            )
        ]  # fmt: skip
        sent = self._planner.send_goal_async(goal)
        if not self.spin(sent.done, START_WITHIN) or not sent.result().accepted:
            return "the planner does not accept the goal"
        done = sent.result().get_result_async()
        if not self.spin(done.done, START_WITHIN):
            return "the start was not reached in time"
        code = done.result().result.error_code
        return "" if code.val == 1 else str(code.message)

    def arrival(self, start: Start, limit: float) -> float | None:
        """Send a target; return when the policy says that it arrived [s], None for never."""
        message = PoseStamped(pose=pose_message(start.X_WT))
        message.header.frame_id = self.robot.base_frame
        self.modes.clear()
        self._target.publish(message)
        began = self.now
        left = self.spin(lambda: self.status.startswith("following"), 5.0 + limit)

        def over() -> bool:
            return self.status.startswith("arrived") or self.now > began + limit

        self.spin(over, WALL_FACTOR * limit)
        return self.now - began if left and self.status.startswith("arrived") else None

    def _hear(self, message: DiagnosticStatus) -> None:
        self.status = message.message
        self.modes.add(message.message.partition(":")[0])


def measure(robot: str, count: int, limit: float) -> list[Any]:
    """Return a row of the table."""
    policy = RmpflowPolicy(load_robot(robot), ignore_robot_state_updates=True)
    checker = CollisionChecker(policy.robot, policy.active_joints)
    times: list[float] = []
    sent = seed = escaped = 0
    with client_node("bench_rmpflow_suite") as node:
        node.set_parameters([Parameter("use_sim_time", value=True)])
        suite = Suite(node, robot)
        if not suite.wait():
            raise SystemExit("the suite does not come up")
        if not suite.add_floor():
            raise SystemExit("the planning scene does not take the floor")
        while sent < count and seed < 4 * count:
            start = draw_start(policy, checker, seed, wide=True)
            seed += 1
            trouble = suite.to_start(start)
            if trouble:
                progress(f"seed {seed - 1} left out: {trouble}")
                continue
            sent += 1
            took = suite.arrival(start, limit)
            escaped += "escaping" in suite.modes
            if took is None:
                progress(f"seed {seed - 1} did not arrive: {suite.status}")
            else:
                times.append(took)
    spread = Spread.of(times)
    return [
        robot, sent, seed - sent, 100.0 * len(times) / max(1, sent), escaped, spread.p50,
        spread.maximum,
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--targets", type=int, default=40)
    parser.add_argument("--robot", default="franka")
    parser.add_argument("--limit", type=float, default=15.0, metavar="SECONDS")
    parser.add_argument("--port", type=int, default=8080, help="of the suite's page")
    options = parser.parse_args()
    report = Report("RMPflow as shipped, over the running suite")
    command = [sys.executable, "-m", "motion_nodes.cli.main", "up", options.robot]
    up = subprocess.Popen([*command, "--port", str(options.port)], stdout=subprocess.DEVNULL)
    try:
        row = measure(options.robot, options.targets, options.limit)
    finally:
        up.terminate()
        up.wait(30.0)
    report.table(
        f"Targets from starts in the whole range, arrived within {options.limit:g} s",
        ["", "targets", "starts left out", "arrived [%]", "planner helped", "median [s]",
         "max [s]"],
        [row],
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
